//! One word that holds a collection's small form or points at its large one.
//!
//! A run that is embedded in its entry has no such word: the entry's header represents it. So a reference to a
//! `Compact` may point to a header; a bit distinguishes a header from both kinds of pointer. Such a reference is always
//! shared, and the header's address leads to the run. The reference itself does not give access beyond the header, so
//! the address becomes a pointer through the provenance that the entry's allocation has exposed.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

use crate::Packed;
use crate::entries::entry::{HAS_RUN, Header, run_of};

/// Set in the word of a large form. Both kinds of pointer are to multiples of 8 otherwise.
const LARGE: usize = 1;

/// Set in a header that represents a packed run.
const HEADER: usize = HAS_RUN as usize;

const _: () = assert!(HEADER < 8 && HEADER & LARGE == 0, "no pointer to a multiple of 8 has the mark");

/// A packed run of bytes, or a boxed `T`, in one word; or the header of an entry in which the run is embedded.
#[repr(transparent)]
pub struct Compact<T> {
    word: NonNull<u8>,
    owns: PhantomData<(Packed, Box<T>)>,
}

// SAFETY: owns a `Packed` or a `Box<T>`.
unsafe impl<T: Send> Send for Compact<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Compact<T> {}

/// What a [`Compact`] holds, to be read.
pub enum Form<'a, T> {
    /// The small form.
    Packed(&'a [u8]),
    /// The large one.
    Large(&'a T),
}

/// What a [`Compact`] holds, to be changed.
pub enum FormMut<'a, T> {
    /// The small form.
    Packed(&'a mut Packed),
    /// The large one.
    Large(&'a mut T),
}

impl<T> Compact<T> {
    const ALIGNED: () = assert!(align_of::<T>() > LARGE);

    /// Holds a packed run.
    #[inline]
    pub fn packed(packed: Packed) -> Self {
        let packed = ManuallyDrop::new(packed);
        // SAFETY: a `Packed` is one pointer that is not null; it is not dropped here.
        let word = unsafe { std::mem::transmute_copy::<ManuallyDrop<Packed>, NonNull<u8>>(&packed) };
        Compact { word, owns: PhantomData }
    }

    /// Points at the large form.
    pub fn large(large: Box<T>) -> Self {
        const { Self::ALIGNED };
        let word = NonNull::from(Box::leak(large)).cast::<u8>();
        Compact { word: word.map_addr(|addr| addr | LARGE), owns: PhantomData }
    }

    #[inline]
    fn is_header(&self) -> bool {
        self.word.addr().get() & HEADER != 0
    }

    /// The header that represents it.
    #[inline]
    fn header(&self) -> *const Header {
        debug_assert!(self.is_header());
        ptr::with_exposed_provenance(ptr::from_ref(self).addr())
    }

    #[inline]
    fn is_large(&self) -> bool {
        self.word.addr().get() & LARGE != 0
    }

    #[inline]
    fn large_ptr(&self) -> NonNull<T> {
        debug_assert!(self.is_large());
        // SAFETY: the address without the mark is that of a box, which is not 0.
        unsafe { NonNull::new_unchecked(self.word.as_ptr().map_addr(|addr| addr & !LARGE).cast()) }
    }

    /// What it holds. O(1).
    #[inline]
    pub fn form(&self) -> Form<'_, T> {
        if self.is_header() {
            // SAFETY: the mark says that this is the header of an entry with a run, which is borrowed as long as `self` is.
            Form::Packed(unsafe { run_of(self.header()) })
        } else if self.is_large() {
            // SAFETY: owned by `self`.
            Form::Large(unsafe { self.large_ptr().as_ref() })
        } else {
            Form::Packed(self.packed_ref())
        }
    }

    #[inline]
    fn packed_ref(&self) -> &Packed {
        debug_assert!(!self.is_header() && !self.is_large());
        // SAFETY: without a mark the word is a `Packed`.
        unsafe { &*(&raw const self.word).cast() }
    }

    /// What it holds, to be changed. O(1).
    #[inline]
    pub fn form_mut(&mut self) -> FormMut<'_, T> {
        debug_assert!(!self.is_header(), "a header is never changed as a collection");
        if self.is_large() {
            // SAFETY: owned by `self`.
            FormMut::Large(unsafe { self.large_ptr().as_mut() })
        } else {
            // SAFETY: without the mark the word is a `Packed`, and stays one that has no mark.
            FormMut::Packed(unsafe { &mut *(&raw mut self.word).cast() })
        }
    }

    /// The small form, if that is what it holds. O(1).
    #[inline]
    pub fn as_packed(&self) -> Option<&[u8]> {
        match self.form() {
            Form::Packed(packed) => Some(packed),
            Form::Large(_) => None,
        }
    }

    /// Takes the small form.
    pub fn into_packed(self) -> Option<Packed> {
        debug_assert!(!self.is_header(), "a header is only borrowed");
        if self.is_large() {
            return None;
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: without a mark the word is a `Packed`, and `self` is not dropped.
        Some(unsafe { (&raw const this.word).cast::<Packed>().read() })
    }

    /// Bytes that the small form has allocated; none where it is embedded in its entry, or where this is the large one.
    pub fn packed_bytes(&self) -> usize {
        if self.is_header() || self.is_large() { 0 } else { self.packed_ref().size_bytes() }
    }

    /// Prefetches a small form; returns a large one.
    #[inline]
    pub fn prefetch(&self) -> Option<&T> {
        if self.is_header() {
            // The entry's first two lines have been asked for already.
            // SAFETY: as in `form`; only the header is read.
            crate::keyspace::bucket::prefetch(unsafe { crate::entries::entry::last_byte(self.header()) });
            None
        } else if self.is_large() {
            // SAFETY: owned by `self`.
            Some(unsafe { self.large_ptr().as_ref() })
        } else {
            self.packed_ref().prefetch();
            None
        }
    }

    /// The large form, if that is what it holds. O(1).
    #[inline]
    pub fn as_large(&self) -> Option<&T> {
        match self.form() {
            Form::Large(large) => Some(large),
            Form::Packed(_) => None,
        }
    }
}

impl<T> Drop for Compact<T> {
    #[inline]
    fn drop(&mut self) {
        debug_assert!(!self.is_header(), "a header is only borrowed");
        // SAFETY: this is the last use of what `self` owns.
        unsafe {
            if self.is_large() {
                drop(Box::from_raw(self.large_ptr().as_ptr()));
            } else {
                (&raw mut self.word).cast::<Packed>().drop_in_place();
            }
        }
    }
}

impl<T> Default for Compact<T> {
    fn default() -> Self {
        Compact::packed(Packed::new())
    }
}

impl<T: Clone> Clone for Compact<T> {
    fn clone(&self) -> Self {
        match self.form() {
            Form::Packed(packed) => Compact::packed(Packed::from(packed)),
            Form::Large(large) => Compact::large(Box::new(large.clone())),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Compact<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.form() {
            Form::Packed(packed) => write!(f, "\"{}\"", packed.escape_ascii()),
            Form::Large(large) => large.fmt(f),
        }
    }
}

/// How the run of a collection that is a `Compact` gets in and out of an entry.
macro_rules! embedded {
    ($name:ident) => {
        impl crate::entries::embedded::Embedded for $name {
            #[inline]
            fn run(&self) -> Option<&[u8]> {
                self.0.as_packed()
            }

            #[inline]
            fn from_run(run: $crate::Packed) -> Self {
                $name(Compact::packed(run))
            }

            #[inline]
            fn into_run(self) -> Option<$crate::Packed> {
                self.0.into_packed()
            }

            #[inline]
            fn run_mut(&mut self) -> Option<&mut $crate::Packed> {
                match self.0.form_mut() {
                    FormMut::Packed(packed) => Some(packed),
                    FormMut::Large(_) => None,
                }
            }
        }
    };
}
pub(crate) use embedded;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_from_packed_to_large_and_back() {
        let mut compact = Compact::<Vec<u32>>::default();
        let FormMut::Packed(packed) = compact.form_mut() else { panic!("starts packed") };
        packed.push(&[b"abc"]);
        assert_eq!(format!("{compact:?}"), "\"abc\"");
        let copy = compact.clone();
        compact = Compact::large(Box::new(vec![1, 2]));
        let FormMut::Large(large) = compact.form_mut() else { panic!("large") };
        large.push(3);
        assert_eq!(compact.clone().as_large(), Some(&vec![1, 2, 3]));
        let Form::Packed(packed) = copy.form() else { panic!("packed") };
        assert_eq!(packed, b"abc");
        assert_eq!(size_of::<Option<Compact<Vec<u32>>>>(), size_of::<usize>());
    }
}

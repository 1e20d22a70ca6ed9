//! One word that holds a collection's small form or points at its large one.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::Packed;

/// Set in the word of a large form. Both kinds of pointer are to multiples of 8 otherwise.
const LARGE: usize = 1;

/// A packed run of bytes, or a boxed `T`, in one word.
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
    Packed(&'a Packed),
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
        if self.is_large() {
            // SAFETY: owned by `self`.
            Form::Large(unsafe { self.large_ptr().as_ref() })
        } else {
            // SAFETY: without the mark the word is a `Packed`.
            Form::Packed(unsafe { &*(&raw const self.word).cast() })
        }
    }

    /// What it holds, to be changed. O(1).
    #[inline]
    pub fn form_mut(&mut self) -> FormMut<'_, T> {
        if self.is_large() {
            // SAFETY: owned by `self`.
            FormMut::Large(unsafe { self.large_ptr().as_mut() })
        } else {
            // SAFETY: without the mark the word is a `Packed`, and stays one that has no mark.
            FormMut::Packed(unsafe { &mut *(&raw mut self.word).cast() })
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
            Form::Packed(packed) => Compact::packed(packed.clone()),
            Form::Large(large) => Compact::large(Box::new(large.clone())),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Compact<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.form() {
            Form::Packed(packed) => packed.fmt(f),
            Form::Large(large) => large.fmt(f),
        }
    }
}

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
        assert_eq!(&**packed, b"abc");
        assert_eq!(size_of::<Option<Compact<Vec<u32>>>>(), size_of::<usize>());
    }
}

//! A growable run of bytes behind one thin pointer: what small collections are packed into.
//!
//! ```text
//! length 4 | capacity 4 | bytes
//! ```
//!
//! Capacities are allocators' size classes, so no allocation wastes bytes, and growing is amortised.

use std::alloc::{self, Layout};
use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::{self, NonNull};

/// The most bytes a run can have.
pub const PACKED_LEN_MAX: usize = u32::MAX as usize - 64;

/// The fixed part of a run.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct Head {
    len: u32,
    capacity: u32,
}

const HEAD_LEN: usize = size_of::<Head>();

/// What a run without an allocation points at; it has no capacity, so it is never written.
static EMPTY: Head = Head { len: 0, capacity: 0 };

/// A growable run of bytes, one word wide. Reads as a slice. An empty one that was never grown has no allocation.
#[repr(transparent)]
pub struct Packed(NonNull<Head>);

// SAFETY: a `Packed` owns what it points at, plain bytes; the shared empty head is never written.
unsafe impl Send for Packed {}
// SAFETY: as above.
unsafe impl Sync for Packed {}

impl Packed {
    /// No bytes, no allocation.
    #[inline]
    pub const fn new() -> Self {
        // SAFETY: the address of a static is not null.
        Packed(unsafe { NonNull::new_unchecked((&raw const EMPTY).cast_mut()) })
    }

    /// No bytes, with room for `capacity`.
    pub fn with_capacity(capacity: usize) -> Self {
        let mut packed = Packed::new();
        packed.set_capacity(capacity);
        packed
    }

    #[inline]
    fn head(&self) -> Head {
        // SAFETY: always points at a head.
        unsafe { *self.0.as_ptr() }
    }

    #[inline]
    fn bytes(&self) -> *mut u8 {
        // SAFETY: the bytes begin right behind the head, at the end of its allocation if there are none.
        unsafe { self.0.add(1).cast::<u8>().as_ptr() }
    }

    /// Bytes that fit without another allocation.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.head().capacity as usize
    }

    /// Bytes allocated.
    #[inline]
    pub fn size_bytes(&self) -> usize {
        match self.capacity() {
            0 => 0,
            capacity => capacity + HEAD_LEN,
        }
    }

    /// Prefetches the first bytes, without reading any. O(1).
    #[inline]
    pub(crate) fn prefetch(&self) {
        crate::keyspace::bucket::prefetch(self.0.as_ptr());
    }

    /// Inserts `parts`, one after the other, at `at`. O(bytes behind `at` and in `parts`).
    ///
    /// # Panics
    /// When `at` is behind the end, or the run would pass [`PACKED_LEN_MAX`].
    pub fn insert(&mut self, at: usize, parts: &[&[u8]]) {
        self.splice(at..at, parts);
    }

    /// Appends `parts`, one after the other. Amortised O(bytes).
    ///
    /// # Panics
    /// When the run would pass [`PACKED_LEN_MAX`].
    #[inline]
    pub fn push(&mut self, parts: &[&[u8]]) {
        let end = self.len();
        self.splice(end..end, parts);
    }

    /// Replaces the bytes of a range by `parts`, one after the other. The capacity never shrinks
    /// ([`Packed::give_back`]). O(bytes from the range's start on).
    ///
    /// # Panics
    /// When the range is not within the run, or the run would pass [`PACKED_LEN_MAX`].
    pub fn splice(&mut self, range: Range<usize>, parts: &[&[u8]]) {
        let len = self.len();
        assert!(range.start <= range.end && range.end <= len, "a range within the run");
        let added: usize = parts.iter().map(|part| part.len()).sum();
        let new_len = len - range.len() + added;
        if new_len > self.capacity() {
            self.set_capacity(new_len);
        }
        if new_len == 0 && self.capacity() == 0 {
            return;
        }
        // SAFETY: there is room for `new_len` bytes, and all of the first `len` are initialised; what stands behind
        // the range moves first, then the parts, which lie elsewhere, fill the gap.
        unsafe {
            let bytes = self.bytes();
            ptr::copy(bytes.add(range.end), bytes.add(range.start + added), len - range.end);
            let mut to = bytes.add(range.start);
            for part in parts {
                ptr::copy_nonoverlapping(part.as_ptr(), to, part.len());
                to = to.add(part.len());
            }
            (*self.0.as_ptr()).len = new_len as u32;
        }
    }

    /// Removes the bytes of a range. O(bytes behind its start).
    ///
    /// # Panics
    /// When the range is not within the run.
    #[inline]
    pub fn remove(&mut self, range: Range<usize>) {
        self.splice(range, &[]);
    }

    /// Gives back capacity that is far too large. O(1) if there is none.
    #[inline]
    pub(crate) fn give_back(&mut self) {
        if self.capacity() > 64 && capacity_for(self.len()) * 2 <= self.capacity() {
            self.set_capacity(self.len());
        }
    }

    /// Gives back what is allocated beyond the bytes there are.
    pub fn shrink_to_fit(&mut self) {
        if capacity_for(self.len()) < self.capacity() {
            self.set_capacity(self.len());
        }
    }

    /// Gives the run room for `capacity` bytes, at least as many as it has.
    fn set_capacity(&mut self, capacity: usize) {
        assert!(capacity <= PACKED_LEN_MAX, "a packed run is at most 4 GiB long");
        let Head { len, capacity: old } = self.head();
        debug_assert!(capacity >= len as usize);
        let new = capacity_for(capacity);
        if new == old as usize {
            return;
        }
        // SAFETY: an allocation there is has the layout of its capacity; a new one is at least as large as a head.
        unsafe {
            if new == 0 {
                self.free();
                self.0 = Packed::new().0;
                return;
            }
            let layout = layout(new);
            let raw = match old {
                0 => alloc::alloc(layout),
                old => alloc::realloc(self.0.as_ptr().cast(), self::layout(old as usize), layout.size()),
            };
            let Some(head) = NonNull::new(raw.cast::<Head>()) else { alloc::handle_alloc_error(layout) };
            head.write(Head { len, capacity: new as u32 });
            self.0 = head;
        }
    }

    /// # Safety
    /// The run is not used after this without a new pointer.
    unsafe fn free(&mut self) {
        let capacity = self.capacity();
        if capacity > 0 {
            // SAFETY: allocated with this layout; not used again, per the caller.
            unsafe { alloc::dealloc(self.0.as_ptr().cast(), layout(capacity)) };
        }
    }
}

/// The capacity that is allocated for `len` bytes: with the head it is a size class.
fn capacity_for(len: usize) -> usize {
    if len == 0 {
        return 0;
    }
    (size_class(len + HEAD_LEN) - HEAD_LEN).min(u32::MAX as usize)
}

/// The size of the allocator's block for `len` bytes: four steps for each power of two from 128 on, and multiples of 16
/// below.
#[inline]
pub(crate) fn size_class(len: usize) -> usize {
    let step = if len <= 128 { 16 } else { len.next_power_of_two() / 8 };
    len.next_multiple_of(step)
}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity + HEAD_LEN, align_of::<Head>()).expect("a run is far below isize::MAX")
}

impl Deref for Packed {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the first `len` bytes are initialised and ours.
        unsafe { std::slice::from_raw_parts(self.bytes(), self.head().len as usize) }
    }
}

impl DerefMut for Packed {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`; without bytes nothing is written.
        unsafe { std::slice::from_raw_parts_mut(self.bytes(), self.head().len as usize) }
    }
}

impl Drop for Packed {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this is the last use.
        unsafe { self.free() }
    }
}

impl Default for Packed {
    fn default() -> Self {
        Packed::new()
    }
}

impl Clone for Packed {
    fn clone(&self) -> Self {
        Packed::from(&**self)
    }
}

impl From<&[u8]> for Packed {
    fn from(bytes: &[u8]) -> Self {
        let mut packed = Packed::with_capacity(bytes.len());
        packed.push(&[bytes]);
        packed
    }
}

impl PartialEq for Packed {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Packed {}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_run_has_no_allocation() {
        let mut packed = Packed::new();
        assert_eq!((packed.len(), packed.size_bytes()), (0, 0));
        packed.splice(0..0, &[b""]);
        packed.deref_mut().fill(1);
        assert_eq!((packed.clone().size_bytes(), packed.size_bytes()), (0, 0));
        packed.push(&[b"a"]);
        packed.remove(0..1);
        assert_eq!(&*packed, b"");
    }

    #[test]
    fn splicing_is_as_in_a_vector() {
        let mut random = crate::random::Random::new(7);
        let mut packed = Packed::new();
        let mut model = Vec::new();
        for round in 0..if cfg!(miri) { 150 } else { 5_000 } {
            let start = random.below(model.len() + 1);
            let end = start + random.below(model.len() - start + 1);
            let part = vec![round as u8; random.below(40)];
            let end = if round % 3 == 0 { start } else { end };
            packed.splice(start..end, &[&part, b"x"]);
            model.splice(start..end, part.iter().copied().chain([b'x']));
            assert_eq!(&*packed, &model[..]);
            assert!(packed.capacity() >= packed.len());
        }
        let copy = packed.clone();
        packed.remove(0..packed.len());
        packed.shrink_to_fit();
        assert_eq!((packed.size_bytes(), &*copy), (0, &model[..]));
    }

    #[test]
    fn allocations_are_size_classes() {
        let total = |len| Packed::with_capacity(len).size_bytes();
        assert_eq!([1, 8, 9, 24, 120].map(total), [16, 16, 32, 32, 128]);
        assert_eq!([121, 152, 153, 500, 8_000].map(total), [160, 160, 192, 512, 8_192]);
    }
}

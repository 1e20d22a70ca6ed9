//! A bucket and its words: tagged pointers to entries, eight to a cache line.

use std::ptr::{self, NonNull};

use crate::Entry;
use crate::entries::entry::Header;
use crate::entries::entry_box::EntryBox;

/// Words in a bucket.
pub(super) const BUCKET_LEN: usize = 8;
pub(super) const LINK_INDEX: usize = BUCKET_LEN - 1;

const POINTER_BITS: u32 = 48;
/// Entries and buckets start at multiples of 8.
const LOW_BITS: u32 = 3;
const POINTER_MASK: usize = (1 << POINTER_BITS) - (1 << LOW_BITS);
/// The entry continues in the cache line after the one it starts in: both must be prefetched.
const IN_TWO_LINES: usize = 1;
pub(super) const TAG_SHIFT: u32 = 56;
/// The entry or a field of it has an expiry: the expiry scan reads no other entries.
const VOLATILE: usize = 1 << POINTER_BITS;
/// The pointer is to a bucket in overflow, not to an entry.
const LINK: usize = 1 << (POINTER_BITS + 1);

/// The upper bits of the entry's position: with them most entries move to a larger array without being read. Six are
/// above the pointer, two below it.
const PART_BITS: u32 = 8;
const PART_HIGH_SHIFT: u32 = POINTER_BITS + 2;
const PART_LOW_SHIFT: u32 = 1;
const PART_LOW_BITS: u32 = 2;
const PART_LOW: usize = (1 << PART_LOW_BITS) - 1;
const PART_MASK: usize = ((1 << TAG_SHIFT) - (1 << PART_HIGH_SHIFT)) | (PART_LOW << PART_LOW_SHIFT);

/// Bytes of a cache line.
const LINE_LEN: usize = 64;

/// Prefetches the cache line at `address` without reading it: any address is allowed.
#[inline(always)]
pub(crate) fn prefetch<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch neither faults nor changes anything.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: a prefetch neither faults nor changes anything.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

/// A place in a bucket: nothing, an entry with its tag, or a link.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Word(pub(super) *mut u8);

impl Word {
    pub(super) const EMPTY: Word = Word(ptr::null_mut());

    pub(super) fn pack<T>(pointer: NonNull<T>, bits: usize) -> Self {
        let pointer: *mut u8 = pointer.as_ptr().cast();
        assert!(
            pointer.addr() & !POINTER_MASK == 0,
            "the allocator handed out an address above 48 bits, or an odd one"
        );
        Word(pointer.map_addr(|address| address | bits))
    }

    /// Takes over an entry: the bucket owns it from here on.
    pub(super) fn new(entry: EntryBox, tag: u8) -> Self {
        let (volatile, size) = (entry.is_timed(), size_of_val(&*entry));
        let pointer = entry.into_raw();
        let in_two_lines = pointer.addr().get() % LINE_LEN + size > LINE_LEN;
        let marks = if volatile { VOLATILE } else { 0 } | if in_two_lines { IN_TWO_LINES } else { 0 };
        Self::pack(pointer, (tag as usize) << TAG_SHIFT | marks)
    }

    pub(super) fn link(bucket: NonNull<Bucket>) -> Self {
        Self::pack(bucket, LINK)
    }

    #[inline]
    pub(super) fn pointer(self) -> *mut u8 {
        self.0.map_addr(|address| address & POINTER_MASK)
    }

    #[inline]
    pub(super) fn tag(self) -> u8 {
        (self.0.addr() >> TAG_SHIFT) as u8
    }

    #[inline]
    pub(super) fn is_link(self) -> bool {
        self.0.addr() & LINK != 0
    }

    /// Whether the entry or a field of it has an expiry.
    #[inline]
    pub(super) fn is_timed(self) -> bool {
        self.0.addr() & VOLATILE != 0
    }

    /// The same word with the upper bits of the entry's position.
    #[inline]
    pub(super) fn at(self, position: u32) -> Self {
        let part = (position >> (u32::BITS - PART_BITS)) as usize;
        let bits = part >> PART_LOW_BITS << PART_HIGH_SHIFT | (part & PART_LOW) << PART_LOW_SHIFT;
        Word(self.0.map_addr(|address| address & !PART_MASK | bits))
    }

    /// The lowest and the highest position that the entry may have.
    #[inline]
    pub(super) fn positions(self) -> (u32, u32) {
        const REST: u32 = u32::MAX >> PART_BITS;
        let bits = self.0.addr() & PART_MASK;
        let part = bits >> PART_HIGH_SHIFT << PART_LOW_BITS | bits >> PART_LOW_SHIFT & PART_LOW;
        let lowest = (part as u32) << (u32::BITS - PART_BITS);
        (lowest, lowest | REST)
    }

    /// Prefetches the entry's cache line, and the next one if the entry continues there.
    #[inline]
    pub(super) fn prefetch(self) {
        prefetch(self.pointer());
        self.prefetch_rest();
    }

    /// Prefetches the next cache line if the entry continues there.
    #[inline]
    pub(super) fn prefetch_rest(self) {
        // No branch, since it would be mispredicted at random: at worst this prefetches the first line again.
        prefetch(self.pointer().wrapping_add((self.0.addr() & IN_TWO_LINES) * LINE_LEN));
    }

    /// # Safety
    /// The word holds an entry.
    #[inline]
    pub(super) unsafe fn header(self) -> NonNull<Header> {
        // SAFETY: the pointer came from a `NonNull`, per the caller.
        unsafe { NonNull::new_unchecked(self.pointer().cast()) }
    }

    /// # Safety
    /// The word holds an entry, and its bucket is neither changed nor freed during `'a`.
    #[inline]
    pub(super) unsafe fn entry<'a>(self) -> &'a Entry {
        // SAFETY: per the caller.
        unsafe { EntryBox::borrow(self.header()) }
    }

    /// # Safety
    /// The word holds an entry, and has been taken out of its bucket.
    #[inline]
    pub(super) unsafe fn into_entry(self) -> EntryBox {
        // SAFETY: per the caller.
        unsafe { EntryBox::from_raw(self.header()) }
    }
}

/// Eight words in one cache line.
#[repr(C, align(64))]
pub(crate) struct Bucket {
    pub(super) words: [Word; BUCKET_LEN],
}

/// The bucket that all empty tables point to, so that a lookup needs no branch for them. Never written.
pub(super) struct EmptyBucket(pub(super) Bucket);

// SAFETY: it holds no pointers and is never written.
unsafe impl Sync for EmptyBucket {}

pub(super) static EMPTY: EmptyBucket = EmptyBucket(Bucket::EMPTY);

impl Bucket {
    pub(super) const EMPTY: Bucket = Bucket { words: [Word::EMPTY; BUCKET_LEN] };

    /// The words with this tag, as a bit mask. Empty words and links have the tag zero.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline]
    pub(super) fn with_tag(&self, tag: u8) -> u32 {
        use std::arch::x86_64::*;
        /// Picks the upper half of every word.
        const UPPER: i32 = 0b11_01_11_01;
        // SAFETY: SSE2 is part of x86-64, and a bucket is four aligned vectors.
        unsafe {
            let words = self.words.as_ptr().cast::<f32>();
            let half = |at: usize| {
                let (a, b) = (_mm_load_ps(words.add(at)), _mm_load_ps(words.add(at + 4)));
                let upper = _mm_castps_si128(_mm_shuffle_ps::<UPPER>(a, b));
                let tags = _mm_srli_epi32::<24>(upper);
                _mm_cmpeq_epi32(tags, _mm_set1_epi32(i32::from(tag)))
            };
            let equal = _mm_packs_epi32(half(0), half(8));
            _mm_movemask_epi8(_mm_packs_epi16(equal, _mm_setzero_si128())) as u32
        }
    }

    /// The words with this tag, as a bit mask. Empty words and links have the tag zero.
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    #[inline]
    pub(super) fn with_tag(&self, tag: u8) -> u32 {
        let mut mask = 0;
        for (i, word) in self.words.iter().enumerate() {
            mask |= u32::from(word.tag() == tag) << i;
        }
        mask
    }

    /// How many words hold entries.
    #[inline]
    pub(super) fn entries(&self) -> usize {
        (self.with_tag(0) | 1 << BUCKET_LEN).trailing_zeros() as usize
    }

    /// Prefetches the entries with this tag; returns whether there are any.
    #[inline]
    pub(super) fn prefetch_tagged(&self, tag: u8) -> bool {
        let mut mask = self.with_tag(tag);
        let any = mask != 0;
        while mask != 0 {
            self.words[mask.trailing_zeros() as usize].prefetch();
            mask &= mask - 1;
        }
        any
    }

    /// The bucket in overflow behind this one.
    #[inline]
    pub(super) fn overflow(&self) -> Option<NonNull<Bucket>> {
        let last = self.words[LINK_INDEX];
        if last.is_link() { NonNull::new(last.pointer().cast()) } else { None }
    }
}

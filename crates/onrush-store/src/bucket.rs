//! Buckets: one cache line of eight tagged pointers, and the array of them that is a shard's hash table.
//!
//! A bucket's words are filled from the first on, without gaps. When a ninth entry comes to a full bucket, the
//! last word becomes a link to a bucket in overflow, which never holds fewer than two.

use std::alloc::{self, Layout};
use std::hint::cold_path;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use crate::Entry;
use crate::bytes::equal;
use crate::entry::Header;
use crate::entry_box::EntryBox;

/// Words in a bucket.
pub(crate) const BUCKET_LEN: usize = 8;
const LINK_INDEX: usize = BUCKET_LEN - 1;

const POINTER_BITS: u32 = 48;
/// Entries and buckets start at multiples of 8.
const LOW_BITS: u32 = 3;
const POINTER_MASK: usize = (1 << POINTER_BITS) - (1 << LOW_BITS);
/// The entry goes on in the cache line behind the one it starts in: both are to be asked for.
const IN_TWO_LINES: usize = 1;
const TAG_SHIFT: u32 = 56;
/// The entry or a field of it has an expiry: the expiry scan reads no other entries.
const VOLATILE: usize = 1 << POINTER_BITS;
/// The pointer is to a bucket in overflow, not to an entry.
const LINK: usize = 1 << (POINTER_BITS + 1);

/// The upper bits of the entry's position, so that most entries find their bucket in a larger array unread: six of them
/// above the pointer, two below it.
const PART_BITS: u32 = 8;
const PART_HIGH_SHIFT: u32 = POINTER_BITS + 2;
const PART_LOW_SHIFT: u32 = 1;
const PART_LOW_BITS: u32 = 2;
const PART_LOW: usize = (1 << PART_LOW_BITS) - 1;
const PART_MASK: usize = ((1 << TAG_SHIFT) - (1 << PART_HIGH_SHIFT)) | (PART_LOW << PART_LOW_SHIFT);

/// Bytes of a cache line.
const LINE_LEN: usize = 64;

/// How many buckets ahead of a walk over all entries they are asked for.
pub(crate) const PREFETCH_AHEAD: usize = 2;

/// Asks for the cache line at `address` without reading it: any address will do.
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
struct Word(*mut u8);

impl Word {
    const EMPTY: Word = Word(ptr::null_mut());

    fn pack<T>(pointer: NonNull<T>, bits: usize) -> Self {
        let pointer: *mut u8 = pointer.as_ptr().cast();
        assert!(
            pointer.addr() & !POINTER_MASK == 0,
            "the allocator handed out an address above 48 bits, or an odd one"
        );
        Word(pointer.map_addr(|address| address | bits))
    }

    /// Takes over an entry; it is the bucket's from here on.
    fn new(entry: EntryBox, tag: u8) -> Self {
        let (volatile, size) = (entry.is_timed(), size_of_val(&*entry));
        let pointer = entry.into_raw();
        let in_two_lines = pointer.addr().get() % LINE_LEN + size > LINE_LEN;
        let marks = if volatile { VOLATILE } else { 0 } | if in_two_lines { IN_TWO_LINES } else { 0 };
        Self::pack(pointer, (tag as usize) << TAG_SHIFT | marks)
    }

    fn link(bucket: NonNull<Bucket>) -> Self {
        Self::pack(bucket, LINK)
    }

    #[inline]
    fn pointer(self) -> *mut u8 {
        self.0.map_addr(|address| address & POINTER_MASK)
    }

    #[inline]
    fn tag(self) -> u8 {
        (self.0.addr() >> TAG_SHIFT) as u8
    }

    #[inline]
    fn is_link(self) -> bool {
        self.0.addr() & LINK != 0
    }

    /// Whether the entry or a field of it has an expiry.
    #[inline]
    fn is_timed(self) -> bool {
        self.0.addr() & VOLATILE != 0
    }

    /// The same, with what it keeps of the entry's position.
    #[inline]
    fn at(self, position: u32) -> Self {
        let part = (position >> (u32::BITS - PART_BITS)) as usize;
        let bits = part >> PART_LOW_BITS << PART_HIGH_SHIFT | (part & PART_LOW) << PART_LOW_SHIFT;
        Word(self.0.map_addr(|address| address & !PART_MASK | bits))
    }

    /// The lowest and the highest position that the entry may have.
    #[inline]
    fn positions(self) -> (u32, u32) {
        const REST: u32 = u32::MAX >> PART_BITS;
        let bits = self.0.addr() & PART_MASK;
        let part = bits >> PART_HIGH_SHIFT << PART_LOW_BITS | bits >> PART_LOW_SHIFT & PART_LOW;
        let lowest = (part as u32) << (u32::BITS - PART_BITS);
        (lowest, lowest | REST)
    }

    /// Asks for the entry's cache line, and for the next one if it goes on there.
    #[inline]
    fn prefetch(self) {
        prefetch(self.pointer());
        self.prefetch_rest();
    }

    /// Asks for the next cache line if the entry goes on there.
    #[inline]
    fn prefetch_rest(self) {
        // Without a branch, which would be taken at random: at worst it is the first line once more.
        prefetch(self.pointer().wrapping_add((self.0.addr() & IN_TWO_LINES) * LINE_LEN));
    }

    /// # Safety
    /// The word holds an entry.
    #[inline]
    unsafe fn header(self) -> NonNull<Header> {
        // SAFETY: the pointer came from a `NonNull`, per the caller.
        unsafe { NonNull::new_unchecked(self.pointer().cast()) }
    }

    /// # Safety
    /// The word holds an entry, and its bucket is neither changed nor freed during `'a`.
    #[inline]
    unsafe fn entry<'a>(self) -> &'a Entry {
        // SAFETY: per the caller.
        unsafe { EntryBox::borrow(self.header()) }
    }

    /// # Safety
    /// The word holds an entry, and has been taken out of its bucket.
    #[inline]
    unsafe fn into_entry(self) -> EntryBox {
        // SAFETY: per the caller.
        unsafe { EntryBox::from_raw(self.header()) }
    }
}

/// Eight words in one cache line.
#[repr(C, align(64))]
pub(crate) struct Bucket {
    words: [Word; BUCKET_LEN],
}

/// What all empty tables point at, so that a lookup needs no branch for them. Never written.
struct EmptyBucket(Bucket);

// SAFETY: it holds no pointers and is never written.
unsafe impl Sync for EmptyBucket {}

static EMPTY: EmptyBucket = EmptyBucket(Bucket::EMPTY);

impl Bucket {
    const EMPTY: Bucket = Bucket { words: [Word::EMPTY; BUCKET_LEN] };

    /// The words with this tag, as a bit mask. Empty words and links have the tag zero.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline]
    fn with_tag(&self, tag: u8) -> u32 {
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
    fn with_tag(&self, tag: u8) -> u32 {
        let mut mask = 0;
        for (i, word) in self.words.iter().enumerate() {
            mask |= u32::from(word.tag() == tag) << i;
        }
        mask
    }

    /// How many words hold entries.
    #[inline]
    fn entries(&self) -> usize {
        (self.with_tag(0) | 1 << BUCKET_LEN).trailing_zeros() as usize
    }

    /// Asks for the entries with this tag; says whether there are any.
    #[inline]
    fn prefetch_tagged(&self, tag: u8) -> bool {
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
    fn overflow(&self) -> Option<NonNull<Bucket>> {
        let last = self.words[LINK_INDEX];
        if last.is_link() { NonNull::new(last.pointer().cast()) } else { None }
    }
}

/// Where a word of a bucket is. Only this file reads it, through what borrows the array.
#[derive(Clone, Copy)]
struct Place(NonNull<Word>);

impl Place {
    /// # Safety
    /// The bucket is whole, and `index` within it.
    #[inline]
    unsafe fn new(bucket: NonNull<Bucket>, index: usize) -> Self {
        debug_assert!(index < BUCKET_LEN);
        // SAFETY: per the caller.
        Place(unsafe { bucket.cast::<Word>().add(index) })
    }
}

/// An entry located in a [`BucketArray`], which nobody changes meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct Located<'a> {
    place: Place,
    array: PhantomData<&'a BucketArray>,
}

impl<'a> Located<'a> {
    #[inline]
    fn word(self) -> Word {
        // SAFETY: made for a bucket of an array that is borrowed since: it is still there.
        unsafe { self.place.0.read() }
    }

    /// The entry.
    #[inline]
    pub(crate) fn entry(self) -> &'a Entry {
        // SAFETY: made for a word with an entry, of an array that is borrowed for `'a`.
        unsafe { self.word().entry() }
    }

    /// Whether the entry or a field of it has an expiry; does not read it.
    #[inline]
    pub(crate) fn is_timed(self) -> bool {
        self.word().is_timed()
    }

    /// Asks for the entry's cache line, and for the next one if it goes on there.
    #[inline]
    pub(crate) fn prefetch(self) {
        self.word().prefetch();
    }
}

/// An entry located in a [`BucketArray`], to be changed: the only way to the array as long as it is there.
pub(crate) struct LocatedMut<'a> {
    array: &'a mut BucketArray,
    place: Place,
}

/// An entry in a [`BucketArray`], to be changed, in one word.
pub struct EntryMut<'a> {
    place: Place,
    array: PhantomData<&'a mut BucketArray>,
}

impl<'a> LocatedMut<'a> {
    /// The entry, to be changed for a while.
    #[inline]
    pub(crate) fn borrow_mut(&mut self) -> EntryMut<'_> {
        EntryMut { place: self.place, array: PhantomData }
    }

    /// The entry, to be changed for as long as the array stays borrowed.
    #[inline]
    pub(crate) fn into_mut(self) -> EntryMut<'a> {
        EntryMut { place: self.place, array: PhantomData }
    }

    /// The entry.
    #[inline]
    pub(crate) fn entry(&self) -> &Entry {
        Located { place: self.place, array: PhantomData }.entry()
    }

    /// The entry, to be changed where it is.
    #[inline]
    pub(crate) fn entry_mut(&mut self) -> &mut Entry {
        self.borrow_mut().into_entry_mut()
    }

    /// As [`LocatedMut::entry_mut`], for as long as the array stays borrowed.
    #[inline]
    pub(crate) fn into_entry_mut(self) -> &'a mut Entry {
        self.into_mut().into_entry_mut()
    }

    /// Edits the entry; it may move.
    #[inline]
    pub(crate) fn edit<R>(&mut self, edit: impl FnOnce(&mut EntryBox) -> R) -> R {
        self.borrow_mut().edit(edit)
    }

    /// Takes the entry out, and gives the array back. `position` is the entry's. The chain's last entry moves into the gap.
    pub(crate) fn remove(self, position: u32) -> (EntryBox, &'a mut BucketArray) {
        let home = self.array.index_of(position);
        let entry = self.array.remove(home, self.place);
        (entry, self.array)
    }
}

impl<'a> EntryMut<'a> {
    #[inline]
    fn word(&self) -> Word {
        Located { place: self.place, array: PhantomData }.word()
    }

    /// The entry.
    #[inline]
    pub(crate) fn entry(&self) -> &Entry {
        Located { place: self.place, array: PhantomData }.entry()
    }

    /// The entry, to be changed where it is.
    #[inline]
    pub(crate) fn entry_mut(&mut self) -> &mut Entry {
        // SAFETY: made for a word with an entry, and the only way to it.
        unsafe { EntryBox::borrow_mut(self.word().header()) }
    }

    /// As [`EntryMut::entry_mut`], for as long as the array stays borrowed.
    #[inline]
    pub(crate) fn into_entry_mut(self) -> &'a mut Entry {
        // SAFETY: as in `entry_mut`; the array stays borrowed, and this is gone.
        unsafe { EntryBox::borrow_mut(self.word().header()) }
    }

    /// Edits the entry; it may move.
    #[inline]
    pub(crate) fn edit<R>(&mut self, edit: impl FnOnce(&mut EntryBox) -> R) -> R {
        /// Stores the entry's pointer again, also when the edit panics.
        struct Edit {
            place: Place,
            tag: u8,
            position: u32,
            entry: Option<EntryBox>,
        }
        impl Drop for Edit {
            fn drop(&mut self) {
                if let Some(entry) = self.entry.take() {
                    let word = Word::new(entry, self.tag).at(self.position);
                    // SAFETY: the place stays valid while the array is borrowed.
                    unsafe { self.place.0.write(word) };
                }
            }
        }
        let word = self.word();
        let mut guard = Edit {
            place: self.place,
            tag: word.tag(),
            position: word.positions().0,
            // SAFETY: the guard puts the entry back before anyone looks at the word.
            entry: Some(unsafe { word.into_entry() }),
        };
        edit(guard.entry.as_mut().expect("just set"))
    }
}

/// Number of buckets in a table of the given size class: 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20 …, some of the first
/// twice. Four steps per doubling waste little and fall into the allocators' own classes. Class 0 is the one shared
/// empty bucket.
#[inline]
pub(crate) fn bucket_count(class: u8) -> usize {
    ((4 | class as usize & 3) << (class >> 2)) >> 2
}

/// A table's buckets: a pointer with the size class in its upper bits, so that one word says where and how many.
pub(crate) struct BucketArray(*mut Bucket);

// SAFETY: the array owns its buckets and their entries, which are `Send`.
unsafe impl Send for BucketArray {}

impl BucketArray {
    pub(crate) const fn empty() -> Self {
        BucketArray((&raw const EMPTY.0).cast_mut())
    }

    pub(crate) fn new(class: u8) -> Self {
        if class == 0 {
            return Self::empty();
        }
        let layout = Self::layout(class);
        // SAFETY: the layout is not empty; words of zero bits are empty words.
        let buckets = unsafe { alloc::alloc_zeroed(layout) };
        let Some(buckets) = NonNull::new(buckets.cast::<Bucket>()) else { alloc::handle_alloc_error(layout) };
        let bits = (class as usize) << TAG_SHIFT;
        BucketArray(Word::pack(buckets, bits).0.cast())
    }

    fn layout(class: u8) -> Layout {
        Layout::array::<Bucket>(bucket_count(class)).expect("far below isize::MAX")
    }

    #[inline]
    pub(crate) fn class(&self) -> u8 {
        Word(self.0.cast()).tag()
    }

    #[inline]
    pub(crate) fn count(&self) -> usize {
        bucket_count(self.class())
    }

    /// The array's pointer and size class in one word, for [`prefetch_home`].
    #[inline]
    pub(crate) fn shadow(&self) -> *mut () {
        self.0.cast()
    }

    #[inline]
    fn base(&self) -> *mut Bucket {
        Word(self.0.cast()).pointer().cast()
    }

    /// Index of the bucket that `position` falls into: grows with the position, whatever the count.
    #[inline]
    pub(crate) fn index_of(&self, position: u32) -> usize {
        home_index(position, self.count())
    }

    /// The lowest position that falls into the bucket after `index`; `None` after the last.
    pub(crate) fn position_after(&self, index: usize) -> Option<u32> {
        let next = (index as u64 + 1) << 32;
        u32::try_from(next.div_ceil(self.count() as u64)).ok()
    }

    #[inline]
    fn home(&self, position: u32) -> NonNull<Bucket> {
        self.bucket(self.index_of(position))
    }

    #[inline]
    fn bucket(&self, index: usize) -> NonNull<Bucket> {
        debug_assert!(index < self.count());
        // SAFETY: within the array; `index_of` yields no other index, and every other caller checks.
        unsafe { NonNull::new_unchecked(self.base().add(index)) }
    }

    /// Bytes of the buckets, those in overflow included.
    pub(crate) fn size_bytes(&self) -> usize {
        if self.class() == 0 {
            return 0;
        }
        let mut buckets = 0;
        for home in 0..self.count() {
            let mut next = Some(self.bucket(home));
            while let Some(bucket) = next {
                buckets += 1;
                // SAFETY: the array's buckets are whole, those in overflow as well.
                next = unsafe { bucket.as_ref() }.overflow();
            }
        }
        buckets * size_of::<Bucket>()
    }

    /// Asks for the cache lines of the entries in the home bucket that may have this position and tag. If there are none
    /// and the bucket has an overflow, asks for that and says so.
    #[inline]
    pub(crate) fn prefetch_entry(&self, position: u32, tag: u8) -> bool {
        // SAFETY: the array's buckets are whole.
        let bucket = unsafe { self.home(position).as_ref() };
        if bucket.prefetch_tagged(tag) {
            return false;
        }
        cold_path();
        let overflow = bucket.overflow();
        if let Some(overflow) = overflow {
            prefetch(overflow.as_ptr());
        }
        overflow.is_some()
    }

    /// As [`BucketArray::prefetch_entry`], of the first bucket in overflow.
    pub(crate) fn prefetch_overflow_entry(&self, position: u32, tag: u8) {
        // SAFETY: the array's buckets are whole, those in overflow as well.
        unsafe {
            if let Some(overflow) = self.home(position).as_ref().overflow() {
                overflow.as_ref().prefetch_tagged(tag);
            }
        }
    }

    /// Asks for the cache lines of the entries in a bucket, if there is one at `index`.
    pub(crate) fn prefetch_entries(&self, index: usize) {
        if index < self.count() {
            // SAFETY: the array's buckets are whole.
            for word in unsafe { &self.bucket(index).as_ref().words } {
                word.prefetch();
            }
        }
    }

    /// Calls `with` on the entries in the home bucket that may have this position and tag, or if there are none on those
    /// in the first bucket in overflow. Keys are not compared: this is for prefetching.
    #[inline]
    pub(crate) fn candidates(&self, position: u32, tag: u8, mut with: impl FnMut(&Entry)) {
        // SAFETY: the array's buckets are whole, those in overflow as well.
        let mut bucket = unsafe { self.home(position).as_ref() };
        let mut mask = bucket.with_tag(tag);
        if mask == 0
            && let Some(overflow) = bucket.overflow()
        {
            // SAFETY: as above.
            bucket = unsafe { overflow.as_ref() };
            mask = bucket.with_tag(tag);
        }
        while mask != 0 {
            // SAFETY: a tag that is not zero marks an entry.
            with(unsafe { bucket.words[mask.trailing_zeros() as usize].entry() });
            mask &= mask - 1;
        }
    }

    /// Finds an entry.
    #[inline]
    pub(crate) fn find(&self, position: u32, tag: u8, key: &[u8]) -> Option<Located<'_>> {
        self.find_place(position, tag, key).map(|place| Located { place, array: PhantomData })
    }

    /// Finds an entry to be changed; gives the array back if there is none.
    #[inline]
    pub(crate) fn find_mut(&mut self, position: u32, tag: u8, key: &[u8]) -> Result<LocatedMut<'_>, &mut Self> {
        match self.find_place(position, tag, key) {
            Some(place) => Ok(LocatedMut { array: self, place }),
            None => Err(self),
        }
    }

    #[inline(always)]
    fn find_place(&self, position: u32, tag: u8, key: &[u8]) -> Option<Place> {
        let mut next = Some(self.home(position));
        while let Some(bucket) = next {
            // SAFETY: the array's buckets are whole, those in overflow as well.
            let words = unsafe { bucket.as_ref() };
            let mut mask = words.with_tag(tag);
            while mask != 0 {
                let index = mask.trailing_zeros() as usize;
                let word = words.words[index];
                // If it is in no cache yet, both of its lines come at once.
                word.prefetch_rest();
                // SAFETY: a tag that is not zero marks an entry.
                if equal(unsafe { word.entry() }.key(), key) {
                    // SAFETY: the bucket is whole, and the index that of a bit of its mask.
                    return Some(unsafe { Place::new(bucket, index) });
                }
                mask &= mask - 1;
            }
            next = words.overflow();
            if next.is_some() {
                cold_path();
            }
        }
        None
    }

    /// Adds an entry. The caller has seen to it that its key is not there, and that this is not the empty array.
    pub(crate) fn push(&mut self, position: u32, tag: u8, entry: EntryBox) -> LocatedMut<'_> {
        assert!(self.class() != 0, "the empty array is shared");
        let place = self.push_home(self.index_of(position), Word::new(entry, tag).at(position));
        LocatedMut { array: self, place }
    }

    /// As [`BucketArray::push`], under a home bucket.
    #[inline]
    fn push_home(&mut self, home: usize, word: Word) -> Place {
        assert!(home < self.count());
        let mut bucket = self.bucket(home);
        // SAFETY: the array's buckets are whole and, through `self`, this thread's alone.
        unsafe {
            while let Some(overflow) = bucket.as_ref().overflow() {
                bucket = overflow;
            }
            let mut index = bucket.as_ref().entries();
            if index == BUCKET_LEN {
                let overflow = NonNull::from(Box::leak(Box::new(Bucket::EMPTY)));
                let last = &mut bucket.as_mut().words[LINK_INDEX];
                (*overflow.as_ptr()).words[0] = *last;
                *last = Word::link(overflow);
                bucket = overflow;
                index = 1;
            }
            bucket.as_mut().words[index] = word;
            Place::new(bucket, index)
        }
    }

    /// Takes out the entry at a place, which [`LocatedMut`] or [`Located`] vouches for, under its home bucket. The chain's
    /// last entry moves into the gap.
    fn remove(&mut self, home: usize, place: Place) -> EntryBox {
        assert!(home < self.count());
        let mut before = None;
        let mut last = self.bucket(home);
        // SAFETY: the array's buckets are whole and, through `self`, this thread's alone.
        unsafe {
            while let Some(overflow) = last.as_ref().overflow() {
                before = Some(last);
                last = overflow;
            }
            let last_index = last.as_ref().entries() - 1;
            let filler = last.as_ref().words[last_index];
            let removed = place.0.read();
            place.0.write(filler);
            last.as_mut().words[last_index] = Word::EMPTY;
            if let Some(mut before) = before
                && last_index == 1
            {
                before.as_mut().words[LINK_INDEX] = last.as_ref().words[0];
                drop(Box::from_raw(last.as_ptr()));
            }
            removed.into_entry()
        }
    }

    /// The first entry under a home bucket that is `wanted`, to be changed.
    pub(crate) fn first_mut(&mut self, home: usize, wanted: impl Fn(Located<'_>) -> bool) -> Option<LocatedMut<'_>> {
        let place = self.chain(home).find(|located| wanted(*located))?.place;
        Some(LocatedMut { array: self, place })
    }

    /// Takes out the first entry under a home bucket that is `wanted`.
    pub(crate) fn remove_first(&mut self, home: usize, wanted: impl Fn(Located<'_>) -> bool) -> Option<EntryBox> {
        let place = self.chain(home).find(|located| wanted(*located))?.place;
        Some(self.remove(home, place))
    }

    /// The entries under a home bucket.
    #[inline]
    pub(crate) fn chain(&self, home: usize) -> Chain<'_> {
        assert!(home < self.count());
        Chain { bucket: self.bucket(home), index: 0, array: PhantomData }
    }

    /// Takes out all entries, one home bucket after the other, and leaves the array empty. `take` must not panic:
    /// entries that it has not seen by then are leaked.
    pub(crate) fn drain(self, mut take: impl FnMut(EntryBox)) {
        self.drain_words(
            |array, index| array.prefetch_entries(index + PREFETCH_AHEAD),
            // SAFETY: each word comes once, and is gone from its bucket.
            |_, word| take(unsafe { word.into_entry() }),
        );
    }

    /// Moves all entries to another array. Of most, the home bucket there follows from where they are and from what
    /// their word keeps of their position; `position_of` tells that of the others, and must not panic.
    pub(crate) fn move_to(self, to: &mut BucketArray, position_of: impl Fn(&Entry) -> u32) {
        let (count, new_count) = (self.count(), to.count());
        let bounds = |home: usize| {
            let start = |home: usize| ((home as u64) << 32).div_ceil(count as u64);
            (start(home) as u32, (start(home + 1) - 1) as u32)
        };
        // The home there of the lowest and of the highest position that the entry may have.
        let homes = |(low, high): (u32, u32), word: Word| {
            let (lowest, highest) = word.positions();
            (home_index(low.max(lowest), new_count), home_index(high.min(highest), new_count))
        };
        let prefetch = |array: &BucketArray, index: usize| {
            let index = index + PREFETCH_AHEAD;
            if index < count {
                // SAFETY: the array's buckets are whole.
                let words = unsafe { array.bucket(index).as_ref() };
                for word in &words.words[..words.entries()] {
                    let (low, high) = homes(bounds(index), *word);
                    if low != high {
                        word.prefetch();
                    }
                }
            }
        };
        self.drain_words(prefetch, |index, word| {
            let (low, high) = homes(bounds(index), word);
            let home = if low == high {
                low
            } else {
                // SAFETY: the word holds an entry, and nobody else sees it.
                home_index(position_of(unsafe { word.entry() }), new_count)
            };
            // SAFETY: as above.
            debug_assert_eq!(home, home_index(position_of(unsafe { word.entry() }), new_count));
            to.push_home(home, word);
        });
    }

    /// Takes out the words of all entries with the index of their home bucket, and frees the array; `ahead` is told of
    /// each home bucket before it.
    #[inline]
    fn drain_words(self, ahead: impl Fn(&Self, usize), mut take: impl FnMut(usize, Word)) {
        let class = self.class();
        if class == 0 {
            return;
        }
        let count = self.count();
        for index in 0..count {
            ahead(&self, index);
            let mut next = Some(self.bucket(index));
            let mut in_overflow = false;
            while let Some(bucket) = next {
                // SAFETY: the array's buckets are whole; `self` is consumed, so that nobody sees the words again,
                // and a bucket in overflow was boxed and is left behind here.
                unsafe {
                    let words = bucket.as_ref();
                    next = words.overflow();
                    for word in &words.words[..words.entries()] {
                        take(index, *word);
                    }
                    if in_overflow {
                        drop(Box::from_raw(bucket.as_ptr()));
                    }
                }
                in_overflow = true;
            }
        }
        // SAFETY: allocated with this very layout in `new`.
        unsafe { alloc::dealloc(self.base().cast(), Self::layout(class)) };
    }
}

/// Iterates over the entries under one home bucket.
pub(crate) struct Chain<'a> {
    bucket: NonNull<Bucket>,
    index: usize,
    array: PhantomData<&'a BucketArray>,
}

impl<'a> Iterator for Chain<'a> {
    type Item = Located<'a>;

    #[inline]
    fn next(&mut self) -> Option<Located<'a>> {
        // SAFETY: the array is borrowed, and its buckets are whole, those in overflow as well.
        let mut words = unsafe { self.bucket.as_ref() };
        if self.index == LINK_INDEX
            && let Some(overflow) = words.overflow()
        {
            // SAFETY: as above.
            words = unsafe { overflow.as_ref() };
            self.bucket = overflow;
            self.index = 0;
        }
        if self.index == BUCKET_LEN || words.words[self.index].tag() == 0 {
            return None;
        }
        let index = self.index;
        self.index += 1;
        // SAFETY: the bucket is whole, and one with an entry at the index.
        Some(Located { place: unsafe { Place::new(self.bucket, index) }, array: PhantomData })
    }
}

#[inline]
fn home_index(position: u32, count: usize) -> usize {
    ((position as u64 * count as u64) >> 32) as usize
}

/// The size class of an array known by its shadow alone.
pub(crate) fn class_of_shadow(shadow: *mut ()) -> u8 {
    Word(shadow.cast()).tag()
}

/// Asks for the home bucket's cache line in an array known by its shadow alone. Reads nothing: the shadow may be
/// out of date and its buckets freed.
#[inline]
pub(crate) fn prefetch_home(shadow: *mut (), position: u32) {
    let word = Word(shadow.cast());
    let index = home_index(position, bucket_count(word.tag()));
    prefetch(word.pointer().cast::<Bucket>().wrapping_add(index));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::value::Payload;

    fn entry(n: i64) -> EntryBox {
        EntryBox::new(&n.to_be_bytes(), Payload::Int(n), None, 0)
    }

    fn keys(array: &BucketArray, home: usize) -> Vec<Vec<u8>> {
        array.chain(home).map(|located| located.entry().key().to_vec()).collect()
    }

    #[test]
    fn sizes_go_up_in_four_steps_per_doubling() {
        let counts: Vec<_> = (1..20).map(bucket_count).collect();
        assert_eq!(counts, [1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28]);
        assert_eq!(BucketArray::empty().count(), 1);
    }

    #[test]
    fn buckets_divide_the_positions_evenly_and_in_order() {
        for class in 0..20 {
            let array = BucketArray::new(class);
            let mut position = Some(0);
            for index in 0..array.count() {
                let first = position.expect("as many parts as buckets");
                assert_eq!(array.index_of(first), index);
                assert!(first == 0 || array.index_of(first - 1) == index - 1);
                position = array.position_after(index);
            }
            assert_eq!(position, None);
            assert_eq!(array.index_of(u32::MAX), array.count() - 1);
            array.drain(drop);
        }
    }

    #[test]
    fn a_chain_stays_whole_whatever_leaves_it() {
        let lens: &[usize] = if cfg!(miri) { &[8, 9, 17] } else { &[1, 7, 8, 9, 10, 15, 16, 17, 40] };
        for &len in lens {
            for leaver in 0..len {
                let mut array = BucketArray::new(1);
                for n in 0..len {
                    array.push(0, 1 + (n % 3) as u8, entry(n as i64));
                }
                let mut expected: BTreeSet<_> = keys(&array, 0).into_iter().collect();
                assert_eq!(expected.len(), len);
                // One from anywhere, then the rest from the front.
                let mut leaver = array.chain(0).nth(leaver).map(|located| located.entry().key().to_vec());
                while let Some(key) = leaver {
                    let removed = array.remove_first(0, |located| located.entry().key() == key).expect("in the chain");
                    assert!(expected.remove(removed.key()));
                    assert_eq!(keys(&array, 0).into_iter().collect::<BTreeSet<_>>(), expected);
                    leaver = array.chain(0).next().map(|located| located.entry().key().to_vec());
                }
                assert!(expected.is_empty());
                array.drain(drop);
            }
        }
    }

    #[test]
    fn entries_are_found_by_tag_and_key_along_the_chain() {
        let mut array = BucketArray::new(4);
        for n in 0..30 {
            array.push(if n % 2 == 0 { 0 } else { u32::MAX }, 1 + (n % 4) as u8, entry(n));
        }
        for n in 0..30_i64 {
            let position = if n % 2 == 0 { 0 } else { u32::MAX };
            let (tag, key) = (1 + (n % 4) as u8, n.to_be_bytes());
            assert_eq!(array.find(position, tag, &key).expect("pushed").entry().key(), key);
            assert!(array.find_mut(!position, tag, &key).is_err());
            let removed = array.find_mut(position, tag, &key).ok().expect("pushed").remove(position).0;
            assert_eq!(removed.key(), key);
            array.push(position, tag, removed);
            assert!(array.find(!position, tag, &key).is_none());
            array.prefetch_entry(position, tag);
        }
        assert!(BucketArray::empty().find(5, 1, b"k").is_none());
        array.drain(drop);
    }

    #[test]
    fn an_edit_that_panics_leaves_the_entry_in_place() {
        let mut array = BucketArray::new(1);
        let mut located = array.push(0, 9, entry(1));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            located.edit(|entry| {
                entry.set_expire(Some(5));
                panic!("midway");
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(located.entry().expire_at(), Some(5));
        assert!(located.borrow_mut().word().is_timed());
        assert!(array.find(0, 9, &1_i64.to_be_bytes()).is_some());
        array.drain(drop);
    }
}

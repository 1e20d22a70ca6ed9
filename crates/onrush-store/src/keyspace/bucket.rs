//! Buckets: one cache line of eight tagged pointers, and the array of them that is a shard's hash table.
//!
//! A bucket's words are filled from the first on, without gaps. When a ninth entry comes to a full bucket, the
//! last word becomes a link to a bucket in overflow, which never holds fewer than two.

mod word;

use std::alloc::{self, Layout};
use std::hint::cold_path;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::Entry;
use crate::entries::entry_box::EntryBox;
use crate::strings::bytes::equal;
pub(crate) use word::prefetch;
use word::{BUCKET_LEN, Bucket, EMPTY, LINK_INDEX, TAG_SHIFT, Word};

/// How many buckets ahead a walk over all entries prefetches.
pub(crate) const PREFETCH_AHEAD: usize = 2;

/// The place of a word in a bucket. Only this file reads it, through types that borrow the array.
#[derive(Clone, Copy)]
struct Place(NonNull<Word>);

impl Place {
    /// # Safety
    /// The bucket is whole, and `index` is within it.
    #[inline]
    unsafe fn new(bucket: NonNull<Bucket>, index: usize) -> Self {
        debug_assert!(index < BUCKET_LEN);
        // SAFETY: per the caller.
        Place(unsafe { bucket.cast::<Word>().add(index) })
    }
}

/// An entry located in a [`BucketArray`], which cannot change meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct Located<'a> {
    place: Place,
    array: PhantomData<&'a BucketArray>,
}

impl<'a> Located<'a> {
    #[inline]
    fn word(self) -> Word {
        // SAFETY: the place was made for a bucket of an array that has been borrowed since then: the bucket is still
        // there.
        unsafe { self.place.0.read() }
    }

    /// The entry.
    #[inline]
    pub(crate) fn entry(self) -> &'a Entry {
        // SAFETY: the place was made for a word with an entry, of an array that is borrowed for `'a`.
        unsafe { self.word().entry() }
    }

    /// Whether the entry or a field of it has an expiry; does not read it.
    #[inline]
    pub(crate) fn is_timed(self) -> bool {
        self.word().is_timed()
    }

    /// Prefetches the entry's cache line, and the next one if the entry continues there.
    #[inline]
    pub(crate) fn prefetch(self) {
        self.word().prefetch();
    }
}

/// An entry located in a [`BucketArray`], for changing: as long as this lives, it is the only way to the array.
pub(crate) struct LocatedMut<'a> {
    array: &'a mut BucketArray,
    place: Place,
}

/// An entry in a [`BucketArray`], for changing, in one word.
pub struct EntryMut<'a> {
    place: Place,
    array: PhantomData<&'a mut BucketArray>,
}

impl<'a> LocatedMut<'a> {
    /// The entry, for changing, borrowed for less than `'a`.
    #[inline]
    pub(crate) fn borrow_mut(&mut self) -> EntryMut<'_> {
        EntryMut { place: self.place, array: PhantomData }
    }

    /// The entry, for changing, for as long as the array stays borrowed.
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

    /// Removes the entry and returns it with the array. `position` is the entry's. The chain's last entry moves into
    /// the gap.
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
        // SAFETY: the place was made for a word with an entry, and is the only way to it.
        unsafe { EntryBox::borrow_mut(self.word().header()) }
    }

    /// As [`EntryMut::entry_mut`], for as long as the array stays borrowed.
    #[inline]
    pub(crate) fn into_entry_mut(self) -> &'a mut Entry {
        // SAFETY: as in `entry_mut`; the array stays borrowed, and `self` is consumed.
        unsafe { EntryBox::borrow_mut(self.word().header()) }
    }

    /// Edits the entry; it may move.
    #[inline]
    pub(crate) fn edit<R>(&mut self, edit: impl FnOnce(&mut EntryBox) -> R) -> R {
        /// Stores the entry's pointer again, even if the edit panics.
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
            // SAFETY: the guard puts the entry back before any code looks at the word.
            entry: Some(unsafe { word.into_entry() }),
        };
        edit(guard.entry.as_mut().expect("just set"))
    }
}

/// Number of buckets in a table of the given size class: 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20 …, some of the
/// first twice. Four steps per doubling waste little and match the allocators' own classes. Class 0 is the one shared
/// empty bucket.
#[inline]
pub(crate) fn bucket_count(class: u8) -> usize {
    ((4 | class as usize & 3) << (class >> 2)) >> 2
}

/// A table's buckets: a pointer with the size class in its upper bits, so one word holds both place and number.
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

    /// Index of the bucket that `position` falls into: it grows with the position, whatever the number of buckets.
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
        // SAFETY: the index is within the array: `index_of` yields no other, and all other callers check it.
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

    /// Prefetches the entries in the home bucket that may have this position and tag. If there are none and the bucket
    /// has an overflow, prefetches that bucket and returns true.
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

    /// As [`BucketArray::prefetch_entry`], for the first bucket in overflow.
    pub(crate) fn prefetch_overflow_entry(&self, position: u32, tag: u8) {
        // SAFETY: the array's buckets are whole, those in overflow as well.
        unsafe {
            if let Some(overflow) = self.home(position).as_ref().overflow() {
                overflow.as_ref().prefetch_tagged(tag);
            }
        }
    }

    /// Prefetches the entries in the bucket at `index`, if there is one.
    pub(crate) fn prefetch_entries(&self, index: usize) {
        if index < self.count() {
            // SAFETY: the array's buckets are whole.
            for word in unsafe { &self.bucket(index).as_ref().words } {
                word.prefetch();
            }
        }
    }

    /// Calls `with` on the entries in the home bucket that may have this position and tag; if there are none, on those
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

    /// Finds an entry for changing; returns the array if there is none.
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
                // If the entry is in no cache yet, both of its lines come at once.
                word.prefetch_rest();
                // SAFETY: a tag that is not zero marks an entry.
                if equal(unsafe { word.entry() }.key(), key) {
                    // SAFETY: the bucket is whole, and the index is that of a bit of its mask.
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

    /// Adds an entry. Its key must not be in the array, and the array must not be the empty one.
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
        // SAFETY: the array's buckets are whole, and `self` gives this thread sole access to them.
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

    /// Removes the entry at a place under its home bucket. [`LocatedMut`] or [`Located`] proves that the place has one.
    /// The chain's last entry moves into the gap.
    fn remove(&mut self, home: usize, place: Place) -> EntryBox {
        assert!(home < self.count());
        let mut before = None;
        let mut last = self.bucket(home);
        // SAFETY: the array's buckets are whole, and `self` gives this thread sole access to them.
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

    /// The first entry under a home bucket that is `wanted`, for changing.
    pub(crate) fn first_mut(&mut self, home: usize, wanted: impl Fn(Located<'_>) -> bool) -> Option<LocatedMut<'_>> {
        let place = self.chain(home).find(|located| wanted(*located))?.place;
        Some(LocatedMut { array: self, place })
    }

    /// Removes the first entry under a home bucket that is `wanted`.
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

    /// Removes all entries, one home bucket after the other, and leaves the array empty. `take` must not panic: entries
    /// that it has not received by then are leaked.
    pub(crate) fn drain(self, mut take: impl FnMut(EntryBox)) {
        self.drain_words(
            |array, index| array.prefetch_entries(index + PREFETCH_AHEAD),
            // SAFETY: each word comes once, and is no longer in its bucket.
            |_, word| take(unsafe { word.into_entry() }),
        );
    }

    /// Moves all entries to another array. For most entries, the new home bucket follows from their present place and
    /// from the part of the position in their word. For the others `position_of` is called; it must not panic.
    pub(crate) fn move_to(self, to: &mut BucketArray, position_of: impl Fn(&Entry) -> u32) {
        let (count, new_count) = (self.count(), to.count());
        let bounds = |home: usize| {
            let start = |home: usize| ((home as u64) << 32).div_ceil(count as u64);
            (start(home) as u32, (start(home + 1) - 1) as u32)
        };
        // The new home of the lowest and of the highest position that the entry may have.
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
                // SAFETY: the word holds an entry, and no other code has access to it.
                home_index(position_of(unsafe { word.entry() }), new_count)
            };
            // SAFETY: as above.
            debug_assert_eq!(home, home_index(position_of(unsafe { word.entry() }), new_count));
            to.push_home(home, word);
        });
    }

    /// Removes the words of all entries, passes each with the index of its home bucket to `take`, and frees the array.
    /// `ahead` gets the index of each home bucket before its words.
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
                // SAFETY: the array's buckets are whole; `self` is consumed, so no code sees the words again; a bucket
                // in overflow was boxed, and its last use is here.
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
        // SAFETY: the bucket is whole, and has an entry at the index.
        Some(Located { place: unsafe { Place::new(self.bucket, index) }, array: PhantomData })
    }
}

#[inline]
fn home_index(position: u32, count: usize) -> usize {
    ((position as u64 * count as u64) >> 32) as usize
}

/// The size class of an array of which only the shadow is known.
pub(crate) fn class_of_shadow(shadow: *mut ()) -> u8 {
    Word(shadow.cast()).tag()
}

/// Prefetches the home bucket in an array of which only the shadow is known. Reads nothing: the shadow may be out of
/// date and its buckets freed.
#[inline]
pub(crate) fn prefetch_home(shadow: *mut (), position: u32) {
    let word = Word(shadow.cast());
    let index = home_index(position, bucket_count(word.tag()));
    prefetch(word.pointer().cast::<Bucket>().wrapping_add(index));
}

#[cfg(test)]
mod tests;

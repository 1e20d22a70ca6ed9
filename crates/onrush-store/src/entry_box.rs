//! An owned entry: made, edited and freed here.

use std::alloc;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::embedded::Embedded;
use crate::entry::{
    CLOCK_MASK, EXPIRE_FLAGS, HAS_RUN, HAS_WORD, Header, LONG_KEY, RAW, REPR_COLLECTION, REPR_EMBEDDED, REPR_INT,
    REPR_SHARED, REPR_SHIFT, RUN_HEAD_LEN, SNAPSHOT, Shape, TIMED_FIELDS, TYPE_SHIFT, WORD_LEN,
};
use crate::value::{EMBED_VALUE_LEN_MAX, Payload};
use crate::{Collection, Entry, Packed, Type, Value, ValueRef};

/// Owns an entry through one thin pointer. It may move when it is edited, so that who holds a copy of the pointer
/// has to store the new one.
pub(crate) struct EntryBox(NonNull<Header>);

// SAFETY: an `EntryBox` owns everything it points at, all of which is `Send` and `Sync`.
unsafe impl Send for EntryBox {}
// SAFETY: as above.
unsafe impl Sync for EntryBox {}

impl EntryBox {
    pub(crate) fn new(key: &[u8], payload: Payload<'_>, expire: Option<i64>, clock: u32) -> Self {
        let shape = Shape::new(key.len(), &payload, expire);
        let entry = Self::allocate(shape);
        // SAFETY: freshly allocated for `shape`, and `key` is outside of it.
        unsafe {
            entry.write(Header { meta: clock & CLOCK_MASK, flags: 0, key_len: 0, value_len: 0 });
            let body = entry.add(1).cast::<u8>();
            if shape.flags & LONG_KEY != 0 {
                let key_len_at = body.add(shape.key_len_at()).cast::<u32>();
                key_len_at.write_unaligned(shape.key_len as u32);
            }
            let key_at = body.add(shape.key_at()).as_ptr();
            ptr::copy_nonoverlapping(key.as_ptr(), key_at, key.len());
            Self::write(entry, shape, payload, expire);
        }
        EntryBox(entry)
    }

    /// Takes over an entry given up by [`EntryBox::into_raw`].
    ///
    /// # Safety
    /// `entry` came from `into_raw`, and this is its only owner.
    #[inline]
    pub(crate) unsafe fn from_raw(entry: NonNull<Header>) -> Self {
        EntryBox(entry)
    }

    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<Header> {
        ManuallyDrop::new(self).0
    }

    /// Borrows an entry through a pointer that someone else owns.
    ///
    /// # Safety
    /// `entry` came from `into_raw` and is neither freed nor changed during `'a`.
    #[inline]
    pub(crate) unsafe fn borrow<'a>(entry: NonNull<Header>) -> &'a Entry {
        // SAFETY: the entry is whole, per the caller.
        unsafe { &*Self::span(entry) }
    }

    /// As [`EntryBox::borrow`], for changing what does not move.
    ///
    /// # Safety
    /// As for `borrow`, and nobody else borrows the entry during `'a`.
    #[inline]
    pub(crate) unsafe fn borrow_mut<'a>(entry: NonNull<Header>) -> &'a mut Entry {
        // SAFETY: the entry is whole and ours alone, per the caller.
        unsafe { &mut *Self::span(entry) }
    }

    /// The wide pointer to an entry: its length is in the entry itself.
    ///
    /// # Safety
    /// `entry` points at a whole entry.
    #[inline]
    unsafe fn span(entry: NonNull<Header>) -> *mut Entry {
        // SAFETY: per the caller.
        let body_len = unsafe { Shape::read(entry.as_ptr()) }.body_len();
        ptr::slice_from_raw_parts_mut(entry.as_ptr().cast::<u8>(), body_len) as *mut Entry
    }

    /// Room for an entry. The bytes that pad it to its size are zero, the rest is not initialised.
    fn allocate(shape: Shape) -> NonNull<Header> {
        let layout = shape.layout();
        // SAFETY: the layout holds at least the header.
        let raw = unsafe { alloc::alloc(layout) };
        // A collection finds its embedded run from the address of the header (`Compact`).
        raw.expose_provenance();
        let Some(entry) = NonNull::new(raw.cast::<Header>()) else { alloc::handle_alloc_error(layout) };
        // SAFETY: the size is a multiple of 8 and at least 8.
        unsafe {
            let last = raw.add(layout.size() - WORD_LEN);
            last.cast::<u64>().write(0);
        }
        entry
    }

    /// Writes all of the entry but the key and its length.
    ///
    /// # Safety
    /// `entry` has room for `shape`, the header is initialised, the word holds nothing that is to be dropped, and
    /// the key is in place. `payload` and `expire` are what `shape` was made of.
    #[inline]
    unsafe fn write(entry: NonNull<Header>, shape: Shape, payload: Payload<'_>, expire: Option<i64>) {
        // SAFETY: every part lies where `shape` says; words are at multiples of 8.
        unsafe {
            let body = entry.add(1).cast::<u8>();
            shape.write_expire(body.as_ptr(), expire);
            let word = body.add(shape.word_at());
            let ty = payload.ty();
            let (repr, mark) = match payload {
                Payload::Int(n) => {
                    word.cast::<i64>().write(n);
                    (REPR_INT, 0)
                }
                Payload::Shared(bytes) => {
                    word.cast::<Arc<Vec<u8>>>().write(bytes);
                    (REPR_SHARED, 0)
                }
                Payload::Collection(collection) => {
                    let is_timed = matches!(&collection, Collection::Hash(hash) if hash.is_volatile());
                    let mark = if is_timed { TIMED_FIELDS } else { 0 };
                    match collection.as_ref().run() {
                        Some(run) if shape.has_run() => Self::write_run(entry, shape, run),
                        _ => word.cast::<*mut u8>().write(collection.into_word()),
                    }
                    (REPR_COLLECTION, mark)
                }
                Payload::Embedded { bytes, raw } => {
                    let value = body.add(shape.value_at()).as_ptr();
                    ptr::copy_nonoverlapping(bytes.as_ptr(), value, bytes.len());
                    (REPR_EMBEDDED, if raw { RAW } else { 0 })
                }
            };
            let header = &mut *entry.as_ptr();
            header.meta = header.meta & CLOCK_MASK | (ty as u32) << TYPE_SHIFT | repr << REPR_SHIFT;
            header.flags = header.flags & SNAPSHOT | shape.flags | mark;
            header.key_len = if shape.flags & LONG_KEY != 0 { 0 } else { shape.key_len as u8 };
            header.value_len = shape.value_len as u16;
        }
    }

    /// Writes an embedded run, and zero bytes behind it.
    ///
    /// # Safety
    /// `entry` has room for `shape`, which has a run of at least this length; `run` is outside of the entry.
    #[inline]
    unsafe fn write_run(entry: NonNull<Header>, shape: Shape, run: &[u8]) {
        debug_assert!(run.len() <= shape.run_capacity());
        // SAFETY: the value lies where `shape` says, and what is written fits, per the caller.
        unsafe {
            let value = entry.add(1).cast::<u8>().add(shape.value_at()).as_ptr();
            *value = run.len() as u8;
            let to = value.add(RUN_HEAD_LEN);
            ptr::copy_nonoverlapping(run.as_ptr(), to, run.len());
            to.add(run.len()).write_bytes(0, shape.value_len - RUN_HEAD_LEN - run.len());
        }
    }

    /// Keeps a collection whose run was out of the entry, or behind its word: embedded in the entry if it fits, otherwise behind
    /// a word. All else stays. Returns the run if it was copied.
    ///
    /// # Safety
    /// The word, if there is one, holds nothing that is to be dropped.
    unsafe fn put_collection<T: Embedded>(&mut self, collection: T) -> Option<Packed> {
        let old = self.shape();
        let new = old.with_run(collection.run().map(<[u8]>::len));
        let expire = self.expire_at();
        self.reshape(new, old.value_at() - old.key_len_at());
        // SAFETY: the entry has room for `new` with the key in place; expiry and value are written before anybody sees it.
        unsafe {
            let body = self.0.add(1).cast::<u8>();
            new.write_expire(body.as_ptr(), expire);
            let header = &mut *self.0.as_ptr();
            header.flags = header.flags & !(HAS_WORD | HAS_RUN) | new.flags & (HAS_WORD | HAS_RUN);
            header.value_len = new.value_len as u16;
            if let Some(run) = collection.run().filter(|_| new.has_run()) {
                Self::write_run(self.0, new, run);
                return collection.into_run();
            }
            body.add(new.word_at()).cast::<ManuallyDrop<T>>().write(ManuallyDrop::new(collection));
            None
        }
    }

    /// Replaces a collection with an embedded run by another one. Expiry and the mark of fields that may expire stay. Returns the
    /// run if it was copied. O(length of the entry).
    pub(crate) fn replace_run<T: Embedded>(&mut self, collection: T) -> Option<Packed> {
        assert!(self.has_run() && self.ty() == T::TYPE);
        // SAFETY: an entry with a run has no word.
        unsafe { self.put_collection(collection) }
    }

    /// Embeds a collection that is behind the entry's word, if its run is short enough. O(length of the entry).
    pub(crate) fn embed<T: Embedded>(&mut self) {
        if self.collection_mut::<T>().is_some() {
            let at = self.shape().word_at();
            // SAFETY: the word is a `T`, as has just been seen; what is taken is put back at once.
            unsafe {
                let collection = ptr::read(self.part::<T>(at));
                self.put_collection(collection);
            }
        }
    }

    /// Takes a value that lives outside of the entry.
    ///
    /// # Safety
    /// The caller writes the word, or frees the entry without looking at it, before anyone sees it again.
    #[inline]
    unsafe fn take_outside(&mut self) -> Option<Value> {
        let at = self.shape().word_at();
        match self.repr() {
            REPR_COLLECTION if self.has_run() => None,
            // SAFETY: the representation says that the word is an `Arc`; it is not read again, per the caller.
            REPR_SHARED => Some(Value::Shared(unsafe { ptr::read(self.part(at)) })),
            // SAFETY: the same of a collection.
            REPR_COLLECTION => Some(Value::Collection(unsafe { self.take_collection(at) })),
            _ => None,
        }
    }

    /// Takes a collection, whose word is at `at`.
    ///
    /// # Safety
    /// The representation says that there is one; otherwise as for [`EntryBox::take_outside`].
    unsafe fn take_collection(&mut self, at: usize) -> Collection {
        // SAFETY: per the caller; the header names the type.
        unsafe { Collection::from_word(self.ty(), ptr::from_ref::<usize>(self.part(at)).cast()) }
    }

    /// Replaces value and expiry, in place where the size allows. Returns a displaced value that lives outside.
    #[inline]
    pub(crate) fn rewrite(&mut self, payload: Payload<'_>, expire: Option<i64>) -> Option<Value> {
        if self.overwrite_embedded(&payload, expire) {
            return None;
        }
        self.rewrite_shape(payload, expire)
    }

    /// Replaces an embedded string by one of the same length where nothing else changes; says whether it could. This
    /// is what most overwrites are, and only the bytes have to be touched.
    #[inline]
    fn overwrite_embedded(&mut self, payload: &Payload<'_>, expire: Option<i64>) -> bool {
        let Payload::Embedded { bytes, raw: false } = *payload else { return false };
        if expire.is_some() || self.repr() != REPR_EMBEDDED || self.has(EXPIRE_FLAGS | RAW) {
            return false;
        }
        let shape = self.shape();
        if shape.value_len != bytes.len() {
            return false;
        }
        // SAFETY: the body has the parts its shape says.
        unsafe { self.body.get_unchecked_mut(shape.value_at()..shape.end()) }.copy_from_slice(bytes);
        true
    }

    fn rewrite_shape(&mut self, payload: Payload<'_>, expire: Option<i64>) -> Option<Value> {
        let old = self.shape();
        let new = Shape::new(old.key_len, &payload, expire);
        // SAFETY: the word is written below, and nothing in between can panic.
        let displaced = unsafe { self.take_outside() };
        self.reshape(new, old.value_at() - old.key_len_at());
        // SAFETY: the entry has room for `new`, with the key in place.
        unsafe { Self::write(self.0, new, payload, expire) };
        displaced
    }

    /// Makes room for `new`, in place if the size allows, and takes along the header, the word if both have one, and
    /// `tail_len` bytes from the key's length on. All else, the expiry too, is left for the caller to bring in line, through `self.0`
    /// alone: until then it must not be seen as an `Entry`.
    #[inline]
    fn reshape(&mut self, new: Shape, tail_len: usize) {
        let old = self.shape();
        let in_place = new.size() == old.size();
        if in_place && new.flags == old.flags {
            return;
        }
        let target = if in_place { self.0 } else { Self::allocate(new) };
        // SAFETY: all parts lie within their bodies. In place, what moves up is copied from the end on, what moves
        // down from the start on, so that nothing is overwritten before it is copied.
        unsafe {
            let from = self.0.add(1).cast::<u8>();
            let to = target.add(1).cast::<u8>();
            let move_word = || {
                if old.has_word() && new.has_word() {
                    from.add(old.word_at()).copy_to(to.add(new.word_at()), WORD_LEN);
                }
            };
            let move_tail = || {
                let tail = from.add(old.key_len_at());
                tail.copy_to(to.add(new.key_len_at()), tail_len);
            };
            if new.key_len_at() > old.key_len_at() {
                move_tail();
                move_word();
            } else {
                move_word();
                move_tail();
            }
            if !in_place {
                target.write(*self.0.as_ptr());
                alloc::dealloc(self.0.as_ptr().cast(), old.layout());
                self.0 = target;
            }
        }
    }

    /// Sets or takes away the expiry.
    pub(crate) fn set_expire(&mut self, expire: Option<i64>) {
        let old = self.shape();
        let new = old.with_expire(expire);
        self.reshape(new, old.end() - old.key_len_at());
        // SAFETY: the allocation has the parts that `new` says, and the flags say so from here on.
        unsafe {
            let body = self.0.add(1).cast::<u8>();
            new.write_expire(body.as_ptr(), expire);
            let flags = &mut (*self.0.as_ptr()).flags;
            *flags = *flags & !EXPIRE_FLAGS | new.flags & EXPIRE_FLAGS;
        }
    }

    /// Says whether fields of the hash may expire.
    pub(crate) fn set_timed_fields(&mut self, on: bool) {
        debug_assert_eq!(self.ty(), Type::Hash);
        self.put(TIMED_FIELDS, on);
    }

    /// Turns a string into one that is edited as bytes: an integer is spelled out, and it counts as `raw` now.
    fn make_raw(&mut self) {
        if let ValueRef::Int(n) = self.value() {
            let expire = self.expire_at();
            let mut digits = itoa::Buffer::new();
            let bytes = digits.format(n).as_bytes();
            self.rewrite(Payload::Embedded { bytes, raw: true }, expire);
        }
        self.put(RAW, true);
    }

    /// The string's bytes for editing in place; a buffer that a reply still holds is copied first.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.make_raw();
        let shape = self.shape();
        if self.repr() == REPR_SHARED {
            return self.outside_mut();
        }
        // SAFETY: the body has the parts its shape says.
        unsafe { self.body.get_unchecked_mut(shape.value_at()..shape.end()) }
    }

    fn outside_mut(&mut self) -> &mut Vec<u8> {
        debug_assert_eq!(self.repr(), REPR_SHARED);
        let at = self.shape().word_at();
        // SAFETY: the representation says that the word is an `Arc`.
        let bytes: &mut Arc<Vec<u8>> = unsafe { self.part_mut(at) };
        Arc::make_mut(bytes)
    }

    /// Appends to the string; returns its new length.
    pub(crate) fn append(&mut self, tail: &[u8]) -> usize {
        self.make_raw();
        let old_len = self.value().len();
        if self.repr() == REPR_SHARED {
            let bytes = self.outside_mut();
            bytes.extend_from_slice(tail);
        } else if old_len + tail.len() <= EMBED_VALUE_LEN_MAX {
            self.resize_embedded(old_len + tail.len());
            self.bytes_mut()[old_len..].copy_from_slice(tail);
        } else {
            self.move_outside(old_len + tail.len()).extend_from_slice(tail);
        }
        old_len + tail.len()
    }

    /// Makes the string `len` bytes long, cutting it or filling it up with zero bytes.
    pub(crate) fn resize(&mut self, len: usize) {
        self.make_raw();
        if self.repr() == REPR_SHARED {
            self.outside_mut().resize(len, 0);
        } else if len <= EMBED_VALUE_LEN_MAX {
            self.resize_embedded(len);
        } else {
            self.move_outside(len).resize(len, 0);
        }
    }

    /// Gives an embedded string a buffer of its own, with room for `len` bytes and some more to grow.
    fn move_outside(&mut self, len: usize) -> &mut Vec<u8> {
        let mut bytes = Vec::with_capacity(len.saturating_add(len / 4));
        bytes.extend_from_slice(self.bytes_mut());
        let expire = self.expire_at();
        self.rewrite(Payload::Shared(Arc::new(bytes)), expire);
        self.put(RAW, true);
        self.outside_mut()
    }

    /// Resizes an embedded string within `EMBED_VALUE_LEN_MAX`, in place where the size allows.
    fn resize_embedded(&mut self, len: usize) {
        debug_assert!(len <= EMBED_VALUE_LEN_MAX && self.repr() == REPR_EMBEDDED);
        let old = self.shape();
        let new = Shape { value_len: len, ..old };
        let expire = self.expire_at();
        self.reshape(new, old.end().min(new.end()) - old.key_len_at());
        // SAFETY: the allocation fits `new`; what was not copied or not there before is zeroed here, before the
        // header says that it is part of the entry.
        unsafe {
            let body = self.0.add(1).cast::<u8>();
            new.write_expire(body.as_ptr(), expire);
            if new.end() > old.end() {
                body.add(old.end()).write_bytes(0, new.end() - old.end());
            }
            (*self.0.as_ptr()).value_len = len as u16;
        }
    }

    /// Takes the value and frees the rest.
    pub(crate) fn into_value(self) -> Value {
        if !matches!(self.repr(), REPR_SHARED | REPR_COLLECTION) || self.has_run() {
            return self.to_value();
        }
        // SAFETY: the entry is gone after this, and `ManuallyDrop` keeps its drop from running.
        let outside = unsafe { ManuallyDrop::new(self).free() };
        outside.expect("such a value is outside of its entry")
    }

    /// Frees the entry and hands out a value that lives outside of it.
    ///
    /// # Safety
    /// The entry is not used after this.
    #[inline]
    unsafe fn free(&mut self) -> Option<Value> {
        // SAFETY: allocated with this very layout; the word is not looked at again.
        unsafe {
            let outside = self.take_outside();
            let layout = self.shape().layout();
            alloc::dealloc(self.0.as_ptr().cast(), layout);
            outside
        }
    }
}

impl Deref for EntryBox {
    type Target = Entry;

    #[inline]
    fn deref(&self) -> &Entry {
        // SAFETY: `self` owns the entry.
        unsafe { &*Self::span(self.0) }
    }
}

impl DerefMut for EntryBox {
    #[inline]
    fn deref_mut(&mut self) -> &mut Entry {
        // SAFETY: `self` owns the entry.
        unsafe { &mut *Self::span(self.0) }
    }
}

impl Drop for EntryBox {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this is the last use of the entry.
        drop(unsafe { self.free() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Encoding;

    fn embedded(bytes: &[u8]) -> Payload<'_> {
        Payload::Embedded { bytes, raw: false }
    }

    fn shared(len: usize) -> Payload<'static> {
        Payload::Shared(Arc::new(vec![b'x'; len]))
    }

    fn bytes(entry: &Entry) -> Vec<u8> {
        entry.value().to_bytes(&mut itoa::Buffer::new()).to_vec()
    }

    /// A list of so many elements of seven bytes.
    fn list(len: usize) -> crate::List {
        let mut list = crate::List::default();
        (0..len).for_each(|_| list.push(crate::End::Back, b"element", &crate::ListLimits::default()));
        list
    }

    #[test]
    fn a_collection_is_found_by_its_type_alone() {
        for (len, is_embedded) in [(1, true), (100, false)] {
            let mut entry = EntryBox::new(b"k", Payload::Collection(list(len).into()), Some(5), 0);
            assert_eq!((entry.ty(), entry.has_run()), (Type::List, is_embedded));
            assert!(entry.collection::<crate::Set>().is_none() && entry.collection_mut::<crate::Hash>().is_none());
            assert_eq!(entry.collection_mut::<crate::List>().is_none(), is_embedded);
            assert_eq!(entry.collection::<crate::List>().map(crate::List::len), Some(len));
            let copy = entry.to_value();
            assert_eq!(copy, entry.into_value());
        }
    }

    #[test]
    fn an_embedded_run_is_replaced_in_place_as_long_as_it_fits() {
        let mut entry = EntryBox::new(b"key", Payload::Collection(list(3).into()), None, 0);
        assert_eq!((entry.shape().run_capacity(), size_of_val(&*entry)), (36, 48));
        assert!(entry.set_run(&[7; 36]) && !entry.set_run(&[7; 37]));
        assert_eq!(entry.run_mut().map(|run| run.to_vec()), Some(vec![7; 36]));
        assert!(entry.set_run(&[]) && entry.collection::<crate::List>().unwrap().is_empty());
        let mut entry = EntryBox::new(b"key", Payload::Collection(list(20).into()), None, 0);
        assert_eq!(size_of_val(&*entry), 192);
        assert!(entry.set_run(&[7; 90]) && !entry.set_run(&[7; 60]));
        assert_eq!((entry.replace_run(list(3)), size_of_val(&*entry)), (Some(list(3).into_run().unwrap()), 48));
        assert_eq!((entry.replace_run(list(100)), entry.has_run()), (None, false));
        assert_eq!(entry.collection::<crate::List>(), Some(&list(100)));
    }

    /// None, wide ones, and narrow ones with their bounds.
    const EXPIRES: [Option<i64>; 7] = [
        None,
        Some(i64::MIN),
        Some(1_599_999_999_999),
        Some(1_600_000_000_000),
        Some(1_600_000_000_000 + (1 << 40) - 1),
        Some(1_600_000_000_000 + (1 << 40)),
        Some(i64::MAX),
    ];

    #[test]
    fn short_entries_take_few_bytes() {
        let key = b"key:000000000001";
        let size = |payload, expire| EntryBox::new(key, payload, expire, 0).size_bytes();
        assert_eq!(size(embedded(b"abc"), None), 32);
        assert_eq!(size(embedded(b"abc"), Some(1_700_000_000_000)), 32);
        assert_eq!(size(embedded(b"abc"), Some(1)), 40);
        assert_eq!(size(Payload::Int(-1), Some(1_700_000_000_000)), 40);
        assert_eq!(size(Payload::Int(-1), None), 32);
        assert_eq!(size(shared(600), None), 32 + 16 + 24 + 600);
    }

    #[test]
    fn an_entry_reads_back_what_it_was_made_of() {
        for key_len in [0, 1, 7, 8, 255, 256, 1000] {
            let key = vec![b'k'; key_len];
            for expire in EXPIRES {
                for value_len in [0, 1, 44, 45, EMBED_VALUE_LEN_MAX] {
                    let value = vec![b'v'; value_len];
                    let entry = EntryBox::new(&key, embedded(&value), expire, 0x0123_4567);
                    assert_eq!(entry.key(), key);
                    assert_eq!(entry.value(), ValueRef::Bytes(&value));
                    assert_eq!(entry.expire_at(), expire);
                    assert_eq!(entry.clock(), 0x23_4567);
                    let encoding = [Encoding::Embstr, Encoding::Raw][usize::from(value_len > 44)];
                    assert_eq!(entry.encoding(), encoding);
                }
                let entry = EntryBox::new(&key, Payload::Int(i64::MIN), expire, 0);
                assert_eq!((entry.key(), entry.expire_at()), (&key[..], expire));
                assert_eq!(entry.value(), ValueRef::Int(i64::MIN));
            }
        }
    }

    /// Every value turns into every other, with and without an expiry before and after.
    #[test]
    fn rewriting_keeps_the_key_the_clock_and_the_snapshot_bit() {
        let values = [
            NewForm::Int,
            NewForm::Embedded(0),
            NewForm::Embedded(3),
            NewForm::Embedded(11),
            NewForm::Embedded(512),
            NewForm::Shared,
            NewForm::List(1),
            NewForm::List(30),
            NewForm::List(40),
            NewForm::List(100),
        ];
        let key_lens: &[usize] = if cfg!(miri) { &[5, 300] } else { &[0, 5, 16, 255, 256, 300] };
        for &key_len in key_lens {
            let key = vec![b'k'; key_len];
            for (from, to) in values.iter().flat_map(|a| values.iter().map(move |b| (a, b))) {
                let expires = [None, Some(4), Some(1_700_000_000_000)];
                for (before, after) in expires.iter().flat_map(|a| expires.map(|b| (*a, b))) {
                    let mut entry = EntryBox::new(&key, from.payload(), before, 7);
                    entry.set_snapshot_bit(true);
                    let displaced = entry.rewrite(to.payload(), after);
                    let is_outside = match from {
                        NewForm::List(len) => *len > 31 || key_len > 255,
                        form => matches!(form, NewForm::Shared),
                    };
                    assert_eq!(displaced.is_some(), is_outside);
                    assert_eq!(entry.key(), key);
                    assert_eq!((entry.expire_at(), entry.clock()), (after, 7));
                    assert!(entry.snapshot_bit());
                    let fresh = EntryBox::new(&key, to.payload(), after, 7);
                    assert_eq!(entry.value(), fresh.value());
                    assert_eq!(entry.size_bytes(), fresh.size_bytes());
                }
            }
        }
    }

    enum NewForm {
        Int,
        Embedded(usize),
        Shared,
        List(usize),
    }

    impl NewForm {
        fn payload(&self) -> Payload<'static> {
            match self {
                NewForm::Int => Payload::Int(42),
                NewForm::Embedded(len) => embedded(&[b'e'; 512][..*len]),
                NewForm::Shared => shared(513),
                NewForm::List(len) => Payload::Collection(list(*len).into()),
            }
        }
    }

    #[test]
    fn an_expiry_comes_and_goes_without_touching_the_rest() {
        let payloads = || [embedded(b"value"), Payload::Int(7), shared(600)].into_iter();
        let lists = || [1, 20, 100].map(|len| Payload::Collection(list(len).into())).into_iter();
        for (key_len, payload) in [20, 300].into_iter().flat_map(|len| payloads().chain(lists()).map(move |p| (len, p)))
        {
            let mut entry = EntryBox::new(&vec![b'k'; key_len], payload, None, 3);
            let value = entry.to_value();
            for expire in EXPIRES.iter().flat_map(|a| EXPIRES.map(|b| [*a, b])).flatten() {
                entry.set_expire(expire);
                assert_eq!(entry.expire_at(), expire);
                assert_eq!(entry.key(), vec![b'k'; key_len]);
                assert_eq!(entry.to_value(), value);
            }
        }
    }

    #[test]
    fn appending_goes_from_an_integer_to_a_buffer_of_its_own() {
        for expire in [None, Some(9), Some(1_700_000_000_000)] {
            let mut entry = EntryBox::new(b"k", Payload::Int(-12), expire, 0);
            let mut expected = b"-12".to_vec();
            for _ in 0..150 {
                expected.extend_from_slice(b"abcde");
                assert_eq!(entry.append(b"abcde"), expected.len());
                assert_eq!(bytes(&entry), expected);
                assert_eq!(entry.encoding(), Encoding::Raw);
                assert_eq!((entry.key(), entry.expire_at()), (&b"k"[..], expire));
            }
            assert!(matches!(entry.value(), ValueRef::Shared(_)));
        }
    }

    #[test]
    fn resizing_fills_up_with_zero_bytes() {
        let mut entry = EntryBox::new(b"k", embedded(b"abc"), None, 0);
        for len in [5, 2, 9, 2, 512, 4, 600, 3, 700] {
            let mut expected = bytes(&entry);
            expected.resize(len, 0);
            entry.resize(len);
            assert_eq!(bytes(&entry), expected);
            entry.bytes_mut().fill(b'y');
            assert_eq!(bytes(&entry), vec![b'y'; len]);
        }
    }

    #[test]
    fn a_shared_value_that_is_edited_leaves_the_readers_copy_alone() {
        let mut entry = EntryBox::new(b"k", shared(600), None, 0);
        let ValueRef::Shared(held) = entry.value() else { panic!("a long value is shared") };
        let held = Arc::clone(held);
        entry.append(b"tail");
        entry.bytes_mut()[0] = b'!';
        assert_eq!(*held, vec![b'x'; 600]);
        assert_eq!(bytes(&entry).len(), 604);
        assert_eq!(bytes(&entry)[0], b'!');
    }

    #[test]
    fn a_value_outlives_its_entry() {
        let value = |payload| EntryBox::new(b"k", payload, Some(1), 0).into_value();
        assert_eq!(value(Payload::Int(3)), Value::Int(3));
        assert_eq!(value(embedded(b"abc")), Value::Bytes(b"abc".to_vec()));
        assert_eq!(value(shared(600)), Value::Shared(Arc::new(vec![b'x'; 600])));
        let mut edited = EntryBox::new(b"k", embedded(b"abc"), None, 0);
        edited.append(b"d");
        assert_eq!(edited.to_value(), Value::Raw(b"abcd".to_vec()));
        assert_eq!(edited.into_value(), Value::Raw(b"abcd".to_vec()));
    }

    #[test]
    fn a_copied_value_equals_the_one_in_the_entry() {
        for payload in [Payload::Int(-3), embedded(b"abc"), shared(600)] {
            let entry = EntryBox::new(b"k", payload, None, 0);
            let copy = entry.to_value();
            assert_eq!(copy, entry.into_value());
        }
    }
}

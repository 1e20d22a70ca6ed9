//! An owned entry: this module makes, edits and frees it.

use std::alloc;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::entries::embedded::Embedded;
use crate::entries::entry::{
    CLOCK_MASK, EXPIRE_FLAGS, HAS_RUN, HAS_WORD, Header, LONG_KEY, RAW, REPR_COLLECTION, REPR_EMBEDDED, REPR_INT,
    REPR_SHARED, REPR_SHIFT, RUN_HEAD_LEN, SNAPSHOT, Shape, TIMED_FIELDS, TYPE_SHIFT, WORD_LEN,
};
use crate::entries::value::{EMBED_VALUE_LEN_MAX, Payload};
use crate::{Collection, Entry, Packed, Type, Value, ValueRef};

/// Owns an entry through one thin pointer. An edit may move the entry; then every stored copy of the pointer must be
/// replaced.
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

    /// Takes over an entry that [`EntryBox::into_raw`] gave up.
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

    /// Borrows an entry through a pointer that another place owns.
    ///
    /// # Safety
    /// `entry` came from `into_raw` and is neither freed nor changed during `'a`.
    #[inline]
    pub(crate) unsafe fn borrow<'a>(entry: NonNull<Header>) -> &'a Entry {
        // SAFETY: the entry is whole, per the caller.
        unsafe { &*Self::span(entry) }
    }

    /// As [`EntryBox::borrow`], for changes that do not move the entry.
    ///
    /// # Safety
    /// As for `borrow`, and there is no other borrow of the entry during `'a`.
    #[inline]
    pub(crate) unsafe fn borrow_mut<'a>(entry: NonNull<Header>) -> &'a mut Entry {
        // SAFETY: the entry is whole and not borrowed elsewhere, per the caller.
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
    /// `entry` has room for `shape`, the header is initialised, the word holds nothing that must be dropped, and the
    /// key is in place. `shape` was made from `payload` and `expire`.
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

    /// Writes an embedded run, and zero bytes after it.
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

    /// Stores a collection whose run was outside of the entry or behind its word: embedded in the entry if it fits,
    /// otherwise behind a word. Everything else stays. Returns the run if it was copied.
    ///
    /// # Safety
    /// The word, if there is one, holds nothing that must be dropped.
    unsafe fn put_collection<T: Embedded>(&mut self, collection: T) -> Option<Packed> {
        let old = self.shape();
        let new = old.with_run(collection.run().map(<[u8]>::len));
        let expire = self.expire_at();
        self.reshape(new, old.value_at() - old.key_len_at());
        // SAFETY: the entry has room for `new` with the key in place; expiry and value are written before any other
        // code sees it.
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
            // SAFETY: the word is a `T`, as the code above has checked; the collection is put back at once.
            unsafe {
                let collection = ptr::read(self.part::<T>(at));
                self.put_collection(collection);
            }
        }
    }

    /// Takes a value that lives outside of the entry.
    ///
    /// # Safety
    /// The caller writes the word, or frees the entry without reading the word, before any other code sees the entry
    /// again.
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
    /// The representation says that there is a collection; for the rest as for [`EntryBox::take_outside`].
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

    /// Replaces an embedded string by one of the same length if nothing else changes; returns whether it did. Most
    /// overwrites are of this kind, and only touch the bytes.
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
    /// `tail_len` bytes from the key's length on. The caller must write all other parts, the expiry too, through
    /// `self.0` alone: until then no `Entry` may refer to it.
    #[inline]
    fn reshape(&mut self, new: Shape, tail_len: usize) {
        let old = self.shape();
        let in_place = new.size() == old.size();
        if in_place && new.flags == old.flags {
            return;
        }
        let target = if in_place { self.0 } else { Self::allocate(new) };
        // SAFETY: all parts lie within their bodies. In place, bytes that move up are copied from the end on, bytes
        // that move down from the start on, so that nothing is overwritten before it is copied.
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

    /// Sets whether fields of the hash may expire.
    pub(crate) fn set_timed_fields(&mut self, on: bool) {
        debug_assert_eq!(self.ty(), Type::Hash);
        self.put(TIMED_FIELDS, on);
    }

    /// Turns a string into one that is edited as bytes: an integer becomes its digits, and the encoding becomes `raw`.
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
        // SAFETY: the allocation fits `new`; bytes that were not copied or are new are zeroed here, before the header
        // counts them as part of the entry.
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

    /// Frees the entry and returns its value if that lives outside of it.
    ///
    /// # Safety
    /// The entry is not used after this.
    #[inline]
    unsafe fn free(&mut self) -> Option<Value> {
        // SAFETY: allocated with this very layout; the word is not read again.
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
mod tests;

//! An entry: a key with its value and expiry in one allocation.
//!
//! ```text
//! header 8 bytes | wide expiry 8 | word 8 | narrow expiry 5 | key length 4 | key | embedded value | to 8
//! ```
//!
//! All parts but the header and the key are optional; the header's flags and lengths say so, and the size of the
//! allocation follows from the entry alone. The word holds an integer, or the one pointer to a value that lives
//! outside. An expiry within 34 years of September 2020 is narrow: a 16-byte key and a 3-byte value then stay within 32
//! bytes with an expiry as without, where allocators step by 16. The key's length is apart from the header when it is
//! over 255. All of the body is always initialised.
//!
//! The packed run of a small collection is embedded like a short string: a byte with its length, the run, and room to
//! grow in up to the allocator's size class. Such an entry has no word. Instead, a reference to the collection points
//! at the *header*, whose lowest bits say so (see [`crate::entries::compact`]) and whose address leads to the run.

use std::alloc::Layout;
use std::ptr;
use std::sync::Arc;

use crate::entries::packed::size_class;
use crate::entries::value::{Payload, string_encoding};
use crate::{CollectionRef, CollectionType, Encoding, Hash, Type, Value, ValueRef};

/// Bits of [`Header::flags`]: what the body is made of.
const WIDE_EXPIRE: u8 = 1;
pub(crate) const HAS_WORD: u8 = 1 << 1;
/// The value is a collection's packed run, embedded. A word that is a pointer never has this bit.
pub(crate) const HAS_RUN: u8 = 1 << 2;
const NARROW_EXPIRE: u8 = 1 << 3;
pub(crate) const LONG_KEY: u8 = 1 << 4;
pub(crate) const EXPIRE_FLAGS: u8 = WIDE_EXPIRE | NARROW_EXPIRE;
const LAYOUT_FLAGS: u8 = EXPIRE_FLAGS | HAS_WORD | HAS_RUN | LONG_KEY;

/// Where the key stands in the body, by the flags of the layout.
const KEY_AT: [u8; LAYOUT_FLAGS as usize + 1] = {
    let mut table = [0; LAYOUT_FLAGS as usize + 1];
    let parts =
        [(WIDE_EXPIRE, WORD_LEN), (HAS_WORD, WORD_LEN), (NARROW_EXPIRE, NARROW_LEN), (LONG_KEY, LONG_KEY_LEN_BYTES)];
    let mut flags = 0;
    while flags < table.len() {
        let mut part = 0;
        while part < parts.len() {
            let (flag, len) = parts[part];
            if flags as u8 & flag != 0 {
                table[flags] += len as u8;
            }
            part += 1;
        }
        flags += 1;
    }
    table
};

/// A string to be reported as `raw` whatever its length.
pub(crate) const RAW: u8 = 1 << 5;
/// For the snapshot: which side of the cut the entry was last saved on.
pub(crate) const SNAPSHOT: u8 = 1 << 6;
/// A hash with fields that may expire. The flag stays until a pass of the table's expiry finds no such field.
pub(crate) const TIMED_FIELDS: u8 = 1 << 7;

/// Bits of [`Header::meta`].
pub(crate) const CLOCK_MASK: u32 = 0x00ff_ffff;
pub(crate) const TYPE_SHIFT: u32 = 24;
pub(crate) const REPR_SHIFT: u32 = 28;

/// How the value is represented.
pub(crate) const REPR_EMBEDDED: u32 = 0;
pub(crate) const REPR_INT: u32 = 1;
pub(crate) const REPR_SHARED: u32 = 2;
pub(crate) const REPR_COLLECTION: u32 = 3;

pub(crate) const WORD_LEN: usize = 8;
const LONG_KEY_LEN_BYTES: usize = 4;
/// What stands before an embedded run: its length.
pub(crate) const RUN_HEAD_LEN: usize = 1;
/// The longest run that is embedded, in bytes. A longer run has an allocation of its own: embedded, it would be copied
/// whenever the entry moves, and would save little.
pub(crate) const RUN_LEN_MAX: usize = u8::MAX as usize;
const NARROW_LEN: usize = 5;
/// What a narrow expiry counts from, in milliseconds since the Unix epoch.
const NARROW_BASE_MS: i64 = 1_600_000_000_000;

/// The fixed part of an entry.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct Header {
    /// First, so that they are the lowest bits of the header read as a word.
    pub(crate) flags: u8,
    /// The length of a short key; a long key has its length in the body.
    pub(crate) key_len: u8,
    /// The length of an embedded value, including a run's room to grow.
    pub(crate) value_len: u16,
    /// Access clock (24 bits), type (4), representation (4).
    pub(crate) meta: u32,
}

const _: () = assert!(cfg!(target_endian = "little"), "the flags are the lowest bits of a header");
const _: () = assert!(std::mem::offset_of!(Header, flags) == 0 && size_of::<Header>() == size_of::<usize>());

/// A key with its value, expiry and access clock, as found in a table. Reading it costs no allocation.
#[repr(C)]
pub struct Entry {
    pub(crate) header: Header,
    pub(crate) body: [u8],
}

/// Which parts an entry has and how long they are; all offsets are into the body.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) flags: u8,
    pub(crate) key_len: usize,
    pub(crate) value_len: usize,
}

impl Shape {
    pub(crate) fn new(key_len: usize, payload: &Payload<'_>, expire: Option<i64>) -> Self {
        assert!(key_len <= u32::MAX as usize, "a key is at most 4 GiB long");
        let (word, value_len) = match payload {
            Payload::Int(_) | Payload::Shared(_) => (HAS_WORD, 0),
            Payload::Embedded { bytes, .. } => (0, bytes.len()),
            Payload::Collection(collection) => {
                let shape = Shape { flags: Self::key_flags(key_len), key_len, value_len: 0 };
                return shape.with_expire(expire).with_run(collection.as_ref().run().map(<[u8]>::len));
            }
        };
        let shape = Shape { flags: word | Self::key_flags(key_len), key_len, value_len };
        shape.with_expire(expire)
    }

    #[inline]
    fn key_flags(key_len: usize) -> u8 {
        if key_len > u8::MAX as usize { LONG_KEY } else { 0 }
    }

    /// The same for a collection with a run of this length: embedded, with room up to the end of the size class, if
    /// short enough; otherwise behind a word.
    pub(crate) fn with_run(self, run_len: Option<usize>) -> Self {
        let flags = self.flags & !(HAS_WORD | HAS_RUN);
        match run_len.filter(|len| *len <= RUN_LEN_MAX && flags & LONG_KEY == 0) {
            None => Shape { flags: flags | HAS_WORD, value_len: 0, ..self },
            Some(run_len) => {
                let shape = Shape { flags: flags | HAS_RUN, value_len: RUN_HEAD_LEN + run_len, ..self };
                let to_spare = size_class(shape.size()) - size_of::<Header>() - shape.end();
                Shape { value_len: shape.value_len + to_spare, ..shape }
            }
        }
    }

    #[inline]
    pub(crate) fn has_run(self) -> bool {
        self.flags & HAS_RUN != 0
    }

    /// The longest run that fits in place of the embedded one.
    #[inline]
    pub(crate) fn run_capacity(self) -> usize {
        debug_assert!(self.has_run());
        (self.value_len - RUN_HEAD_LEN).min(RUN_LEN_MAX)
    }

    /// The same with room for the given expiry.
    #[inline]
    pub(crate) fn with_expire(self, expire: Option<i64>) -> Self {
        let expire_flag = match expire {
            None => 0,
            Some(at) if at.wrapping_sub(NARROW_BASE_MS) as u64 >> (8 * NARROW_LEN) == 0 => NARROW_EXPIRE,
            Some(_) => WIDE_EXPIRE,
        };
        Shape { flags: self.flags & !EXPIRE_FLAGS | expire_flag, ..self }
    }

    /// # Safety
    /// `entry` points at a whole entry and may read all of it.
    #[inline]
    pub(crate) unsafe fn read(entry: *const Header) -> Self {
        // SAFETY: the header is initialised, per the caller.
        let header = unsafe { *entry };
        let mut shape = Shape {
            flags: header.flags & LAYOUT_FLAGS,
            key_len: header.key_len as usize,
            value_len: header.value_len as usize,
        };
        if header.flags & LONG_KEY != 0 {
            // SAFETY: with LONG_KEY set the body has the length at this offset.
            let key_len = unsafe {
                let body = entry.add(1).cast::<u8>();
                body.add(shape.key_len_at()).cast::<u32>().read_unaligned()
            };
            shape.key_len = key_len as usize;
        }
        shape
    }

    #[inline]
    pub(crate) fn has_word(self) -> bool {
        self.flags & HAS_WORD != 0
    }

    #[inline]
    pub(crate) fn word_at(self) -> usize {
        WORD_LEN * (self.flags & WIDE_EXPIRE) as usize
    }

    #[inline]
    fn narrow_at(self) -> usize {
        WORD_LEN * (self.flags & (WIDE_EXPIRE | HAS_WORD)).count_ones() as usize
    }

    #[inline]
    pub(crate) fn key_len_at(self) -> usize {
        self.key_at() - LONG_KEY_LEN_BYTES * usize::from(self.flags & LONG_KEY != 0)
    }

    #[inline]
    pub(crate) fn key_at(self) -> usize {
        KEY_AT[(self.flags & LAYOUT_FLAGS) as usize] as usize
    }

    #[inline]
    pub(crate) fn value_at(self) -> usize {
        self.key_at() + self.key_len
    }

    #[inline]
    pub(crate) fn end(self) -> usize {
        self.value_at() + self.value_len
    }

    #[inline]
    pub(crate) fn body_len(self) -> usize {
        self.end().next_multiple_of(WORD_LEN)
    }

    #[inline]
    pub(crate) fn size(self) -> usize {
        size_of::<Header>() + self.body_len()
    }

    /// Writes the expiry that the shape was made for into a body.
    ///
    /// # Safety
    /// `body` starts at a multiple of 8 and has room for the shape.
    #[inline]
    pub(crate) unsafe fn write_expire(self, body: *mut u8, expire: Option<i64>) {
        let Some(at) = expire else { return };
        // SAFETY: the parts lie where the shape says, per the caller.
        unsafe {
            if self.flags & WIDE_EXPIRE != 0 {
                body.cast::<i64>().write(at);
            } else {
                let narrow = (at - NARROW_BASE_MS).to_le_bytes();
                let to = body.add(self.narrow_at());
                ptr::copy_nonoverlapping(narrow.as_ptr(), to, NARROW_LEN);
            }
        }
    }

    pub(crate) fn layout(self) -> Layout {
        Layout::from_size_align(self.size(), align_of::<Header>()).expect("an entry is far below isize::MAX")
    }
}

/// The embedded run of the entry at `header`.
///
/// # Safety
/// `header` points at a whole entry that [`HAS_RUN`], may read all of it, and nobody changes it during `'a`.
#[inline]
pub(crate) unsafe fn run_of<'a>(header: *const Header) -> &'a [u8] {
    // SAFETY: the body has the parts its shape says, the run's length in front of it, per the caller.
    unsafe {
        let at = header.add(1).cast::<u8>().add(Shape::read(header).value_at());
        std::slice::from_raw_parts(at.add(RUN_HEAD_LEN), *at as usize)
    }
}

/// Where the last byte of an embedded value is; only the header is read.
///
/// # Safety
/// `header` points at an entry with a short key.
#[inline]
pub(crate) unsafe fn last_byte(header: *const Header) -> *const u8 {
    // SAFETY: per the caller.
    let end = unsafe { Shape::read(header) }.end();
    header.cast::<u8>().wrapping_add(size_of::<Header>() + end - 1)
}

impl Entry {
    #[inline]
    pub(crate) fn shape(&self) -> Shape {
        // SAFETY: `self` spans the header and all of the body.
        unsafe { Shape::read(ptr::from_ref(self).cast()) }
    }

    #[inline]
    pub(crate) fn repr(&self) -> u32 {
        self.header.meta >> REPR_SHIFT
    }

    /// # Safety
    /// The body holds a `T` at offset `at`, which is a multiple of 8.
    #[inline]
    pub(crate) unsafe fn part<T>(&self, at: usize) -> &T {
        // SAFETY: per the caller; the body starts at a multiple of 8.
        unsafe { &*self.body.as_ptr().add(at).cast() }
    }

    /// # Safety
    /// As for [`Entry::part`].
    #[inline]
    pub(crate) unsafe fn part_mut<T>(&mut self, at: usize) -> &mut T {
        // SAFETY: per the caller; the body starts at a multiple of 8.
        unsafe { &mut *self.body.as_mut_ptr().add(at).cast() }
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        let shape = self.shape();
        // SAFETY: the body has the parts its shape says.
        unsafe { self.body.get_unchecked(shape.key_at()..shape.value_at()) }
    }

    /// The value, in place.
    #[inline]
    pub fn value(&self) -> ValueRef<'_> {
        let shape = self.shape();
        // SAFETY: the body has the parts its shape says, and the word is what the representation says.
        unsafe {
            match self.repr() {
                REPR_EMBEDDED => ValueRef::Bytes(self.body.get_unchecked(shape.value_at()..shape.end())),
                REPR_INT => ValueRef::Int(*self.part(shape.word_at())),
                REPR_SHARED => ValueRef::Shared(self.part(shape.word_at())),
                _ => ValueRef::Collection(self.collection_ref()),
            }
        }
    }

    /// # Safety
    /// The value is a collection.
    unsafe fn collection_ref(&self) -> CollectionRef<'_> {
        // SAFETY: per the caller, and the header names its type.
        unsafe { CollectionRef::at(self.ty(), self.collection_word()) }
    }

    /// The word that is the collection, or, if its run is embedded, the header that represents it.
    ///
    /// # Safety
    /// The value is a collection.
    #[inline]
    unsafe fn collection_word(&self) -> *const u8 {
        if self.has_run() {
            // A collection other than a stream is a `Compact`, which reads a header with this flag as one; a stream is never
            // embedded. A header is as large as a word.
            ptr::from_ref(&self.header).cast()
        } else {
            // SAFETY: without a run the collection is the word, which the body has per the caller.
            unsafe { ptr::from_ref::<usize>(self.part(self.shape().word_at())).cast() }
        }
    }

    /// Whether the value is a collection of which the run is embedded.
    #[inline]
    pub(crate) fn has_run(&self) -> bool {
        self.has(HAS_RUN)
    }

    /// The collection, if the value is one of type `T`. O(1).
    #[inline]
    pub fn collection<T: CollectionType>(&self) -> Option<&T> {
        if self.ty() != T::TYPE {
            return None;
        }
        debug_assert_eq!(self.repr(), REPR_COLLECTION);
        // SAFETY: the header names the type, which only collections have.
        Some(unsafe { &*self.collection_word().cast::<T>() })
    }

    /// Prefetches what looking up some members or fields reads, by their hashes ([`crate::member_hash`]).
    pub fn prefetch_members(&self, hashes: &[u64]) {
        if let ValueRef::Collection(collection) = self.value() {
            collection.prefetch(hashes);
        }
    }

    /// The collection, for changing it in place; `None` if it is not a `T`, or if its run is embedded: then the header
    /// represents it, and must not be overwritten.
    #[inline]
    pub(crate) fn collection_mut<T: CollectionType>(&mut self) -> Option<&mut T> {
        if self.ty() != T::TYPE || self.has_run() {
            return None;
        }
        let at = self.shape().word_at();
        // SAFETY: as in `collection_word`.
        Some(unsafe { self.part_mut(at) })
    }

    /// The embedded run of a collection, for changes that keep its length.
    #[inline]
    pub(crate) fn run_mut(&mut self) -> Option<&mut [u8]> {
        if !self.has_run() {
            return None;
        }
        let shape = self.shape();
        // SAFETY: the body has the parts its shape says.
        let value = unsafe { self.body.get_unchecked_mut(shape.value_at()..shape.end()) };
        let (head, run) = value.split_at_mut(RUN_HEAD_LEN);
        run.get_mut(..head[0] as usize)
    }

    /// Replaces the embedded run in place; returns whether it did. It does nothing if the new run does not fit, or
    /// would leave much unused room.
    #[inline]
    pub(crate) fn set_run(&mut self, run: &[u8]) -> bool {
        let shape = self.shape();
        if !shape.has_run() || run.len() > shape.run_capacity() {
            return false;
        }
        if shape.size() > 64 && shape.with_run(Some(run.len())).size() * 2 <= shape.size() {
            return false;
        }
        // SAFETY: the body has the parts its shape says.
        let value = unsafe { self.body.get_unchecked_mut(shape.value_at()..shape.end()) };
        value[0] = run.len() as u8;
        value[RUN_HEAD_LEN..][..run.len()].copy_from_slice(run);
        true
    }

    /// A copy of the value. O(length); a long string is shared instead.
    pub fn to_value(&self) -> Value {
        match self.value() {
            ValueRef::Int(n) => Value::Int(n),
            ValueRef::Bytes(bytes) if self.has(RAW) => Value::Raw(bytes.to_vec()),
            ValueRef::Bytes(bytes) => Value::Bytes(bytes.to_vec()),
            ValueRef::Shared(bytes) => Value::Shared(Arc::clone(bytes)),
            ValueRef::Collection(collection) => Value::Collection(collection.to_owned()),
        }
    }

    /// The value's type.
    #[inline]
    pub fn ty(&self) -> Type {
        Type::from_number((self.header.meta >> TYPE_SHIFT) as u8 & 0xf)
    }

    /// The value's encoding, as OBJECT ENCODING reports it.
    pub fn encoding(&self) -> Encoding {
        match self.value() {
            ValueRef::Int(_) => Encoding::Int,
            ValueRef::Bytes(bytes) => string_encoding(bytes.len(), self.has(RAW)),
            ValueRef::Shared(bytes) => string_encoding(bytes.len(), self.has(RAW)),
            ValueRef::Collection(collection) => collection.encoding(),
        }
    }

    /// When the entry expires, in milliseconds since the Unix epoch; `None` if it does not.
    #[inline]
    pub fn expire_at(&self) -> Option<i64> {
        if !self.has(EXPIRE_FLAGS) {
            return None;
        }
        if self.has(WIDE_EXPIRE) {
            // SAFETY: the body starts with a wide expiry.
            return Some(unsafe { *self.part(0) });
        }
        let from = self.shape().narrow_at();
        let mut narrow = [0; WORD_LEN];
        narrow[..NARROW_LEN].copy_from_slice(&self.body[from..from + NARROW_LEN]);
        Some(NARROW_BASE_MS + i64::from_le_bytes(narrow))
    }

    /// Whether the entry has an expiry.
    #[inline]
    pub fn is_volatile(&self) -> bool {
        self.has(EXPIRE_FLAGS)
    }

    /// Whether the entry or a field of it may expire.
    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        self.has(EXPIRE_FLAGS | TIMED_FIELDS)
    }

    /// When the first field expires, in milliseconds since the Unix epoch; `None` if none does or this is no hash. O(1),
    /// of a small hash O(fields).
    pub(crate) fn next_field_expiry(&self) -> Option<i64> {
        if self.has(TIMED_FIELDS) { self.collection::<Hash>().and_then(Hash::next_expiry) } else { None }
    }

    /// When the entry or the first field of it expires, whichever comes first.
    pub(crate) fn next_due(&self) -> Option<i64> {
        self.expire_at().into_iter().chain(self.next_field_expiry()).min()
    }

    /// Whether the entry's time is over at `now_ms`.
    #[inline]
    pub fn is_expired(&self, now_ms: i64) -> bool {
        self.expire_at().is_some_and(|at| at <= now_ms)
    }

    /// The access clock: 24 bits, an LRU time or an LFU counter (see [`crate::entries::clock`]).
    #[inline]
    pub fn clock(&self) -> u32 {
        self.header.meta & CLOCK_MASK
    }

    #[inline]
    pub(crate) fn set_clock(&mut self, clock: u32) {
        self.header.meta = self.header.meta & !CLOCK_MASK | clock & CLOCK_MASK;
    }

    /// The integer, for overwriting it; `None` when the value is not an integer.
    #[inline]
    pub(crate) fn int_mut(&mut self) -> Option<&mut i64> {
        if self.repr() != REPR_INT {
            return None;
        }
        let at = WORD_LEN * (self.header.flags & WIDE_EXPIRE) as usize;
        // SAFETY: the representation says that the word is an integer.
        Some(unsafe { self.part_mut(at) })
    }

    /// The snapshot bit: which side of a cut the entry was last saved on.
    #[inline]
    pub fn snapshot_bit(&self) -> bool {
        self.has(SNAPSHOT)
    }

    pub(crate) fn set_snapshot_bit(&mut self, on: bool) {
        self.put(SNAPSHOT, on);
    }

    #[inline]
    pub(crate) fn has(&self, flag: u8) -> bool {
        self.header.flags & flag != 0
    }

    #[inline]
    pub(crate) fn put(&mut self, flag: u8, on: bool) {
        self.header.flags = self.header.flags & !flag | if on { flag } else { 0 };
    }

    /// Bytes that the entry has allocated, its value's own allocations included. O(1) for a string, at most O(chunks)
    /// for a collection.
    pub fn size_bytes(&self) -> usize {
        // What an `Arc` keeps beside its value.
        const COUNTS_BYTES: usize = 2 * size_of::<usize>();
        let outside = match self.value() {
            ValueRef::Shared(bytes) => COUNTS_BYTES + size_of::<Vec<u8>>() + bytes.capacity(),
            ValueRef::Int(_) | ValueRef::Bytes(_) => 0,
            ValueRef::Collection(collection) => collection.size_bytes(),
        };
        size_of_val(self) + outside
    }

    /// How many allocations freeing the entry gives back: this decides whether a lazy free pays.
    pub fn free_effort(&self) -> usize {
        match self.value() {
            ValueRef::Int(_) | ValueRef::Bytes(_) => 1,
            ValueRef::Shared(_) => 3,
            ValueRef::Collection(collection) => 1 + collection.free_effort(),
        }
    }
}

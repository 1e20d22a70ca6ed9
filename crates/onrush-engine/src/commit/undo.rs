//! Undo: entries as they were before a script changed them.
//!
//! Each access for changing an entry calls [`Recorder::touch`](super::record::Recorder::touch), which keeps a copy here
//! the first time. An entry that is too large to copy is not changed: the command works on an empty table instead, and
//! its script is undone.

use onrush_store::{KeyHash, Removed, Table, Value, ValueRef};

use crate::observe::errors::ErrorCounts;

/// Most bytes of keys and values that are kept for one undo.
const BYTES_MAX: usize = 64 * 1024;

/// Most keys that are kept for one undo.
pub(crate) const KEYS_MAX: usize = 128;

/// Most elements of a collection that can be kept for an undo.
const ELEMENTS_MAX: usize = 512;

/// Most bytes of lines for clients that monitor.
pub(super) const SHOWN_BYTES_MAX: usize = 1024 * 1024;

/// A key as it was.
pub(super) struct Image {
    pub(super) db: u32,
    pub(super) hash: KeyHash,
    /// Where the key's name ends among all names.
    name_end: usize,
    /// `None` if the key did not exist.
    pub(super) was: Option<Was>,
}

/// An entry as it was.
pub(super) struct Was {
    pub(super) value: Value,
    pub(super) expire: Option<i64>,
    pub(super) clock: u32,
}

/// See the module's text.
#[derive(Default)]
pub(super) struct Undo {
    pub(super) is_on: bool,
    pub(super) images: Vec<Image>,
    names: Vec<u8>,
    bytes: usize,
    /// Keys that have expired, with their databases.
    pub(super) expired: Vec<(u32, Removed)>,
    /// Whether a key could not be kept.
    pub(super) is_full: bool,
    /// Number of keys noted before as changed for waiting clients.
    pub(super) ready_before: usize,
    /// Lines for clients that monitor, which see them when it is certain that the commands will not be undone.
    pub(super) shown: Vec<Vec<u8>>,
    pub(super) shown_bytes: usize,
    /// Errors of the commands, which are counted when that is certain.
    pub(super) errors: ErrorCounts,
}

impl Undo {
    /// Whether changes can be undone.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Keeps a key of this table as it is, unless it is already kept; returns false if it is too large. O(value + keys
    /// kept).
    #[cold]
    pub(super) fn keep(&mut self, db: u32, key: &[u8], hash: KeyHash, table: &Table) -> bool {
        if self.has(db, key, hash) {
            return true;
        }
        let entry = table.get(key, hash);
        let bytes = entry.map_or(0, |entry| value_bytes(entry.value())).saturating_add(key.len());
        if self.images.len() == KEYS_MAX || bytes > BYTES_MAX - self.bytes {
            self.is_full = true;
            return false;
        }
        self.bytes += bytes;
        self.names.extend_from_slice(key);
        let was = entry.map(|entry| Was { value: entry.to_value(), expire: entry.expire_at(), clock: entry.clock() });
        self.images.push(Image { db, hash, name_end: self.names.len(), was });
        true
    }

    fn has(&self, db: u32, key: &[u8], hash: KeyHash) -> bool {
        let is_it = |(at, image): (usize, &Image)| image.hash == hash && image.db == db && self.name(at) == key;
        self.images.iter().enumerate().any(is_it)
    }

    pub(super) fn name(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.images[before].name_end);
        &self.names[start..self.images[at].name_end]
    }

    /// Keeps a key that has expired and was taken out of its table.
    pub(super) fn bury(&mut self, db: u32, removed: Removed) {
        self.expired.push((db, removed));
    }

    pub(super) fn clear(&mut self) {
        (self.is_on, self.is_full, self.bytes, self.shown_bytes) = (false, false, 0, 0);
        self.shown.clear();
        self.errors = ErrorCounts::default();
        self.images.clear();
        self.names.clear();
        self.expired.clear();
    }
}

fn value_bytes(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Collection(collection) if collection.len() > ELEMENTS_MAX => usize::MAX,
        ValueRef::Collection(collection) => collection.size_bytes(),
        value => value.len(),
    }
}

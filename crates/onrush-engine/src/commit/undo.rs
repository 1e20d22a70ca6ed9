//! A way back: entries as they were before a script changed them.
//!
//! Each access for changing an entry calls [`Recorder::touch`](super::record::Recorder::touch), which keeps a copy here
//! the first time. An entry that is too large to copy is not changed: the command works on an empty table instead, and
//! its script is undone.

use std::hint::cold_path;

use onrush_store::{KeyHash, NewValue, Removed, Table, Value, ValueRef};

use super::{Commit, Key};
use crate::lazyfree::Garbage;

/// Most bytes of keys and values that one way back keeps.
const BYTES_MAX: usize = 64 * 1024;

/// Most keys that one way back keeps.
pub(crate) const KEYS_MAX: usize = 128;

/// Most elements of a collection that a way back can keep.
const ELEMENTS_MAX: usize = 512;

/// A key as it was.
struct Image {
    db: u32,
    hash: KeyHash,
    /// Where the key's name ends among all names.
    name_end: usize,
    /// `None` if the key did not exist.
    was: Option<Was>,
}

struct Was {
    value: Value,
    expire: Option<i64>,
    clock: u32,
}

/// See the module's text.
#[derive(Default)]
pub(super) struct Undo {
    is_on: bool,
    images: Vec<Image>,
    names: Vec<u8>,
    bytes: usize,
    /// Keys that have expired, with their databases.
    expired: Vec<(u32, Removed)>,
    /// Whether a key could not be kept.
    is_full: bool,
    /// Number of keys noted before as changed for waiting clients.
    ready_before: usize,
}

impl Undo {
    /// Whether changes can be taken back.
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

    fn name(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.images[before].name_end);
        &self.names[start..self.images[at].name_end]
    }

    /// Keeps a key that has expired and was taken out of its table.
    pub(super) fn bury(&mut self, db: u32, removed: Removed) {
        self.expired.push((db, removed));
    }

    fn clear(&mut self) {
        (self.is_on, self.is_full, self.bytes) = (false, false, 0);
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

/// Why a command inside of a commit has worked on an empty table instead of the real one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outside {
    /// It wanted a key that was not declared.
    Undeclared,
    /// It wanted to change an entry that is too large for a way back.
    TooLarge,
}

impl Commit {
    /// From now on [`Commit::go_back`] can undo the commands that run inside of this commit.
    pub(crate) fn keep_way_back(&mut self) {
        let undo = &mut self.record.undo;
        debug_assert!(!undo.is_on && undo.images.is_empty());
        undo.is_on = true;
        undo.ready_before = self.left.ready.len();
        self.record.look_for_changes();
    }

    /// Whether there is a way back.
    #[inline]
    pub(crate) fn has_way_back(&self) -> bool {
        self.record.undo.is_on
    }

    /// Whether the effects of the commands inside must be undone.
    #[inline]
    pub(crate) fn is_to_go_back(&self) -> bool {
        self.record.undo.is_on && (self.refused.is_some() || self.locks.went_outside())
    }

    /// Ends the way back: changes so far stay.
    pub(crate) fn give_up_way_back(&mut self) {
        let undo = &mut self.record.undo;
        if undo.is_on {
            if !undo.expired.is_empty() {
                cold_path();
                self.left.expired.extend(undo.expired.drain(..).map(|(_, removed)| removed));
            }
            undo.clear();
            self.record.look_for_changes();
        }
    }

    /// Whether a command inside got an empty table instead of the one it wanted.
    #[inline]
    pub(crate) fn went_outside(&self) -> Option<Outside> {
        if !self.locks.went_outside() {
            return None;
        }
        cold_path();
        Some(if self.record.undo.is_full { Outside::TooLarge } else { Outside::Undeclared })
    }

    /// Restores all keys to their state when the way back began, and drops messages about their changes. Their locks
    /// are still held. O(what was kept).
    #[cold]
    pub(crate) fn go_back(&mut self) {
        let mut undo = std::mem::take(&mut self.record.undo);
        for at in 0..undo.images.len() {
            let was = undo.images[at].was.take();
            let Image { db, hash, .. } = undo.images[at];
            let bytes = undo.name(at);
            let table = self.locks.table(&mut self.record, db, &Key { bytes, hash, shard: None });
            self.left.garbage.extend(table.remove(bytes, hash).map(Garbage::from));
            if let Some(Was { value, expire, clock }) = was {
                table.insert(bytes, hash, NewValue::Owned(value), expire, clock);
            }
        }
        for (db, removed) in undo.expired.drain(..) {
            let (bytes, hash) = (removed.key(), self.shared.keyspace.hash(removed.key()));
            let table = self.locks.table(&mut self.record, db, &Key { bytes, hash, shard: None });
            if table.get(bytes, hash).is_none() {
                table.insert_entry(removed, hash);
            } else {
                self.left.garbage.push(removed.into());
            }
        }
        self.left.ready.truncate(undo.ready_before);
        undo.clear();
        self.record.undo = undo;
        self.record.abandon();
    }
}

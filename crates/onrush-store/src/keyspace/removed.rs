//! What leaves a table. The caller owns it and can read it, keep it, or free it after the shard is unlocked.

use std::fmt;
use std::mem;
use std::ops::Deref;

use crate::entries::entry_box::EntryBox;
use crate::keyspace::bucket::BucketArray;
use crate::keyspace::table::Table;
use crate::{Entry, Frozen, Value};

/// An entry that was taken out of its table. Reads as an [`Entry`]; dropping it frees it, which is better done
/// after the shard is unlocked.
pub struct Removed(pub(crate) EntryBox);

impl Removed {
    /// As [`Entry::freeze`].
    pub fn freeze(&mut self) -> Option<Frozen> {
        self.0.freeze()
    }

    /// Keeps the value and frees the rest. An embedded string is copied out.
    pub fn into_value(self) -> Value {
        self.0.into_value()
    }
}

impl Deref for Removed {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        &self.0
    }
}

impl fmt::Debug for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Removed").field(&&*self.0).finish()
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("key", &self.key().escape_ascii().to_string())
            .field("value", &self.value())
            .field("expire_at", &self.expire_at())
            .finish()
    }
}

/// All that a table held. Dropping it frees the entries, O(entries).
pub struct Cleared {
    pub(crate) table: Table,
}

impl Cleared {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Frees the entries one by one, and after each calls `freed` with about the number of its allocations. `freed` must not
    /// panic: what is left then is leaked. O(entries).
    pub fn free(mut self, freed: &mut dyn FnMut(usize)) {
        mem::replace(&mut self.table.buckets, BucketArray::empty()).drain(|entry| {
            let allocations = entry.free_effort();
            drop(entry);
            freed(allocations);
        });
    }

    /// Whether the table was empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Cleared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cleared").field("len", &self.len()).finish()
    }
}

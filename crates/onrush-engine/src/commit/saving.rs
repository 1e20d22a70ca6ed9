//! What a commit does for the snapshot under way: it saves entries before they change.

use std::sync::Arc;

use onrush_store::{Removed, Table};

use super::key::Key;
use crate::shared::Shared;
use crate::snapshot::Underway;

/// See the module's text.
pub(super) struct Saving {
    shared: &'static Shared,
    thread: usize,
    /// The snapshot that does not have all entries yet, and its number; 0 if there is none.
    snapshot: Option<Arc<Underway>>,
    number: u64,
}

impl Saving {
    pub(super) fn new(shared: &'static Shared, thread: usize) -> Self {
        Self { shared, thread, snapshot: None, number: 0 }
    }

    /// Updates which snapshot is under way.
    #[inline]
    pub(super) fn look(&mut self) {
        if self.shared.snapshots.number() != self.number {
            self.look_again();
        }
    }

    #[cold]
    fn look_again(&mut self) {
        self.number = self.shared.snapshots.number();
        let is_on = self.number != 0;
        self.snapshot = is_on.then(|| self.shared.snapshots.underway()).flatten();
    }

    /// Whether a snapshot does not have all entries yet.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.number != 0
    }

    /// Saves a key of this table as it is, if the snapshot does not have it.
    pub(super) fn save(&self, db: u32, key: &Key<'_>, table: &mut Table) {
        if let Some(snapshot) = &self.snapshot {
            table.save_key(key.bytes, key.hash, |entry, frozen| snapshot.save(self.thread, db, entry, frozen));
        }
    }

    /// Saves an entry that was taken out of this table, if the snapshot under way does not have it.
    pub(super) fn save_removed(&self, db: u32, removed: &mut Removed, table: &Table) {
        if let Some(snapshot) = &self.snapshot
            && table.is_unsaved(removed)
        {
            let frozen = removed.freeze();
            snapshot.save(self.thread, db, removed, frozen);
        }
    }

    /// The snapshot that does not have all entries yet.
    pub(super) fn snapshot(&self) -> Option<&Arc<Underway>> {
        self.snapshot.as_ref()
    }
}

//! Commits of whole shards and databases: expiry, emptying, exchanging.

use std::cell::RefCell;

use onrush_store::{Cleared, Db, Shard};

use super::{Commit, Expired};
use crate::messages::events::EventClass;

impl Commit {
    /// Empties a database; returns how many keys it had, and the tables to free, unless a snapshot still needs them.
    /// This commit has the whole keyspace.
    pub fn clear(&mut self, db: u32) -> (usize, Vec<Cleared>) {
        debug_assert!(self.locks.has_keyspace());
        let cleared = self.shared.keyspace.db(db as usize).map_or_else(Vec::new, Db::clear);
        match self.record.saving.snapshot() {
            Some(snapshot) if snapshot.wants_taken() => {
                let removed = cleared.iter().map(Cleared::len).sum();
                snapshot.take_over(db, cleared);
                (removed, Vec::new())
            }
            _ => (cleared.iter().map(Cleared::len).sum(), cleared),
        }
    }

    /// Exchanges two databases. This commit has the whole keyspace.
    pub fn swap(&mut self, a: u32, b: u32) {
        debug_assert!(self.locks.has_keyspace());
        self.shared.keyspace.swap_dbs(a as usize, b as usize);
        if let Some(snapshot) = self.record.saving.snapshot() {
            snapshot.swap(a, b);
        }
    }

    /// Removes keys of a shard that are due, and up to `fields_max` fields of its hashes. A commit of its own, for a thread that
    /// executes no commands.
    pub fn expire_shard(&mut self, db: u32, shard: &'static Shard, now_ms: i64, fields_max: usize) -> Expired {
        self.record.look(&self.shared.settings);
        if shard.is_held_long() {
            return Expired::default();
        }
        let Self { locks, record, left, .. } = self;
        let table = locks.lock_shard(shard);
        let mut keys = 0;
        table.expire_due(now_ms, 0, usize::MAX, &mut |removed| {
            record.note_expired(db, &removed);
            left.garbage.push(removed.into());
            keys += 1;
        });
        let mut fields = 0;
        let told = RefCell::new(record);
        let has_more = table.expire_fields(
            now_ms,
            fields_max,
            &mut |key: &[u8], names: &[Vec<u8>]| {
                fields += names.len();
                let mut record = told.borrow_mut();
                record.notices.notify(db, EventClass::Hash, "hexpired", key);
                record.changed_by_itself(db, key);
                record.journal.removed(db, b"HDEL", key, names);
            },
            &mut |removed| {
                told.borrow_mut().notices.notify(db, EventClass::Generic, "del", removed.key());
                left.garbage.push(removed.into());
            },
        );
        self.record.journal.end_command();
        self.release();
        Expired { keys, fields, has_more }
    }
}

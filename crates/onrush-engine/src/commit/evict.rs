//! Eviction as commits: each lock that it takes is a commit.

use onrush_store::{Removed, Shard, Table};

use super::{Commit, Evicts};
use crate::eviction::state::Memory;
use crate::messages::events::EventClass;
use crate::observe::latency::Event;

impl Commit {
    /// The same commit, which evicts with `evictor` when too much memory is in use.
    pub(crate) fn with_evictor(mut self, evictor: Box<dyn Evicts>) -> Self {
        self.evictor = Some(evictor);
        self
    }

    /// Evicts keys if more memory is in use than allowed. No locks are held.
    #[inline]
    pub fn keep_within_memory(&mut self) -> Memory {
        let eviction = &self.shared.eviction;
        let memory =
            if eviction.maxmemory() == 0 || !eviction.is_due() || self.shared.replication.role.ignores_maxmemory() {
                Memory::Within
            } else {
                self.evict()
            };
        self.is_stuck = memory == Memory::Stuck;
        memory
    }

    /// Whether commands that use memory are refused, as of the last [`Commit::keep_within_memory`].
    #[inline]
    pub(crate) fn is_stuck(&self) -> bool {
        self.is_stuck
    }

    #[cold]
    fn evict(&mut self) -> Memory {
        if self.shared.loading.is_on() {
            // Loaded data was evicted, as far as necessary, before it was saved.
            return Memory::Within;
        }
        let Some(mut evictor) = self.evictor.take() else { return Memory::Within };
        let started = self.shared.clock.now();
        let memory = evictor.evict(self);
        let took = self.shared.clock.now() - started;
        self.evictor = Some(evictor);
        self.evicting_ns += took.as_nanos() as u64;
        self.shared.note_event(Event::EvictionCycle, took);
        memory
    }

    /// Nanoseconds that eviction has taken since the present chunk began.
    pub(crate) fn evicting_ns(&self) -> u64 {
        self.evicting_ns
    }

    /// Deletes keys of a slot that are not to be here, about `max` from a position on; returns where to go on. A commit of its
    /// own; the thread has entered the gate. O(max).
    pub fn delete_of_slot(&mut self, slot: u16, position: u32, max: usize) -> Option<u32> {
        let shard = self.database(0).shard(slot.into());
        let hasher = &self.shared.keyspace;
        let (mut deleted, mut next) = (Vec::new(), Some(position));
        self.take_out(0, shard, &mut deleted, (EventClass::Generic, "del"), |table, deleted| {
            let (mut keys, mut buckets) = (Vec::new(), 0);
            while let Some(at) = next.filter(|_| keys.len() < max && buckets < max) {
                next = table.scan(at, &mut |entry| keys.push(entry.key().to_vec()));
                buckets += 1;
            }
            deleted.extend(keys.iter().filter_map(|key| table.remove(key, hasher.hash(key))));
        });
        next
    }

    /// Evicts entries of a shard: `pick` puts them into the list, which must be empty before. While the shard is
    /// locked, they are recorded as deleted and clients that wait for them are noted. A commit of its own.
    pub(crate) fn evict_in<R>(
        &mut self,
        db: u32,
        shard: &'static Shard,
        evicted: &mut Vec<Removed>,
        pick: impl FnOnce(&mut Table, &mut Vec<Removed>) -> R,
    ) -> R {
        self.take_out(db, shard, evicted, (EventClass::Evicted, "evicted"), pick)
    }

    fn take_out<R>(
        &mut self,
        db: u32,
        shard: &'static Shard,
        taken: &mut Vec<Removed>,
        (class, event): (EventClass, &'static str),
        pick: impl FnOnce(&mut Table, &mut Vec<Removed>) -> R,
    ) -> R {
        let Self { shared, locks, record, .. } = self;
        record.look(&shared.settings);
        let table = locks.lock_shard(shard);
        let result = pick(table, taken);
        for removed in taken {
            record.saving.save_removed(db, removed, table);
            record.journal.also(db, [b"DEL", removed.key()].into_iter());
            record.changed_by_itself(db, removed.key());
            record.notices.notify(db, class, event, removed.key());
            record.note_ready(db, removed.key());
        }
        self.release();
        result
    }

    /// The thread that owns this.
    pub(crate) fn thread(&self) -> usize {
        self.thread
    }
}

//! Eviction as commits: each lock that it takes is one.

use std::sync::atomic::Ordering::Relaxed;

use onrush_store::{Removed, Shard, Table};

use super::Commit;
use crate::eviction::{Evictor, Memory};

impl Commit {
    /// Evicts keys if more memory is in use than allowed. No locks are held.
    #[inline]
    pub(crate) fn keep_within_memory(&mut self) -> Memory {
        let maxmemory = self.server.hot.maxmemory.load(Relaxed);
        if maxmemory == 0 || !self.server.eviction.is_due() { Memory::Within } else { self.evict() }
    }

    #[cold]
    fn evict(&mut self) -> Memory {
        let mut evictor = self.evictor.take().unwrap_or_else(|| Box::new(Evictor::new(self.server, self.thread)));
        let memory = evictor.run(self);
        self.evictor = Some(evictor);
        memory
    }

    /// Takes entries out of a shard that are evicted: `pick` puts them into the list, which is empty before. They are recorded
    /// as deleted, and who waits for them is noted, while the shard is locked. A commit of its own.
    pub(crate) fn evict_in<R>(
        &mut self,
        db: u32,
        shard: &'static Shard,
        evicted: &mut Vec<Removed>,
        pick: impl FnOnce(&mut Table, &mut Vec<Removed>) -> R,
    ) -> R {
        let Self { server, locks, record, left, .. } = self;
        let result = pick(locks.lock_shard(shard), evicted);
        for removed in &*evicted {
            record.also(db, [b"DEL", removed.key()].into_iter());
            if !server.waiters.is_empty() && server.waiters.may_have(server.keyspace.hash(removed.key())) {
                left.ready.push((db, removed.key().to_vec()));
            }
        }
        self.release();
        result
    }

    /// The thread that this belongs to.
    pub(crate) fn thread(&self) -> usize {
        self.thread
    }
}

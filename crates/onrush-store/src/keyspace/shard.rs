//! A shard: a table behind its lock, and the facts about it that can be read without the lock.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, Ordering::Relaxed};

use crate::keyspace::bucket::{class_of_shadow, prefetch, prefetch_home};
use crate::keyspace::key_hash::{Hasher, KeyHash};
use crate::keyspace::lock::{Mutex, MutexGuard};
use crate::keyspace::lock_order::{Held, Rank};
use crate::keyspace::table::Table;

/// A partition of a database: a [`Table`] behind a mutex. One cache line, so that locking costs one miss.
///
/// Beside the lock are copies of facts about the table, written when it is unlocked and read without the lock: the
/// address of its buckets (for prefetching only), how many entries it has, and when the next one is due.
#[repr(align(64))]
pub struct Shard {
    table: Mutex<Table>,
    buckets: AtomicPtr<()>,
    next_expire_ms: AtomicI64,
    len: AtomicU32,
    volatile_len: AtomicU32,
    rank: Rank,
}

#[cfg(not(debug_assertions))]
const _: () = assert!(size_of::<Shard>() == 64);

impl Shard {
    pub(crate) fn new(hasher: Hasher, rank: Rank) -> Self {
        let table = Table::new(hasher);
        Shard {
            buckets: AtomicPtr::new(table.buckets.shadow()),
            next_expire_ms: AtomicI64::new(table.next_expire_ms()),
            len: AtomicU32::new(0),
            volatile_len: AtomicU32::new(0),
            table: Mutex::new(table),
            rank,
        }
    }

    /// The size class of the table, as of when the shard was last unlocked.
    pub(crate) fn class(&self) -> u8 {
        class_of_shadow(self.buckets.load(Relaxed))
    }

    /// Prefetches the shard's own cache line.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(self);
    }

    /// Prefetches the bucket of `hash`. Takes no lock and follows no pointer; while the table is being resized it has
    /// no effect.
    #[inline]
    pub fn prefetch_bucket(&self, hash: KeyHash) {
        prefetch_home(self.buckets.load(Relaxed), hash.position());
    }

    /// Locks the shard. A thread that locks several does so in ascending order of database and shard, each once.
    ///
    /// # Panics
    /// In debug builds, when the thread breaks that order.
    #[inline]
    pub fn lock(&self) -> ShardGuard<'_> {
        self.rank.check();
        self.guard(self.table.lock())
    }

    /// Whether a thread holds the shard that has called [`ShardGuard::mark_long`].
    #[inline(always)]
    pub fn is_held_long(&self) -> bool {
        // SAFETY: this only reads the lock's state.
        unsafe { self.table.raw() }.is_held_long()
    }

    /// As [`Shard::lock`], but gives up when a thread holds the shard that will take long.
    #[inline]
    pub fn lock_unless_long(&self) -> Option<ShardGuard<'_>> {
        self.rank.check();
        // SAFETY: the lock is taken here, so that a guard of it may be made.
        let table = unsafe { self.table.raw().lock_unless_long().then(|| self.table.make_guard_unchecked()) };
        table.map(|table| self.guard(table))
    }

    /// Locks the shard if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<ShardGuard<'_>> {
        self.table.try_lock().map(|table| self.guard(table))
    }

    /// Prefetches the entries that a lookup of `hash` may read, if the lock is free: a prefetch never waits. Returns
    /// true when [`Shard::try_prefetch_overflow_entry`] is worth a call later.
    #[inline]
    pub fn try_prefetch_entry(&self, hash: KeyHash) -> bool {
        self.table.try_lock().is_some_and(|table| table.prefetch_entry(hash))
    }

    /// As [`Shard::try_prefetch_entry`], for entries in overflow.
    #[inline]
    pub fn try_prefetch_overflow_entry(&self, hash: KeyHash) {
        if let Some(table) = self.table.try_lock() {
            table.prefetch_overflow_entry(hash);
        }
    }

    #[inline]
    fn guard<'a>(&'a self, table: MutexGuard<'a, Table>) -> ShardGuard<'a> {
        ShardGuard { table, shard: self, _held: self.rank.hold() }
    }

    /// Number of entries, as of when the shard was last unlocked.
    #[inline]
    pub fn len(&self) -> usize {
        self.len.load(Relaxed) as usize
    }

    /// At most `count` of the keys, in no order. Locks the shard; O(count).
    pub fn keys(&self, count: usize) -> Vec<Vec<u8>> {
        let (mut keys, mut position) = (Vec::new(), Some(0));
        let table = self.lock();
        while let Some(at) = position.filter(|_| keys.len() < count) {
            position = table.scan(at, &mut |entry| keys.push(entry.key().to_vec()));
        }
        keys.truncate(count);
        keys
    }

    /// Whether there are no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of entries with an expiry, as of when the shard was last unlocked.
    #[inline]
    pub fn volatile_len(&self) -> usize {
        self.volatile_len.load(Relaxed) as usize
    }

    /// Neither an entry nor a field of one expires before this time, in milliseconds since the Unix epoch, as of when the shard was last
    /// unlocked; `i64::MAX` if none ever does.
    #[inline]
    pub fn next_expire_ms(&self) -> i64 {
        self.next_expire_ms.load(Relaxed)
    }
}

/// A locked shard: reads and changes as its [`Table`].
pub struct ShardGuard<'a> {
    table: MutexGuard<'a, Table>,
    shard: &'a Shard,
    _held: Held,
}

impl ShardGuard<'_> {
    /// Marks the lock as held for long, so that threads that can do something else do not wait for it.
    pub fn mark_long(&self) {
        // SAFETY: this guard has the lock, which stays held.
        unsafe { self.shard.table.raw() }.mark_long();
    }

    /// Whether it is this shard that is locked.
    #[inline]
    pub fn is_of(&self, shard: &Shard) -> bool {
        std::ptr::eq(self.shard, shard)
    }
}

impl Deref for ShardGuard<'_> {
    type Target = Table;

    #[inline]
    fn deref(&self) -> &Table {
        &self.table
    }
}

impl DerefMut for ShardGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Table {
        &mut self.table
    }
}

impl Drop for ShardGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // The lock is still held, so only one thread writes these; the cache line already belongs to this core.
        let (shard, table) = (self.shard, &*self.table);
        shard.buckets.store(table.buckets.shadow(), Relaxed);
        shard.next_expire_ms.store(table.next_expire_ms(), Relaxed);
        shard.len.store(table.len() as u32, Relaxed);
        shard.volatile_len.store(table.volatile_len() as u32, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NewValue;

    fn shard(index: usize) -> Shard {
        Shard::new(Hasher::seeded(1), Rank::new(0, index))
    }

    #[test]
    fn unlocking_publishes_what_is_read_without_the_lock() {
        let (shard, hash) = (shard(0), Hasher::seeded(1).hash(b"k"));
        shard.prefetch();
        shard.prefetch_bucket(hash);
        let mut table = shard.lock();
        table.set(b"k", hash, NewValue::Int(1), Some(77), 0);
        assert_eq!(shard.len(), 0);
        assert!(shard.try_lock().is_none());
        drop(table);
        assert_eq!((shard.len(), shard.volatile_len()), (1, 1));
        assert_eq!(shard.next_expire_ms(), 77);
        shard.prefetch_bucket(hash);
        shard.lock().prefetch_entry(hash);
        shard.lock().remove(b"k", hash);
        assert!(shard.is_empty());
        assert_eq!(shard.next_expire_ms(), i64::MAX);
    }

    #[test]
    fn a_shard_is_held_long_until_it_is_unlocked() {
        let shard = shard(0);
        let held = shard.lock();
        assert!(!shard.is_held_long());
        held.mark_long();
        assert!(shard.is_held_long() && shard.try_lock().is_none());
        drop(held);
        assert!(!shard.is_held_long() && shard.try_lock().is_some());
        assert!(shard.lock_unless_long().is_some());
    }

    #[test]
    fn who_waits_for_a_shard_gives_up_when_it_turns_out_to_be_held_for_long() {
        let shard = shard(0);
        let held = shard.lock();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| shard.lock_unless_long().is_none());
            held.mark_long();
            assert!(waiting.join().expect("no panic"));
        });
    }

    #[test]
    fn shards_are_shared_between_threads() {
        let (shard, hasher) = (shard(0), Hasher::seeded(1));
        let rounds: i64 = if cfg!(miri) { 20 } else { 2000 };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for n in 0..rounds {
                        let key = n.to_be_bytes();
                        let hash = hasher.hash(&key);
                        shard.prefetch_bucket(hash);
                        shard.lock().prefetch_entry(hash);
                        shard.lock().set(&key, hash, NewValue::Int(n), None, 0);
                    }
                });
            }
        });
        assert_eq!(shard.len(), rounds as usize);
    }

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(expected = "lock order: shard 3 of database 0")]
    fn locking_against_the_order_panics_in_debug_builds() {
        let (low, high) = (shard(3), shard(4));
        let _high = high.lock();
        let _low = low.lock();
    }

    #[test]
    fn locking_in_order_and_again_after_unlocking_is_fine() {
        let (low, high) = (shard(3), shard(4));
        let (first, second) = (low.lock(), high.lock());
        drop(first);
        drop(second);
        drop(high.lock());
        drop(low.lock());
    }
}

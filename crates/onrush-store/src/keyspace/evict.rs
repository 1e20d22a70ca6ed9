//! Eviction: a walk over a table's entries that takes out those that the caller chooses.
//!
//! Keys are hashed, so neighbours in a table are unrelated: a run of buckets is as good a sample as entries drawn one
//! by one, at a fraction of the cache misses.

use std::ptr;

use crate::entries::clock;
use crate::keyspace::bucket::{Located, PREFETCH_AHEAD};
use crate::random::Random;
use crate::{Entry, Removed, Table};

/// Which entries a walk looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among {
    /// All.
    All,
    /// Those with an expiry.
    Volatile,
}

impl Among {
    /// Other entries are not read if their bucket shows that they have none.
    #[inline]
    fn has(self, located: Located<'_>) -> bool {
        self == Among::All || located.is_timed() && located.entry().is_volatile()
    }
}

impl Table {
    /// Shows entries to `is_victim`, bucket by bucket from position `from` on, and hands those it chooses to `evicted`.
    /// Ends behind the bucket with which `looks_min` have been shown, and returns where to go on; `None` at the table's end.
    /// Positions mean the same after any number of resizes. O(entries shown), with [`Among::Volatile`] O(entries passed).
    pub fn evict(
        &mut self,
        from: u32,
        looks_min: usize,
        among: Among,
        is_victim: &mut impl FnMut(&Entry) -> bool,
        evicted: &mut impl FnMut(Removed),
    ) -> Option<u32> {
        let count = self.buckets.count();
        let first = self.buckets.index_of(from);
        let (mut looks, mut removed, mut next) = (0, false, None);
        // By their addresses: taking out an entry moves others of its bucket.
        let mut victims = Vec::new();
        (first..first + PREFETCH_AHEAD).for_each(|bucket| self.prefetch_among(bucket, among));
        for bucket in first..count {
            if looks >= looks_min.max(1) {
                next = self.buckets.position_after(bucket - 1);
                break;
            }
            self.prefetch_among(bucket + PREFETCH_AHEAD, among);
            for located in self.buckets.chain(bucket).filter(|located| among.has(*located)) {
                looks += 1;
                if is_victim(located.entry()) {
                    victims.push(address(located.entry()));
                }
            }
            for victim in victims.drain(..) {
                if let Some(entry) = self.take(bucket, victim) {
                    removed = true;
                    evicted(entry);
                }
            }
        }
        if removed {
            self.shrink();
        }
        next
    }

    /// Takes out an entry chosen evenly by `random`. Expected O(1), with [`Among::Volatile`] O(entries / those).
    pub fn evict_any(&mut self, random: &mut Random, among: Among) -> Option<Removed> {
        let chosen = match among {
            Among::All => self.random_entry(random.next()),
            Among::Volatile => self.random_volatile_entry(random.next()),
        }?;
        let (position, victim) = (self.position_of(chosen.key()), address(chosen));
        let removed = self.take(self.buckets.index_of(position), victim);
        self.shrink();
        removed
    }

    /// Makes the fine LRU clocks that have become old coarse ones ([`clock::coarsened`]). O(entries).
    pub fn coarsen_clocks(&mut self, now_ms: i64) {
        let coarsened = |located: Located<'_>| clock::coarsened(located.entry().clock(), now_ms);
        for bucket in 0..self.buckets.count() {
            self.buckets.prefetch_entries(bucket + PREFETCH_AHEAD);
            while let Some(mut located) = self.buckets.first_mut(bucket, |located| coarsened(located).is_some()) {
                let coarse = clock::coarsened(located.entry().clock(), now_ms);
                coarse.into_iter().for_each(|clock| located.entry_mut().set_clock(clock));
            }
        }
    }

    fn prefetch_among(&self, bucket: usize, among: Among) {
        match among {
            Among::All => self.buckets.prefetch_entries(bucket),
            Among::Volatile => self.prefetch_volatile(bucket),
        }
    }

    /// Takes out the entry of a bucket that is at an address.
    fn take(&mut self, bucket: usize, victim: usize) -> Option<Removed> {
        let entry = self.buckets.remove_first(bucket, |located| address(located.entry()) == victim)?;
        self.count_removed(&entry);
        Some(Removed(entry))
    }
}

fn address(entry: &Entry) -> usize {
    ptr::from_ref(entry).cast::<u8>().addr()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::keyspace::key_hash::Hasher;
    use crate::{NewValue, ValueRef};

    /// `len` integers, those that `expire` chooses with an expiry.
    fn table(len: i64, expire: impl Fn(i64) -> bool) -> Table {
        let hasher = Hasher::seeded(3);
        let mut table = Table::new(hasher);
        for n in 0..len {
            let key = n.to_be_bytes();
            table.set(&key, hasher.hash(&key), NewValue::Int(n), expire(n).then_some(5000 + n), 0);
        }
        table
    }

    fn number(entry: &Entry) -> i64 {
        match entry.value() {
            ValueRef::Int(n) => n,
            other => panic!("{other:?}"),
        }
    }

    /// Walks over all of a table, a few entries at a time; returns what it showed and what it took out.
    fn walk(table: &mut Table, among: Among, is_victim: impl Fn(i64) -> bool) -> (Vec<i64>, HashSet<i64>) {
        let (mut shown, mut gone, mut next) = (Vec::new(), HashSet::new(), Some(0));
        while let Some(from) = next {
            let mut judge = |entry: &Entry| {
                shown.push(number(entry));
                is_victim(number(entry))
            };
            next = table.evict(from, 10, among, &mut judge, &mut |removed| _ = gone.insert(number(&removed)));
        }
        (shown, gone)
    }

    #[test]
    fn a_walk_shows_every_entry_once_and_takes_out_the_chosen_ones() {
        for len in [0, 1, 9, 100, 3000] {
            let mut table = table(len, |n| n % 5 == 0);
            let is_victim = |n: i64| n % 3 == 1;
            let (shown, gone) = walk(&mut table, Among::All, is_victim);
            assert_eq!(shown.iter().copied().collect::<HashSet<_>>(), (0..len).collect());
            assert_eq!(gone, (0..len).filter(|n| is_victim(*n)).collect());
            assert_eq!(table.len() as i64, len - gone.len() as i64);
            assert_eq!(table.volatile_len(), (0..len).filter(|n| n % 5 == 0 && !is_victim(*n)).count());
            let mut left = HashSet::new();
            table.for_each(&mut |entry| _ = left.insert(number(entry)));
            assert_eq!(left, (0..len).filter(|n| !is_victim(*n)).collect());
        }
    }

    #[test]
    fn a_walk_among_volatile_entries_leaves_the_others_alone() {
        let mut table = table(1000, |n| n % 4 == 0);
        let (shown, gone) = walk(&mut table, Among::Volatile, |_| true);
        assert!(shown.iter().all(|n| n % 4 == 0));
        assert_eq!(gone, (0..1000).filter(|n| n % 4 == 0).collect());
        assert_eq!((table.len(), table.volatile_len(), table.next_expire_ms()), (750, 0, i64::MAX));
    }

    #[test]
    fn whole_buckets_may_go_and_the_table_shrinks() {
        let mut table = table(5000, |_| false);
        let bytes = table.buckets_bytes();
        let (_, gone) = walk(&mut table, Among::All, |n| n != 17);
        assert_eq!((gone.len(), table.len()), (4999, 1));
        assert!(table.buckets_bytes() < bytes / 100);
    }

    #[test]
    fn entries_drawn_at_random_are_drawn_evenly() {
        let mut random = Random::new(1);
        let mut counts = [0; 20];
        for _ in 0..if cfg!(miri) { 20 } else { 4000 } {
            let mut table = table(20, |n| n % 2 == 0);
            let among = if random.next().is_multiple_of(2) { Among::All } else { Among::Volatile };
            let removed = table.evict_any(&mut random, among).expect("there are some");
            assert!(among == Among::All || number(&removed) % 2 == 0);
            counts[number(&removed) as usize] += 1;
            assert_eq!(table.len(), 19);
        }
        // 100 and 300 are expected of 4,000.
        let uneven = |n: usize| !(if n.is_multiple_of(2) { 220..380 } else { 60..140 }).contains(&counts[n]);
        assert!(cfg!(miri) || !(0..20).any(uneven), "{counts:?}");
        assert!(table(5, |_| false).evict_any(&mut random, Among::Volatile).is_none());
    }

    #[test]
    fn old_fine_clocks_become_coarse_ones() {
        let hasher = Hasher::seeded(3);
        let mut table = Table::new(hasher);
        let now_ms = 1_763_780_000_000;
        for n in 0..2000_i64 {
            let key = n.to_be_bytes();
            let used_ms = now_ms - n * 2000;
            table.set(&key, hasher.hash(&key), NewValue::Int(n), None, clock::lru_fine(used_ms));
        }
        table.coarsen_clocks(now_ms);
        table.for_each(&mut |entry| {
            let idle_ms = clock::lru_idle_ms(entry.clock(), now_ms);
            assert_eq!(idle_ms, number(entry) as u64 * 2000);
            // Coarse clocks can wait longer than fine ones.
            let later_ms = now_ms + 3 * clock::COARSEN_PERIOD_MS;
            let is_right = clock::lru_idle_ms(entry.clock(), later_ms) == idle_ms + 3 * clock::COARSEN_PERIOD_MS as u64;
            assert_eq!(is_right, idle_ms > 30 * 60 * 1000, "{}", number(entry));
        });
    }
}

//! A database: its shards, and what spans them.

use crate::key_hash::{Hasher, KeyHash, SHARD_BITS};
use crate::lock_order::Rank;
use crate::random::Random;
use crate::shard::Shard;
use crate::table::Table;
use crate::{Cleared, Entry};

/// One numbered database. Each key's hash says which shard it is in.
pub struct Db {
    shards: Box<[Shard]>,
    /// How many of a hash's shard bits are not needed.
    shift: u32,
}

impl Db {
    /// `shards` is a power of two, at most `SHARDS_MAX`.
    pub(crate) fn new(index: usize, shards: usize, hasher: Hasher) -> Self {
        assert!(shards.is_power_of_two() && shards <= 1 << SHARD_BITS);
        Db {
            shards: (0..shards).map(|shard| Shard::new(hasher, Rank::new(index, shard))).collect(),
            shift: SHARD_BITS - shards.trailing_zeros(),
        }
    }

    /// All shards, in the order of their locks.
    #[inline]
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// The shard with the given index.
    ///
    /// # Panics
    /// When there are not that many.
    #[inline]
    pub fn shard(&self, index: usize) -> &Shard {
        &self.shards[index]
    }

    /// Index of the shard that keys with this hash are in.
    #[inline]
    pub fn shard_index(&self, hash: KeyHash) -> usize {
        hash.shard_bits() >> self.shift
    }

    /// The shard that keys with this hash are in.
    #[inline]
    pub fn shard_of(&self, hash: KeyHash) -> &Shard {
        &self.shards[self.shard_index(hash)]
    }

    /// Number of entries, expired ones included. Takes no locks; O(shards).
    pub fn len(&self) -> usize {
        self.shards.iter().map(Shard::len).sum()
    }

    /// Whether there are no entries. O(shards).
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(Shard::is_empty)
    }

    /// Number of entries with an expiry. Takes no locks; O(shards).
    pub fn volatile_len(&self) -> usize {
        self.shards.iter().map(Shard::volatile_len).sum()
    }

    /// Visits entries in one or more buckets, at least `count` if that many are left, and returns the cursor to go on
    /// from: 0 at the start and again at the end. A scan visits every entry that is there from its start to its end at
    /// least once, and may visit some twice. Locks one shard at a time, and stays within one bucket after the last
    /// entry that is needed. A cursor that no scan returned gives a scan of what lies behind it.
    pub fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(&Entry)) -> u64 {
        let (first, mut position) = ((cursor >> 32) as usize, cursor as u32);
        let mut visited = 0;
        for (index, shard) in self.shards.iter().enumerate().skip(first) {
            let mut next = (!shard.is_empty()).then_some(position);
            position = 0;
            if next.is_none() {
                continue;
            }
            let table = shard.lock();
            while let Some(position) = next {
                if visited >= count.max(1) {
                    return (index as u64) << 32 | u64::from(position);
                }
                next = table.scan(position, &mut |entry| {
                    visited += 1;
                    visit(entry);
                });
            }
        }
        0
    }

    /// Calls `with` on an entry chosen evenly, or nearly so, among all by `random`; `None` when the database is empty.
    /// Expected O(1) with many entries, O(shards) with few.
    pub fn random_entry<R>(&self, random: u64, with: impl FnOnce(&Entry) -> R) -> Option<R> {
        self.random(random, Shard::len, Table::random_entry, with)
    }

    /// As [`Db::random_entry`], among the entries with an expiry.
    pub fn random_volatile_entry<R>(&self, random: u64, with: impl FnOnce(&Entry) -> R) -> Option<R> {
        self.random(random, Shard::volatile_len, Table::random_volatile_entry, with)
    }

    fn random<R>(
        &self,
        random: u64,
        weigh: fn(&Shard) -> usize,
        draw: fn(&Table, u64) -> Option<&Entry>,
        with: impl FnOnce(&Entry) -> R,
    ) -> Option<R> {
        let mut random = Random::new(random);
        // A shard can be emptied between its choice and its lock; then another one is chosen.
        loop {
            let table = self.random_shard(&mut random, weigh)?.lock();
            if let Some(entry) = draw(&table, random.next()) {
                return Some(with(entry));
            }
        }
    }

    /// A shard chosen by its weight: among a few drawn evenly, or among all when those weigh nothing.
    fn random_shard(&self, random: &mut Random, weigh: fn(&Shard) -> usize) -> Option<&Shard> {
        const DRAWS: usize = 16;
        let drawn = [(); DRAWS].map(|()| &self.shards[random.below(self.shards.len())]);
        weighted(random, drawn.iter().copied(), weigh).or_else(|| weighted(random, self.shards.iter(), weigh))
    }

    /// Takes all entries, shard by shard, for the caller to free off the locks. O(shards).
    pub fn clear(&self) -> Vec<Cleared> {
        let filled = self.shards.iter().filter(|shard| !shard.is_empty());
        filled.map(|shard| shard.lock().clear()).collect()
    }
}

/// One of the shards, each as likely as it weighs; `None` when all weigh nothing.
fn weighted<'a>(
    random: &mut Random,
    shards: impl Iterator<Item = &'a Shard> + Clone,
    weigh: fn(&Shard) -> usize,
) -> Option<&'a Shard> {
    let total: usize = shards.clone().map(weigh).sum();
    if total == 0 {
        return None;
    }
    let mut rest = random.below(total);
    let mut fallback = None;
    for shard in shards {
        let weight = weigh(shard);
        if rest < weight {
            return Some(shard);
        }
        rest -= weight;
        // Shards may lose entries between the sum and the choice.
        fallback = if weight > 0 { Some(shard) } else { fallback };
    }
    fallback
}

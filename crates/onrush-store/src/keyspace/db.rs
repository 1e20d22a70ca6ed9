//! A database: its shards, and what spans them.

use std::sync::OnceLock;

use crate::keyspace::key_hash::{Hasher, KeyHash, SHARD_BITS};
use crate::keyspace::lock_order::Rank;
use crate::keyspace::shard::Shard;
use crate::keyspace::table::Table;
use crate::random::Random;
use crate::{Cleared, Entry};

/// Shards of one block: 4 KB of them.
const BLOCK_LEN: usize = 64;

/// Size classes of tables.
const CLASSES: usize = 256;

/// Tables of larger size classes (96 buckets, 6 KB) are not levelled: few of them share a page, and enlarging them
/// takes long.
const LEVELLED_CLASS_MAX: u8 = 26;

/// A size that has less than this part of the tables of the most common size lags behind.
const LAGGARDS_RATIO: u32 = 4;

type Block = Box<[Shard; BLOCK_LEN]>;

/// One numbered database. Each key's hash says which shard it is in.
///
/// Shards are made in blocks, on the first use of a shard of the block: a handful of keys takes a few kilobytes, and a
/// walk through all shards skips blocks that were never used.
pub struct Db {
    blocks: Box<[OnceLock<Block>]>,
    index: usize,
    shards: usize,
    hasher: Hasher,
    /// How many of a hash's shard bits are unused.
    shift: u32,
}

impl Db {
    /// `shards` is a power of two, at most `SHARDS_MAX`.
    pub(crate) fn new(index: usize, shards: usize, hasher: Hasher) -> Self {
        assert!(shards.is_power_of_two() && shards <= 1 << SHARD_BITS);
        Db {
            blocks: (0..shards.div_ceil(BLOCK_LEN)).map(|_| OnceLock::new()).collect(),
            index,
            shards,
            hasher,
            shift: SHARD_BITS - shards.trailing_zeros(),
        }
    }

    /// Number of shards, unused ones included.
    #[inline]
    pub fn shard_count(&self) -> usize {
        self.shards
    }

    /// The shards that may hold entries, with their indexes, in the order of their locks.
    pub fn shards(&self) -> impl Iterator<Item = (usize, &Shard)> + Clone {
        self.shards_from(0)
    }

    /// As [`Db::shards`], from an index on.
    pub fn shards_from(&self, first: usize) -> impl Iterator<Item = (usize, &Shard)> + Clone {
        let blocks = self.blocks.iter().enumerate().skip(first / BLOCK_LEN);
        let made = blocks.filter_map(|(number, block)| Some((number * BLOCK_LEN, block.get()?)));
        let shards =
            made.flat_map(|(start, block)| block.iter().enumerate().map(move |(at, shard)| (start + at, shard)));
        shards.filter(move |(index, _)| *index >= first)
    }

    /// The shard with the given index.
    ///
    /// # Panics
    /// When there are not that many.
    #[inline]
    pub fn shard(&self, index: usize) -> &Shard {
        let block = &self.blocks[index / BLOCK_LEN];
        let shards = match block.get() {
            Some(shards) => shards,
            None => self.make_block(index / BLOCK_LEN),
        };
        &shards[index % BLOCK_LEN]
    }

    #[cold]
    fn make_block(&self, number: usize) -> &Block {
        let shard = |at| Shard::new(self.hasher, Rank::new(self.index, number * BLOCK_LEN + at));
        self.blocks[number].get_or_init(|| Box::new(std::array::from_fn(shard)))
    }

    /// The shard with the given index, if it may hold entries.
    #[inline]
    fn made_shard(&self, index: usize) -> Option<&Shard> {
        Some(&self.blocks[index / BLOCK_LEN].get()?[index % BLOCK_LEN])
    }

    /// Index of the shard that keys with this hash are in.
    #[inline]
    pub fn shard_index(&self, hash: KeyHash) -> usize {
        hash.shard_bits() >> self.shift
    }

    /// The shard that keys with this hash are in.
    #[inline]
    pub fn shard_of(&self, hash: KeyHash) -> &Shard {
        self.shard(self.shard_index(hash))
    }

    /// Number of entries, expired ones included. Takes no locks; O(shards in use).
    pub fn len(&self) -> usize {
        self.shards().map(|(_, shard)| shard.len()).sum()
    }

    /// Whether there are no entries. O(shards).
    pub fn is_empty(&self) -> bool {
        self.shards().all(|(_, shard)| shard.is_empty())
    }

    /// Number of entries with an expiry. Takes no locks; O(shards).
    pub fn volatile_len(&self) -> usize {
        self.shards().map(|(_, shard)| shard.volatile_len()).sum()
    }

    /// Neither an entry nor a field of one expires before this time, in milliseconds since the Unix epoch; `i64::MAX` if
    /// none ever does. Takes no locks; O(shards).
    pub fn next_expire_ms(&self) -> i64 {
        self.shards().map(|(_, shard)| shard.next_expire_ms()).min().unwrap_or(i64::MAX)
    }

    /// Visits entries in one or more buckets, at least `count` if that many are left, and returns the cursor to go on
    /// from: 0 at the start and again at the end. A scan visits every entry that is there from its start to its end at
    /// least once, and may visit some twice. Locks one shard at a time, and stays within one bucket after the last
    /// entry that is needed. A cursor that no scan returned is allowed: the scan visits what lies behind it.
    pub fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(&Entry)) -> u64 {
        let (first, position) = ((cursor >> 32) as usize, cursor as u32);
        let mut visited = 0;
        for (index, shard) in self.shards_from(first) {
            // The position counts in the shard it was taken in.
            let mut next = (!shard.is_empty()).then_some(if index == first { position } else { 0 });
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
        // Another thread can empty the shard before it is locked; then another shard is chosen.
        loop {
            let table = self.random_shard(&mut random, weigh)?.lock();
            if let Some(entry) = draw(&table, random.next()) {
                return Some(with(entry));
            }
        }
    }

    /// A shard chosen by weight: among a few drawn evenly, or among all if those weigh nothing.
    fn random_shard(&self, random: &mut Random, weigh: fn(&Shard) -> usize) -> Option<&Shard> {
        const DRAWS: usize = 16;
        let drawn = [(); DRAWS].map(|()| self.made_shard(random.below(self.shards)));
        weighted(random, drawn.iter().copied().flatten(), weigh)
            .or_else(|| weighted(random, self.shards().map(|(_, shard)| shard), weigh))
    }

    /// Enlarges the tables that lag behind: those of a size that few tables still have while most are larger. Tables of
    /// one size share pages, so a few small tables keep pages in use that held many before those grew. Looks at every
    /// `parts`th shard from `part` on and returns how many tables it enlarged. Locks one shard at a time; O(shards)
    /// without the locks.
    pub fn level(&self, part: usize, parts: usize) -> usize {
        let mine = self.shards().filter(|(index, shard)| index % parts == part && !shard.is_empty());
        let mut counts = [0; CLASSES];
        mine.clone().for_each(|(_, shard)| counts[shard.class() as usize] += 1);
        let (most, lagging) = lagging(&counts);
        if most > LEVELLED_CLASS_MAX || !lagging.contains(&true) {
            return 0;
        }
        // Waiting for a locked shard is not worth it.
        let grows = |shard: &Shard| shard.try_lock().is_some_and(|mut table| table.grow_to(most));
        mine.filter(|(_, shard)| lagging[shard.class() as usize] && grows(shard)).count()
    }

    /// Takes all entries, shard by shard; the caller frees them without holding a lock. O(shards).
    pub fn clear(&self) -> Vec<Cleared> {
        let filled = self.shards().filter(|(_, shard)| !shard.is_empty());
        filled.map(|(_, shard)| shard.lock().clear()).collect()
    }
}

/// The size class of most tables of a database, and the smaller ones that few tables have.
fn lagging(counts: &[u32; CLASSES]) -> (u8, [bool; CLASSES]) {
    let most = counts.iter().enumerate().max_by_key(|(_, tables)| **tables).map_or(0, |(class, _)| class);
    let mut lagging = [false; CLASSES];
    for class in 1..most.min(LEVELLED_CLASS_MAX as usize + 1) {
        lagging[class] = (1..counts[most] / LAGGARDS_RATIO).contains(&counts[class]);
    }
    (most as u8, lagging)
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

//! The walk of a thread through all shards of all databases.

use onrush_store::{Among, Db, Random, Shard};

use crate::shared::Shared;

/// Where a thread is in its walk through all shards of all databases. Each step is in a database drawn by its number of
/// keys, so that the keys of all databases compete with each other.
#[derive(Default)]
pub(super) struct Hand {
    /// By database.
    cursors: Vec<Cursor>,
    /// The database of the present step.
    db: usize,
    /// Keys that may be evicted in all databases, at the last count.
    pub(super) total: usize,
    /// When they were counted, in Unix milliseconds.
    pub(super) counted_ms: i64,
}

#[derive(Clone, Default)]
struct Cursor {
    /// Keys that may be evicted in this database, at the last count.
    keys: usize,
    shard: usize,
    position: u32,
}

impl Hand {
    /// A hand that starts at this shard of every database.
    pub(super) fn new(databases: usize, shard: usize) -> Self {
        Self { cursors: vec![Cursor { shard, ..Cursor::default() }; databases], ..Self::default() }
    }

    /// Counts the keys that may be evicted. O(shards in use), without a lock.
    pub(super) fn count(&mut self, shared: &Shared, among: Among, now_ms: i64) {
        self.counted_ms = now_ms;
        for (index, cursor) in self.cursors.iter_mut().enumerate() {
            let db = shared.keyspace.db(index);
            cursor.keys = db.map_or(0, |db| db.shards().map(|(_, shard)| candidates(shard, among)).sum());
        }
        self.total = self.cursors.iter().map(|cursor| cursor.keys).sum();
    }

    /// The database of the next step. The keys must have been counted, and there must be some.
    fn choose_db(&mut self, random: &mut Random) -> usize {
        let mut rest = random.below(self.total);
        let is_here = |cursor: &Cursor| {
            let is_here = rest < cursor.keys;
            rest = rest.saturating_sub(cursor.keys);
            is_here
        };
        self.db = self.cursors.iter().position(is_here).unwrap_or(0);
        self.db
    }

    /// A shard with something to evict, and its database: the next one, or, with `by_chance`, a random one. `None` if
    /// there is none.
    pub(super) fn seek(
        &mut self,
        shared: &'static Shared,
        among: Among,
        random: &mut Random,
        by_chance: bool,
    ) -> Option<(u32, &'static Shard)> {
        if self.total == 0 {
            self.count(shared, among, self.counted_ms);
        }
        while self.total > 0 {
            let number = self.choose_db(random);
            let cursor = &mut self.cursors[number];
            let found = shared.keyspace.db(number).and_then(|db| {
                let drawn = by_chance.then(|| draw(db, cursor.keys, among, random)).flatten();
                drawn.or_else(|| first_with(db, cursor.shard, among)).or_else(|| first_with(db, 0, among))
            });
            if let Some((index, shard)) = found {
                if index != cursor.shard {
                    (cursor.shard, cursor.position) = (index, 0);
                }
                return Some((number as u32, shard));
            }
            // Its keys have gone since they were counted.
            self.count(shared, among, self.counted_ms);
        }
        None
    }

    /// Where the present step starts in its shard.
    pub(super) fn position(&self) -> u32 {
        self.cursors[self.db].position
    }

    /// Moves on after the entries shown; `next` is the next position in the same shard, if there is one.
    pub(super) fn go_on(&mut self, next: Option<u32>) {
        let cursor = &mut self.cursors[self.db];
        cursor.shard += usize::from(next.is_none());
        cursor.position = next.unwrap_or(0);
    }
}

/// A shard drawn by how many of the `keys` that may be evicted it has; `None` if a few draws find none, because there
/// are few such keys.
fn draw(db: &'static Db, keys: usize, among: Among, random: &mut Random) -> Option<(usize, &'static Shard)> {
    const DRAWS: usize = 64;
    // Hardly a shard has more than this.
    let ranks = 2 * keys / db.shard_count() + 4;
    (0..DRAWS).find_map(|_| {
        let (index, rank) = (random.below(db.shard_count()), random.below(ranks));
        let found = db.shards_from(index).next().filter(|(found, _)| *found == index);
        found.filter(|(_, shard)| candidates(shard, among) > rank)
    })
}

/// The first shard from an index on with something to evict. O(shards passed), without a lock.
fn first_with(db: &'static Db, from: usize, among: Among) -> Option<(usize, &'static Shard)> {
    db.shards_from(from).find(|(_, shard)| candidates(shard, among) > 0)
}

/// How many entries of a shard may be evicted now: none if a long command has locked it.
fn candidates(shard: &Shard, among: Among) -> usize {
    match among {
        _ if shard.is_held_long() => 0,
        Among::All => shard.len(),
        Among::Volatile => shard.volatile_len(),
    }
}

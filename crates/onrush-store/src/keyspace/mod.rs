//! The keyspace: all databases of a server.

pub(crate) mod bucket;
pub(crate) mod cut;
pub(crate) mod db;
pub(crate) mod evict;
pub(crate) mod key_hash;
pub(crate) mod lock;
pub(crate) mod lock_order;
pub(crate) mod removed;
pub mod schedule;
pub(crate) mod shard;
pub(crate) mod slot;
pub(crate) mod table;

use std::sync::OnceLock;

use crate::Table;
use crate::keyspace::db::Db;
use crate::keyspace::key_hash::{Hasher, KeyHash, SHARDS_MAX};

/// Default number of shards of a database. Many small shards: two threads rarely want the same one, and a shard's table
/// grows in microseconds.
pub const SHARDS_DEFAULT: usize = 4096;

/// How a [`Keyspace`] is laid out.
#[derive(Clone, Debug)]
pub struct KeyspaceOptions {
    /// Number of databases, at least 1.
    pub databases: usize,
    /// Shards per database: a power of two, at most [`SHARDS_MAX`].
    pub shards: usize,
    /// Makes the key hashes the same in every run, for tests and measurements; `None` draws a seed.
    pub seed: Option<u64>,
    /// Whether each shard is a slot of a cluster; there are [`SHARDS_MAX`] then.
    pub by_slot: bool,
}

impl Default for KeyspaceOptions {
    /// 16 databases of [`SHARDS_DEFAULT`] shards, a random seed.
    fn default() -> Self {
        KeyspaceOptions { databases: 16, shards: SHARDS_DEFAULT, seed: None, by_slot: false }
    }
}

/// All databases of a server. A database comes into being on first use, and its shards block by block.
pub struct Keyspace {
    databases: Box<[OnceLock<Db>]>,
    shards: usize,
    hasher: Hasher,
}

impl Keyspace {
    /// An empty keyspace.
    ///
    /// # Panics
    /// When the options are out of their ranges.
    pub fn new(options: KeyspaceOptions) -> Self {
        let shards = if options.by_slot { SHARDS_MAX } else { options.shards };
        assert!(options.databases > 0, "a keyspace has at least one database");
        assert!(
            shards.is_power_of_two() && shards <= SHARDS_MAX,
            "the number of shards is a power of two, at most {SHARDS_MAX}"
        );
        let hasher = options.seed.map_or_else(Hasher::random, Hasher::seeded);
        Keyspace {
            databases: (0..options.databases).map(|_| OnceLock::new()).collect(),
            shards,
            hasher: if options.by_slot { hasher.by_slot() } else { hasher },
        }
    }

    /// Hashes a key. The hash holds in all databases.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        self.hasher.hash(key)
    }

    /// An empty table that belongs to no database.
    pub fn new_table(&self) -> Table {
        Table::new(self.hasher)
    }

    /// Number of databases.
    pub fn databases(&self) -> usize {
        self.databases.len()
    }

    /// Shards of each database.
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// The database with a number, if it exists and was used before.
    #[inline]
    pub fn db(&self, index: usize) -> Option<&Db> {
        self.databases.get(index)?.get()
    }

    /// The database with a number, made on first use.
    ///
    /// # Panics
    /// When there is none of that number.
    #[inline]
    pub fn db_or_create(&self, index: usize) -> &Db {
        self.databases[index].get_or_init(|| Db::new(index, self.shards, self.hasher))
    }

    /// Exchanges the contents of two databases, shard by shard: it is atomic if the caller keeps other threads out.
    /// O(shards).
    ///
    /// # Panics
    /// When there is none of either number.
    pub fn swap_dbs(&self, a: usize, b: usize) {
        let (low, high) = (a.min(b), a.max(b));
        assert!(high < self.databases(), "no database {high}");
        if low == high || self.db(low).is_none() && self.db(high).is_none() {
            return;
        }
        let (low, high) = (self.db_or_create(low), self.db_or_create(high));
        let mut used: Vec<usize> = low.shards().chain(high.shards()).map(|(index, _)| index).collect();
        used.sort_unstable();
        used.dedup();
        for index in used {
            let (mut low, mut high) = (low.shard(index).lock(), high.shard(index).lock());
            std::mem::swap(&mut *low, &mut *high);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;
    use crate::{NewValue, ValueRef};

    fn keyspace(shards: usize) -> Keyspace {
        Keyspace::new(KeyspaceOptions { databases: 3, shards, seed: Some(8), by_slot: false })
    }

    fn put(keyspace: &Keyspace, db: usize, n: i64, expire: Option<i64>) {
        let key = n.to_be_bytes();
        let hash = keyspace.hash(&key);
        let shard = keyspace.db_or_create(db).shard_of(hash);
        shard.lock().set(&key, hash, NewValue::Int(n), expire, 0);
    }

    fn scan_all(db: &Db, count: usize) -> Vec<Vec<u8>> {
        let (mut cursor, mut keys) = (0, Vec::new());
        loop {
            let before = keys.len();
            cursor = db.scan(cursor, count, &mut |entry| keys.push(entry.key().to_vec()));
            if cursor == 0 {
                return keys;
            }
            assert!(keys.len() - before >= count);
        }
    }

    #[test]
    fn a_database_is_made_on_first_use() {
        let keyspace = keyspace(4);
        assert!(keyspace.db(1).is_none());
        put(&keyspace, 1, 1, None);
        assert_eq!(keyspace.db(1).map(Db::len), Some(1));
        assert!(keyspace.db(0).is_none());
        assert!(keyspace.db(3).is_none());
    }

    #[test]
    fn swapping_exchanges_contents_also_with_a_database_never_used() {
        let keyspace = keyspace(4);
        keyspace.swap_dbs(0, 1);
        assert!(keyspace.db(0).is_none());
        (0..20).for_each(|n| put(&keyspace, 0, n, Some(n)));
        keyspace.swap_dbs(1, 0);
        let lens = |keyspace: &Keyspace| [0, 1].map(|db| keyspace.db(db).unwrap().len());
        assert_eq!(lens(&keyspace), [0, 20]);
        assert_eq!(keyspace.db(1).unwrap().volatile_len(), 20);
        put(&keyspace, 0, 5, None);
        keyspace.swap_dbs(0, 1);
        assert_eq!(lens(&keyspace), [20, 1]);
        let hash = keyspace.hash(&7_i64.to_be_bytes());
        let table = keyspace.db(0).unwrap().shard_of(hash).lock();
        let entry = table.get(&7_i64.to_be_bytes(), hash).unwrap();
        assert_eq!(entry.value(), ValueRef::Int(7));
    }

    #[test]
    fn levelling_enlarges_tables_that_lag_behind_and_loses_nothing() {
        let keyspace = keyspace(256);
        assert_eq!(keyspace.db_or_create(0).level(0, 1), 0);
        let keys = if cfg!(miri) { 2_000 } else { 15_616 };
        (0..keys).for_each(|n| put(&keyspace, 0, n, None));
        let db = keyspace.db(0).unwrap();
        let enlarged: usize = (0..3).map(|part| db.level(part, 3)).sum();
        assert!(enlarged > 0 || cfg!(miri));
        assert_eq!(db.len(), keys as usize);
        let distinct: HashSet<_> = scan_all(db, 100).into_iter().collect();
        assert_eq!(distinct.len(), keys as usize);
    }

    #[test]
    fn a_database_of_few_keys_makes_few_shards() {
        let keyspace = keyspace(1024);
        put(&keyspace, 0, 1, None);
        let db = keyspace.db(0).unwrap();
        assert!(db.shards().count() <= 64);
        assert_eq!((db.shard_count(), db.len(), db.volatile_len()), (1024, 1, 0));
        assert_eq!(db.random_entry(7, |entry| entry.key().to_vec()), Some(1_i64.to_be_bytes().to_vec()));
    }

    #[test]
    fn a_scan_across_shards_returns_every_key_once_at_rest() {
        let keys = if cfg!(miri) { 40 } else { 3000 };
        for shards in [1, 8, 256] {
            let keyspace = keyspace(shards);
            (0..keys).for_each(|n| put(&keyspace, 0, n, None));
            let db = keyspace.db(0).unwrap();
            for count in [1, 10, 1_000_000] {
                let scanned = scan_all(db, count);
                assert_eq!(scanned.len(), keys as usize);
                assert_eq!(scanned.into_iter().collect::<HashSet<_>>().len(), keys as usize);
            }
        }
    }

    #[test]
    fn a_cursor_out_of_range_ends_the_scan() {
        let keyspace = keyspace(8);
        put(&keyspace, 0, 1, None);
        let db = keyspace.db(0).unwrap();
        assert_eq!(db.scan(u64::MAX, 10, &mut |_| panic!("nothing lies there")), 0);
        assert_eq!(db.scan(8 << 32, 10, &mut |_| panic!("nothing lies there")), 0);
    }

    #[test]
    fn random_entries_of_a_database_are_chosen_evenly_enough() {
        for (shards, keys) in [(1024, 5), (16, 100)] {
            let keyspace = keyspace(shards);
            let db = keyspace.db_or_create(0);
            assert!(db.random_entry(0, |_| ()).is_none());
            (0..keys).for_each(|n| put(&keyspace, 0, n, (n == 3).then_some(1)));
            let draws = if cfg!(miri) { 5 } else { 10_000 };
            let mut drawn: HashMap<_, i64> = HashMap::new();
            for n in 0..draws {
                let key = db.random_entry(n as u64, |entry| entry.key().to_vec());
                *drawn.entry(key.unwrap()).or_default() += 1;
            }
            let even = draws / keys;
            let is_even = |n: &i64| (even / 2..=even * 2).contains(n);
            assert!(cfg!(miri) || drawn.len() == keys as usize && drawn.values().all(is_even));
            let volatile = db.random_volatile_entry(9, |entry| entry.key().to_vec());
            assert_eq!(volatile.unwrap(), 3_i64.to_be_bytes());
        }
    }

    #[test]
    fn clearing_hands_out_all_entries() {
        let keyspace = keyspace(16);
        (0..100).for_each(|n| put(&keyspace, 0, n, Some(1)));
        let db = keyspace.db(0).unwrap();
        let cleared = db.clear();
        assert_eq!(cleared.iter().map(crate::Cleared::len).sum::<usize>(), 100);
        assert_eq!((db.len(), db.volatile_len()), (0, 0));
    }
}

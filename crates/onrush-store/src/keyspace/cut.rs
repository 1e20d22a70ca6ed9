//! The cut of a snapshot: which entries of a table the snapshot does not have yet.
//!
//! Every entry and every table has a bit. An entry whose bit equals the table's has been saved, or is newer than the
//! cut. A cut flips the tables' bits, so that all entries become unsaved at once without being touched. While no
//! snapshot is under way, the bits of a table and of all its entries are equal.

use crate::keyspace::bucket::{Located, PREFETCH_AHEAD};
use crate::{Cleared, Entry, Frozen, KeyHash, Keyspace, Shard, Table};

/// Facts about the data at a cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutFacts {
    /// Entries, expired ones included.
    pub entries: usize,
    /// Whether there may be hashes of which fields expire.
    pub has_timed_fields: bool,
}

impl Table {
    /// Makes all entries unsaved. All must be saved before. O(1).
    pub(crate) fn cut(&mut self) {
        self.books_mut().turn_side();
    }

    /// Whether the snapshot does not have this entry of this table yet. O(1).
    #[inline]
    pub fn is_unsaved(&self, entry: &Entry) -> bool {
        entry.snapshot_bit() != self.side()
    }

    /// Hands a key's entry to `save` if it exists and is unsaved; it counts as saved then. A large collection is passed
    /// frozen beside its entry, so that it can be saved later whatever happens to the entry. O(1), for a large
    /// collection O(its parts).
    pub fn save_key(&mut self, key: &[u8], hash: KeyHash, save: impl FnOnce(&Entry, Option<Frozen>)) {
        let side = self.side();
        let Some(mut slot) = self.find(key, hash) else { return };
        if slot.snapshot_bit() != side {
            let frozen = slot.freeze();
            save(&slot, frozen);
            slot.set_snapshot_bit(side);
        }
    }

    /// As [`Table::save_key`], of all unsaved entries of the bucket at `position`. Returns the position of the next bucket,
    /// `None` at the table's end. Positions mean the same after any number of resizes. O(entries in the bucket).
    pub fn save_bucket(&mut self, position: u32, save: &mut dyn FnMut(&Entry, Option<Frozen>)) -> Option<u32> {
        let side = self.side();
        let bucket = self.buckets.index_of(position);
        self.buckets.prefetch_entries(bucket + PREFETCH_AHEAD);
        let is_unsaved = |located: Located<'_>| located.entry().snapshot_bit() != side;
        while let Some(mut located) = self.buckets.first_mut(bucket, is_unsaved) {
            let frozen = located.entry_mut().freeze();
            save(located.entry(), frozen);
            located.entry_mut().set_snapshot_bit(side);
        }
        self.buckets.position_after(bucket)
    }
}

impl Cleared {
    /// Hands all entries to `save` that are unsaved. O(entries).
    pub fn save(&self, save: &mut dyn FnMut(&Entry)) {
        let table = &self.table;
        table.for_each(&mut |entry| {
            if table.is_unsaved(entry) {
                save(entry);
            }
        });
    }
}

fn cut<'a>(shards: impl Iterator<Item = &'a Shard>) -> CutFacts {
    let mut facts = CutFacts::default();
    for shard in shards {
        let mut table = shard.lock();
        table.cut();
        facts.entries += table.len();
        facts.has_timed_fields |= table.has_timed_fields();
    }
    facts
}

impl Keyspace {
    /// Makes all entries unsaved. All must be saved before, and no other thread may be in the keyspace. O(shards in
    /// use).
    pub fn cut(&self) -> CutFacts {
        let mut facts = CutFacts::default();
        for db in (0..self.databases()).filter_map(|db| self.db(db)) {
            let CutFacts { entries, has_timed_fields } = cut(db.shards().map(|(_, shard)| shard));
            facts.entries += entries;
            facts.has_timed_fields |= has_timed_fields;
        }
        facts
    }

    /// As [`Keyspace::cut`], of some shards of a database alone: all others stay as they are. O(these shards).
    pub fn cut_shards(&self, db: usize, shards: impl Iterator<Item = usize>) -> CutFacts {
        self.db(db).map_or_else(CutFacts::default, |db| cut(shards.map(|shard| db.shard(shard))))
    }
}

#[cfg(test)]
mod tests {
    use crate::{KeyHash, Keyspace, KeyspaceOptions, NewValue, Table, ValueRef};

    fn keyspace() -> Keyspace {
        Keyspace::new(KeyspaceOptions { shards: 1, seed: Some(1), ..Default::default() })
    }

    fn key(n: usize) -> Vec<u8> {
        format!("key:{n}").into_bytes()
    }

    fn with(keyspace: &Keyspace, n: usize, change: impl FnOnce(&mut Table, &[u8], KeyHash)) {
        let (key, db) = (key(n), keyspace.db_or_create(0));
        let hash = keyspace.hash(&key);
        change(&mut db.shard_of(hash).lock(), &key, hash);
    }

    fn set(keyspace: &Keyspace, n: usize, value: i64) {
        with(keyspace, n, |table, key, hash| drop(table.set(key, hash, NewValue::Int(value), None, 0)));
    }

    fn save_all(keyspace: &Keyspace, saved: &mut Vec<(Vec<u8>, i64)>) {
        let mut table = keyspace.db_or_create(0).shard(0).lock();
        let mut next = Some(0);
        while let Some(position) = next {
            next = table.save_bucket(position, &mut |entry, _| {
                let ValueRef::Int(value) = entry.value() else { panic!("no integer") };
                saved.push((entry.key().to_vec(), value));
            });
        }
    }

    #[test]
    fn what_is_saved_is_what_was_there_at_the_cut() {
        let keyspace = keyspace();
        for round in 0..3 {
            (0..500).for_each(|n| set(&keyspace, n, n as i64));
            assert_eq!(keyspace.cut().entries, 500);
            let mut saved = Vec::new();
            let mut save = |keyspace: &Keyspace, n| {
                with(keyspace, n, |table, key, hash| {
                    table.save_key(key, hash, |entry, _| {
                        let ValueRef::Int(value) = entry.value() else { panic!("no integer") };
                        saved.push((entry.key().to_vec(), value));
                    });
                });
            };
            for n in (0..500).step_by(3) {
                save(&keyspace, n);
                set(&keyspace, n, -1);
                save(&keyspace, n);
            }
            for n in (0..500).step_by(5) {
                save(&keyspace, n);
                with(&keyspace, n, |table, key, hash| drop(table.remove(key, hash)));
            }
            (500..900).for_each(|n| set(&keyspace, n, -2));
            save_all(&keyspace, &mut saved);
            save_all(&keyspace, &mut saved);
            saved.sort();
            let mut expected: Vec<_> = (0..500).map(|n| (key(n), n as i64)).collect();
            expected.sort();
            assert_eq!(saved, expected, "in round {round}");
            (500..900).for_each(|n| with(&keyspace, n, |table, key, hash| drop(table.remove(key, hash))));
        }
    }

    #[test]
    fn an_entry_that_moves_to_another_table_is_on_its_side() {
        let keyspace = keyspace();
        set(&keyspace, 1, 1);
        keyspace.cut();
        save_all(&keyspace, &mut Vec::new());
        let mut moved = None;
        with(&keyspace, 1, |table, key, hash| moved = table.remove(key, hash));
        let mut other = keyspace.new_table();
        let hash = keyspace.hash(&key(1));
        other.insert_entry(moved.expect("an entry"), hash);
        assert!(other.get(&key(1), hash).is_some_and(|entry| !other.is_unsaved(entry)));
    }
}

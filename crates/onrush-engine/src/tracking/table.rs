//! The keys that clients have read and may keep copies of, and these clients.
//!
//! Keys go by their names alone: a key of another database with the same name counts as the same. A key leaves the table with its
//! first change, so that later changes cost one look. Clients are known by their ids: what a client has read stays in the
//! table when the client is gone, until it changes or is thrown out.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use onrush_store::KeyHash;
use parking_lot::Mutex;

/// Parts of the table with a lock each.
const STRIPES: usize = 64;

/// A part with room for at most this many keys keeps its memory.
const KEPT_KEYS_MAX: usize = 64;

/// Stands for no entry.
const NONE: u32 = u32::MAX;

/// The clients that have read a key, by id.
#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::box_collection, reason = "most keys have one: an entry is to be small")]
pub(crate) enum Readers {
    One(u64),
    Many(Box<BTreeSet<u64>>),
}

impl Readers {
    /// Adds a client; returns whether it is new. O(log clients).
    fn add(&mut self, client: u64) -> bool {
        match self {
            Self::One(first) if *first == client => false,
            Self::One(first) => {
                *self = Self::Many(Box::new([*first, client].into()));
                true
            }
            Self::Many(clients) => clients.insert(client),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(clients) => clients.len(),
        }
    }

    /// Their ids, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        let (one, many) = match self {
            Self::One(only) => (Some(*only), None),
            Self::Many(clients) => (None, Some(clients.iter().copied())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

/// A key and its readers.
struct Entry {
    hash: u64,
    /// The next entry with the same hash.
    next: u32,
    key: Box<[u8]>,
    readers: Readers,
}

/// Takes a hash for what it is.
#[derive(Default)]
struct Passed(u64);

impl Hasher for Passed {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// One part: its entries, and the first entry with each hash. So one can be chosen by its place, and be found by its key.
#[derive(Default)]
pub(super) struct Stripe {
    entries: Vec<Entry>,
    first: HashMap<u64, u32, BuildHasherDefault<Passed>>,
    /// Clients of all its keys together.
    items: usize,
}

impl Stripe {
    fn find(&self, key: &[u8], hash: u64) -> Option<usize> {
        let mut at = *self.first.get(&hash)?;
        while at != NONE {
            let entry = &self.entries[at as usize];
            if *entry.key == *key {
                return Some(at as usize);
            }
            at = entry.next;
        }
        None
    }

    fn add(&mut self, key: &[u8], hash: u64, client: u64) {
        self.items += 1;
        let next = self.first.insert(hash, self.entries.len() as u32).unwrap_or(NONE);
        self.entries.push(Entry { hash, next, key: key.into(), readers: Readers::One(client) });
    }

    /// Takes out the entry at a place; the last one takes its place.
    fn remove(&mut self, at: usize) -> Entry {
        self.relink(at, self.entries[at].next);
        let last = self.entries.len() - 1;
        if at != last {
            self.relink(last, at as u32);
        }
        let removed = self.entries.swap_remove(at);
        self.items -= removed.readers.len();
        if self.entries.capacity() > KEPT_KEYS_MAX && self.entries.len() < self.entries.capacity() / 8 {
            self.entries.shrink_to(self.entries.len() * 2);
            self.first.shrink_to(self.entries.len() * 2);
        }
        removed
    }

    /// Changes the link that leads to the entry at a place, so that it leads to another one.
    fn relink(&mut self, from: usize, to: u32) {
        let hash = self.entries[from].hash;
        let Some(first) = self.first.get_mut(&hash) else { return };
        if *first as usize == from {
            if to == NONE {
                self.first.remove(&hash);
            } else {
                *first = to;
            }
            return;
        }
        let mut at = *first as usize;
        while self.entries[at].next as usize != from {
            at = self.entries[at].next as usize;
        }
        self.entries[at].next = to;
    }

    /// A place chosen by a number, but not that of a key.
    fn choose(&self, number: u64, other_than: &[u8]) -> Option<usize> {
        let len = self.entries.len();
        let at = number.checked_rem(len as u64)? as usize;
        if *self.entries[at].key != *other_than {
            return Some(at);
        }
        (len > 1).then(|| (at + 1) % len)
    }
}

/// See the module's text.
pub(super) struct Table {
    stripes: Box<[Mutex<Stripe>]>,
    keys: AtomicUsize,
    /// How many clients all keys have together.
    pub(super) items: AtomicUsize,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            keys: AtomicUsize::new(0),
            items: AtomicUsize::new(0),
        }
    }
}

impl Table {
    /// How many keys there are.
    pub(super) fn keys_len(&self) -> usize {
        self.keys.load(Relaxed)
    }

    fn place(hash: KeyHash) -> usize {
        // The map of a part uses other bits of the hash.
        (hash.bits() >> 40) as usize % STRIPES
    }

    /// Notes that a client reads a key, whose lock is held. O(log clients of the key).
    pub(super) fn note(&self, key: &[u8], hash: KeyHash, client: u64) {
        let mut stripe = self.stripes[Self::place(hash)].lock();
        match stripe.find(key, hash.bits()) {
            Some(at) if !stripe.entries[at].readers.add(client) => return,
            Some(_) => stripe.items += 1,
            None => {
                stripe.add(key, hash.bits(), client);
                self.keys.fetch_add(1, Relaxed);
            }
        }
        self.items.fetch_add(1, Relaxed);
    }

    fn count_out(&self, entry: &Entry) {
        self.keys.fetch_sub(1, Relaxed);
        self.items.fetch_sub(entry.readers.len(), Relaxed);
    }

    /// Removes a key that changes; its lock is held.
    pub(super) fn take(&self, key: &[u8], hash: KeyHash) -> Option<Readers> {
        if self.keys_len() == 0 {
            return None;
        }
        let mut stripe = self.stripes[Self::place(hash)].lock();
        let at = stripe.find(key, hash.bits())?;
        let entry = stripe.remove(at);
        self.count_out(&entry);
        Some(entry.readers)
    }

    /// Removes some key, chosen by the hash of another key, which stays. O(1) unless most parts are empty.
    pub(super) fn throw_out(&self, hash: KeyHash, other_than: &[u8]) -> Option<(Box<[u8]>, Readers)> {
        (0..STRIPES).find_map(|distance| {
            let mut stripe = self.stripes[(Self::place(hash) + distance) % STRIPES].lock();
            let at = stripe.choose(hash.bits() >> 8, other_than)?;
            let entry = stripe.remove(at);
            self.count_out(&entry);
            Some((entry.key, entry.readers))
        })
    }

    /// Takes all keys out; they are freed when what is returned is dropped. O(1).
    pub(super) fn clear(&self) -> Vec<Stripe> {
        let cleared = self.stripes.iter().map(|stripe| {
            let stripe = std::mem::take(&mut *stripe.lock());
            self.keys.fetch_sub(stripe.entries.len(), Relaxed);
            self.items.fetch_sub(stripe.items, Relaxed);
            stripe
        });
        cleared.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onrush_store::{Keyspace, KeyspaceOptions};

    fn keyspace() -> Keyspace {
        Keyspace::new(KeyspaceOptions { databases: 1, shards: 64, seed: Some(1), by_slot: false })
    }

    #[test]
    fn a_key_leaves_with_all_its_readers() {
        let (table, keyspace) = (Table::default(), keyspace());
        let note = |key: &[u8], client| table.note(key, keyspace.hash(key), client);
        note(b"a", 1);
        note(b"a", 1);
        note(b"a", 2);
        note(b"b", 1);
        assert_eq!((table.keys_len(), table.items.load(Relaxed)), (2, 3));
        let readers = table.take(b"a", keyspace.hash(b"a")).expect("read");
        assert_eq!(readers.iter().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(table.take(b"a", keyspace.hash(b"a")), None);
        assert_eq!((table.keys_len(), table.items.load(Relaxed)), (1, 1));
        drop(table.clear());
        assert_eq!((table.keys_len(), table.items.load(Relaxed)), (0, 0));
    }

    #[test]
    fn keys_are_found_however_many_share_a_hash_and_whichever_go() {
        let mut stripe = Stripe::default();
        let keys: Vec<Vec<u8>> = (0..100_u32).map(|number| number.to_string().into_bytes()).collect();
        let hash = |at: usize| (at % 7) as u64;
        keys.iter().enumerate().for_each(|(at, key)| stripe.add(key, hash(at), at as u64));
        // Some from the middle, some from the end, then all that are left.
        for at in (0..100).step_by(3).chain((0..100).rev()) {
            if let Some(place) = stripe.find(&keys[at], hash(at)) {
                let removed = stripe.remove(place);
                assert_eq!((&*removed.key, removed.readers), (&*keys[at], Readers::One(at as u64)));
            }
            assert_eq!(stripe.find(&keys[at], hash(at)), None);
            for (other, key) in keys.iter().enumerate() {
                let is_there = stripe.entries.iter().any(|entry| *entry.key == **key);
                assert_eq!(stripe.find(key, hash(other)).is_some(), is_there);
            }
        }
        assert!(stripe.entries.is_empty() && stripe.first.is_empty());
    }

    #[test]
    fn any_key_but_one_is_thrown_out() {
        let (table, keyspace) = (Table::default(), keyspace());
        let hash = keyspace.hash(b"kept");
        table.note(b"kept", hash, 1);
        assert_eq!(table.throw_out(hash, b"kept"), None);
        for number in 0..1000 {
            let key = format!("key:{number}");
            table.note(key.as_bytes(), keyspace.hash(key.as_bytes()), 1);
        }
        let thrown = std::iter::from_fn(|| table.throw_out(hash, b"kept")).count();
        assert_eq!((thrown, table.keys_len()), (1000, 1));
        assert!(table.take(b"kept", hash).is_some());
        assert!(table.stripes.iter().all(|stripe| stripe.lock().entries.capacity() <= KEPT_KEYS_MAX));
    }
}

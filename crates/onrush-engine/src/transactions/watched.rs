//! Keys that clients watch (WATCH), and their watchers.
//!
//! A change of a key marks its watchers as outdated, under the lock of the key's shard. Watching begins under the same
//! lock, and EXEC looks at the mark while it holds the locks of the watched keys; so no change is missed, and changes
//! of other keys have no effect. A filter of counters shows, with one load, that no client watches a key.
//!
//! A watcher that is outdated stays so until it stops watching: it leaves the key's list at its first change, so that later
//! changes of the key cost nothing.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};

use onrush_store::KeyHash;
use parking_lot::Mutex;

/// Counters of the filter. With fewer watched keys than that, it rules out most other keys.
const FILTER_LEN: usize = 4096;

/// Parts of the table with a lock each.
const STRIPES: usize = 64;

/// An empty part with room for more keys than this gives its memory back.
const KEPT_KEYS_MAX: usize = 256;

/// A client that watches keys.
pub(crate) struct Watcher {
    client: u64,
    is_outdated: AtomicBool,
}

impl Watcher {
    /// Whether one of its keys has changed.
    pub(crate) fn is_outdated(&self) -> bool {
        self.is_outdated.load(Relaxed)
    }
}

/// A watcher in the list of a key.
struct Watch {
    watcher: Arc<Watcher>,
    /// Whether the key had expired when watching began: its deletion is no change then.
    was_expired: bool,
}

/// The watchers of a key, by the numbers of their clients.
type Watches = BTreeMap<u64, Watch>;

/// The keys of one part: the database in the first four bytes, then the key.
type Keys = HashMap<Vec<u8>, Watches>;

/// All watched keys. See the module's text.
pub struct Watched {
    /// How often keys are watched, and how many clients track keys.
    observers: AtomicUsize,
    filter: Box<[AtomicU32]>,
    stripes: Box<[Mutex<Keys>]>,
}

impl Default for Watched {
    fn default() -> Self {
        Self {
            observers: AtomicUsize::new(0),
            filter: (0..FILTER_LEN).map(|_| AtomicU32::new(0)).collect(),
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
        }
    }
}

impl Watched {
    /// Whether no client watches or tracks any key, so that changes need not be noted. A thread that holds a key's lock
    /// sees every client that watches it, or that has read it and tracks keys.
    #[inline]
    pub(crate) fn is_unobserved(&self) -> bool {
        self.observers.load(Relaxed) == 0
    }

    /// From now on changes are noted even if no client watches a key, because a client tracks keys.
    pub(crate) fn begin_observing(&self) {
        self.observers.fetch_add(1, Relaxed);
    }

    /// Ends what [`Watched::begin_observing`] began.
    pub(crate) fn end_observing(&self) {
        self.observers.fetch_sub(1, Relaxed);
    }

    /// Notes that a key has changed, whose lock is held. O(watchers that are not outdated yet).
    #[cold]
    pub(crate) fn changed(&self, db: u32, key: &[u8], hash: KeyHash) {
        self.mark(db, key, hash, |_| true);
    }

    /// Notes that a key was deleted because it had expired.
    #[cold]
    pub(crate) fn expired(&self, db: u32, key: &[u8], hash: KeyHash) {
        self.mark(db, key, hash, |watch| !watch.was_expired);
    }

    fn mark(&self, db: u32, key: &[u8], hash: KeyHash, concerns: impl Fn(&Watch) -> bool) {
        self.take_out(db, key, hash, |watches| {
            watches.retain(|_, watch| {
                let stays = !concerns(watch);
                if !stays {
                    watch.watcher.is_outdated.store(true, Relaxed);
                }
                stays
            });
        });
    }

    /// Lets `take` take watchers out of the list of a key. Without a lock if the filter rules the key out: the keys of an
    /// outdated watcher have mostly left the table.
    fn take_out(&self, db: u32, key: &[u8], hash: KeyHash, take: impl FnOnce(&mut Watches)) {
        if self.counter(hash).load(Relaxed) == 0 {
            return;
        }
        let mut keys = self.stripe(hash).lock();
        let name = name(db, key);
        let Some(watches) = keys.get_mut(&name) else { return };
        let before = watches.len();
        take(watches);
        let left = watches.len();
        self.took_out(hash, before - left);
        if left == 0 {
            keys.remove(&name);
            if keys.is_empty() && keys.capacity() > KEPT_KEYS_MAX {
                *keys = Keys::default();
            }
        }
    }

    /// Marks the watchers of the keys for which `concerns` returns true, by database and key. The whole keyspace is
    /// locked. O(watched keys).
    #[cold]
    pub(crate) fn changed_databases(
        &self,
        hash: impl Fn(&[u8]) -> KeyHash,
        mut concerns: impl FnMut(u32, &[u8]) -> bool,
    ) {
        for stripe in &self.stripes {
            stripe.lock().retain(|name, watches| {
                let (db, key) = parse(name);
                if !concerns(db, key) {
                    return true;
                }
                watches.values().for_each(|watch| watch.watcher.is_outdated.store(true, Relaxed));
                self.took_out(hash(key), watches.len());
                false
            });
        }
    }

    /// How many keys are watched by clients that are not outdated. O(watched keys).
    pub(crate) fn keys_len(&self) -> usize {
        let is_watched = |watches: &&Watches| watches.values().any(|watch| !watch.watcher.is_outdated());
        self.stripes.iter().map(|stripe| stripe.lock().values().filter(is_watched).count()).sum()
    }

    fn counter(&self, hash: KeyHash) -> &AtomicU32 {
        &self.filter[(hash.bits() >> 24) as usize % FILTER_LEN]
    }

    fn stripe(&self, hash: KeyHash) -> &Mutex<Keys> {
        &self.stripes[(hash.bits() >> 40) as usize % STRIPES]
    }

    fn took_out(&self, hash: KeyHash, count: usize) {
        self.counter(hash).fetch_sub(count as u32, Relaxed);
        self.observers.fetch_sub(count, Relaxed);
    }

    /// Adds a watcher to the list of a key, whose lock is held; returns whether it was not there before.
    fn add(&self, db: u32, key: &[u8], hash: KeyHash, watch: Watch) -> bool {
        let mut keys = self.stripe(hash).lock();
        let Entry::Vacant(place) = keys.entry(name(db, key)).or_default().entry(watch.watcher.client) else {
            return false;
        };
        place.insert(watch);
        self.counter(hash).fetch_add(1, Relaxed);
        self.observers.fetch_add(1, Relaxed);
        true
    }
}

fn name(db: u32, key: &[u8]) -> Vec<u8> {
    [&db.to_le_bytes()[..], key].concat()
}

fn parse(name: &[u8]) -> (u32, &[u8]) {
    match name.split_first_chunk() {
        Some((db, key)) => (u32::from_le_bytes(*db), key),
        None => (0, name),
    }
}

/// A key that a client watches.
pub(crate) struct WatchedKey {
    /// Its database.
    pub db: u32,
    /// Its name.
    pub key: Box<[u8]>,
    /// Its hash.
    pub hash: KeyHash,
    /// Whether it had expired when watching began.
    pub was_expired: bool,
}

/// What one client watches.
pub(crate) struct Watching {
    watcher: Arc<Watcher>,
    keys: Vec<WatchedKey>,
}

impl Watching {
    /// Nothing yet, of the client with this number.
    pub(crate) fn new(client: u64) -> Self {
        let watcher = Arc::new(Watcher { client, is_outdated: AtomicBool::new(false) });
        Self { watcher, keys: Vec::new() }
    }

    /// How many keys there are. O(1).
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The keys.
    pub(crate) fn keys(&self) -> &[WatchedKey] {
        &self.keys
    }

    /// The client's watcher, which shows others whether it is outdated.
    pub(crate) fn watcher(&self) -> &Arc<Watcher> {
        &self.watcher
    }

    /// Whether one of the keys has changed.
    pub(crate) fn is_outdated(&self) -> bool {
        self.watcher.is_outdated()
    }

    /// Watches one more key, whose lock is held, unless it is already watched or a watched key has changed: then more
    /// keys make no difference.
    pub(crate) fn add(&mut self, watched: &Watched, key: WatchedKey) {
        if self.is_outdated() {
            return;
        }
        let watch = Watch { watcher: Arc::clone(&self.watcher), was_expired: key.was_expired };
        if watched.add(key.db, &key.key, key.hash, watch) {
            self.keys.push(key);
        }
    }

    /// Watches nothing any more; returns what it watched. O(keys).
    pub(crate) fn end(self, watched: &Watched) -> Vec<WatchedKey> {
        let client = self.watcher.client;
        for WatchedKey { db, key, hash, .. } in &self.keys {
            watched.take_out(*db, key, *hash, |watches| _ = watches.remove(&client));
        }
        self.keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onrush_store::{Keyspace, KeyspaceOptions};

    fn keyspace() -> Keyspace {
        Keyspace::new(KeyspaceOptions { databases: 16, shards: 64, seed: Some(1), by_slot: false })
    }

    fn watched_key(keyspace: &Keyspace, db: u32, key: &[u8]) -> WatchedKey {
        WatchedKey { db, key: key.into(), hash: keyspace.hash(key), was_expired: false }
    }

    #[test]
    fn a_change_marks_who_watches_the_key_and_nobody_else() {
        let (watched, keyspace) = (Watched::default(), keyspace());
        let mut all: Vec<Watching> = (0..3).map(Watching::new).collect();
        all[0].add(&watched, watched_key(&keyspace, 0, b"a"));
        all[1].add(&watched, watched_key(&keyspace, 1, b"a"));
        all[2].add(&watched, watched_key(&keyspace, 0, b"b"));
        all[2].add(&watched, watched_key(&keyspace, 0, b"b"));
        watched.changed(0, b"a", keyspace.hash(b"a"));
        assert_eq!(all.iter().map(Watching::is_outdated).collect::<Vec<_>>(), [true, false, false]);
        watched.changed_databases(|key| keyspace.hash(key), |db, _| db == 1);
        assert_eq!(all.iter().map(Watching::is_outdated).collect::<Vec<_>>(), [true, true, false]);
        all.into_iter().for_each(|watching| drop(watching.end(&watched)));
        assert!(watched.is_unobserved() && watched.filter.iter().all(|counter| counter.load(Relaxed) == 0));
    }

    #[test]
    fn a_key_that_was_expired_already_does_not_change_by_being_deleted() {
        let (watched, keyspace) = (Watched::default(), keyspace());
        let hash = keyspace.hash(b"a");
        let mut before = Watching::new(1);
        before.add(&watched, WatchedKey { was_expired: true, ..watched_key(&keyspace, 0, b"a") });
        let mut after = Watching::new(2);
        after.add(&watched, watched_key(&keyspace, 0, b"a"));
        watched.expired(0, b"a", hash);
        assert!(!before.is_outdated() && after.is_outdated());
        watched.changed(0, b"a", hash);
        assert!(before.is_outdated() && watched.is_unobserved());
    }
}

//! Prefixes of keys, and the clients that get messages about all keys that begin with them (BCAST).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::{Mutex, RwLock};

/// A prefix with clients. `C` is a client.
pub(crate) struct Prefix<C> {
    pub(super) name: Arc<[u8]>,
    pub(super) clients: Mutex<BTreeMap<u64, Arc<C>>>,
}

type ByName<C> = BTreeMap<Arc<[u8]>, Arc<Prefix<C>>>;

/// All prefixes by name.
pub(super) struct Prefixes<C> {
    by_name: RwLock<ByName<C>>,
    len: AtomicUsize,
}

impl<C> Default for Prefixes<C> {
    fn default() -> Self {
        Self { by_name: RwLock::default(), len: AtomicUsize::new(0) }
    }
}

impl<C> Prefixes<C> {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// Adds a client to a prefix; returns its name, of which there is one for all. O(log prefixes + log clients).
    pub(super) fn join(&self, name: &[u8], id: u64, client: &Arc<C>) -> Arc<[u8]> {
        let mut by_name = self.by_name.write();
        if let Some(prefix) = by_name.get(name) {
            prefix.clients.lock().insert(id, Arc::clone(client));
            return Arc::clone(&prefix.name);
        }
        let clients = Mutex::new([(id, Arc::clone(client))].into());
        let name: Arc<[u8]> = name.into();
        by_name.insert(Arc::clone(&name), Arc::new(Prefix { name: Arc::clone(&name), clients }));
        self.len.store(by_name.len(), Relaxed);
        name
    }

    /// Removes a client from a prefix, and the prefix with its last client: when this returns, the client gets no more
    /// messages about it. O(log prefixes + log clients).
    pub(super) fn leave(&self, name: &[u8], id: u64) {
        let mut by_name = self.by_name.write();
        let Some(prefix) = by_name.get(name) else { return };
        let is_empty = {
            let mut clients = prefix.clients.lock();
            clients.remove(&id);
            clients.is_empty()
        };
        if is_empty {
            by_name.remove(name);
            self.len.store(by_name.len(), Relaxed);
        }
    }

    /// Calls `found` with each prefix that a key begins with, the longest first. O(log prefixes) for each one that is found or
    /// shares its first bytes with the key.
    pub(super) fn of_key(&self, key: &[u8], mut found: impl FnMut(&Arc<Prefix<C>>)) {
        let by_name = self.by_name.read();
        let mut bound = Bound::Included(key);
        while let Some((name, prefix)) = by_name.range::<[u8], _>((Bound::Unbounded, bound)).next_back() {
            let common = name.iter().zip(key).take_while(|(one, other)| one == other).count();
            if common == name.len() {
                found(prefix);
                bound = Bound::Excluded(&key[..common]);
            } else {
                // Whatever else the key begins with is no longer than what it has in common with this one.
                bound = Bound::Included(&key[..common]);
            }
        }
    }
}

/// Two prefixes of one client of which one begins with the other.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Overlap<'p> {
    /// A new prefix, and one that the client has.
    WithExisting(&'p [u8], &'p [u8]),
    /// Two new prefixes.
    WithNew(&'p [u8], &'p [u8]),
}

/// Looks for new prefixes that overlap with each other or with those that a client has. O(prefixes log prefixes) if none do.
pub(crate) fn overlap<'p>(existing: &'p BTreeSet<Arc<[u8]>>, new: &[&'p [u8]]) -> Option<Overlap<'p>> {
    let mut all: Vec<&[u8]> = existing.iter().map(|name| &**name).chain(new.iter().copied()).collect();
    all.sort_unstable();
    // In the order of names, everything that begins with a name follows it directly.
    if !all.windows(2).any(|pair| pair[1].starts_with(pair[0])) {
        return None;
    }
    let overlaps = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
    new.iter().enumerate().find_map(|(at, one)| {
        let known = existing.iter().find(|name| overlaps(one, name));
        let other = || new[at + 1..].iter().find(|other| overlaps(one, other));
        known.map(|name| Overlap::WithExisting(one, name)).or_else(|| other().map(|other| Overlap::WithNew(one, other)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names() -> impl Strategy<Value = Vec<Vec<u8>>> {
        proptest::collection::vec(proptest::collection::vec(b'a'..=b'c', 0..5), 0..12)
    }

    proptest! {
        #[test]
        fn a_keys_prefixes_are_what_comparing_with_all_finds(
            names in names(),
            keys in proptest::collection::vec(proptest::collection::vec(b'a'..=b'c', 0..7), 20),
        ) {
            let prefixes = Prefixes::default();
            let client = Arc::new(());
            names.iter().for_each(|name| _ = prefixes.join(name, 1, &client));
            for key in keys {
                let mut found = Vec::new();
                prefixes.of_key(&key, |prefix| found.push(prefix.name.to_vec()));
                found.reverse();
                let all: BTreeSet<&Vec<u8>> = names.iter().filter(|name| key.starts_with(name)).collect();
                prop_assert_eq!(found.iter().collect::<Vec<_>>(), all.into_iter().collect::<Vec<_>>());
            }
            names.iter().for_each(|name| prefixes.leave(name, 1));
            prop_assert_eq!(prefixes.len(), 0);
        }

        #[test]
        fn overlaps_are_what_comparing_each_with_each_finds(existing in names(), new in names()) {
            let existing: BTreeSet<Arc<[u8]>> = existing.into_iter().map(Into::into).collect();
            let new: Vec<&[u8]> = new.iter().map(Vec::as_slice).collect();
            let overlaps = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
            let any = new.iter().enumerate().any(|(at, one)| {
                existing.iter().any(|name| overlaps(one, name)) || new[..at].iter().any(|other| overlaps(one, other))
            });
            prop_assert_eq!(overlap(&existing, &new).is_some(), any);
        }
    }

    #[test]
    fn the_first_overlap_is_told() {
        let existing = [&b"ab"[..], b"c"].map(Into::into).into();
        assert_eq!(overlap(&existing, &[b"x", b"abc", b"a"]), Some(Overlap::WithExisting(b"abc", b"ab")));
        assert_eq!(overlap(&existing, &[b"x", b"y", b"xy", b""]), Some(Overlap::WithNew(b"x", b"xy")));
        assert_eq!(overlap(&existing, &[b"x", b"y"]), None);
    }

    #[test]
    fn a_prefix_goes_with_its_last_client() {
        let prefixes = Prefixes::default();
        let client = Arc::new(());
        prefixes.join(b"a", 1, &client);
        prefixes.join(b"a", 2, &client);
        prefixes.leave(b"a", 1);
        assert_eq!(prefixes.len(), 1);
        prefixes.leave(b"a", 2);
        assert_eq!((prefixes.len(), Arc::strong_count(&client)), (0, 1));
    }
}

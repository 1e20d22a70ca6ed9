//! What all threads share about the cluster.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use onrush_cluster::cluster::LinkId;
use onrush_cluster::slots::SLOTS;
use onrush_store::KeyHash;
use parking_lot::{Mutex, RwLock};

use crate::cluster::moves::Moves;
use crate::cluster::node::Node;
use crate::cluster::routes::Routes;

const WORDS: usize = SLOTS as usize / 64;

/// See the module's text.
pub struct Clustering {
    /// Slots whose keys are all here, and that are not under way: their commands need no look at the routes.
    free: Box<[AtomicU64; WORDS]>,
    /// Slots of the primary that this node is a replica of: clients that have sent READONLY read them without a look at the
    /// routes.
    readable: Box<[AtomicU64; WORDS]>,
    /// Counts the routes that were published.
    version: AtomicU64,
    routes: RwLock<Arc<Routes>>,
    /// Whether a slot is under way.
    has_moving: AtomicBool,
    /// Whether the cluster is down, though the routes do not say so yet.
    is_going_down: AtomicBool,
    /// This node.
    pub node: Node,
    /// Slots that move as a whole.
    pub moves: Moves,
    /// Bytes that wait for each link.
    pub queues: Mutex<HashMap<LinkId, Arc<AtomicUsize>>>,
    /// Counts what the thread of the bus does: if that stands still, others take this node for failed.
    pub bus_rounds: AtomicU64,
    /// Whether the file of nodes could not be written at the last try.
    pub is_file_failing: AtomicBool,
    /// Links that were closed because too much waited for them.
    pub links_over_limit: AtomicU64,
}

fn no_slots() -> Box<[AtomicU64; WORDS]> {
    Box::new([const { AtomicU64::new(0) }; WORDS])
}

#[inline]
fn has_slot(slots: &[AtomicU64; WORDS], slot: u16) -> bool {
    slots[usize::from(slot / 64)].load(Relaxed) >> (slot % 64) & 1 != 0
}

/// The slot of keys with these hashes, if it is one.
#[inline]
fn only_slot(hashes: &[KeyHash]) -> Option<u16> {
    let (first, others) = hashes.split_first()?;
    let slot = first.slot();
    others.iter().all(|hash| hash.slot() == slot).then_some(slot)
}

impl Default for Clustering {
    /// Nobody has a slot.
    fn default() -> Self {
        Self {
            free: no_slots(),
            readable: no_slots(),
            version: AtomicU64::new(0),
            routes: RwLock::default(),
            has_moving: AtomicBool::new(false),
            is_going_down: AtomicBool::new(false),
            node: Node::default(),
            moves: Moves::default(),
            queues: Mutex::default(),
            bus_rounds: AtomicU64::new(0),
            is_file_failing: AtomicBool::new(false),
            links_over_limit: AtomicU64::new(0),
        }
    }
}

impl Clustering {
    /// Whether keys with these hashes are of one slot, and commands with them need no look at the routes.
    #[inline]
    pub(crate) fn is_free(&self, hashes: &[KeyHash]) -> bool {
        hashes.is_empty() || only_slot(hashes).is_some_and(|slot| self.is_slot_free(slot))
    }

    /// Whether a client that has sent READONLY may read keys with these hashes here, though this node is a replica.
    #[inline]
    pub(crate) fn is_readable(&self, hashes: &[KeyHash]) -> bool {
        only_slot(hashes).is_some_and(|slot| has_slot(&self.readable, slot))
    }

    /// The same for a slot.
    #[inline]
    pub(crate) fn is_slot_free(&self, slot: u16) -> bool {
        has_slot(&self.free, slot)
    }

    /// Whether a slot is under way, from here or to here.
    #[inline]
    pub(crate) fn has_moving(&self) -> bool {
        self.has_moving.load(Relaxed)
    }

    /// Counts the changes of the routes: as long as it is the same, what was planned by them holds.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// Bytes that wait to be sent over a link.
    pub(crate) fn queued_on(&self, link: LinkId) -> usize {
        self.queues.lock().get(&link).map_or(0, |queued| queued.load(Relaxed))
    }

    /// Links to and from other nodes.
    pub(crate) fn links_len(&self) -> usize {
        self.queues.lock().len()
    }

    /// Bytes that wait to be sent over all of them.
    pub(crate) fn links_bytes(&self) -> usize {
        self.queues.lock().values().map(|queued| queued.load(Relaxed)).sum()
    }

    /// The present routes.
    pub fn routes(&self) -> Arc<Routes> {
        Arc::clone(&self.routes.read())
    }

    /// The cluster is down, or has not heard of this node for long. New routes say so as soon as no command is under way; until
    /// then clients begin none, so that nothing is acknowledged long after another node may have taken over. Programs go on to
    /// their ends.
    pub fn go_down(&self) {
        self.is_going_down.store(true, Relaxed);
        self.free.iter().chain(self.readable.iter()).for_each(|word| word.store(0, Relaxed));
        self.version.fetch_add(1, Release);
    }

    /// See [`Clustering::go_down`].
    #[inline]
    pub fn is_going_down(&self) -> bool {
        self.is_going_down.load(Relaxed)
    }

    /// New routes. The calling thread has the whole keyspace. O(slots / 64).
    pub(crate) fn publish(&self, routes: Arc<Routes>) {
        self.is_going_down.store(false, Relaxed);
        self.free.iter().zip(routes.free()).for_each(|(word, bits)| word.store(bits, Relaxed));
        self.readable.iter().zip(routes.readable()).for_each(|(word, bits)| word.store(bits, Relaxed));
        self.has_moving.store(!routes.migrating.is_empty() || !routes.importing.is_empty(), Relaxed);
        *self.routes.write() = routes;
        self.version.fetch_add(1, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::routes::testing::routes;
    use onrush_store::{Keyspace, KeyspaceOptions};

    #[test]
    fn keys_are_free_if_they_are_of_one_slot_that_is_here_and_rests() {
        let keyspace = Keyspace::new(KeyspaceOptions { databases: 1, by_slot: true, ..KeyspaceOptions::default() });
        let hashes = |keys: &[&str]| keys.iter().map(|key| keyspace.hash(key.as_bytes())).collect::<Vec<_>>();
        let clustering = Clustering::default();
        assert!(clustering.is_free(&[]) && !clustering.is_free(&hashes(&["a"])));
        clustering.publish(Arc::new(routes(&[(0..=16_383, 0)])));
        assert!(clustering.is_free(&hashes(&["{a}1", "{a}2"])));
        assert!(!clustering.is_free(&hashes(&["a", "b"])));
        let mut under_way = routes(&[(0..=16_383, 0)]);
        under_way.migrating.insert(15_495, 1);
        clustering.publish(Arc::new(under_way));
        assert!(!clustering.is_free(&hashes(&["a"])));
        assert!(clustering.is_free(&hashes(&["b"])));
        assert_eq!(clustering.version(), 2);
    }
}

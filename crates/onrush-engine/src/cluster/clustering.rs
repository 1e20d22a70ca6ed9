//! What all threads share about the cluster.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use onrush_cluster::cluster::LinkId;
use onrush_store::KeyHash;
use parking_lot::{Mutex, RwLock};

use crate::cluster::moves::Moves;
use crate::cluster::node::Node;
use crate::cluster::routes::Routes;
use crate::cluster::slot_bits::{SlotBits, WORDS};

/// See the module's text. At first nobody has a slot.
#[derive(Default)]
pub struct Clustering {
    /// Slots whose keys are all here, and that are not under way: their commands need no look at the routes.
    free: SlotBits,
    /// Slots of the primary that this node is a replica of: clients that have sent READONLY read them without a look at the
    /// routes.
    readable: SlotBits,
    /// Counts the routes that were published.
    version: AtomicU64,
    routes: RwLock<Known>,
    /// Whether a slot is under way.
    has_moving: AtomicBool,
    /// Whether there are routes to come, which refuse commands already.
    has_next: AtomicBool,
    /// Whether commands are refused because the bus stands still.
    is_stopped: AtomicBool,
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

/// The routes that hold, and those to come.
#[derive(Default)]
struct Known {
    now: Arc<Routes>,
    /// Those on their way, in the order in which they are to hold: when no command is under way. Until then clients begin none that
    /// one of them refuses, so that nothing is acknowledged long after another node may have taken over. Later ones may allow it
    /// again; but what comes with those before them, as another role, would undo it.
    next: Vec<Arc<Routes>>,
    /// Those of the present state, if the bus has not set them on their way yet. They refuse as well.
    early: Option<Arc<Routes>>,
}

impl Known {
    fn to_come(&self) -> impl Iterator<Item = &Arc<Routes>> {
        self.next.iter().chain(&self.early)
    }
}

/// The slot of keys with these hashes, if it is one.
#[inline]
fn only_slot(hashes: &[KeyHash]) -> Option<u16> {
    let (first, others) = hashes.split_first()?;
    let slot = first.slot();
    others.iter().all(|hash| hash.slot() == slot).then_some(slot)
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
        only_slot(hashes).is_some_and(|slot| self.readable.has(slot))
    }

    /// The same for a slot.
    #[inline]
    pub(crate) fn is_slot_free(&self, slot: u16) -> bool {
        self.free.has(slot)
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
        Arc::clone(&self.routes.read().now)
    }

    /// Those to come, in order.
    #[inline]
    pub(crate) fn next_routes(&self) -> Vec<Arc<Routes>> {
        if self.has_next.load(Relaxed) { self.routes.read().to_come().cloned().collect() } else { Vec::new() }
    }

    /// The state has changed: what its routes refuse is refused before anybody sees it. The bus sets them on their way. The caller
    /// has the state. O(slots).
    pub fn foretell(&self, routes: Arc<Routes>) {
        let mut known = self.routes.write();
        known.early = Some(routes);
        self.set_bits(&known);
    }

    /// The routes of the present state are on their way, to be published as soon as no command is under way: what they refuse is
    /// refused from now on. Scripts that have written go on to their ends. The caller has the state. O(slots).
    pub fn announce(&self, next: Arc<Routes>) {
        let mut known = self.routes.write();
        known.early = None;
        known.next.push(next);
        self.set_bits(&known);
    }

    /// Routes that were announced are not published, as later ones come without anything between them. O(slots).
    pub fn withdraw(&self, routes: &Arc<Routes>) {
        let mut known = self.routes.write();
        known.next.retain(|next| !Arc::ptr_eq(next, routes));
        self.set_bits(&known);
    }

    /// This node has not heard of itself for long, and another one may have taken over: clients begin no command. O(slots).
    pub fn stop(&self) {
        let known = self.routes.write();
        self.is_stopped.store(true, Relaxed);
        self.set_bits(&known);
    }

    /// It has heard of itself, and the routes are as they are known. O(slots).
    pub fn go_on(&self) {
        let known = self.routes.write();
        self.is_stopped.store(false, Relaxed);
        self.set_bits(&known);
    }

    /// See [`Clustering::stop`].
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Relaxed)
    }

    /// New routes. The calling thread has the whole keyspace. Later ones that were announced go on refusing. O(slots).
    pub(crate) fn publish(&self, routes: Arc<Routes>) {
        let mut known = self.routes.write();
        if let Some(at) = known.next.iter().position(|next| Arc::ptr_eq(next, &routes)) {
            known.next.drain(..=at);
        }
        self.has_moving.store(!routes.migrating.is_empty() || !routes.importing.is_empty(), Relaxed);
        known.now = routes;
        self.set_bits(&known);
    }

    /// The caller has the routes for itself.
    fn set_bits(&self, known: &Known) {
        let is_stopped = self.is_stopped();
        let in_all = |slots: fn(&Routes) -> Vec<u64>| {
            let each = std::iter::once(&known.now).chain(known.to_come()).map(|routes| slots(routes));
            let common = each.reduce(|one, other| one.iter().zip(&other).map(|(one, other)| one & other).collect());
            common.filter(|_| !is_stopped).unwrap_or_else(|| vec![0; WORDS])
        };
        self.free.store(&in_all(Routes::free));
        self.readable.store(&in_all(Routes::readable));
        self.has_next.store(known.to_come().next().is_some(), Relaxed);
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

    #[test]
    fn routes_to_come_refuse_at_once_whatever_is_published_before_them() {
        let clustering = Clustering::default();
        clustering.publish(Arc::new(routes(&[(0..=99, 0)])));
        let (less, more) = (Arc::new(routes(&[(0..=49, 0)])), Arc::new(routes(&[(0..=199, 0)])));
        let free = |slots: [u16; 3]| slots.map(|slot| clustering.is_slot_free(slot));
        clustering.announce(Arc::clone(&less));
        assert_eq!(free([0, 50, 150]), [true, false, false]);
        clustering.publish(Arc::clone(&more));
        assert_eq!((free([0, 50, 150]), clustering.next_routes().len()), ([true, false, false], 1));
        clustering.publish(Arc::clone(&less));
        assert_eq!((free([0, 50, 150]), clustering.next_routes().len()), ([true, false, false], 0));
        // Each that is to hold refuses, not the latest alone.
        clustering.publish(Arc::clone(&more));
        clustering.announce(Arc::clone(&less));
        clustering.announce(Arc::clone(&more));
        assert_eq!(free([0, 50, 150]), [true, false, false]);
        clustering.withdraw(&less);
        assert_eq!((free([0, 50, 150]), clustering.next_routes().len()), ([true; 3], 1));
        clustering.announce(Arc::clone(&less));
        clustering.publish(Arc::clone(&less));
        assert_eq!((free([0, 50, 150]), clustering.next_routes().len()), ([true, false, false], 0));
        // What the state wants gives way to what the bus makes of it.
        clustering.publish(Arc::clone(&more));
        for _ in 0..3 {
            clustering.foretell(Arc::clone(&less));
        }
        assert_eq!((free([0, 50, 150]), clustering.next_routes().len()), ([true, false, false], 1));
        clustering.publish(Arc::clone(&more));
        assert_eq!(free([0, 50, 150]), [true, false, false]);
        clustering.announce(Arc::clone(&less));
        assert_eq!(clustering.next_routes().len(), 1);
        clustering.publish(Arc::clone(&less));
        clustering.announce(Arc::clone(&more));
        assert_eq!(free([0, 50, 150]), [true, false, false], "they do not allow it yet");
        clustering.stop();
        clustering.publish(more);
        assert_eq!((free([0, 50, 150]), clustering.is_stopped()), ([false; 3], true));
        clustering.go_on();
        assert_eq!(free([0, 50, 150]), [true; 3]);
    }
}

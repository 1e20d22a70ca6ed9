//! Which slot is where, and in which order commands pass.
//!
//! Commands of one slot keep their order though the slot moves: while any of them is under way to where the slot was, or
//! has come back refused, the slot is *held*, and later ones wait. When all that are under way have been answered, those
//! that wait go on in the order of their tickets, the refused ones first since theirs are oldest.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;

use crate::cluster::ReadFrom;
use crate::cluster::node::{Maker, Node};
use crate::cluster::place::Place;
use crate::cluster::slot::SLOTS;
use crate::cluster::topology::{Addr, NODES_MAX, Range};
use crate::error::{ErrorKind, RedisError};

/// The number of no node.
const NOWHERE: u16 = u16::MAX;

/// In how many lists of nodes in a row one that works may be missing before it counts as gone.
const MISSING_MAX: u8 = 2;

/// The routes of a cluster connection.
pub(crate) type Routes = Mutex<Table>;

/// What the lock guards.
pub(crate) struct Table {
    slots: Box<[Slot]>,
    nodes: Vec<Option<Entry>>,
    numbers: HashMap<Addr, u16>,
    /// The numbers of nodes that serve slots, or did when they were listed last.
    serving: Vec<u16>,
    held: HashMap<u16, Held>,
    last_ticket: u64,
    /// Counts up, so that nodes are chosen in turn.
    turn: usize,
    maker: Arc<Maker>,
    read_from: ReadFrom,
}

#[derive(Clone, Copy)]
struct Slot {
    node: u16,
    /// Commands that have been passed on and have no reply yet.
    under_way: u32,
}

struct Entry {
    node: Arc<Node>,
    /// The numbers of its replicas.
    replicas: Vec<u16>,
    /// In how many lists in a row it was missing.
    missing: u8,
}

/// A slot whose commands wait.
#[derive(Default)]
struct Held {
    /// By their tickets.
    waiting: BTreeMap<u64, Waker>,
    /// Nothing is under way to where the slot was: those that wait go on, one behind the other.
    draining: bool,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("nodes", &self.numbers).field("held", &self.held.len()).finish_non_exhaustive()
    }
}

/// The error where there is no node.
pub(crate) fn no_node() -> RedisError {
    RedisError::new(ErrorKind::Io, "no node of the cluster is known")
}

/// Commands that are under way until this is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay<'a, P: AsRef<[Place]>> {
    pub routes: &'a Routes,
    pub places: P,
}

impl<P: AsRef<[Place]>> Drop for UnderWay<'_, P> {
    fn drop(&mut self) {
        let mut table = self.routes.lock();
        self.places.as_ref().iter().for_each(|place| table.leave(place.slot()));
    }
}

impl Table {
    pub(crate) fn new(maker: Arc<Maker>, read_from: ReadFrom) -> Table {
        Table {
            slots: vec![Slot { node: NOWHERE, under_way: 0 }; usize::from(SLOTS)].into(),
            nodes: Vec::new(),
            numbers: HashMap::new(),
            serving: Vec::new(),
            held: HashMap::new(),
            last_ticket: 0,
            turn: 0,
            maker,
            read_from,
        }
    }

    /// The place in the order of commands of a call that begins now.
    pub(crate) fn ticket(&mut self) -> u64 {
        self.last_ticket += 1;
        self.last_ticket
    }

    /// Where a command may go at once; it counts as under way then. `None` if its slot is held.
    #[inline]
    pub(crate) fn enter(&mut self, place: Place) -> Option<u16> {
        if !self.held.is_empty() && self.held.contains_key(&place.slot()) {
            return None;
        }
        let number = self.choose(place)?;
        self.slots[usize::from(place.slot())].under_way += 1;
        Some(number)
    }

    #[inline]
    pub(crate) fn leave(&mut self, slot: u16) {
        let entry = &mut self.slots[usize::from(slot)];
        entry.under_way -= 1;
        if entry.under_way == 0 && !self.held.is_empty() {
            self.pass(slot);
        }
    }

    /// Holds a slot for a call with commands that were refused.
    pub(crate) fn hold(&mut self, slot: u16, ticket: u64) {
        let held = self.held.entry(slot).or_default();
        held.draining = false;
        held.waiting.entry(ticket).or_insert_with(|| Waker::noop().clone());
    }

    /// Whether a call may pass on commands of a slot; if not, it waits from now on.
    pub(crate) fn may_go(&mut self, slot: u16, ticket: u64) -> bool {
        let under_way = self.slots[usize::from(slot)].under_way;
        let Some(held) = self.held.get_mut(&slot) else { return true };
        held.waiting.entry(ticket).or_insert_with(|| Waker::noop().clone());
        let is_first = held.waiting.first_key_value().is_some_and(|(first, _)| *first == ticket);
        // A command that is refused meanwhile ends it again.
        held.draining |= is_first && under_way == 0;
        is_first && held.draining
    }

    /// Counts a command as under way that [`may_go`](Self::may_go).
    pub(crate) fn go(&mut self, slot: u16) {
        self.slots[usize::from(slot)].under_way += 1;
    }

    /// A call has passed on commands of a slot: `all` that it has, or keeps its place for the rest. The next one may go.
    pub(crate) fn depart(&mut self, slot: u16, ticket: u64, all: bool) {
        if let Some(held) = self.held.get_mut(&slot) {
            held.draining &= all;
            if all {
                held.waiting.remove(&ticket);
                self.pass(slot);
            }
        }
    }

    /// Sets what is woken when a call may go on.
    pub(crate) fn wake_later(&mut self, slot: u16, ticket: u64, waker: &Waker) {
        if let Some(kept) = self.held.get_mut(&slot).and_then(|held| held.waiting.get_mut(&ticket)) {
            kept.clone_from(waker);
        }
    }

    /// A call no longer waits.
    pub(crate) fn give_up(&mut self, slot: u16, ticket: u64) {
        if let Some(held) = self.held.get_mut(&slot) {
            held.waiting.remove(&ticket);
            self.pass(slot);
        }
    }

    /// Lets the next one go on, if it may; a slot for which nobody waits is not held any more.
    fn pass(&mut self, slot: u16) {
        let is_free = self.slots[usize::from(slot)].under_way == 0;
        let Some(held) = self.held.get(&slot) else { return };
        match held.waiting.first_key_value() {
            Some((_, waker)) => waker.wake_by_ref(),
            None if held.draining || is_free => _ = self.held.remove(&slot),
            None => {}
        }
    }

    /// The node for a command, by its slot and the policy of reads; any if none serves the slot. `None` without nodes.
    #[inline]
    pub(crate) fn choose(&mut self, place: Place) -> Option<u16> {
        let number = self.slots[usize::from(place.slot())].node;
        if number == NOWHERE {
            return self.any();
        }
        if place.may_be_replica() && self.read_from != ReadFrom::Primary {
            return Some(self.reader(number));
        }
        Some(number)
    }

    /// A node that may answer a read, by turns.
    fn reader(&mut self, primary: u16) -> u16 {
        self.turn = self.turn.wrapping_add(1);
        let Some(Some(entry)) = self.nodes.get(usize::from(primary)) else { return primary };
        let works = |number: &u16| {
            let node = self.nodes.get(usize::from(*number)).and_then(Option::as_ref);
            node.is_some_and(|entry| !entry.node.is_broken())
        };
        let mut readers: Vec<u16> = entry.replicas.iter().copied().filter(works).collect();
        if self.read_from == ReadFrom::Any {
            readers.push(primary);
        }
        if readers.is_empty() { primary } else { readers[self.turn % readers.len()] }
    }

    /// A node that serves slots, by turns; any other if there is none.
    pub(crate) fn any(&mut self) -> Option<u16> {
        self.turn = self.turn.wrapping_add(1);
        if self.serving.is_empty() {
            return self.nodes.iter().flatten().map(|entry| entry.node.number).next();
        }
        Some(self.serving[self.turn % self.serving.len()])
    }

    /// All nodes that serve slots, each with its first slot, in the order of these. O(slots).
    pub(crate) fn primaries(&self) -> Vec<(Arc<Node>, u16)> {
        let mut seen = HashSet::new();
        let mut before = NOWHERE;
        let mut primaries = Vec::new();
        for (slot, entry) in self.slots.iter().enumerate() {
            if entry.node != before && entry.node != NOWHERE && seen.insert(entry.node) {
                primaries.extend(self.node(entry.node).map(|node| (node, slot as u16)));
            }
            before = entry.node;
        }
        primaries
    }

    /// Whether this node serves the slot.
    pub(crate) fn is_at(&self, slot: u16, number: u16) -> bool {
        self.slots[usize::from(slot)].node == number
    }

    /// Whether a node serves the slot.
    pub(crate) fn is_served(&self, slot: u16) -> bool {
        self.slots[usize::from(slot)].node != NOWHERE
    }

    /// The node that serves a slot, as far as known.
    pub(crate) fn primary_of(&self, slot: u16) -> Option<Arc<Node>> {
        self.node(self.slots[usize::from(slot)].node)
    }

    /// The [chosen](Self::choose) node.
    pub(crate) fn node_for(&mut self, place: Place) -> Option<Arc<Node>> {
        self.choose(place).and_then(|number| self.node(number))
    }

    pub(crate) fn node(&self, number: u16) -> Option<Arc<Node>> {
        self.nodes.get(usize::from(number))?.as_ref().map(|entry| entry.node.clone())
    }

    /// How many numbers nodes have.
    pub(crate) fn numbers_end(&self) -> usize {
        self.nodes.len()
    }

    /// All nodes that are known.
    pub(crate) fn all(&self) -> Vec<Arc<Node>> {
        self.nodes.iter().flatten().map(|entry| entry.node.clone()).collect()
    }

    /// The node at an address, which may be new. `None` if there are too many.
    pub(crate) fn node_at(&mut self, addr: &Addr) -> Option<Arc<Node>> {
        if let Some(number) = self.numbers.get(addr) {
            return self.node(*number);
        }
        let free = self.nodes.iter().position(Option::is_none).unwrap_or(self.nodes.len());
        let number = u16::try_from(free).ok().filter(|_| free < NODES_MAX)?;
        let node = Arc::new(Node::new(number, addr.clone(), self.maker.clone()));
        if free == self.nodes.len() {
            self.nodes.push(None);
        }
        self.nodes[free] = Some(Entry { node: node.clone(), replicas: Vec::new(), missing: 0 });
        self.numbers.insert(addr.clone(), number);
        Some(node)
    }

    /// Notes that a slot is elsewhere, as the node that was asked says, unless it is known to have moved since.
    pub(crate) fn moved(&mut self, slot: u16, asked: u16, to: &Addr) {
        let known = self.slots[usize::from(slot)].node;
        let is_news = known == asked || known == NOWHERE || !self.is_unrelated(known, asked);
        if !is_news {
            return;
        }
        if let Some(node) = self.node_at(to) {
            self.set_route(slot, node.number);
            if !self.serving.contains(&node.number) {
                self.serving.push(node.number);
            }
        }
    }

    /// Whether a node is no replica of another: what it says of slots that this serves may be older than what is known.
    fn is_unrelated(&self, primary: u16, other: u16) -> bool {
        let entry = self.nodes.get(usize::from(primary)).and_then(Option::as_ref);
        entry.is_some_and(|entry| !entry.replicas.contains(&other))
    }

    /// Takes over what a node tells of all slots. Returns the nodes that are gone. O(slots + nodes).
    pub(crate) fn install(&mut self, ranges: &[Range]) -> Vec<Arc<Node>> {
        let mut routes = vec![NOWHERE; usize::from(SLOTS)];
        let mut replicas: HashMap<u16, Vec<u16>> = HashMap::new();
        for range in ranges {
            let numbers: Vec<u16> =
                range.nodes.iter().filter_map(|addr| self.node_at(addr)).map(|node| node.number).collect();
            let Some((primary, rest)) = numbers.split_first() else { continue };
            routes[usize::from(range.first)..=usize::from(range.last)].fill(*primary);
            replicas.insert(*primary, rest.to_vec());
        }
        (0..SLOTS).for_each(|slot| self.set_route(slot, routes[usize::from(slot)]));
        self.serving = replicas.keys().copied().collect();
        self.sweep(replicas)
    }

    /// A slot with commands under way is held until these are answered.
    fn set_route(&mut self, slot: u16, number: u16) {
        let entry = &mut self.slots[usize::from(slot)];
        if entry.node != number && entry.under_way > 0 {
            self.held.entry(slot).or_default().draining = false;
        }
        entry.node = number;
    }

    /// Removes the nodes that no list tells of any more. `replicas`: those of each primary.
    fn sweep(&mut self, mut replicas: HashMap<u16, Vec<u16>>) -> Vec<Arc<Node>> {
        let listed: HashSet<u16> =
            replicas.iter().flat_map(|(primary, rest)| rest.iter().chain([primary])).copied().collect();
        let mut gone = Vec::new();
        for (number, place) in self.nodes.iter_mut().enumerate() {
            let Some(entry) = place else { continue };
            let number = number as u16;
            entry.replicas = replicas.remove(&number).unwrap_or_default();
            entry.missing = if listed.contains(&number) { 0 } else { entry.missing + 1 };
            if entry.missing >= MISSING_MAX || entry.missing > 0 && entry.node.is_broken() {
                self.numbers.remove(&entry.node.addr);
                gone.extend(place.take().map(|entry| entry.node));
            }
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::client::ClusterClient;

    fn table(read_from: ReadFrom) -> Table {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _runtime = runtime.enter();
        let maker = ClusterClient::open("redis-cluster://h:1").unwrap().maker(&Default::default());
        let mut table = Table::new(Arc::new(maker), read_from);
        let at = |port| Addr { host: "h".to_owned(), port };
        table.install(&[
            Range { first: 0, last: 99, nodes: vec![at(1), at(3)] },
            Range { first: 100, last: 16_000, nodes: vec![at(2)] },
        ]);
        table
    }

    fn port(table: &mut Table, place: Place) -> u16 {
        let number = table.choose(place).unwrap();
        table.node(number).unwrap().addr.port
    }

    #[test]
    fn a_moved_slot_is_held_until_what_was_under_way_is_answered() {
        let mut table = table(ReadFrom::Primary);
        let place = Place::of_slot(7);
        let first = table.enter(place).unwrap();
        table.moved(7, first, &Addr { host: "h".to_owned(), port: 2 });
        assert_eq!(port(&mut table, place), 2);
        assert_eq!(table.enter(place), None, "the first may still be refused");
        assert!(table.enter(Place::of_slot(8)).is_some());
        // The first was refused, and so goes before a later one.
        let (old, new) = (1, 2);
        assert!(!table.may_go(7, new));
        table.hold(7, old);
        table.leave(7);
        assert!(!table.may_go(7, new) && table.may_go(7, old));
        table.go(7);
        assert!(!table.may_go(7, new), "the first is not passed on yet");
        table.depart(7, old, true);
        assert!(table.may_go(7, new));
        table.go(7);
        table.depart(7, new, true);
        assert!(table.enter(place).is_some(), "nobody waits any more");
    }

    #[test]
    fn a_call_that_gives_up_lets_others_go_on() {
        let mut table = table(ReadFrom::Primary);
        let place = Place::of_slot(7);
        table.enter(place).unwrap();
        table.hold(7, 1);
        table.leave(7);
        assert!(!table.may_go(7, 2));
        table.give_up(7, 1);
        assert!(table.may_go(7, 2));
        table.give_up(7, 2);
        assert!(table.enter(place).is_some());
    }

    #[test]
    fn old_news_of_a_slot_change_nothing() {
        let mut table = table(ReadFrom::Primary);
        let at = |port| Addr { host: "h".to_owned(), port };
        let (one, two) = (table.choose(Place::of_slot(0)).unwrap(), table.choose(Place::of_slot(200)).unwrap());
        table.moved(0, one, &at(2));
        table.moved(0, one, &at(4));
        assert_eq!(port(&mut table, Place::of_slot(0)), 2);
        table.moved(0, two, &at(4));
        assert_eq!(port(&mut table, Place::of_slot(0)), 4);
        table.moved(16_300, one, &at(5));
        assert_eq!(port(&mut table, Place::of_slot(16_300)), 5, "nobody was known to serve it");
    }

    #[test]
    fn nodes_are_gone_when_two_lists_do_not_name_them() {
        let mut table = table(ReadFrom::Primary);
        let rest = [Range { first: 0, last: 99, nodes: vec![Addr { host: "h".to_owned(), port: 1 }] }];
        assert!(table.install(&rest).is_empty());
        let gone: BTreeMap<u16, u16> = table.install(&rest).iter().map(|node| (node.addr.port, node.number)).collect();
        assert_eq!(gone.keys().copied().collect::<Vec<_>>(), [2, 3]);
        assert_eq!(table.all().len(), 1);
        assert_eq!(port(&mut table, Place::of_slot(16_000)), 1, "any node tells who has it");
    }

    #[test]
    fn replicas_are_read_from_by_turns() {
        let mut all = table(ReadFrom::Any);
        let read = Place::of_slot(0).reads(true);
        let ports: HashSet<u16> = (0..4).map(|_| port(&mut all, read)).collect();
        assert_eq!(ports, [1, 3].into());
        assert_eq!(port(&mut all, Place::of_slot(0)), 1);
        let mut replicas = table(ReadFrom::PreferReplica);
        assert!((0..4).all(|_| port(&mut replicas, read) == 3));
        assert_eq!(port(&mut replicas, Place::of_slot(200).reads(true)), 2, "it has no replica");
    }
}

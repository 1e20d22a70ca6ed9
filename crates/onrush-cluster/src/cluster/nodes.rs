//! What is known of each node, and the table of all.

use std::collections::HashMap;
use std::ops::{Index, IndexMut};

use super::actions::LinkId;
use super::random::Random;
use super::rounds::Awaited;
use crate::node::{Address, Flags, NodeId};
use crate::slots::SlotSet;

/// Nodes that a node knows, at most, with those in a handshake.
pub const NODES_MAX: usize = 10_000;

/// The place of a node in the table. It keeps it as long as it is known.
pub(super) type Ix = usize;

/// The place of this node.
pub(super) const MYSELF: Ix = 0;

/// That a primary takes a node for failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) by: NodeId,
    pub(super) at_ms: u64,
}

/// What is known of a node. Times are of the clock that never goes back.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) id: NodeId,
    pub(super) flags: Flags,
    pub(super) address: Address,
    pub(super) hostname: String,
    pub(super) nodename: String,
    pub(super) shard: NodeId,
    /// It has told its shard itself, as nodes since 7.2 do.
    pub(super) tells_shard: bool,
    pub(super) primary: Option<NodeId>,
    pub(super) slots: SlotSet,
    pub(super) slot_count: u16,
    /// Its last message claimed all of `slots`.
    pub(super) claims_all: bool,
    pub(super) config_epoch: u64,
    pub(super) offset: u64,
    pub(super) created_ms: u64,
    /// A ping is without an answer since then.
    pub(super) ping_sent_ms: Option<u64>,
    pub(super) pong_received_ms: Option<u64>,
    pub(super) data_received_ms: u64,
    pub(super) failed_ms: u64,
    /// When this node voted for a replica of it.
    pub(super) voted_ms: Option<u64>,
    pub(super) orphaned_ms: Option<u64>,
    /// The last round that it has heard of, and the ping whose answer shows the next.
    pub(super) heard_round: u64,
    pub(super) awaited: Option<Awaited>,
    /// The link to it.
    pub(super) link: Option<LinkId>,
    /// The link from it.
    pub(super) inbound: Option<LinkId>,
    pub(super) reports: Vec<Report>,
    /// The last gossip that it was in.
    pub(super) gossip_round: u64,
}

impl Node {
    pub(super) fn new(id: NodeId, flags: Flags, address: Address, shard: NodeId, now_ms: u64) -> Self {
        Self {
            id,
            flags,
            address,
            shard,
            claims_all: true,
            created_ms: now_ms,
            data_received_ms: now_ms,
            ..Self::default()
        }
    }

    pub(super) fn has(&self, flags: Flags) -> bool {
        self.flags.intersects(flags)
    }

    pub(super) fn is_primary(&self) -> bool {
        self.has(Flags::PRIMARY)
    }

    pub(super) fn is_replica(&self) -> bool {
        self.has(Flags::REPLICA)
    }

    /// Whether it has a vote: a primary with slots.
    pub(super) fn is_voter(&self) -> bool {
        self.is_primary() && self.slot_count > 0
    }

    pub(super) fn is_replica_of(&self, id: NodeId) -> bool {
        self.is_replica() && self.primary == Some(id)
    }

    pub(super) fn is_silent(&self) -> bool {
        self.has(Flags::MAYBE_FAILED | Flags::FAILED)
    }

    /// Its name for people, as logs show it.
    pub(super) fn label(&self) -> String {
        format!("{} ({})", self.id, self.nodename)
    }
}

/// All nodes that are known, this one first.
pub(super) struct Nodes {
    all: Vec<Option<Node>>,
    places: HashMap<NodeId, Ix>,
    free: Vec<Ix>,
}

impl Nodes {
    pub(super) fn new(myself: Node) -> Self {
        let places = HashMap::from([(myself.id, MYSELF)]);
        Self { all: vec![Some(myself)], places, free: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// By place, so the order is the same for the same events.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Ix, &Node)> {
        self.all.iter().enumerate().filter_map(|(ix, node)| Some((ix, node.as_ref()?)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        self.all.iter_mut().flatten()
    }

    /// The places that may hold a node.
    pub(super) fn places(&self) -> std::ops::Range<Ix> {
        0..self.all.len()
    }

    pub(super) fn get(&self, ix: Ix) -> Option<&Node> {
        self.all.get(ix)?.as_ref()
    }

    pub(super) fn find(&self, id: NodeId) -> Option<Ix> {
        self.places.get(&id).copied()
    }

    /// Adds a node, unless there are too many or one of this name.
    pub(super) fn add(&mut self, node: Node) -> Option<Ix> {
        if self.len() >= NODES_MAX || self.places.contains_key(&node.id) {
            return None;
        }
        let ix = self.free.pop().unwrap_or(self.all.len());
        self.places.insert(node.id, ix);
        match self.all.get_mut(ix) {
            Some(place) => *place = Some(node),
            None => self.all.push(Some(node)),
        }
        Some(ix)
    }

    pub(super) fn remove(&mut self, ix: Ix) -> Option<Node> {
        let node = self.all.get_mut(ix).filter(|_| ix != MYSELF)?.take()?;
        self.places.remove(&node.id);
        self.free.push(ix);
        Some(node)
    }

    /// Gives a node another name, which nobody has.
    pub(super) fn rename(&mut self, ix: Ix, id: NodeId) {
        let before = std::mem::replace(&mut self[ix].id, id);
        self.places.remove(&before);
        self.places.insert(id, ix);
    }

    /// A node at random, or none if the place drawn is empty.
    pub(super) fn random(&self, random: &mut Random) -> Option<Ix> {
        let ix = random.below(self.all.len() as u64) as Ix;
        self.get(ix).map(|_| ix)
    }
}

impl Index<Ix> for Nodes {
    type Output = Node;

    fn index(&self, ix: Ix) -> &Node {
        self.all[ix].as_ref().expect("places are of nodes that are known")
    }
}

impl IndexMut<Ix> for Nodes {
    fn index_mut(&mut self, ix: Ix) -> &mut Node {
        self.all[ix].as_mut().expect("places are of nodes that are known")
    }
}

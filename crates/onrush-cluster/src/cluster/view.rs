//! What clients and the server are shown, as data.

use std::ops::RangeInclusive;

use super::Cluster;
use super::actions::LinkId;
use super::nodes::{Ix, MYSELF, Node};
use crate::node::{Address, Flags, NodeId};
use crate::slots::SLOTS;

/// No node, in [`Routes::owners`].
pub const NO_NODE: u16 = u16::MAX;

/// Where clients reach a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteNode {
    /// Its name.
    pub id: NodeId,
    /// Its IP address; empty: not known.
    pub ip: String,
    /// Its host name; empty: none.
    pub hostname: String,
    /// Its port without TLS; 0: none.
    pub port: u16,
    /// Its port with TLS; 0: none.
    pub tls_port: u16,
}

/// A slot on its way between this node and another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovingSlot {
    /// The slot.
    pub slot: u16,
    /// The other node, as a place in [`Routes::nodes`].
    pub node: u16,
}

/// Who serves which slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// Whether the cluster is up.
    pub is_up: bool,
    /// The nodes.
    pub nodes: Vec<RouteNode>,
    /// This node, as a place in `nodes`.
    pub myself: u16,
    /// This node's primary, if it is a replica that knows one.
    pub primary: Option<u16>,
    /// The owner of each of the 16,384 slots, as a place in `nodes`, or [`NO_NODE`].
    pub owners: Box<[u16]>,
    /// Slots that go from here to another node, by slot.
    pub migrating: Vec<MovingSlot>,
    /// Slots that come here from another node, by slot.
    pub importing: Vec<MovingSlot>,
}

/// How a node is, in CLUSTER SHARDS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It answers.
    Online,
    /// It does not answer.
    Failed,
    /// A replica that has no data yet.
    Loading,
}

/// A node of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Where it is reached.
    pub at: RouteNode,
    /// Whether it is a primary.
    pub is_primary: bool,
    /// How far it is in its history, in bytes, as it told last.
    pub offset: u64,
    /// How it is.
    pub health: Health,
}

/// An entry of CLUSTER SLOTS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotsView {
    /// Slots in a row.
    pub slots: RangeInclusive<u16>,
    /// Their primary, then its replicas that answer and have data.
    pub nodes: Vec<NodeView>,
}

/// An entry of CLUSTER SHARDS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardView {
    /// The shard's name.
    pub id: NodeId,
    /// Its slots.
    pub slots: Vec<RangeInclusive<u16>>,
    /// Its nodes.
    pub nodes: Vec<NodeView>,
}

/// An entry of CLUSTER LINKS. The server adds what its buffers hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkView {
    /// The link.
    pub id: LinkId,
    /// Whether this node has connected it; else the other one.
    pub is_outgoing: bool,
    /// The other node.
    pub node: NodeId,
    /// When it was made, in Unix milliseconds.
    pub created_wall_ms: u64,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It has slots, or may have some.
    Primary,
    /// It follows a primary.
    Replica,
}

impl Cluster {
    /// The port without TLS and the one with TLS of an address.
    pub(super) fn client_ports(&self, address: &Address) -> (u16, u16) {
        match self.options.tls_cluster {
            true => (address.other_port, address.port),
            false => (address.port, address.other_port),
        }
    }

    pub(super) fn route_node(&self, node: &Node) -> RouteNode {
        let (port, tls_port) = self.client_ports(&node.address);
        RouteNode { id: node.id, ip: node.address.ip.clone(), hostname: node.hostname.clone(), port, tls_port }
    }

    /// Who serves which slot. O(slots and nodes).
    pub fn routes(&self) -> Routes {
        let mut nodes = Vec::with_capacity(self.nodes.len());
        let mut places = vec![NO_NODE; self.nodes.places().end];
        for (ix, node) in self.nodes.iter() {
            places[ix] = nodes.len() as u16;
            nodes.push(self.route_node(node));
        }
        let place = |slot| self.slots.owner(slot).map_or(NO_NODE, |ix| places[ix]);
        let moving =
            |(slot, other): (&u16, &NodeId)| self.find(*other).map(|ix| MovingSlot { slot: *slot, node: places[ix] });
        Routes {
            is_up: self.is_up(),
            nodes,
            myself: places[MYSELF],
            primary: self.primary_ix().map(|ix| places[ix]),
            owners: (0..SLOTS).map(place).collect(),
            migrating: self.slots.migrating.iter().filter_map(moving).collect(),
            importing: self.slots.importing.iter().filter_map(moving).collect(),
        }
    }

    fn node_view(&self, ix: Ix) -> NodeView {
        let node = &self.nodes[ix];
        let offset = if ix == MYSELF { self.offset } else { node.offset };
        let health = match node {
            node if node.is_silent() => Health::Failed,
            node if node.is_replica() && offset == 0 => Health::Loading,
            _ => Health::Online,
        };
        NodeView { at: self.route_node(node), is_primary: node.is_primary(), offset, health }
    }

    /// The replicas of a node, by place.
    pub(super) fn replicas_of(&self, id: NodeId) -> impl Iterator<Item = Ix> {
        self.nodes.iter().filter(move |(_, node)| node.is_replica_of(id)).map(|(ix, _)| ix)
    }

    /// CLUSTER SLOTS. O(slots, and nodes for each primary and range).
    pub fn slots(&self) -> Vec<SlotsView> {
        let mut views = Vec::new();
        for (ix, node) in self.nodes.iter().filter(|(_, node)| node.slot_count > 0) {
            let mut nodes = vec![self.node_view(ix)];
            let is_usable = |ix: &Ix| !self.nodes[*ix].has(Flags::FAILED);
            let replicas = self.replicas_of(node.id).filter(is_usable).map(|ix| self.node_view(ix));
            nodes.extend(replicas.filter(|view| view.offset > 0));
            let ranges = node.slots.ranges().into_iter();
            views.extend(ranges.map(|slots| SlotsView { slots, nodes: nodes.clone() }));
        }
        views.sort_by_key(|view| *view.slots.start());
        views
    }

    /// CLUSTER SHARDS. A node whose shard is not known stands alone. O(slots and nodes).
    pub fn shards(&self) -> Vec<ShardView> {
        let mut shards: Vec<ShardView> = Vec::new();
        let mut places = std::collections::HashMap::new();
        for (ix, node) in self.nodes.iter().filter(|(_, node)| !node.has(Flags::HANDSHAKE)) {
            let place = *places.entry(node.shard).or_insert(shards.len());
            if place == shards.len() {
                shards.push(ShardView { id: node.shard, slots: Vec::new(), nodes: Vec::new() });
            }
            let shard = &mut shards[place];
            shard.slots.extend(node.slots.ranges());
            let at = if node.is_primary() { 0 } else { shard.nodes.len() };
            shard.nodes.insert(at, self.node_view(ix));
        }
        shards
    }

    /// CLUSTER LINKS: the links to and from nodes.
    pub fn links(&self) -> Vec<LinkView> {
        let mut views = Vec::new();
        for (_, node) in self.nodes.iter() {
            for (id, is_outgoing) in [(node.link, true), (node.inbound, false)] {
                let Some((id, link)) = id.and_then(|id| Some((id, self.links.get(id)?))) else { continue };
                views.push(LinkView { id, is_outgoing, node: node.id, created_wall_ms: self.wall_ms(link.created_ms) });
            }
        }
        views
    }
}

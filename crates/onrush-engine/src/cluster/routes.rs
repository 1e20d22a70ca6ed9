//! Routes: who serves which slot, as one node sees it at a moment.

use std::collections::HashMap;

use onrush_cluster::cluster::{Cluster, Endpoint, view};
use onrush_cluster::slots::{SLOTS, SlotSet};

pub use onrush_cluster::cluster::view::NO_NODE as NOBODY;

/// How clients reach a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// What they are told, by the preferred kind of endpoint; empty if they are to go on with the address they have.
    pub host: String,
    /// Its port without TLS, 0 if it has none.
    pub port: u16,
    /// Its port for TLS, 0 if it has none.
    pub tls_port: u16,
}

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Routes {
    /// The primaries that serve slots, and others that slots are under way to or from.
    pub nodes: Vec<Node>,
    /// The number of each slot's owner in `nodes`.
    pub owners: Box<[u16; SLOTS as usize]>,
    /// The slots of this node.
    pub own: SlotSet,
    /// The number of this node; of its primary if it is a replica.
    pub here: u16,
    /// Whether this node is a replica.
    pub is_replica: bool,
    /// Slots under way from here, and to whom.
    pub migrating: HashMap<u16, u16>,
    /// Slots under way to here.
    pub importing: HashMap<u16, u16>,
    /// Whether the cluster is up.
    pub is_up: bool,
    /// `cluster-allow-reads-when-down`
    pub allows_reads_when_down: bool,
    /// `cluster-allow-pubsubshard-when-down`
    pub allows_shard_channels_when_down: bool,
}

/// The port of a node for a client whose connection is encrypted, or is not. 0: there is none.
pub(crate) fn port_for(port: u16, tls_port: u16, is_encrypted: bool) -> u16 {
    if is_encrypted && tls_port != 0 || port == 0 { tls_port } else { port }
}

impl Default for Routes {
    /// A node alone, without slots.
    fn default() -> Self {
        Self {
            nodes: vec![Node::default()],
            owners: Box::new([NOBODY; SLOTS as usize]),
            own: SlotSet::new(),
            here: 0,
            is_replica: false,
            migrating: HashMap::new(),
            importing: HashMap::new(),
            is_up: false,
            allows_reads_when_down: false,
            allows_shard_channels_when_down: true,
        }
    }
}

/// What clients are told of a node; `None`: they go on with the address that they have.
pub(crate) fn endpoint(node: &view::RouteNode, preferred: Endpoint) -> Option<String> {
    match preferred {
        Endpoint::Ip => Some(node.ip.clone()),
        Endpoint::Hostname if node.hostname.is_empty() => Some("?".to_owned()),
        Endpoint::Hostname => Some(node.hostname.clone()),
        Endpoint::Unknown => None,
    }
}

impl Routes {
    /// Those that a node knows. O(slots + nodes).
    pub fn of(cluster: &Cluster) -> Self {
        let routes = cluster.routes();
        let options = cluster.options();
        let node = |node: &view::RouteNode| Node {
            host: endpoint(node, options.preferred_endpoint).unwrap_or_default(),
            port: node.port,
            tls_port: node.tls_port,
        };
        let moving = |slots: &[view::MovingSlot]| slots.iter().map(|moving| (moving.slot, moving.node)).collect();
        let is_replica = cluster.role() == view::Role::Replica;
        // A replica that does not know its primary has no key.
        let here = if is_replica { routes.primary.unwrap_or(NOBODY - 1) } else { routes.myself };
        let mut owners = Box::new([NOBODY; SLOTS as usize]);
        owners.copy_from_slice(&routes.owners);
        let own = (0..SLOTS).filter(|slot| owners[usize::from(*slot)] == routes.myself).collect();
        Self {
            nodes: routes.nodes.iter().map(node).collect(),
            owners,
            own,
            here,
            is_replica,
            migrating: moving(&routes.migrating),
            importing: moving(&routes.importing),
            is_up: routes.is_up,
            allows_reads_when_down: options.allow_reads_when_down,
            allows_shard_channels_when_down: options.allow_pubsubshard_when_down,
        }
    }

    /// The number of a slot's owner.
    pub fn owner(&self, slot: u16) -> u16 {
        self.owners[usize::from(slot)]
    }

    /// Slots all of whose keys are here, so that clients may read and write them, as words of bits. O(slots / 64).
    pub(super) fn free(&self) -> Vec<u64> {
        let serves = self.is_up && !self.is_replica;
        let under_way: SlotSet = self.migrating.keys().chain(self.importing.keys()).copied().collect();
        let free = |(own, moving): (u64, u64)| if serves { own & !moving } else { 0 };
        self.own.words().zip(under_way.words()).map(free).collect()
    }

    /// Slots that a replica has from its primary, and clients may read from it if they ask for that, as words of bits. O(slots).
    pub(super) fn readable(&self) -> Vec<u64> {
        let serves = self.is_up && self.is_replica;
        let is_readable = |owner: &u16| serves && *owner == self.here;
        let word =
            |owners: &[u16]| owners.iter().rev().fold(0, |word, owner| word << 1 | u64::from(is_readable(owner)));
        self.owners.chunks(64).map(word).collect()
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use std::ops::RangeInclusive;

    use super::*;

    /// Three nodes, of which this is the first; the cluster is up.
    pub(crate) fn routes(owned: &[(RangeInclusive<u16>, u16)]) -> Routes {
        let node = |port| Node { host: "10.0.0.1".to_owned(), port, tls_port: 0 };
        let mut routes = Routes { nodes: (7000..7003).map(node).collect(), is_up: true, ..Routes::default() };
        for (slots, owner) in owned {
            slots.clone().for_each(|slot| routes.owners[usize::from(slot)] = *owner);
            if *owner == 0 {
                slots.clone().for_each(|slot| routes.own.add(slot));
            }
        }
        routes
    }
}

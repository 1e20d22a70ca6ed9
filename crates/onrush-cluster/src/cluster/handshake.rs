//! How a node gets to know another one: it is asked in, or asks; until it has told its name it has a random one.

use super::Cluster;
use super::actions::LinkId;
use super::gossip::is_address;
use super::nodes::{Ix, MYSELF, Node};
use crate::message::Header;
use crate::node::{Address, Flags};

/// Nodes in a handshake, at most.
pub const HANDSHAKES_MAX: usize = 1_000;

/// A handshake takes no longer than the node timeout, or than this if that is less.
const HANDSHAKE_MIN_MS: u64 = 1_000;

impl Cluster {
    pub(super) fn handshake_timeout_ms(&self) -> u64 {
        self.options.node_timeout_ms.max(HANDSHAKE_MIN_MS)
    }

    /// Begins a handshake, unless there is one with this address. `extra`: what else the node is.
    pub(super) fn start_handshake(&mut self, address: Address, extra: Flags) {
        let has_address = |node: &Node| node.address.ip == address.ip && node.address.bus_port == address.bus_port;
        let shaking = self.nodes.iter().filter(|(_, node)| node.has(Flags::HANDSHAKE));
        let (mut count, mut is_under_way) = (0, false);
        for (_, node) in shaking {
            count += 1;
            is_under_way |= has_address(node);
        }
        if is_under_way || count >= HANDSHAKES_MAX {
            return;
        }
        let (id, shard) = (self.random.id(), self.random.id());
        let node = Node::new(id, Flags::HANDSHAKE | extra, address, shard, self.now.mono_ms);
        self.nodes.add(node);
    }

    /// A node that is not known asks this one in.
    pub(super) fn hear_meet(&mut self, link: LinkId, header: &Header) {
        let address = self.told_address(link, header);
        if is_address(&address) {
            self.start_handshake(address, Flags::empty());
        }
    }

    /// Where the sender says it is, or where it connects from.
    pub(super) fn told_address(&self, link: LinkId, header: &Header) -> Address {
        let mut address = header.address.clone();
        if address.ip.is_empty()
            && let Some(link) = self.links.get(link)
        {
            address.ip.clone_from(&link.peer_ip);
        }
        address
    }

    /// The first answer of a node in a handshake has come: it is known from now on. Returns it, unless it was known before.
    pub(super) fn end_handshake(&mut self, link: LinkId, ix: Ix, header: &Header) -> Option<Ix> {
        if let Some(known) = self.find(header.sender) {
            let label = self.nodes[known].label();
            self.debug(format!("Handshake: we already know node {label}, updating the address if needed."));
            let address = self.told_address(link, header);
            self.remove_node(ix);
            self.update_address(known, address);
            return None;
        }
        self.nodes.rename(ix, header.sender);
        let address = self.told_address(link, header);
        let node = &mut self.nodes[ix];
        node.flags.remove(Flags::HANDSHAKE | Flags::MEET);
        node.flags.insert(if header.primary.is_some() { Flags::REPLICA } else { Flags::PRIMARY });
        if is_address(&address) {
            node.address = address;
        }
        self.debug(format!("Handshake with node {} completed.", header.sender));
        self.changed_for_clients();
        // A node that forgets all others does not come back by itself.
        self.save(true);
        Some(ix)
    }

    /// A known node says where it is.
    pub(super) fn update_address(&mut self, ix: Ix, address: Address) {
        if ix != MYSELF && is_address(&address) && self.nodes[ix].address != address {
            self.move_node(ix, address);
        }
    }

    /// Forgets a node and what has to do with it.
    pub(super) fn remove_node(&mut self, ix: Ix) {
        let Some(node) = self.nodes.get(ix).filter(|_| ix != MYSELF) else { return };
        let (id, links) = (node.id, [node.link, node.inbound]);
        if self.manual.replica == Some(ix) {
            self.reset_manual_failover();
        }
        self.unassign_all(ix);
        links.into_iter().flatten().for_each(|link| self.close_link(link));
        self.nodes.remove(ix);
        self.predecessor.forget(id);
        self.slots.migrating.retain(|_, other| *other != id);
        self.slots.importing.retain(|_, other| *other != id);
        for node in self.nodes.iter_mut() {
            node.reports.retain(|report| report.by != id);
            node.primary.take_if(|primary| *primary == id);
        }
        self.changed_for_clients();
    }
}

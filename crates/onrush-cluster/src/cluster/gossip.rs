//! What nodes say of others.

use super::Cluster;
use super::header::told_flags;
use super::nodes::{Ix, MYSELF, Node};
use crate::message::Gossip;
use crate::node::{Address, Flags};

/// Gossip is about so many nodes at least, and about a tenth of them.
const ENTRIES_MIN: usize = 3;

/// Draws of nodes for each entry, at most.
const DRAWS: usize = 3;

/// How far the time of a pong may be ahead of this node's clock.
const CLOCK_AHEAD_MS: u64 = 500;

/// Bytes of an IP address in a message, without the zero at its end.
const IP_LEN_MAX: usize = 45;

/// Nodes that gossip does not tell.
const UNTOLD: Flags = Flags::HANDSHAKE.union(Flags::NO_ADDRESS);

impl Cluster {
    /// Gossip for a receiver: some nodes at random, and all that do not answer this one.
    pub(super) fn gossip_for(&mut self, receiver: Option<Ix>) -> Vec<Gossip> {
        self.gossip_round += 1;
        let fresh = self.nodes.len().saturating_sub(2);
        let wanted = (self.nodes.len() / 10).max(ENTRIES_MIN).min(fresh);
        let mut chosen = Vec::with_capacity(wanted + self.ticking.maybe_failed);
        for _ in 0..wanted * DRAWS {
            if chosen.len() == wanted {
                break;
            }
            let drawn = self.nodes.random(&mut self.random);
            chosen.extend(drawn.filter(|ix| Some(*ix) != receiver && self.is_news(*ix)));
            if let Some(ix) = chosen.last() {
                self.nodes[*ix].gossip_round = self.gossip_round;
            }
        }
        if self.ticking.maybe_failed > 0 {
            chosen.extend(self.maybe_failed(receiver));
        }
        chosen.into_iter().map(|ix| self.entry(&self.nodes[ix])).collect()
    }

    /// Whether gossip may be about a node that was drawn.
    fn is_news(&self, ix: Ix) -> bool {
        let node = &self.nodes[ix];
        let is_known = node.link.is_some() || node.slot_count > 0;
        ix != MYSELF && is_known && !node.has(UNTOLD | Flags::MAYBE_FAILED) && node.gossip_round != self.gossip_round
    }

    fn maybe_failed(&self, receiver: Option<Ix>) -> Vec<Ix> {
        let is_told = |(ix, node): &(Ix, &Node)| {
            Some(*ix) != receiver && node.has(Flags::MAYBE_FAILED) && !node.has(UNTOLD | Flags::MYSELF)
        };
        self.nodes.iter().filter(is_told).map(|(ix, _)| ix).collect()
    }

    fn entry(&self, node: &Node) -> Gossip {
        let seconds = |time_ms: Option<u64>| time_ms.map_or(0, |time_ms| (self.wall_ms(time_ms) / 1000) as u32);
        Gossip {
            id: node.id,
            ping_sent_s: seconds(node.ping_sent_ms),
            pong_received_s: seconds(node.pong_received_ms),
            address: node.address.clone(),
            flags: told_flags(node),
        }
    }

    /// What a known node says of others. O(entries), and O(reports) for those that do not answer it.
    pub(super) fn hear_gossip(&mut self, sender: Ix, gossip: &[Gossip]) {
        for entry in gossip {
            match self.find(entry.id) {
                Some(MYSELF) => {}
                Some(ix) => self.hear_of(sender, ix, entry),
                None => self.add_from_gossip(entry),
            }
        }
    }

    fn hear_of(&mut self, sender: Ix, ix: Ix, entry: &Gossip) {
        let is_silent = entry.flags.intersects(Flags::MAYBE_FAILED | Flags::FAILED);
        if self.nodes[sender].is_voter() && sender != ix {
            self.hear_report(sender, ix, is_silent);
        }
        if is_silent {
            return;
        }
        self.hear_pong(ix, entry);
        let node = &self.nodes[ix];
        let is_reachable = !entry.flags.intersects(Flags::NO_ADDRESS) && is_address(&entry.address);
        if node.is_silent() && is_reachable && is_elsewhere(&node.address, &entry.address) {
            self.move_node(ix, entry.address.clone());
        }
    }

    /// Another node had a pong later than this one: this one need not ping so soon.
    fn hear_pong(&mut self, ix: Ix, entry: &Gossip) {
        let pong_ms = u64::from(entry.pong_received_s) * 1000;
        let is_asked = self.nodes[ix].ping_sent_ms.is_some();
        if is_asked || pong_ms > self.now.wall_ms + CLOCK_AHEAD_MS || self.failure_reports(ix) > 0 {
            return;
        }
        let age_ms = self.now.wall_ms.saturating_sub(pong_ms);
        let heard_ms = self.now.mono_ms.checked_sub(age_ms);
        let node = &mut self.nodes[ix];
        if heard_ms > node.pong_received_ms {
            node.pong_received_ms = heard_ms;
        }
    }

    fn add_from_gossip(&mut self, entry: &Gossip) {
        let is_unknown = entry.flags.intersects(UNTOLD) || !is_address(&entry.address);
        if is_unknown || self.is_banned(entry.id) {
            return;
        }
        let mut flags = entry.flags & (Flags::PRIMARY | Flags::REPLICA);
        if flags != Flags::REPLICA {
            flags = Flags::PRIMARY;
        }
        let shard = self.random.id();
        let node = Node::new(entry.id, flags, entry.address.clone(), shard, self.now.mono_ms);
        if self.nodes.add(node).is_some() {
            self.changed();
        }
    }

    /// A node has another address: it is reached there from now on.
    pub(super) fn move_node(&mut self, ix: Ix, address: Address) {
        self.close_link_to(ix);
        let node = &mut self.nodes[ix];
        let (label, text) = (node.label(), format!("{}:{}", address.ip, address.port));
        node.address = address;
        node.flags.remove(Flags::NO_ADDRESS);
        self.notice(format!("Address updated for node {label}, now {text}"));
        self.changed_for_clients();
    }

    /// Unix time of a time of the clock that never goes back.
    pub(super) fn wall_ms(&self, mono_ms: u64) -> u64 {
        self.now.wall_ms.saturating_sub(self.now.mono_ms.saturating_sub(mono_ms))
    }
}

/// Whether a node can be reached there, as far as can be seen; nothing else gets into the file of nodes.
pub(super) fn is_address(address: &Address) -> bool {
    is_ip(&address.ip) && address.bus_port != 0
}

/// Whether it may be an IP address, or a host name in the place of one.
pub(super) fn is_ip(ip: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b".:-_%".contains(&byte);
    !ip.is_empty() && ip.len() <= IP_LEN_MAX && ip.bytes().all(is_letter)
}

fn is_elsewhere(known: &Address, told: &Address) -> bool {
    (&known.ip, known.port, known.bus_port) != (&told.ip, told.port, told.bus_port)
}

//! Messages on their way out.

use std::sync::Arc;

use super::Cluster;
use super::actions::{Action, LinkId};
use super::nodes::{Ix, MYSELF};
use crate::message::{Body, Greeting, Message, MessageFlags};
use crate::node::{Flags, NodeId};

/// Nodes that get no broadcast.
const NO_RECEIVERS: Flags = Flags::MYSELF.union(Flags::HANDSHAKE);

impl Cluster {
    /// Sends one message over links.
    pub(super) fn send(&mut self, links: Vec<LinkId>, body: Body) {
        self.send_flagged(links, body, MessageFlags::empty());
    }

    pub(super) fn send_flagged(&mut self, links: Vec<LinkId>, body: Body, flags: MessageFlags) {
        if links.is_empty() {
            return;
        }
        let mut header = self.header();
        header.message_flags |= flags;
        self.stats.sent.add(body.kind(), links.len() as u64);
        self.queue.push(Action::Send { links, message: Arc::new(Message { header, body }) });
    }

    /// Sends a message to a node, if it is connected.
    pub(super) fn send_to(&mut self, ix: Ix, body: Body) {
        self.send(self.link_to(ix).into_iter().collect(), body);
    }

    /// Pings a node, or asks it in. It has to answer from now on.
    pub(super) fn send_greeting(&mut self, ix: Ix, greeting: Greeting) {
        let Some(link) = self.link_to(ix) else { return };
        self.greet_over(link, Some(ix), greeting);
        if greeting != Greeting::Pong {
            self.note_ping(ix, link);
        }
        if greeting == Greeting::Ping {
            self.nodes[ix].ping_sent_ms = Some(self.now.mono_ms);
        }
    }

    /// Sends gossip over a link; `receiver`: who is at its other end, if that is known.
    pub(super) fn greet_over(&mut self, link: LinkId, receiver: Option<Ix>, greeting: Greeting) {
        let gossip = self.gossip_for(receiver);
        let takes = receiver.is_some_and(|ix| self.nodes[ix].has(Flags::EXTENSIONS));
        let extensions = if takes { self.extensions() } else { Vec::new() };
        self.send(vec![link], Body::Greeting { greeting, gossip, extensions });
    }

    /// The links to all nodes that are connected.
    pub(super) fn links_to_all(&self) -> Vec<LinkId> {
        self.receivers(|_| true).into_iter().filter_map(|ix| self.link_to(ix)).collect()
    }

    fn receivers(&self, is_wanted: impl Fn(Ix) -> bool) -> Vec<Ix> {
        let is_receiver = |ix: &Ix| !self.nodes[*ix].has(NO_RECEIVERS) && is_wanted(*ix);
        self.nodes.iter().map(|(ix, _)| ix).filter(is_receiver).collect()
    }

    /// Sends a message to all nodes that are connected.
    pub(super) fn broadcast(&mut self, body: Body, flags: MessageFlags) {
        self.send_flagged(self.links_to_all(), body, flags);
    }

    /// Tells all nodes what this one is now.
    pub(super) fn broadcast_pong(&mut self) {
        self.pong(self.receivers(|_| true));
    }

    /// Tells the other replicas of this node's primary how far this one is.
    pub(super) fn pong_siblings(&mut self) {
        let Some(primary) = self.nodes[MYSELF].primary else { return };
        self.pong(self.receivers(|ix| self.nodes[ix].is_replica_of(primary)));
    }

    pub(super) fn pong(&mut self, receivers: Vec<Ix>) {
        receivers.into_iter().for_each(|ix| self.send_greeting(ix, Greeting::Pong));
    }

    /// The links to the other nodes of this node's shard.
    pub(super) fn links_to_shard(&self) -> Vec<LinkId> {
        let myself = &self.nodes[MYSELF];
        let primary: NodeId = myself.primary.unwrap_or(myself.id);
        let is_mate = |ix: Ix| {
            let node = &self.nodes[ix];
            node.id == primary || node.is_replica_of(primary)
        };
        self.receivers(is_mate).into_iter().filter_map(|ix| self.link_to(ix)).collect()
    }
}

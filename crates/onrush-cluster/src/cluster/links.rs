//! Connections between nodes: each node connects to every other one, so there are two between two nodes.

use std::collections::HashMap;

use super::Cluster;
use super::actions::{Action, Host, LinkId, Now};
use super::commands::Done;
use super::nodes::{Ix, MYSELF};
use crate::message::Greeting;
use crate::node::Flags;

/// Connections from others, at most.
pub const INBOUND_LINKS_MAX: usize = 16_384;

/// A connection.
#[derive(Default)]
pub(super) struct Link {
    /// The node at its other end, if it is known.
    pub(super) node: Option<Ix>,
    pub(super) is_outgoing: bool,
    pub(super) is_up: bool,
    pub(super) created_ms: u64,
    /// When something came on it last.
    pub(super) data_received_ms: u64,
    /// The other end's address.
    pub(super) peer_ip: String,
    /// This node's address on it.
    pub(super) local_ip: String,
    /// Pings that were sent on it, and answers to them.
    pub(super) pings: u64,
    pub(super) pongs: u64,
}

/// All of them.
pub(super) struct Links {
    all: HashMap<LinkId, Link>,
    next: u64,
    inbound: usize,
}

impl Links {
    pub(super) fn new() -> Self {
        Self { all: HashMap::new(), next: 1, inbound: 0 }
    }

    pub(super) fn get(&self, id: LinkId) -> Option<&Link> {
        self.all.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: LinkId) -> Option<&mut Link> {
        self.all.get_mut(&id)
    }

    fn add(&mut self, link: Link) -> LinkId {
        let id = LinkId(self.next);
        self.next += 1;
        self.inbound += usize::from(!link.is_outgoing);
        self.all.insert(id, link);
        id
    }

    fn remove(&mut self, id: LinkId) -> Option<Link> {
        let link = self.all.remove(&id)?;
        self.inbound -= usize::from(!link.is_outgoing);
        Some(link)
    }
}

impl Cluster {
    /// A link that was asked for is connected (and encrypted, if it is to be).
    pub fn connected(&mut self, id: LinkId, now: Now, host: &dyn Host) {
        self.begin_with(now, host);
        let Some(link) = self.links.get_mut(id).filter(|link| link.is_outgoing && !link.is_up) else { return };
        link.is_up = true;
        if let Some(ix) = link.node {
            self.greet(ix);
        }
        self.end(Some(host));
    }

    /// A link has ended, or could not be connected.
    pub fn closed(&mut self, id: LinkId, now: Now) {
        self.begin(now);
        self.forget_link(id);
        self.end(None);
    }

    /// Another node has connected: its address, and that of this node as it is seen on this connection. Returns the new
    /// link; none if there are too many.
    pub fn accepted(&mut self, peer_ip: &str, local_ip: &str, now: Now) -> Option<LinkId> {
        self.begin(now);
        if self.links.inbound >= INBOUND_LINKS_MAX {
            return None;
        }
        let (peer_ip, local_ip) = (peer_ip.to_owned(), local_ip.to_owned());
        let created_ms = self.now.mono_ms;
        let link = Link { is_up: true, created_ms, data_received_ms: created_ms, peer_ip, local_ip, ..Link::default() };
        Some(self.links.add(link))
    }

    /// The first message on a link. A ping that is without an answer since an earlier link stays so.
    fn greet(&mut self, ix: Ix) {
        let before = self.nodes[ix].ping_sent_ms;
        let greeting = if self.nodes[ix].has(Flags::MEET) { Greeting::Meet } else { Greeting::Ping };
        self.send_greeting(ix, greeting);
        let node = &mut self.nodes[ix];
        node.ping_sent_ms = before.or(node.ping_sent_ms);
        node.flags.remove(Flags::MEET);
    }

    /// Connects to a node. The time until it must answer begins now, in case that no ping can ever be sent.
    pub(super) fn connect(&mut self, ix: Ix) {
        let created_ms = self.now.mono_ms;
        let node = &mut self.nodes[ix];
        let (ip, bus_port) = (node.address.ip.clone(), node.address.bus_port);
        let peer_ip = ip.clone();
        let link = self.links.add(Link {
            node: Some(ix),
            is_outgoing: true,
            created_ms,
            data_received_ms: created_ms,
            peer_ip,
            ..Link::default()
        });
        node.link = Some(link);
        node.ping_sent_ms.get_or_insert(created_ms);
        self.queue.push(Action::Connect { link, node: node.id, ip, bus_port });
    }

    /// DEBUG CLUSTERLINK KILL: ends the link to a node, from it, or both (`to`, `from`, `all`), as a fault of the network does.
    ///
    /// # Errors
    /// The node is not known, or the direction is none of these.
    pub fn kill_links(&mut self, id: &str, direction: &str, now: Now) -> Done {
        self.begin(now);
        let ix = self.known(id)?;
        let (to, from) = (self.nodes[ix].link, self.nodes[ix].inbound);
        let ended = match direction.to_ascii_lowercase().as_str() {
            "to" => [to, None],
            "from" => [from, None],
            "all" => [to, from],
            _ => return Err(format!("ERR Unknown direction {direction}")),
        };
        ended.into_iter().flatten().for_each(|link| self.close_link(link));
        self.end(None);
        Ok(())
    }

    /// Closes a link.
    pub(super) fn close_link(&mut self, id: LinkId) {
        if self.forget_link(id) {
            self.queue.push(Action::Close(id));
        }
    }

    /// Closes the link to a node.
    pub(super) fn close_link_to(&mut self, ix: Ix) {
        if let Some(id) = self.nodes[ix].link {
            self.close_link(id);
        }
    }

    fn forget_link(&mut self, id: LinkId) -> bool {
        let Some(link) = self.links.remove(id) else { return false };
        if let Some(ix) = link.node {
            let node = &mut self.nodes[ix];
            if link.is_outgoing {
                node.link = None;
                node.ping_sent_ms.get_or_insert(self.now.mono_ms);
            } else if node.inbound == Some(id) {
                node.inbound = None;
            }
        }
        true
    }

    /// Notes who is at the other end of a link from it. An older one is of no use any more.
    pub(super) fn note_inbound(&mut self, id: LinkId, ix: Ix) {
        let Some(link) = self.links.get_mut(id).filter(|link| !link.is_outgoing && ix != MYSELF) else { return };
        let before = link.node.replace(ix);
        if let Some(before) = before.filter(|before| *before != ix) {
            self.nodes[before].inbound = None;
        }
        if let Some(older) = self.nodes[ix].inbound.replace(id).filter(|older| *older != id) {
            self.close_link(older);
            self.nodes[ix].inbound = Some(id);
        }
    }

    /// Whether it is known who is at the other end of a link.
    pub fn knows_other_end(&self, id: LinkId) -> bool {
        self.links.get(id).is_some_and(|link| link.node.is_some())
    }

    /// The link to a node, if it is connected.
    pub(super) fn link_to(&self, ix: Ix) -> Option<LinkId> {
        self.nodes[ix].link.filter(|id| self.links.get(*id).is_some_and(|link| link.is_up))
    }
}

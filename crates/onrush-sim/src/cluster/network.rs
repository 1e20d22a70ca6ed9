//! Connections: what is sent arrives in order, late, or never.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use onrush_cluster::cluster::LinkId;
use onrush_cluster::message::Message;
use onrush_store::Random;

/// The name of a connection.
pub type ConnId = u64;

/// What is on its way.
pub enum Item {
    /// A message.
    Message(Arc<Message>),
    /// The end of the connection.
    End,
}

/// One end of a connection.
#[derive(Clone, Copy)]
pub struct Socket {
    /// Its node.
    pub node: usize,
    /// Which run of the node it belongs to.
    pub run: u32,
    /// Its name there; none, if it has not been accepted or is closed.
    pub link: Option<LinkId>,
}

/// A connection: who has connected first.
pub struct Conn {
    /// Its ends.
    pub sockets: [Socket; 2],
    /// What is on its way to each.
    pub queues: [VecDeque<Item>; 2],
    /// When the last of it arrives.
    pub last_ms: [u64; 2],
}

/// What is between two nodes in one direction.
#[derive(Clone, Copy, Default)]
struct Way {
    blocked_until_ms: u64,
    slow_until_ms: u64,
    slower_ms: u64,
}

/// The network.
pub struct Network {
    nodes: usize,
    ways: Vec<Way>,
    latency_ms: (u64, u64),
    /// All connections.
    pub conns: HashMap<ConnId, Conn>,
    next: ConnId,
}

impl Network {
    /// One without faults.
    pub fn new(nodes: usize, latency_ms: (u64, u64)) -> Self {
        Self { nodes, ways: vec![Way::default(); nodes * nodes], latency_ms, conns: HashMap::new(), next: 0 }
    }

    /// A new connection, which has not arrived yet.
    pub fn open(&mut self, from: Socket, to: usize) -> ConnId {
        self.next += 1;
        let to = Socket { node: to, run: 0, link: None };
        let conn = Conn { sockets: [from, to], queues: Default::default(), last_ms: [0; 2] };
        self.conns.insert(self.next, conn);
        self.next
    }

    /// Nothing gets from one node to another until then.
    pub fn block(&mut self, from: usize, to: usize, until_ms: u64) {
        let way = &mut self.ways[from * self.nodes + to];
        way.blocked_until_ms = way.blocked_until_ms.max(until_ms);
    }

    /// What is sent from one node to another gets there again.
    pub fn unblock(&mut self, from: usize, to: usize) {
        self.ways[from * self.nodes + to] = Way::default();
    }

    /// Everything takes longer from one node to another until then.
    pub fn slow(&mut self, from: usize, to: usize, slower_ms: u64, until_ms: u64) {
        let way = &mut self.ways[from * self.nodes + to];
        (way.slower_ms, way.slow_until_ms) = (slower_ms, until_ms);
    }

    /// Ends all that.
    pub fn heal(&mut self) {
        self.ways.fill(Way::default());
    }

    /// Until when nothing gets from one node to another, if that is so now.
    pub fn blocked(&self, from: usize, to: usize, now_ms: u64) -> Option<u64> {
        let until_ms = self.ways[from * self.nodes + to].blocked_until_ms;
        (until_ms > now_ms).then_some(until_ms)
    }

    /// Whether two nodes reach each other.
    pub fn reach(&self, one: usize, other: usize, now_ms: u64) -> bool {
        self.blocked(one, other, now_ms).is_none() && self.blocked(other, one, now_ms).is_none()
    }

    /// When something arrives that goes now.
    pub fn arrival_ms(&self, from: usize, to: usize, now_ms: u64, random: &mut Random) -> u64 {
        let way = &self.ways[from * self.nodes + to];
        let (least_ms, most_ms) = self.latency_ms;
        let slower_ms = if way.slow_until_ms > now_ms { way.slower_ms } else { 0 };
        now_ms + slower_ms + least_ms + random.below((most_ms - least_ms + 1) as usize) as u64
    }
}

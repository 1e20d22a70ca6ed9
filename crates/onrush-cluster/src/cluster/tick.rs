//! What is due by time.

use super::Cluster;
use super::actions::{Host, Now};
use super::links::Link;
use super::nodes::Ix;
use crate::message::Greeting;
use crate::node::Flags;

/// Time between ticks.
pub const TICK_MS: u64 = 100;

/// Every second one node at random is pinged: of so many draws the one whose last pong is oldest.
const RANDOM_PING_MS: u64 = 1_000;
const RANDOM_DRAWS: usize = 5;

/// Nodes that are not pinged.
const NOT_PINGED: Flags = Flags::MYSELF.union(Flags::NO_ADDRESS).union(Flags::HANDSHAKE);

/// What ticks keep.
#[derive(Default)]
pub(super) struct Ticking {
    last_ms: Option<u64>,
    random_ping_ms: u64,
    pub(super) is_hurried: bool,
    /// Nodes that do not answer, but have not failed.
    pub(super) maybe_failed: usize,
}

/// After so many node timeouts the node that a slot was taken over from has heard of it, or has failed.
const TAKEN_TIMEOUTS: u64 = 4;

impl Cluster {
    /// When `tick` is due, by the clock that never goes back.
    pub fn next_tick_ms(&self) -> u64 {
        match self.ticking.last_ms {
            Some(last_ms) if !self.ticking.is_hurried => last_ms + TICK_MS,
            _ => 0,
        }
    }

    /// What is due by time. To be called ten times a second, after messages that are there already. O(nodes).
    pub fn tick(&mut self, now: Now, host: &dyn Host) {
        self.begin_with(now, host);
        self.note_stall();
        self.expire_bans();
        self.keep_links();
        self.ping_at_random();
        self.nodes.places().for_each(|ix| self.watch(ix));
        self.tell_paused_offset();
        self.migrate_replica();
        self.vote_late();
        self.forget_taken();
        self.defend();
        self.state.must_update |= !self.state.is_up || self.slots.unknown_owners() > 0;
        self.end(Some(host));
    }

    /// Who has lost slots to this node key by key has heard of it, or has failed.
    fn forget_taken(&mut self) {
        let time_ms = self.options.node_timeout_ms.saturating_mul(TAKEN_TIMEOUTS);
        if let Some(since_ms) = self.now.mono_ms.checked_sub(time_ms) {
            self.slots.forget_taken_since(since_ms);
        }
    }

    /// A node that has not run for long has no idea whether others have answered: their time begins again.
    fn note_stall(&mut self) {
        let now_ms = self.now.mono_ms;
        let last_ms = self.ticking.last_ms.replace(now_ms).unwrap_or(now_ms);
        self.ticking.is_hurried = false;
        if now_ms - last_ms <= self.options.node_timeout_ms / 2 {
            return;
        }
        self.note_stalled();
        for node in self.nodes.iter_mut() {
            node.data_received_ms = now_ms;
            node.ping_sent_ms = node.ping_sent_ms.map(|_| now_ms);
        }
    }

    /// Whether a stall has not been noted yet.
    pub(super) fn is_stalled(&self) -> bool {
        let limit_ms = self.options.node_timeout_ms / 2;
        self.ticking.last_ms.is_some_and(|last_ms| self.now.mono_ms.saturating_sub(last_ms) > limit_ms)
    }

    /// Connects to nodes that have no link, and gives up handshakes that take too long.
    fn keep_links(&mut self) {
        self.ticking.maybe_failed = self.nodes.iter().filter(|(_, node)| node.has(Flags::MAYBE_FAILED)).count();
        let (now_ms, timeout_ms) = (self.now.mono_ms, self.handshake_timeout_ms());
        for ix in self.nodes.places() {
            let Some(node) = self.nodes.get(ix) else { continue };
            if node.has(Flags::MYSELF | Flags::NO_ADDRESS) {
                continue;
            }
            if node.has(Flags::HANDSHAKE) && now_ms - node.created_ms > timeout_ms {
                self.remove_node(ix);
            } else if node.link.is_none() {
                self.connect(ix);
            }
        }
    }

    fn ping_at_random(&mut self) {
        if self.now.mono_ms < self.ticking.random_ping_ms {
            return;
        }
        self.ticking.random_ping_ms = self.now.mono_ms + RANDOM_PING_MS;
        let drawn: Vec<Ix> = (0..RANDOM_DRAWS).filter_map(|_| self.nodes.random(&mut self.random)).collect();
        let can_ping = |ix: &Ix| {
            let node = &self.nodes[*ix];
            !node.has(NOT_PINGED) && node.ping_sent_ms.is_none() && self.link_to(*ix).is_some()
        };
        let oldest = drawn.into_iter().filter(can_ping).min_by_key(|ix| self.nodes[*ix].pong_received_ms);
        if let Some(ix) = oldest {
            self.send_greeting(ix, Greeting::Ping);
        }
    }

    /// Pings a node that was silent for long, and takes it for failed if it does not answer.
    fn watch(&mut self, ix: Ix) {
        let Some(node) = self.nodes.get(ix).filter(|node| !node.has(NOT_PINGED)) else { return };
        let timeout_ms = self.options.node_timeout_ms;
        let now_ms = self.now.mono_ms;
        let since = |time_ms: u64| now_ms - time_ms;
        let data_ms = since(node.data_received_ms);
        let ping_ms = node.ping_sent_ms.map(since);
        let is_late = |ms: u64| ms > timeout_ms / 2;
        let is_old = |link: &Link| since(link.created_ms) > timeout_ms && is_late(since(link.data_received_ms));
        if ping_ms.is_some_and(is_late) && node.link.and_then(|link| self.links.get(link)).is_some_and(is_old) {
            // The connection may be broken without either end knowing, even if the node is heard on the other one.
            self.close_link_to(ix);
        }
        match ping_ms {
            None if self.nodes[ix].pong_received_ms.map(since).is_none_or(is_late) => {
                self.send_greeting(ix, Greeting::Ping);
            }
            Some(ping_ms) if ping_ms.min(data_ms) > timeout_ms => self.suspect(ix),
            _ => {}
        }
    }

    fn suspect(&mut self, ix: Ix) {
        if self.nodes[ix].is_silent() {
            return;
        }
        let label = self.nodes[ix].label();
        self.debug(format!("*** NODE {label} possibly failing"));
        self.nodes[ix].flags.insert(Flags::MAYBE_FAILED);
        self.ticking.maybe_failed += 1;
        self.changed();
        // A lone primary with slots is a majority.
        self.decide_failure(ix);
    }
}

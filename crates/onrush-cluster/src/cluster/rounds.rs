//! Rounds of pings: who has heard what this node is now.
//!
//! Each ping has one answer, and they come in the order of the pings of a link. A node answers when it has read the header, so
//! who has answered a ping of a round knows the epochs of its beginning, and has taken what was claimed then or knows better.

use super::Cluster;
use super::actions::LinkId;
use super::nodes::{Ix, MYSELF};
use crate::message::Greeting;

/// The ping whose answer shows that a node has heard of a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Awaited {
    link: LinkId,
    /// The count of pings on the link, with this one.
    nth: u64,
    round: u64,
}

impl Cluster {
    /// Begins a round: all that have a vote are pinged at once, later ones with the next ping that they get. O(nodes).
    pub(super) fn begin_round(&mut self) -> u64 {
        self.round += 1;
        let others = |ix: &Ix| *ix != MYSELF && self.nodes[*ix].is_voter();
        let voters: Vec<Ix> = self.nodes.iter().map(|(ix, _)| ix).filter(others).collect();
        for ix in voters {
            // A ping that is without an answer since earlier stays so.
            let before = self.nodes[ix].ping_sent_ms;
            self.send_greeting(ix, Greeting::Ping);
            let node = &mut self.nodes[ix];
            node.ping_sent_ms = before.or(node.ping_sent_ms);
        }
        self.round
    }

    /// Whether a majority has heard of a round. O(nodes).
    pub(super) fn has_heard(&self, round: u64) -> bool {
        let has_heard = |ix: Ix| ix == MYSELF || self.nodes[ix].heard_round >= round;
        let heard = self.nodes.iter().filter(|(ix, node)| node.is_voter() && has_heard(*ix)).count();
        heard >= self.state.quorum
    }

    /// A ping goes to a node.
    pub(super) fn note_ping(&mut self, ix: Ix, link: LinkId) {
        let Some(at) = self.links.get_mut(link) else { return };
        at.pings += 1;
        let (nth, round) = (at.pings, self.round);
        let awaited = &mut self.nodes[ix].awaited;
        if awaited.is_none_or(|awaited| awaited.link != link || awaited.round < round) {
            *awaited = Some(Awaited { link, nth, round });
        }
    }

    /// An answer has come on a link of this node's.
    pub(super) fn note_pong(&mut self, link: LinkId) {
        let Some(at) = self.links.get_mut(link).filter(|at| at.is_outgoing) else { return };
        at.pongs += 1;
        let (pongs, Some(ix)) = (at.pongs, at.node) else { return };
        let node = &mut self.nodes[ix];
        if let Some(awaited) = node.awaited.filter(|awaited| awaited.link == link && pongs >= awaited.nth) {
            node.heard_round = awaited.round;
        }
    }
}

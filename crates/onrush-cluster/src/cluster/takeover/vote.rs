//! Votes: a primary with slots lets a replica of a failed primary take over.

use crate::cluster::Cluster;
use crate::cluster::commands::refuse_if;
use crate::cluster::nodes::{Ix, MYSELF};
use crate::message::{Body, Header, MessageFlags};
use crate::node::{Flags, NodeId};

/// After a vote a primary does not vote for another replica of the same shard for so many node timeouts.
pub(in crate::cluster) const VOTE_TIMEOUTS: u64 = 2;

/// What keeps a primary from voting while another node may vote for its shard.
#[derive(Default)]
pub(in crate::cluster) struct Predecessor {
    /// The primary whose place this one has taken, and when, until that one has said that it votes no more for this shard.
    pub(in crate::cluster) node: Option<(NodeId, u64)>,
    /// The latest request of a replica that waits for that.
    request: Option<Box<Header>>,
}

impl Predecessor {
    /// Its place is taken now.
    pub(in crate::cluster) fn of(node: Option<NodeId>, now_ms: u64) -> Self {
        Self { node: node.map(|id| (id, now_ms)), request: None }
    }

    /// A node is known no more.
    pub(in crate::cluster) fn forget(&mut self, id: NodeId) {
        self.node.take_if(|(predecessor, _)| *predecessor == id);
    }
}

impl Cluster {
    /// A replica wants to take over.
    pub(in crate::cluster) fn hear_request(&mut self, sender: Ix, header: &Header) {
        // Others may vote in it, whatever this node does.
        self.asked_epoch = self.asked_epoch.max(header.current_epoch);
        if !self.nodes[MYSELF].is_voter() {
            return;
        }
        let label = self.nodes[sender].label();
        match self.may_vote(sender, header) {
            Ok(_) if self.may_predecessor_vote() => {
                self.predecessor.request = Some(Box::new(header.clone()));
                self.notice(format!(
                    "Failover auth for {label} waits: the one whose place I have taken may vote as well"
                ));
            }
            Ok(primary) => self.vote(sender, primary),
            Err(why) => self.warning(format!("Failover auth denied to {label}: {why}")),
        }
    }

    /// Votes for the replica that has waited for it, if it may by now.
    pub(in crate::cluster) fn vote_late(&mut self) {
        if self.predecessor.request.is_none() || self.may_predecessor_vote() {
            return;
        }
        if let Some(header) = self.predecessor.request.take()
            && let Some(sender) = self.find(header.sender)
        {
            self.hear_request(sender, &header);
        }
    }

    fn vote(&mut self, sender: Ix, primary: Ix) {
        let epoch = self.current_epoch;
        self.nodes[primary].voted_ms = Some(self.now.mono_ms);
        self.last_vote_epoch = epoch;
        self.save(true);
        self.send_to(sender, Body::AuthAck);
        let label = self.nodes[sender].label();
        self.notice(format!("Failover auth granted to {label} for epoch {epoch}"));
    }

    /// The primary whose place this one has taken votes until it hears of that: the shard must not vote twice in an epoch. So
    /// this one votes when that one has said that it is no primary with slots any more, or only of others, for which it has a
    /// vote of its own; and in later epochs than that one may have voted in.
    pub(in crate::cluster) fn hear_predecessor(&mut self, header: &Header) {
        if self.predecessor.node.is_none_or(|(id, _)| id != header.sender) {
            return;
        }
        let myself = &self.nodes[MYSELF];
        let is_beside = || {
            let has_heard = header.current_epoch >= myself.config_epoch;
            has_heard && myself.slot_count > 0 && !myself.slots.iter().any(|slot| header.slots.has(slot))
        };
        if header.primary.is_some() || header.slots.is_empty() || is_beside() {
            self.predecessor.node = None;
            self.save(false);
            // An epoch that is too high to go to is no epoch that one votes in.
            let voted = header.current_epoch.min(self.current_epoch);
            if voted > self.last_vote_epoch {
                self.last_vote_epoch = voted;
                self.save(true);
            }
        }
    }

    /// One that has failed may be back, and vote, before it hears; but not for long. One that nobody knows does not vote.
    fn may_predecessor_vote(&self) -> bool {
        let pause_ms = self.options.node_timeout_ms.saturating_mul(VOTE_TIMEOUTS);
        self.predecessor.node.is_some_and(|(id, since_ms)| {
            let is_fresh = self.now.mono_ms - since_ms < pause_ms;
            let is_gone = |ix: Ix| self.nodes[ix].flags.intersects(Flags::FAILED | Flags::NO_ADDRESS);
            self.find(id).is_some_and(|ix| is_fresh || !is_gone(ix))
        })
    }

    /// The primary whose place the sender may take, or why it may not.
    fn may_vote(&self, sender: Ix, header: &Header) -> Result<Ix, String> {
        let (epoch, own) = (header.current_epoch, self.current_epoch);
        if epoch < own {
            return Err(format!("reqEpoch ({epoch}) < curEpoch({own})"));
        }
        if self.last_vote_epoch >= own {
            return Err(format!("already voted for epoch {own}"));
        }
        let primary = self.failed_primary(sender, header)?;
        self.may_vote_again(primary)?;
        self.has_newest_slots(header)?;
        Ok(primary)
    }

    fn failed_primary(&self, sender: Ix, header: &Header) -> Result<Ix, String> {
        let is_forced = header.message_flags.contains(MessageFlags::FORCE_ACK);
        refuse_if(self.nodes[sender].is_primary(), "it is a master node")?;
        let primary = self.nodes[sender].primary.and_then(|id| self.find(id)).ok_or("I don't know its master")?;
        refuse_if(!is_forced && !self.nodes[primary].has(Flags::FAILED), "its master is up")?;
        Ok(primary)
    }

    fn may_vote_again(&self, primary: Ix) -> Result<(), String> {
        let pause_ms = self.options.node_timeout_ms.saturating_mul(VOTE_TIMEOUTS);
        let Some(voted_ms) = self.nodes[primary].voted_ms else { return Ok(()) };
        let since_ms = self.now.mono_ms - voted_ms;
        match since_ms < pause_ms {
            true => Err(format!("can't vote about this master before {} milliseconds", pause_ms - since_ms)),
            false => Ok(()),
        }
    }

    /// The slots that the sender would have may not have gone to others with higher epochs. An owner that does not claim a slot
    /// any more has no say.
    fn has_newest_slots(&self, header: &Header) -> Result<(), String> {
        for slot in header.slots.iter().filter(|slot| !self.slots.unclaimed.has(*slot)) {
            let epoch = self.slots.owner(slot).map_or(0, |ix| self.nodes[ix].config_epoch);
            if epoch > header.config_epoch {
                return Err(format!("slot {slot} epoch ({epoch}) > reqEpoch ({})", header.config_epoch));
            }
        }
        Ok(())
    }
}

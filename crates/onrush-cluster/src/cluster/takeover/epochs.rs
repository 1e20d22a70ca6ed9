//! Epochs: whose claim to a slot is the newest.

use crate::cluster::Cluster;
use crate::cluster::nodes::{Ix, MYSELF};
use crate::cluster::receive::{EPOCH_MAX, EPOCH_TAKEN_MAX};
use crate::message::{Body, Header};
use crate::node::NodeId;
use crate::slots::SlotSet;

impl Cluster {
    /// Goes to an epoch that a message tells, or so far as one message may bring this node.
    pub(in crate::cluster) fn approach(&mut self, told: u64) {
        let epoch = told.min(self.reach());
        if epoch > self.current_epoch {
            self.current_epoch = epoch;
            // Who has told it may count on that, also if this process is killed.
            self.save(false);
        }
    }

    /// The highest epoch that one message may bring this node to.
    pub(in crate::cluster) fn reach(&self) -> u64 {
        EPOCH_TAKEN_MAX.max(self.current_epoch.saturating_add(1)).min(EPOCH_MAX)
    }

    /// Whether this node is at the epochs that a message tells. What the message says of slots and elections counts only then:
    /// an epoch above this node's own would be the higher one in each comparison, and go on to others.
    pub(in crate::cluster) fn has_reached(&self, header: &Header) -> bool {
        header.current_epoch.max(header.config_epoch) <= self.current_epoch
    }

    /// What a node says of its slots, or of its primary's. O(slots) only if that is something new.
    pub(in crate::cluster) fn hear_slots(&mut self, ix: Ix, header: &Header) {
        let sender = &self.nodes[ix];
        let Some(owner) = header.primary.map_or(Some(ix), |id| self.find(id)) else { return };
        let is_news = self.nodes[owner].slots != header.slots;
        let is_old = self.is_older_than_told(sender.id, header.config_epoch);
        let sender_is_primary = sender.is_primary();
        if sender_is_primary && (is_news || !sender.claims_all) && !is_old {
            self.claim(ix, header.config_epoch, &header.slots);
        }
        if sender_is_primary {
            self.note_given_up(ix, &header.slots);
        }
        if is_news {
            self.correct(ix, owner, header);
        }
        self.defend();
        self.resolve_collision(ix, header.config_epoch);
    }

    /// Tells a node that takes slots for its own, or for its primary's, of an owner with a higher epoch.
    fn correct(&mut self, ix: Ix, owner: Ix, header: &Header) {
        let is_old = |slot| {
            let other = self.slots.owner(slot).filter(|other| *other != ix && !self.slots.unclaimed.has(slot))?;
            (self.nodes[other].config_epoch > header.config_epoch).then_some(other)
        };
        let winner = header.slots.difference(&self.nodes[owner].slots).find_map(is_old);
        let Some(winner) = winner.map(|winner| &self.nodes[winner]) else { return };
        // What it does not claim any more has gone to somebody whom this node has not heard, and who might believe this.
        let slots = winner.slots.difference(&self.slots.unclaimed).collect();
        let body = Body::Update { config_epoch: winner.config_epoch, id: winner.id, slots };
        self.verbose(format!("Node {} has old slots configuration, sending an UPDATE message", header.sender));
        self.send_to(ix, body);
    }

    /// Another node says whose some slots are.
    pub(in crate::cluster) fn hear_update(&mut self, id: NodeId, epoch: u64, slots: &SlotSet) {
        let Some(ix) = self.find(id).filter(|ix| *ix != MYSELF) else { return };
        // The sender tells its own epoch in the header, and that is not below any that it has heard of.
        if epoch > self.current_epoch.max(EPOCH_TAKEN_MAX) {
            return;
        }
        if self.nodes[ix].config_epoch >= epoch {
            return;
        }
        self.make_primary(ix);
        self.nodes[ix].config_epoch = epoch;
        self.current_epoch = self.current_epoch.max(epoch);
        self.save(true);
        self.claim(ix, epoch, slots);
        self.defend();
    }

    /// Of two primaries with the same epoch the one with the smaller name takes a new one.
    fn resolve_collision(&mut self, ix: Ix, epoch: u64) {
        let (sender, myself) = (&self.nodes[ix], &self.nodes[MYSELF]);
        let collides = sender.is_primary() && myself.is_primary() && epoch == myself.config_epoch;
        // It is looked at again with the next message.
        if !collides || sender.id <= myself.id || self.check_new_epoch().is_err() {
            return;
        }
        let label = sender.label();
        let Some(epoch) = self.take_epoch() else { return };
        self.verbose(format!("configEpoch collision with node {label}. Updating my configEpoch to {epoch}"));
    }

    /// This node takes a new epoch without asking anybody. `None`: there is none above [`EPOCH_MAX`], which only a file that
    /// was written by hand gets to.
    pub(in crate::cluster) fn take_epoch(&mut self) -> Option<u64> {
        if self.current_epoch >= EPOCH_MAX {
            self.warning("There is no higher configEpoch");
            return None;
        }
        self.current_epoch += 1;
        self.nodes[MYSELF].config_epoch = self.current_epoch;
        self.save(true);
        Some(self.current_epoch)
    }

    /// The same, unless its epoch is the highest that there is. Returns a new one.
    pub(in crate::cluster) fn bump_config_epoch(&mut self) -> Option<u64> {
        let others = self.nodes.iter().map(|(_, node)| node.config_epoch).max().unwrap_or(0);
        let highest = others.max(self.current_epoch);
        let own = self.nodes[MYSELF].config_epoch;
        if own != 0 && own == highest {
            return None;
        }
        self.current_epoch = highest;
        let epoch = self.take_epoch()?;
        self.warning(format!("New configEpoch set to {epoch}"));
        Some(epoch)
    }
}

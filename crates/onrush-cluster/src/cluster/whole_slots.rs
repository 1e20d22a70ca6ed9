//! Slots that move as a whole (CLUSTER MIGRATESLOTS): the data goes over a connection of its own; the state says who may
//! begin that, and whose the slots are in the end.
//!
//! The target claims the slots with an epoch that wins over the source's. The source gives them away when it is told that
//! this is done; others learn it as of any change of owners.

use super::Cluster;
use super::actions::{Host, Now};
use super::commands::Done;
use super::nodes::{Ix, MYSELF};
use super::receive::EPOCH_MAX;
use super::view::RouteNode;
use crate::node::Flags;

/// What a target says that knows of an epoch as high as the one that it is to take.
const EPOCH_TAKEN: &str = "TRYAGAIN The current epoch is already ";

/// The epoch that such an error names.
pub fn epoch_in(error: &str) -> Option<u64> {
    error.strip_prefix(EPOCH_TAKEN)?.parse().ok()
}

impl Cluster {
    /// Whether slots may go from here to a node. O(slots named).
    ///
    /// # Errors
    /// Why not.
    pub fn check_export(&self, slots: &[u16], target: &str) -> Done {
        self.check_is_primary()?;
        let ix = self.known(target)?;
        if ix == MYSELF {
            return Err("ERR Can't migrate slots to this node itself".to_owned());
        }
        self.check_reachable(ix)?;
        for slot in slots {
            if self.slots.owner(*slot) != Some(MYSELF) {
                return Err(format!("ERR I'm not the owner of hash slot {slot}"));
            }
            if self.slots.migrating.contains_key(slot) {
                return Err(format!("ERR Slot {slot} is under way by CLUSTER SETSLOT"));
            }
        }
        Ok(())
    }

    /// Slots are handed over from here on: the target may have them. This node takes no new epoch and does not forget the target
    /// until [`Cluster::end_hand_over`]; the caller has the new state saved. Returns the epoch by which the target is to claim
    /// them: this node knows of none as high. O(slots named).
    ///
    /// # Errors
    /// A replica takes over, which says that it has them. The target is unknown. There is no such epoch.
    pub fn begin_hand_over(&mut self, slots: &[u16], target: &str) -> Result<u64, String> {
        if self.manual.replica.is_some() {
            return Err("A replica of this node is taking over".to_owned());
        }
        if self.current_epoch >= EPOCH_MAX {
            return Err("There is no higher configEpoch".to_owned());
        }
        self.hands_over = Some(self.nodes[self.known(target)?].id);
        // They may go back to where they came from.
        slots.iter().for_each(|slot| self.slots.forget_taken(*slot));
        self.current_epoch += 1;
        self.save(false);
        Ok(self.current_epoch)
    }

    /// Another node says that there is an epoch as high as this.
    pub fn hear_epoch(&mut self, epoch: u64) {
        self.approach(epoch);
    }

    /// The target of a hand-over has not answered, and the slots are still this node's as far as it knows. This node keeps them by
    /// an epoch above the target's, also if that one comes back and has them. Clients must not go on before that is saved.
    /// `false`: this node has not been with a majority for long enough to have heard of a new owner. The cluster is then down here
    /// until the hand-over has ended.
    pub fn keep_slots(&mut self, now: Now, host: &dyn Host) -> bool {
        self.begin_with(now, host);
        if !self.is_settled() {
            self.set_state(false);
            self.end(Some(host));
            return false;
        }
        if self.take_epoch().is_some() {
            self.notice("configEpoch updated after a hand-over of slots that was not answered");
            self.changed();
            self.routes_changed();
            self.broadcast_pong();
        }
        self.end(Some(host));
        true
    }

    /// Whether it is open for a moment whose slots of this node are.
    pub fn is_handing_over(&self) -> bool {
        self.hands_over.is_some()
    }

    /// It is clear whose the slots are.
    pub fn end_hand_over(&mut self) {
        self.hands_over = None;
    }

    /// Whether slots may come here from a node. O(slots named).
    ///
    /// # Errors
    /// Why not.
    pub fn check_import(&self, slots: &[u16], source: &str) -> Done {
        self.check_is_primary()?;
        let ix = self.known(source)?;
        for slot in slots {
            if ix == MYSELF || self.slots.owner(*slot) != Some(ix) {
                return Err(format!("TRYAGAIN Slot {slot} is not the source's, as far as this node knows"));
            }
            if self.slots.importing.contains_key(slot) {
                return Err(format!("ERR Slot {slot} is under way by CLUSTER SETSLOT"));
            }
        }
        Ok(())
    }

    /// Takes slots over whose data has come: all are told, with the epoch that the source has given, which wins over its own.
    /// O(slots named + nodes).
    ///
    /// # Errors
    /// They are not the source's any more, or the epoch is too high. TRYAGAIN: this node hands slots over itself; with a new epoch
    /// it would claim them again. Or it knows of such a high epoch, and says which one ([`epoch_in`]).
    pub fn take_slots(&mut self, slots: &[u16], source: &str, epoch: u64, now: Now, host: &dyn Host) -> Done {
        self.begin_with(now, host);
        self.check_new_epoch()?;
        self.check_import(slots, source)?;
        if epoch > self.reach() {
            return Err(format!("ERR The source's epoch {epoch} is too high"));
        }
        if epoch <= self.current_epoch {
            return Err(format!("{EPOCH_TAKEN}{}", self.current_epoch));
        }
        // Always a new one: by it a replica knows that what the bus tells is newer than what it has of the stream. And none above
        // the source's: the source knows how to keep the slots if it hears nothing of this.
        (self.current_epoch, self.nodes[MYSELF].config_epoch) = (epoch, epoch);
        slots.iter().for_each(|slot| self.assign(*slot, Some(MYSELF)));
        self.notice(format!("configEpoch updated after importing {} slots", slots.len()));
        self.changed();
        self.save(true);
        self.broadcast_pong();
        self.end(Some(host));
        Ok(())
    }

    /// Gives slots away that their new owner has taken over; their keys go. Those that are another's by now stay so.
    /// If that one is known no more, they are nobody's until somebody says that it has them. O(slots named).
    pub fn give_slots(&mut self, slots: &[u16], target: &str, now: Now, host: &dyn Host) {
        let ix = self.known(target).ok();
        self.begin_with(now, host);
        let own: Vec<u16> = slots.iter().copied().filter(|slot| self.slots.owner(*slot) == Some(MYSELF)).collect();
        if !own.is_empty() {
            own.iter().for_each(|slot| self.assign(*slot, ix));
            self.changed();
            self.save(true);
            if let Some(ix) = ix {
                self.follow_new_owner(ix);
            }
            // A replica gets the data of its primary instead.
            if self.nodes[MYSELF].is_primary() {
                self.lost.extend(own);
            }
        }
        self.end(Some(host));
    }

    /// Whether a slot is another node's that answers.
    pub fn is_served_elsewhere(&self, slot: u16) -> bool {
        let owner = self.slots.owner(slot).filter(|ix| *ix != MYSELF);
        owner.is_some_and(|ix| !self.nodes[ix].flags.intersects(Flags::FAILED | Flags::MAYBE_FAILED))
    }

    /// Whether a slot comes here by CLUSTER SETSLOT.
    pub fn is_importing(&self, slot: u16) -> bool {
        self.slots.importing.contains_key(&slot)
    }

    /// Which of these slots are this node's. O(slots named).
    pub fn own_among(&self, slots: &[u16]) -> usize {
        slots.iter().filter(|slot| self.slots.owner(**slot) == Some(MYSELF)).count()
    }

    /// Which of these slots are a node's. O(slots named).
    pub fn count_of(&self, slots: &[u16], id: &str) -> usize {
        let Ok(ix) = self.known(id) else { return 0 };
        slots.iter().filter(|slot| self.slots.owner(**slot) == Some(ix)).count()
    }

    /// How many replicas of a node have not failed.
    pub fn usable_replicas(&self, id: &str) -> usize {
        let Ok(id) = id.parse() else { return 0 };
        self.replicas_of(id).filter(|ix| !self.nodes[*ix].has(Flags::FAILED)).count()
    }

    /// Where a node is reached.
    pub fn node_at(&self, id: &str) -> Option<RouteNode> {
        self.known(id).ok().map(|ix| self.route_node(&self.nodes[ix]))
    }

    fn check_is_primary(&self) -> Done {
        match self.nodes[MYSELF].is_replica() {
            true => Err("ERR This node is a replica: slots go from primaries to primaries".to_owned()),
            false => Ok(()),
        }
    }

    fn check_reachable(&self, ix: Ix) -> Done {
        let node = &self.nodes[ix];
        if !node.is_primary() {
            return Err("ERR Target node is not a master".to_owned());
        }
        if node.flags.intersects(Flags::FAILED | Flags::HANDSHAKE | Flags::NO_ADDRESS) {
            return Err("ERR Target node can't be reached".to_owned());
        }
        Ok(())
    }
}

//! Slots that move as a whole (CLUSTER MIGRATESLOTS): the data goes over a connection of its own; the state says who may
//! begin that, and whose the slots are in the end.
//!
//! The target claims the slots with an epoch that wins over the source's. The source gives them away when it is told that
//! this is done; others learn it as of any change of owners.

use super::Cluster;
use super::actions::{Host, Now};
use super::commands::{Done, refuse_if};
use super::nodes::{Ix, MYSELF};
use super::receive::EPOCH_MAX;
use super::view::RouteNode;
use crate::node::{Flags, NodeId};

/// After a majority has answered, one of it may still be telling this node of an owner.
const KEEP_DELAY_MS: u64 = 500;

/// What a target says that knows of an epoch as high as the one that it is to take.
const EPOCH_TAKEN: &str = "TRYAGAIN The current epoch is already ";

/// The epoch that such an error names.
pub fn epoch_in(error: &str) -> Option<u64> {
    error.strip_prefix(EPOCH_TAKEN)?.parse().ok()
}

/// A target that may have slots of this node.
pub(super) struct HandOver {
    target: NodeId,
    keeps: Keeps,
}

/// How far a node is that wants to keep its slots.
#[derive(Clone, Copy)]
enum Keeps {
    Nothing,
    /// Others are asked: who knows of a new owner tells it.
    Asks(u64),
    /// They have answered at that time.
    Waits(u64),
    /// They are told that this node has the slots.
    Claims(u64),
}

/// The epoch by which the next target claims its slots. Others are told of a higher one: whoever is elected after a majority has
/// heard that is elected in an epoch above the target's.
#[derive(Clone, Copy)]
pub(super) struct Reserved {
    epoch: u64,
    round: u64,
}

impl Cluster {
    /// Whether slots may go from here to a node. O(slots named).
    ///
    /// # Errors
    /// Why not.
    pub fn check_export(&self, slots: &[u16], target: &str) -> Done {
        self.check_is_primary()?;
        let ix = self.known(target)?;
        refuse_if(ix == MYSELF, "ERR Can't migrate slots to this node itself")?;
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

    /// Has a majority hear that this node hands slots over, before [`Cluster::begin_hand_over`]: a node that is cut off with its
    /// target never does. `false`: not yet. O(nodes).
    ///
    /// # Errors
    /// A replica takes over. There is no such epoch.
    pub fn reserve_hand_over(&mut self, now: Now, host: &dyn Host) -> Result<bool, String> {
        self.begin_with(now, host);
        refuse_if(self.manual.replica.is_some(), "A replica of this node is taking over")?;
        refuse_if(self.current_epoch >= EPOCH_MAX - 1, "There is no higher configEpoch")?;
        let is_ready = match self.reserved.filter(|reserved| reserved.epoch > self.highest_taken()) {
            Some(reserved) => self.has_heard(reserved.round) && self.is_settled(),
            None => {
                let epoch = self.current_epoch + 1;
                self.current_epoch = epoch + 1;
                self.save(false);
                self.reserved = Some(Reserved { epoch, round: self.begin_round() });
                false
            }
        };
        self.end(Some(host));
        Ok(is_ready)
    }

    /// Slots are handed over from here on: the target may have them. This node takes no new epoch and does not forget the target
    /// until [`Cluster::end_hand_over`]. Returns the epoch by which the target is to claim them: nobody has taken one as high.
    /// `None`: it is to be reserved anew. O(slots named + nodes).
    ///
    /// # Errors
    /// A replica takes over, which says that it has them. The target is unknown.
    pub fn begin_hand_over(
        &mut self,
        slots: &[u16],
        target: &str,
        now: Now,
        host: &dyn Host,
    ) -> Result<Option<u64>, String> {
        if !self.reserve_hand_over(now, host)? {
            return Ok(None);
        }
        let target = self.nodes[self.known(target)?].id;
        let Some(Reserved { epoch, .. }) = self.reserved.take() else { return Ok(None) };
        self.hands_over = Some(HandOver { target, keeps: Keeps::Nothing });
        // They may go back to where they came from.
        slots.iter().for_each(|slot| self.slots.forget_taken(*slot));
        Ok(Some(epoch))
    }

    /// The highest epoch that a node has taken for its slots, or may have been elected in.
    fn highest_taken(&self) -> u64 {
        self.nodes
            .iter()
            .map(|(_, node)| node.config_epoch)
            .max()
            .unwrap_or(0)
            .max(self.last_vote_epoch)
            .max(self.asked_epoch)
    }

    /// Whether slots are being handed over to a node.
    pub(super) fn is_target(&self, id: NodeId) -> bool {
        self.hands_over.as_ref().is_some_and(|hands_over| hands_over.target == id)
    }

    /// Another node says that there is an epoch as high as this.
    pub fn hear_epoch(&mut self, epoch: u64) {
        self.approach(epoch);
    }

    /// The target of a hand-over has not answered, and slots are still this node's as far as it knows. This node keeps them by
    /// an epoch above the target's, also if that one comes back and has them: as soon as a majority has answered, has had time to
    /// tell of a new owner, and knows of this node's epoch. Clients must not go on before that is saved. To be called again and
    /// again. `false`: not yet. The cluster is down here until the hand-over has ended if this node has not been with a majority
    /// for some time. O(nodes).
    pub fn keep_slots(&mut self, now: Now, host: &dyn Host) -> bool {
        let Some(keeps) = self.hands_over.as_ref().map(|hands_over| hands_over.keeps) else { return true };
        self.begin_with(now, host);
        let is_settled = self.is_settled();
        if !is_settled {
            self.set_state(false);
        }
        let (next, is_kept) = match keeps {
            Keeps::Claims(round) => (keeps, is_settled && self.has_heard(round)),
            _ if !is_settled => (Keeps::Nothing, false),
            Keeps::Nothing => (Keeps::Asks(self.begin_round()), false),
            Keeps::Asks(round) if self.has_heard(round) => (Keeps::Waits(self.now.mono_ms), false),
            Keeps::Waits(since_ms) if self.now.mono_ms - since_ms >= KEEP_DELAY_MS => (self.claim_kept(), false),
            Keeps::Asks(_) | Keeps::Waits(_) => (keeps, false),
        };
        if let Some(hands_over) = &mut self.hands_over {
            hands_over.keeps = next;
        }
        self.end(Some(host));
        is_kept
    }

    fn claim_kept(&mut self) -> Keeps {
        if self.take_epoch().is_some() {
            self.notice("configEpoch updated after a hand-over of slots that was not answered");
            self.changed_for_clients();
            self.broadcast_pong();
        }
        Keeps::Claims(self.begin_round())
    }

    /// Whether this node has claimed the slots of a hand-over that was not answered: an answer comes too late from then on.
    pub fn has_claimed_back(&self) -> bool {
        self.hands_over.as_ref().is_some_and(|hands_over| matches!(hands_over.keeps, Keeps::Claims(_)))
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
    /// it would claim them again. Or somebody has taken such a high epoch, and it says which one this node knows ([`epoch_in`]).
    pub fn take_slots(&mut self, slots: &[u16], source: &str, epoch: u64, now: Now, host: &dyn Host) -> Done {
        self.begin_with(now, host);
        self.check_new_epoch()?;
        self.check_import(slots, source)?;
        if epoch > self.reach() {
            return Err(format!("ERR The source's epoch {epoch} is too high"));
        }
        if epoch <= self.highest_taken() {
            return Err(format!("{EPOCH_TAKEN}{}", self.highest_taken().max(self.current_epoch)));
        }
        // Always a new one: by it a replica knows that what the bus tells is newer than what it has of the stream. And none above
        // the source's: the source knows how to keep the slots if it hears nothing of this.
        self.current_epoch = self.current_epoch.max(epoch);
        self.nodes[MYSELF].config_epoch = epoch;
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
        refuse_if(self.nodes[MYSELF].is_replica(), "ERR This node is a replica: slots go from primaries to primaries")
    }

    fn check_reachable(&self, ix: Ix) -> Done {
        let node = &self.nodes[ix];
        refuse_if(!node.is_primary(), "ERR Target node is not a master")?;
        if node.flags.intersects(Flags::FAILED | Flags::HANDSHAKE | Flags::NO_ADDRESS) {
            return Err("ERR Target node can't be reached".to_owned());
        }
        Ok(())
    }
}

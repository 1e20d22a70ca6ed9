//! What clients do with slots.

use super::Cluster;
use super::actions::{Host, Now};
use super::commands::{Done, refuse_if};
use super::nodes::{Ix, MYSELF};
use crate::slots::SlotSet;

const BEEN_AWAY: &str = "CLUSTERDOWN This node has been away, and its slots may be another's. Try again later";

const HANDS_OVER: &str = "TRYAGAIN Slots of this node are being handed over to another one";

const TAKEN_OVER: &str = "TRYAGAIN A replica of this node is taking over";

impl Cluster {
    /// CLUSTER SETSLOT MIGRATING.
    ///
    /// # Errors
    /// The slot is another's, or the target no primary, or a replica takes over.
    pub fn set_slot_migrating(&mut self, slot: u16, id: &str, now: Now) -> Done {
        self.begin_slot(now)?;
        if self.slots.owner(slot) != Some(MYSELF) {
            return Err(format!("ERR I'm not the owner of hash slot {slot}"));
        }
        let ix = self.other_end(id)?;
        self.check_no_failover()?;
        self.slots.migrating.insert(slot, self.nodes[ix].id);
        self.slots.forget_taken(slot);
        self.end_mark();
        Ok(())
    }

    /// CLUSTER SETSLOT IMPORTING.
    ///
    /// # Errors
    /// The slot is this node's, or the source no primary.
    pub fn set_slot_importing(&mut self, slot: u16, id: &str, now: Now) -> Done {
        self.begin_slot(now)?;
        if self.slots.owner(slot) == Some(MYSELF) {
            return Err(format!("ERR I'm already the owner of hash slot {slot}"));
        }
        let ix = self.other_end(id)?;
        self.check_no_failover()?;
        self.slots.importing.insert(slot, self.nodes[ix].id);
        self.end_mark();
        Ok(())
    }

    /// CLUSTER SETSLOT STABLE.
    ///
    /// # Errors
    /// This node is a replica.
    pub fn set_slot_stable(&mut self, slot: u16, now: Now) -> Done {
        self.begin_slot(now)?;
        self.check_no_failover()?;
        self.slots.importing.remove(&slot);
        self.slots.migrating.remove(&slot);
        self.end_mark();
        Ok(())
    }

    /// CLUSTER SETSLOT NODE.
    ///
    /// # Errors
    /// The node is no primary, or this one still has keys of the slot, or has just been away and is to get it.
    pub fn set_slot_node(&mut self, slot: u16, id: &str, now: Now, host: &dyn Host) -> Done {
        self.begin_slot(now)?;
        self.begin_with(now, host);
        let ix = self.known(id)?;
        self.check_primary(ix)?;
        // Coming here gives this node an epoch that wins over that of a replica that has taken its slots meanwhile.
        if ix == MYSELF && self.slots.importing.contains_key(&slot) {
            self.check_new_epoch()?;
        }
        let owner = self.slots.owner(slot);
        let rests = !self.slots.migrating.contains_key(&slot) && !self.slots.importing.contains_key(&slot);
        if owner == Some(ix) && rests {
            // It is on the disk already.
            self.slots.unclaimed.remove(slot);
            self.end(Some(host));
            return Ok(());
        }
        let was_mine = owner == Some(MYSELF);
        if was_mine && ix != MYSELF && host.keys_in_slot(slot) > 0 {
            return Err(format!(
                "ERR Can't assign hashslot {slot} to a different node while I still hold keys for this hash slot."
            ));
        }
        if was_mine && ix != MYSELF {
            self.check_no_failover()?;
        }
        if host.keys_in_slot(slot) == 0 {
            self.slots.migrating.remove(&slot);
        }
        self.assign(slot, Some(ix));
        if was_mine && ix != MYSELF {
            self.follow_new_owner(ix);
        }
        if ix == MYSELF
            && let Some(source) = self.slots.importing.remove(&slot)
        {
            self.note_taken(slot, source);
            self.end_import(slot);
        }
        self.end_slot(Some(host));
        Ok(())
    }

    /// Whether this node may take slots over with a new epoch, by which it claims all of its slots.
    pub(super) fn check_new_epoch(&self) -> Done {
        self.check_kept()?;
        refuse_if(self.has_been_away(), BEEN_AWAY)
    }

    /// Whether this node may take a new epoch at all: by it, it would claim slots that another one may have by now.
    pub(super) fn check_kept(&self) -> Done {
        refuse_if(self.hands_over.is_some(), HANDS_OVER)?;
        self.check_no_failover()
    }

    /// Whether no replica takes over, which would not hear any more which slots have gone.
    fn check_no_failover(&self) -> Done {
        refuse_if(self.manual.replica.is_some(), TAKEN_OVER)
    }

    /// Its last slot has gone: this node becomes a replica of the new owner.
    pub(super) fn follow_new_owner(&mut self, ix: Ix) {
        if self.nodes[MYSELF].slot_count == 0 && self.options.allow_replica_migration {
            let label = self.nodes[ix].label();
            self.notice(format!("Configuration change detected. Reconfiguring myself as a replica of {label}"));
            self.set_my_primary(ix);
        }
    }

    /// A slot is here now: all are told, with an epoch that wins over the one of its old owner.
    fn end_import(&mut self, slot: u16) {
        // By a new epoch a replica knows that what the bus tells is newer than what it has of the stream.
        let has_replicas = self.nodes.iter().any(|(_, node)| node.primary == Some(self.nodes[MYSELF].id));
        let bumped = if has_replicas { self.take_epoch() } else { self.bump_config_epoch() };
        if bumped.is_some() {
            self.notice(format!("configEpoch updated after importing slot {slot}"));
        }
        self.broadcast_pong();
    }

    /// CLUSTER ADDSLOTS and ADDSLOTSRANGE: all or none, in the client's order.
    ///
    /// # Errors
    /// A slot has an owner, or is named twice; or this node is a replica, which has no slots.
    pub fn add_slots(&mut self, slots: &[u16], now: Now) -> Done {
        self.begin(now);
        refuse_if(self.nodes[MYSELF].is_replica(), "ERR A replica has no slots of its own")?;
        self.check_each(slots, true)?;
        self.check_no_failover()?;
        for slot in slots {
            self.slots.importing.remove(slot);
            self.assign(*slot, Some(MYSELF));
        }
        self.end_slot(None);
        Ok(())
    }

    /// CLUSTER DELSLOTS and DELSLOTSRANGE: all or none, in the client's order.
    ///
    /// # Errors
    /// A slot has no owner, or is named twice.
    pub fn del_slots(&mut self, slots: &[u16], now: Now) -> Done {
        self.begin(now);
        self.check_each(slots, false)?;
        self.check_no_failover()?;
        slots.iter().for_each(|slot| self.assign(*slot, None));
        self.end_slot(None);
        Ok(())
    }

    fn check_each(&self, slots: &[u16], must_be_free: bool) -> Done {
        let mut seen = SlotSet::new();
        for slot in slots {
            match self.slots.owner(*slot) {
                Some(_) if must_be_free => return Err(format!("ERR Slot {slot} is already busy")),
                None if !must_be_free => return Err(format!("ERR Slot {slot} is already unassigned")),
                _ if seen.has(*slot) => return Err(format!("ERR Slot {slot} specified multiple times")),
                _ => seen.add(*slot),
            }
        }
        Ok(())
    }

    /// CLUSTER FLUSHSLOTS.
    ///
    /// # Errors
    /// There are keys here.
    pub fn flush_slots(&mut self, now: Now, host: &dyn Host) -> Done {
        self.begin_with(now, host);
        refuse_if(host.has_keys(), "ERR DB must be empty to perform CLUSTER FLUSHSLOTS.")?;
        self.check_no_failover()?;
        self.unassign_all(MYSELF);
        self.end_slot(Some(host));
        Ok(())
    }

    fn begin_slot(&mut self, now: Now) -> Done {
        self.begin(now);
        refuse_if(self.nodes[MYSELF].is_replica(), "ERR Please use SETSLOT only with masters.")
    }

    /// A slot is marked: whoever forgets that has it as before, and its keys are looked at when the node starts.
    fn end_mark(&mut self) {
        self.changed_for_clients();
        self.end(None);
    }

    fn end_slot(&mut self, host: Option<&dyn Host>) {
        self.changed_for_clients();
        // Another node may give the slot away as soon as the client has the reply.
        self.save(true);
        self.end(host);
    }

    /// The node that a slot goes to or comes from.
    fn other_end(&self, id: &str) -> Result<Ix, String> {
        let ix = self.known(id).map_err(|_| format!("ERR I don't know about node {id}"))?;
        self.check_primary(ix)?;
        Ok(ix)
    }

    fn check_primary(&self, ix: Ix) -> Done {
        refuse_if(self.nodes[ix].is_replica(), "ERR Target node is not a master")
    }
}

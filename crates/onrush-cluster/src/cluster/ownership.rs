//! Which slot belongs to whom.

use std::collections::{BTreeMap, BTreeSet};

use super::Cluster;
use super::nodes::{Ix, MYSELF};
use super::view::NO_NODE;
use crate::node::{Flags, NodeId};
use crate::slots::{SLOTS, SlotSet};

/// Where a slot has come from.
struct Taken {
    shard: NodeId,
    since_ms: u64,
}

/// Slots that were taken over are claimed with a new epoch at most this often.
const DEFEND_EVERY_MS: u64 = 100;

/// As many nodes with slots as there can be.
const ORPHANED_MAX: usize = SLOTS as usize;

/// What a node had that is a primary no more.
struct Orphaned {
    slots: SlotSet,
    since_ms: u64,
}

/// The owner of each slot, and slots on their way from or to this node.
#[derive(Default)]
pub(super) struct Slots {
    owners: Box<[u16]>,
    /// How many have an owner.
    pub(super) assigned: usize,
    /// Slots whose owner does not claim them any more.
    pub(super) unclaimed: SlotSet,
    /// The slots of each node that is a primary no more, as far as nobody has claimed them since.
    orphaned: Vec<Orphaned>,
    pub(super) migrating: BTreeMap<u16, NodeId>,
    pub(super) importing: BTreeMap<u16, NodeId>,
    /// Slots that this node has taken over key by key, until a primary of the shard that had them claims them no more. That one may
    /// not have heard of it, and may have taken an epoch meanwhile by which it claims all that it had.
    taken: BTreeMap<u16, Taken>,
    /// Whether they are to be claimed with a new epoch.
    defends: bool,
    /// When they were last.
    defended_ms: Option<u64>,
}

impl Slots {
    pub(super) fn new() -> Self {
        Self { owners: vec![NO_NODE; usize::from(SLOTS)].into(), ..Self::default() }
    }

    pub(super) fn owner(&self, slot: u16) -> Option<Ix> {
        let owner = self.owners[usize::from(slot)];
        (owner != NO_NODE).then_some(usize::from(owner))
    }

    /// How many nodes have had slots whose owners are not known yet: most often there are so many more owners.
    pub(super) fn unknown_owners(&self) -> usize {
        self.orphaned.len()
    }

    /// A slot stays where it is, or goes back to where it came from.
    pub(super) fn forget_taken(&mut self, slot: u16) {
        self.taken.remove(&slot);
    }

    /// Slots that were taken over for so long have been heard of.
    pub(super) fn forget_taken_since(&mut self, since_ms: u64) {
        self.taken.retain(|_, taken| taken.since_ms > since_ms);
    }

    /// Slots that were taken over from nodes that may not know it.
    #[cfg(test)]
    pub(super) fn taken(&self) -> Vec<u16> {
        self.taken.keys().copied().collect()
    }

    /// The slots of these, as the file of nodes has them.
    pub(super) fn orphaned(&self) -> Vec<SlotSet> {
        self.orphaned.iter().map(|orphaned| orphaned.slots.clone()).collect()
    }

    /// Nobody is known yet who has these.
    pub(super) fn orphan(&mut self, slots: SlotSet, since_ms: u64) {
        if !slots.is_empty() && self.orphaned.len() < ORPHANED_MAX {
            self.orphaned.push(Orphaned { slots, since_ms });
        }
    }

    fn note_found(&mut self, slot: u16) {
        let is_all = |slots: &mut SlotSet| {
            slots.has(slot) && {
                slots.remove(slot);
                slots.is_empty()
            }
        };
        self.orphaned.retain_mut(|orphaned| !is_all(&mut orphaned.slots));
    }

    /// Those that nobody has claimed since are nobody's.
    pub(super) fn forget_orphaned_since(&mut self, since_ms: u64) {
        self.orphaned.retain(|orphaned| orphaned.since_ms > since_ms);
    }

    /// Nobody is known any more.
    pub(super) fn forget_orphaned(&mut self) {
        self.orphaned.clear();
    }

    /// No slot is on its way any more.
    pub(super) fn forget_moves(&mut self) {
        self.migrating.clear();
        self.importing.clear();
        self.taken.clear();
    }

    fn set_owner(&mut self, slot: u16, owner: u16) {
        let place = &mut self.owners[usize::from(slot)];
        self.assigned -= usize::from(*place != NO_NODE);
        self.assigned += usize::from(owner != NO_NODE);
        *place = owner;
    }
}

impl Cluster {
    /// Gives a slot to a node, or to nobody.
    pub(super) fn assign(&mut self, slot: u16, owner: Option<Ix>) {
        if let Some(before) = self.slots.owner(slot) {
            let node = &mut self.nodes[before];
            node.slots.remove(slot);
            node.slot_count -= 1;
            if before == MYSELF && owner != Some(MYSELF) {
                self.slots.migrating.remove(&slot);
                self.slots.taken.remove(&slot);
            }
        }
        self.slots.unclaimed.remove(slot);
        self.slots.set_owner(slot, owner.map_or(NO_NODE, |ix| ix as u16));
        if let Some(ix) = owner {
            self.give(slot, ix);
            self.slots.note_found(slot);
        }
        self.routes_changed();
    }

    /// A node is a primary no more, but a replica; who has its slots will be heard. If it is this node's replica, nobody else has
    /// those that were coming here from it.
    pub(super) fn orphan_all(&mut self, ix: Ix, primary: NodeId) {
        let is_here =
            |slot: &u16| primary == self.nodes[MYSELF].id && self.slots.importing.get(slot) == Some(&self.nodes[ix].id);
        let slots: SlotSet = self.nodes[ix].slots.iter().filter(|slot| !is_here(slot)).collect();
        self.unassign_all(ix);
        self.slots.orphan(slots, self.now.mono_ms);
    }

    /// Notes a slot at its new owner. Its first slot makes it one that replicas may migrate to, if others have replicas.
    fn give(&mut self, slot: u16, ix: Ix) {
        if self.nodes[ix].slot_count == 0 && self.nodes.iter().any(|(_, node)| node.is_replica()) {
            self.nodes[ix].flags.insert(Flags::MIGRATE_TO);
        }
        let node = &mut self.nodes[ix];
        node.slots.add(slot);
        node.slot_count += 1;
    }

    /// Takes all slots of a node away.
    pub(super) fn unassign_all(&mut self, ix: Ix) {
        let slots: Vec<u16> = self.nodes[ix].slots.iter().collect();
        slots.into_iter().for_each(|slot| self.assign(slot, None));
    }

    /// A node claims slots since an epoch: it gets those whose owners have lower ones. O(slots) if that changes any.
    pub(super) fn claim(&mut self, claimer: Ix, epoch: u64, claimed: &SlotSet) {
        if claimer == MYSELF {
            self.debug("Discarding UPDATE message about myself.");
            return;
        }
        self.note_unclaimed(claimer, claimed);
        self.defend_taken(claimer, epoch, claimed);
        let won = self.won_slots(claimer, epoch, claimed);
        if won.is_empty() {
            return;
        }
        let shard_owner = self.shard_owner();
        let (mut lost, mut lost_by_shard, mut losers) = (Vec::new(), 0, BTreeSet::new());
        for slot in won {
            let before = self.slots.owner(slot);
            losers.extend(before);
            lost_by_shard += usize::from(before.is_some() && before == shard_owner);
            if before == Some(MYSELF) {
                lost.push(slot);
            }
            self.assign(slot, Some(claimer));
            if let Some(source) = self.slots.importing.get_mut(&slot) {
                *source = self.nodes[claimer].id;
            }
        }
        for ix in losers {
            if self.nodes[ix].slot_count == 0 && self.nodes[ix].shard == self.nodes[claimer].shard {
                self.follow_target(ix, claimer);
            }
        }
        self.save(true);
        self.state.must_update = true;
        let is_left_empty = shard_owner.is_some_and(|ix| self.nodes[ix].slot_count == 0);
        let follows = self.options.allow_replica_migration || claimed.len() == lost_by_shard;
        if lost_by_shard > 0 && is_left_empty && follows {
            self.follow_winner(claimer);
        } else if !lost.is_empty() {
            self.lost.extend(lost);
        }
    }

    /// This node, or its primary.
    fn shard_owner(&self) -> Option<Ix> {
        match self.nodes[MYSELF].is_replica() {
            false => Some(MYSELF),
            true => self.primary_ix(),
        }
    }

    /// The slots that change hands if this claim is right. A slot that comes here is left to who moves it, unless it is nobody's,
    /// its owner does not claim it any more, or all that its owner has is claimed: that is a fail-over, and the old owner would
    /// count as one that has failed for ever.
    fn won_slots(&self, claimer: Ix, epoch: u64, claimed: &SlotSet) -> Vec<u16> {
        let mut taken_over: BTreeMap<Ix, bool> = BTreeMap::new();
        let mut is_taken_over =
            |ix: Ix| *taken_over.entry(ix).or_insert_with(|| self.nodes[ix].slots.difference(claimed).next().is_none());
        let is_won = |slot: &u16| {
            if self.is_taken_from(*slot, claimer) {
                return false;
            }
            let owner = self.slots.owner(*slot);
            let is_weak = |ix: Ix| self.nodes[ix].config_epoch < epoch || self.slots.unclaimed.has(*slot);
            owner.is_none_or(is_weak)
                && (!self.slots.importing.contains_key(slot)
                    || self.slots.unclaimed.has(*slot)
                    || owner.is_none_or(&mut is_taken_over))
        };
        claimed.difference(&self.nodes[claimer].slots).filter(is_won).collect()
    }

    /// This node takes a slot over from another one, key by key.
    pub(super) fn note_taken(&mut self, slot: u16, source: NodeId) {
        let Some(ix) = self.find(source) else { return };
        let taken = Taken { shard: self.nodes[ix].shard, since_ms: self.now.mono_ms };
        self.slots.taken.insert(slot, taken);
    }

    /// Whether this node has taken a slot over from another one's shard that may not know it.
    fn is_taken_from(&self, slot: u16, ix: Ix) -> bool {
        self.slots.taken.get(&slot).is_some_and(|taken| taken.shard == self.nodes[ix].shard)
    }

    /// A primary says which slots it claims: it knows that the others have gone.
    pub(super) fn note_given_up(&mut self, ix: Ix, claimed: &SlotSet) {
        let shard = self.nodes[ix].shard;
        self.slots.taken.retain(|slot, taken| taken.shard != shard || claimed.has(*slot));
    }

    /// Two nodes that give each other slots key by key may both take an epoch before one has heard of what the other has taken.
    /// With that they would claim what they gave away, and the one with the keys would delete them. It does not, and takes a
    /// still higher one, as long as it remembers. With equal epochs one of the two does so, as when epochs collide.
    fn defend_taken(&mut self, claimer: Ix, epoch: u64, claimed: &SlotSet) {
        let (myself, other) = (&self.nodes[MYSELF], &self.nodes[claimer]);
        let is_beaten = epoch > myself.config_epoch || epoch == myself.config_epoch && other.id > myself.id;
        if !is_beaten || self.slots.taken.is_empty() {
            return;
        }
        self.slots.defends |=
            self.slots.taken.keys().any(|slot| claimed.has(*slot) && self.is_taken_from(*slot, claimer));
    }

    /// Claims with a new epoch what another node claims that does not know yet that this one has it; what else that one has taken
    /// is its own by now.
    pub(super) fn defend(&mut self) {
        let is_early = |at_ms: u64| self.now.mono_ms - at_ms < DEFEND_EVERY_MS;
        if !self.slots.defends || self.slots.defended_ms.is_some_and(is_early) || self.check_new_epoch().is_err() {
            // At a later tick.
            return;
        }
        self.slots.defends = false;
        if !self.slots.taken.is_empty() && self.take_epoch().is_some() {
            self.slots.defended_ms = Some(self.now.mono_ms);
            self.notice("configEpoch updated: another node claims slots that have come from it");
            self.routes_changed();
            self.broadcast_pong();
        }
    }

    /// Others with lower epochs may have what its owner does not claim any more.
    fn note_unclaimed(&mut self, claimer: Ix, claimed: &SlotSet) {
        let Self { nodes, slots, due, .. } = self;
        let node = &mut nodes[claimer];
        let mut has_changed = false;
        if !node.claims_all {
            for slot in
                node.slots.iter().filter(|slot| claimed.has(*slot) && slots.unclaimed.has(*slot)).collect::<Vec<_>>()
            {
                slots.unclaimed.remove(slot);
                has_changed = true;
            }
        }
        node.claims_all = true;
        for slot in node.slots.difference(claimed) {
            has_changed |= !slots.unclaimed.has(slot);
            slots.unclaimed.add(slot);
            node.claims_all = false;
        }
        if has_changed {
            // Also after a start, nobody is to be told that it has them.
            due.save.get_or_insert(false);
        }
    }

    /// All slots of this node's shard are another's: this node becomes its replica.
    fn follow_winner(&mut self, winner: Ix) {
        if !self.nodes[winner].is_primary() {
            return;
        }
        let label = self.nodes[winner].label();
        self.notice(format!("Configuration change detected. Reconfiguring myself as a replica of {label}"));
        self.set_my_primary(winner);
        self.save(true);
        // The winner may vote from then on.
        self.pong(vec![winner]);
    }
}

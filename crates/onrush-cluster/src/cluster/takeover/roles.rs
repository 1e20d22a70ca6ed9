//! Who is a primary, and who follows whom.

use super::vote::Predecessor;
use crate::cluster::Cluster;
use crate::cluster::actions::Action;
use crate::cluster::nodes::{Ix, MYSELF};
use crate::message::Header;
use crate::node::{Flags, NodeId};

/// What the server replicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cluster) struct Followed {
    node: NodeId,
    ip: String,
    port: u16,
    tls_port: u16,
}

impl Cluster {
    /// What a node says of its role.
    pub(in crate::cluster) fn hear_role(&mut self, ix: Ix, header: &Header) {
        match header.primary {
            None => self.make_primary(ix),
            Some(primary) => self.make_replica(ix, primary),
        }
    }

    pub(in crate::cluster) fn make_replica(&mut self, ix: Ix, primary: NodeId) {
        if self.nodes[ix].is_primary() {
            self.orphan_all(ix, primary);
            let node = &mut self.nodes[ix];
            node.flags.remove(Flags::PRIMARY | Flags::MIGRATE_TO);
            node.flags.insert(Flags::REPLICA);
            self.changed_for_clients();
        }
        let Some(owner) = self.find(primary) else { return };
        if self.nodes[ix].primary != Some(primary) && owner != ix {
            if self.nodes[ix].shard == self.nodes[owner].shard {
                self.follow_target(ix, owner);
            }
            self.set_primary_of(ix, Some(owner));
            self.changed();
        }
    }

    /// Slots that were on their way to a node go to the one that has taken its place.
    pub(in crate::cluster) fn follow_target(&mut self, before: Ix, now: Ix) {
        let (before, now) = (self.nodes[before].id, self.nodes[now].id);
        if now != self.nodes[MYSELF].id {
            self.slots.migrating.values_mut().filter(|target| **target == before).for_each(|target| *target = now);
            self.routes_changed();
        }
    }

    /// A node is a primary from now on, without slots so far.
    pub(in crate::cluster) fn make_primary(&mut self, ix: Ix) {
        if self.nodes[ix].is_primary() {
            return;
        }
        self.set_primary_of(ix, None);
        let node = &mut self.nodes[ix];
        if ix != MYSELF {
            node.flags.insert(Flags::MIGRATE_TO);
        }
        node.flags.remove(Flags::REPLICA);
        node.flags.insert(Flags::PRIMARY);
        self.changed_for_clients();
    }

    /// Notes whom a node follows. A primary that has had replicas may have those of others.
    fn set_primary_of(&mut self, ix: Ix, owner: Option<Ix>) {
        let primary = owner.map(|owner| self.nodes[owner].id);
        let before = std::mem::replace(&mut self.nodes[ix].primary, primary);
        if let Some(before) = before.filter(|_| before != primary) {
            self.note_left_by_replica(before);
        }
        if let Some(owner) = owner {
            self.nodes[owner].flags.insert(Flags::MIGRATE_TO);
            let shard = self.nodes[owner].shard;
            self.set_shard(ix, shard);
        }
        self.routes_changed();
    }

    fn note_left_by_replica(&mut self, primary: NodeId) {
        let has_more = self.nodes.iter().any(|(_, node)| node.is_replica_of(primary));
        if let Some(ix) = self.find(primary).filter(|_| !has_more) {
            self.nodes[ix].flags.remove(Flags::MIGRATE_TO);
        }
    }

    /// This node follows another one from now on.
    pub(in crate::cluster) fn set_my_primary(&mut self, ix: Ix) {
        if ix == MYSELF || self.nodes[MYSELF].primary == Some(self.nodes[ix].id) {
            return;
        }
        if self.nodes[MYSELF].is_primary() {
            self.unassign_all(MYSELF);
            self.slots.forget_moves();
        }
        let myself = &mut self.nodes[MYSELF];
        myself.flags.remove(Flags::PRIMARY | Flags::MIGRATE_TO);
        myself.flags.insert(Flags::REPLICA);
        self.set_primary_of(MYSELF, Some(ix));
        self.due.tells_role = true;
        (self.told, self.predecessor) = (None, Predecessor::default());
        self.reset_manual_failover();
        self.election.forget();
        self.changed();
        self.save(true);
    }

    /// If this node's primary has become a replica, this node follows the same primary.
    pub(in crate::cluster) fn leave_chain(&mut self) {
        let Some(followed) = self.primary_ix().map(|ix| &self.nodes[ix]).filter(|node| node.is_replica()) else {
            return;
        };
        let Some(next) = followed.primary.and_then(|id| self.find(id)) else { return };
        if next == MYSELF || !self.nodes[next].is_primary() {
            return;
        }
        let (from, to) = (followed.label(), self.nodes[next].label());
        self.notice(format!("I'm a sub-replica! Reconfiguring myself from {from} to {to}"));
        self.set_my_primary(next);
    }

    /// Has the server follow whom this node follows.
    pub(in crate::cluster) fn role_action(&mut self) -> Option<Action> {
        let wanted = self.wanted_role();
        // Without an address there is nothing to connect to; what was told stays.
        let is_unknown = wanted.is_none() && self.nodes[MYSELF].is_replica();
        if is_unknown || wanted == self.followed {
            return None;
        }
        let before = std::mem::replace(&mut self.followed, wanted.clone()).map(|followed| followed.node);
        Some(match wanted {
            None => Action::Primary,
            Some(Followed { node, ip, port, tls_port }) => {
                Action::ReplicaOf { node, is_same: before == Some(node), ip, port, tls_port }
            }
        })
    }

    fn wanted_role(&self) -> Option<Followed> {
        let node = &self.nodes[self.primary_ix()?];
        let (port, tls_port) = self.client_ports(&node.address);
        let ip = node.address.ip.clone();
        (!ip.is_empty()).then_some(Followed { node: node.id, ip, port, tls_port })
    }
}

//! Replica migration: a primary that has lost its last replica gets one from a primary that has most.

use crate::cluster::Cluster;
use crate::cluster::nodes::{Ix, MYSELF, Node};
use crate::node::Flags;

/// How long a primary must have no replica before one migrates to it.
const DELAY_MS: u64 = 5_000;

/// Replicas that the primary which gives one away has at least.
const DONOR_REPLICAS_MIN: usize = 2;

impl Cluster {
    /// Notes which primaries have no replica, and has this replica go to one of them if it is its turn. O(nodes).
    pub(in crate::cluster) fn migrate_replica(&mut self) {
        if self.nodes[MYSELF].is_primary() {
            return;
        }
        let replicas = self.count_replicas();
        let orphans = self.note_orphans(&replicas);
        if !self.state.is_up || !self.options.allow_replica_migration || !self.is_donated(&replicas) {
            return;
        }
        let now_ms = self.now.mono_ms;
        let is_ripe = |ix: &Ix| self.nodes[*ix].orphaned_ms.is_some_and(|since_ms| now_ms - since_ms > DELAY_MS);
        if let Some(target) = orphans.into_iter().next().filter(is_ripe) {
            let label = self.nodes[target].label();
            self.notice(format!("Migrating to orphaned master {label}"));
            self.set_my_primary(target);
        }
    }

    /// How many replicas that answer each node has, by place.
    fn count_replicas(&self) -> Vec<usize> {
        let mut counts = vec![0; self.nodes.places().end];
        for (_, node) in self.nodes.iter().filter(|(_, node)| node.is_replica() && !node.is_silent()) {
            if let Some(primary) = node.primary.and_then(|id| self.find(id)) {
                counts[primary] += 1;
            }
        }
        counts
    }

    /// Primaries with slots that have had replicas and have none that answers.
    fn note_orphans(&mut self, replicas: &[usize]) -> Vec<Ix> {
        let is_orphan = |ix: Ix, node: &Node| {
            node.is_voter() && node.has(Flags::MIGRATE_TO) && !node.has(Flags::FAILED) && replicas[ix] == 0
        };
        let orphans: Vec<Ix> = self.nodes.iter().filter(|(ix, node)| is_orphan(*ix, node)).map(|(ix, _)| ix).collect();
        let now_ms = self.now.mono_ms;
        let mut rest = orphans.iter().copied().peekable();
        for ix in self.nodes.places().filter(|ix| self.nodes.get(*ix).is_some()).collect::<Vec<_>>() {
            let is_orphan = rest.next_if_eq(&ix).is_some();
            let node = &mut self.nodes[ix];
            node.orphaned_ms = is_orphan.then(|| node.orphaned_ms.unwrap_or(now_ms));
        }
        orphans
    }

    /// Whether this replica is the one to go: its primary has most replicas, and this is the one with the smallest name.
    fn is_donated(&self, replicas: &[usize]) -> bool {
        let most = replicas.iter().copied().max().unwrap_or(0);
        let Some(primary) = self.primary_ix() else { return false };
        let own = replicas[primary];
        if own <= self.options.migration_barrier as usize || most < DONOR_REPLICAS_MIN || own != most {
            return false;
        }
        let is_first = |(_, node): (Ix, &Node)| {
            let is_candidate = node.is_replica() && !node.is_silent();
            let has_most = node.primary.and_then(|id| self.find(id)).is_some_and(|ix| replicas[ix] == most);
            !is_candidate || !has_most || node.id >= self.nodes[MYSELF].id
        };
        self.nodes.iter().all(is_first)
    }
}

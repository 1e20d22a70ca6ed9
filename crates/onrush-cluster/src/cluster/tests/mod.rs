//! Tests: nodes in one process whose messages arrive at once, and one node that gets anything.

mod commands;
mod elections;
mod epochs;
mod hand_overs;
mod hostile;
mod membership;
mod mesh;
mod telling;

use super::nodes::MYSELF;
use super::{Cluster, Host, PrimaryLink};
use crate::slots::SLOTS;

/// A server that answers what a test wants.
#[derive(Clone, Copy, Default)]
pub(super) struct Asked {
    pub(super) offset: u64,
    pub(super) has_keys: bool,
    pub(super) keys: u64,
}

impl Host for Asked {
    fn replication_offset(&self) -> u64 {
        self.offset
    }

    fn primary_link(&self) -> PrimaryLink {
        PrimaryLink { is_up: true, silent_ms: 0 }
    }

    fn keys_in_slot(&self, _slot: u16) -> u64 {
        self.keys
    }

    fn has_keys(&self) -> bool {
        self.has_keys
    }
}

impl Cluster {
    /// What is kept twice is the same.
    pub(super) fn check_consistency(&self) {
        let mut assigned = 0;
        for slot in 0..SLOTS {
            if let Some(ix) = self.slots.owner(slot) {
                assert!(self.nodes[ix].slots.has(slot), "{slot}");
                assigned += 1;
            }
        }
        assert_eq!(self.slots.assigned, assigned);
        let mut counted = 0;
        for (ix, node) in self.nodes.iter() {
            assert_eq!(node.slots.len(), usize::from(node.slot_count), "{node:?}");
            assert_eq!(self.find(node.id), Some(ix));
            assert!(node.is_primary() || node.slot_count == 0, "{node:?}");
            counted += usize::from(node.slot_count);
            for link in [node.link, node.inbound].into_iter().flatten() {
                assert_eq!(self.links.get(link).and_then(|link| link.node), Some(ix));
            }
        }
        assert_eq!(counted, assigned);
        let myself = &self.nodes[MYSELF];
        assert!(myself.is_primary() != myself.is_replica());
        assert!(myself.config_epoch <= self.current_epoch && self.last_vote_epoch <= self.current_epoch);
    }
}

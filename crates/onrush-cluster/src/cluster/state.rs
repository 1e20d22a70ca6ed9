//! Whether the cluster is up.

use super::Cluster;
use super::actions::Now;
use super::nodes::{MYSELF, Node};
use crate::node::Flags;
use crate::slots::SLOTS;

/// After a start a primary takes no writes for so long: others may have taken its slots.
const START_DELAY_MS: u64 = 2_000;

/// After a partition a primary that was with the minority takes no writes for a node timeout, within these bounds.
const REJOIN_DELAY_MIN_MS: u64 = 500;
const REJOIN_DELAY_MAX_MS: u64 = 5_000;

/// What it looks like.
#[derive(Default)]
pub(super) struct State {
    pub(super) is_up: bool,
    /// To be looked at again at the end of the event.
    pub(super) must_update: bool,
    /// Primaries with slots.
    pub(super) size: usize,
    /// A majority of them and of owners that are not known yet: a node that has been away may hear first that primaries are such no
    /// more, and later who is, and must not take the few that are left for all.
    pub(super) quorum: usize,
    pub(super) has_majority: bool,
    started_ms: Option<u64>,
    /// Whether it had slots then.
    started_with_slots: bool,
    /// When this node last saw no majority.
    minority_ms: Option<u64>,
    /// When it last saw none of the owners that are known.
    few_ms: Option<u64>,
    /// When it last found that it had not run for long.
    stalled_ms: Option<u64>,
    /// When one of the two was last so while it had slots.
    away_ms: Option<u64>,
}

impl State {
    pub(super) fn new() -> Self {
        Self { must_update: true, size: 1, quorum: 1, ..Self::default() }
    }
}

/// Slots that nobody claims for so many node timeouts, while a majority of the known owners is heard, are nobody's.
const ORPHAN_TIMEOUTS: u64 = 4;

impl Cluster {
    /// Looks whether the cluster is up. O(nodes).
    pub(super) fn update_state(&mut self) {
        let now_ms = self.now.mono_ms;
        if self.state.started_ms.is_none() {
            self.state.started_with_slots = self.nodes[MYSELF].slot_count > 0;
        }
        let started_ms = *self.state.started_ms.get_or_insert(now_ms);
        let voters = || self.nodes.iter().map(|(_, node)| node).filter(|node| node.is_voter());
        let size = voters().count();
        let reachable = voters().filter(|node| !node.is_silent()).count();
        self.state.size = size;
        self.count_quorum();
        let is_primary = self.nodes[MYSELF].is_primary();
        let is_waiting = is_primary && !self.state.is_up && now_ms - started_ms < START_DELAY_MS;
        self.state.must_update = is_waiting;
        if is_waiting {
            return;
        }
        let has_majority = reachable >= self.state.quorum;
        self.state.has_majority = has_majority;
        if !has_majority {
            self.state.minority_ms = Some(now_ms);
            self.note_away();
        }
        if reachable <= size / 2 {
            self.state.few_ms = Some(now_ms);
        } else {
            self.forget_orphaned(now_ms);
        }
        self.set_state(has_majority && self.covers_slots());
    }

    /// Slots without an owner for so long, all of it with a majority of those that are known, are nobody's: their owners may not have
    /// given them to anybody, and then they are missed in vain.
    fn forget_orphaned(&mut self, now_ms: u64) {
        let Some(since_ms) = now_ms.checked_sub(self.options.node_timeout_ms.saturating_mul(ORPHAN_TIMEOUTS)) else {
            return;
        };
        if self.state.few_ms.is_none_or(|few_ms| few_ms <= since_ms) {
            self.slots.forget_orphaned_since(since_ms);
            self.count_quorum();
        }
    }

    fn count_quorum(&mut self) {
        self.state.quorum = (self.state.size + self.slots.unknown_owners()) / 2 + 1;
    }

    /// Whether each slot has an owner that has not failed, if that is asked for.
    fn covers_slots(&self) -> bool {
        let has_failed = |node: &Node| node.slot_count > 0 && node.has(Flags::FAILED);
        !self.options.require_full_coverage
            || (self.slots.assigned == usize::from(SLOTS) && !self.nodes.iter().any(|(_, node)| has_failed(node)))
    }

    pub(super) fn set_state(&mut self, is_up: bool) {
        if is_up == self.state.is_up || (is_up && self.must_wait_to_rejoin()) {
            return;
        }
        self.notice(format!("Cluster state changed: {}", if is_up { "ok" } else { "fail" }));
        self.state.is_up = is_up;
        self.routes_changed();
    }

    fn must_wait_to_rejoin(&self) -> bool {
        // What is handed over is clear first: clients are not held back while the cluster is down.
        self.nodes[MYSELF].is_primary() && (self.is_recent(self.state.minority_ms) || self.hands_over.is_some())
    }

    /// Whether this node has been with a majority for some time without having been away.
    pub(super) fn is_settled(&self) -> bool {
        self.state.has_majority
            && !self.is_stalled()
            && !self.is_recent(self.state.stalled_ms)
            && !self.is_recent(self.state.minority_ms)
    }

    fn is_recent(&self, time_ms: Option<u64>) -> bool {
        let delay_ms = self.options.node_timeout_ms.clamp(REJOIN_DELAY_MIN_MS, REJOIN_DELAY_MAX_MS);
        time_ms.is_some_and(|time_ms| self.now.mono_ms - time_ms < delay_ms)
    }

    /// Whether this node may execute commands, as far as it knows: the cluster is up, and it has not just been away.
    pub fn may_execute(&mut self, now: Now) -> bool {
        self.begin(now);
        self.state.is_up && !self.has_been_away()
    }

    /// Whether this node has slots that may have become another's without its knowing.
    pub(super) fn has_been_away(&self) -> bool {
        let has_begun = |started_ms: u64| {
            self.state.is_up || !self.state.started_with_slots || self.now.mono_ms - started_ms >= START_DELAY_MS
        };
        self.nodes[MYSELF].slot_count > 0
            && (!self.state.started_ms.is_some_and(has_begun)
                || self.is_stalled()
                || self.is_recent(self.state.away_ms))
    }

    /// This node does not hear of a new owner of its slots, if it has any. One that is new has none.
    fn note_away(&mut self) {
        if self.nodes[MYSELF].slot_count > 0 {
            self.state.away_ms = Some(self.now.mono_ms);
        }
    }

    /// This node has not run for long.
    pub(super) fn note_stalled(&mut self) {
        self.state.stalled_ms = Some(self.now.mono_ms);
        self.note_away();
    }
}

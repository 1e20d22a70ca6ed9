//! Elections: a replica takes the place of its primary.

use super::vote::Predecessor;
use crate::cluster::Cluster;
use crate::cluster::actions::Host;
use crate::cluster::nodes::{Ix, MYSELF};
use crate::cluster::receive::EPOCH_MAX;
use crate::message::{Body, Header, MessageFlags};
use crate::node::{Flags, NodeId};

/// Until the news of the failure is everywhere.
const DELAY_MS: u64 = 500;

/// So that not all replicas ask at the same time.
const DELAY_RANDOM_MS: u64 = 500;

/// For each sibling with newer data.
const DELAY_RANK_MS: u64 = 1_000;

/// Votes count for two node timeouts, or for this if that is less. After twice the time there may be another election.
const TIMEOUT_MIN_MS: u64 = 2_000;

/// How often the same reason is told again.
const TELL_AGAIN_MS: u64 = 300_000;

/// Why a replica does not take over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    OldData,
    Delay,
    Expired,
    Votes,
}

impl Reason {
    fn text(self) -> &'static str {
        match self {
            Self::OldData => {
                "Disconnected from master for longer than allowed. \
                 Please check the 'cluster-replica-validity-factor' configuration option."
            }
            Self::Delay => "Waiting the delay before I can start a new failover.",
            Self::Expired => "Failover attempt expired.",
            Self::Votes => "Waiting for votes, but majority still not reached.",
        }
    }
}

/// This node's last election.
#[derive(Default)]
pub(in crate::cluster) struct Election {
    /// When it asks, or has asked, for votes.
    at_ms: Option<u64>,
    is_sent: bool,
    epoch: u64,
    rank: u64,
    voters: Vec<NodeId>,
    told: Option<(Reason, u64)>,
}

impl Election {
    pub(in crate::cluster) fn forget(&mut self) {
        *self = Self::default();
    }
}

impl Cluster {
    /// Goes on with an election as far as it can. O(1) while the primary is there.
    pub(in crate::cluster) fn advance_election(&mut self, host: &dyn Host) {
        let Some(primary) = self.primary_ix() else { return };
        let is_manual = self.manual.can_start;
        let node = &self.nodes[primary];
        let is_due = is_manual || (node.has(Flags::FAILED) && !self.nodes[MYSELF].has(Flags::NO_FAILOVER));
        if !is_due || node.slot_count == 0 {
            return;
        }
        if !is_manual && self.has_old_data(host) {
            return self.tell_reason(Reason::OldData);
        }
        self.advance_votes(is_manual);
    }

    fn advance_votes(&mut self, is_manual: bool) {
        let now_ms = self.now.mono_ms;
        let timeout_ms = self.options.node_timeout_ms.saturating_mul(2).max(TIMEOUT_MIN_MS);
        let is_over = |at_ms: u64| now_ms.saturating_sub(at_ms) > timeout_ms.saturating_mul(2);
        if self.election.at_ms.is_none_or(is_over) {
            self.schedule(is_manual);
        } else if !self.election.is_sent && !is_manual {
            self.update_rank();
        }
        let at_ms = self.election.at_ms.unwrap_or(now_ms);
        if now_ms < at_ms {
            self.tell_reason(Reason::Delay);
        } else if now_ms - at_ms > timeout_ms {
            self.tell_reason(Reason::Expired);
        } else if !self.election.is_sent {
            self.ask_for_votes(is_manual);
        } else if self.election.voters.len() >= self.state.quorum {
            self.win();
        } else {
            self.tell_reason(Reason::Votes);
        }
    }

    /// Whether its data is older than an operator allows.
    fn has_old_data(&self, host: &dyn Host) -> bool {
        let timeout_ms = self.options.node_timeout_ms;
        let factor = u64::from(self.options.replica_validity_factor);
        let age_ms = host.primary_link().silent_ms;
        // The primary has been silent for that long when it is taken for failed.
        let age_ms = if age_ms > timeout_ms { age_ms - timeout_ms } else { age_ms };
        factor > 0 && age_ms > self.options.repl_ping_period_ms.saturating_add(timeout_ms.saturating_mul(factor))
    }

    fn schedule(&mut self, is_manual: bool) {
        let now_ms = self.now.mono_ms;
        let rank = if is_manual { 0 } else { self.rank() };
        let random_ms = self.random.below(DELAY_RANDOM_MS);
        let delay_ms = if is_manual { 0 } else { DELAY_MS + random_ms + rank * DELAY_RANK_MS };
        self.election.forget();
        self.election.rank = rank;
        self.election.at_ms = Some(now_ms + delay_ms);
        let offset = self.offset;
        self.notice(format!("Start of election delayed for {delay_ms} milliseconds (rank #{rank}, offset {offset})."));
        self.pong_siblings();
    }

    /// How many siblings have newer data.
    fn rank(&self) -> u64 {
        let Some(primary) = self.nodes[MYSELF].primary else { return 0 };
        let is_ahead = |ix: Ix| {
            let node = &self.nodes[ix];
            ix != MYSELF && node.is_replica_of(primary) && !node.has(Flags::NO_FAILOVER) && node.offset > self.offset
        };
        self.nodes.iter().filter(|(ix, _)| is_ahead(*ix)).count() as u64
    }

    fn update_rank(&mut self) {
        let rank = self.rank();
        let more = rank.saturating_sub(self.election.rank);
        if more == 0 {
            return;
        }
        self.election.rank = rank;
        self.election.at_ms = self.election.at_ms.map(|at_ms| at_ms + more * DELAY_RANK_MS);
        self.notice(format!("Replica rank updated to #{rank}, added {} milliseconds of delay.", more * DELAY_RANK_MS));
    }

    fn ask_for_votes(&mut self, is_manual: bool) {
        if self.current_epoch >= EPOCH_MAX {
            // Only a file that was written by hand gets here.
            return;
        }
        self.current_epoch += 1;
        self.election.epoch = self.current_epoch;
        // Its vote is its own. As the new primary it would have one for another replica, while the old primary may have used the
        // one of these slots, and this epoch would have two winners.
        self.last_vote_epoch = self.current_epoch;
        self.election.is_sent = true;
        self.save(true);
        self.notice(format!("Starting a failover election for epoch {}.", self.current_epoch));
        let mut flags = MessageFlags::empty();
        flags.set(MessageFlags::FORCE_ACK, is_manual);
        self.broadcast(Body::AuthRequest, flags);
    }

    /// A vote has come. Each primary with slots has one.
    pub(in crate::cluster) fn hear_vote(&mut self, sender: Ix, header: &Header) {
        let node = &self.nodes[sender];
        let counts = self.election.is_sent && node.is_voter() && header.current_epoch >= self.election.epoch;
        if counts && !self.election.voters.contains(&node.id) {
            self.election.voters.push(node.id);
        }
    }

    fn win(&mut self) {
        let epoch = self.election.epoch;
        self.notice("Failover election won: I'm the new master.");
        if self.nodes[MYSELF].config_epoch < epoch {
            self.nodes[MYSELF].config_epoch = epoch;
            self.notice(format!("configEpoch set to {epoch} after successful failover"));
        }
        self.replace_primary();
    }

    /// Takes the place of its primary, and tells it to all.
    pub(in crate::cluster) fn replace_primary(&mut self) {
        let (slots, told) = (self.slots_of_shard(), self.told().cloned());
        self.predecessor = Predecessor::of(self.nodes[MYSELF].primary, self.now.mono_ms);
        self.make_primary(MYSELF);
        slots.iter().for_each(|slot| self.assign(slot, Some(MYSELF)));
        self.told = None;
        if let Some(told) = told {
            self.go_on_with_moves(told);
        }
        self.reset_manual_failover();
        self.election.forget();
        self.save(true);
        self.update_state();
        self.broadcast_pong();
    }

    /// Tells why there is no fail-over: when the reason changes, and now and then.
    fn tell_reason(&mut self, reason: Reason) {
        let now_ms = self.now.mono_ms;
        let is_told = |(told, at_ms): (Reason, u64)| told == reason && now_ms - at_ms < TELL_AGAIN_MS;
        if self.election.told.is_some_and(is_told) {
            return;
        }
        self.election.told = Some((reason, now_ms));
        self.notice(format!("Currently unable to failover: {}", reason.text()));
    }
}

//! Manual fail-over: an operator has a replica take over while its primary is there.
//!
//! The replica asks its primary, which holds its clients and tells its offset. When the replica has all of it, it asks for
//! votes that are given though the primary has not failed.

use crate::cluster::Cluster;
use crate::cluster::actions::{Action, Host};
use crate::cluster::nodes::{Ix, MYSELF};
use crate::message::{Body, Greeting, Header, MessageFlags};

/// A manual fail-over ends after so long.
const TIMEOUT_MS: u64 = 5_000;

/// The primary holds its clients for so many times that, unless the replica takes over or gives up before.
const PAUSE_TIMES: u64 = 2;

/// A manual fail-over under way.
#[derive(Default)]
pub(in crate::cluster) struct Manual {
    end_ms: Option<u64>,
    /// At a primary: the replica that takes over.
    pub(in crate::cluster) replica: Option<Ix>,
    /// At a primary: until when its clients are to be held.
    pub(in crate::cluster) pause_until_ms: Option<u64>,
    /// At a primary: its clients are held, so that its offset stays.
    pub(in crate::cluster) is_paused: bool,
    /// At a replica: how far it has to come.
    wanted_offset: Option<u64>,
    /// At a replica: it may ask for votes.
    pub(in crate::cluster) can_start: bool,
}

impl Cluster {
    /// CLUSTER FAILOVER, at a replica.
    pub(in crate::cluster) fn start_manual_failover(&mut self, primary: Option<Ix>) {
        self.reset_manual_failover();
        self.election.forget();
        self.manual.end_ms = Some(self.now.mono_ms + TIMEOUT_MS);
        match primary {
            Some(ix) => self.send_to(ix, Body::ManualFailover),
            None => self.manual.can_start = true,
        }
    }

    /// A replica asks this node, its primary, to hold its clients.
    pub(in crate::cluster) fn hear_manual_failover(&mut self, sender: Ix) {
        let myself = &self.nodes[MYSELF];
        if !myself.is_primary() || !self.nodes[sender].is_replica_of(myself.id) {
            return;
        }
        self.reset_manual_failover();
        self.manual.end_ms = Some(self.now.mono_ms + TIMEOUT_MS);
        self.manual.replica = Some(sender);
        let until_mono_ms = self.now.mono_ms + TIMEOUT_MS * PAUSE_TIMES;
        self.manual.pause_until_ms = Some(until_mono_ms);
        self.queue.push(Action::Pause { until_mono_ms });
        let label = self.nodes[sender].label();
        self.warning(format!("Manual failover requested by replica {label}."));
        self.ticking.is_hurried = true;
    }

    /// Tells the replica the offset that it has to come to, now that no client can move it.
    pub(in crate::cluster) fn tell_paused_offset(&mut self) {
        if let Some(ix) = self.manual.replica {
            self.send_greeting(ix, Greeting::Ping);
        }
    }

    /// What a header says of a manual fail-over: how far this node, a replica, has to come.
    pub(in crate::cluster) fn hear_paused_offset(&mut self, sender: Ix, header: &Header) {
        let is_paused = header.message_flags.contains(MessageFlags::PAUSED);
        let waits = self.manual.end_ms.is_some() && self.manual.replica.is_none();
        if is_paused && waits && self.nodes[MYSELF].primary == Some(self.nodes[sender].id) {
            // Clients are held, but the primary may have told its replicas something since.
            let before = self.manual.wanted_offset.replace(header.offset);
            if before.is_none() {
                let offset = header.offset;
                self.notice(format!("Received replication offset for paused master manual failover: {offset}"));
            }
        }
    }

    /// Goes on with a fail-over, manual or not, as far as it can.
    pub(in crate::cluster) fn advance_failover(&mut self, host: &dyn Host) {
        if self.nodes[MYSELF].is_primary() {
            return;
        }
        if !self.manual.can_start && self.manual.wanted_offset.is_some_and(|offset| offset == self.offset) {
            self.manual.can_start = true;
            self.notice("All master replication stream processed, manual failover can start.");
        }
        self.advance_election(host);
    }

    pub(in crate::cluster) fn check_manual_timeout(&mut self) {
        if self.manual.end_ms.is_some_and(|end_ms| end_ms < self.now.mono_ms) {
            self.warning("Manual failover timed out.");
            self.reset_manual_failover();
        }
    }

    /// Ends a manual fail-over. A primary lets its clients go on.
    pub(in crate::cluster) fn reset_manual_failover(&mut self) {
        if std::mem::take(&mut self.manual).replica.is_some() {
            self.queue.push(Action::Unpause);
            // Replicas were told nothing meanwhile.
            self.routes_changed();
        }
    }
}

//! How many messages went and came, by type.

use std::fmt::Write;

/// The types' names in CLUSTER INFO, by their numbers.
const NAMES: [&str; 11] =
    ["ping", "pong", "meet", "fail", "publish", "auth-req", "auth-ack", "update", "mfstart", "module", "publishshard"];

/// Counts by type.
#[derive(Default)]
pub(super) struct Counts([u64; NAMES.len()]);

impl Counts {
    pub(super) fn add(&mut self, kind: u16, count: u64) {
        if let Some(place) = self.0.get_mut(usize::from(kind)) {
            *place += count;
        }
    }

    /// Appends the lines of those that are not 0, and of their sum.
    fn write(&self, out: &mut String, suffix: &str) {
        for (name, count) in NAMES.iter().zip(self.0).filter(|(_, count)| *count > 0) {
            let _ = write!(out, "cluster_stats_messages_{name}_{suffix}:{count}\r\n");
        }
        let _ = write!(out, "cluster_stats_messages_{suffix}:{}\r\n", self.0.iter().sum::<u64>());
    }
}

/// Both directions.
#[derive(Default)]
pub(super) struct Stats {
    pub(super) sent: Counts,
    pub(super) received: Counts,
}

impl Stats {
    pub(super) fn write(&self, out: &mut String) {
        self.sent.write(out, "sent");
        self.received.write(out, "received");
    }
}

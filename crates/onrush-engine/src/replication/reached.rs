//! Whether what clients wait for is reached, and their replies then.

use onrush_resp::Reply;

use super::goal::Goal;
use crate::clients::durability::Level;
use crate::shared::Shared;

/// Ends the waiting of the clients that have what they wait for. O(clients that wait).
pub fn end_waits(shared: &'static Shared) {
    for (goal, waiter) in shared.replication.waits.take(|goal| goal.is_reached(shared)) {
        waiter.finish(shared, |out| goal.reply(shared, out));
    }
}

impl Goal {
    /// Whether this server's disk has what is waited for.
    fn has_own(self, shared: &Shared) -> bool {
        self.disks.is_some() && shared.durability.is_on() && shared.durability.has(Level::Durable, self.lsn)
    }

    /// How many replicas have acknowledged the record, and how many have it on their disks.
    fn counts(self, shared: &Shared) -> (usize, usize) {
        let replication = &shared.replication;
        replication.history.end_of(self.lsn).map_or((0, 0), |offset| replication.attached.counts(offset))
    }

    /// Whether it is reached.
    pub fn is_reached(self, shared: &Shared) -> bool {
        let (have, have_synced) = self.counts(shared);
        match self.disks {
            None => have >= self.replicas,
            Some(own) => have_synced >= self.replicas && (!own || self.has_own(shared)),
        }
    }

    /// Appends the reply: how many have it by now.
    pub fn reply(self, shared: &Shared, out: &mut Reply) {
        let (have, have_synced) = self.counts(shared);
        match self.disks {
            None => out.int(have as i64),
            Some(_) => {
                out.array(2);
                out.int(i64::from(self.has_own(shared)));
                out.int(have_synced as i64);
            }
        }
    }
}

//! Clients that wait until replicas have what they wrote: WAIT and WAITAOF.

use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};

use onrush_resp::Reply;
use parking_lot::Mutex;

use crate::blocking::waiter::Waiter;
use crate::clients::durability::Level;
use crate::replication::history::History;
use crate::shared::Shared;

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Goal {
    /// The last record that replicas must have.
    pub lsn: u64,
    /// So many of them.
    pub replicas: usize,
    /// Of WAITAOF: the disks of replicas count, and whether this server's must have the record.
    pub disks: Option<bool>,
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

/// The clients that wait.
#[derive(Default)]
pub struct Waits {
    all: Mutex<Vec<(Goal, Weak<Waiter>)>>,
    len: AtomicUsize,
    /// The last record that somebody waits for and replicas were not asked for; 0: none.
    asked_lsn: AtomicU64,
}

impl Waits {
    /// A client waits; replicas will be asked, once for all that wait.
    pub(crate) fn add(&self, goal: Goal, waiter: &Arc<Waiter>) {
        let mut all = self.all.lock();
        all.push((goal, Arc::downgrade(waiter)));
        self.len.store(all.len(), Relaxed);
        self.ask(goal.lsn);
    }

    /// Somebody else waits for replicas to have a record, too: they will be asked.
    pub(super) fn ask(&self, lsn: u64) {
        self.asked_lsn.fetch_max(lsn.max(1), AcqRel);
    }

    /// Whether replicas are to be asked here in the stream, behind all records that somebody waits for; then they are.
    pub fn take_asks(&self, history: &History) -> bool {
        let lsn = self.asked_lsn.load(Acquire);
        let is_due = lsn > 0 && history.end_of(lsn).is_some();
        is_due && self.asked_lsn.compare_exchange(lsn, 0, AcqRel, Relaxed).is_ok()
    }

    /// Ends the waiting of the clients that have what they wait for. O(clients that wait).
    pub fn look(&self, shared: &'static Shared) {
        if self.len.load(Relaxed) == 0 {
            return;
        }
        let mut done = Vec::new();
        let mut all = self.all.lock();
        all.retain(|(goal, waiter)| {
            let Some(waiter) = waiter.upgrade() else { return false };
            let is_reached = goal.is_reached(shared);
            if is_reached {
                done.push((*goal, waiter));
            }
            !is_reached
        });
        self.len.store(all.len(), Relaxed);
        drop(all);
        for (goal, waiter) in done {
            waiter.finish(shared, |out| goal.reply(shared, out));
        }
    }
}

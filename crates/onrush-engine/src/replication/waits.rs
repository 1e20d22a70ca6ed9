//! Clients that wait until replicas have what they wrote: WAIT and WAITAOF.

use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};

use parking_lot::Mutex;

use super::goal::Goal;
use crate::blocking::waiter::Waiter;
use crate::replication::history::History;

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
        // Without replicas nobody else may ever look through them.
        if all.len() == all.capacity() {
            all.retain(|(_, waiter)| waiter.strong_count() > 0);
        }
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

    /// Takes out the clients that have reached what they wait for. O(clients that wait).
    pub(super) fn take(&self, is_reached: impl Fn(Goal) -> bool) -> Vec<(Goal, Arc<Waiter>)> {
        let mut done = Vec::new();
        if self.len.load(Relaxed) == 0 {
            return done;
        }
        let mut all = self.all.lock();
        all.retain(|(goal, waiter)| {
            let Some(waiter) = waiter.upgrade() else { return false };
            let is_over = is_reached(*goal);
            if is_over {
                done.push((*goal, waiter));
            }
            !is_over
        });
        self.len.store(all.len(), Relaxed);
        done
    }
}

#[cfg(test)]
mod tests {
    use crate::batch::runner::Runner;
    use crate::clients::local::{LocalClient, State};
    use crate::command::CommandTable;
    use crate::commands::FAMILIES;
    use crate::ctx::Engine;
    use crate::shared::Parts;

    #[test]
    fn clients_that_no_longer_wait_take_no_memory() {
        let engine: &'static Engine = Box::leak(Box::new(Engine::new(&Parts::default(), CommandTable::new(FAMILIES))));
        let (mut client, mut other) = (LocalClient::new(engine), LocalClient::new(engine));
        let mut runner = Runner::new(engine, 0);
        let unblock = format!("CLIENT UNBLOCK {}\n", client.handle().id);
        for _ in 0..100 {
            assert_eq!(client.send(&mut runner, b"WAIT 1 0\n"), State::Waits);
            assert_eq!(other.run(&mut runner, &unblock), b":1\r\n");
            assert_eq!(client.go_on(&mut runner), State::Idle);
            assert_eq!(client.take_replies(), b":0\r\n");
        }
        assert!(engine.replication.waits.all.lock().len() < 10);
    }
}

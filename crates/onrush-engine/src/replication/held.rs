//! Connections whose replies wait until replicas have what they wrote (`durability-replicas`, CLIENT DURABILITY).
//!
//! As with the disk, the connection goes on executing, and one acknowledgement of a replica lets the replies of all
//! connections go that waited for it. A connection waits for one place at a time: that of the oldest replies.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use super::Replication;
use crate::clients::client::ClientHandle;
use crate::ranked::Ranked;

/// A connection that waits.
struct Waiting {
    /// When it has waited too long; `None`: never.
    until: Option<Instant>,
    client: Weak<ClientHandle>,
}

type Queues = BTreeMap<u32, BinaryHeap<Reverse<Ranked<u64, Waiting>>>>;

/// See the module's text.
#[derive(Default)]
pub struct Held {
    /// By the number of replicas that they wait for, and by the record.
    queues: Mutex<Queues>,
    len: AtomicUsize,
    /// `durability-replicas`: what connections wait for that have not said anything else.
    by_default: AtomicU32,
    /// `durability-replicas-timeout` in milliseconds; 0: none.
    timeout_ms: AtomicU64,
    /// Up to this record nobody can say any more that replicas have what was written: this server was no primary since.
    lost_lsn: AtomicU64,
}

/// What a connection finds when it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Replicas have it.
    Has,
    /// It will be woken.
    Waits,
    /// It will never be known.
    IsLost,
}

impl Held {
    /// Sets `durability-replicas` and `durability-replicas-timeout`.
    pub fn set(&self, by_default: u32, timeout_ms: u64) {
        self.by_default.store(by_default, Relaxed);
        self.timeout_ms.store(timeout_ms, Relaxed);
    }

    /// How many replicas a connection waits for that has not said anything else.
    #[inline]
    pub fn by_default(&self) -> u32 {
        self.by_default.load(Relaxed)
    }

    /// How long replies wait, in milliseconds; 0: for ever.
    pub fn timeout_ms(&self) -> u64 {
        self.timeout_ms.load(Relaxed)
    }

    /// Whether no connection waits.
    pub fn is_empty(&self) -> bool {
        self.len.load(Relaxed) == 0
    }

    /// Whether so many replicas have executed all up to a record.
    pub fn has(replication: &Replication, replicas: u32, lsn: u64) -> bool {
        lsn == 0 || !replication.held.has_lost(lsn) && Self::is_acknowledged(replication, replicas, lsn)
    }

    /// Whether it will never be known who has this record.
    pub fn has_lost(&self, lsn: u64) -> bool {
        lsn <= self.lost_lsn.load(Acquire)
    }

    fn is_acknowledged(replication: &Replication, replicas: u32, lsn: u64) -> bool {
        let offset = replication.attached.acknowledged_by(replicas as usize);
        offset.is_some_and(|offset| replication.history.lsn_at(offset) >= lsn)
    }

    /// Wakes a connection when so many replicas have executed all up to a record, or when it has waited too long.
    pub fn wake_at(replication: &Replication, replicas: u32, lsn: u64, client: &Arc<ClientHandle>) -> Look {
        let held = &replication.held;
        client.waits_for_replicas.store(true, Release);
        let timeout_ms = held.timeout_ms();
        let until = (timeout_ms > 0).then(|| Instant::now() + Duration::from_millis(timeout_ms));
        {
            let mut queues = held.queues.lock();
            if held.has_lost(lsn) {
                client.waits_for_replicas.store(false, Release);
                client.lacks_replicas.store(true, Release);
                return Look::IsLost;
            }
            let waiting = Ranked { rank: lsn, what: Waiting { until, client: Arc::downgrade(client) } };
            queues.entry(replicas).or_default().push(Reverse(waiting));
            held.len.fetch_add(1, Relaxed);
        }
        // An acknowledgement may have come before it was there.
        if Self::has(replication, replicas, lsn) {
            client.waits_for_replicas.store(false, Release);
            return Look::Has;
        }
        replication.waits.ask(lsn);
        if !replication.attached.all_tell() {
            // Some have to be asked.
            replication.wake();
        }
        Look::Waits
    }

    /// Wakes the connections whose replies may go. O(log n) for each.
    pub fn look(&self, replication: &Replication) {
        if self.is_empty() {
            return;
        }
        let mut woken = Vec::new();
        let mut queues = self.queues.lock();
        for (replicas, queue) in queues.iter_mut() {
            let Some(offset) = replication.attached.acknowledged_by(*replicas as usize) else { continue };
            let lsn = replication.history.lsn_at(offset);
            while queue.peek().is_some_and(|Reverse(first)| first.rank <= lsn) {
                woken.extend(queue.pop().map(|Reverse(first)| first.what.client));
            }
        }
        self.give_back(queues);
        for client in woken.iter().filter_map(Weak::upgrade) {
            client.waits_for_replicas.store(false, Release);
            client.wake();
        }
    }

    /// Some connections do not wait any more.
    fn give_back(&self, mut queues: MutexGuard<'_, Queues>) {
        queues.retain(|_, queue| !queue.is_empty());
        self.len.store(queues.values().map(BinaryHeap::len).sum(), Relaxed);
    }

    /// Wakes the connections that have waited too long by now: their replies never go.
    pub fn give_up(&self, now: Instant) {
        if self.is_empty() {
            return;
        }
        self.fail(|waiting| waiting.until.is_some_and(|until| until <= now));
    }

    /// This server is about to be a replica: replies that tell of records up to this one never go. The caller has the whole
    /// keyspace, and calls this before the role shows, so that nobody takes such a record for the primary's business.
    pub fn lose(&self, last_lsn: u64) {
        let _queues = self.queues.lock();
        self.lost_lsn.fetch_max(last_lsn, AcqRel);
    }

    /// Wakes all connections, whose replies never go, behind [`Held::lose`].
    pub fn give_all_up(&self) {
        self.fail(|_| true);
    }

    fn fail(&self, mut fails: impl FnMut(&Waiting) -> bool) {
        let mut failed = Vec::new();
        let mut queues = self.queues.lock();
        for queue in queues.values_mut() {
            queue.retain(|Reverse(Ranked { what: waiting, .. })| {
                let Some(client) = waiting.client.upgrade() else { return false };
                // One that has been woken before is not there a second time.
                let waits = client.waits_for_replicas.load(Acquire);
                let is_over = waits && fails(waiting);
                if is_over {
                    failed.push(client);
                }
                waits && !is_over
            });
        }
        self.give_back(queues);
        for client in failed {
            client.lacks_replicas.store(true, Release);
            client.waits_for_replicas.store(false, Release);
            client.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replication::attached::{Phase, Replica};
    use crate::replication::introduction::Introduction;
    use crate::users::user::User;

    fn client() -> Arc<ClientHandle> {
        Arc::new(ClientHandle::new(1, String::new(), String::new(), -1, true, 0, User::server()))
    }

    #[test]
    fn replies_go_when_so_many_replicas_have_what_they_report() {
        let replication = Replication::new("a".repeat(40));
        replication.history.keep(true);
        for lsn in 1..=10 {
            replication.history.append(b"0123456789", Some(lsn));
        }
        let replicas = [0, 1].map(|_| Arc::new(Replica::new(client(), Introduction::default(), 0)));
        replicas.iter().for_each(|replica| {
            replication.attached.add(replica);
            replica.set_phase(Phase::Online);
        });
        let clients = [(1, 3), (2, 3), (1, 9)].map(|(count, lsn)| {
            let client = client();
            assert_eq!(Held::wake_at(&replication, count, lsn, &client), Look::Waits);
            client
        });
        let waits = || clients.each_ref().map(|client| client.waits_for_replicas.load(Acquire));
        let acknowledge = |nth: usize, offset| {
            replicas[nth].acknowledge(offset, None, 0);
            replication.held.look(&replication);
        };
        acknowledge(0, 29);
        assert_eq!(waits(), [true; 3]);
        acknowledge(0, 30);
        assert_eq!(waits(), [false, true, true]);
        acknowledge(1, 100);
        assert_eq!(waits(), [false; 3]);
        assert!(replication.held.is_empty());
        assert_eq!(Held::wake_at(&replication, 1, 10, &client()), Look::Has);
        let (late, gone) = (client(), client());
        replication.held.set(0, 1);
        assert_eq!(Held::wake_at(&replication, 2, 5, &late), Look::Waits);
        assert_eq!(Held::wake_at(&replication, 3, 1, &gone), Look::Waits);
        drop(gone);
        let woken_before = client();
        replication.held.lose(7);
        replication.held.give_all_up();
        assert!(late.lacks_replicas.swap(false, Acquire));
        assert_eq!(Held::wake_at(&replication, 1, 7, &woken_before), Look::IsLost, "the server was no primary since");
        assert!(woken_before.lacks_replicas.load(Acquire) && !Held::has(&replication, 1, 7));
        assert_eq!(Held::wake_at(&replication, 1, 10, &client()), Look::Has);
        assert_eq!(Held::wake_at(&replication, 2, 10, &late), Look::Waits);
        replication.held.give_up(Instant::now() + Duration::from_secs(1));
        assert!(late.lacks_replicas.load(Acquire) && !late.waits_for_replicas.load(Acquire));
        assert!(replication.held.is_empty());
    }
}

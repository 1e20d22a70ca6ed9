//! Connections that wait until writes are on the disk.
//!
//! A follower of the command log reports up to which LSN everything is durable ([`Durability::advance`]). This wakes,
//! once, each connection whose replies wait for an LSN up to that; whole batches of connections go on at a time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};

use crate::client::ClientHandle;

/// What a connection wants of its writes (CLIENT DURABILITY).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// What the server is configured to do (`appendfsync`).
    #[default]
    Default,
    /// Replies come when everything they report is durable.
    Always,
    /// Replies come at once; what they report is durable about a second later.
    EverySecond,
    /// Replies come at once.
    No,
}

/// Asks for everything up to an LSN to be made durable.
pub type Ask = Box<dyn Fn(u64) + Send + Sync>;

/// What is called when an LSN is durable.
pub type Wake = Box<dyn FnOnce() + Send>;

/// Returns whether anything still waits for the call.
pub type IsWanted = Box<dyn Fn() -> bool + Send>;

/// From this many on, entries that no longer wait are looked for and removed.
const LOOK_MIN: usize = 1024;

/// See the module's text.
#[derive(Default)]
pub struct Durability {
    is_on: AtomicBool,
    is_always: AtomicBool,
    durable: AtomicU64,
    /// Whether a connection wants its writes to be durable about a second later.
    is_due: AtomicBool,
    ask: RwLock<Option<Ask>>,
    waiting: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    heap: BinaryHeap<Reverse<Waiting>>,
    /// How many were waiting at the last look.
    looked_len: usize,
}

impl Queue {
    /// Adds one. While the disk fails no entry is removed by progress, so this removes entries that no longer wait from
    /// time to time. O(log n) on average.
    fn push(&mut self, waiting: Waiting) {
        if self.heap.len() >= LOOK_MIN.max(2 * self.looked_len) {
            self.heap.retain(|Reverse(waiting)| waiting.who.waits());
            self.looked_len = self.heap.len();
        }
        self.heap.push(Reverse(waiting));
    }
}

struct Waiting {
    lsn: u64,
    who: Who,
}

enum Who {
    Connection(Weak<ClientHandle>),
    Other(Wake, IsWanted),
}

impl Who {
    fn waits(&self) -> bool {
        match self {
            Who::Connection(client) => client.strong_count() > 0,
            Who::Other(_, is_wanted) => is_wanted(),
        }
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.lsn == other.lsn
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        self.lsn.cmp(&other.lsn)
    }
}

impl Durability {
    /// Whether writes are made durable at all.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Whether the replies of a connection with this wish wait for the disk.
    #[inline]
    pub fn holds(&self, wish: Wish) -> bool {
        self.is_on() && self.holds_for(wish)
    }

    #[cold]
    fn holds_for(&self, wish: Wish) -> bool {
        match wish {
            Wish::Default => self.is_always.load(Relaxed),
            Wish::Always => true,
            Wish::EverySecond => {
                self.is_due.store(true, Relaxed);
                false
            }
            Wish::No => false,
        }
    }

    /// Whether, since the last call, a connection has wanted writes to be durable about a second later.
    pub fn take_due(&self) -> bool {
        self.is_due.swap(false, Relaxed)
    }

    /// Sets whether replies wait for the disk by default (`appendfsync always`).
    pub fn set_always(&self, is_always: bool) {
        self.is_always.store(is_always, Relaxed);
    }

    /// Writes will be made durable; those up to `lsn` are. Any thread may call `ask`, which must not wait.
    /// [`Durability::advance`] must not be called before this.
    pub fn prepare(&self, lsn: u64, ask: Ask) {
        *self.ask.write() = Some(ask);
        self.durable.store(lsn, Release);
    }

    /// Writes are made durable from here on.
    pub fn turn_on(&self) {
        self.is_on.store(true, Relaxed);
    }

    /// Asks for everything up to an LSN to be made durable.
    pub fn ask(&self, lsn: u64) {
        if let Some(ask) = &*self.ask.read() {
            ask(lsn);
        }
    }

    /// Nothing is made durable any more, so nothing waits for it.
    pub fn turn_off(&self) {
        self.is_on.store(false, Relaxed);
        *self.ask.write() = None;
        self.advance(u64::MAX);
    }

    /// The LSN up to which everything is durable.
    #[inline]
    pub fn durable_lsn(&self) -> u64 {
        self.durable.load(Acquire)
    }

    /// Everything up to this LSN is durable: wakes the connections that wait for it.
    pub fn advance(&self, lsn: u64) {
        self.durable.fetch_max(lsn, AcqRel);
        let mut woken = Vec::new();
        let mut waiting = self.waiting.lock();
        while let Some(Reverse(first)) = waiting.heap.peek()
            && first.lsn <= lsn
        {
            woken.extend(waiting.heap.pop().map(|Reverse(first)| first.who));
        }
        drop(waiting);
        for who in woken {
            match who {
                Who::Connection(client) => {
                    if let Some(client) = client.upgrade() {
                        client.wake();
                    }
                }
                Who::Other(wake, _) => wake(),
            }
        }
    }

    /// Wakes a connection when an LSN is durable; returns false if it already is.
    pub fn wake_at(&self, lsn: u64, client: &Arc<ClientHandle>) -> bool {
        self.add(lsn, || Who::Connection(Arc::downgrade(client)))
    }

    /// Calls a function when an LSN is durable; returns false, without the call, if it already is. Once `is_wanted`
    /// returns false, the call may be left out.
    pub fn call_at(&self, lsn: u64, wake: Wake, is_wanted: IsWanted) -> bool {
        self.add(lsn, || Who::Other(wake, is_wanted))
    }

    fn add(&self, lsn: u64, who: impl FnOnce() -> Who) -> bool {
        let mut waiting = self.waiting.lock();
        if self.durable_lsn() >= lsn {
            return false;
        }
        waiting.push(Waiting { lsn, who: who() });
        drop(waiting);
        self.ask(lsn);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_called_once_its_lsn_is_durable() {
        let durability = Durability::default();
        assert!(!durability.holds(Wish::Always));
        let asked = Arc::new(AtomicU64::new(0));
        let ask = Arc::clone(&asked);
        durability.prepare(5, Box::new(move |lsn| _ = ask.fetch_max(lsn, AcqRel)));
        assert!(!durability.holds(Wish::Always));
        durability.turn_on();
        assert!(durability.holds(Wish::Always) && !durability.holds(Wish::Default) && !durability.holds(Wish::No));
        durability.set_always(true);
        assert!(durability.holds(Wish::Default));
        let called = Arc::new(Mutex::new(Vec::new()));
        let wake = |lsn: u64| {
            let called = Arc::clone(&called);
            durability.call_at(lsn, Box::new(move || called.lock().push(lsn)), Box::new(|| true))
        };
        assert!(!wake(5));
        assert!(wake(9) && wake(7) && wake(8));
        assert_eq!(asked.load(Acquire), 9);
        durability.advance(6);
        assert!(called.lock().is_empty());
        durability.advance(8);
        assert_eq!(*called.lock(), [7, 8]);
        durability.turn_off();
        assert_eq!(*called.lock(), [7, 8, 9]);
        assert!(!durability.holds(Wish::Always));
    }

    #[test]
    fn who_has_gone_is_forgotten_though_the_disk_fails() {
        let durability = Durability::default();
        durability.prepare(0, Box::new(|_| {}));
        durability.turn_on();
        let called = Arc::new(AtomicU64::new(0));
        for n in 0..100_000 {
            let called = Arc::clone(&called);
            let is_wanted = n % 1000 == 0;
            assert!(durability.call_at(
                n + 1,
                Box::new(move || _ = called.fetch_add(1, AcqRel)),
                Box::new(move || is_wanted)
            ));
        }
        assert!(durability.waiting.lock().heap.len() < 3 * LOOK_MIN);
        durability.advance(200_000);
        assert!((100..3 * LOOK_MIN as u64).contains(&called.load(Acquire)));
    }
}

//! Connections that wait until writes are on the disk.
//!
//! A follower of the command log reports up to which LSN everything is durable ([`Durability::advance`]). This wakes,
//! once, each connection whose replies wait for an LSN up to that; whole batches of connections go on at a time.
//!
//! While the log is late (`CommandLog::is_late`), replies to writes wait until
//! these are in the file, that is, until the system has them, so that only little is lost if the process is killed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};

use crate::clients::client::ClientHandle;
use crate::ranked::Ranked;
use crate::settings::set_bits;

/// What a connection wants of its writes (CLIENT DURABILITY). A greater one promises more, whatever `appendfsync` is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
    /// Replies come at once.
    No,
    /// Replies come at once; what they report is durable about a second later.
    EverySecond,
    /// What the server is configured to do (`appendfsync`).
    #[default]
    Default,
    /// Replies come when everything they report is durable.
    Always,
}

/// What replies wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The file has it: it survives the end of the process.
    Written,
    /// The medium has it: it survives a loss of power.
    Durable,
}

/// Asks for everything up to an LSN to be made durable.
pub type Ask = Box<dyn Fn(u64) + Send + Sync>;

/// What is called when an LSN is durable.
pub type Wake = Box<dyn FnOnce() + Send>;

/// Returns whether anything still waits for the call.
pub(crate) type IsWanted = Box<dyn Fn() -> bool + Send>;

/// From this many on, entries that no longer wait are looked for and removed.
const LOOK_MIN: usize = 1024;

/// Bits of [`Durability::mode`]: writes are made durable; by default replies wait for that; the log lags behind; the disk
/// fails; the log has no base yet, without which none of it counts; the log gets no more records; no reply is sent any more.
const ON: u8 = 1;
const ALWAYS: u8 = 2;
const LATE: u8 = 4;
const FAILS: u8 = 8;
const LACKS_BASE: u8 = 16;
const ENDS: u8 = 32;
const SILENT: u8 = 64;
/// Replies of some connections wait for replicas.
const REPLICAS: u8 = 128;

/// See the module's text.
#[derive(Default)]
pub struct Durability {
    mode: AtomicU8,
    durable: AtomicU64,
    /// Up to this LSN everything is in the file, or need not wait for it.
    written: AtomicU64,
    /// Up to this LSN, what is not durable will never be: there is no log any more.
    given_up: AtomicU64,
    /// Whether a connection wants its writes to be durable about a second later.
    is_due: AtomicBool,
    /// Whether a connection has ever wanted [`Wish::Always`].
    is_wanted: AtomicBool,
    ask: RwLock<Option<Ask>>,
    for_durable: Mutex<Queue>,
    for_written: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// By the LSNs that they wait for.
    heap: BinaryHeap<Reverse<Ranked<u64, Who>>>,
    /// How many were waiting at the last look.
    looked_len: usize,
}

impl Queue {
    /// Adds one. While the disk fails no entry is removed by progress, so this removes entries that no longer wait from
    /// time to time. O(log n) on average.
    fn push(&mut self, lsn: u64, who: Who) {
        if self.heap.len() >= LOOK_MIN.max(2 * self.looked_len) {
            self.heap.retain(|Reverse(waiting)| waiting.what.waits());
            self.looked_len = self.heap.len();
        }
        self.heap.push(Reverse(Ranked { rank: lsn, what: who }));
    }

    /// Takes out those that wait for an LSN up to `lsn`.
    fn take_until(&mut self, lsn: u64) -> Vec<Who> {
        let mut taken = Vec::new();
        while let Some(Reverse(first)) = self.heap.peek()
            && first.rank <= lsn
        {
            taken.extend(self.heap.pop().map(|Reverse(first)| first.what));
        }
        taken
    }
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

impl Durability {
    /// Whether new writes are made durable at all.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.mode.load(Relaxed) & (ON | ENDS) == ON
    }

    /// Whether any replies of a connection with this wish may have to wait for the log.
    #[inline]
    pub fn delays(&self, wish: Wish) -> bool {
        let mode = self.mode.load(Relaxed);
        mode & (ON | SILENT | REPLICAS) != 0 && (mode != ON || wish != Wish::Default) && self.delays_in(mode, wish)
    }

    #[cold]
    fn delays_in(&self, mode: u8, wish: Wish) -> bool {
        if wish == Wish::EverySecond {
            self.is_due.store(true, Relaxed);
        }
        mode & REPLICAS != 0 || self.delays_for_disk(wish)
    }

    /// Whether any replies of a connection with this wish may have to wait for the disk.
    pub fn delays_for_disk(&self, wish: Wish) -> bool {
        let mode = self.mode.load(Relaxed);
        let is_late = mode & (ON | LATE | FAILS) == ON | LATE && wish != Wish::No;
        self.is_silent() || self.holds(wish) || is_late
    }

    /// Whether replies of some connections may have to wait for replicas.
    pub fn may_wait_for_replicas(&self) -> bool {
        self.mode.load(Relaxed) & REPLICAS != 0
    }

    /// From here on replies of some connections may have to wait for replicas.
    pub fn note_replicas(&self) {
        self.set_mode(REPLICAS, true);
    }

    /// Whether the replies of a connection with this wish wait until everything is durable.
    #[inline]
    pub fn holds(&self, wish: Wish) -> bool {
        let mode = self.mode.load(Relaxed);
        let wants = wish == Wish::Always || mode & ALWAYS != 0 && wish == Wish::Default;
        wants && mode & ON != 0
    }

    /// Whether, since the last call, a connection has wanted writes to be durable about a second later.
    pub fn take_due(&self) -> bool {
        self.is_due.swap(false, Relaxed)
    }

    /// From here on no reply is sent: the process ends, and what commands do now may be lost. For good.
    pub fn silence(&self) {
        self.set_mode(SILENT, true);
    }

    /// See [`Durability::silence`].
    pub fn is_silent(&self) -> bool {
        self.mode.load(Relaxed) & SILENT != 0
    }

    fn set_mode(&self, bit: u8, is_set: bool) {
        set_bits(&self.mode, bit, is_set);
    }

    /// Sets whether replies wait for the disk by default (`appendfsync always`).
    pub fn set_always(&self, is_always: bool) {
        self.set_mode(ALWAYS, is_always);
    }

    /// Whether replies wait until their writes are on the disk, which works.
    pub fn is_always(&self) -> bool {
        self.mode.load(Relaxed) & (ON | ALWAYS | FAILS | LACKS_BASE | ENDS) == ON | ALWAYS
    }

    /// Sets whether the log lags behind: then replies to writes wait until these are in the file.
    pub fn set_late(&self, is_late: bool) {
        if (self.mode.load(Relaxed) & LATE != 0) != is_late {
            self.set_mode(LATE, is_late);
        }
    }

    /// Sets whether the disk fails. No reply waits for the file then, as that may take for ever; new writes are refused.
    /// `last_lsn`: the newest record.
    pub fn set_failing(&self, fails: bool, last_lsn: u64) {
        self.set_mode(FAILS, fails);
        if fails {
            self.written.fetch_max(last_lsn, AcqRel);
            // Also who waits for one that is newer by now: `add` takes in no more.
            wake_up_to(&self.for_written, u64::MAX);
        }
    }

    /// A connection wants [`Wish::Always`].
    pub(crate) fn want(&self) {
        self.is_wanted.store(true, Relaxed);
    }

    /// Whether a connection has ever wanted [`Wish::Always`].
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Relaxed)
    }

    /// Writes will be made durable; those up to `lsn` are, if the log has a base. Any thread may call `ask`, which must not
    /// wait. [`Durability::advance`] must not be called before this.
    pub fn prepare(&self, lsn: u64, has_base: bool, ask: Ask) {
        self.set_mode(LACKS_BASE, !has_base);
        *self.ask.write() = Some(ask);
        self.durable.store(lsn, Release);
        self.written.store(lsn, Release);
    }

    /// Writes are made durable from here on.
    pub fn turn_on(&self) {
        self.set_mode(ON, true);
    }

    /// The log has its base.
    pub fn note_base(&self) {
        self.set_mode(LACKS_BASE, false);
        self.advance(self.durable_lsn());
    }

    /// Asks for everything up to an LSN to be made durable.
    pub fn ask(&self, lsn: u64) {
        if let Some(ask) = &*self.ask.read() {
            ask(lsn);
        }
    }

    /// No more writes will be made durable. Replies to those up to now still wait for that.
    pub fn begin_end(&self) {
        self.set_mode(ENDS, true);
    }

    /// Nothing is made durable any more. What was recorded up to now either is durable, or, with `is_lost`, never will be:
    /// [`Durability::has_given_up`].
    pub fn turn_off(&self, last_lsn: u64, is_lost: bool) {
        self.mode.fetch_and(SILENT | REPLICAS, Relaxed);
        *self.ask.write() = None;
        if is_lost {
            self.given_up.store(last_lsn, Release);
            wake_up_to(&self.for_durable, u64::MAX);
            wake_up_to(&self.for_written, u64::MAX);
        } else {
            self.advance(u64::MAX);
        }
    }

    /// Whether replies that wait for this LSN wait in vain.
    pub fn has_given_up(&self, lsn: u64) -> bool {
        lsn <= self.given_up.load(Acquire) && lsn > self.durable_lsn()
    }

    /// The LSN up to which everything is durable.
    #[inline]
    pub fn durable_lsn(&self) -> u64 {
        self.durable.load(Acquire)
    }

    /// Whether everything up to an LSN has come to a level, or need not wait for it any more.
    pub fn has(&self, level: Level, lsn: u64) -> bool {
        match level {
            Level::Durable => self.durable_lsn() >= lsn && self.mode.load(Relaxed) & LACKS_BASE == 0,
            Level::Written => {
                self.written.load(Acquire).max(self.durable_lsn()) >= lsn || self.mode.load(Relaxed) & FAILS != 0
            }
        }
    }

    /// Everything up to this LSN is durable: wakes the connections that wait for it.
    pub fn advance(&self, lsn: u64) {
        self.durable.fetch_max(lsn, AcqRel);
        if self.mode.load(Relaxed) & LACKS_BASE == 0 {
            wake_up_to(&self.for_durable, lsn);
        }
        self.advance_written(lsn);
    }

    /// Everything up to this LSN is in the file: wakes the connections that wait for it.
    pub fn advance_written(&self, lsn: u64) {
        self.written.fetch_max(lsn, AcqRel);
        wake_up_to(&self.for_written, lsn);
    }

    /// Wakes a connection when an LSN has come to a level; returns false if it already has. Until then
    /// [`ClientHandle::waits_for_log`] is set. Who is woken looks again: the log may have been replaced meanwhile.
    pub fn wake_at(&self, level: Level, lsn: u64, client: &Arc<ClientHandle>) -> bool {
        self.add(level, lsn, || {
            client.waits_for_log.store(true, Relaxed);
            Who::Connection(Arc::downgrade(client))
        })
    }

    /// Calls a function when an LSN is durable, or will never be ([`Durability::has_given_up`]); returns false, without the
    /// call, if that is so already. Once `is_wanted`
    /// returns false, the call may be left out.
    pub(crate) fn call_at(&self, lsn: u64, wake: Wake, is_wanted: IsWanted) -> bool {
        self.add(Level::Durable, lsn, || Who::Other(wake, is_wanted))
    }

    fn add(&self, level: Level, lsn: u64, who: impl FnOnce() -> Who) -> bool {
        let queue = match level {
            Level::Durable => &self.for_durable,
            Level::Written => &self.for_written,
        };
        let mut waiting = queue.lock();
        let is_pointless = level == Level::Written && self.mode.load(Relaxed) & FAILS != 0;
        if is_pointless || self.has(level, lsn) || self.has_given_up(lsn) {
            return false;
        }
        waiting.push(lsn, who());
        drop(waiting);
        if level == Level::Durable {
            self.ask(lsn);
        }
        true
    }
}

/// Wakes who waits for an LSN up to this one. The queue is free again by then: who is woken may ask for more.
fn wake_up_to(queue: &Mutex<Queue>, lsn: u64) {
    let woken = queue.lock().take_until(lsn);
    for who in woken {
        match who {
            Who::Connection(client) => {
                if let Some(client) = client.upgrade() {
                    client.waits_for_log.store(false, Release);
                    client.wake();
                }
            }
            Who::Other(wake, _) => wake(),
        }
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
        durability.prepare(5, true, Box::new(move |lsn| _ = ask.fetch_max(lsn, AcqRel)));
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
        durability.turn_off(9, false);
        assert_eq!(*called.lock(), [7, 8, 9]);
        assert!(!durability.holds(Wish::Always));
    }

    #[test]
    fn replies_to_writes_wait_for_the_file_while_the_log_lags_but_not_for_a_disk_that_fails() {
        let durability = Durability::default();
        durability.prepare(5, true, Box::new(|_| {}));
        durability.turn_on();
        assert!(!durability.delays(Wish::Default));
        durability.set_late(true);
        assert!(durability.delays(Wish::Default) && !durability.holds(Wish::Default) && !durability.delays(Wish::No));
        assert!(durability.has(Level::Written, 5) && !durability.has(Level::Written, 6));
        durability.advance_written(6);
        assert!(durability.has(Level::Written, 6) && !durability.has(Level::Durable, 6));
        durability.set_failing(true, 7);
        assert!(!durability.delays(Wish::Default) && durability.has(Level::Written, 7));
        durability.set_failing(false, 7);
        assert!(durability.delays(Wish::EverySecond) && durability.take_due());
        durability.set_late(false);
        assert!(!durability.delays(Wish::Default));
    }

    #[test]
    fn who_waits_for_a_log_that_is_gone_learns_whether_its_writes_are_lost() {
        let durability = Durability::default();
        for (is_lost, last) in [(true, 9), (false, 20)] {
            durability.prepare(last - 5, true, Box::new(|_| {}));
            durability.turn_on();
            let called = Arc::new(AtomicBool::new(false));
            let wake = Arc::clone(&called);
            assert!(durability.call_at(last - 1, Box::new(move || wake.store(true, Relaxed)), Box::new(|| true)));
            durability.turn_off(last, is_lost);
            assert!(called.load(Relaxed));
            assert_eq!(durability.has_given_up(last - 1), is_lost);
            assert!(!durability.has_given_up(last + 1) && !durability.delays(Wish::Always));
        }
    }

    #[test]
    fn who_is_woken_and_finds_another_log_waits_for_that() {
        let durability = Durability::default();
        let client = Arc::new(ClientHandle::new(
            1,
            String::new(),
            String::new(),
            -1,
            true,
            0,
            crate::users::user::User::server(),
        ));
        let waits = || client.waits_for_log.load(Relaxed);
        durability.prepare(0, true, Box::new(|_| {}));
        durability.turn_on();
        assert!(durability.wake_at(Level::Durable, 5, &client) && waits());
        durability.turn_off(5, false);
        assert!(!waits());
        // Before it looks, the next log begins, which has no base yet.
        durability.prepare(5, false, Box::new(|_| {}));
        durability.turn_on();
        assert!(!durability.has(Level::Durable, 5));
        assert!(durability.wake_at(Level::Durable, 5, &client) && waits());
        durability.note_base();
        assert!(durability.has(Level::Durable, 5) && !waits());
    }

    #[test]
    fn who_has_gone_is_forgotten_though_the_disk_fails() {
        let durability = Durability::default();
        durability.prepare(0, true, Box::new(|_| {}));
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
        assert!(durability.for_durable.lock().heap.len() < 3 * LOOK_MIN);
        durability.advance(200_000);
        assert!((100..3 * LOOK_MIN as u64).contains(&called.load(Acquire)));
    }
}

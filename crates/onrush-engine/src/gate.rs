//! The gate between batches and what needs the whole keyspace.
//!
//! Every thread that touches the keyspace has a slot, a mutex of its own that no other thread normally wants: a batch
//! enters by locking its thread's slot, once. A thread that needs the whole keyspace draws a turn, waits for it, and locks
//! all slots, and so waits for the batches under way. It gives its own slot back before it asks for all slots, so two
//! such threads cannot wait for each other. It begins with the last slots, those of the threads that may hold theirs for
//! long: while it waits for one of these, workers come and go.
//!
//! Such a thread draws its turn before it gives its slot back, and turns come in the order in which they were drawn. So a
//! thread that has the whole keyspace and draws another turn has it again only when every command that wanted it before
//! is done: CLIENT PAUSE replies then. A turn that its thread no longer wants is passed over.
//!
//! A thread that waits to enter looks now and then whether it should, and may be late to wait again where processors are
//! scarce. So whoever comes next to a turn first lets those in that waited during the turn before.
//!
//! A thread that has waited too long for one that has the whole keyspace may mark that thread's turn as overdue. The mark
//! ends with the turn. Until then no thread waits that can do something else.
//!
//! `models` explores the interleavings of threads in here.

use std::collections::BTreeSet;
use std::mem::take;
use std::time::{Duration, Instant};

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use crate::sync::{Condvar, Mutex, MutexGuard, schedule};

/// How long a thread waits at the gate before it looks again whether it should.
const PATIENCE: Duration = Duration::from_millis(1);

/// For how long a thread whose turn has come lets others in first, at most: they need a processor for that.
const COURTESY_MAX: Duration = Duration::from_millis(50);

/// How often it looks whether they are in.
const COURTESY_LOOK: Duration = Duration::from_micros(50);

/// A slot on a cache line pair of its own.
#[repr(align(128))]
struct Slot {
    mutex: Mutex<()>,
    /// Whether its own thread waits to enter, and looks now and then whether it should. No other thread sets it.
    waits: AtomicBool,
}

impl Slot {
    #[inline]
    fn lock(&self) -> Entered<'_> {
        schedule::lock(&self.mutex, "a slot of the gate")
    }

    /// Locks it, but gives up soon after `gives_up` returns true.
    fn lock_unless(&self, gives_up: impl Fn() -> bool) -> Option<Entered<'_>> {
        let mut entered = self.mutex.try_lock();
        while entered.is_none() && !gives_up() {
            entered = self.mutex.try_lock_for(PATIENCE);
        }
        entered
    }

    /// As [`Slot::lock_unless`], for its own thread.
    #[cold]
    fn wait_unless(&self, gives_up: impl Fn() -> bool) -> Option<Entered<'_>> {
        self.waits.store(true, Relaxed);
        let entered = self.lock_unless(gives_up);
        self.waits.store(false, Relaxed);
        entered
    }
}

/// See the module's text.
pub struct Gate {
    slots: Box<[Slot]>,
    /// The next turn to be drawn.
    next: AtomicU64,
    /// The present turn, as in `now`.
    present: AtomicU64,
    /// The number behind the turn that was last marked as overdue; 0 if there was none.
    overdue: AtomicU64,
    now: Mutex<Now>,
    now_changed: Condvar,
}

#[derive(Default)]
struct Now {
    /// The present turn.
    turn: u64,
    /// Later turns that nobody wants any more.
    given_up: BTreeSet<u64>,
    /// Whether the thread whose turn it is has the whole keyspace; until then it may give the turn up.
    is_held: bool,
}

impl Now {
    /// Passes on to the next turn that is wanted.
    fn pass_on(&mut self) {
        self.is_held = false;
        self.turn += 1;
        while self.given_up.remove(&self.turn) {
            self.turn += 1;
        }
    }
}

/// Proof that a thread is in the keyspace together with others.
pub(crate) type Entered<'a> = MutexGuard<'a, ()>;

/// A place in the order of threads that want the whole keyspace. It must be used: later turns wait for it.
#[must_use]
pub struct Turn(u64);

/// Proof that a thread has the whole keyspace.
pub struct Exclusive<'a> {
    gate: &'a Gate,
    entered: Vec<Entered<'a>>,
}

impl Gate {
    /// A gate for threads numbered below `threads`.
    pub fn new(threads: usize) -> Self {
        let slots = (0..threads).map(|_| Slot { mutex: Mutex::new(()), waits: AtomicBool::new(false) }).collect();
        Self {
            slots,
            next: AtomicU64::new(0),
            present: AtomicU64::new(0),
            overdue: AtomicU64::new(0),
            now: Mutex::default(),
            now_changed: Condvar::new(),
        }
    }

    /// Enters shared as thread `thread`; waits while a thread has the whole keyspace.
    #[inline]
    pub fn enter(&self, thread: usize) -> Entered<'_> {
        self.slots[thread].lock()
    }

    /// As [`Gate::enter`], but gives up soon after `gives_up` returns true.
    #[inline]
    pub fn enter_unless(&self, thread: usize, gives_up: impl Fn() -> bool) -> Option<Entered<'_>> {
        if schedule::is_simulated() {
            return Some(self.enter(thread));
        }
        let slot = &self.slots[thread];
        slot.mutex.try_lock().or_else(|| slot.wait_unless(gives_up))
    }

    /// Lets those in that have waited during the turn before. Nobody has the whole keyspace meanwhile.
    fn let_in(&self) {
        let waits = || self.slots.iter().any(|slot| slot.waits.load(Relaxed));
        if waits() {
            let began = Instant::now();
            while waits() && began.elapsed() < COURTESY_MAX {
                std::thread::sleep(COURTESY_LOOK);
            }
        }
    }

    /// Draws a turn. A thread that has entered draws it before it leaves.
    pub fn take_turn(&self) -> Turn {
        Turn(self.next.fetch_add(1, Relaxed))
    }

    /// Waits until all earlier turns are over and every thread has left. The caller must not have entered.
    pub fn exclusive(&self, turn: Turn) -> Exclusive<'_> {
        schedule::point();
        while schedule::is_simulated() && self.now.lock().turn != turn.0 {
            schedule::blocked("a turn at the gate");
        }
        self.now_changed.wait_while(&mut self.now.lock(), |now| now.turn != turn.0);
        self.let_in();
        self.hold(self.slots.iter().rev().map(Slot::lock).collect())
    }

    fn hold<'a>(&'a self, mut entered: Vec<Entered<'a>>) -> Exclusive<'a> {
        entered.reverse();
        self.now.lock().is_held = true;
        Exclusive { gate: self, entered }
    }

    /// As [`Gate::exclusive`], but gives up soon after `gives_up` returns true if it would have to wait then.
    pub fn exclusive_unless(&self, turn: Turn, gives_up: impl Fn() -> bool) -> Option<Exclusive<'_>> {
        if schedule::is_simulated() {
            return Some(self.exclusive(turn));
        }
        while self.now.lock().turn != turn.0 {
            // It is asked without a lock: whoever loses patience marks the present turn.
            let gives_up = gives_up();
            let mut now = self.now.lock();
            if now.turn == turn.0 {
                break;
            }
            if gives_up {
                now.given_up.insert(turn.0);
                return None;
            }
            self.now_changed.wait_for(&mut now, PATIENCE);
        }
        self.let_in();
        let slots = self.slots.iter().rev();
        let entered: Option<Vec<Entered<'_>>> = slots.map(|slot| slot.lock_unless(&gives_up)).collect();
        if entered.is_none() {
            self.pass_on();
        }
        entered.map(|entered| self.hold(entered))
    }

    /// The present turn, whether or not a thread has drawn it.
    pub(crate) fn present_turn(&self) -> u64 {
        self.present.load(Relaxed)
    }

    /// Marks a turn as overdue if it is still the present one, and its thread has the whole keyspace; returns whether it
    /// does, and was not marked before.
    pub(crate) fn mark_overdue(&self, turn: u64) -> bool {
        let now = self.now.lock();
        now.turn == turn && now.is_held && self.overdue.swap(turn + 1, Relaxed) != turn + 1
    }

    /// Whether the present turn is overdue.
    #[inline]
    pub(crate) fn is_overdue(&self) -> bool {
        self.overdue.load(Relaxed) == self.present_turn() + 1
    }

    /// Ends the present turn.
    fn pass_on(&self) {
        let mut now = self.now.lock();
        now.pass_on();
        self.present.store(now.turn, Relaxed);
        drop(now);
        self.now_changed.notify_all();
    }
}

impl<'a> Exclusive<'a> {
    /// Lets the other threads in again; thread `thread` stays inside without a gap.
    pub fn share(mut self, thread: usize) -> Entered<'a> {
        take(&mut self.entered).swap_remove(thread)
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        self.gate.pass_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    #[test]
    fn exclusive_excludes_every_thread_and_cannot_deadlock() {
        let gate = Gate::new(4);
        let inside = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (gate, inside) = (&gate, &inside);
                scope.spawn(move || {
                    for round in 0..2_000 {
                        if round % 7 == thread {
                            let turn = gate.take_turn();
                            let all = match round % 3 {
                                0 => gate.exclusive_unless(turn, || round % 2 == 0),
                                _ => Some(gate.exclusive(turn)),
                            };
                            let Some(all) = all else { continue };
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            inside.fetch_sub(1, Ordering::SeqCst);
                            let _entered = (round % 2 == 0).then(|| all.share(thread));
                        } else {
                            let _entered = gate.enter(thread);
                            inside.fetch_add(1, Ordering::SeqCst);
                            inside.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn a_thread_that_is_late_to_wait_enters_between_turns() {
        let gate = Gate::new(2);
        let (turns, has_entered) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            let mut all = gate.exclusive(gate.take_turn());
            scope.spawn(|| {
                // It waits for a moment at the beginning of each turn, and never at the end of one.
                let late = || {
                    let (before, began) = (turns.load(Ordering::SeqCst), Instant::now());
                    while turns.load(Ordering::SeqCst) == before && began.elapsed() < Duration::from_millis(40) {
                        std::thread::sleep(Duration::from_micros(100));
                    }
                    false
                };
                assert!(gate.enter_unless(0, late).is_some());
                has_entered.store(1, Ordering::SeqCst);
            });
            while has_entered.load(Ordering::SeqCst) == 0 && turns.load(Ordering::SeqCst) < 30 {
                std::thread::sleep(Duration::from_millis(15));
                let next = gate.take_turn();
                drop(all);
                all = match turns.fetch_add(1, Ordering::SeqCst) % 2 {
                    0 => gate.exclusive(next),
                    _ => gate.exclusive_unless(next, || false).expect("nobody gives up"),
                };
            }
            let turns = turns.load(Ordering::SeqCst);
            drop(all);
            assert!(turns < 10, "{turns}");
        });
    }

    #[test]
    fn turns_come_in_the_order_in_which_they_were_taken() {
        let gate = Gate::new(2);
        let turns = [gate.take_turn(), gate.take_turn(), gate.take_turn()];
        let done = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for (nth, turn) in turns.into_iter().enumerate().rev() {
                let (gate, done) = (&gate, &done);
                scope.spawn(move || {
                    let _all = gate.exclusive(turn);
                    done.lock().push(nth);
                });
            }
        });
        assert_eq!(done.into_inner(), [0, 1, 2]);
    }

    #[test]
    fn a_turn_that_is_given_up_is_passed_over() {
        let gate = Gate::new(2);
        let entered = gate.enter(1);
        assert!(gate.exclusive_unless(gate.take_turn(), || true).is_none(), "the present turn");
        drop(entered);
        let all = gate.exclusive(gate.take_turn());
        for _ in 0..3 {
            assert!(gate.exclusive_unless(gate.take_turn(), || true).is_none(), "a later turn");
        }
        drop(all);
        let started = Instant::now();
        let is_late = || started.elapsed() > Duration::from_secs(5);
        drop(gate.exclusive_unless(gate.take_turn(), is_late).expect("no earlier turn is waited for"));
        assert!(gate.now.lock().given_up.is_empty());
    }

    #[test]
    fn who_waits_for_a_turn_may_mark_the_present_one() {
        let gate = &Gate::new(3);
        std::thread::scope(|scope| {
            let all = gate.exclusive(gate.take_turn());
            let marks = || {
                gate.mark_overdue(gate.present_turn());
                false
            };
            let waits = scope.spawn(move || gate.exclusive_unless(gate.take_turn(), marks).is_some());
            while !gate.is_overdue() {
                std::thread::yield_now();
            }
            drop(all);
            assert!(waits.join().expect("it does not panic"));
        });
    }

    #[test]
    fn a_turn_is_overdue_until_it_ends() {
        let gate = Gate::new(2);
        assert!(!gate.is_overdue());
        let waiting = gate.take_turn();
        assert!(!gate.mark_overdue(gate.present_turn()), "nobody has the whole keyspace");
        let all = gate.exclusive(waiting);
        let turn = gate.present_turn();
        assert!(gate.mark_overdue(turn) && !gate.mark_overdue(turn), "the first one marks it");
        assert!(gate.is_overdue());
        drop(all);
        assert!(!gate.is_overdue());
        assert!(!gate.mark_overdue(turn), "it is over");
        let _all = gate.exclusive(gate.take_turn());
        assert!(!gate.is_overdue());
    }

    #[test]
    fn waiting_for_a_thread_that_takes_long_holds_up_no_other() {
        let gate = Gate::new(3);
        let long = gate.enter(2);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| drop(gate.exclusive(gate.take_turn())));
            let started = Instant::now();
            while started.elapsed() < Duration::from_millis(50) {
                assert!(gate.enter_unless(0, || true).is_some() && gate.enter_unless(1, || true).is_some());
            }
            drop(long);
            waiting.join().expect("it has had its turn");
        });
    }
}

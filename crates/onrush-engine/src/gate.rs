//! The gate between batches and what needs the whole keyspace.
//!
//! Every thread that touches the keyspace has a slot, a mutex of its own that no other thread normally wants: a batch
//! enters by locking its thread's slot, once. A thread that needs the whole keyspace locks all slots in ascending order
//! and so waits for the batches under way. It gives its own slot back before it asks for all slots, so two such threads
//! cannot wait for each other.
//!
//! Before such a thread gives its slot back it draws a turn, and turns come in the order in which they were drawn. So a
//! thread that has the whole keyspace and draws another turn has it again only when every command that wanted it before
//! is done: CLIENT PAUSE replies then.

use std::mem::take;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use onrush_store::schedule;
use parking_lot::{Condvar, Mutex, MutexGuard};

/// How long a thread waits at the gate before it looks again whether it should.
const PATIENCE: Duration = Duration::from_millis(5);

/// A slot on a cache line pair of its own.
#[repr(align(128))]
struct Slot(Mutex<()>);

impl Slot {
    #[inline]
    fn lock(&self) -> Entered<'_> {
        schedule::lock(&self.0, "a slot of the gate")
    }
}

/// See the module's text.
pub struct Gate {
    slots: Box<[Slot]>,
    /// The next turn to be drawn.
    next: AtomicU64,
    /// The present turn.
    now: Mutex<u64>,
    now_changed: Condvar,
}

/// Proof that a thread is in the keyspace together with others.
pub type Entered<'a> = MutexGuard<'a, ()>;

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
        let slots = (0..threads).map(|_| Slot(Mutex::new(()))).collect();
        Self { slots, next: AtomicU64::new(0), now: Mutex::new(0), now_changed: Condvar::new() }
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
        let slot = &self.slots[thread].0;
        let mut entered = slot.try_lock();
        while entered.is_none() && !gives_up() {
            entered = slot.try_lock_for(PATIENCE);
        }
        entered
    }

    /// Draws a turn. A thread that has entered draws it before it leaves.
    pub fn take_turn(&self) -> Turn {
        Turn(self.next.fetch_add(1, Relaxed))
    }

    /// Waits until all earlier turns are over and every thread has left. The caller must not have entered.
    pub fn exclusive(&self, turn: Turn) -> Exclusive<'_> {
        self.wait_for(&turn);
        Exclusive { gate: self, entered: self.slots.iter().map(Slot::lock).collect() }
    }

    /// As [`Gate::exclusive`], but gives up soon after `gives_up` returns true. Then the turn stays drawn: use this
    /// only at the end of a process.
    pub fn exclusive_unless(&self, turn: Turn, gives_up: impl Fn() -> bool) -> Option<Exclusive<'_>> {
        while !self.is_now(&turn) {
            if gives_up() {
                return None;
            }
            std::thread::sleep(PATIENCE);
        }
        let entered = (0..self.slots.len()).map(|thread| self.enter_unless(thread, &gives_up));
        Some(Exclusive { gate: self, entered: entered.collect::<Option<_>>()? })
    }

    fn wait_for(&self, turn: &Turn) {
        schedule::point();
        while schedule::is_simulated() && !self.is_now(turn) {
            schedule::blocked("a turn at the gate");
        }
        self.now_changed.wait_while(&mut self.now.lock(), |now| *now != turn.0);
    }

    fn is_now(&self, turn: &Turn) -> bool {
        *self.now.lock() == turn.0
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
        *self.gate.now.lock() += 1;
        self.gate.now_changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

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
                            let all = gate.exclusive(gate.take_turn());
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
}

//! The gate between batches and what needs the whole keyspace.
//!
//! Every thread that touches the keyspace has a slot, a mutex of its own that nobody else wants in normal times:
//! a batch enters by locking its thread's slot, once. Whoever needs the keyspace for itself locks all slots in
//! ascending order and so waits for the batches under way. A thread gives its own slot back before it asks for
//! all of them, so two of them cannot wait for each other.

use parking_lot::{Mutex, MutexGuard};

/// A slot on a cache line pair of its own.
#[repr(align(128))]
struct Slot(Mutex<()>);

/// See the module's text.
pub struct Gate {
    slots: Box<[Slot]>,
}

/// Proof that a thread is in the keyspace together with others.
pub type Entered<'a> = MutexGuard<'a, ()>;

/// Proof that a thread has the keyspace for itself.
pub struct Exclusive<'a>(#[allow(dead_code, reason = "held for its drop")] Vec<MutexGuard<'a, ()>>);

impl Gate {
    /// A gate for threads numbered below `threads`.
    pub fn new(threads: usize) -> Self {
        Self { slots: (0..threads).map(|_| Slot(Mutex::new(()))).collect() }
    }

    /// Enters shared as thread `thread`; waits while somebody has the keyspace for himself.
    #[inline]
    pub fn enter(&self, thread: usize) -> Entered<'_> {
        self.slots[thread].0.lock()
    }

    /// Waits until every thread has left. The caller must not have entered.
    pub fn exclusive(&self) -> Exclusive<'_> {
        Exclusive(self.slots.iter().map(|slot| slot.0.lock()).collect())
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
                            let _all = gate.exclusive();
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            inside.fetch_sub(1, Ordering::SeqCst);
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
}

//! The lock of a shard: one thread at a time, which sees what the threads before it have done.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU8;
use loom::thread;

use super::byte::{FREE, LockByte};

/// A counter behind the lock. Loom fails when two threads are at it without one happening before the other.
struct Shard {
    lock: LockByte,
    changes: UnsafeCell<usize>,
}

impl Shard {
    fn new() -> Arc<Self> {
        Arc::new(Self { lock: LockByte(AtomicU8::new(FREE)), changes: UnsafeCell::new(0) })
    }

    /// A change by the thread that holds the lock.
    fn change(&self) -> usize {
        self.changes.with_mut(|changes| {
            // SAFETY: loom hands out the pointer only while nobody else has it.
            unsafe {
                *changes += 1;
                *changes
            }
        })
    }

    fn change_locked(&self) {
        self.lock.lock();
        self.change();
        self.lock.unlock();
    }
}

/// `threads` threads change the same shard.
pub fn one_thread_at_a_time(threads: usize) {
    let shard = Shard::new();
    let others: Vec<_> = (1..threads)
        .map(|_| {
            let shard = Arc::clone(&shard);
            thread::spawn(move || shard.change_locked())
        })
        .collect();
    shard.change_locked();
    others.into_iter().for_each(|other| other.join().unwrap());
    shard.lock.lock();
    assert_eq!(shard.change(), threads + 1, "no change is lost");
}

/// One thread holds the lock for long, the other gives up when it sees that, or gets the lock. The mark ends with the
/// lock.
pub fn only_a_long_holder_is_not_waited_for() {
    let shard = Shard::new();
    let long = Arc::clone(&shard);
    let holder = thread::spawn(move || {
        long.lock.lock();
        long.lock.mark_long();
        long.change();
        long.lock.unlock();
    });
    if shard.lock.lock_unless_long() {
        shard.change();
        shard.lock.unlock();
    }
    holder.join().unwrap();
    assert!(!shard.lock.is_held_long());
    assert!(shard.lock.lock_unless_long(), "it is free");
    shard.change();
}

/// A thread that only tries either has the lock or has done nothing.
pub fn a_try_never_waits() {
    let shard = Shard::new();
    let other = Arc::clone(&shard);
    let tries = thread::spawn(move || {
        let took = other.lock.try_lock();
        if took {
            other.change();
            other.lock.unlock();
        }
        usize::from(took)
    });
    shard.change_locked();
    let tried = tries.join().unwrap();
    assert!(shard.lock.try_lock());
    assert_eq!(shard.change(), 2 + tried);
}

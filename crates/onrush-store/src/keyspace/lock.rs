//! The lock of a shard.
//!
//! A mutex of one byte that is released by a plain store: on the hot path, where a shard is locked twice per command
//! and nearly always free, a second locked instruction would double the cost. So it has no list of waiters. A thread
//! that finds it taken spins for a moment, since a command mostly takes less than a microsecond, then lets other
//! threads run, then sleeps in short steps.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use parking_lot::lock_api::{GuardNoSend, RawMutex};

use crate::keyspace::schedule;

/// Looks at the lock before a waiting thread lets others run, and before it sleeps.
const SPINS_MAX: u32 = 200;
const YIELDS_MAX: u32 = 50;

/// How long a waiting thread sleeps between looks.
const SLEEP: Duration = Duration::from_micros(50);

/// A mutex over a table.
pub(crate) type Mutex<T> = parking_lot::lock_api::Mutex<ShardLock, T>;
pub(crate) type MutexGuard<'a, T> = parking_lot::lock_api::MutexGuard<'a, ShardLock, T>;

/// States of the lock.
const FREE: u8 = 0;
const HELD: u8 = 1;
/// Held by a thread that will take long: a thread that can do something else meanwhile should.
const HELD_LONG: u8 = 2;

/// See the module's text.
pub(crate) struct ShardLock(AtomicU8);

// SAFETY: only the caller that changed the byte from FREE to HELD has the lock, until it stores FREE. Nobody else changes it
// meanwhile but `mark_long`, which only the holder calls, to another state that is not FREE.
unsafe impl RawMutex for ShardLock {
    #[allow(clippy::declare_interior_mutable_const, reason = "the trait wants a value to start from")]
    const INIT: Self = Self(AtomicU8::new(FREE));

    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        schedule::point();
        if !self.try_lock() {
            self.wait();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.0.store(FREE, Ordering::Release);
        schedule::point();
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.0.load(Ordering::Relaxed) != FREE
    }
}

impl ShardLock {
    /// Says that the lock will be held for long. Only its holder calls this.
    pub(crate) fn mark_long(&self) {
        debug_assert!(self.is_locked());
        self.0.store(HELD_LONG, Ordering::Relaxed);
    }

    /// Whether the lock is held by a thread that will take long.
    #[inline(always)]
    pub(crate) fn is_held_long(&self) -> bool {
        self.0.load(Ordering::Relaxed) == HELD_LONG
    }

    /// Takes the lock, unless a thread that will take long has it or gets it first; returns whether it did.
    #[inline]
    pub(crate) fn lock_unless_long(&self) -> bool {
        schedule::point();
        self.try_lock() || self.wait_unless(Self::is_held_long)
    }

    /// Waits for the lock and takes it.
    #[cold]
    fn wait(&self) {
        self.wait_unless(|_| false);
    }

    /// Waits for the lock and takes it, unless `gives_up` returns true at some look; returns whether it took the lock.
    #[cold]
    fn wait_unless(&self, gives_up: impl Fn(&Self) -> bool) -> bool {
        let mut looks: u32 = 0;
        loop {
            if !self.is_locked() && self.try_lock() {
                return true;
            }
            if gives_up(self) {
                return false;
            }
            if schedule::blocked("a shard") {
                continue;
            }
            looks = looks.saturating_add(1);
            if looks < SPINS_MAX {
                std::hint::spin_loop();
            } else if looks < SPINS_MAX + YIELDS_MAX {
                std::thread::yield_now();
            } else {
                std::thread::sleep(SLEEP);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time_has_it() {
        let threads = if cfg!(miri) { 2 } else { 4 };
        let rounds = if cfg!(miri) { 50 } else { 50_000 };
        let counter = Mutex::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for round in 0..rounds {
                        let mut counter = counter.lock();
                        let before = *counter;
                        if round % 1_000 == 0 {
                            std::thread::yield_now();
                        }
                        *counter = before + 1;
                    }
                });
            }
        });
        assert_eq!(*counter.lock(), threads * rounds);
    }

    #[test]
    fn who_waits_long_gets_it_when_it_is_free_and_trying_never_waits() {
        let lock = Mutex::new(());
        let held = lock.lock();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| drop(lock.lock()));
            std::thread::sleep(Duration::from_millis(5));
            assert!(lock.try_lock().is_none());
            assert!(!waiting.is_finished());
            drop(held);
            waiting.join().expect("no panic");
        });
    }
}

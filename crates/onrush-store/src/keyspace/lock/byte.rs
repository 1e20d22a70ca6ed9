//! The byte of a shard's lock: who has the lock, and how threads wait for it. `models` explores its interleavings.

use std::time::Duration;

use crate::keyspace::schedule;
use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::{hint, thread};

/// Looks at the lock before a waiting thread lets others run, and before it sleeps.
const SPINS_MAX: u32 = 200;
const YIELDS_MAX: u32 = 1;

/// How long a waiting thread sleeps between looks.
const SLEEP: Duration = Duration::from_micros(50);

/// States of the lock.
pub(crate) const FREE: u8 = 0;
const HELD: u8 = 1;
/// Held by a thread that will take long: a thread that can do something else meanwhile should.
const HELD_LONG: u8 = 2;

/// The lock without what it protects. Whoever took it gives it back.
pub(crate) struct LockByte(pub(crate) AtomicU8);

impl LockByte {
    #[inline]
    pub(crate) fn lock(&self) {
        schedule::point();
        if !self.try_lock() {
            self.wait();
        }
    }

    #[inline]
    pub(crate) fn try_lock(&self) -> bool {
        self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Gives the lock back. Only its holder calls this.
    #[inline]
    pub(crate) fn unlock(&self) {
        self.0.store(FREE, Ordering::Release);
        schedule::point();
    }

    #[inline]
    pub(crate) fn is_locked(&self) -> bool {
        self.0.load(Ordering::Relaxed) != FREE
    }

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
                hint::spin_loop();
            } else if looks < SPINS_MAX + YIELDS_MAX {
                thread::yield_now();
            } else {
                thread::sleep(SLEEP);
            }
        }
    }
}

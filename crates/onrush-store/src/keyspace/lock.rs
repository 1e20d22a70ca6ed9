//! The lock of a shard.
//!
//! A mutex of one byte ([`byte`]) that is released by a plain store: on the hot path, where a shard is locked twice per
//! command and nearly always free, a second locked instruction would double the cost. So it has no list of waiters. A
//! thread that finds it taken spins for a moment, since a command mostly takes less than a microsecond, then lets other
//! threads run, then sleeps in short steps.

mod byte;

use std::sync::atomic::AtomicU8;

use parking_lot::lock_api::{GuardNoSend, RawMutex};

use byte::{FREE, LockByte};

/// A mutex over a table.
pub(crate) type Mutex<T> = parking_lot::lock_api::Mutex<ShardLock, T>;
pub(crate) type MutexGuard<'a, T> = parking_lot::lock_api::MutexGuard<'a, ShardLock, T>;

/// See the module's text.
pub(crate) struct ShardLock(LockByte);

// SAFETY: only the caller that changed the byte from FREE to HELD has the lock, until it stores FREE. Nobody else changes it
// meanwhile but `mark_long`, which only the holder calls, to another state that is not FREE.
unsafe impl RawMutex for ShardLock {
    #[allow(clippy::declare_interior_mutable_const, reason = "the trait wants a value to start from")]
    const INIT: Self = Self(LockByte(AtomicU8::new(FREE)));

    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        self.0.lock();
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.0.unlock();
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

impl ShardLock {
    /// Says that the lock will be held for long. Only its holder calls this.
    pub(crate) fn mark_long(&self) {
        self.0.mark_long();
    }

    /// Whether the lock is held by a thread that will take long.
    #[inline(always)]
    pub(crate) fn is_held_long(&self) -> bool {
        self.0.is_held_long()
    }

    /// Takes the lock, unless a thread that will take long has it or gets it first; returns whether it did.
    #[inline]
    pub(crate) fn lock_unless_long(&self) -> bool {
        self.0.lock_unless_long()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

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

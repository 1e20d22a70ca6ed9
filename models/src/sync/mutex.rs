//! A mutex and a condition variable as `parking_lot` has them.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use loom::sync;

/// As `parking_lot::Mutex`.
#[derive(Default)]
pub struct Mutex<T>(sync::Mutex<T>);

/// As `parking_lot::MutexGuard`.
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// Always there but while a condition variable waits.
    held: Option<sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// A mutex that nobody holds.
    pub fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, held: Some(self.held()) }
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok().map(|held| MutexGuard { mutex: self, held: Some(held) })
    }

    /// Waits for the lock for some time, which in a model is until others have gone on.
    pub fn try_lock_for(&self, _time: Duration) -> Option<MutexGuard<'_, T>> {
        self.try_lock().or_else(|| {
            loom::thread::yield_now();
            self.try_lock()
        })
    }

    fn held(&self) -> sync::MutexGuard<'_, T> {
        self.0.lock().expect("a panic ends the model")
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect("it is held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("it is held")
    }
}

/// As `parking_lot::Condvar`.
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// One that nobody waits for.
    pub fn new() -> Self {
        Self(sync::Condvar::new())
    }

    /// Waits until `waits` returns false. Nothing but a notification ends the wait, so a model finds one that is missing.
    pub fn wait_while<T>(&self, guard: &mut MutexGuard<'_, T>, mut waits: impl FnMut(&mut T) -> bool) {
        while waits(guard) {
            let held = guard.held.take().expect("it is held");
            guard.held = Some(self.0.wait(held).expect("a panic ends the model"));
        }
    }

    /// Waits for some time, which in a model is until others have gone on.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _time: Duration) {
        drop(guard.held.take());
        loom::thread::yield_now();
        guard.held = Some(guard.mutex.held());
    }

    /// Ends all waits.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

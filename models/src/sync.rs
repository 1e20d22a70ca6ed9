//! Loom's types in the shape in which the modules under test use `std`'s and `parking_lot`'s.

mod bell;
mod mutex;

pub use bell::Bell;
pub use loom::{hint, sync::atomic};
pub use mutex::{Condvar, Mutex, MutexGuard};

/// As `onrush_store::schedule` where no simulator switches threads.
pub mod schedule {
    use super::{Mutex, MutexGuard};

    pub use onrush_store::schedule::{blocked, is_simulated, point};

    /// Takes a lock.
    pub fn lock<'a, T>(mutex: &'a Mutex<T>, _what: &'static str) -> MutexGuard<'a, T> {
        mutex.lock()
    }
}

/// As `std::thread`. Time does not pass in a model: to sleep is to let all others go first.
pub mod thread {
    use std::time::Duration;

    pub use loom::thread::yield_now;

    /// Lets others go on.
    pub fn sleep(_time: Duration) {
        yield_now();
    }
}

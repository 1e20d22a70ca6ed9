//! Where a simulator switches threads.
//!
//! A simulator has many threads but lets only one of them run at a time, and decides at each [`point`] which one. So
//! the same decisions repeat a run exactly. A thread that finds a lock taken calls [`blocked`] and tries again later.
//!
//! This exists only with the feature `simulate`, and only on threads that have a [`Scheduler`]. Everywhere else a point
//! does nothing, and threads wait for locks as usual.

#[cfg(feature = "simulate")]
pub use simulated::{Scheduler, blocked, is_simulated, lock, point, set};
#[cfg(not(feature = "simulate"))]
pub use usual::{blocked, is_simulated, lock, point};

#[cfg(feature = "simulate")]
mod simulated {
    use std::cell::RefCell;
    use std::rc::Rc;

    use parking_lot::{Mutex, MutexGuard};

    thread_local! {
        static SCHEDULER: RefCell<Option<Rc<dyn Scheduler>>> = const { RefCell::new(None) };
    }

    /// Decides which thread goes on.
    pub trait Scheduler {
        /// The thread can go on; others may run first.
        fn point(&self);

        /// The thread cannot go on until another one has done something; `what` names what it waits for. Returns when
        /// another try makes sense.
        fn blocked(&self, what: &'static str);
    }

    /// Gives the calling thread a scheduler, or takes it away.
    pub fn set(scheduler: Option<Rc<dyn Scheduler>>) {
        SCHEDULER.set(scheduler);
    }

    /// Calls `ask` with the thread's scheduler; returns whether there is one.
    fn with_scheduler(ask: impl FnOnce(&dyn Scheduler)) -> bool {
        let scheduler = SCHEDULER.try_with(|scheduler| scheduler.borrow().clone()).ok().flatten();
        scheduler.is_some_and(|scheduler| {
            ask(&*scheduler);
            true
        })
    }

    /// Whether the thread has a scheduler.
    pub fn is_simulated() -> bool {
        with_scheduler(|_| ())
    }

    /// Here another thread may go on.
    pub fn point() {
        with_scheduler(|scheduler| scheduler.point());
    }

    /// The thread waits for something that another thread holds. Returns true if it must try again, false if it has no
    /// scheduler and waits as usual.
    pub fn blocked(what: &'static str) -> bool {
        with_scheduler(|scheduler| scheduler.blocked(what))
    }

    /// Takes a lock that may be held across a [`point`].
    pub fn lock<'a, T: ?Sized>(mutex: &'a Mutex<T>, what: &'static str) -> MutexGuard<'a, T> {
        point();
        loop {
            if let Some(guard) = mutex.try_lock() {
                return guard;
            }
            if !blocked(what) {
                return mutex.lock();
            }
        }
    }
}

#[cfg(not(feature = "simulate"))]
mod usual {
    use parking_lot::{Mutex, MutexGuard};

    /// Whether the thread has a scheduler.
    #[inline(always)]
    pub const fn is_simulated() -> bool {
        false
    }

    /// Here another thread may go on.
    #[inline(always)]
    pub const fn point() {}

    /// The thread waits for something that another thread holds. Returns true if it must try again, false if it has no
    /// scheduler and waits as usual.
    #[inline(always)]
    pub const fn blocked(_what: &'static str) -> bool {
        false
    }

    /// Takes a lock that may be held across a [`point`].
    #[inline(always)]
    pub fn lock<'a, T: ?Sized>(mutex: &'a Mutex<T>, _what: &'static str) -> MutexGuard<'a, T> {
        mutex.lock()
    }
}

//! How one thread sleeps until others post something to it. `models` explores its interleavings.

use std::io;

use crate::sync::Mutex;
use crate::sync::atomic::AtomicBool;
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Ends the sleep of the thread that owns the inbox, or its next one if it is awake.
pub(super) trait Bell {
    /// # Errors
    /// The system cannot tell the thread; it goes on sleeping.
    fn ring(&self) -> io::Result<()>;
}

/// What others post to a thread.
///
/// Before the thread sleeps it first sets a flag and then looks for posts; a thread that posts first posts and then
/// looks at the flag. Every change of the flag is a swap, so whoever changes it sees what was done before the changes
/// until then: either the thread sees the post, or the bell rings. A post to a thread that is awake costs no system call.
pub(super) struct Inbox<P, B> {
    post: Mutex<P>,
    has_post: AtomicBool,
    asleep: AtomicBool,
    bell: B,
}

impl<P: Default, B: Bell> Inbox<P, B> {
    /// An empty inbox of a thread that is awake.
    pub(super) fn new(bell: B) -> Self {
        Self { post: Mutex::new(P::default()), has_post: AtomicBool::new(false), asleep: AtomicBool::new(false), bell }
    }

    /// Posts what `add` adds.
    pub(super) fn add(&self, add: impl FnOnce(&mut P)) {
        add(&mut self.post.lock());
        self.has_post.store(true, Release);
        self.nudge();
    }

    /// Ends the thread's sleep, if it sleeps.
    pub(super) fn nudge(&self) {
        if self.asleep.swap(false, AcqRel)
            && let Err(error) = self.bell.ring()
        {
            tracing::warn!("Can't wake a worker: {error}");
            // The next one tries again.
            self.asleep.swap(true, AcqRel);
        }
    }

    /// Whether the thread sleeps, or is about to.
    pub(super) fn is_asleep(&self) -> bool {
        self.asleep.load(Relaxed)
    }

    /// Notes that the thread is about to sleep; returns false if it must not sleep.
    #[inline]
    pub(super) fn may_sleep(&self) -> bool {
        self.asleep.swap(true, AcqRel);
        !self.has_post.load(Acquire)
    }

    /// Notes that the thread is awake; returns what was posted meanwhile, if anything.
    #[inline]
    pub(super) fn take(&self) -> Option<P> {
        // A thread that sees this late wakes this one once for nothing.
        if self.asleep.load(Relaxed) {
            self.asleep.swap(false, AcqRel);
        }
        if !self.has_post.load(Acquire) {
            return None;
        }
        self.has_post.store(false, Relaxed);
        Some(std::mem::take(&mut *self.post.lock()))
    }

    /// Takes a part of what was posted, on any thread.
    pub(super) fn take_part<T: Default>(&self, part: impl FnOnce(&mut P) -> T) -> T {
        match self.has_post.load(Acquire) {
            true => part(&mut self.post.lock()),
            false => T::default(),
        }
    }
}

//! Whether a client still waits, and how its waiting ended. `models` explores its interleavings.

use crate::sync::{Mutex, MutexGuard, schedule};

/// The waiting ends once; `E` is what its connection learns of the end.
pub(super) enum State<E> {
    Waiting,
    /// It has ended; its connection does not know yet.
    Ended(E),
    /// Its connection knows the end of the waiting, or is gone.
    Gone,
}

/// The state of a client that waits. Others keep it locked while they execute the client's command.
pub(super) struct StateLock<E>(Mutex<State<E>>);

impl<E> StateLock<E> {
    /// Of a client that begins to wait.
    pub(super) fn waiting() -> Self {
        Self(Mutex::new(State::Waiting))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<E>> {
        schedule::lock(&self.0, "the state of a waiter")
    }

    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, State<E>>> {
        self.0.try_lock()
    }

    /// How the waiting ended; returned once.
    pub(super) fn take_end(&self) -> Option<E> {
        let mut state = self.lock();
        match std::mem::replace(&mut *state, State::Gone) {
            State::Ended(end) => Some(end),
            before => {
                *state = before;
                None
            }
        }
    }
}

impl<E> State<E> {
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self, Self::Waiting)
    }

    #[inline]
    pub(super) fn is_gone(&self) -> bool {
        matches!(self, Self::Gone)
    }
}

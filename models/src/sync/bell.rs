//! What a thread sleeps at, as the system's event queue: a ring ends the present sleep, or else the next one.

use super::{Condvar, Mutex};

/// See the module's text.
pub struct Bell {
    has_rung: Mutex<bool>,
    rings: Condvar,
}

impl Bell {
    /// It has not rung.
    pub fn new() -> Self {
        Self { has_rung: Mutex::new(false), rings: Condvar::new() }
    }

    /// Ends a sleep.
    pub fn ring(&self) {
        *self.has_rung.lock() = true;
        self.rings.notify_all();
    }

    /// Sleeps until it rings. A model in which it never does fails: loom finds that all threads wait.
    pub fn sleep(&self) {
        let mut has_rung = self.has_rung.lock();
        self.rings.wait_while(&mut has_rung, |has_rung| !*has_rung);
        *has_rung = false;
    }

    /// Looks whether it has rung, without a sleep.
    pub fn look(&self) {
        *self.has_rung.lock() = false;
    }
}

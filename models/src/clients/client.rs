//! A client as the table of clients that wait knows it.

use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// See the module's text.
pub struct ClientHandle {
    pub(crate) id: u64,
    waits: AtomicBool,
}

impl ClientHandle {
    pub(crate) fn new(id: u64) -> Self {
        Self { id, waits: AtomicBool::new(false) }
    }

    pub(crate) fn note_waits(&self, waits: bool) {
        self.waits.store(waits, Relaxed);
    }
}

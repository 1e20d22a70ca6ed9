//! The way to the thread that serves replicas.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire};
use std::sync::{Arc, OnceLock};
use std::task::{Wake, Waker};

use parking_lot::Mutex;

use super::payload::Payload;
use crate::net::connection::Connection;

/// See the module's text.
#[derive(Default)]
pub struct Service {
    bell: OnceLock<Arc<Bell>>,
    arrived: Mutex<Vec<Connection>>,
    /// The payload that is about to be begun.
    wanted: Mutex<Option<Arc<Payload>>>,
}

/// Wakes the thread; once for all that happens until it is awake.
pub(super) struct Bell {
    waker: mio::Waker,
    is_rung: AtomicBool,
}

impl Bell {
    pub(super) fn new(waker: mio::Waker) -> Arc<Self> {
        Arc::new(Self { waker, is_rung: AtomicBool::new(false) })
    }

    /// Wakes the thread.
    pub(super) fn ring(&self) {
        if !self.is_rung.swap(true, AcqRel)
            && let Err(error) = self.waker.wake()
        {
            tracing::error!("Can't wake the thread that serves replicas: {error}");
        }
    }

    /// The thread is awake, and looks at everything after this.
    pub(super) fn is_heard(&self) {
        if self.is_rung.load(Acquire) {
            self.is_rung.swap(false, AcqRel);
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

impl Service {
    /// The thread is there.
    pub(super) fn set_bell(&self, bell: Arc<Bell>) {
        // This is called once.
        let _ = self.bell.set(bell);
    }

    /// A waker for a connection.
    pub(super) fn waker(&self) -> Option<Waker> {
        self.bell.get().map(|bell| Waker::from(Arc::clone(bell)))
    }

    /// Wakes the thread.
    pub fn ring(&self) {
        if let Some(bell) = self.bell.get() {
            bell.ring();
        }
    }

    /// Hands a connection over that has sent PSYNC, and that no worker watches any more.
    pub fn take(&self, connection: Connection) {
        self.arrived.lock().push(connection);
        self.ring();
    }

    pub(super) fn arrived(&self) -> Vec<Connection> {
        std::mem::take(&mut *self.arrived.lock())
    }

    /// The next snapshot for replicas goes here.
    pub(super) fn want(&self, payload: &Arc<Payload>) {
        *self.wanted.lock() = Some(Arc::clone(payload));
    }

    /// What a snapshot for replicas is to be written to.
    ///
    /// # Errors
    /// Nobody wants one.
    pub(super) fn wanted(&self) -> io::Result<Arc<Payload>> {
        self.wanted.lock().take().ok_or_else(|| io::Error::other("no replica waits for it"))
    }
}

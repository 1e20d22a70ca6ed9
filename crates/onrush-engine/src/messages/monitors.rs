//! Clients that see every executed command: MONITOR.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::RwLock;

use crate::clients::client::ClientHandle;

/// Clients that see every command.
#[derive(Default)]
pub(crate) struct Monitors {
    pub(super) clients: RwLock<Vec<Arc<ClientHandle>>>,
    len: AtomicUsize,
}

impl Monitors {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len.load(Relaxed) == 0
    }

    fn update(&self, update: impl FnOnce(&mut Vec<Arc<ClientHandle>>)) {
        let mut clients = self.clients.write();
        update(&mut clients);
        self.len.store(clients.len(), Relaxed);
    }
}

/// A client that sees every command, until this is dropped.
pub(crate) struct Monitor {
    monitors: &'static Monitors,
    client: Arc<ClientHandle>,
}

impl Monitor {
    pub(crate) fn new(monitors: &'static Monitors, client: &Arc<ClientHandle>) -> Self {
        client.is_monitor.store(true, Relaxed);
        monitors.update(|clients| clients.push(Arc::clone(client)));
        Self { monitors, client: Arc::clone(client) }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.client.is_monitor.store(false, Relaxed);
        self.monitors.update(|clients| clients.retain(|client| client.id != self.client.id));
    }
}

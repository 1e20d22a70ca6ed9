//! The clients that track keys.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::{RwLock, RwLockReadGuard};

use crate::clients::client::ClientHandle;

/// Clients by id.
#[derive(Default)]
pub(super) struct ById {
    pub(super) clients: HashMap<u64, Arc<ClientHandle>>,
    /// How many of them track what they read.
    readers: usize,
}

/// See the module's text. A thread that sends messages holds the lock for reading meanwhile.
#[derive(Default)]
pub(super) struct Members {
    by_id: RwLock<ById>,
    len: AtomicUsize,
}

impl Members {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    pub(super) fn lock(&self) -> RwLockReadGuard<'_, ById> {
        self.by_id.read()
    }

    pub(super) fn settle(&self) {
        drop(self.by_id.write());
    }

    /// Adds a client, which must not be there.
    pub(super) fn join(&self, client: &Arc<ClientHandle>, is_reader: bool) {
        let mut by_id = self.by_id.write();
        by_id.clients.insert(client.id, Arc::clone(client));
        by_id.readers += usize::from(is_reader);
        self.len.store(by_id.clients.len(), Relaxed);
    }

    /// Removes a client, which must be there: when this returns, it gets no more messages. If it was the last one that
    /// tracks what it reads, calls `forget` before another one can join.
    pub(super) fn leave<R>(&self, client: &ClientHandle, is_reader: bool, forget: impl FnOnce() -> R) -> Option<R> {
        let mut by_id = self.by_id.write();
        by_id.clients.remove(&client.id);
        by_id.readers -= usize::from(is_reader);
        self.len.store(by_id.clients.len(), Relaxed);
        (is_reader && by_id.readers == 0).then(forget)
    }
}

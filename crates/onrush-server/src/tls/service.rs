//! The thread for handshakes, and what the next one is made with.

use std::io;
use std::sync::Arc;

use onrush_persist::threads;
use parking_lot::{Mutex, RwLock};
use rustls::{ClientConfig, ServerConfig};
use tokio::runtime::{Builder, Handle};

use super::Contexts;

/// See the module's text.
#[derive(Default)]
pub struct Service {
    contexts: RwLock<Option<Contexts>>,
    runtime: Mutex<Option<Handle>>,
}

impl Service {
    /// From now on handshakes are made with these; returns what they were made with before.
    pub fn replace(&self, contexts: Option<Contexts>) -> Option<Contexts> {
        std::mem::replace(&mut *self.contexts.write(), contexts)
    }

    /// For those who connect to this server.
    pub fn server(&self) -> Option<Arc<ServerConfig>> {
        self.contexts.read().as_ref().map(|contexts| Arc::clone(&contexts.server))
    }

    /// For other nodes that connect to the bus of the cluster; `None`: there is no `tls-cluster`.
    pub fn bus(&self) -> Option<Arc<ServerConfig>> {
        self.contexts.read().as_ref()?.bus.clone()
    }

    /// For connections of this server to other ones; `None`: there are no certificates of authorities.
    pub fn links(&self) -> Option<Arc<ClientConfig>> {
        self.contexts.read().as_ref()?.links.clone()
    }

    /// The thread for handshakes, which begins with the first call.
    ///
    /// # Errors
    /// The system cannot create it.
    pub fn thread(&self) -> io::Result<Handle> {
        let runtime = &mut *self.runtime.lock();
        if let Some(handle) = runtime {
            return Ok(handle.clone());
        }
        let own = Builder::new_current_thread().enable_all().build()?;
        let handle = own.handle().clone();
        threads::start("tls", move || own.block_on(std::future::pending::<()>()))?;
        *runtime = Some(handle.clone());
        Ok(handle)
    }
}

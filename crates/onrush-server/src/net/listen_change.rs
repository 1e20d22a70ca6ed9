//! The way to listen elsewhere while the server runs.

use std::io;
use std::net::TcpListener;
use std::sync::mpsc::SyncSender;

use tokio::sync::mpsc::UnboundedSender;

use crate::config::{Config, os_reason};
use crate::net::binding::{Address, bind_all_tcp, resolve_all};

/// A request to the first thread: to accept on these TCP sockets in place of the present ones, which are closed.
pub struct ListenChange {
    pub(crate) sockets: Vec<TcpListener>,
    pub(crate) done: SyncSender<io::Result<()>>,
}

/// Where the server listens for TCP connections.
pub struct Listening {
    changes: UnboundedSender<ListenChange>,
    addresses: Vec<Address>,
    backlog: i32,
}

impl Listening {
    /// The server listens at these addresses.
    pub fn new(changes: UnboundedSender<ListenChange>, addresses: Vec<Address>, config: &Config) -> Self {
        Self { changes, addresses, backlog: config.tcp_backlog as i32 }
    }

    /// Listens where `config` says. Waits for name servers and for the first thread, so no thread may call this that others
    /// wait for.
    ///
    /// With another port the old and the new sockets exist together for a moment, so that no client is refused; with the
    /// same port the old sockets must be closed first.
    ///
    /// # Errors
    /// Why that failed; the server still listens where it did before.
    pub fn change(&mut self, config: &Config) -> Result<(), String> {
        let wanted = resolve_all(config)?;
        let keeps_port =
            wanted.iter().any(|wanted| self.addresses.iter().any(|present| present.port() == wanted.port()));
        if keeps_port {
            self.exchange(Vec::new())?;
        }
        let changed = bind_all(&wanted, self.backlog).and_then(|sockets| self.exchange(sockets));
        if changed.is_ok() {
            self.addresses = wanted;
        } else if keeps_port {
            let restored = bind_all_tcp(&self.addresses, self.backlog).and_then(|sockets| self.exchange(sockets));
            if let Err(error) = restored {
                tracing::error!("Can't listen on the previous addresses again either: {error}");
            }
        }
        changed
    }

    /// Has the first thread accept on these sockets in place of the present ones.
    fn exchange(&self, sockets: Vec<TcpListener>) -> Result<(), String> {
        let (done, result) = std::sync::mpsc::sync_channel(1);
        let sent = self.changes.send(ListenChange { sockets, done }).is_ok();
        match result.recv() {
            Ok(result) if sent => result.map_err(|error| os_reason(&error)),
            _ => Err("The server is shutting down".to_owned()),
        }
    }
}

fn bind_all(addresses: &[Address], backlog: i32) -> Result<Vec<TcpListener>, String> {
    match bind_all_tcp(addresses, backlog)? {
        none if none.is_empty() && !addresses.is_empty() => Err("This machine has none of the addresses".to_owned()),
        sockets => Ok(sockets),
    }
}

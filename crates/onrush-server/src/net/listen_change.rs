//! The way to listen elsewhere while the server runs.

use std::io;
use std::net::TcpListener;
use std::sync::mpsc::SyncSender;

use tokio::sync::mpsc::UnboundedSender;

use crate::config::{Config, os_reason};
use crate::net::binding::{Address, bind_all_tcp, resolve_all};

/// What is spoken on a TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The protocol as it is: `port`.
    Plain,
    /// The same under TLS: `tls-port`.
    Tls,
}

impl Kind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Plain, Self::Tls];

    /// Its name in logs and INFO.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "tcp",
            Self::Tls => "tls",
        }
    }

    /// The port for it; 0 if there is none.
    pub fn port(self, config: &Config) -> u64 {
        match self {
            Self::Plain => config.port,
            Self::Tls => config.tls_port,
        }
    }
}

/// A request to the first thread: to accept on these TCP sockets in place of the present ones of that kind, which are
/// closed.
pub struct ListenChange {
    pub(crate) kind: Kind,
    pub(crate) sockets: Vec<TcpListener>,
    pub(crate) done: SyncSender<io::Result<()>>,
}

/// Where the server listens for TCP connections.
pub struct Listening {
    changes: UnboundedSender<ListenChange>,
    /// By kind.
    addresses: [Vec<Address>; 2],
    backlog: i32,
}

impl Listening {
    /// The server listens at these addresses, by kind.
    pub fn new(changes: UnboundedSender<ListenChange>, addresses: [Vec<Address>; 2], config: &Config) -> Self {
        Self { changes, addresses, backlog: config.tcp_backlog as i32 }
    }

    /// Listens where `config` says. Waits for name servers and for the first thread, so no thread may call this that others
    /// wait for.
    ///
    /// With another port the old and the new sockets exist together for a moment, so that no client is refused; with the
    /// same port the old sockets must be closed first. A kind whose addresses stay is left alone.
    ///
    /// # Errors
    /// Why that failed; the server still listens where it did before.
    pub fn change(&mut self, config: &Config) -> Result<(), String> {
        let mut wanted = [Vec::new(), Vec::new()];
        for kind in Kind::ALL {
            wanted[kind as usize] = resolve_all(config, kind.port(config))?;
        }
        let before = self.addresses.clone();
        for (kind, wanted) in Kind::ALL.into_iter().zip(wanted) {
            if let Err(error) = self.change_kind(kind, wanted) {
                for (kind, before) in Kind::ALL.into_iter().zip(before) {
                    if let Err(error) = self.change_kind(kind, before) {
                        tracing::error!("Can't listen on the previous addresses again either: {error}");
                    }
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn change_kind(&mut self, kind: Kind, wanted: Vec<Address>) -> Result<(), String> {
        let present = &self.addresses[kind as usize];
        let is_same = wanted.len() == present.len()
            && wanted.iter().zip(present).all(|(wanted, present)| wanted.is_like(present));
        if is_same {
            return Ok(());
        }
        let keeps_port = wanted.iter().any(|wanted| present.iter().any(|present| present.port == wanted.port));
        if keeps_port {
            self.exchange(kind, Vec::new())?;
            // Its sockets are closed.
            self.addresses[kind as usize] = Vec::new();
        }
        bind_all(&wanted, self.backlog).and_then(|sockets| self.exchange(kind, sockets))?;
        self.addresses[kind as usize] = wanted;
        Ok(())
    }

    /// Has the first thread accept on these sockets in place of the present ones.
    fn exchange(&self, kind: Kind, sockets: Vec<TcpListener>) -> Result<(), String> {
        let (done, result) = std::sync::mpsc::sync_channel(1);
        let sent = self.changes.send(ListenChange { kind, sockets, done }).is_ok();
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

//! Several connections to one server behind one handle.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::connection::client::{Client, ConnectionConfig};
use crate::connection::{Connection, like_its_connection};
use crate::error::RedisResult;

/// Several shared connections to one server, from [`Client::connect_many`], for programs that one connection's driver,
/// one task, cannot serve: docs/client-library.md says where that is.
///
/// Each handle uses one of them, and each clone the next one in turn: give every task a clone of its own. Commands that
/// go over one handle keep their order, as over a [`Connection`]; those over different handles may overtake each other.
/// With a cache, each connection has its own, and a write over one of them is seen by another's reads when the server's
/// report has come. Everything that a [`Connection`] can do, a handle can do with its own.
#[derive(Debug)]
pub struct Connections {
    all: Arc<[Connection]>,
    next: Arc<AtomicUsize>,
    own: Connection,
}

impl Client {
    /// Connects so many times, at most [`Connections::COUNT_MAX`] and at least once.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), of the first connection that fails.
    pub async fn connect_many(&self, count: usize, config: ConnectionConfig) -> RedisResult<Connections> {
        let mut all = Vec::new();
        for _ in 0..count.clamp(1, Connections::COUNT_MAX) {
            all.push(self.connect_with(config.clone()).await?);
        }
        let own = all[0].clone();
        Ok(Connections { all: all.into(), next: Arc::new(AtomicUsize::new(1)), own })
    }
}

impl Connections {
    /// Most connections behind one handle.
    pub const COUNT_MAX: usize = 64;

    /// All of them, for their counters and the like.
    pub fn all(&self) -> &[Connection] {
        &self.all
    }

    /// Closes all of them at the same time, as [`Connection::close`] does.
    pub async fn close(&self) {
        self.all.iter().for_each(Connection::begin_close);
        for connection in &*self.all {
            connection.inner.shared.ended().await;
        }
    }
}

/// A handle of the next connection in turn.
impl Clone for Connections {
    fn clone(&self) -> Connections {
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.all.len();
        Connections { all: self.all.clone(), next: self.next.clone(), own: self.all[next].clone() }
    }
}

impl Deref for Connections {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.own
    }
}

like_its_connection!(Connections);

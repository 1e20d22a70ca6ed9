//! A node of a cluster, and the one connection to it that all share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::cluster::topology::Addr;
use crate::connection::Connection;
use crate::connection::client::ConnectionConfig;
use crate::error::RedisError;
use crate::link::connector::Connector;
use crate::link::tls::TlsContext;
use crate::link::url::{ConnectionAddr, ConnectionInfo};
use crate::observe::ConnectionEvent;

/// What makes the connections to nodes, in the runtime in which the cluster was connected to.
#[derive(Debug)]
pub(crate) struct Maker {
    /// The login and the like; its address is not used.
    pub info: ConnectionInfo,
    pub config: ConnectionConfig,
    pub tls: TlsContext,
    /// Whether nodes speak TLS, and whether any certificate is taken.
    pub insecure: Option<bool>,
    /// Whether replicas are read from.
    pub readonly: bool,
    pub runtime: Handle,
    /// The user has closed the connection to the cluster.
    pub closed: AtomicBool,
    /// Rung when a connection is lost or cannot be made.
    pub bell: Arc<Notify>,
}

/// Notes what becomes of the connections to one node.
#[derive(Debug)]
pub(crate) struct Alarm {
    broken: AtomicBool,
    bell: Arc<Notify>,
}

impl Alarm {
    fn new(bell: Arc<Notify>) -> Alarm {
        Alarm { broken: AtomicBool::new(false), bell }
    }

    pub(crate) fn note(&self, event: &ConnectionEvent<'_>) {
        let broken = !matches!(event, ConnectionEvent::Connected);
        self.broken.store(broken, Ordering::Relaxed);
        if broken {
            self.bell.notify_one();
        }
    }
}

/// A node of a cluster.
#[derive(Debug)]
pub(crate) struct Node {
    pub number: u16,
    pub addr: Addr,
    maker: Arc<Maker>,
    alarm: Arc<Alarm>,
    /// Made when it is first needed; `None` if the node has gone before.
    connection: OnceLock<Option<Connection>>,
}

impl Maker {
    /// What connects to the node at this address.
    pub(crate) fn connector(&self, addr: &Addr, alarm: Option<Arc<Alarm>>) -> Connector {
        let Addr { host, port } = addr.clone();
        let mut info = self.info.clone();
        info.addr = ConnectionAddr::tcp(host, port, self.insecure);
        let connector = Connector::new(info, self.config.clone(), self.tls.clone());
        Connector { alarm, readonly: self.readonly, ..connector }
    }
}

impl Node {
    pub(crate) fn new(number: u16, addr: Addr, maker: Arc<Maker>) -> Node {
        let alarm = Arc::new(Alarm::new(maker.bell.clone()));
        Node { number, addr, maker, alarm, connection: OnceLock::new() }
    }

    /// The connection to it. It may still have to be made; commands wait in its queue meanwhile.
    ///
    /// # Errors
    /// The node has gone.
    pub(crate) fn connection(&self) -> Result<&Connection, RedisError> {
        if self.maker.closed.load(Ordering::Relaxed) {
            return Err(RedisError::closed());
        }
        let made = self.connection.get_or_init(|| {
            let _runtime = self.maker.runtime.enter();
            Some(Connection::open_later(Arc::new(self.maker.connector(&self.addr, Some(self.alarm.clone())))))
        });
        made.as_ref().ok_or_else(RedisError::closed)
    }

    /// A connection for subscriptions at this node, which is not shared.
    ///
    /// # Errors
    /// Those of connecting.
    pub(crate) async fn subscriber(&self) -> Result<Connection, RedisError> {
        Connection::open_lossless(Arc::new(self.maker.connector(&self.addr, Some(self.alarm.clone())))).await
    }

    /// The connection, if it was ever needed.
    pub(crate) fn opened(&self) -> Option<&Connection> {
        self.connection.get()?.as_ref()
    }

    /// How often its connection was made again.
    pub(crate) fn reconnects(&self) -> u64 {
        self.opened().map_or(0, |connection| connection.counters().reconnects)
    }

    /// Whether the last that was heard of its connections is a failure.
    pub(crate) fn is_broken(&self) -> bool {
        self.alarm.broken.load(Ordering::Relaxed)
    }

    /// Closes the connection: what was not sent fails at once. What was sent is still answered, unless the connection is
    /// broken or that takes too long.
    pub(crate) fn leave(&self) {
        let Some(connection) = self.connection.get_or_init(|| None).clone() else { return };
        if self.is_broken() {
            return connection.cut_off();
        }
        self.maker.runtime.spawn(async move {
            if tokio::time::timeout(super::GRACE, connection.close()).await.is_err() {
                connection.cut_off();
            }
        });
    }
}

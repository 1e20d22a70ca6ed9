//! Connections to a cluster: commands go to the nodes that have their keys.

pub(crate) mod client;
pub(crate) mod command;
pub(crate) mod expand;
pub(crate) mod follow;
pub(crate) mod keys;
pub(crate) mod lane;
pub(crate) mod lease;
pub(crate) mod node;
pub(crate) mod odd;
pub(crate) mod place;
pub(crate) mod pubsub;
pub(crate) mod refresh;
pub(crate) mod rounds;
pub(crate) mod routes;
pub(crate) mod scan;
pub(crate) mod send;
pub(crate) mod slot;
pub(crate) mod topology;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::cluster::client::ClusterConfig;
use crate::cluster::node::Maker;
use crate::cluster::routes::Routes;
use crate::cluster::slot::{SLOTS, slot};
use crate::cluster::topology::Addr;
use crate::connection::counters::Counters;
use crate::connection::timeout::WithTimeout;
use crate::connection::{Connection, ConnectionLike, Home};
use crate::error::RedisResult;
use crate::link::backoff::Backoff;
use crate::observe::{watched, watched_pipeline};
use crate::values::cmd::Cmd;
use crate::values::pipeline::{Pipeline, PipelineResult};
use crate::values::value::Value;

/// How long a node that has left the cluster may still answer what was sent to it.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// How long a command waits for earlier ones of its slot if replies may take any time.
pub(crate) const TURN_MAX: Duration = Duration::from_secs(10);

/// Which nodes answer commands that only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ReadFrom {
    /// The primary, as all other commands: reads see all earlier writes.
    #[default]
    Primary,
    /// A replica, by turns; the primary if none can be reached. Reads may see an older state, also after own writes.
    PreferReplica,
    /// The primary or a replica, by turns. Reads may see an older state, also after own writes.
    Any,
}

/// A connection to a cluster, from [`ClusterClient`](crate::ClusterClient), shared by cloning; a clone costs one
/// reference count. All methods of commands work with it, and so do pipelines and scripts.
///
/// There is one connection to each node, made when it is first needed; what a [`Connection`] says of
/// pipelining, reconnects and the fate of commands applies to each. A command goes to the node that serves the slot of
/// its keys. One without keys goes to any primary, or to all of them: see docs/client-library.md for the list.
///
/// # Order
/// Commands of the same key are executed in the order in which they were sent, also while their slot moves to another
/// node: those that a node has refused (MOVED, ASK, TRYAGAIN) are sent again, in order, before any newer one of that
/// slot. A refused command that cannot be sent again in order, since later ones of its key were executed, fails with an
/// error. Commands of different slots have no order among each other.
#[derive(Clone)]
pub struct ClusterConnection {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub routes: Routes,
    pub maker: Arc<Maker>,
    pub config: ClusterConfig,
    pub seeds: Vec<Addr>,
    turn: AtomicUsize,
    /// Counts the lists of slots that were taken over.
    pub lists: tokio::sync::watch::Sender<u64>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("seeds", &self.seeds).finish_non_exhaustive()
    }
}

impl fmt::Debug for ClusterConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterConnection").field("seeds", &self.inner.seeds).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Ends the task that asks for the slots.
        self.ring();
    }
}

impl Inner {
    pub(crate) fn new(routes: Routes, maker: Arc<Maker>, config: ClusterConfig, seeds: Vec<Addr>) -> Inner {
        let lists = tokio::sync::watch::Sender::new(0);
        Inner { routes, maker, config, seeds, turn: AtomicUsize::new(0), lists }
    }

    /// Asks for the slots soon.
    pub(crate) fn ring(&self) {
        self.maker.bell.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.maker.closed.load(Ordering::Relaxed)
    }

    /// The waits between attempts.
    pub(crate) fn backoff(&self) -> Backoff {
        self.config.connection.backoff.clone().unwrap_or_default()
    }

    /// The connections to all present nodes, as far as they were needed.
    fn opened(&self) -> Vec<Connection> {
        let nodes = self.routes.lock().all();
        nodes.iter().filter_map(|node| node.opened().cloned()).collect()
    }

    /// The longest round trip to a node, as far as known.
    pub(crate) fn round_trip(&self) -> Duration {
        self.opened().iter().map(|connection| connection.inner.shared.round_trip()).max().unwrap_or_default()
    }

    /// Any slot, others from call to call.
    pub(crate) fn some_slot(&self) -> u16 {
        // Numbers that are far from each other are mostly slots of different nodes.
        (self.turn.fetch_add(1, Ordering::Relaxed).wrapping_mul(5_461) % usize::from(SLOTS)) as u16
    }
}

impl ClusterConnection {
    /// Refuses new commands, waits until all sent ones are answered, and closes all connections, for all clones. Waits at
    /// most the response timeout for nodes that have stopped answering.
    pub async fn close(&self) {
        self.inner.maker.closed.store(true, Ordering::Relaxed);
        self.inner.ring();
        let opened = self.inner.opened();
        opened.iter().for_each(|connection| connection.begin_close());
        for connection in opened {
            connection.close().await;
        }
    }

    /// The same connection with a limit on how long each command, or pipeline, may take.
    pub fn with_timeout(&self, timeout: Duration) -> WithTimeout<'_, ClusterConnection> {
        WithTimeout::new(self, timeout)
    }

    /// The sums of the counters of all present nodes' connections.
    pub fn counters(&self) -> Counters {
        self.inner.opened().iter().map(Connection::counters).fold(Counters::default(), Counters::plus)
    }

    /// Where the nodes with slots are, as `host:port`, in the order of their first slots.
    pub fn primaries(&self) -> Vec<String> {
        let primaries = self.inner.routes.lock().primaries();
        primaries.into_iter().map(|(node, _)| format!("{}:{}", node.addr.host, node.addr.port)).collect()
    }

    async fn send_command_watched(&self, cmd: &Cmd) -> RedisResult<Value> {
        let observer = &self.inner.config.connection.observer;
        if observer.is_none() && cmd.timeout.is_none() {
            return self.inner.send_command(cmd).await;
        }
        Box::pin(watched(observer, cmd, self.inner.send_command(cmd))).await
    }

    async fn send_pipeline_watched(&self, pipeline: &Pipeline) -> PipelineResult {
        match &self.inner.config.connection.observer {
            None => self.inner.send_pipeline(pipeline).await,
            observer => Box::pin(watched_pipeline(observer, pipeline, self.inner.send_pipeline(pipeline))).await,
        }
    }
}

impl ConnectionLike for ClusterConnection {
    async fn send_command(&self, cmd: &Cmd) -> RedisResult<Value> {
        #[cfg(feature = "tracing")]
        if let Some(span) = crate::link::telemetry::command_span(cmd) {
            return Box::pin(tracing::Instrument::instrument(self.send_command_watched(cmd), span)).await;
        }
        self.send_command_watched(cmd).await
    }

    async fn send_pipeline(&self, pipeline: &Pipeline) -> PipelineResult {
        #[cfg(feature = "tracing")]
        if let Some(span) = crate::link::telemetry::pipeline_span(pipeline) {
            return Box::pin(tracing::Instrument::instrument(self.send_pipeline_watched(pipeline), span)).await;
        }
        self.send_pipeline_watched(pipeline).await
    }

    fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    fn home(&self, key: &[u8]) -> Home {
        let node = self.inner.routes.lock().primary_of(slot(key));
        Home { reconnects: node.as_ref().map_or(0, |node| node.reconnects()), node: node.map(|node| node.number) }
    }
}

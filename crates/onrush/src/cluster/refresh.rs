//! Keeps what is known of a cluster up to date: one task asks one node at a time.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use crate::cluster::Inner;
use crate::cluster::node::Node;
use crate::cluster::topology::{Addr, Range, ranges};
use crate::connection::Connection;
use crate::connection::timeout::within;
use crate::error::{ErrorKind, RedisError, RedisResult};

/// The shortest time from one list of slots to the next.
pub(crate) const GAP: Duration = Duration::from_millis(100);

/// The same when no node has told them.
const GAP_AFTER_ERROR: Duration = Duration::from_millis(500);

/// How long a node may take to tell the slots before the next is asked.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// How long a seed may take, its connection included.
const SEED_MAX: Duration = Duration::from_secs(5);

/// Asks for the slots whenever the bell rings, and every so often, as long as the cluster connection is used.
pub(crate) async fn keep_fresh(inner: Weak<Inner>, bell: Arc<Notify>, interval: Option<Duration>) {
    loop {
        match interval {
            Some(interval) => _ = tokio::time::timeout(interval, bell.notified()).await,
            None => bell.notified().await,
        }
        let Some(inner) = inner.upgrade().filter(|inner| !inner.is_closed()) else { return };
        let learnt = inner.learn().await;
        drop(inner);
        if learnt.is_ok() {
            tokio::time::sleep(GAP).await;
        } else {
            tokio::time::sleep(GAP_AFTER_ERROR).await;
            bell.notify_one();
        }
    }
}

impl Inner {
    /// Asks the seeds in turn for the slots.
    ///
    /// # Errors
    /// That of the last seed.
    pub(crate) async fn learn_first(&self) -> RedisResult<()> {
        let mut outcome = Err(RedisError::new(ErrorKind::InvalidClientConfig, "no node of the cluster is named"));
        for seed in &self.seeds {
            outcome = within(SEED_MAX, self.ask_seed(seed)).await.map(|ranges| self.install(&ranges));
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    /// Asks the nodes for the slots, those that work first, then the seeds.
    ///
    /// # Errors
    /// That of the last seed.
    async fn learn(&self) -> RedisResult<()> {
        let mut nodes = self.routes.lock().all();
        let turn = usize::from(self.some_slot()) % nodes.len().max(1);
        nodes.rotate_left(turn);
        nodes.sort_by_key(|node| (node.is_broken(), node.opened().is_none()));
        for node in nodes.iter().filter(|node| !node.is_broken()) {
            if let Ok(ranges) = within(ANSWER_MAX, ask_node(node)).await {
                self.install(&ranges);
                return Ok(());
            }
        }
        self.learn_first().await
    }

    /// Asks one node for the slots.
    ///
    /// # Errors
    /// Its error, and those of the connection.
    pub(crate) async fn learn_from(&self, node: &Node) -> RedisResult<()> {
        self.install(&ask_node(node).await?);
        Ok(())
    }

    fn install(&self, ranges: &[Range]) {
        let gone = self.routes.lock().install(ranges);
        gone.iter().for_each(|node| node.leave());
        self.lists.send_modify(|lists| *lists += 1);
    }

    async fn ask_seed(&self, seed: &Addr) -> RedisResult<Vec<Range>> {
        let connection = Connection::open(Arc::new(self.maker.connector(seed, None))).await?;
        ask(&connection, seed).await
    }
}

async fn ask_node(node: &Node) -> RedisResult<Vec<Range>> {
    ask(node.connection()?, &node.addr).await
}

async fn ask(connection: &Connection, addr: &Addr) -> RedisResult<Vec<Range>> {
    let reply = connection.ask(&[b"CLUSTER", b"SLOTS"]).await?;
    let untold = || RedisError::new(ErrorKind::Io, format!("{}:{} tells of no slots", addr.host, addr.port));
    ranges(&reply, addr).ok_or_else(untold)
}

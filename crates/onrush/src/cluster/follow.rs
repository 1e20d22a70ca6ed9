//! Following a slot from node to node, for what does not travel with the other commands: leases, transactions, blocking
//! commands.

use std::sync::Arc;
use std::time::Instant;

use crate::cluster::Inner;
use crate::cluster::node::Node;
use crate::cluster::place::Place;
use crate::cluster::routes::no_node;
use crate::cluster::topology::{Addr, Refusal};
use crate::error::{Fate, RedisError, RedisResult, ServerError};

/// Attempts at something that the node of a slot does.
pub(crate) struct Follow<'a> {
    inner: &'a Inner,
    place: Place,
    /// Where to ask on the way.
    ask: Option<Addr>,
    redirects: u32,
    count: u32,
    until: Option<Instant>,
}

impl<'a> Follow<'a> {
    pub(crate) fn new(inner: &'a Inner, place: Place) -> Follow<'a> {
        Follow { inner, place, ask: None, redirects: 0, count: 0, until: None }
    }

    /// The node for the next attempt, and whether ASKING comes before the command there.
    ///
    /// # Errors
    /// No node is known.
    pub(crate) fn node(&self) -> RedisResult<(Arc<Node>, bool)> {
        let mut table = self.inner.routes.lock();
        let node = match &self.ask {
            Some(addr) => table.node_at(addr),
            None => table.node_for(self.place),
        };
        node.map(|node| (node, self.ask.is_some())).ok_or_else(no_node)
    }

    /// Prepares another attempt after an error, and waits before it if that is due. `asks`: whether the attempt can send
    /// ASKING; otherwise a slot on its way is waited for.
    ///
    /// # Errors
    /// The error itself, if another attempt is of no use, or the time is over.
    pub(crate) async fn again(&mut self, node: &Node, error: RedisError, asks: bool) -> RedisResult<()> {
        let refusal = error.line().and_then(|line| Refusal::of(&ServerError::new(line), &node.addr));
        let has_gone = node.opened().is_none_or(|connection| connection.is_closed());
        let is_free = error.fate() == Fate::NotSent && has_gone && error.is_connection_dropped();
        self.ask = None;
        let waits = match refusal {
            Some(Refusal::Moved { slot, to }) => {
                self.inner.routes.lock().moved(slot, node.number, &to);
                self.redirects += 1;
                false
            }
            Some(Refusal::Ask { to }) if asks => {
                self.ask = Some(to);
                self.redirects += 1;
                false
            }
            Some(_) => true,
            None if is_free => true,
            None => return Err(error),
        };
        self.inner.ring();
        if self.redirects > self.inner.config.redirects_max || self.inner.is_closed() {
            return Err(error);
        }
        self.rest(waits, error).await
    }

    async fn rest(&mut self, waits: bool, error: RedisError) -> RedisResult<()> {
        let now = Instant::now();
        let patience = self.inner.patience();
        let until = *self.until.get_or_insert_with(|| now + patience.unwrap_or(super::TURN_MAX));
        self.count += 1;
        if !waits && self.count <= 2 {
            return Ok(());
        }
        let wait = self.inner.backoff().wait(self.count);
        if now + wait >= until && patience.is_some() {
            return Err(error);
        }
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

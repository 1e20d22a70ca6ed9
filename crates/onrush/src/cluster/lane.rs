//! What goes to one node in one piece, and what comes back.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::cluster::command::Command;
use crate::cluster::node::Node;
use crate::cluster::rounds::Common;
use crate::commands::script::Script;
use crate::connection::gate::Packed;
use crate::connection::queue::when_room;
use crate::connection::sink::{BatchOutcome, Sink};
use crate::connection::{driver_gone, gone};
use crate::error::{RedisError, RedisResult};
use crate::values::value::Value;

pub(crate) const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";

/// What has come of a command.
#[derive(Debug)]
pub(crate) enum Got {
    /// Its reply; the list of all replies of a transaction.
    Reply(Value),
    /// No reply, since the connection is lost.
    Lost { error: RedisError, may_retry: bool },
}

/// A command of a lane.
#[derive(Debug)]
pub(crate) struct Item {
    /// Which of the call's commands it is.
    pub index: usize,
    /// ASKING is sent before it.
    asks: bool,
    replies: usize,
    /// Where it ends in the bytes of the lane.
    end: usize,
}

/// Commands for one node.
#[derive(Debug)]
pub(crate) struct Lane {
    pub node: Arc<Node>,
    pub items: Vec<Item>,
    bytes: Vec<u8>,
    replies: usize,
    waiting: Option<RedisResult<oneshot::Receiver<BatchOutcome>>>,
}

impl Lane {
    /// The lane to that node.
    pub(crate) fn of(lanes: &mut Vec<Lane>, node: Arc<Node>) -> &mut Lane {
        let at = lanes.iter().position(|lane| lane.node.number == node.number).unwrap_or_else(|| {
            lanes.push(Lane { node, items: Vec::new(), bytes: Vec::new(), replies: 0, waiting: None });
            lanes.len() - 1
        });
        &mut lanes[at]
    }

    pub(crate) fn add(&mut self, index: usize, command: &Command<'_>, asks: bool) {
        if asks {
            self.bytes.extend_from_slice(ASKING);
        }
        self.bytes.extend_from_slice(command.bytes);
        self.replies += usize::from(asks) + command.replies;
        self.items.push(Item { index, asks, replies: command.replies, end: self.bytes.len() });
    }

    /// Queues the commands, as soon as there is room.
    pub(crate) async fn send(&mut self, common: Common<'_>) {
        let packed = Packed::new(&self.bytes, self.replies, common.class);
        self.waiting = Some(push(&self.node, packed, common).await);
    }

    /// Waits for the replies.
    pub(crate) async fn receive(self, common: Common<'_>) -> Vec<(usize, Got)> {
        let outcome = match self.waiting {
            Some(Ok(waiting)) => waiting.await.unwrap_or_else(|_| gone()),
            Some(Err(error)) => return self.items.iter().map(|item| (item.index, not_sent(&error))).collect(),
            None => gone(),
        };
        forget_unknown(&self.node, common.scripts, &outcome.replies);
        let mut replies = outcome.replies.into_iter();
        let broken = outcome.broken.unwrap_or_else(driver_gone);
        let lost = |item: &Item| Got::Lost { error: broken.error_at(item.end), may_retry: broken.may_retry() };
        let got = |item: &Item| (item.index, item.take(&mut replies).map_or_else(|| lost(item), Got::Reply));
        self.items.iter().map(got).collect()
    }
}

impl Item {
    /// Takes its reply; `None` if not all of it has come.
    fn take(&self, replies: &mut std::vec::IntoIter<Value>) -> Option<Value> {
        if self.asks {
            replies.next();
        }
        if self.replies == 1 {
            return replies.next();
        }
        let all: Vec<Value> = replies.take(self.replies).collect();
        (all.len() == self.replies).then_some(Value::Array(all))
    }
}

/// Queues commands for a node in one piece, as soon as there is room.
///
/// # Errors
/// The node has gone, or its gate refuses them.
pub(crate) async fn push(
    node: &Node,
    packed: Packed<'_>,
    common: Common<'_>,
) -> RedisResult<oneshot::Receiver<BatchOutcome>> {
    let shared = &*node.connection()?.inner.shared;
    let push = || {
        let (sink, waiting) = Sink::batch(packed.count);
        shared.push(packed, common.whole, common.scripts, sink).map(|()| waiting)
    };
    when_room(shared, packed.bytes.len(), push).await
}

/// Notes scripts that a node does not know any more: the next call loads them again.
pub(crate) fn forget_unknown(node: &Node, scripts: &[Script], replies: &[Value]) {
    if let Some(connection) = node.opened().filter(|_| !scripts.is_empty()) {
        connection.forget_unknown(scripts, replies);
    }
}

pub(crate) fn not_sent(error: &RedisError) -> Got {
    Got::Lost { error: error.clone(), may_retry: false }
}

//! Subscriptions in a cluster: channels and patterns at any node, shard channels at the nodes of their slots.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::cluster::node::Node;
use crate::cluster::place::Place;
use crate::cluster::routes::no_node;
use crate::cluster::slot::slot;
use crate::cluster::topology::Refusal;
use crate::cluster::{ClusterConnection, Inner, TURN_MAX};
use crate::connection::Connection;
use crate::connection::pubsub::{Msg, PubSubEvent, refusal};
use crate::connection::timeout::within;
use crate::error::{ErrorKind, RedisError, RedisResult, ServerError};
use crate::values::value::{PushInfo, PushKind, Value};

/// How long one attempt to make a subscription again may take: meanwhile nothing is read.
const ATTEMPT_MAX: Duration = Duration::from_secs(1);

/// The wait before the next attempt.
const ATTEMPT_GAP: Duration = Duration::from_millis(100);

/// Most subscriptions.
const TARGETS_MAX: usize = 1 << 20;

/// Subscriptions in a cluster, from [`ClusterConnection::pubsub`].
///
/// Channels and patterns need one node, which gets the messages from all others; when it is lost, another takes its
/// place. A shard channel is subscribed to at the node that serves its slot, and again where the slot goes. All of them
/// have connections of their own, one for each node that is needed. Where messages may be missing is told as by a
/// [`PubSub`](crate::PubSub): by [`PubSubEvent::Gap`], [`PubSubEvent::Resubscribed`] when all subscriptions are there
/// again, and [`Msg::is_after_gap`].
#[derive(Debug)]
pub struct ClusterPubSub {
    inner: Arc<Inner>,
    lists: watch::Receiver<u64>,
    subscribers: Vec<Subscriber>,
    /// All subscriptions, and the number of the node at which each is made.
    wanted: BTreeMap<Target, Option<u16>>,
    /// The node for channels and patterns.
    home: Option<Arc<Node>>,
    /// The numbers of the nodes whose connections are being made again.
    lost: BTreeSet<u16>,
    events: VecDeque<PubSubEvent>,
    /// Messages may be missing before the next one.
    is_after_gap: bool,
    /// A gap was told, and not its end.
    is_in_gap: bool,
    /// When to try again what has failed.
    again: Option<Instant>,
    /// The subscriber that is asked first for the next message.
    turn: usize,
}

/// A connection that receives messages from a node.
#[derive(Debug)]
struct Subscriber {
    node: Arc<Node>,
    connection: Connection,
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.connection.cut_off();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Channel,
    Pattern,
    Shard,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    kind: Kind,
    name: Vec<u8>,
}

impl Kind {
    fn commands(self) -> (&'static str, &'static str) {
        match self {
            Kind::Channel => ("SUBSCRIBE", "UNSUBSCRIBE"),
            Kind::Pattern => ("PSUBSCRIBE", "PUNSUBSCRIBE"),
            Kind::Shard => ("SSUBSCRIBE", "SUNSUBSCRIBE"),
        }
    }

    /// Of a push that tells the end of a subscription.
    fn of_end(push: &PushKind) -> Option<Kind> {
        match push {
            PushKind::Unsubscribe => Some(Kind::Channel),
            PushKind::PUnsubscribe => Some(Kind::Pattern),
            PushKind::SUnsubscribe => Some(Kind::Shard),
            _ => None,
        }
    }
}

impl ClusterConnection {
    /// A receiver of published messages, without a subscription yet. It connects when it is needed.
    pub fn pubsub(&self) -> ClusterPubSub {
        ClusterPubSub {
            inner: self.inner.clone(),
            lists: self.inner.lists.subscribe(),
            subscribers: Vec::new(),
            wanted: BTreeMap::new(),
            home: None,
            lost: BTreeSet::new(),
            events: VecDeque::new(),
            is_after_gap: false,
            is_in_gap: false,
            again: None,
            turn: 0,
        }
    }
}

macro_rules! subscriptions {
    ($($(#[$doc:meta])* $name:ident = $act:ident $kind:ident;)*) => {
        impl ClusterPubSub {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// The server's, and those of the connection.
            pub async fn $name(&mut self, target: impl AsRef<[u8]>) -> RedisResult<()> {
                self.$act(Target { kind: Kind::$kind, name: target.as_ref().to_vec() }).await
            }
        )*}
    };
}

subscriptions! {
    /// Subscribes to a channel.
    subscribe = begin Channel;
    /// Ends the subscription to a channel.
    unsubscribe = end Channel;
    /// Subscribes to all channels whose names match a pattern.
    psubscribe = begin Pattern;
    /// Ends the subscription to a pattern.
    punsubscribe = end Pattern;
    /// Subscribes to a shard channel.
    ssubscribe = begin Shard;
    /// Ends the subscription to a shard channel.
    sunsubscribe = end Shard;
}

impl ClusterPubSub {
    /// The next message. `None` when the cluster connection is closed.
    pub async fn next_message(&mut self) -> Option<Msg> {
        loop {
            if let PubSubEvent::Message(message) = self.next_event().await? {
                return Some(message);
            }
        }
    }

    /// The next message, or what is to be known about missing ones. `None` when the cluster connection is closed.
    /// Nothing is lost if the future is dropped.
    pub async fn next_event(&mut self) -> Option<PubSubEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if self.inner.is_closed() {
                return None;
            }
            self.settle().await;
            if !self.events.is_empty() {
                continue;
            }
            let pause = self.again.map(|at| at.saturating_duration_since(Instant::now()));
            tokio::select! {
                (index, push) = next_push(&self.subscribers, self.turn) => {
                    self.turn = index + 1;
                    self.take(index, push);
                }
                changed = self.lists.changed() => match changed {
                    Ok(()) => self.look_around(),
                    Err(_) => return None,
                },
                () = tokio::time::sleep(pause.unwrap_or(TURN_MAX)) => {}
            }
        }
    }

    async fn begin(&mut self, target: Target) -> RedisResult<()> {
        if self.wanted.len() >= TARGETS_MAX {
            return Err(RedisError::new(ErrorKind::Client, "there are too many subscriptions"));
        }
        let patience = self.inner.patience().unwrap_or(TURN_MAX);
        let until = Instant::now() + patience;
        loop {
            let error = match self.attach(&target).await {
                Ok(number) => {
                    self.wanted.insert(target, Some(number));
                    return Ok(());
                }
                Err(error) => error,
            };
            let is_passing = error.is_connection_dropped() || is_refusal(&error);
            if !is_passing || Instant::now() >= until || self.inner.is_closed() {
                return Err(error);
            }
            self.inner.ring();
            tokio::time::sleep(ATTEMPT_GAP).await;
        }
    }

    async fn end(&mut self, target: Target) -> RedisResult<()> {
        let Some(Some(number)) = self.wanted.remove(&target) else { return Ok(()) };
        let (_, command) = target.kind.commands();
        match self.subscribers.iter().find(|subscriber| subscriber.node.number == number) {
            Some(subscriber) => subscriber.connection.change_subscription(command, &[&target.name]).await,
            None => Ok(()),
        }
    }

    /// Subscribes at the node where that belongs now; returns its number.
    async fn attach(&mut self, target: &Target) -> RedisResult<u16> {
        let node = self.node_for(target)?;
        let connection = self.connection_to(&node).await?;
        let (command, _) = target.kind.commands();
        let outcome = connection.change_subscription(command, &[&target.name]).await;
        outcome.inspect_err(|error| self.learn(error.line(), &node))?;
        Ok(node.number)
    }

    /// Takes what an error tells of the slot.
    fn learn(&self, line: Option<&str>, node: &Node) {
        let refusal = line.and_then(|line| Refusal::of(&ServerError::new(line), &node.addr));
        if let Some(Refusal::Moved { slot, to }) = refusal {
            self.inner.routes.lock().moved(slot, node.number, &to);
        }
        self.inner.ring();
    }

    fn node_for(&mut self, target: &Target) -> RedisResult<Arc<Node>> {
        let mut table = self.inner.routes.lock();
        if target.kind == Kind::Shard {
            return table.node_for(Place::of_slot(slot(&target.name))).ok_or_else(no_node);
        }
        if let Some(home) = &self.home {
            return Ok(home.clone());
        }
        let mut nodes = table.all();
        nodes.sort_by_key(|node| node.is_broken());
        let home = nodes.into_iter().next().ok_or_else(no_node)?;
        self.home = Some(home.clone());
        Ok(home)
    }

    async fn connection_to(&mut self, node: &Arc<Node>) -> RedisResult<Connection> {
        if let Some(known) = self.subscribers.iter().find(|subscriber| Arc::ptr_eq(&subscriber.node, node)) {
            return Ok(known.connection.clone());
        }
        let connection = within(ATTEMPT_MAX, node.subscriber()).await?;
        self.subscribers.push(Subscriber { node: node.clone(), connection: connection.clone() });
        Ok(connection)
    }

    /// Makes subscriptions again that are nowhere now.
    async fn settle(&mut self) {
        if self.again.is_some_and(|at| at > Instant::now()) {
            return;
        }
        let missing: Vec<Target> =
            self.wanted.iter().filter(|(_, at)| at.is_none()).map(|(target, _)| target.clone()).collect();
        let was_missing = self.again.take().is_some() || !missing.is_empty();
        for target in missing {
            match within(ATTEMPT_MAX, self.attach(&target)).await {
                Ok(number) => _ = self.wanted.insert(target, Some(number)),
                Err(error) => self.note_failure(target, &error),
            }
        }
        if was_missing || self.is_in_gap {
            self.end_gap();
        }
    }

    /// Whether all subscriptions are there.
    fn has_all(&self) -> bool {
        self.again.is_none() && self.lost.is_empty() && self.wanted.values().all(Option::is_some)
    }

    /// What fails for good is told; the rest is tried again.
    fn note_failure(&mut self, target: Target, error: &RedisError) {
        let is_passing = error.is_connection_dropped() || is_refusal(error);
        match error.line().filter(|_| !is_passing) {
            Some(line) => {
                self.wanted.remove(&target);
                self.events.push_back(PubSubEvent::Refused { name: target.name, error: ServerError::new(line) });
            }
            None => self.again = Some(Instant::now() + ATTEMPT_GAP),
        }
        if error.is_connection_dropped() {
            // Another node may be better for what is not bound to a slot.
            self.home = self.home.take().filter(|home| !home.is_broken());
        }
    }

    /// Looks for subscriptions that belong elsewhere by now.
    fn look_around(&mut self) {
        let known = self.inner.routes.lock().all();
        let is_known = |node: &Arc<Node>| known.iter().any(|other| Arc::ptr_eq(node, other));
        self.home = self.home.take().filter(is_known);
        self.subscribers.retain(|subscriber| is_known(&subscriber.node));
        let subscribers = &self.subscribers;
        self.lost.retain(|lost| subscribers.iter().any(|subscriber| subscriber.node.number == *lost));
        let has = |number: u16| self.subscribers.iter().any(|subscriber| subscriber.node.number == number);
        let home = self.home.as_ref().map(|home| home.number);
        let mut table = self.inner.routes.lock();
        let mut lost = false;
        for (target, at) in &mut self.wanted {
            let belongs = match target.kind {
                Kind::Shard => table.choose(Place::of_slot(slot(&target.name))),
                _ => home,
            };
            if at.is_some_and(|at| !has(at) || belongs.is_some_and(|belongs| belongs != at)) {
                *at = None;
                lost = true;
            }
        }
        drop(table);
        if lost {
            self.lose();
        }
    }

    fn lose(&mut self) {
        self.is_after_gap = true;
        self.again = None;
        if !std::mem::replace(&mut self.is_in_gap, true) {
            self.events.push_back(PubSubEvent::Gap);
        }
    }

    /// Tells the end of the gap, if there is one and all subscriptions are there.
    fn end_gap(&mut self) {
        if self.has_all() && std::mem::take(&mut self.is_in_gap) {
            self.events.push_back(PubSubEvent::Resubscribed);
        }
    }

    /// Takes what has come from a node; `None` if its connection is closed for good.
    fn take(&mut self, index: usize, push: Option<PushInfo>) {
        let Some(push) = push else {
            let gone = self.subscribers.remove(index).node.number;
            self.lost.remove(&gone);
            let of_it = self.wanted.values_mut().filter(|at| **at == Some(gone));
            let lost = of_it.map(|at| *at = None).count();
            self.home = self.home.take().filter(|home| home.number != gone);
            if lost > 0 {
                self.lose();
            }
            return;
        };
        let number = self.subscribers[index].node.number;
        match push.kind {
            PushKind::Disconnection => {
                if self.wanted.values().any(|at| *at == Some(number)) {
                    self.lost.insert(number);
                    self.lose();
                }
            }
            PushKind::Resubscribed => {
                self.lost.remove(&number);
                self.end_gap();
            }
            PushKind::Lagged(_) => {
                self.lose();
                self.end_gap();
            }
            _ => match Kind::of_end(&push.kind) {
                Some(kind) => self.note_end(index, kind, &push),
                None => self.note_message(push),
            },
        }
    }

    fn note_message(&mut self, push: PushInfo) {
        if let Some(message) = Msg::from_push_info(push) {
            let after_gap = std::mem::take(&mut self.is_after_gap);
            self.events.push_back(PubSubEvent::Message(message.behind_gap(after_gap)));
        }
    }

    /// A subscription has ended at a node: at the user's wish, or since its slot has gone.
    fn note_end(&mut self, index: usize, kind: Kind, push: &PushInfo) {
        let node = self.subscribers[index].node.clone();
        let Some(name) = push.data.first().and_then(Value::as_bytes) else { return };
        let target = Target { kind, name: name.to_vec() };
        if self.wanted.get(&target) != Some(&Some(node.number)) {
            return;
        }
        let refused = refusal(push).map(|(_, error)| RedisError::from(error));
        match refused.filter(|error| !is_refusal(error)) {
            Some(error) => self.note_failure(target, &error),
            None => {
                self.learn(refusal(push).as_ref().map(|(_, error)| error.line()), &node);
                self.wanted.insert(target, None);
                self.lose();
            }
        }
    }
}

/// Whether an error says that the slot is elsewhere, or that the node cannot do it now.
fn is_refusal(error: &RedisError) -> bool {
    matches!(error.code(), Some("MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN"))
}

/// The next push of any node, asked in turn from this one on; `None` if its connection is closed for good. Waits for
/// ever without nodes.
async fn next_push(subscribers: &[Subscriber], first: usize) -> (usize, Option<PushInfo>) {
    std::future::poll_fn(|cx| {
        for turn in 0..subscribers.len() {
            let index = (first + turn) % subscribers.len();
            let subscriber = &subscribers[index];
            if let Poll::Ready(push) = subscriber.connection.inner.shared.outlet.poll_next(cx) {
                return Poll::Ready((index, push));
            }
        }
        Poll::Pending
    })
    .await
}

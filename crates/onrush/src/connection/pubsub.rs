//! A connection for subscriptions.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use crate::connection::Connection;
use crate::error::{RedisResult, ServerError};
use crate::values::from_value::{FromRedisValue, from_redis_value};
use crate::values::value::{PushInfo, PushKind, Value};

/// A connection that only receives: the messages of channels and patterns, over RESP2 and RESP3.
///
/// While a reader is [`PUSHES_MAX`](crate::PUSHES_MAX) messages or [`PUSHES_BYTES_MAX`](crate::PUSHES_BYTES_MAX) behind,
/// the connection is left unread, unless a subscription waits for its confirmation: then the client drops what comes
/// beyond four times as much. Left unread, the messages pile up in the server, which cuts off a subscriber that is too
/// far behind (`client-output-buffer-limit`), and what it had for it is lost. So are the messages published during any
/// disconnect. Such a gap is told, if there was a subscription:
/// [`next_event`](Self::next_event) returns its beginning and its end in their places among the messages,
/// and [`Msg::is_after_gap`] marks the message behind it.
///
/// Any number of subscriptions may be made before anything is read. Once the server has confirmed them, they are made
/// again after each reconnect.
#[derive(Debug)]
pub struct PubSub {
    sink: PubSubSink,
    stream: PubSubStream,
}

/// The half of a [`PubSub`] that subscribes, from [`PubSub::split`]. Any number of tasks may share it by cloning.
#[derive(Clone, Debug)]
pub struct PubSubSink {
    connection: Connection,
}

/// The half of a [`PubSub`] that reads, from [`PubSub::split`]. When it is dropped, the connection is closed.
#[derive(Debug)]
pub struct PubSubStream {
    connection: Connection,
    /// Whether messages may be missing before the next one.
    gap: bool,
    /// Whether the gap that was told last has ended already.
    ended: bool,
    /// Whether the connection is lost, and the subscriptions are not all there again.
    is_lost: bool,
}

/// What comes to a [`PubSub`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PubSubEvent {
    /// A published message.
    Message(Msg),
    /// The connection was lost, or this reader too far behind: messages may be missing from here to
    /// [`Resubscribed`](Self::Resubscribed).
    Gap,
    /// The gap ends: a connection that was lost was made again, and with it all subscriptions but those that were
    /// refused. Messages of those that were made again first may come before.
    Resubscribed,
    /// The server has refused to make a subscription again after a reconnect, with this error: no more messages come by
    /// it. Errors that pass (`BUSY`, `LOADING` and the like) are not told: the client asks again.
    Refused {
        /// The channel or the pattern.
        name: Vec<u8>,
        /// Why.
        error: ServerError,
    },
}

/// A published message.
#[derive(Clone, Debug, PartialEq)]
pub struct Msg {
    channel: Value,
    pattern: Option<Value>,
    payload: Value,
    after_gap: bool,
}

impl Msg {
    /// A message from a push, if it is one.
    pub fn from_push_info(push: PushInfo) -> Option<Msg> {
        let has_pattern = push.kind == PushKind::PMessage;
        if !push.kind.is_message() {
            return None;
        }
        let mut parts = push.data.into_iter();
        let pattern = if has_pattern { Some(parts.next()?) } else { None };
        Some(Msg { channel: parts.next()?, pattern, payload: parts.next()?, after_gap: false })
    }

    /// The same, with or without a gap before it.
    pub(crate) fn behind_gap(self, after_gap: bool) -> Msg {
        Msg { after_gap, ..self }
    }

    /// The channel it was published on.
    ///
    /// # Errors
    /// The name does not fit the type.
    pub fn get_channel<T: FromRedisValue>(&self) -> RedisResult<T> {
        from_redis_value(self.channel.clone())
    }

    /// The channel's name, if it is UTF-8.
    pub fn get_channel_name(&self) -> Option<&str> {
        std::str::from_utf8(self.channel.as_bytes()?).ok()
    }

    /// The published message.
    ///
    /// # Errors
    /// The message does not fit the type.
    pub fn get_payload<T: FromRedisValue>(&self) -> RedisResult<T> {
        from_redis_value(self.payload.clone())
    }

    /// The bytes that were published.
    pub fn get_payload_bytes(&self) -> &[u8] {
        self.payload.as_bytes().unwrap_or_default()
    }

    /// Whether it came by a pattern.
    pub fn from_pattern(&self) -> bool {
        self.pattern.is_some()
    }

    /// Whether messages may be missing before it, since the connection was lost.
    pub fn is_after_gap(&self) -> bool {
        self.after_gap
    }

    /// The pattern it came by; `Nil` without one.
    ///
    /// # Errors
    /// The pattern does not fit the type.
    pub fn get_pattern<T: FromRedisValue>(&self) -> RedisResult<T> {
        from_redis_value(self.pattern.clone().unwrap_or(Value::Nil))
    }
}

macro_rules! subscriptions {
    ($($(#[$doc:meta])* $name:ident = $command:literal;)*) => {
        impl PubSubSink {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// The server's, and those of the connection.
            pub async fn $name(&self, target: impl AsRef<[u8]>) -> RedisResult<()> {
                self.connection.change_subscription($command, &[target.as_ref()]).await
            }
        )*}

        impl PubSub {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// The server's, and those of the connection.
            pub async fn $name(&mut self, target: impl AsRef<[u8]>) -> RedisResult<()> {
                self.sink.$name(target).await
            }
        )*}
    };
}

subscriptions! {
    /// Subscribes to a channel.
    subscribe = "SUBSCRIBE";
    /// Ends the subscription to a channel.
    unsubscribe = "UNSUBSCRIBE";
    /// Subscribes to all channels whose names match a pattern.
    psubscribe = "PSUBSCRIBE";
    /// Ends the subscription to a pattern.
    punsubscribe = "PUNSUBSCRIBE";
    /// Subscribes to a shard channel.
    ssubscribe = "SSUBSCRIBE";
    /// Ends the subscription to a shard channel.
    sunsubscribe = "SUNSUBSCRIBE";
}

impl PubSub {
    pub(crate) fn new(connection: Connection) -> PubSub {
        PubSub {
            sink: PubSubSink { connection: connection.clone() },
            stream: PubSubStream { connection, gap: false, ended: false, is_lost: false },
        }
    }

    /// The half that subscribes and the half that reads, for different tasks.
    pub fn split(self) -> (PubSubSink, PubSubStream) {
        (self.sink, self.stream)
    }

    /// The next push of any kind; as [`PubSubStream::next_push`].
    pub async fn next_push(&mut self) -> Option<PushInfo> {
        self.stream.next_push().await
    }

    /// The next message; as [`PubSubStream::next_message`].
    pub async fn next_message(&mut self) -> Option<Msg> {
        self.stream.next_message().await
    }

    /// The next message, or what is to be known about missing ones; as [`PubSubStream::next_event`].
    pub async fn next_event(&mut self) -> Option<PubSubEvent> {
        self.stream.next_event().await
    }

    /// The messages as a stream.
    pub fn on_message(&mut self) -> impl Stream<Item = Msg> + '_ {
        self
    }

    /// The messages as a stream that owns the connection.
    pub fn into_on_message(self) -> impl Stream<Item = Msg> {
        self
    }
}

impl PubSubStream {
    /// The next push of any kind: messages, confirmations (unless [`PUSHES_MAX`](crate::PUSHES_MAX) pushes wait
    /// already), a [`Disconnection`](PushKind::Disconnection) where messages may be missing, and
    /// [`Resubscribed`](PushKind::Resubscribed) where that ends, [`Lagged`](PushKind::Lagged) where messages were
    /// dropped. `None` when the connection is closed for good.
    pub async fn next_push(&mut self) -> Option<PushInfo> {
        let push = std::future::poll_fn(|cx| self.connection.inner.shared.outlet.poll_next(cx)).await;
        if let Some(push) = &push {
            match push.kind {
                PushKind::Disconnection | PushKind::Lagged(_) => self.gap = true,
                PushKind::Message | PushKind::PMessage | PushKind::SMessage => self.gap = false,
                _ => {}
            }
        }
        push
    }

    /// The next message. `None` when the connection is closed for good. It does not say that messages are missing
    /// before the next one has come; [`next_event`](Self::next_event) does.
    pub async fn next_message(&mut self) -> Option<Msg> {
        std::future::poll_fn(|cx| self.poll_message(cx)).await
    }

    /// The next message, or what is to be known about missing ones. `None` when the connection is closed for good.
    pub async fn next_event(&mut self) -> Option<PubSubEvent> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }

    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<Msg>> {
        loop {
            match ready!(self.poll_event(cx)) {
                None => return Poll::Ready(None),
                Some(PubSubEvent::Message(message)) => return Poll::Ready(Some(message)),
                Some(_) => {}
            }
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<PubSubEvent>> {
        if std::mem::take(&mut self.ended) {
            return Poll::Ready(Some(PubSubEvent::Resubscribed));
        }
        loop {
            let Some(push) = ready!(self.connection.inner.shared.outlet.poll_next(cx)) else {
                return Poll::Ready(None);
            };
            if matches!(push.kind, PushKind::Disconnection | PushKind::Lagged(_)) {
                self.gap = true;
                self.is_lost |= push.kind == PushKind::Disconnection;
                self.ended = !self.is_lost;
                return Poll::Ready(Some(PubSubEvent::Gap));
            }
            if push.kind == PushKind::Resubscribed {
                self.is_lost = false;
                return Poll::Ready(Some(PubSubEvent::Resubscribed));
            }
            if let Some((name, error)) = refusal(&push) {
                return Poll::Ready(Some(PubSubEvent::Refused { name, error }));
            }
            if let Some(message) = Msg::from_push_info(push) {
                let after_gap = std::mem::take(&mut self.gap);
                return Poll::Ready(Some(PubSubEvent::Message(Msg { after_gap, ..message })));
            }
        }
    }
}

impl Drop for PubSubStream {
    /// Nobody is left to read: what subscribes learns that.
    fn drop(&mut self) {
        self.connection.inner.shared.abandon();
    }
}

/// The subscription that the server has refused to make again, if the push tells of one.
pub(crate) fn refusal(push: &PushInfo) -> Option<(Vec<u8>, ServerError)> {
    match push.data.as_slice() {
        [name, Value::ServerError(error)] => Some((name.as_bytes()?.to_vec(), error.clone())),
        _ => None,
    }
}

impl Stream for PubSub {
    type Item = Msg;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Msg>> {
        self.get_mut().stream.poll_message(cx)
    }
}

impl Stream for PubSubStream {
    type Item = Msg;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Msg>> {
        self.get_mut().poll_message(cx)
    }
}

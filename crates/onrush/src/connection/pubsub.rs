//! A connection for subscriptions.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use crate::connection::Connection;
use crate::error::RedisResult;
use crate::values::from_value::{FromRedisValue, from_redis_value};
use crate::values::value::{PushInfo, PushKind, Value};

/// A connection that only receives: the messages of channels and patterns, over RESP2 and RESP3.
///
/// The client drops no messages: a reader that falls behind slows the server down. Any number of subscriptions may be
/// made before anything is read. Once the server has confirmed them, they are made again after each reconnect; messages
/// published during the disconnect are missed, as always with pub/sub.
#[derive(Debug)]
pub struct PubSub {
    connection: Connection,
}

/// A published message.
#[derive(Clone, Debug, PartialEq)]
pub struct Msg {
    channel: Value,
    pattern: Option<Value>,
    payload: Value,
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
        Some(Msg { channel: parts.next()?, pattern, payload: parts.next()? })
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

    /// The pattern it came by; `Nil` without one.
    ///
    /// # Errors
    /// The pattern does not fit the type.
    pub fn get_pattern<T: FromRedisValue>(&self) -> RedisResult<T> {
        from_redis_value(self.pattern.clone().unwrap_or(Value::Nil))
    }
}

impl PubSub {
    pub(crate) fn new(connection: Connection) -> PubSub {
        PubSub { connection }
    }

    /// Subscribes to a channel.
    ///
    /// # Errors
    /// The server's, and those of the connection.
    pub async fn subscribe(&mut self, channel: impl AsRef<[u8]>) -> RedisResult<()> {
        self.connection.change_subscription("SUBSCRIBE", &[channel.as_ref()]).await
    }

    /// Ends the subscription to a channel.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub async fn unsubscribe(&mut self, channel: impl AsRef<[u8]>) -> RedisResult<()> {
        self.connection.change_subscription("UNSUBSCRIBE", &[channel.as_ref()]).await
    }

    /// Subscribes to all channels whose names match a pattern.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub async fn psubscribe(&mut self, pattern: impl AsRef<[u8]>) -> RedisResult<()> {
        self.connection.change_subscription("PSUBSCRIBE", &[pattern.as_ref()]).await
    }

    /// Ends the subscription to a pattern.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub async fn punsubscribe(&mut self, pattern: impl AsRef<[u8]>) -> RedisResult<()> {
        self.connection.change_subscription("PUNSUBSCRIBE", &[pattern.as_ref()]).await
    }

    /// Subscribes to a shard channel.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub async fn ssubscribe(&mut self, channel: impl AsRef<[u8]>) -> RedisResult<()> {
        self.connection.change_subscription("SSUBSCRIBE", &[channel.as_ref()]).await
    }

    /// Ends the subscription to a shard channel.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub async fn sunsubscribe(&mut self, channel: impl AsRef<[u8]>) -> RedisResult<()> {
        self.connection.change_subscription("SUNSUBSCRIBE", &[channel.as_ref()]).await
    }

    /// The next push of any kind: messages, confirmations (unless [`PUSHES_MAX`](crate::PUSHES_MAX) pushes wait
    /// already), and a [`Disconnection`](PushKind::Disconnection) where messages may be missing. `None` when the
    /// connection is closed for good.
    pub async fn next_push(&mut self) -> Option<PushInfo> {
        std::future::poll_fn(|cx| self.connection.inner.shared.outlet.poll_next(cx)).await
    }

    /// The next message. `None` when the connection is closed for good.
    pub async fn next_message(&mut self) -> Option<Msg> {
        std::future::poll_fn(|cx| self.poll_message(cx)).await
    }

    /// The messages as a stream.
    pub fn on_message(&mut self) -> impl Stream<Item = Msg> + '_ {
        self
    }

    /// The messages as a stream that owns the connection.
    pub fn into_on_message(self) -> impl Stream<Item = Msg> {
        self
    }

    fn poll_message(&self, cx: &mut Context<'_>) -> Poll<Option<Msg>> {
        loop {
            match std::task::ready!(self.connection.inner.shared.outlet.poll_next(cx)) {
                None => return Poll::Ready(None),
                Some(push) => {
                    if let Some(message) = Msg::from_push_info(push) {
                        return Poll::Ready(Some(message));
                    }
                }
            }
        }
    }
}

impl Stream for PubSub {
    type Item = Msg;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Msg>> {
        self.poll_message(cx)
    }
}

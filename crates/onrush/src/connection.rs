//! A connection that any number of tasks share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::cmd::{Class, Cmd};
use crate::connector::Connector;
use crate::driver::Driver;
use crate::encode::command;
use crate::error::{ErrorKind, Fate, RedisError, RedisResult};
use crate::lease::{Lease, Leases};
use crate::pipeline::Pipeline;
use crate::push::{Outlet, Pushes};
use crate::queue::{Shared, push_when_room};
use crate::script::Script;
use crate::sink::{BatchOutcome, Broken, Manner, Sink};
use crate::url::ProtocolVersion;
use crate::value::Value;

/// What commands and pipelines can be sent over: a [`Connection`], a [`Lease`], or something of your own around them.
pub trait ConnectionLike: Send + Sync {
    /// Sends a command and waits for its reply. An error reply is an `Err`.
    fn send_command(&self, cmd: &Cmd) -> impl Future<Output = RedisResult<Value>> + Send;

    /// Sends a pipeline and waits for all replies: one result per command, the ignored ones too; `None` for a
    /// transaction that a WATCH has stopped.
    fn send_pipeline(
        &self,
        pipeline: &Pipeline,
    ) -> impl Future<Output = RedisResult<Option<Vec<RedisResult<Value>>>>> + Send;
}

/// A connection to one server, shared by cloning; a clone costs one reference count.
///
/// Commands of all tasks go out in the order they were queued, as many with one write as have gathered, and nobody waits
/// for anybody else's reply before sending. Dropping the future of a command that was queued does not take the command
/// back: it is sent, and its reply dropped. When the last clone is gone and all is sent and answered, the connection
/// closes.
///
/// Blocking commands (`BLPOP`, `XREAD … BLOCK` and the like) travel on a leased connection by themselves. What changes a
/// connection's state (`WATCH`, `MULTI`, `SELECT` …) is refused here, since it would hit everybody's commands: use
/// [`transaction`](Self::transaction), [`Pipeline::atomic`], or a [`lease`](Self::lease).
#[derive(Clone)]
pub struct Connection {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub shared: Arc<Shared>,
    pub connector: Arc<Connector>,
    pub leases: Leases,
    /// Whether it is a leased one, whose holder may do as they please.
    leased: bool,
    /// Requests that have begun and not ended; one that was dropped half-way never ends.
    pub open_requests: AtomicUsize,
    /// Whether its state may differ from a fresh connection's.
    pub stateful: AtomicBool,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.leased { self.shared.abandon() } else { self.shared.desert() }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("addr", &self.inner.connector.info.addr).finish_non_exhaustive()
    }
}

impl Connection {
    pub(crate) async fn open(connector: Arc<Connector>) -> RedisResult<Connection> {
        let backoff = connector.config.backoff.clone();
        Connection::open_with(connector, Outlet::broadcast(), backoff, false).await
    }

    pub(crate) async fn open_lossless(connector: Arc<Connector>) -> RedisResult<Connection> {
        let backoff = connector.config.backoff.clone();
        Connection::open_with(connector, Outlet::lossless(), backoff, false).await
    }

    /// A connection for one holder; it is not replaced when it breaks, since its state would be lost unnoticed.
    pub(crate) async fn open_leased(connector: Arc<Connector>) -> RedisResult<Connection> {
        Connection::open_with(connector, Outlet::broadcast(), None, true).await
    }

    async fn open_with(
        connector: Arc<Connector>,
        outlet: Outlet,
        backoff: Option<crate::backoff::Backoff>,
        leased: bool,
    ) -> RedisResult<Connection> {
        let config = &connector.config;
        let shared = Arc::new(Shared::new(config.queue_bytes_max, outlet));
        let link = connector.connect(&shared).await?;
        Driver::spawn(shared.clone(), (*connector).clone(), backoff, config.response_timeout, link);
        let leases = Leases::new(config.leases_max);
        let (open_requests, stateful) = Default::default();
        Ok(Connection { inner: Arc::new(Inner { shared, connector, leases, leased, open_requests, stateful }) })
    }

    /// The protocol agreed on with the server.
    pub fn protocol(&self) -> ProtocolVersion {
        self.inner.shared.protocol()
    }

    /// Whether the connection is closed for good. One that is being replaced after a disconnect is not.
    pub fn is_closed(&self) -> bool {
        self.inner.shared.is_closed()
    }

    /// How many bytes of commands wait to be written.
    pub fn queued_len(&self) -> usize {
        self.inner.shared.queued_len()
    }

    /// A connection of one's own from a small pool, for what must not be shared. It goes back when dropped.
    ///
    /// # Errors
    /// Those of connecting.
    pub async fn lease(&self) -> RedisResult<Lease> {
        Lease::take(self).await
    }

    /// The push messages that arrive from now on.
    ///
    /// # Errors
    /// [`ErrorKind::Client`] when the server speaks RESP2 only, which has none.
    pub fn pushes(&self) -> RedisResult<Pushes> {
        if self.protocol() != ProtocolVersion::RESP3 {
            return Err(RedisError::new(
                ErrorKind::Client,
                "push messages need RESP3, which the server does not speak",
            ));
        }
        Pushes::new(&self.inner.shared.outlet)
    }

    /// Subscribes to a channel on this connection; the messages come through [`pushes`](Self::pushes). Kept up over
    /// reconnects. RESP3 only: for RESP2 use [`Client::get_async_pubsub`](crate::Client::get_async_pubsub).
    ///
    /// # Errors
    /// The server's, and [`ErrorKind::Client`] with RESP2.
    pub async fn subscribe(&self, channel: impl AsRef<[u8]>) -> RedisResult<()> {
        self.change_subscription("SUBSCRIBE", &[channel.as_ref()]).await
    }

    /// Ends the subscription to a channel.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub async fn unsubscribe(&self, channel: impl AsRef<[u8]>) -> RedisResult<()> {
        self.change_subscription("UNSUBSCRIBE", &[channel.as_ref()]).await
    }

    /// Subscribes to all channels whose names match a pattern.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub async fn psubscribe(&self, pattern: impl AsRef<[u8]>) -> RedisResult<()> {
        self.change_subscription("PSUBSCRIBE", &[pattern.as_ref()]).await
    }

    /// Ends the subscription to a pattern.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub async fn punsubscribe(&self, pattern: impl AsRef<[u8]>) -> RedisResult<()> {
        self.change_subscription("PUNSUBSCRIBE", &[pattern.as_ref()]).await
    }

    pub(crate) async fn change_subscription(&self, name: &'static str, targets: &[&[u8]]) -> RedisResult<()> {
        let shared = &self.inner.shared;
        if !shared.outlet.is_lossless() && self.protocol() != ProtocolVersion::RESP3 {
            let hint = "subscribing on a shared connection needs RESP3; use Client::get_async_pubsub";
            return Err(RedisError::new(ErrorKind::Client, hint));
        }
        if targets.is_empty() {
            return Ok(());
        }
        let args: Vec<&[u8]> = std::iter::once(name.as_bytes()).chain(targets.iter().copied()).collect();
        let mut bytes = Vec::new();
        command(&args, &mut bytes);
        let waiting = push_when_room(shared, &bytes, Manner::ONE, &[], || Sink::confirm(targets.len())).await?;
        let outcome = waiting.await.unwrap_or_else(|_| Err(driver_gone()));
        outcome.map_err(|broken| broken.error_at(bytes.len()))?.into_result()?;
        let mut subscriptions = shared.subscriptions.lock();
        let set = subscriptions.set_mut(name);
        for target in targets {
            if name.contains("UNSUB") {
                set.remove(*target);
            } else {
                set.insert(target.to_vec());
            }
        }
        Ok(())
    }

    /// Queues one command and waits for its reply, errors included.
    pub(crate) async fn request(&self, bytes: &[u8], manner: Manner, idempotent: bool) -> RedisResult<Value> {
        let shared = &*self.inner.shared;
        let mut retries = 0;
        loop {
            let waiting = push_when_room(shared, bytes, manner, &[], Sink::one).await?;
            let broken = match waiting.await {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(broken)) => broken,
                Err(_) => driver_gone(),
            };
            let error = broken.error_at(bytes.len());
            let retry = broken.may_retry() && (idempotent || error.fate() == Fate::NotSent);
            if !retry || retries == self.inner.connector.config.retries_max || shared.is_closed() {
                return Err(error);
            }
            retries += 1;
        }
    }

    /// Queues commands in one piece and waits for all their replies.
    pub(crate) async fn request_batch(
        &self,
        bytes: &[u8],
        count: usize,
        manner: Manner,
        scripts: &[Script],
    ) -> RedisResult<BatchOutcome> {
        let shared = &*self.inner.shared;
        let waiting = push_when_room(shared, bytes, manner, scripts, || Sink::batch(count)).await?;
        let gone = |_| BatchOutcome { replies: Vec::new(), broken: Some(driver_gone()) };
        Ok(waiting.await.unwrap_or_else(gone))
    }

    /// Sends on this very connection, whatever the class of the command.
    pub(crate) async fn send_here(&self, cmd: &Cmd, class: Class) -> RedisResult<Value> {
        let manner = Manner { whole: true, patient: class == Class::Blocking };
        let open = OpenRequest::new(&self.inner);
        let value = self.request(cmd.encoded(), manner, cmd.is_idempotent()).await?;
        open.done();
        value.into_result()
    }

    /// Whether commands of the class may go over this connection: `Ok(false)` means a lease is needed.
    pub(crate) fn admit(&self, class: Class) -> RedisResult<bool> {
        match class {
            Class::Refused => Err(RedisError::new(
                ErrorKind::Client,
                "that command would break the pairing of commands and replies; there is Client::get_async_pubsub, and \
                 Connection::subscribe",
            )),
            _ if self.inner.leased => {
                if class == Class::Stateful {
                    self.inner.stateful.store(true, Ordering::Relaxed);
                }
                Ok(true)
            }
            Class::Stateful => Err(RedisError::new(
                ErrorKind::Client,
                "that command changes the state of a connection that others share; use Pipeline::atomic, \
                 Connection::transaction or Connection::lease, and the URL for the database",
            )),
            class => Ok(class != Class::Blocking),
        }
    }
}

/// Counts a request on a connection until it has ended in order.
struct OpenRequest<'a>(&'a Inner);

impl OpenRequest<'_> {
    #[inline]
    fn new(inner: &Inner) -> OpenRequest<'_> {
        if inner.leased {
            inner.open_requests.fetch_add(1, Ordering::Relaxed);
        }
        OpenRequest(inner)
    }

    #[inline]
    fn done(self) {
        if self.0.leased {
            self.0.open_requests.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn driver_gone() -> Broken {
    Broken { error: RedisError::new(ErrorKind::Closed, "the connection's runtime has shut down"), written: usize::MAX }
}

impl ConnectionLike for Connection {
    async fn send_command(&self, cmd: &Cmd) -> RedisResult<Value> {
        if cmd.is_empty() {
            return Err(RedisError::new(ErrorKind::Client, "a command without a name"));
        }
        let class = cmd.class();
        if class == Class::Plain || self.admit(class)? {
            return self.send_here(cmd, class).await;
        }
        let lease = self.lease().await?;
        lease.connection().send_here(cmd, class).await
    }

    async fn send_pipeline(&self, pipeline: &Pipeline) -> RedisResult<Option<Vec<RedisResult<Value>>>> {
        let class = pipeline.class();
        if class == Class::Plain || self.admit(class)? {
            return self.send_pipeline_here(pipeline, class).await;
        }
        let lease = self.lease().await?;
        lease.connection().send_pipeline_here(pipeline, class).await
    }
}

impl Connection {
    pub(crate) async fn send_pipeline_here(
        &self,
        pipeline: &Pipeline,
        class: Class,
    ) -> RedisResult<Option<Vec<RedisResult<Value>>>> {
        let open = OpenRequest::new(&self.inner);
        let patient = class == Class::Blocking;
        let results = if pipeline.is_atomic() {
            self.send_transaction(pipeline, patient).await?
        } else {
            Some(self.send_batch(pipeline, patient).await?)
        };
        open.done();
        if !pipeline.scripts().is_empty() {
            let results = results.iter().flatten();
            if results.filter_map(|result| result.as_ref().err()).any(|error| error.code() == Some("NOSCRIPT")) {
                // Somebody has flushed the scripts: the next call loads them again.
                pipeline.scripts().iter().for_each(|script| self.inner.shared.forget_script(script));
            }
        }
        Ok(results)
    }

    async fn send_batch(&self, pipeline: &Pipeline, patient: bool) -> RedisResult<Vec<RedisResult<Value>>> {
        let manner = Manner { whole: false, patient };
        let outcome = self.request_batch(pipeline.encoded(), pipeline.len(), manner, pipeline.scripts()).await?;
        let mut results: Vec<_> = outcome.replies.into_iter().map(Value::into_result).collect();
        let mut broken = outcome.broken;
        let mut retries = 0;
        // Each turn settles or sends again what has no reply; what was replied to stays.
        let mut missing: Vec<(usize, usize)> = Vec::new();
        if broken.is_some() {
            let mut end = (0..results.len()).map(|index| pipeline.command(index).len()).sum();
            for index in results.len()..pipeline.len() {
                end += pipeline.command(index).len();
                missing.push((index, end));
            }
        }
        while let Some(broken_now) = broken.take() {
            results.resize_with(pipeline.len(), || Ok(Value::Nil));
            let may_retry = broken_now.may_retry()
                && retries < self.inner.connector.config.retries_max
                && !self.inner.shared.is_closed();
            retries += 1;
            let (mut again, mut bytes) = (Vec::new(), Vec::new());
            for &(index, end) in &missing {
                let error = broken_now.error_at(end);
                if may_retry && (error.fate() == Fate::NotSent || pipeline.is_idempotent(index)) {
                    bytes.extend_from_slice(pipeline.command(index));
                    again.push((index, bytes.len()));
                } else {
                    results[index] = Err(error);
                }
            }
            missing = again;
            if missing.is_empty() {
                break;
            }
            match self.request_batch(&bytes, missing.len(), manner, &[]).await {
                Ok(outcome) => {
                    let answered = outcome.replies.len();
                    for ((index, _), value) in missing.drain(..answered).zip(outcome.replies) {
                        results[index] = value.into_result();
                    }
                    broken = outcome.broken;
                }
                Err(error) => missing.drain(..).for_each(|(index, _)| results[index] = Err(error.clone())),
            }
        }
        Ok(results)
    }

    async fn send_transaction(
        &self,
        pipeline: &Pipeline,
        patient: bool,
    ) -> RedisResult<Option<Vec<RedisResult<Value>>>> {
        let mut bytes = Vec::with_capacity(pipeline.encoded().len() + 32);
        command(&[b"MULTI"], &mut bytes);
        bytes.extend_from_slice(pipeline.encoded());
        command(&[b"EXEC"], &mut bytes);
        let manner = Manner { whole: true, patient };
        let idempotent = (0..pipeline.len()).all(|index| pipeline.is_idempotent(index));
        let mut retries = 0;
        loop {
            let outcome = self.request_batch(&bytes, pipeline.len() + 2, manner, pipeline.scripts()).await?;
            let Some(broken) = outcome.broken else { return Ok(transaction_results(outcome.replies, pipeline.len())) };
            let error = broken.error_at(bytes.len());
            let retry = broken.may_retry() && (idempotent || error.fate() == Fate::NotSent);
            if !retry || retries == self.inner.connector.config.retries_max || self.inner.shared.is_closed() {
                return Ok(Some(vec![Err(error); pipeline.len()]));
            }
            retries += 1;
        }
    }
}

/// Takes apart what MULTI, the queued commands and EXEC were answered with.
fn transaction_results(mut replies: Vec<Value>, count: usize) -> Option<Vec<RedisResult<Value>>> {
    let exec = replies.pop().unwrap_or(Value::Nil);
    match exec {
        Value::Nil => None,
        Value::Array(values) if values.len() == count => Some(values.into_iter().map(Value::into_result).collect()),
        Value::ServerError(error) => {
            let error = RedisError::from(error);
            let each = replies.into_iter().skip(1).map(|queued| match queued {
                Value::ServerError(own) => Err(own.into()),
                _ => Err(error.clone()),
            });
            Some(each.collect())
        }
        other => Some(vec![Err(other.mismatch("list of a transaction's replies")); count]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ServerError;

    #[test]
    fn a_refused_transaction_tells_which_command_was_at_fault() {
        let error = |line: &str| Value::ServerError(ServerError::new(line));
        let queued = Value::SimpleString("QUEUED".into());
        let replies = vec![Value::Okay, queued, error("ERR unknown command"), error("EXECABORT Transaction discarded")];
        let results = transaction_results(replies, 2).unwrap();
        assert_eq!(results[0].as_ref().unwrap_err().code(), Some("EXECABORT"));
        assert_eq!(results[1].as_ref().unwrap_err().code(), Some("ERR"));
    }

    #[test]
    fn a_transaction_stopped_by_a_watch_is_none() {
        assert_eq!(transaction_results(vec![Value::Okay, Value::SimpleString("QUEUED".into()), Value::Nil], 1), None);
    }
}

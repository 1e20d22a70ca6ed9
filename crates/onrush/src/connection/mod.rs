//! A connection that any number of tasks share.

pub(crate) mod any;
pub(crate) mod client;
pub(crate) mod counters;
pub(crate) mod gate;
pub(crate) mod lease;
pub(crate) mod login;
pub(crate) mod many;
pub(crate) mod own_writes;
pub(crate) mod pipelines;
pub(crate) mod pubsub;
pub(crate) mod queue;
pub(crate) mod scripts;
pub(crate) mod sink;
pub(crate) mod subscriptions;
pub(crate) mod timeout;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cache::Cache;
use crate::commands::script::Script;
use crate::connection::counters::Counters;
use crate::connection::gate::{Class, Packed};
use crate::connection::lease::{Lease, Leases};
use crate::connection::own_writes::OwnWrites;
use crate::connection::queue::{Refused, Shared, when_room};
use crate::connection::sink::{BatchOutcome, Broken, Sink, Waiting};
use crate::connection::subscriptions::Change;
use crate::error::{ErrorKind, Fate, RedisError, RedisResult};
use crate::link::connector::{Connector, Patience};
use crate::link::driver::Driver;
use crate::link::push::{Outlet, Pushes};
use crate::link::url::ProtocolVersion;
use crate::observe::{watched, watched_pipeline};
use crate::values::cmd::{Caching, Cmd, Terms};
use crate::values::encode::encoded;
use crate::values::pipeline::{Pipeline, PipelineResult};
use crate::values::value::Value;

/// A thing over which commands and pipelines can be sent: a [`Connection`], a [`Lease`], or your own type around them.
pub trait ConnectionLike: Send + Sync {
    /// Sends a command and waits for its reply. An error reply is an `Err`.
    fn send_command(&self, cmd: &Cmd) -> impl Future<Output = RedisResult<Value>> + Send;

    /// Sends a pipeline and waits for all replies: one result per command, ignored ones included; `None` for a
    /// transaction that a WATCH has stopped.
    fn send_pipeline(
        &self,
        pipeline: &Pipeline,
    ) -> impl Future<Output = RedisResult<Option<Vec<RedisResult<Value>>>>> + Send;

    /// Whether it is closed for good: every further command would fail. Things that send again, such as
    /// [`Scan`](crate::Scan), then stop.
    fn is_closed(&self) -> bool {
        false
    }

    /// How often it was made again after it was lost. What belongs to one process of the server, such as the cursor of a
    /// [`Scan`](crate::Scan), may have lost its meaning each time.
    fn reconnects(&self) -> u64 {
        0
    }

    /// The server that commands with this key go to. Whoever wraps a connection passes this on.
    fn home(&self, _key: &[u8]) -> Home {
        Home { reconnects: self.reconnects(), node: None }
    }
}

/// A server of which something is kept, such as the cursor of a [`Scan`](crate::Scan): it may mean nothing any more when the
/// home is another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Home {
    /// How often its connection was made again after it was lost.
    pub reconnects: u64,
    /// Which node of a cluster it is; none where there is only one server.
    pub node: Option<u16>,
}

/// A connection to one server, shared by cloning; a clone costs one reference count.
///
/// Commands of all tasks go out in the order in which they were queued. One write sends all that have gathered, and no
/// task waits for another task's reply before sending. Dropping the future of a queued command does not take the
/// command back: it is sent, and its reply is dropped. The connection closes when the last clone is dropped and all
/// commands are sent and answered.
///
/// Blocking commands (`BLPOP`, `XREAD … BLOCK` and the like) automatically go over a leased connection, and over
/// another one if that is lost before they were sent, or if they are [`idempotent`](Cmd::idempotent). Dropping the
/// future of one closes its connection, so the server gives the next element to another client; an element that it had
/// popped by then is lost (`BLMOVE` and consumer groups avoid this). Commands that depend on or change a connection's
/// state (`WATCH`, `MULTI`, `SELECT`, `AUTH`, `WAIT` …) are refused here, since they would affect all tasks' commands:
/// use [`transaction`](Self::transaction), [`Pipeline::atomic`], or a [`lease`](Self::lease). Commands that a server
/// does not answer with exactly one reply (`SUBSCRIBE`, `MONITOR`, `CLIENT REPLY` …), and commands without a name, are
/// refused everywhere. A refused command has not been sent.
#[derive(Clone)]
pub struct Connection {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub shared: Arc<Shared>,
    pub connector: Arc<Connector>,
    pub leases: Arc<Leases>,
    /// When its making began: its login is at most as old.
    pub made: Instant,
    /// `None` if it does not keep the connection open.
    _use: Option<Use>,
}

/// A use of a connection that keeps it open.
struct Use(Arc<Shared>);

impl Drop for Use {
    fn drop(&mut self) {
        if self.0.is_leased() { self.0.abandon() } else { self.0.desert() }
    }
}

impl Inner {
    /// The same connection in the hands of one who does not keep it open.
    fn aside(&self) -> Inner {
        let Inner { shared, connector, leases, made, .. } = self;
        Inner { shared: shared.clone(), connector: connector.clone(), leases: leases.clone(), made: *made, _use: None }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("addr", &self.inner.connector.info.addr).finish_non_exhaustive()
    }
}

impl Connection {
    pub(crate) async fn open(connector: Arc<Connector>) -> RedisResult<Connection> {
        Connection::open_with(connector, Outlet::default(), None).await
    }

    pub(crate) async fn open_lossless(connector: Arc<Connector>) -> RedisResult<Connection> {
        Connection::open_with(connector, Outlet::lossless(), None).await
    }

    /// A connection for one holder beside a shared one. It is not replaced when it breaks, since its state would be
    /// lost silently.
    pub(crate) async fn open_leased(home: &Connection) -> RedisResult<Connection> {
        let Inner { connector, shared, .. } = &*home.inner;
        Connection::open_with(connector.clone(), Outlet::default(), Some(shared.clone())).await
    }

    /// A connection whose first link is made while commands wait for it already. It reconnects as any other.
    ///
    /// Must be called within a runtime.
    pub(crate) fn open_later(connector: Arc<Connector>) -> Connection {
        let shared = Arc::new(Shared::new(connector.config.queue_bytes_max, Outlet::default(), false));
        let backoff = connector.config.backoff.clone().unwrap_or_default();
        Driver::spawn(shared.clone(), (*connector).clone(), Some(backoff), None, None);
        Connection::driven(shared, connector, Instant::now())
    }

    /// Closes the connection at once: what was not sent fails as not sent, and the fate of what was sent is unknown.
    pub(crate) fn cut_off(&self) {
        self.inner.leases.close();
        self.inner.shared.abandon();
        self.inner.shared.close(RedisError::closed());
    }

    fn driven(shared: Arc<Shared>, connector: Arc<Connector>, made: Instant) -> Connection {
        let leases = Arc::new(Leases::new(connector.config.leases_max, connector.config.lease_limits));
        let _use = Some(Use(shared.clone()));
        let inner = Arc::new(Inner { shared, connector, leases, made, _use });
        login::keep_logged_in(&inner);
        Connection { inner }
    }

    async fn open_with(
        connector: Arc<Connector>,
        outlet: Outlet,
        home: Option<Arc<Shared>>,
    ) -> RedisResult<Connection> {
        let made = Instant::now();
        let config = &connector.config;
        if config.cache.is_some() && config.tracking.is_some() {
            let text = "a connection has a cache or tracking options, not both";
            return Err(RedisError::new(ErrorKind::InvalidClientConfig, text));
        }
        let caches = home.is_none() && !outlet.is_lossless();
        let mut shared = Shared::new(config.queue_bytes_max, outlet, home.is_some());
        shared.cache = config.cache.clone().filter(|_| caches).map(|config| Arc::new(Cache::new(config)));
        shared.own_writes = home.as_ref().and_then(|home| home.cache_to_tell().cloned()).map(OwnWrites::new);
        let shared = Arc::new(shared);
        // Who waits for a lease does so until its connection is made, with a limit on all of it.
        let link =
            if home.is_some() { connector.connect(&shared).await } else { connector.connect_first(&shared).await };
        let backoff = config.backoff.clone().filter(|_| home.is_none());
        Driver::spawn(shared.clone(), (*connector).clone(), backoff, home, Some(link?));
        Ok(Connection::driven(shared, connector, made))
    }

    /// The protocol agreed on with the server.
    pub fn protocol(&self) -> ProtocolVersion {
        self.inner.shared.protocol()
    }

    /// Whether the connection is closed for good. One that is being replaced after a disconnect is not.
    pub fn is_closed(&self) -> bool {
        self.inner.shared.is_closed()
    }

    /// Refuses new commands, waits until all sent ones are answered, and closes the connection, for all clones. Later
    /// commands fail with [`ErrorKind::Closed`] and are not sent. Holders keep their leases, and this does not wait for
    /// them; no new leases are given.
    ///
    /// Waits at most the response timeout for a server that has stopped answering. If the future is dropped, the
    /// connection still closes.
    pub async fn close(&self) {
        self.begin_close();
        self.inner.shared.ended().await;
    }

    /// Refuses new commands and gives no more leases.
    pub(crate) fn begin_close(&self) {
        self.inner.leases.close();
        self.inner.shared.finish();
    }

    /// Counters of this connection so far. Leases have counters of their own.
    pub fn counters(&self) -> Counters {
        self.inner.shared.counters()
    }

    /// How many bytes of commands wait to be written.
    pub fn queued_len(&self) -> usize {
        self.inner.shared.queued_len()
    }

    /// An exclusive connection from a small pool, for commands that must not share one. It goes back to the pool when
    /// dropped.
    ///
    /// # Errors
    /// Those of connecting, which is tried again within the response timeout, and [`ErrorKind::Timeout`] if none
    /// becomes free in time; see [`ConnectionConfig::set_lease_timeout`](crate::ConnectionConfig::set_lease_timeout).
    pub async fn lease(&self) -> RedisResult<Lease> {
        Lease::take(self, &mut Duration::default()).await
    }

    /// The push messages that arrive from now on.
    ///
    /// # Errors
    /// [`ErrorKind::Client`] when the server speaks only RESP2, which has no pushes; [`ErrorKind::Closed`] when the
    /// connection is closed for good.
    pub fn pushes(&self) -> RedisResult<Pushes> {
        if self.protocol() != ProtocolVersion::RESP3 {
            return Err(RedisError::new(
                ErrorKind::Client,
                "push messages need RESP3, which the server does not speak",
            ));
        }
        Pushes::new(&self.inner.shared.outlet)
    }

    /// Subscribes to a channel on this connection; the messages come through [`pushes`](Self::pushes). Once confirmed
    /// by the server, the subscription survives reconnects until it is ended. RESP3 only: for RESP2 use
    /// [`Client::get_async_pubsub`](crate::Client::get_async_pubsub).
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

    /// Subscribes to a shard channel.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub async fn ssubscribe(&self, channel: impl AsRef<[u8]>) -> RedisResult<()> {
        self.change_subscription("SSUBSCRIBE", &[channel.as_ref()]).await
    }

    /// Ends the subscription to a shard channel.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub async fn sunsubscribe(&self, channel: impl AsRef<[u8]>) -> RedisResult<()> {
        self.change_subscription("SUNSUBSCRIBE", &[channel.as_ref()]).await
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
        let change = Change { command: name, targets };
        let bytes = change.encoded();
        // Subscribing twice has the effect of subscribing once, so it may be sent again.
        let outcome = self.retrying(bytes.len(), Terms::REPEATABLE, || {
            let (sink, waiting) = Sink::confirm(change.kind(), targets.len());
            shared.push_subscription(change, &bytes, sink).map(|()| waiting)
        });
        outcome.await.and_then(Value::into_result).map(drop)
    }

    /// Queues one command and waits for its reply, errors included.
    #[inline]
    pub(crate) fn request(&self, packed: Packed<'_>, terms: Terms) -> impl Future<Output = RedisResult<Value>> + Send {
        self.retrying(packed.bytes.len(), terms, move || {
            let (sink, waiting) = Sink::one();
            self.inner.shared.push(packed, true, &[], sink).map(|()| waiting)
        })
    }

    /// Sends a command of the library's own, which may be repeated.
    pub(crate) async fn ask(&self, args: &[&[u8]]) -> RedisResult<Value> {
        let bytes = encoded(args);
        self.request(Packed::new(&bytes, 1, Class::PLAIN), Terms::REPEATABLE).await?.into_result()
    }

    /// Queues something of that length, and tries again as long as a retry is allowed.
    pub(crate) async fn retrying(
        &self,
        len: usize,
        terms: Terms,
        mut push: impl FnMut() -> Result<Waiting, Refused>,
    ) -> RedisResult<Value> {
        let shared = &*self.inner.shared;
        let mut retries = 0;
        let mut fate = Fate::NotSent;
        loop {
            let waiting = when_room(shared, len, &mut push).await.map_err(|error| error.after(fate))?;
            let broken = match waiting.await {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(broken)) => broken,
                Err(_) => driver_gone(),
            };
            let error = broken.error_at(len).after(fate);
            fate = error.fate();
            let retry = broken.may_retry() && (terms.idempotent || fate == Fate::NotSent);
            if !retry || !self.may_retry_by(terms, retries) {
                return Err(error);
            }
            retries += 1;
            shared.tally.retry(1);
        }
    }

    pub(crate) fn may_retry(&self, retries: u32) -> bool {
        self.may_retry_by(Terms::default(), retries)
    }

    fn may_retry_by(&self, terms: Terms, retries: u32) -> bool {
        let retries_max = terms.retries_max.unwrap_or(self.inner.connector.config.retries_max);
        retries < retries_max && !self.inner.shared.is_closed()
    }

    /// Sends a command again that got LOADING, until the server has loaded its data or the response timeout is over.
    async fn request_when_loaded(&self, packed: Packed<'_>, terms: Terms, mut error: RedisError) -> RedisResult<Value> {
        let config = &self.inner.connector.config;
        if !config.ready_check {
            return Err(error);
        }
        let mut patience = Patience::new(config);
        loop {
            patience.wait(error).await?;
            self.inner.shared.tally.retry(1);
            match self.request_apart(packed, terms).await?.into_result() {
                Err(again) if again.is_loading() => error = again,
                reply => return reply,
            }
        }
    }

    /// Queues one command where it belongs, over a lease if it blocks, and waits for its reply, errors included.
    pub(crate) async fn request_apart(&self, packed: Packed<'_>, terms: Terms) -> RedisResult<Value> {
        let (mut retries, mut fate, mut waited) = (0, Fate::NotSent, Duration::ZERO);
        loop {
            let lease = self.lease_for(packed.class, &mut waited).await.map_err(|error| error.after(fate))?;
            let Some(lease) = lease else { return self.request(packed, terms).await };
            let error = match lease.request(packed, Terms::default()).await {
                Ok(value) => return Ok(value),
                Err(error) => error.after(fate),
            };
            fate = error.fate();
            // A lease is not replaced when it breaks, so another one has to do.
            let is_lost = error.is_connection_dropped() && lease.connection().is_closed();
            if !is_lost || !(terms.idempotent || fate == Fate::NotSent) || !self.may_retry_by(terms, retries) {
                return Err(error);
            }
            retries += 1;
            self.inner.shared.tally.retry(1);
        }
    }

    /// Queues commands in one piece where they belong, over a lease if one of them blocks, and waits for all their
    /// replies. `waited` is how long the same call has waited for leases.
    pub(crate) async fn request_batch(
        &self,
        packed: Packed<'_>,
        whole: bool,
        scripts: &[Script],
        waited: &mut Duration,
    ) -> RedisResult<BatchOutcome> {
        let Some(lease) = self.lease_for(packed.class, waited).await? else {
            return self.request_batch_here(packed, whole, scripts).await;
        };
        match lease.request_batch_here(packed, whole, scripts).await {
            // The lease was lost before it took them; another may.
            Err(error) if lease.connection().is_closed() && error.is_connection_dropped() => {
                let error = RedisError::new(ErrorKind::Io, error.detail().unwrap_or_default().to_owned());
                Ok(BatchOutcome { replies: Vec::new(), broken: Some(Broken { error, written: 0 }) })
            }
            Ok(outcome) => {
                lease.forget_unknown(scripts, &outcome.replies);
                Ok(outcome)
            }
            Err(error) => Err(error),
        }
    }

    /// Notes scripts that another client has flushed: the next call loads them again.
    pub(crate) fn forget_unknown(&self, scripts: &[Script], replies: &[Value]) {
        if !scripts.is_empty() && replies.iter().any(Value::tells_unknown_script) {
            scripts.iter().for_each(|script| self.inner.shared.forget_script(script));
        }
    }

    pub(crate) async fn request_batch_here(
        &self,
        packed: Packed<'_>,
        whole: bool,
        scripts: &[Script],
    ) -> RedisResult<BatchOutcome> {
        let shared = &*self.inner.shared;
        let push = || {
            let (sink, waiting) = Sink::batch(packed.count);
            shared.push(packed, whole, scripts, sink).map(|()| waiting)
        };
        let waiting = when_room(shared, packed.bytes.len(), push).await?;
        Ok(waiting.await.unwrap_or_else(|_| gone()))
    }

    /// A lease for blocking commands, if this connection is shared; otherwise they stay on this connection, whose gate
    /// may refuse them.
    pub(crate) async fn lease_for(&self, class: Class, waited: &mut Duration) -> RedisResult<Option<Lease>> {
        if class.wants_lease() && !self.inner.shared.is_leased() {
            return Lease::take(self, waited).await.map(Some);
        }
        Ok(None)
    }
}

pub(crate) fn driver_gone() -> Broken {
    Broken { error: RedisError::new(ErrorKind::Closed, "the connection's runtime has shut down"), written: usize::MAX }
}

/// The same for several commands.
pub(crate) fn gone() -> BatchOutcome {
    BatchOutcome { replies: Vec::new(), broken: Some(driver_gone()) }
}

impl ConnectionLike for Connection {
    async fn send_command(&self, cmd: &Cmd) -> RedisResult<Value> {
        #[cfg(feature = "tracing")]
        if let Some(span) = crate::link::telemetry::command_span(cmd) {
            // In a box, so that the future of a command without a span stays small.
            return Box::pin(tracing::Instrument::instrument(self.send_command_watched(cmd), span)).await;
        }
        self.send_command_watched(cmd).await
    }

    async fn send_pipeline(&self, pipeline: &Pipeline) -> RedisResult<Option<Vec<RedisResult<Value>>>> {
        #[cfg(feature = "tracing")]
        if let Some(span) = crate::link::telemetry::pipeline_span(pipeline) {
            let sent = self.send_pipeline_watched(pipeline);
            return Box::pin(tracing::Instrument::instrument(sent, span))
                .await
                .or_else(|error| of_each(error, pipeline));
        }
        self.send_pipeline_watched(pipeline).await.or_else(|error| of_each(error, pipeline))
    }

    fn is_closed(&self) -> bool {
        self.inner.shared.is_closed()
    }

    fn reconnects(&self) -> u64 {
        self.inner.shared.tally.reconnects()
    }
}

/// Lets what derefs to a connection take commands as that does.
macro_rules! like_its_connection {
    ($kind:ty) => {
        impl $crate::connection::ConnectionLike for $kind {
            fn send_command(
                &self,
                cmd: &$crate::Cmd,
            ) -> impl Future<Output = $crate::RedisResult<$crate::Value>> + Send {
                Connection::send_command(self, cmd)
            }

            fn send_pipeline(
                &self,
                pipeline: &$crate::Pipeline,
            ) -> impl Future<Output = $crate::RedisResult<Option<Vec<$crate::RedisResult<$crate::Value>>>>> + Send {
                Connection::send_pipeline(self, pipeline)
            }

            fn is_closed(&self) -> bool {
                Connection::is_closed(self)
            }

            fn reconnects(&self) -> u64 {
                Connection::reconnects(self)
            }
        }
    };
}

pub(crate) use like_its_connection;

/// The results of a pipeline that failed as a whole: only wrong use is no result of its commands.
#[cold]
fn of_each(error: RedisError, pipeline: &Pipeline) -> PipelineResult {
    match error.kind() {
        ErrorKind::Client => Err(error),
        _ => Ok(Some(vec![Err(error); pipeline.len()])),
    }
}

impl Connection {
    #[inline]
    async fn send_command_watched(&self, cmd: &Cmd) -> RedisResult<Value> {
        let observer = &self.inner.connector.config.observer;
        if observer.is_none() && cmd.timeout.is_none() {
            return self.send_command_here(cmd).await;
        }
        Box::pin(watched(observer, cmd, self.send_command_here(cmd))).await
    }

    async fn send_pipeline_watched(&self, pipeline: &Pipeline) -> PipelineResult {
        match &self.inner.connector.config.observer {
            None => self.send_commands(pipeline).await,
            observer => Box::pin(watched_pipeline(observer, pipeline, self.send_commands(pipeline))).await,
        }
    }

    #[inline]
    pub(crate) async fn send_command_here(&self, cmd: &Cmd) -> RedisResult<Value> {
        let packed = cmd.packed();
        let reply = if packed.class != Class::PLAIN {
            // In a box, so that the future of a plain command stays small.
            Box::pin(self.request_apart(packed, cmd.terms)).await?.into_result()
        } else {
            let cache = self.inner.shared.cache.as_ref();
            match cache.and_then(|cache| cache.look(packed.bytes, cmd.caching)) {
                Some(look) => self.read_cached(look).await,
                None => self.request(packed, cmd.terms).await?.into_result(),
            }
        };
        match reply {
            Err(error) if error.is_loading() => Box::pin(self.request_when_loaded(packed, cmd.terms, error)).await,
            reply => reply,
        }
    }

    async fn send_commands(&self, pipeline: &Pipeline) -> PipelineResult {
        if pipeline.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let packed = pipeline.packed();
        if packed.class == Class::PLAIN {
            if let Some(looks) = self.look_pipeline(pipeline, Caching::Default) {
                return Box::pin(self.read_pipeline(pipeline, Caching::Default, looks)).await.map(Some);
            }
            return self.send_pipeline_here(pipeline, packed).await;
        }
        Box::pin(self.send_pipeline_here(pipeline, packed)).await
    }
}

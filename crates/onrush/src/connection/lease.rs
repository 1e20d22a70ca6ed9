//! Connections for one holder: for blocking commands, and for commands that change a connection's state.

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::connection::{Connection, like_its_connection};
use crate::error::{ErrorKind, Fate, RedisError, RedisResult};
use crate::link::backoff::Backoff;
use crate::link::connector::Patience;
use crate::values::args::ToRedisArgs;
use crate::values::cmd::{Cmd, cmd};
use crate::values::pipeline::Pipeline;
use crate::values::value::Value;

/// The connections that may be leased beside a shared one.
#[derive(Debug)]
pub(crate) struct Leases {
    permits: Arc<Semaphore>,
    idle: Mutex<Idle>,
    limits: LeaseLimits,
    /// That of the shared connection, where the reaper runs and all connections are driven: those who take and drop
    /// leases may do so in other runtimes, which may rest or end before.
    runtime: Handle,
}

/// How long the connections last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeaseLimits {
    /// Without a holder.
    pub idle: Option<Duration>,
    pub lifetime: Option<Duration>,
}

/// Connections that nobody holds, the one longest idle first.
#[derive(Debug, Default)]
struct Idle {
    connections: VecDeque<(Connection, Instant)>,
    /// Connections that were made before are not kept.
    renewed: Option<Instant>,
    /// A task removes those that have been idle too long.
    has_reaper: bool,
}

impl Leases {
    /// Must be called within a runtime.
    pub(crate) fn new(count_max: usize, limits: LeaseLimits) -> Leases {
        let permits = Arc::new(Semaphore::new(count_max));
        Leases { permits, idle: Mutex::default(), limits, runtime: Handle::current() }
    }

    /// Keeps no connection that was made until now, those that are held included.
    pub(crate) fn renew(&self) {
        self.drop_idle(|idle| idle.renewed = Some(Instant::now()));
    }

    /// Gives no more leases, and closes the connections that are not held.
    pub(crate) fn close(&self) {
        self.drop_idle(|_| self.permits.close());
    }

    /// Closes the connections that are not held, after the lock under which it does something first.
    fn drop_idle(&self, first: impl FnOnce(&mut Idle)) {
        let mut idle = self.idle.lock();
        first(&mut idle);
        let connections = std::mem::take(&mut idle.connections);
        drop(idle);
        drop(connections);
    }

    /// Waits until one more may be leased, for what is left of a limit.
    async fn permit(&self, limit: Option<Duration>, waited: Duration) -> RedisResult<OwnedSemaphorePermit> {
        let closed = |_| RedisError::new(ErrorKind::Closed, "no connection can be leased any more");
        let permit = self.permits.clone().acquire_owned();
        let Some(limit) = limit else { return permit.await.map_err(closed) };
        match tokio::time::timeout(limit.saturating_sub(waited), permit).await {
            Ok(permit) => permit.map_err(closed),
            Err(_) => Err(RedisError::new(
                ErrorKind::Timeout,
                format!(
                    "no leased connection became free within {limit:?}; see ConnectionConfig::set_leases_max and \
                     set_lease_timeout"
                ),
            )),
        }
    }

    /// The connection that was used last, if it is still good.
    fn pop(&self) -> Option<Connection> {
        loop {
            let (connection, _) = self.idle.lock().connections.pop_back()?;
            if !connection.is_closed() && !self.limits.is_too_old(&connection) {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection for later.
    fn push(self: &Arc<Leases>, connection: Connection) {
        let mut idle = self.idle.lock();
        // Closed under the same lock: nothing comes behind that.
        let is_outdated = idle.renewed.is_some_and(|renewed| connection.inner.made <= renewed);
        if self.permits.is_closed() || is_outdated || self.limits.is_too_old(&connection) {
            drop(idle);
            return;
        }
        idle.connections.push_back((connection, Instant::now()));
        if let (Some(shortest), false) = (self.limits.shortest(), idle.has_reaper) {
            idle.has_reaper = true;
            // If the runtime has shut down, so have the connections.
            self.runtime.spawn(reap(Arc::downgrade(self), shortest));
        }
    }

    /// Closes what has been idle or used too long, and forgets what the server has closed; `false` if nothing is left.
    fn reap(&self) -> bool {
        let mut reaped = Vec::new();
        let mut idle = self.idle.lock();
        let now = Instant::now();
        for (connection, since) in std::mem::take(&mut idle.connections) {
            let is_idle = self.limits.idle.is_some_and(|longest| now.duration_since(since) >= longest);
            if is_idle || self.limits.is_too_old(&connection) || connection.is_closed() {
                reaped.push(connection);
            } else {
                idle.connections.push_back((connection, since));
            }
        }
        idle.has_reaper = !idle.connections.is_empty();
        // Dropped after the lock.
        idle.has_reaper
    }
}

impl LeaseLimits {
    fn is_too_old(&self, connection: &Connection) -> bool {
        self.lifetime.is_some_and(|lifetime| connection.inner.made.elapsed() >= lifetime)
    }

    fn shortest(&self) -> Option<Duration> {
        [self.idle, self.lifetime].into_iter().flatten().min()
    }
}

/// Runs while any connection is idle, and ends with the shared connection.
async fn reap(leases: Weak<Leases>, shortest: Duration) {
    loop {
        tokio::time::sleep((shortest / 2).max(Duration::from_millis(1))).await;
        if !leases.upgrade().is_some_and(|leases| leases.reap()) {
            return;
        }
    }
}

/// A connection for one holder, from [`Connection::lease`]. It takes every command with one reply, WATCH and MULTI by
/// hand included.
///
/// It is not replaced when it breaks: its state would be lost silently. When dropped, it goes back to the pool if it is
/// as good as new; otherwise it is closed. It is closed if a reply is due (a request on it was given up half-way), if a
/// key was watched or a transaction begun by hand (but see [`is_clean`](Self::is_clean)), if it has another login or
/// database, if it has subscriptions, and if a clone of its connection or a receiver of its pushes still exists.
#[derive(Debug)]
pub struct Lease {
    connection: Connection,
    home: Connection,
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    /// Waits for one. `waited` is how long the same call has waited for leases before, which counts too.
    pub(crate) async fn take(home: &Connection, waited: &mut Duration) -> RedisResult<Lease> {
        let started = Instant::now();
        let lease = Lease::take_after(home, *waited).await;
        *waited = waited.saturating_add(started.elapsed());
        lease
    }

    async fn take_after(home: &Connection, waited: Duration) -> RedisResult<Lease> {
        let (leases, config) = (&home.inner.leases, &home.inner.connector.config);
        let timeout = config.lease_timeout.unwrap_or(config.response_timeout);
        let began = Instant::now();
        let permit = leases.permit(timeout, waited).await?;
        let connection = match leases.pop() {
            Some(connection) => connection,
            None => {
                // Without a limit on the wait for its turn, that does not count.
                let waited = if timeout.is_some() { waited.saturating_add(began.elapsed()) } else { Duration::ZERO };
                let longest = config.response_timeout.map(|longest| longest.max(timeout.unwrap_or_default()));
                open_patiently(home, longest.map(|longest| longest.saturating_sub(waited))).await?
            }
        };
        Ok(Lease { connection, home: home.clone(), _permit: permit })
    }

    /// The connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Declares that no key is watched any more and no transaction is open, so that it can be leased again. This does
    /// not undo permanent changes of the connection (AUTH, HELLO, SELECT, CLIENT TRACKING and the like).
    pub fn is_clean(&self) {
        self.connection.inner.shared.vouch_unwatched();
    }

    /// Forgets what is watched.
    async fn unwatch(&self) {
        if cmd("UNWATCH").query_async::<Value>(self).await == Ok(Value::Okay) {
            self.is_clean();
        }
    }
}

/// Makes a connection, and tries again while the server is away or loads its data, as the shared connection does, for
/// at most that time.
async fn open_patiently(home: &Connection, timeout: Option<Duration>) -> RedisResult<Connection> {
    let config = &home.inner.connector.config;
    let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut patience = Patience::until(config, until);
    let mut attempts = 0;
    let mut last = None;
    loop {
        let late = |error: &RedisError| error.delayed("no connection came within the response timeout");
        let Some(outcome) = by(until, open_at_home(home)).await else {
            let late = last.as_ref().map(late);
            return Err(late.unwrap_or_else(|| RedisError::new(ErrorKind::Timeout, "no connection came in time")));
        };
        let error = match outcome {
            Ok(connection) => return Ok(connection),
            Err(error) => error,
        };
        attempts += u32::from(!error.is_loading());
        let backoff = config.backoff.as_ref().filter(|_| is_passing(&error));
        let is_last = |backoff: &Backoff| backoff.attempts_max.is_some_and(|max| attempts >= max);
        if home.is_closed() || !error.is_loading() && backoff.is_none_or(is_last) {
            return Err(error);
        }
        let is_loading = error.is_loading();
        patience.wait(error.clone()).await.map_err(|error| if is_loading { error } else { late(&error) })?;
        last = Some(error);
    }
}

/// Makes a connection in the runtime of the shared one.
async fn open_at_home(home: &Connection) -> RedisResult<Connection> {
    // Ends its task when it is dropped.
    let mut task = JoinSet::new();
    let own = home.clone();
    task.spawn_on(async move { Connection::open_leased(&own).await }, &home.inner.leases.runtime);
    match task.join_next().await {
        Some(Ok(opened)) => opened,
        Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        _ => Err(RedisError::closed()),
    }
}

/// The output of a future; `None` if it has none in time.
async fn by<T>(until: Option<Instant>, future: impl Future<Output = T>) -> Option<T> {
    match until {
        Some(until) => tokio::time::timeout_at(until.into(), future).await.ok(),
        None => Some(future.await),
    }
}

/// Whether a later attempt to connect may succeed.
fn is_passing(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::Timeout | ErrorKind::Parse | ErrorKind::NoPrimary)
}

impl Deref for Lease {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let inner = &self.connection.inner;
        if Arc::strong_count(inner) == 1 && inner.shared.is_as_new() && !self.home.is_closed() {
            self.home.inner.leases.push(self.connection.clone());
        } else {
            inner.shared.abandon();
        }
    }
}

like_its_connection!(Lease);

impl Connection {
    /// Runs an optimistic transaction: watches `keys`, and calls `attempt` with a leased connection to read from and an
    /// atomic pipeline to fill and send over it. `attempt` returns the result of the pipeline's
    /// [`query_async`](Pipeline::query_async). `None` means that another client has changed a watched key; then
    /// `attempt` is called again.
    ///
    /// The result is that of the last attempt: what happens to the connection after it changes nothing of it. If the
    /// connection is lost before EXEC was sent, and the error of `attempt` says so ([`Fate::NotSent`]), `attempt` is
    /// called again over another one.
    ///
    /// Within a task (`tokio::spawn`) the compiler refuses a closure that borrows, for its future is not known to be
    /// `Send`; [`transact`](Self::transact) is for tasks.
    ///
    /// # Errors
    /// Those of `attempt` as they are, and those of the connection before an attempt.
    ///
    /// ```no_run
    /// # async fn example() -> onrush::RedisResult<()> {
    /// use onrush::AsyncCommands;
    /// let con = onrush::Client::open("redis://127.0.0.1/")?.connect().await?;
    /// let (new,): (i64,) = con
    ///     .transaction("counter", async |lease, pipeline| {
    ///         let old: i64 = lease.get::<_, Option<i64>>("counter").await?.unwrap_or(0);
    ///         pipeline.set("counter", old + 1).ignore().get("counter").query_async(lease).await
    ///     })
    ///     .await?;
    /// # assert!(new > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn transaction<T>(
        &self,
        keys: impl ToRedisArgs,
        mut attempt: impl AsyncFnMut(&Lease, &mut Pipeline) -> RedisResult<Option<T>>,
    ) -> RedisResult<T> {
        let mut attempts = Attempts::<Lease>::new(self, keys);
        loop {
            let lease = attempts.begin().await?;
            let mut pipeline = Pipeline::new();
            pipeline.atomic();
            let outcome = attempt(&lease, &mut pipeline).await;
            if let Some(outcome) = attempts.end(lease, outcome).await {
                return outcome;
            }
        }
    }

    /// [`transaction`](Self::transaction) for tasks: `attempt` gets the lease by value, so its future is `Send`
    /// whatever it borrows. It sends an atomic pipeline of its own over the lease.
    ///
    /// # Errors
    /// As there.
    ///
    /// ```no_run
    /// # async fn example(con: onrush::Connection) {
    /// use onrush::AsyncCommands;
    /// tokio::spawn(async move {
    ///     let (key, step) = (String::from("counter"), 2);
    ///     let key = &key;
    ///     let attempt = |lease: onrush::Attempt| async move {
    ///         let old: i64 = lease.get::<_, Option<i64>>(key).await?.unwrap_or(0);
    ///         onrush::pipe().atomic().set(key, old + step).query_async(&lease).await
    ///     };
    ///     con.transact::<((),), _>(key, attempt).await
    /// });
    /// # }
    /// ```
    pub async fn transact<T, F: Future<Output = RedisResult<Option<T>>>>(
        &self,
        keys: impl ToRedisArgs,
        mut attempt: impl FnMut(Attempt) -> F,
    ) -> RedisResult<T> {
        let mut attempts = Attempts::<Arc<Lease>>::new(self, keys);
        loop {
            let lease = attempts.begin().await?;
            let outcome = attempt(Attempt { lease: lease.clone() }).await;
            if let Some(outcome) = attempts.end(lease, outcome).await {
                return outcome;
            }
        }
    }
}

/// The lease of an attempt at a transaction, from [`Connection::transact`].
#[derive(Debug)]
pub struct Attempt {
    lease: Arc<Lease>,
}

impl Deref for Attempt {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

like_its_connection!(Attempt);

/// The attempts of one call at a transaction. `L` holds a lease.
pub(crate) struct Attempts<'a, L> {
    connection: &'a Connection,
    watch: Cmd,
    /// The lease of the last attempt, if the next one goes over it, too.
    lease: Option<L>,
    retries: u32,
    /// How long the call has waited for leases.
    waited: Duration,
}

impl<'a, L: From<Lease> + Borrow<Lease> + Send + 'static> Attempts<'a, L> {
    pub(crate) fn new(connection: &'a Connection, keys: impl ToRedisArgs) -> Attempts<'a, L> {
        let mut watch = cmd("WATCH");
        watch.arg(keys);
        Attempts { connection, watch, lease: None, retries: 0, waited: Duration::ZERO }
    }

    /// Begins an attempt: watches the keys over a lease.
    ///
    /// # Errors
    /// Those of the connection; whatever became of WATCH, nothing was executed.
    pub(crate) async fn begin(&mut self) -> RedisResult<L> {
        loop {
            let lease = match self.lease.take() {
                Some(lease) => lease,
                None => L::from(Lease::take(self.connection, &mut self.waited).await?),
            };
            let held: &Lease = lease.borrow();
            let watched = self.watch.exec_async(held).await;
            held.connection.inner.shared.note_executed(false);
            let Err(error) = watched else { return Ok(lease) };
            let is_unknown = error.fate() == Fate::Unknown;
            let error = if is_unknown { error.with_fate(Fate::NotSent) } else { error };
            if !self.goes_on_after(&error, held) {
                return Err(error);
            }
        }
    }

    /// Ends it; `None` if another attempt follows, since another client has changed a watched key, or the lease was lost.
    /// No outcome waits for the UNWATCH behind it, by which the lease goes back to the pool.
    pub(crate) async fn end<T>(&mut self, lease: L, outcome: RedisResult<Option<T>>) -> Option<RedisResult<T>> {
        let held: &Lease = lease.borrow();
        let outcome = match outcome {
            Ok(None) => {
                held.unwatch().await;
                self.lease = Some(lease);
                return None;
            }
            Ok(Some(value)) => Some(Ok(value)),
            Err(error) if self.goes_on_after(&error, held) => None,
            Err(error) => Some(Err(error)),
        };
        give_back(lease);
        outcome
    }

    /// Whether a transaction goes over another lease after an error: not if a part of it may have been executed, whatever
    /// its outcome is.
    fn goes_on_after(&mut self, error: &RedisError, lease: &Lease) -> bool {
        let is_dropped = error.is_connection_dropped() && lease.connection.is_closed();
        let is_lost = !lease.connection.inner.shared.may_have_executed() && error.fate() == Fate::NotSent && is_dropped;
        let goes_on = is_lost && self.connection.may_retry(self.retries);
        if goes_on {
            self.retries += 1;
            self.connection.inner.shared.tally.retry(1);
        }
        goes_on
    }
}

/// Makes the lease fit for its next holder, and drops it then; without UNWATCH's `OK` it does not go back to the
/// pool. After EXEC nothing is watched, but only the attempt knows whether it sent one. A MULTI by hand without its
/// EXEC would queue the UNWATCH.
fn give_back<L: Borrow<Lease> + Send + 'static>(lease: L) {
    let held: &Lease = lease.borrow();
    // Behind a request that was given up, UNWATCH might wait without end.
    if held.connection.is_closed() || held.connection.inner.shared.owes_replies() {
        return;
    }
    let runtime = held.home.inner.leases.runtime.clone();
    runtime.spawn(async move {
        let held: &Lease = lease.borrow();
        held.unwatch().await;
    });
}

//! Connections for one holder: for blocking commands, and for commands that change a connection's state.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connection::{Connection, ConnectionLike};
use crate::error::{ErrorKind, RedisError, RedisResult};
use crate::values::args::ToRedisArgs;
use crate::values::cmd::{Cmd, cmd};
use crate::values::pipeline::Pipeline;
use crate::values::value::Value;

/// The connections that may be leased beside a shared one.
#[derive(Debug)]
pub(crate) struct Leases {
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
}

impl Leases {
    pub(crate) fn new(count_max: usize) -> Leases {
        Leases { permits: Arc::new(Semaphore::new(count_max)), idle: Mutex::default() }
    }

    /// Gives no more leases, and closes the connections that are not held.
    pub(crate) fn close(&self) {
        self.permits.close();
        self.idle.lock().clear();
    }

    /// Waits until one more may be leased.
    async fn permit(&self, timeout: Option<Duration>) -> RedisResult<OwnedSemaphorePermit> {
        let closed = |_| RedisError::new(ErrorKind::Closed, "no connection can be leased any more");
        let permit = self.permits.clone().acquire_owned();
        let Some(timeout) = timeout else { return permit.await.map_err(closed) };
        match tokio::time::timeout(timeout, permit).await {
            Ok(permit) => permit.map_err(closed),
            Err(_) => Err(RedisError::new(
                ErrorKind::Timeout,
                format!("no leased connection became free within {timeout:?}; see ConnectionConfig::set_leases_max"),
            )),
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
    pub(crate) async fn take(home: &Connection) -> RedisResult<Lease> {
        let leases = &home.inner.leases;
        let permit = leases.permit(home.inner.connector.config.response_timeout).await?;
        let idle = || leases.idle.lock().pop();
        let connection = loop {
            match idle() {
                Some(connection) if connection.is_closed() => {}
                Some(connection) => break connection,
                None => break Connection::open_leased(home).await?,
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

    /// Notes the reply to the UNWATCH behind an attempt at a transaction: without `OK` the lease does not go back to
    /// the pool. After EXEC nothing is watched, but only the attempt knows whether it sent one. A MULTI by hand without
    /// its EXEC would queue the UNWATCH.
    pub(crate) fn note_unwatch(&self, reply: RedisResult<Value>) {
        if reply == Ok(Value::Okay) {
            self.is_clean();
        }
    }
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
            self.home.inner.leases.idle.lock().push(self.connection.clone());
        } else {
            inner.shared.abandon();
        }
    }
}

impl ConnectionLike for Lease {
    async fn send_command(&self, cmd: &Cmd) -> RedisResult<Value> {
        self.connection.send_command(cmd).await
    }

    async fn send_pipeline(&self, pipeline: &Pipeline) -> RedisResult<Option<Vec<RedisResult<Value>>>> {
        self.connection.send_pipeline(pipeline).await
    }

    fn is_closed(&self) -> bool {
        self.connection.is_closed()
    }
}

impl Connection {
    /// Runs an optimistic transaction: watches `keys`, and calls `attempt` with a leased connection to read from and an
    /// atomic pipeline to fill and send over it. `attempt` returns the result of the pipeline's
    /// [`query_async`](Pipeline::query_async). `None` means that another client has changed a watched key; then
    /// `attempt` is called again.
    ///
    /// The result is that of the last attempt: what happens to the connection after it changes nothing of it.
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
        let lease = self.lease().await?;
        let mut watch = cmd("WATCH");
        watch.arg(keys);
        loop {
            watch.exec_async(&lease).await?;
            let mut pipeline = Pipeline::new();
            pipeline.atomic();
            let outcome = attempt(&lease, &mut pipeline).await;
            lease.note_unwatch(cmd("UNWATCH").query_async(&lease).await);
            if let Some(value) = outcome? {
                return Ok(value);
            }
        }
    }
}

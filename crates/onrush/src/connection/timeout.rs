//! Limits on how long single commands may take.

use std::time::Duration;

use crate::connection::{Connection, ConnectionLike, Home};
use crate::error::{ErrorKind, Fate, RedisError, RedisResult};
use crate::values::cmd::Cmd;
use crate::values::pipeline::Pipeline;
use crate::values::value::Value;

/// A connection whose commands fail if their reply does not come in time; made by [`Connection::with_timeout`]. It
/// costs a timer for each command or pipeline sent over it, and nothing for others.
///
/// ```no_run
/// # async fn example(con: onrush::Connection) -> onrush::RedisResult<()> {
/// use onrush::AsyncCommands;
/// use std::time::Duration;
/// let quick: String = con.with_timeout(Duration::from_millis(50)).get("key").await?;
/// let patient: Vec<u8> = onrush::cmd("DUMP").arg("key").query_async(&con.with_timeout(Duration::from_secs(60))).await?;
/// # let _ = (quick, patient);
/// # Ok(())
/// # }
/// ```
///
/// The connection's own response timeout also applies; the shorter of the two counts. A command that times out is not
/// taken back: it is sent, and its reply dropped; so the error's [`fate`](RedisError::fate) is [`Fate::Unknown`]. The
/// connection and other tasks' commands are not affected.
#[derive(Debug)]
pub struct WithTimeout<'a, C> {
    con: &'a C,
    timeout: Duration,
}

impl<C> Clone for WithTimeout<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for WithTimeout<'_, C> {}

impl Connection {
    /// The same connection with a limit on how long each command, or pipeline, may take.
    pub fn with_timeout(&self, timeout: Duration) -> WithTimeout<'_, Connection> {
        WithTimeout::new(self, timeout)
    }
}

impl<'a, C: ConnectionLike> WithTimeout<'a, C> {
    /// Anything that commands can be sent over, with a limit.
    pub fn new(con: &'a C, timeout: Duration) -> WithTimeout<'a, C> {
        WithTimeout { con, timeout }
    }
}

/// Waits so long for a reply.
pub(crate) async fn within<T>(timeout: Duration, reply: impl Future<Output = RedisResult<T>> + Send) -> RedisResult<T> {
    match tokio::time::timeout(timeout, reply).await {
        Ok(reply) => reply,
        Err(_) => {
            let text = format!("no reply came within the command's timeout of {timeout:?}");
            Err(RedisError::new(ErrorKind::Timeout, text).with_fate(Fate::Unknown))
        }
    }
}

impl<C: ConnectionLike> ConnectionLike for WithTimeout<'_, C> {
    async fn send_command(&self, cmd: &Cmd) -> RedisResult<Value> {
        within(self.timeout, self.con.send_command(cmd)).await
    }

    async fn send_pipeline(&self, pipeline: &Pipeline) -> RedisResult<Option<Vec<RedisResult<Value>>>> {
        within(self.timeout, self.con.send_pipeline(pipeline)).await
    }

    fn is_closed(&self) -> bool {
        self.con.is_closed()
    }

    fn reconnects(&self) -> u64 {
        self.con.reconnects()
    }

    fn home(&self, key: &[u8]) -> Home {
        self.con.home(key)
    }
}

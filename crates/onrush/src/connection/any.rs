//! Connections of any kind behind one type.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::connection::{ConnectionLike, Home};
use crate::error::RedisResult;
use crate::values::cmd::Cmd;
use crate::values::pipeline::Pipeline;
use crate::values::value::Value;

type Boxed<'a, T> = Pin<Box<dyn Future<Output = RedisResult<T>> + Send + 'a>>;

/// A connection of any kind: a [`Connection`](crate::Connection), a mock, your own type around one of them. For fields
/// and arguments that must not be generic. It costs one allocation for each command or pipeline, and is shared by
/// cloning.
///
/// ```no_run
/// # async fn example(con: onrush::Connection) -> onrush::RedisResult<()> {
/// use onrush::{AnyConnection, AsyncCommands};
/// struct Users {
///     con: AnyConnection,
/// }
/// let users = Users { con: AnyConnection::new(con) };
/// let name: Option<String> = users.con.get("user:1").await?;
/// # let _ = name;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AnyConnection(Arc<dyn Erased>);

/// What a trait object can do of [`ConnectionLike`].
trait Erased: Send + Sync {
    fn command<'a>(&'a self, cmd: &'a Cmd) -> Boxed<'a, Value>;
    fn pipeline<'a>(&'a self, pipeline: &'a Pipeline) -> Boxed<'a, Option<Vec<RedisResult<Value>>>>;
    fn closed(&self) -> bool;
    fn made_again(&self) -> u64;
    fn at_home(&self, key: &[u8]) -> Home;
}

impl<C: ConnectionLike> Erased for C {
    fn command<'a>(&'a self, cmd: &'a Cmd) -> Boxed<'a, Value> {
        Box::pin(self.send_command(cmd))
    }

    fn pipeline<'a>(&'a self, pipeline: &'a Pipeline) -> Boxed<'a, Option<Vec<RedisResult<Value>>>> {
        Box::pin(self.send_pipeline(pipeline))
    }

    fn closed(&self) -> bool {
        self.is_closed()
    }

    fn made_again(&self) -> u64 {
        self.reconnects()
    }

    fn at_home(&self, key: &[u8]) -> Home {
        self.home(key)
    }
}

impl AnyConnection {
    /// A connection of any kind.
    pub fn new(con: impl ConnectionLike + 'static) -> AnyConnection {
        AnyConnection(Arc::new(con))
    }
}

impl fmt::Debug for AnyConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyConnection").finish_non_exhaustive()
    }
}

impl ConnectionLike for AnyConnection {
    async fn send_command(&self, cmd: &Cmd) -> RedisResult<Value> {
        self.0.command(cmd).await
    }

    async fn send_pipeline(&self, pipeline: &Pipeline) -> RedisResult<Option<Vec<RedisResult<Value>>>> {
        self.0.pipeline(pipeline).await
    }

    fn is_closed(&self) -> bool {
        self.0.closed()
    }

    fn reconnects(&self) -> u64 {
        self.0.made_again()
    }

    fn home(&self, key: &[u8]) -> Home {
        self.0.at_home(key)
    }
}

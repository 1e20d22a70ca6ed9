//! Reading through the cache of a connection.

use std::sync::Arc;
use std::time::Duration;

use crate::cache::{CacheStats, Look};
use crate::cmd::{Caching, Cmd};
use crate::connection::{Connection, ConnectionLike};
use crate::error::RedisResult;
use crate::pipeline::Pipeline;
use crate::sink::Sink;
use crate::value::Value;

/// A connection whose reads may be answered from its cache, from [`Connection::cached`].
#[derive(Clone, Copy, Debug)]
pub struct Cached<'a> {
    connection: &'a Connection,
    ttl_max: Duration,
}

impl Connection {
    /// This connection with its reads marked as [`cached`](Cmd::cached):
    ///
    /// ```no_run
    /// # async fn example(con: onrush::Connection) -> onrush::RedisResult<()> {
    /// use onrush::AsyncCommands;
    /// let name: Option<String> = con.cached(std::time::Duration::from_secs(60)).get("user:1").await?;
    /// # let _ = name;
    /// # Ok(())
    /// # }
    /// ```
    pub fn cached(&self, ttl_max: Duration) -> Cached<'_> {
        Cached { connection: self, ttl_max }
    }

    /// What the cache has done; `None` for a connection without one.
    pub fn cache_stats(&self) -> Option<CacheStats> {
        self.inner.shared.cache().map(|cache| cache.stats())
    }

    /// Forgets everything cached.
    pub fn flush_cache(&self) {
        if let Some(cache) = self.inner.shared.cache() {
            cache.flush();
        }
    }

    /// Answers a read from the cache, or sends it and keeps the reply.
    pub(crate) async fn read_cached(&self, look: Look) -> RedisResult<Value> {
        let read = match look {
            Look::Hit(value) => {
                // A task that only ever hits would not let others run.
                tokio::task::consume_budget().await;
                return Ok(Arc::unwrap_or_clone(value));
            }
            Look::Miss(read) => read,
        };
        // Apart, so that the future of a plain command stays small.
        let apart = Box::pin(async move {
            let shared = &self.inner.shared;
            let Some(cache) = shared.cache() else { return Ok(Value::Nil) };
            let mut bytes = Vec::new();
            let replies = cache.encode(&read, &mut bytes);
            let push = || {
                let (sink, waiting) = Sink::read(cache.ticket(&read), replies);
                shared.push_read(&bytes, sink).map(|()| waiting)
            };
            // A read may be repeated.
            self.retrying(bytes.len(), true, push).await?.into_result()
        });
        apart.await
    }
}

impl ConnectionLike for Cached<'_> {
    async fn send_command(&self, cmd: &Cmd) -> RedisResult<Value> {
        let packed = cmd.packed();
        if packed.class().is_plain()
            && cmd.caching() == Caching::Default
            && let Some(cache) = self.connection.inner.shared.cache()
            && let Some(look) = cache.look(packed.bytes(), Caching::For(self.ttl_max))
        {
            return self.connection.read_cached(look).await;
        }
        self.connection.send_command(cmd).await
    }

    async fn send_pipeline(&self, pipeline: &Pipeline) -> RedisResult<Option<Vec<RedisResult<Value>>>> {
        self.connection.send_pipeline(pipeline).await
    }
}

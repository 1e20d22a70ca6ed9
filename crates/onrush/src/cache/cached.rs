//! Reading through the cache of a connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::cache::flight::{Arrival, Boarding, Flight};
use crate::cache::{Cache, CacheStats, Look, Read};
use crate::connection::gate::Class;
use crate::connection::pipelines::loading;
use crate::connection::queue::when_room;
use crate::connection::sink::{Manner, Sink, is_of_lost_link};
use crate::connection::{Connection, ConnectionLike, driver_gone};
use crate::error::{ErrorKind, Fate, RedisResult, ServerErrorKind};
use crate::link::connector::Patience;
use crate::observe::{watched, watched_pipeline};
use crate::values::cmd::{Caching, Cmd, Terms};
use crate::values::pipeline::Pipeline;
use crate::values::value::Value;

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
        self.inner.shared.cache.as_ref().map(|cache| cache.stats())
    }

    /// Drops everything cached.
    pub fn flush_cache(&self) {
        if let Some(cache) = &self.inner.shared.cache {
            cache.flush();
        }
    }

    /// The cache's result for a pipeline; `None` if the cache does not handle it.
    pub(crate) fn look_pipeline(&self, pipeline: &Pipeline, caching: Caching) -> Option<Vec<Look>> {
        let cache = self.inner.shared.cache.as_ref()?;
        if pipeline.is_atomic() || !pipeline.scripts.is_empty() {
            return None;
        }
        cache.look_pipeline(pipeline, caching)
    }

    /// Answers a read from the cache, or sends it and keeps the reply.
    pub(crate) async fn read_cached(&self, look: Look) -> RedisResult<Value> {
        match look {
            Look::Hit(value) => {
                // Without this a task that always hits the cache would not let others run.
                tokio::task::consume_budget().await;
                Ok(Arc::unwrap_or_clone(value))
            }
            // In a box, so that the future of a plain command stays small.
            Look::Miss(read) => Box::pin(self.read_missing(read)).await,
            Look::Keys(looks) => Box::pin(self.read_keys(looks)).await,
        }
    }

    /// Sends a read that is not cached, or waits for the same read if it is under way.
    async fn read_missing(&self, read: Read) -> RedisResult<Value> {
        let Some(cache) = &self.inner.shared.cache else { return Ok(Value::Nil) };
        let mut retries = 0;
        loop {
            match cache.board(&read) {
                Boarding::Leader(flight) => return self.lead(cache, &flight).await,
                Boarding::Passenger(waiting) => {
                    if let Some(reply) = self.ride(waiting, &mut retries).await {
                        return reply;
                    }
                }
            }
        }
    }

    /// Waits for a read that another task has sent; `None` if that was lost and this one may ask again.
    async fn ride(&self, waiting: oneshot::Receiver<Arrival>, retries: &mut u32) -> Option<RedisResult<Value>> {
        match waiting.await {
            Ok(Ok(value)) => Some(Arc::unwrap_or_clone(value).into_result()),
            Ok(Err(error)) if is_of_lost_link(&error, error.fate() == Fate::Unknown) && self.may_retry(*retries) => {
                *retries += 1;
                None
            }
            Ok(Err(error)) => Some(Err(error)),
            // The task that was to send the read has given up.
            Err(_) => None,
        }
    }

    async fn ride_or_read(&self, waiting: oneshot::Receiver<Arrival>, read: Read) -> RedisResult<Value> {
        match self.ride(waiting, &mut 0).await {
            Some(reply) => reply,
            None => self.read_missing(read).await,
        }
    }

    async fn lead(&self, cache: &Arc<Cache>, flight: &Arc<Flight>) -> RedisResult<Value> {
        let mut bytes = Vec::new();
        let replies = cache.encode(&flight.read, &mut bytes);
        let push = || {
            let (sink, waiting) = Sink::read(cache.ticket(&flight.read), flight.clone(), replies);
            self.inner.shared.push_encoded(&bytes, Manner::ONE, sink).map(|()| waiting)
        };
        // A read may be repeated.
        let outcome = self.retrying(bytes.len(), Terms::REPEATABLE, push).await;
        outcome.inspect_err(|error| flight.fail(error))?.into_result()
    }

    /// Answers an MGET from the cache, and reads all missing keys with one command.
    async fn read_keys(&self, looks: Vec<Look>) -> RedisResult<Value> {
        let Some(cache) = &self.inner.shared.cache else { return Ok(Value::Nil) };
        let Parts { mut values, led, boarded } = Parts::of(cache, looks);
        if led.is_empty() && boarded.is_empty() {
            tokio::task::consume_budget().await;
        }
        if !led.is_empty() {
            let fetched = self.fetch_keys(cache, &led).await;
            if let Err(error) = &fetched {
                // An error reply to MGET says nothing about its keys: tasks that wait for one of them ask again.
                let is_reply = error.fate() == Fate::Replied;
                led.iter().filter(|_| !is_reply).for_each(|(_, flight)| flight.fail(error));
            }
            led.iter().zip(fetched?).for_each(|((index, _), value)| values[*index] = value);
        }
        // These flights have no leader any more: their passengers, including those of this MGET, would wait for ever.
        drop(led);
        for (index, read, waiting) in boarded {
            values[index] = match self.ride_or_read(waiting, read).await {
                // MGET returns nil for keys of other types.
                Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::WrongType) => Value::Nil,
                arrived => arrived?,
            };
        }
        Ok(Value::Array(values))
    }

    /// The values of keys that are not cached, by one MGET.
    async fn fetch_keys(&self, cache: &Arc<Cache>, led: &[(usize, Arc<Flight>)]) -> RedisResult<Vec<Value>> {
        let mut bytes = Vec::new();
        let replies = cache.encode_keys(led.iter().map(|(_, flight)| &flight.read), &mut bytes);
        let push = || {
            let keys = led.iter().map(|(_, flight)| (cache.ticket(&flight.read), flight.clone())).collect();
            let (sink, waiting) = Sink::gather(keys, replies);
            self.inner.shared.push_encoded(&bytes, Manner::ONE, sink).map(|()| waiting)
        };
        match self.retrying(bytes.len(), Terms::REPEATABLE, push).await?.into_result()? {
            Value::Array(values) if values.len() == led.len() => Ok(values),
            other => Err(other.mismatch("list of the values of all keys")),
        }
    }

    /// Answers a pipeline of reads, again while the server is loading its data: reads may be repeated.
    pub(crate) async fn read_pipeline(
        &self,
        pipeline: &Pipeline,
        caching: Caching,
        looks: Vec<Look>,
    ) -> RedisResult<Vec<RedisResult<Value>>> {
        let mut results = self.read_pipeline_once(looks).await?;
        let config = &self.inner.connector.config;
        let mut patience = None;
        while let Some(error) = loading(&results).filter(|_| config.ready_check) {
            let patience = patience.get_or_insert_with(|| Patience::new(config));
            if patience.wait(error).await.is_err() {
                break;
            }
            let Some(looks) = self.look_pipeline(pipeline, caching) else { break };
            self.inner.shared.tally.retry(1);
            results = self.read_pipeline_once(looks).await?;
        }
        Ok(results)
    }

    /// Answers a pipeline of reads; sends the missing ones in one piece.
    async fn read_pipeline_once(&self, looks: Vec<Look>) -> RedisResult<Vec<RedisResult<Value>>> {
        let shared = &*self.inner.shared;
        let Some(cache) = &shared.cache else { return Ok(Vec::new()) };
        let Parts { values, led, boarded } = Parts::of(cache, looks);
        let mut results: Vec<RedisResult<Value>> = values.into_iter().map(Ok).collect();
        if led.is_empty() && boarded.is_empty() {
            tokio::task::consume_budget().await;
        }
        let (mut bytes, mut sent) = (Vec::new(), Vec::with_capacity(led.len()));
        for (_, flight) in &led {
            let start = bytes.len();
            let replies = cache.encode(&flight.read, &mut bytes);
            sent.push((bytes.len() - start, replies));
        }
        let push = || {
            let read = |((_, flight), &(len, replies)): (&(usize, Arc<Flight>), &(usize, usize))| {
                let (sink, waiting) = Sink::read(cache.ticket(&flight.read), flight.clone(), replies);
                ((len, sink), waiting)
            };
            let (sinks, waiting): (Vec<_>, Vec<_>) = led.iter().zip(&sent).map(read).unzip();
            shared.push_reads(&bytes, sinks).map(|()| waiting)
        };
        let waiting = when_room(shared, bytes.len(), push).await;
        let waiting = waiting.inspect_err(|error| led.iter().for_each(|(_, flight)| flight.fail(error)))?;
        for (((index, flight), waiting), (len, _)) in led.into_iter().zip(waiting).zip(sent) {
            let broken = match waiting.await {
                Ok(Ok(value)) => {
                    results[index] = value.into_result();
                    continue;
                }
                Ok(Err(broken)) => broken,
                Err(_) => driver_gone(),
            };
            results[index] = if broken.may_retry() && self.may_retry(0) {
                shared.tally.retry(1);
                self.lead(cache, &flight).await
            } else {
                Err(broken.error_at(len)).inspect_err(|error| flight.fail(error))
            };
        }
        for (index, read, waiting) in boarded {
            results[index] = self.ride_or_read(waiting, read).await;
        }
        Ok(results)
    }
}

/// The state of several reads, each with its index.
#[derive(Debug, Default)]
struct Parts {
    /// Values of the cached ones, and nil for the others.
    values: Vec<Value>,
    /// Reads to send.
    led: Vec<(usize, Arc<Flight>)>,
    /// Reads that are already under way.
    boarded: Vec<(usize, Read, oneshot::Receiver<Arrival>)>,
}

impl Parts {
    fn of(cache: &Arc<Cache>, looks: Vec<Look>) -> Parts {
        let mut parts = Parts { values: vec![Value::Nil; looks.len()], ..Parts::default() };
        for (index, look) in looks.into_iter().enumerate() {
            match look {
                Look::Hit(value) => parts.values[index] = Arc::unwrap_or_clone(value),
                Look::Miss(read) => match cache.board(&read) {
                    Boarding::Leader(flight) => parts.led.push((index, flight)),
                    Boarding::Passenger(waiting) => parts.boarded.push((index, read, waiting)),
                },
                Look::Keys(_) => unreachable!("an MGET is no part of another read"),
            }
        }
        parts
    }
}

impl ConnectionLike for Cached<'_> {
    async fn send_command(&self, cmd: &Cmd) -> RedisResult<Value> {
        let (packed, observer) = (cmd.packed(), &self.connection.inner.connector.config.observer);
        let is_read = packed.class == Class::PLAIN && cmd.caching == Caching::Default;
        let cache = self.connection.inner.shared.cache.as_ref().filter(|_| is_read);
        if let Some(look) = cache.and_then(|cache| cache.look(packed.bytes, Caching::For(self.ttl_max))) {
            let read = async {
                match self.connection.read_cached(look).await {
                    // Sent again as other commands are.
                    Err(error) if error.is_loading() => self.connection.send_command_here(cmd).await,
                    reply => reply,
                }
            };
            return watched(observer, cmd, read).await;
        }
        self.connection.send_command(cmd).await
    }

    async fn send_pipeline(&self, pipeline: &Pipeline) -> RedisResult<Option<Vec<RedisResult<Value>>>> {
        if pipeline.class() == Class::PLAIN && !pipeline.is_empty() {
            let caching = Caching::For(self.ttl_max);
            if let Some(looks) = self.connection.look_pipeline(pipeline, caching) {
                let observer = &self.connection.inner.connector.config.observer;
                let read = async { self.connection.read_pipeline(pipeline, caching, looks).await.map(Some) };
                return Box::pin(watched_pipeline(observer, pipeline, read)).await;
            }
        }
        self.connection.send_pipeline(pipeline).await
    }

    fn is_closed(&self) -> bool {
        self.connection.is_closed()
    }

    fn reconnects(&self) -> u64 {
        self.connection.reconnects()
    }
}

//! What a program may watch: how long its commands take, and what becomes of its connections.

mod histogram;
mod latencies;
#[cfg(feature = "metrics")]
mod metrics;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::connection::timeout::within;
use crate::error::{RedisError, RedisResult};
use crate::values::cmd::Cmd;
use crate::values::pipeline::{Pipeline, PipelineResult};
use crate::values::value::Value;

pub use histogram::Histogram;
pub use latencies::Latencies;
#[cfg(feature = "metrics")]
pub use metrics::Metrics;

/// The longest name of a command that observers tell apart.
const NAME_LEN_MAX: usize = 32;

/// The name of all commands whose own name is too long or no word.
const OTHER: &str = "OTHER";

/// A command or a pipeline that has ended.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Ended<'a> {
    /// The command's name in capitals; `PIPELINE` or `TRANSACTION` for several together. No more than a word: what is
    /// longer than 32 bytes, or has other characters than letters, digits, `.`, `-` and `_`, is `OTHER`.
    pub name: &'a str,
    /// How many commands there were.
    pub commands: usize,
    /// From the call to its result: waits for the connection and attempts included.
    pub took: Duration,
    /// The error, of a pipeline the first one.
    pub error: Option<&'a RedisError>,
}

/// What has become of a connection.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ConnectionEvent<'a> {
    /// A connection was made: a first one, one in place of a lost one, or a lease.
    Connected,
    /// An attempt to connect has failed.
    Failed(&'a RedisError),
    /// A connection that is replaced was lost.
    Lost(&'a RedisError),
}

/// Hooks, for [`ConnectionConfig::set_observer`](crate::ConnectionConfig::set_observer). They are called in the tasks of
/// the callers and of the connection, so they must be quick. [`Latencies`] is one, and with the feature `metrics` there
/// is `Metrics`.
///
/// Commands that are given up (their future is dropped) do not end. Those of streams are not told one by one; neither
/// are the connection's own, such as AUTH.
pub trait Observer: Send + Sync {
    /// A command or a pipeline has ended.
    fn ended(&self, _: &Ended<'_>) {}

    /// Something has become of the connection to that server.
    fn connection(&self, _server: &str, _: ConnectionEvent<'_>) {}
}

/// Several observers of one connection.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn ended(&self, ended: &Ended<'_>) {
        self.0.ended(ended);
        self.1.ended(ended);
    }

    fn connection(&self, server: &str, event: ConnectionEvent<'_>) {
        self.0.connection(server, event);
        self.1.connection(server, event);
    }
}

impl<T: Observer + ?Sized> Observer for Arc<T> {
    fn ended(&self, ended: &Ended<'_>) {
        (**self).ended(ended);
    }

    fn connection(&self, server: &str, event: ConnectionEvent<'_>) {
        (**self).connection(server, event);
    }
}

/// The observer that connections share.
#[derive(Clone)]
pub(crate) struct SharedObserver(pub Arc<dyn Observer>);

impl fmt::Debug for SharedObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// Bounds the time of a command, and tells the observer, if there is one, how it ends.
pub(crate) async fn watched(
    observer: &Option<SharedObserver>,
    cmd: &Cmd,
    sent: impl Future<Output = RedisResult<Value>> + Send,
) -> RedisResult<Value> {
    let observer = observer.as_ref().map(|observer| (observer, Instant::now()));
    let reply = match cmd.timeout {
        Some(limit) => within(limit, sent).await,
        None => sent.await,
    };
    if let Some((SharedObserver(observer), started)) = observer {
        let mut room = [0; NAME_LEN_MAX];
        let name = word(cmd.args_iter().next().unwrap_or_default(), &mut room);
        observer.ended(&Ended { name, commands: 1, took: started.elapsed(), error: reply.as_ref().err() });
    }
    reply
}

/// Tells the observer, if there is one, how a pipeline ends.
pub(crate) async fn watched_pipeline(
    observer: &Option<SharedObserver>,
    pipeline: &Pipeline,
    sent: impl Future<Output = PipelineResult> + Send,
) -> PipelineResult {
    let observer = observer.as_ref().map(|observer| (observer, Instant::now()));
    let outcome = sent.await;
    if let Some((SharedObserver(observer), started)) = observer {
        let error = match &outcome {
            Ok(results) => results.iter().flatten().find_map(|result| result.as_ref().err()),
            Err(error) => Some(error),
        };
        let name = if pipeline.is_atomic() { "TRANSACTION" } else { "PIPELINE" };
        observer.ended(&Ended { name, commands: pipeline.len(), took: started.elapsed(), error });
    }
    outcome
}

/// A name in capitals, if it is a word.
fn word<'a>(name: &[u8], room: &'a mut [u8; NAME_LEN_MAX]) -> &'a str {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b".-_".contains(byte);
    let Some(room) = room.get_mut(..name.len()).filter(|_| !name.is_empty() && name.iter().all(is_word)) else {
        return OTHER;
    };
    room.copy_from_slice(name);
    room.make_ascii_uppercase();
    std::str::from_utf8(room).unwrap_or(OTHER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_in_capitals() {
        for (name, want) in [
            ("get", "GET"),
            ("Json.Set", "JSON.SET"),
            ("", "OTHER"),
            ("user:1", "OTHER"),
            ("x\u{e9}", "OTHER"),
            (&"x".repeat(33), "OTHER"),
            (&"x".repeat(32), &"X".repeat(32)),
        ] {
            assert_eq!(word(name.as_bytes(), &mut [0; NAME_LEN_MAX]), want, "{name}");
        }
    }
}

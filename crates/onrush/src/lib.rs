//! A client for Onrush and every other server that speaks Redis's protocol, made for pipelines.
//!
//! # Automatic pipelining
//! One [`Connection`] serves any number of tasks. Commands that they queue together go out in one write, and no task
//! waits for another task's reply before sending:
//!
//! ```no_run
//! # async fn example() -> onrush::RedisResult<()> {
//! use onrush::AsyncCommands;
//! let con = onrush::Client::open("redis://127.0.0.1/")?.connect().await?;
//! let () = con.set("greeting", "hello").await?;
//! let greeting: String = con.get("greeting").await?;
//! # let _ = greeting;
//! # Ok(())
//! # }
//! ```
//!
//! # Explicit pipelines
//! A [`Pipeline`] is sent in one piece. It returns all replies or the first error, or one result for each command:
//!
//! ```no_run
//! # async fn example(con: onrush::Connection) -> onrush::RedisResult<()> {
//! let (old, new): (Option<i64>, i64) = onrush::pipe()
//!     .get("counter")
//!     .set("other", 1)
//!     .ignore()
//!     .incr("counter", 1)
//!     .query_async(&con)
//!     .await?;
//! let each: Vec<onrush::RedisResult<i64>> = onrush::pipe().incr("text", 1).incr("counter", 1).query_each(&con).await?;
//! # let _ = (old, new, each);
//! # Ok(())
//! # }
//! ```
//!
//! With [`atomic`](Pipeline::atomic) it is a transaction; with [`Connection::transaction`] an optimistic one.
//!
//! # Streams of any length
//! [`Connection::stream`] and [`Connection::stream_fn`] send millions of commands in constant memory, with no batch size to
//! choose; the [`Replies`] are read, folded or counted.
//!
//! # Clusters
//! A [`ClusterClient`] makes a [`ClusterConnection`], which works like a [`Connection`]: commands go to the nodes that have
//! their keys, and keep their order per key while slots move.
//!
//! # Client-side caching
//! With [`ConnectionConfig::set_cache`] a connection keeps the replies to reads until the server reports that their
//! keys have changed:
//!
//! ```no_run
//! # async fn example() -> onrush::RedisResult<()> {
//! use onrush::{AsyncCommands, CacheConfig, ConnectionConfig};
//! let config = ConnectionConfig::new().set_cache(CacheConfig::new());
//! let con = onrush::Client::open("redis://127.0.0.1/")?.connect_with(config).await?;
//! let name: Option<String> = con.get("user:1").await?;
//! let same: Option<String> = con.get("user:1").await?; // no round trip
//! # let _ = (name, same);
//! # Ok(())
//! # }
//! ```
//!
//! # What becomes of a command
//! The [`fate`](RedisError::fate) of an error says whether the command was not sent, was sent with unknown result, or
//! got a reply. After a disconnect the connection reconnects automatically. It sends only those commands again that
//! were not sent, or that are marked [`idempotent`](Cmd::idempotent).
//!
//! # Without a runtime
//! The module [`blocking`] has the same connections for code that is not async.
//!
//! # Around the commands
//! - [`AsyncCommands`] has the commands as methods, [`scan`](AsyncCommands::scan) and its variants as streams; options
//!   and replies have types, those of streams in [`streams`], of places in [`geo`].
//! - [`Connection::with_timeout`] and [`Cmd::timeout`] limit how long single commands may take, [`Cmd::retries_max`] how
//!   often one is sent again.
//! - [`ConnectionConfig::set_credentials_provider`] gets the present password for each new connection,
//!   [`Connection::log_in_again`] for a live one.
//! - [`ConnectionConfig::set_observer`] sets hooks: how long commands take ([`Latencies`]), what becomes of connections.
//! - [`ConnectionConfig::set_resolver`] finds the addresses of hosts, [`TlsOptions`] takes a configuration of rustls.
//! - [`AsyncTypedCommands`] has commands whose results need no type.
//! - [`Client::connect_many`] puts several connections behind one handle.
//! - [`AnyConnection`] is a connection of any kind as one type, [`PubSub::split`] lets one task subscribe while another
//!   reads.
//! - [`Connection::close`] ends in an orderly way, [`Connection::counters`] returns a connection's counters.
//!
//! # Beside other clients
//! | | onrush | redis-rs | fred | rueidis (Go) |
//! |---|---|---|---|---|
//! | automatic pipelining over one connection | yes | yes | yes | yes |
//! | streams of any length in bounded memory | yes | - | - | - |
//! | errors say whether a command was sent | yes | - | - | - |
//! | a command that may have been executed is sent again | if it is `idempotent` | no | yes | if it only reads |
//! | blocking commands delay no others | yes | on a connection of one's own | on a client of one's own | yes |
//! | client-side caching | yes | yes | - | yes |
//! | cluster, Sentinel | yes | yes | yes | yes |
//!
//! More, with versions and measurements, is in
//! [docs/client-library.md](https://github.com/onrush/onrush/blob/main/docs/client-library.md#beside-other-clients).
//!
//! # Features
//! - `tls`: `rediss://` URLs, by rustls.
//! - `json`: `serde_json`'s values, and your own types, as arguments and replies.
//! - `tracing`: spans for commands and pipelines at the level DEBUG, events for connections, under the target `onrush`. They
//!   hold names of commands and addresses of servers, but no keys, values or passwords.
//! - `derive`: `#[derive(FromRedisValue, ToRedisArgs)]` for structs as hashes and as entries of streams.
//! - `metrics`: an observer that passes times and events on to the crate `metrics`.
//! - `uuid`, `chrono`, `time`: types of these crates as arguments and replies.
//! - `mock`: a connection that answers from a script, for tests.
//! - `redis-compat`: the `redis` crate's `aio::ConnectionLike` for [`Connection`], so that code written for that crate
//!   can use it.

#![deny(rustdoc::private_intra_doc_links)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod blocking;
mod builder;
mod cache;
mod cluster;
mod commands;
#[cfg(feature = "redis-compat")]
mod compat;
mod connection;
mod error;
mod link;
#[cfg(feature = "mock")]
pub mod mock;
mod observe;
mod stream;
pub mod streams;
mod values;

pub use cache::cached::Cached;
pub use cache::{CacheConfig, CacheMode, CacheStats};
pub use cluster::client::{ClusterClient, ClusterConfig};
pub use cluster::pubsub::ClusterPubSub;
pub use cluster::{ClusterConnection, ReadFrom};
pub use commands::AsyncCommands;
pub use commands::geo;
pub use commands::options::{
    CopyOptions, Direction, ExistenceCheck, ExpireOption, Expiry, FieldExistenceCheck, FlushOptions,
    HashFieldExpirationOptions, InfoDict, IntegerReplyOrNoOp, LposOptions, ScanOptions, SetExpiry, SetOptions,
};
pub use commands::scan::Scan;
pub use commands::script::{Script, ScriptInvocation};
pub use commands::sorted_sets::{
    Aggregate, LexBound, ScoreBound, SortedSetAddOptions, SortedSetCombineOptions, SortedSetRangeOptions,
};
pub use commands::typed::AsyncTypedCommands;
pub use connection::any::AnyConnection;
pub use connection::client::{Client, ConnectionConfig};
pub use connection::counters::Counters;
pub use connection::lease::{Attempt, Lease};
pub use connection::many::Connections;
pub use connection::pubsub::{Msg, PubSub, PubSubEvent, PubSubSink, PubSubStream};
pub use connection::timeout::WithTimeout;
pub use connection::{Connection, ConnectionLike, Home};
pub use error::{ErrorKind, Fate, RedisError, RedisResult, ServerError, ServerErrorKind};
pub use link::backoff::Backoff;
pub use link::credentials::{Credentials, CredentialsProvider};
pub use link::parse::Parser;
pub use link::push::{PUSHES_BYTES_MAX, PUSHES_MAX, Pushes};
pub use link::resolver::Resolver;
pub use link::sentinel::Sentinels;
pub use link::tls::TlsOptions;
#[cfg(feature = "tls")]
pub use link::tls::rustls;
pub use link::url::{ConnectionAddr, ConnectionInfo, DEFAULT_PORT, IntoConnectionInfo, ProtocolVersion, Seeds};
#[cfg(feature = "metrics")]
pub use observe::Metrics;
pub use observe::{ConnectionEvent, Ended, Histogram, Latencies, Observer};
#[cfg(feature = "derive")]
pub use onrush_derive::{FromRedisValue, ToRedisArgs};
pub use stream::Replies;
pub use stream::cluster::ClusterReplies;
pub use stream::summary::Summary;
pub use stream::window::WindowSize;
pub use values::args::{RedisWrite, ToRedisArgs, ToSingleRedisArg};
pub use values::cmd::{Cmd, cmd};
#[cfg(feature = "derive")]
#[doc(hidden)]
pub use values::derived;
pub use values::from_value::{FromRedisValue, from_redis_value};
#[cfg(feature = "json")]
pub use values::json::{self, Json};
pub use values::pipeline::{Pipeline, pipe};
pub use values::value::{Attribute, PushInfo, PushKind, Value, VerbatimFormat};

/// The examples in the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

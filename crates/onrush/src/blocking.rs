//! The same connections for code that is not async: every call waits for its reply.
//!
//! One thread of the process drives all connections made here; the first connection starts it. A call passes its
//! command to that thread and sleeps until the reply arrives. So any number of threads may share a connection, and it
//! pipelines their commands automatically, as the async ones do.
//!
//! ```no_run
//! use onrush::blocking::{Client, Commands};
//!
//! # fn main() -> onrush::RedisResult<()> {
//! let con = Client::open("redis://127.0.0.1/")?.get_connection()?;
//! let () = con.set("greeting", "hello")?;
//! let (greeting, visits): (String, i64) = onrush::pipe().get("greeting").incr("visits", 1).query(&con)?;
//! for key in con.scan_match::<String>("user:*") {
//!     println!("{}", key?);
//! }
//! # let _ = (greeting, visits);
//! # Ok(())
//! # }
//! ```
//!
//! # Within an async runtime
//! Calls work there too, in runtimes of one thread and of many: nothing here runs on the caller's runtime. They block
//! their thread, so its other tasks wait meanwhile; the async API is the better choice there. Only on the thread that
//! drives the connections a call cannot work: it would wait for itself. Code that runs there, such as a
//! [`CredentialsProvider`](crate::CredentialsProvider), gets an error of [`ErrorKind::Client`] that says so.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::ops::Deref;
use std::sync::{Arc, OnceLock, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::commands::options::{InfoDict, IntegerReplyOrNoOp, ScanOptions};
use crate::commands::script::{Script, ScriptInvocation};
use crate::commands::typed::typed_commands;
use crate::commands::{all_commands, scan_methods};
use crate::connection::ConnectionLike;
use crate::connection::client::ConnectionConfig;
use crate::connection::lease::{self, Attempts};
use crate::connection::pubsub::{self, Msg, PubSubEvent};
use crate::connection::timeout::WithTimeout;
use crate::error::{ErrorKind, RedisError, RedisResult};
use crate::link::tls::TlsOptions;
use crate::link::url::{ConnectionInfo, IntoConnectionInfo, ProtocolVersion};
use crate::streams::{StreamRangeReply, StreamReadReply};
use crate::values::args::ToRedisArgs;
use crate::values::cmd::{Cmd, cmd};
use crate::values::from_value::FromRedisValue;
use crate::values::pipeline::Pipeline;
use crate::values::value::PushInfo;

thread_local! {
    /// Whether this is the thread that drives the connections.
    static DRIVES: Cell<bool> = const { Cell::new(false) };
}

/// The runtime that drives all blocking connections of the process.
static RUNTIME: OnceLock<Handle> = OnceLock::new();

/// Starts the thread that drives the connections, unless it runs already.
fn runtime() -> RedisResult<&'static Handle> {
    static START: Mutex<()> = Mutex::new(());
    if let Some(handle) = RUNTIME.get() {
        return Ok(handle);
    }
    let failed = |error: io::Error| {
        let text = format!("the thread that drives blocking connections cannot be started: {error}");
        RedisError::from(io::Error::new(error.kind(), text))
    };
    let _one_at_a_time = START.lock();
    if let Some(handle) = RUNTIME.get() {
        return Ok(handle);
    }
    let (told, heard) = mpsc::channel();
    let drive = move || {
        DRIVES.set(true);
        // Made on this thread, since a runtime must not be dropped where another runtime's tasks run.
        match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                let _ = told.send(Ok(runtime.handle().clone()));
                runtime.block_on(std::future::pending::<()>());
            }
            Err(error) => _ = told.send(Err(error)),
        }
    };
    std::thread::Builder::new().name("onrush-blocking".into()).spawn(drive).map_err(failed)?;
    let gone = |_| failed(io::Error::other("it has ended"));
    let handle = heard.recv().map_err(gone)?.map_err(failed)?;
    Ok(RUNTIME.get_or_init(|| handle))
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    static WAKER: Waker = Waker::from(Arc::new(Unpark(std::thread::current())));
}

/// Runs a future of this library to its end on this thread, while the thread behind the blocking API does its I/O.
///
/// For async functions without a blocking method. A future that makes a timer must make it when it is polled: put it
/// into an `async` block.
///
/// # Errors
/// [`ErrorKind::Client`] on the thread that drives the connections; [`ErrorKind::Io`] when that thread cannot be started.
pub fn block_on<F: Future>(future: F) -> RedisResult<F::Output> {
    if DRIVES.get() {
        let text = "a blocking call on the thread that drives the blocking connections would wait for itself; \
                    use the async API there";
        return Err(RedisError::new(ErrorKind::Client, text));
    }
    let _entered = runtime()?.enter();
    let mut future = std::pin::pin!(future);
    let waker = WAKER.with(Waker::clone);
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return Ok(output);
        }
        std::thread::park();
    }
}

fn wait<T>(future: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    block_on(future)?
}

/// A server to connect to. Opening one does no I/O.
#[derive(Clone, Debug)]
pub struct Client {
    client: crate::Client,
}

impl Client {
    /// A client of the server that a URL or a [`ConnectionInfo`] names. Connects nowhere yet.
    ///
    /// # Errors
    /// As [`Client::open`](crate::Client::open).
    pub fn open(params: impl IntoConnectionInfo) -> RedisResult<Client> {
        Ok(Client { client: crate::Client::open(params)? })
    }

    /// The same with options for TLS.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with_tls(params: impl IntoConnectionInfo, tls: TlsOptions) -> RedisResult<Client> {
        Ok(Client { client: crate::Client::open_with_tls(params, tls)? })
    }

    /// The server's address and the login.
    pub fn connection_info(&self) -> &ConnectionInfo {
        self.client.connection_info()
    }

    /// Connects.
    ///
    /// # Errors
    /// As [`Client::connect`](crate::Client::connect), and as [`block_on`].
    pub fn get_connection(&self) -> RedisResult<Connection> {
        self.connect_with(ConnectionConfig::default())
    }

    /// Connects with options.
    ///
    /// # Errors
    /// As [`get_connection`](Self::get_connection).
    pub fn connect_with(&self, config: ConnectionConfig) -> RedisResult<Connection> {
        wait(self.client.connect_with(config)).map(Connection::over)
    }

    /// Connects for subscriptions.
    ///
    /// # Errors
    /// As [`get_connection`](Self::get_connection).
    pub fn get_pubsub(&self) -> RedisResult<PubSub> {
        wait(self.client.get_async_pubsub()).map(PubSub::over)
    }

    /// Connects for subscriptions, with options.
    ///
    /// # Errors
    /// As [`get_connection`](Self::get_connection).
    pub fn pubsub_with(&self, config: ConnectionConfig) -> RedisResult<PubSub> {
        wait(self.client.pubsub_with(config)).map(PubSub::over)
    }
}

/// A connection whose calls wait. Shared by cloning.
///
/// `C` is the async one beneath: [`Connection`](crate::Connection), a [`Lease`](crate::Lease), or a mock.
#[derive(Clone)]
pub struct Connection<C = crate::Connection> {
    con: C,
}

impl<C: fmt::Debug> fmt::Debug for Connection<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.con.fmt(f)
    }
}

impl<C: ConnectionLike> Connection<C> {
    /// Blocking calls over something else that takes commands, such as a mock. Do not use it with an async
    /// [`Connection`](crate::Connection) of a runtime of one thread and call it on that thread: then no thread is left
    /// to drive the connection. [`Client::get_connection`] makes connections without that limit.
    pub fn over(con: C) -> Connection<C> {
        Connection { con }
    }

    /// The async connection beneath. It may be used from any runtime.
    pub fn as_async(&self) -> &C {
        &self.con
    }

    /// The same connection with another limit on how long a call waits.
    pub fn with_timeout(&self, timeout: Duration) -> Connection<WithTimeout<'_, C>> {
        Connection { con: WithTimeout::new(&self.con, timeout) }
    }
}

impl Connection {
    /// The protocol agreed on with the server.
    pub fn protocol(&self) -> ProtocolVersion {
        self.con.protocol()
    }

    /// Whether the connection is closed for good.
    pub fn is_closed(&self) -> bool {
        self.con.is_closed()
    }

    /// An exclusive connection from a small pool; as [`Connection::lease`](crate::Connection::lease).
    ///
    /// # Errors
    /// As there, and as [`block_on`].
    pub fn lease(&self) -> RedisResult<Connection<lease::Lease>> {
        wait(self.con.lease()).map(Connection::over)
    }

    /// Closes the connection when all commands under way are answered; as
    /// [`Connection::close`](crate::Connection::close).
    ///
    /// # Errors
    /// As [`block_on`].
    pub fn close(&self) -> RedisResult<()> {
        block_on(self.con.close())
    }

    /// Runs an optimistic transaction: watches `keys`, and calls `attempt` with a connection to read from and an atomic
    /// pipeline to fill and send over it, until `attempt` returns a value; as
    /// [`Connection::transaction`](crate::Connection::transaction).
    ///
    /// # Errors
    /// As there, and as [`block_on`].
    pub fn transaction<T>(
        &self,
        keys: impl ToRedisArgs,
        mut attempt: impl FnMut(&Connection<lease::Lease>, &mut Pipeline) -> RedisResult<Option<T>>,
    ) -> RedisResult<T> {
        let mut attempts = Attempts::<lease::Lease>::new(&self.con, keys);
        loop {
            let lease = Connection::over(wait(attempts.begin())?);
            let mut pipeline = Pipeline::new();
            pipeline.atomic();
            let outcome = attempt(&lease, &mut pipeline);
            if let Some(outcome) = block_on(attempts.end(lease.con, outcome))? {
                return outcome;
            }
        }
    }
}

impl Deref for Connection<lease::Lease> {
    type Target = lease::Lease;

    fn deref(&self) -> &lease::Lease {
        &self.con
    }
}

macro_rules! blocking_scans {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) = $word:literal, $key:expr, $options:expr;)*) => {$(
        $(#[$doc])*
        fn $name<T: FromRedisValue>(&self, $($arg: $type),*) -> Scan<'_, Self::Async, T> {
            Scan(crate::Scan::new(self.over_async(), $word, $key, $options))
        }
    )*};
}

macro_rules! blocking_commands {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident),*) = $word:literal $(, $part:expr)*;)*) => {
        /// Commands as methods of a blocking connection; the blocking side of [`AsyncCommands`](crate::AsyncCommands).
        ///
        /// # Errors
        /// All of them fail as [`Cmd::query_async`] does, and as [`block_on`].
        pub trait Commands {
            /// The async connection beneath.
            type Async: ConnectionLike;

            /// The async connection beneath.
            fn over_async(&self) -> &Self::Async;

            $(
                $(#[$doc])*
                #[allow(non_camel_case_types, clippy::too_many_arguments)]
                fn $name<$($arg: ToRedisArgs,)* RV: FromRedisValue>(&self, $($arg: $arg),*) -> RedisResult<RV> {
                    #[allow(unused_mut)]
                    let mut command = cmd($word);
                    $(command.arg($part);)*
                    wait(command.query_async(self.over_async()))
                }
            )*

            scan_methods! { blocking_scans }
        }
    };
}

all_commands! { blocking_commands }

macro_rules! blocking_typed {
    ($($name:ident($($arg:ident),*) -> $reply:ty;)*) => {
        /// Commands as methods whose results need no type; the blocking side of
        /// [`AsyncTypedCommands`](crate::AsyncTypedCommands). A program imports this or [`Commands`].
        ///
        /// # Errors
        /// As there, and as [`block_on`].
        pub trait TypedCommands: Commands {$(
            #[doc = concat!("As [`", stringify!($name), "`](Commands::", stringify!($name), ").")]
            fn $name(&self, $($arg: impl ToRedisArgs),*) -> RedisResult<$reply> {
                Commands::$name(self, $($arg),*)
            }
        )*}

        impl<T: Commands> TypedCommands for T {}
    };
}

typed_commands! { blocking_typed }

impl<C: ConnectionLike> Commands for Connection<C> {
    type Async = C;

    fn over_async(&self) -> &C {
        &self.con
    }
}

/// An iterator over the results of a SCAN, page by page. See [`crate::Scan`].
#[derive(Debug)]
pub struct Scan<'a, C, T>(crate::Scan<'a, C, T>);

impl<C: ConnectionLike, T: FromRedisValue> Iterator for Scan<'_, C, T> {
    type Item = RedisResult<T>;

    fn next(&mut self) -> Option<RedisResult<T>> {
        block_on(self.0.next_item()).unwrap_or_else(|error| Some(Err(error)))
    }
}

impl Cmd {
    /// Sends the command over a blocking connection and converts the reply.
    ///
    /// # Errors
    /// As [`query_async`](Self::query_async), and as [`block_on`].
    pub fn query<T: FromRedisValue>(&self, con: &impl Commands) -> RedisResult<T> {
        wait(self.query_async(con.over_async()))
    }

    /// Sends the command over a blocking connection and drops the reply, unless it is an error.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    pub fn exec(&self, con: &impl Commands) -> RedisResult<()> {
        wait(self.exec_async(con.over_async()))
    }
}

impl Pipeline {
    /// [`query_async`](Self::query_async) over a blocking connection.
    ///
    /// # Errors
    /// As there, and as [`block_on`].
    pub fn query<T: FromRedisValue>(&self, con: &impl Commands) -> RedisResult<T> {
        wait(self.query_async(con.over_async()))
    }

    /// [`query_each`](Self::query_each) over a blocking connection.
    ///
    /// # Errors
    /// As there, and as [`block_on`].
    pub fn query_each_blocking<T: FromRedisValue>(&self, con: &impl Commands) -> RedisResult<Vec<RedisResult<T>>> {
        wait(self.query_each(con.over_async()))
    }

    /// [`exec_async`](Self::exec_async) over a blocking connection.
    ///
    /// # Errors
    /// As there, and as [`block_on`].
    pub fn exec(&self, con: &impl Commands) -> RedisResult<()> {
        wait(self.exec_async(con.over_async()))
    }
}

impl Script {
    /// Calls the script without keys and arguments over a blocking connection.
    ///
    /// # Errors
    /// As [`invoke_async`](Self::invoke_async), and as [`block_on`].
    pub fn invoke<T: FromRedisValue>(&self, con: &impl Commands) -> RedisResult<T> {
        wait(self.invoke_async(con.over_async()))
    }
}

impl ScriptInvocation<'_> {
    /// Calls the script over a blocking connection.
    ///
    /// # Errors
    /// As [`invoke_async`](Self::invoke_async), and as [`block_on`].
    pub fn invoke<T: FromRedisValue>(&self, con: &impl Commands) -> RedisResult<T> {
        wait(self.invoke_async(con.over_async()))
    }
}

/// A connection for subscriptions whose calls wait. As [`crate::PubSub`].
#[derive(Debug)]
pub struct PubSub {
    sink: PubSubSink,
    stream: PubSubStream,
}

/// The half of a [`PubSub`] that subscribes, from [`PubSub::split`]. Any number of threads may share it by cloning.
#[derive(Clone, Debug)]
pub struct PubSubSink {
    sink: pubsub::PubSubSink,
}

/// The half of a [`PubSub`] that reads, from [`PubSub::split`]. When it is dropped, the connection is closed.
#[derive(Debug)]
pub struct PubSubStream {
    stream: pubsub::PubSubStream,
}

macro_rules! subscriptions {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        impl PubSubSink {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// The server's, those of the connection, and those of [`block_on`].
            pub fn $name(&self, target: impl AsRef<[u8]>) -> RedisResult<()> {
                wait(self.sink.$name(target))
            }
        )*}

        impl PubSub {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// The server's, those of the connection, and those of [`block_on`].
            pub fn $name(&mut self, target: impl AsRef<[u8]>) -> RedisResult<()> {
                self.sink.$name(target)
            }
        )*}
    };
}

subscriptions! {
    /// Subscribes to a channel.
    subscribe;
    /// Ends the subscription to a channel.
    unsubscribe;
    /// Subscribes to all channels whose names match a pattern.
    psubscribe;
    /// Ends the subscription to a pattern.
    punsubscribe;
    /// Subscribes to a shard channel.
    ssubscribe;
    /// Ends the subscription to a shard channel.
    sunsubscribe;
}

impl PubSub {
    fn over(pubsub: pubsub::PubSub) -> PubSub {
        let (sink, stream) = pubsub.split();
        PubSub { sink: PubSubSink { sink }, stream: PubSubStream { stream } }
    }

    /// The half that subscribes and the half that reads, for different threads.
    pub fn split(self) -> (PubSubSink, PubSubStream) {
        (self.sink, self.stream)
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] when the connection is closed for good, and those of [`block_on`].
    pub fn get_message(&mut self) -> RedisResult<Msg> {
        self.stream.get_message()
    }

    /// Waits for the next message for at most `timeout`. `None` when the time is over.
    ///
    /// # Errors
    /// As [`get_message`](Self::get_message).
    pub fn get_message_within(&mut self, timeout: Duration) -> RedisResult<Option<Msg>> {
        self.stream.get_message_within(timeout)
    }

    /// Waits for the next message, or for what is to be known about missing ones; as
    /// [`next_event`](crate::PubSub::next_event). `None` when the connection is closed for good.
    ///
    /// # Errors
    /// As [`block_on`].
    pub fn next_event(&mut self) -> RedisResult<Option<PubSubEvent>> {
        self.stream.next_event()
    }

    /// Waits for the next push of any kind; as [`next_push`](crate::PubSub::next_push).
    ///
    /// # Errors
    /// As [`block_on`].
    pub fn next_push(&mut self) -> RedisResult<Option<PushInfo>> {
        self.stream.next_push()
    }
}

/// The messages, one after the other, until the connection is closed for good.
impl Iterator for PubSub {
    type Item = Msg;

    fn next(&mut self) -> Option<Msg> {
        self.stream.next()
    }
}

impl PubSubStream {
    /// As [`PubSub::get_message`].
    ///
    /// # Errors
    /// As there.
    pub fn get_message(&mut self) -> RedisResult<Msg> {
        block_on(self.stream.next_message())?.ok_or_else(RedisError::closed)
    }

    /// As [`PubSub::get_message_within`].
    ///
    /// # Errors
    /// As there.
    pub fn get_message_within(&mut self, timeout: Duration) -> RedisResult<Option<Msg>> {
        let message = block_on(async { tokio::time::timeout(timeout, self.stream.next_message()).await })?;
        message.map_or(Ok(None), |message| message.map(Some).ok_or_else(RedisError::closed))
    }

    /// As [`PubSub::next_event`].
    ///
    /// # Errors
    /// As [`block_on`].
    pub fn next_event(&mut self) -> RedisResult<Option<PubSubEvent>> {
        block_on(self.stream.next_event())
    }

    /// As [`PubSub::next_push`].
    ///
    /// # Errors
    /// As [`block_on`].
    pub fn next_push(&mut self) -> RedisResult<Option<PushInfo>> {
        block_on(self.stream.next_push())
    }
}

/// The messages, one after the other, until the connection is closed for good.
impl Iterator for PubSubStream {
    type Item = Msg;

    fn next(&mut self) -> Option<Msg> {
        self.get_message().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_on_the_driving_thread_is_refused_and_not_waited_for() {
        let (told, heard) = std::sync::mpsc::channel();
        runtime().unwrap().spawn(async move { told.send(block_on(async { 1 })) });
        let error = heard.recv().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Client);
        assert!(error.to_string().contains("wait for itself"), "{error}");
        assert_eq!(block_on(async { 1 }), Ok(1));
    }

    #[test]
    fn timers_run_within_and_outside_of_a_runtime() {
        let nap = || block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
        assert_eq!(nap(), Ok(()));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async { assert_eq!(nap(), Ok(())) });
    }
}

//! The entry point: a server's address, and connections to it.

use std::sync::Arc;
use std::time::Duration;

use crate::builder::builder;
use crate::cache::CacheConfig;
use crate::connection::Connection;
use crate::connection::lease::LeaseLimits;
use crate::connection::pubsub::PubSub;
use crate::error::RedisResult;
use crate::link::backoff::Backoff;
use crate::link::connector::Connector;
use crate::link::credentials::{CredentialsProvider, Provider};
use crate::link::net::SocketOptions;
use crate::link::resolver::{Resolver, SharedResolver};
use crate::link::sentinel::Finder;
use crate::link::tls::{TlsContext, TlsOptions};
use crate::link::url::{ConnectionInfo, IntoConnectionInfo};
use crate::observe::{Observer, SharedObserver};
use crate::values::encode::encoded;

/// A server to connect to. Opening one does no I/O.
#[derive(Clone, Debug)]
pub struct Client {
    info: ConnectionInfo,
    tls: TlsContext,
    finder: Arc<Finder>,
}

/// How a connection behaves.
#[derive(Clone, Debug)]
pub struct ConnectionConfig {
    pub(crate) response_timeout: Option<Duration>,
    pub(crate) connection_timeout: Option<Duration>,
    pub(crate) ping_interval: Option<Duration>,
    pub(crate) backoff: Option<Backoff>,
    pub(crate) retries_max: u32,
    pub(crate) queue_bytes_max: usize,
    pub(crate) leases_max: usize,
    /// `None`: as long as a reply may take.
    pub(crate) lease_timeout: Option<Option<Duration>>,
    pub(crate) lease_limits: LeaseLimits,
    pub(crate) set_info: bool,
    pub(crate) ready_check: bool,
    pub(crate) tracking: Option<Vec<u8>>,
    pub(crate) cache: Option<CacheConfig>,
    pub(crate) socket: SocketOptions,
    pub(crate) credentials: Option<Provider>,
    pub(crate) login_interval: Option<Duration>,
    pub(crate) observer: Option<SharedObserver>,
}

impl Default for ConnectionConfig {
    fn default() -> ConnectionConfig {
        ConnectionConfig {
            response_timeout: Some(Duration::from_secs(10)),
            connection_timeout: Some(Duration::from_secs(5)),
            ping_interval: Some(Duration::from_secs(15)),
            backoff: Some(Backoff::default()),
            retries_max: 3,
            queue_bytes_max: 64 << 20,
            leases_max: 1_024,
            lease_timeout: None,
            lease_limits: LeaseLimits { idle: Some(Duration::from_secs(60)), lifetime: None },
            set_info: true,
            ready_check: true,
            tracking: None,
            cache: None,
            socket: SocketOptions::default(),
            credentials: None,
            login_interval: None,
            observer: None,
        }
    }
}

builder! {
    ConnectionConfig, new: "The defaults: 10 s without a reply and 5 s for connecting, reconnects without end.";

    /// Longest time without any reply, while replies are due, before a connection counts as lost. Also the longest time
    /// that a command may wait to be sent while there is no connection, and that the making of a leased connection is
    /// tried. `None`: no limit. Blocking commands are exempt. A timeout is at most a quarter late. Commands that were not
    /// sent, or that are [idempotent](crate::Cmd::idempotent), are sent again over the next connection, which starts
    /// the time anew.
    set_response_timeout(timeout: Option<Duration>) => response_timeout = timeout;

    /// Longest time of one attempt to connect and log in. `None`: as long as the operating system tries.
    set_connection_timeout(timeout: Option<Duration>) => connection_timeout = timeout;

    /// Silence after which the client checks that the server is still there, where nothing else would detect its loss:
    /// on connections that wait for messages or invalidations (by PING), and for leased connections on which a blocking
    /// command waits (by PING on the shared connection). A server that does not answer within the response timeout
    /// counts as lost. `None`: no checks. Default: 15 s.
    set_ping_interval(interval: Option<Duration>) =>
        ping_interval = interval.map(|interval| interval.max(Duration::from_millis(1)));

    /// Idle time after which the kernel checks that the peer of a TCP connection is still there. The loss of a peer is
    /// detected within twice that time, also while data is on its way to it (on Linux). `None`: no checks. At least 1
    /// s, at most 32,767 s, the limit of Linux. Default: 15 s.
    set_keepalive(idle: Option<Duration>) => socket.keepalive = idle;

    /// How to reconnect. `None`: the connection is closed for good when it breaks. The waits grow until a new
    /// connection has brought a reply or lasted for the longest wait.
    set_backoff(backoff: Option<Backoff>) => backoff = backoff;

    /// How often a command is sent again, if it may be sent again.
    set_retries_max(retries: u32) => retries_max = retries;

    /// Most bytes of commands that wait to be written; beyond that, senders wait.
    set_queue_bytes_max(bytes: usize) => queue_bytes_max = bytes.max(1);

    /// Most leased connections at a time, for blocking commands and WATCH. A call that needs one more waits for it; see
    /// [`set_lease_timeout`](Self::set_lease_timeout). Default: 1,024. They are made when they are needed, each with
    /// some 70 KB of memory.
    set_leases_max(leases: usize) => leases_max = leases.clamp(1, tokio::sync::Semaphore::MAX_PERMITS);

    /// Longest time that a call waits for a lease while all of them are taken, a blocking command too. `None`: no
    /// limit. Default: the response timeout. The wait for the lease's own connection counts too: all waits of one call
    /// together take at most the longer of the two times, however many attempts it makes.
    set_lease_timeout(timeout: Option<Duration>) => lease_timeout = Some(timeout);

    /// Time for which a leased connection is kept after its last use, at most half as long again. `None`: until the
    /// connection beside it is closed. Default: 60 s.
    set_lease_idle(idle: Option<Duration>) => lease_limits.idle = idle;

    /// Longest life of a leased connection: an older one is closed when its holder gives it back, and so are old ones
    /// that nobody holds, at most half as long again after their time. `None`: no limit, the default.
    set_lease_lifetime(lifetime: Option<Duration>) => lease_limits.lifetime = lifetime;

    /// Whether to tell the server the library's name and version.
    set_client_info(tell: bool) => set_info = tell;

    /// Whether a server that is loading its data (it answers with LOADING) counts as away: each new connection begins
    /// with a PING, and nothing is sent before that is answered. The first connection waits for it at most for the
    /// response timeout; later, commands wait as they do while there is no connection. A single command that gets
    /// LOADING all the same is sent again, and so is a pipeline of which no command was executed. Default: true.
    set_ready_check(check: bool) => ready_check = check;

    /// Keeps replies in the client until the server reports changes of their keys. RESP3 only, and not together with
    /// [`set_tracking`](Self::set_tracking).
    ///
    /// After a change, a cached reply is outdated until the server's message arrives; if the line is lost silently,
    /// until the loss is detected (see [`set_ping_interval`](Self::set_ping_interval)). A connection always reads its
    /// own writes, those over its leases included (blocking commands, transactions) as soon as they have their replies.
    /// What a script changes counts only if it is named among its keys. The expiry of a hash field is noticed only by
    /// [`CacheConfig::set_ttl_max`].
    ///
    /// The keys of an MGET are cached one by one, as by GET, and the missing ones are read with one command. A pipeline
    /// is answered from the cache if it has only reads of one key each. If only a part is cached, the values are not
    /// all of the same moment. Other pipelines, transactions, streams and leases are not answered from the cache. Of
    /// equal reads that miss at the same time, one is sent.
    set_cache(cache: CacheConfig) => cache = Some(cache);

    /// Sets a provider of the user name and password. It is called for each new connection, reconnects and leases
    /// included. The login in the URL is then not used.
    set_credentials_provider(provider: impl CredentialsProvider + 'static) =>
        credentials = Some(Provider(Arc::new(provider)));

    /// How often a live connection logs in again, as by [`Connection::log_in_again`], for passwords and tokens that end.
    /// A failed attempt is made again after an eighth of that time. `None`: never, the default.
    set_login_interval(interval: Option<Duration>) =>
        login_interval = interval.map(|interval| interval.max(Duration::from_millis(8)));

    /// Sets hooks that are told how long commands take and what becomes of connections: [`Latencies`](crate::Latencies),
    /// `Metrics` (with the feature `metrics`), or your own. Without them, nothing is measured.
    set_observer(observer: impl Observer + 'static) => observer = Some(SharedObserver(Arc::new(observer)));

    /// Sets what finds the addresses of the server's host, in place of the system.
    set_resolver(resolver: impl Resolver + 'static) => socket.resolver = Some(SharedResolver(Arc::new(resolver)));
}

impl ConnectionConfig {
    /// Asks the server to report changes of keys that were read here (`CLIENT TRACKING ON` and these options, such as
    /// `NOLOOP` or `BCAST`), on this connection and after each reconnect. The reports come through
    /// [`Connection::pushes`] as [`PushKind::Invalidate`](crate::PushKind::Invalidate). RESP3 only; connecting fails if
    /// the server refuses. Reads over a lease are not tracked.
    pub fn set_tracking(mut self, options: &[&str]) -> ConnectionConfig {
        let args: Vec<&[u8]> = ["CLIENT", "TRACKING", "ON"].iter().chain(options).map(|arg| arg.as_bytes()).collect();
        self.tracking = Some(encoded(&args));
        self
    }

    /// The sizes of the kernel's buffers for the socket, in bytes; `None` leaves them to the kernel.
    pub fn set_socket_buffers(mut self, send: Option<usize>, receive: Option<usize>) -> ConnectionConfig {
        (self.socket.send_buffer_bytes, self.socket.receive_buffer_bytes) = (send, receive);
        self
    }
}

impl Client {
    /// A client of the server that a URL or a [`ConnectionInfo`] names. Connects nowhere yet.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidClientConfig`](crate::ErrorKind::InvalidClientConfig) with what is wrong in the URL.
    pub fn open(params: impl IntoConnectionInfo) -> RedisResult<Client> {
        Client::open_with_tls(params, TlsOptions::default())
    }

    /// The same with options for TLS. They are read once, with the first connection; the connections of a client and of
    /// its clones resume each other's TLS sessions.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with_tls(params: impl IntoConnectionInfo, tls: TlsOptions) -> RedisResult<Client> {
        Ok(Client { info: params.into_connection_info()?, tls: TlsContext::new(tls), finder: Arc::default() })
    }

    /// The server's address and the login.
    pub fn connection_info(&self) -> &ConnectionInfo {
        &self.info
    }

    /// Connects. The connection may be cloned and shared by any number of tasks.
    ///
    /// Must be called within a tokio runtime with I/O and time: the connection's driver becomes a task there.
    ///
    /// # Errors
    /// Those of the first attempt: the connection is refused, the login is refused, the database does not exist. Only
    /// while the server is loading its data, it is tried again
    /// ([`set_ready_check`](ConnectionConfig::set_ready_check)).
    pub async fn connect(&self) -> RedisResult<Connection> {
        self.connect_with(ConnectionConfig::default()).await
    }

    /// Connects with options.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_with(&self, config: ConnectionConfig) -> RedisResult<Connection> {
        Connection::open(Arc::new(self.connector(config))).await
    }

    /// [`connect`](Self::connect) by the name it has in the `redis` crate.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn get_multiplexed_async_connection(&self) -> RedisResult<Connection> {
        self.connect().await
    }

    /// [`connect_with`](Self::connect_with) by the name it has in the `redis` crate.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn get_multiplexed_async_connection_with_config(
        &self,
        config: &ConnectionConfig,
    ) -> RedisResult<Connection> {
        self.connect_with(config.clone()).await
    }

    /// Connects for subscriptions.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn get_async_pubsub(&self) -> RedisResult<PubSub> {
        self.pubsub_with(ConnectionConfig::default()).await
    }

    /// Connects for subscriptions, with options.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn pubsub_with(&self, config: ConnectionConfig) -> RedisResult<PubSub> {
        Ok(PubSub::new(Connection::open_lossless(Arc::new(self.connector(config))).await?))
    }

    fn connector(&self, config: ConnectionConfig) -> Connector {
        let connector = Connector::new(self.info.clone(), config, self.tls.clone());
        Connector { finder: Arc::clone(&self.finder), ..connector }
    }
}

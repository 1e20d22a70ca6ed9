//! The entry point to a cluster: its seeds, and connections to it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::builder::builder;
use crate::cluster::node::Maker;
use crate::cluster::routes::{Routes, Table};
use crate::cluster::topology::Addr;
use crate::cluster::{ClusterConnection, Inner, ReadFrom, refresh};
use crate::connection::client::ConnectionConfig;
use crate::error::{ErrorKind, RedisError, RedisResult};
use crate::link::tls::{TlsContext, TlsOptions};
use crate::link::url::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, Seeds};

/// A cluster to connect to, by some of its nodes. Opening one does no I/O.
///
/// ```no_run
/// # async fn example() -> onrush::RedisResult<()> {
/// use onrush::AsyncCommands;
/// let client = onrush::ClusterClient::open("redis-cluster://127.0.0.1:7000,127.0.0.1:7001")?;
/// let con = client.connect().await?;
/// let () = con.set("greeting", "hello").await?;
/// let (greeting, visits): (String, i64) = onrush::pipe().get("greeting").incr("visits", 1).query_async(&con).await?;
/// # let _ = (greeting, visits);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ClusterClient {
    info: ConnectionInfo,
    seeds: Seeds,
    tls: TlsContext,
}

/// How a connection to a cluster behaves.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    pub(crate) connection: ConnectionConfig,
    pub(crate) redirects_max: u32,
    pub(crate) read_from: ReadFrom,
    pub(crate) split: bool,
    pub(crate) refresh_interval: Option<Duration>,
}

impl Default for ClusterConfig {
    fn default() -> ClusterConfig {
        ClusterConfig {
            connection: ConnectionConfig::default(),
            redirects_max: 16,
            read_from: ReadFrom::Primary,
            split: false,
            refresh_interval: Some(Duration::from_secs(60)),
        }
    }
}

builder! {
    ClusterConfig, new: "The defaults.";

    /// How each connection to a node behaves. The response timeout is also the longest time for which a refused command
    /// is sent again. A cache and tracking are not possible.
    set_connection(config: ConnectionConfig) => connection = config;

    /// How often a command follows MOVED and ASK; then that error is its result. Default: 16.
    set_redirects_max(redirects: u32) => redirects_max = redirects;

    /// Which nodes answer commands that only read. Default: the primary.
    set_read_from(read_from: ReadFrom) => read_from = read_from;

    /// Whether MGET, MSET, DEL, UNLINK, EXISTS and TOUCH with keys in several slots are split into a command for each
    /// slot. They are not atomic then: others' commands come between, and an error of one part leaves the others
    /// executed. Default: no; such commands fail with CROSSSLOT and are not sent.
    set_split(split: bool) => split = split;

    /// How often a node is asked for the slots when nothing else tells of changes. `None`: never. Default: 60 s. What
    /// nodes tell by MOVED counts at once, and so does the loss of a connection.
    set_refresh_interval(interval: Option<Duration>) =>
        refresh_interval = interval.map(|interval| interval.max(refresh::GAP));
}

impl ClusterConfig {
    fn check(&self) -> RedisResult<()> {
        if self.connection.cache.is_some() || self.connection.tracking.is_some() {
            let text =
                "a cluster connection has no client-side cache and no tracking; connect to single nodes for that";
            return Err(RedisError::new(ErrorKind::InvalidClientConfig, text));
        }
        Ok(())
    }
}

impl ClusterClient {
    /// A client of the cluster that a URL names: `redis-cluster://[user][:password@]host[:port][,host[:port]…]`,
    /// `rediss-cluster://` for TLS. A URL of a single server names one node. Connects nowhere yet.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidClientConfig`] with what is wrong in the URL.
    pub fn open(params: impl IntoConnectionInfo) -> RedisResult<ClusterClient> {
        ClusterClient::open_with_tls(params, TlsOptions::default())
    }

    /// The same with options for TLS.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with_tls(params: impl IntoConnectionInfo, tls: TlsOptions) -> RedisResult<ClusterClient> {
        let info = params.into_connection_info()?;
        let wrong = |text| Err(RedisError::new(ErrorKind::InvalidClientConfig, text));
        let seeds = match &info.addr {
            ConnectionAddr::Cluster(seeds) => seeds.clone(),
            ConnectionAddr::Tcp(host, port) => Seeds { addrs: vec![(host.clone(), *port)], tls: None },
            ConnectionAddr::TcpTls { host, port, insecure } => {
                Seeds { addrs: vec![(host.clone(), *port)], tls: Some(*insecure) }
            }
            _ => return wrong("the URL names no node of a cluster; say redis-cluster://host:port,host:port"),
        };
        if info.db != 0 {
            return wrong("a cluster has only the database 0");
        }
        Ok(ClusterClient { info, seeds, tls: TlsContext::new(tls) })
    }

    /// The seeds and the login.
    pub fn connection_info(&self) -> &ConnectionInfo {
        &self.info
    }

    /// Connects: asks the seeds in turn for the slots.
    ///
    /// Must be called within a tokio runtime with I/O and time: all connections are driven there.
    ///
    /// # Errors
    /// That of the last seed, if none tells the slots.
    pub async fn connect(&self) -> RedisResult<ClusterConnection> {
        self.connect_with(ClusterConfig::default()).await
    }

    /// Connects with options.
    ///
    /// # Errors
    /// As [`connect`](Self::connect); [`ErrorKind::InvalidClientConfig`] if a cache or tracking is set.
    pub async fn connect_with(&self, config: ClusterConfig) -> RedisResult<ClusterConnection> {
        config.check()?;
        let maker = Arc::new(self.maker(&config));
        let seeds: Vec<Addr> =
            self.seeds.addrs.iter().map(|(host, port)| Addr { host: host.clone(), port: *port }).collect();
        let interval = config.refresh_interval;
        let bell = maker.bell.clone();
        let routes = Routes::new(Table::new(maker.clone(), config.read_from));
        let inner = Arc::new(Inner::new(routes, maker, config, seeds));
        inner.learn_first().await?;
        tokio::spawn(refresh::keep_fresh(Arc::downgrade(&inner), bell, interval));
        Ok(ClusterConnection { inner })
    }

    pub(crate) fn maker(&self, config: &ClusterConfig) -> Maker {
        let backoff = config.connection.backoff.clone().unwrap_or_default();
        Maker {
            info: self.info.clone(),
            // A node that is away for long may come back: its connection is not given up before the node has gone.
            config: config.connection.clone().set_backoff(Some(backoff.set_attempts_max(None))),
            tls: self.tls.clone(),
            insecure: self.seeds.tls,
            readonly: config.read_from != ReadFrom::Primary,
            runtime: Handle::current(),
            closed: AtomicBool::new(false),
            bell: Arc::new(Notify::new()),
        }
    }
}

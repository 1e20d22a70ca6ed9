//! The bus of the cluster: this node's links to others, and what its state wants done.
//!
//! Three threads. `cluster` drives the state ([`onrush_cluster::cluster`]): it tells it what comes over links and how time
//! passes, and does what it wants in order: links, messages, the file of nodes. `cluster-slots` ([`slots`]) changes what this
//! server serves, which may have to wait for commands under way: its role, the routes, the keys of lost slots. `slot-moves`
//! ([`moves`]) moves slots as a whole.

mod bus;
mod file;
mod links;
mod moves;
mod slots;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use onrush_cluster::cluster::commands::BUS_PORT_DISTANCE;
use onrush_cluster::cluster::{Cluster, Endpoint, Options};
use onrush_cluster::slots::SlotSet;
use onrush_engine::cluster::facts::Facts;
use onrush_engine::shared::Shared;
use onrush_persist::threads;

use crate::config::Config;
use crate::net::binding::{bind_all_tcp, resolve_all};
use crate::process::server::Server;
use file::NodesFile;

/// The sockets of the bus, bound and listening.
pub struct Bus {
    listeners: Vec<TcpListener>,
    file: NodesFile,
}

/// The port that the bus listens on.
///
/// # Errors
/// There is no such port.
fn bus_port(config: &Config) -> Result<u64, String> {
    let base = if config.tls_cluster { config.tls_port } else { config.port };
    match config.cluster_port {
        0 if base == 0 => Err("No bind address is configured, but it is required for the Cluster bus.".to_owned()),
        0 if base + u64::from(BUS_PORT_DISTANCE) > u64::from(u16::MAX) => Err(format!(
            "Redis port number too high for cluster mode: {base} and {BUS_PORT_DISTANCE} is no port. Set cluster-port."
        )),
        0 => Ok(base + u64::from(BUS_PORT_DISTANCE)),
        port => Ok(port),
    }
}

/// A link to another node is given up if it is not made, or its node takes or says nothing, for the node timeout, but not sooner
/// than after this time.
const LINK_TIMEOUT_MIN: Duration = Duration::from_secs(1);

fn link_timeout(config: &Config) -> Duration {
    Duration::from_millis(config.cluster_node_timeout).max(LINK_TIMEOUT_MIN)
}

/// What the configuration says to a node.
pub fn options(config: &Config) -> Options {
    let announced = |announced: u64, own: u64| if announced == 0 { own } else { announced } as u16;
    Options {
        node_timeout_ms: config.cluster_node_timeout.max(1),
        require_full_coverage: config.cluster_require_full_coverage,
        allow_replica_migration: config.cluster_allow_replica_migration,
        allow_reads_when_down: config.cluster_allow_reads_when_down,
        allow_pubsubshard_when_down: config.cluster_allow_pubsubshard_when_down,
        migration_barrier: config.cluster_migration_barrier as u32,
        replica_validity_factor: config.cluster_replica_validity_factor as u32,
        replica_no_failover: config.cluster_replica_no_failover,
        repl_ping_period_ms: config.repl_ping_replica_period * 1000,
        announce_ip: config.cluster_announce_ip.clone(),
        announce_hostname: config.cluster_announce_hostname.clone(),
        announce_human_nodename: config.cluster_announce_human_nodename.clone(),
        port: announced(config.cluster_announce_port, config.port),
        tls_port: announced(config.cluster_announce_tls_port, config.tls_port),
        bus_port: announced(config.cluster_announce_bus_port, bus_port(config).unwrap_or(0)),
        tls_cluster: config.tls_cluster,
        preferred_endpoint: match config.cluster_preferred_endpoint_type {
            "hostname" => Endpoint::Hostname,
            "unknown-endpoint" => Endpoint::Unknown,
            _ => Endpoint::Ip,
        },
    }
}

impl Bus {
    /// Binds the sockets of the bus and takes the file of nodes, if the server is a node of a cluster.
    ///
    /// # Errors
    /// Why it cannot be one.
    pub fn open(config: &Config) -> Result<Option<Self>, String> {
        if !config.cluster_enabled {
            return Ok(None);
        }
        if !config.replicaof.is_empty() {
            return Err("replicaof directive not allowed in cluster mode".to_owned());
        }
        let port = bus_port(config)?;
        let listeners = bind_all_tcp(&resolve_all(config, port)?, config.tcp_backlog as i32)
            .map_err(|error| format!("Failed listening on port {port} (cluster), aborting: {error}"))?;
        if listeners.is_empty() {
            return Err("No bind address is configured, but it is required for the Cluster bus.".to_owned());
        }
        Ok(Some(Self { listeners, file: NodesFile::take(&config.cluster_config_file)? }))
    }

    /// Begins the node and starts its threads. The links are made when the data is loaded.
    ///
    /// # Errors
    /// The file of nodes is wrong, or the system cannot create a thread.
    pub fn start(self, server: &'static Server) -> Result<(), String> {
        let Some(clustering) = &server.cluster else { return Ok(()) };
        let facts = Facts(server.engine());
        let options = options(&server.host.config.read());
        let seed = crate::process::server::random_u64();
        let cluster = match self.file.read()? {
            Some(conf) => Cluster::restore(options, seed, &conf, facts.now())
                .map_err(|error| format!("Unrecoverable error: corrupted cluster config file: {error}"))?,
            None => Cluster::new(options, seed),
        };
        let over_max = server.host.config.read().cluster_slot_migration_log_max_len;
        clustering.moves.over_max.store(over_max as usize, Relaxed);
        let marks = format!("{}.imports", server.host.config.read().cluster_config_file);
        // It begins once.
        let _ = clustering.moves.marks().set(marks.into());
        let bell = Arc::new(tokio::sync::Notify::new());
        let rung = Arc::clone(&bell);
        clustering.node.begin(cluster, Box::new(move || rung.notify_one()));
        let failed = |error: io::Error| format!("Can't start the threads of the cluster: {error}");
        let slots = slots::Slots::start(server, clustering).map_err(failed)?;
        moves::start(server, clustering).map_err(failed)?;
        let file = Arc::new(self.file);
        let at_end = Arc::clone(&file);
        let end_of_nodes = move || {
            if let Err(error) = at_end.end() {
                tracing::error!("Can't write the file of nodes at the end: {error}");
            }
        };
        // It begins once.
        let _ = server.host.end_of_nodes.set(Box::new(end_of_nodes));
        threads::start("cluster", move || bus::run(server, clustering, self.listeners, file, bell, slots))
            .map(drop)
            .map_err(failed)
    }
}

/// What this node's primary has told of its slots is forgotten: other data comes, and it is told again.
pub fn forget_told(server: &Server) {
    if let Some(clustering) = &server.cluster
        && let Ok(mut state) = clustering.node.lock()
    {
        state.cluster.forget_told();
        drop(state);
        clustering.moves.hide_only(&SlotSet::new());
    }
}

/// Has a node take over changed directives.
pub fn configure(shared: &'static Shared, config: &Config) {
    let Some(clustering) = &shared.cluster else { return };
    clustering.moves.over_max.store(config.cluster_slot_migration_log_max_len as usize, Relaxed);
    let now = Facts(shared).now();
    let are_others = clustering.node.lock().is_ok_and(|mut state| state.cluster.set_options(options(config), now));
    if are_others {
        clustering.node.wake();
    }
}

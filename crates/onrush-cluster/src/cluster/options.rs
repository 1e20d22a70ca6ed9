//! What an operator sets.

/// Which address clients are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Endpoint {
    /// The IP address.
    #[default]
    Ip,
    /// The host name.
    Hostname,
    /// None: clients use the one that they know.
    Unknown,
}

/// The directives of a cluster, with Redis's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// `cluster-node-timeout`: a node that is silent for so long may have failed.
    pub node_timeout_ms: u64,
    /// `cluster-require-full-coverage`: without an owner for each slot the cluster is down.
    pub require_full_coverage: bool,
    /// `cluster-allow-reads-when-down`; for the server's routing alone.
    pub allow_reads_when_down: bool,
    /// `cluster-allow-pubsubshard-when-down`; for the server's routing alone.
    pub allow_pubsubshard_when_down: bool,
    /// `cluster-allow-replica-migration`.
    pub allow_replica_migration: bool,
    /// `cluster-migration-barrier`: replicas that a primary keeps when another one migrates.
    pub migration_barrier: u32,
    /// `cluster-replica-validity-factor`; 0: any data is good enough.
    pub replica_validity_factor: u32,
    /// `cluster-replica-no-failover`.
    pub replica_no_failover: bool,
    /// `repl-ping-replica-period`.
    pub repl_ping_period_ms: u64,
    /// `cluster-announce-ip`; empty: the address that others see.
    pub announce_ip: String,
    /// `cluster-announce-hostname`; empty: none.
    pub announce_hostname: String,
    /// `cluster-announce-human-nodename`; empty: none.
    pub announce_human_nodename: String,
    /// The announced port without TLS; 0: none.
    pub port: u16,
    /// The announced port with TLS; 0: none.
    pub tls_port: u16,
    /// The announced port of the bus.
    pub bus_port: u16,
    /// `tls-cluster`: the first port of an address is the one with TLS.
    pub tls_cluster: bool,
    /// `cluster-preferred-endpoint-type`; for the server's replies alone.
    pub preferred_endpoint: Endpoint,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            node_timeout_ms: 15_000,
            require_full_coverage: true,
            allow_reads_when_down: false,
            allow_pubsubshard_when_down: true,
            allow_replica_migration: true,
            migration_barrier: 1,
            replica_validity_factor: 10,
            replica_no_failover: false,
            repl_ping_period_ms: 10_000,
            announce_ip: String::new(),
            announce_hostname: String::new(),
            announce_human_nodename: String::new(),
            port: 6379,
            tls_port: 0,
            bus_port: 16_379,
            tls_cluster: false,
            preferred_endpoint: Endpoint::Ip,
        }
    }
}

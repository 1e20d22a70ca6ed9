//! Values of directives as typed fields.

use std::fmt;

use onrush_engine::clients::share::Share;
use onrush_engine::messages::events::EventClasses;

use super::limits::OutputLimits;
use super::value::{SavePoint, Value};
use super::{DIRECTIVES, find};

/// Bytes that no log may show.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl std::ops::Deref for Secret {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "(empty)" } else { "(redacted)" })
    }
}

/// Who may use something that can harm the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nobody.
    No,
    /// Everybody.
    Yes,
    /// Connections from this machine.
    Local,
}

impl Access {
    /// Whether a connection may use it; `local`: it comes from this machine.
    pub fn allows(self, local: bool) -> bool {
        match self {
            Self::No => false,
            Self::Yes => true,
            Self::Local => local,
        }
    }
}

/// A field type that a value of the table converts to.
trait FromValue {
    /// The field's value. A table row of another kind is a mistake in this crate, which every test finds.
    fn from_value(value: &Value) -> Self;
}

macro_rules! from_value {
    ($($type:ty: $($pattern:pat => $result:expr),+;)*) => {$(
        impl FromValue for $type {
            fn from_value(value: &Value) -> Self {
                match value {
                    $($pattern => $result,)+
                    other => unreachable!("{other:?} is no {}", stringify!($type)),
                }
            }
        }
    )*};
}

from_value! {
    bool: Value::Bool(value) => *value;
    i64: Value::Integer(n) => *n;
    u64: Value::Integer(n) => *n as u64, Value::Memory(bytes) => *bytes,
        Value::Permissions(mode) => u64::from(*mode);
    usize: Value::Integer(n) => *n as usize;
    Share: Value::Memory(bytes) => Share::Bytes(*bytes), Value::Percent(percent) => Share::Percent(*percent);
    &'static str: Value::Enum(word) => *word;
    Access: Value::Enum("yes") => Access::Yes, Value::Enum("local") => Access::Local, Value::Enum(_) => Access::No;
    String: Value::Text(text) => String::from_utf8_lossy(text).into_owned();
    Secret: Value::Text(text) => Secret(text.clone());
    Vec<&'static str>: Value::EnumSet(words) => words.clone();
    Vec<String>: Value::Addresses(list) =>
        list.iter().map(|address| String::from_utf8_lossy(address).into_owned()).collect();
    Vec<SavePoint>: Value::SavePoints(points) => points.clone();
    OutputLimits: Value::OutputLimits(limits) => *limits;
    EventClasses: Value::EventClasses(classes) => *classes;
    Vec<f64>: Value::Percentiles(list) => list.clone();
}

macro_rules! settings {
    ($($(#[$doc:meta])* $field:ident: $type:ty = $name:literal,)*) => {
        /// The directives the server acts on, as typed fields named after them.
        ///
        /// Counts and bounds are in the directive's unit. The rest of the table is reached by name, through
        /// [`Config::get`](super::Config::get).
        #[derive(Clone, Debug, PartialEq)]
        pub struct Settings {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Settings {
            /// Reads the fields from the values of the table's rows.
            pub(super) fn read(values: &[Value]) -> Self {
                Self { $($field: FromValue::from_value(&values[row_of($name)]),)* }
            }
        }
    };
}

fn row_of(name: &'static str) -> usize {
    match find(name.as_bytes()) {
        Some(index) if DIRECTIVES[index].name == name => index,
        _ => unreachable!("no directive {name}"),
    }
}

settings! {
    /// Addresses to listen on; a leading `-` marks one that need not exist on this machine.
    bind: Vec<String> = "bind",
    /// TCP port; 0 is none.
    port: u64 = "port",
    /// TCP port of the metrics; 0 is none.
    metrics_port: u64 = "metrics-port",
    /// Address of the metrics.
    metrics_bind: String = "metrics-bind",
    /// Connections the kernel may hold for us.
    tcp_backlog: u64 = "tcp-backlog",
    /// Path of the Unix socket; empty is none.
    unixsocket: String = "unixsocket",
    /// Permissions of the Unix socket; 0 leaves them to the umask.
    unixsocketperm: u64 = "unixsocketperm",
    /// Seconds after which an idle client is closed; 0 is never.
    timeout: u64 = "timeout",
    /// Seconds between TCP keepalive probes; 0 is none.
    tcp_keepalive: u64 = "tcp-keepalive",
    /// Whether only this machine may connect while no password is set.
    protected_mode: bool = "protected-mode",
    /// Most clients at a time.
    maxclients: u64 = "maxclients",
    /// Most bytes that a connection may have sent and that are not executed yet.
    client_query_buffer_limit: u64 = "client-query-buffer-limit",
    /// Bounds on unread replies, after which a client is closed.
    client_output_buffer_limit: OutputLimits = "client-output-buffer-limit",
    /// Most bytes in one bulk of a request.
    proto_max_bulk_len: u64 = "proto-max-bulk-len",
    /// Bytes of unread replies above which a connection's commands wait.
    pipeline_reply_limit: u64 = "pipeline-reply-limit",
    /// Microseconds a connection may execute before it yields to the others.
    pipeline_slice_us: u64 = "pipeline-slice-us",
    /// Whether connections gather on as few of the workers as hold the load.
    gather_connections: bool = "gather-connections",
    /// How long a worker polls before it sleeps, in microseconds.
    busy_poll_us: u64 = "busy-poll-us",
    /// Threads that execute commands.
    workers: usize = "workers",
    /// Whether to go to the background at start.
    daemonize: bool = "daemonize",
    /// `no`, `auto`, `systemd` or `upstart`: who is told when the server is ready.
    supervised: &'static str = "supervised",
    /// Whether the log also goes to the system's log.
    syslog_enabled: bool = "syslog-enabled",
    /// The server's name there.
    syslog_ident: String = "syslog-ident",
    /// `user`, or `local0` to `local7`: the part of the system that it counts as there.
    syslog_facility: &'static str = "syslog-facility",
    /// File to write the process id to; empty is none.
    pidfile: String = "pidfile",
    /// `debug`, `verbose`, `notice` or `warning`.
    loglevel: &'static str = "loglevel",
    /// File to log to; empty is standard output.
    logfile: String = "logfile",
    /// Databases there are.
    databases: usize = "databases",
    /// Rounds of background work per second.
    hz: u64 = "hz",
    /// From 1 to 10: how much time expiry in the background may take.
    active_expire_effort: u64 = "active-expire-effort",
    /// Whether evicted values are freed on another thread.
    lazyfree_lazy_eviction: bool = "lazyfree-lazy-eviction",
    /// Whether expired values are.
    lazyfree_lazy_expire: bool = "lazyfree-lazy-expire",
    /// Whether values replaced by a command are.
    lazyfree_lazy_server_del: bool = "lazyfree-lazy-server-del",
    /// Whether DEL frees like UNLINK.
    lazyfree_lazy_user_del: bool = "lazyfree-lazy-user-del",
    /// Whether FLUSHALL and FLUSHDB without ASYNC or SYNC are asynchronous.
    lazyfree_lazy_user_flush: bool = "lazyfree-lazy-user-flush",
    /// Milliseconds after which a script that runs lets others be told that the server is busy.
    busy_reply_threshold: u64 = "busy-reply-threshold",
    /// Password of the default user; empty is none.
    requirepass: Secret = "requirepass",
    /// The file with all users; empty is none.
    aclfile: String = "aclfile",
    /// `allchannels` or `resetchannels`: what new users may subscribe to.
    acl_pubsub_default: &'static str = "acl-pubsub-default",
    /// Memory that all clients may hold together.
    maxmemory_clients: Share = "maxmemory-clients",
    /// Keys that clients are known to have read, at most; 0 is no limit.
    tracking_table_max_keys: u64 = "tracking-table-max-keys",
    /// Entries ACL LOG keeps.
    acllog_max_len: u64 = "acllog-max-len",
    /// Who may change directives that say where files are.
    enable_protected_configs: Access = "enable-protected-configs",
    /// Who may use DEBUG.
    enable_debug_command: Access = "enable-debug-command",
    /// Bytes the data may take; 0 is no limit.
    maxmemory: u64 = "maxmemory",
    /// What to evict above `maxmemory`.
    maxmemory_policy: &'static str = "maxmemory-policy",
    /// Keys looked at for each one evicted.
    maxmemory_samples: u64 = "maxmemory-samples",
    /// From 0 to 100: how long a command may evict.
    maxmemory_eviction_tenacity: u64 = "maxmemory-eviction-tenacity",
    /// How many accesses it takes to raise an LFU counter.
    lfu_log_factor: u64 = "lfu-log-factor",
    /// Minutes without access after which an LFU counter falls by one.
    lfu_decay_time: u64 = "lfu-decay-time",
    /// Most fields of a hash in a listpack.
    hash_max_listpack_entries: u64 = "hash-max-listpack-entries",
    /// Most bytes of a field or value of a hash in a listpack.
    hash_max_listpack_value: u64 = "hash-max-listpack-value",
    /// Most elements of a list's node, or, if negative, -1 to -5 for 4 to 64 KB.
    list_max_listpack_size: i64 = "list-max-listpack-size",
    /// Most members of a set in an intset.
    set_max_intset_entries: u64 = "set-max-intset-entries",
    /// Most members of a set in a listpack.
    set_max_listpack_entries: u64 = "set-max-listpack-entries",
    /// Most bytes of a member of a set in a listpack.
    set_max_listpack_value: u64 = "set-max-listpack-value",
    /// Most members of a sorted set in a listpack.
    zset_max_listpack_entries: u64 = "zset-max-listpack-entries",
    /// Most bytes of a member of a sorted set in a listpack.
    zset_max_listpack_value: u64 = "zset-max-listpack-value",
    /// Most bytes of a sparse HyperLogLog.
    hll_sparse_max_bytes: u64 = "hll-sparse-max-bytes",
    /// Most bytes of a stream's node; 0 is no limit.
    stream_node_max_bytes: u64 = "stream-node-max-bytes",
    /// Most entries of a stream's node; 0 is no limit.
    stream_node_max_entries: u64 = "stream-node-max-entries",
    /// Microseconds from which a command is logged as slow; -1 is never.
    slowlog_log_slower_than: i64 = "slowlog-log-slower-than",
    /// Entries SLOWLOG keeps.
    slowlog_max_len: u64 = "slowlog-max-len",
    /// Milliseconds from which LATENCY watches an event; 0 is never.
    latency_monitor_threshold: u64 = "latency-monitor-threshold",
    /// Whether each command has a histogram of its latencies.
    latency_tracking: bool = "latency-tracking",
    /// Percentiles INFO shows of them.
    latency_tracking_info_percentiles: Vec<f64> = "latency-tracking-info-percentiles",
    /// Which keyspace events are published.
    notify_keyspace_events: EventClasses = "notify-keyspace-events",
    /// Working directory, absolute.
    dir: String = "dir",
    /// File name of the snapshot.
    dbfilename: String = "dbfilename",
    /// Whether strings are compressed in snapshots and payloads.
    rdbcompression: bool = "rdbcompression",
    /// When to take snapshots.
    save: Vec<SavePoint> = "save",
    /// Seconds that the end waits for replicas.
    shutdown_timeout: u64 = "shutdown-timeout",
    /// What SIGINT does beyond ending the server.
    shutdown_on_sigint: Vec<&'static str> = "shutdown-on-sigint",
    /// What SIGTERM does beyond that.
    shutdown_on_sigterm: Vec<&'static str> = "shutdown-on-sigterm",
    /// Whether there is an append-only file.
    appendonly: bool = "appendonly",
    /// What the names of its files begin with.
    appendfilename: String = "appendfilename",
    /// The folder of its files, in `dir`.
    appenddirname: String = "appenddirname",
    /// When it is synced.
    appendfsync: &'static str = "appendfsync",
    /// How much it may grow before it is rewritten, in percent; 0 is never.
    auto_aof_rewrite_percentage: u64 = "auto-aof-rewrite-percentage",
    /// The least size from which it is rewritten, in bytes.
    auto_aof_rewrite_min_size: u64 = "auto-aof-rewrite-min-size",
    /// Whether a file whose last command is incomplete is loaded without that command.
    aof_load_truncated: bool = "aof-load-truncated",
    /// Whether its base is an RDB file.
    aof_use_rdb_preamble: bool = "aof-use-rdb-preamble",
    /// Whether timestamps stand between its commands.
    aof_timestamp_enabled: bool = "aof-timestamp-enabled",
    /// Whether its base is synced piece by piece.
    aof_rewrite_incremental_fsync: bool = "aof-rewrite-incremental-fsync",
    /// Whether the server refuses writes after a snapshot has failed.
    stop_writes_on_bgsave_error: bool = "stop-writes-on-bgsave-error",
    /// Whether snapshots have a checksum that loading checks.
    rdbchecksum: bool = "rdbchecksum",
    /// Whether a snapshot is synced piece by piece.
    rdb_save_incremental_fsync: bool = "rdb-save-incremental-fsync",
    /// The server that this one is a replica of, as `host port`; empty: none.
    replicaof: String = "replicaof",
    /// Password for the primary.
    masterauth: Secret = "masterauth",
    /// User for the primary; empty: the default one.
    masteruser: String = "masteruser",
    /// Whether clients of a replica may not write.
    replica_read_only: bool = "replica-read-only",
    /// Whether a replica serves its data while the link to its primary is down.
    replica_serve_stale_data: bool = "replica-serve-stale-data",
    /// Whether a replica leaves eviction to its primary.
    replica_ignore_maxmemory: bool = "replica-ignore-maxmemory",
    /// Whether Sentinels are to tell clients of this replica.
    replica_announced: bool = "replica-announced",
    /// Which replica is to become the primary: the smallest number first; 0: never this one.
    replica_priority: u64 = "replica-priority",
    /// The address that this replica tells its primary; empty: the one it connects from.
    replica_announce_ip: String = "replica-announce-ip",
    /// The port that this replica tells its primary; 0: the one it listens on.
    replica_announce_port: u64 = "replica-announce-port",
    /// Replicas that must have what a connection wrote before its replies go.
    durability_replicas: u64 = "durability-replicas",
    /// Milliseconds for which replies wait for them; 0: for ever.
    durability_replicas_timeout: u64 = "durability-replicas-timeout",
    /// Good replicas without which writes are refused.
    min_replicas_to_write: u64 = "min-replicas-to-write",
    /// Seconds of silence after which a replica is no good one; 0: `min-replicas-to-write` means nothing.
    min_replicas_max_lag: u64 = "min-replicas-max-lag",
    /// Bytes of the stream that are kept for replicas.
    repl_backlog_size: u64 = "repl-backlog-size",
    /// Seconds without a replica after which nothing of the stream is kept; 0: never.
    repl_backlog_ttl: u64 = "repl-backlog-ttl",
    /// Seconds between two PINGs of the stream.
    repl_ping_replica_period: u64 = "repl-ping-replica-period",
    /// Seconds of silence after which a link between primary and replica is given up.
    repl_timeout: u64 = "repl-timeout",
    /// Port for TLS; 0 listens on none.
    tls_port: u64 = "tls-port",
    /// File of the server's certificate.
    tls_cert_file: String = "tls-cert-file",
    /// File of its key.
    tls_key_file: String = "tls-key-file",
    /// Password of that file.
    tls_key_file_pass: Secret = "tls-key-file-pass",
    /// File of the certificate that the server shows to other servers; empty: the same one.
    tls_client_cert_file: String = "tls-client-cert-file",
    /// File of its key.
    tls_client_key_file: String = "tls-client-key-file",
    /// Password of that file.
    tls_client_key_file_pass: Secret = "tls-client-key-file-pass",
    /// File of the authorities that may vouch for clients and other servers.
    tls_ca_cert_file: String = "tls-ca-cert-file",
    /// Directory of such files.
    tls_ca_cert_dir: String = "tls-ca-cert-dir",
    /// Whether clients have to show a certificate: `yes`, `no` or `optional`.
    tls_auth_clients: &'static str = "tls-auth-clients",
    /// Whether links of replication are encrypted.
    tls_replication: bool = "tls-replication",
    /// Whether the server is a node of a cluster.
    cluster_enabled: bool = "cluster-enabled",
    /// The file in which it keeps what it knows of the cluster.
    cluster_config_file: String = "cluster-config-file",
    /// The port of the bus; 0: the one of clients and 10,000.
    cluster_port: u64 = "cluster-port",
    /// Milliseconds of silence after which a node is taken for failed.
    cluster_node_timeout: u64 = "cluster-node-timeout",
    /// How many of these times a replica's data may be old for it to become a primary; 0: as old as it is.
    cluster_replica_validity_factor: u64 = "cluster-replica-validity-factor",
    /// Whether this replica never becomes a primary by itself.
    cluster_replica_no_failover: bool = "cluster-replica-no-failover",
    /// Whether a replica goes to a primary that has none, and a primary that has lost its slots becomes a replica.
    cluster_allow_replica_migration: bool = "cluster-allow-replica-migration",
    /// Replicas that a primary must keep.
    cluster_migration_barrier: u64 = "cluster-migration-barrier",
    /// Whether the cluster is down while a slot is nobody's.
    cluster_require_full_coverage: bool = "cluster-require-full-coverage",
    /// Whether clients may read while it is down.
    cluster_allow_reads_when_down: bool = "cluster-allow-reads-when-down",
    /// Whether clients may use sharded channels while it is down.
    cluster_allow_pubsubshard_when_down: bool = "cluster-allow-pubsubshard-when-down",
    /// Whether the node counts what the commands of each slot cost.
    cluster_slot_stats_enabled: bool = "cluster-slot-stats-enabled",
    /// Bytes that may wait to be sent to another node; 0: no limit.
    cluster_link_sendbuf_limit: u64 = "cluster-link-sendbuf-limit",
    /// Migrations of slots that are over and stay in the list.
    cluster_slot_migration_log_max_len: u64 = "cluster-slot-migration-log-max-len",
    /// The address that other nodes are told; empty: they see it.
    cluster_announce_ip: String = "cluster-announce-ip",
    /// The port for clients that they are told, if not 0.
    cluster_announce_port: u64 = "cluster-announce-port",
    /// The port for TLS that they are told, if not 0.
    cluster_announce_tls_port: u64 = "cluster-announce-tls-port",
    /// The port of the bus that they are told, if not 0.
    cluster_announce_bus_port: u64 = "cluster-announce-bus-port",
    /// The name of this host that they are told.
    cluster_announce_hostname: String = "cluster-announce-hostname",
    /// The name of this node that logs show.
    cluster_announce_human_nodename: String = "cluster-announce-human-nodename",
    /// Which name of a node clients are told.
    cluster_preferred_endpoint_type: &'static str = "cluster-preferred-endpoint-type",
    /// Whether links of the cluster are encrypted.
    tls_cluster: bool = "tls-cluster",
    /// Versions of TLS; empty: all.
    tls_protocols: String = "tls-protocols",
    /// Suites of TLS 1.2; empty: all.
    tls_ciphers: String = "tls-ciphers",
    /// Suites of TLS 1.3; empty: all.
    tls_ciphersuites: String = "tls-ciphersuites",
    /// Whether the server's order of suites decides, and not the client's.
    tls_prefer_server_ciphers: bool = "tls-prefer-server-ciphers",
    /// Whether clients can resume sessions.
    tls_session_caching: bool = "tls-session-caching",
    /// Most sessions that can be resumed; 0: no limit of the operator's.
    tls_session_cache_size: u64 = "tls-session-cache-size",
    /// Seconds for which a session can be resumed.
    tls_session_cache_timeout: u64 = "tls-session-cache-timeout",
}

//! The table of directives: every name Redis 7.4 and 8.2 know, and our own.
//!
//! Ranges and defaults are Redis's, apart from `bind`, whose default here is the loopback interface. A row that ends
//! in `no_effect` says what the server does not do; `docs/configuration.md` lists those rows. All others begin with the
//! field of [`Settings`] that has their value. Its comment says what the directive sets, there and in
//! `contrib/onrush.conf`, too.

use onrush_engine::clients::share::Share;
use onrush_engine::messages::events::EventClasses;
use onrush_engine::settings::OutputLimits;

use super::directive::Kind::{
    Addresses, EnumSet, MemoryOrPercent, OomScores, Percentiles, Permissions, Primary, SavePoints, Text,
};
use super::directive::TextRule::{
    Directory, FileName, FileNameNotEmpty, FolderName, Hostname, NodeAddress, NodeName, TitleTemplate,
};
use super::directive::{Directive, Kind, boolean, integer, memory, one_of, special, text};
use super::find;
use super::settings::{Access, FromValue, Secret};
use super::value::{SavePoint, Value};

/// Most databases. One that was never used takes about 150 bytes, and each command about all of them passes over it.
const DATABASES_MAX: i64 = 1_000_000;

const I32_MIN: i64 = i32::MIN as i64;
const I32_MAX: i64 = i32::MAX as i64;
const U32_MAX: i64 = u32::MAX as i64;
const I64_MAX: i64 = i64::MAX;
const BYTES_MAX: u64 = i64::MAX as u64;

/// Names of `maxmemory-policy`.
const POLICIES: &[&str] = &[
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "volatile-lrm",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "allkeys-lrm",
    "noeviction",
];
const FACILITIES: &[&str] = &["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"];
const SHUTDOWN: &[&str] = &["default", "save", "nosave", "now", "force"];
const WHO: &[&str] = &["no", "yes", "local"];
const OUTPUT_LIMITS: &str = "normal 0 0 0 replica 256mb 64mb 60 pubsub 32mb 8mb 60";
const TLS_AUTH: &[&str] = &["no", "yes", "optional"];

const NO_COMPRESSION: &str = "nodes of lists are not compressed";
const NO_CRASH_REPORT: &str = "there is no crash report, and the watchdog is always on";
const NO_CYCLES: &str = "connections are accepted as they come, without a limit for each cycle";
const NO_DEFRAG: &str = "there is no active defragmentation";
const NO_IO_THREADS: &str = "`workers` sets how many threads read, execute and write";
const NO_LOCALE: &str = "texts are compared byte by byte, so any name is taken";
const NO_MODULES: &str = "there are no modules";
const NO_OS: &str = "left to the service manager";
const NO_REHASH: &str = "the table of a shard is small and grows at once";
const ALWAYS_LAZY: &str = "data that a full sync replaces is always freed in the background";
const SPOOLED: &str = "where there is data, that of a full sync is checked on the disk before it replaces it; otherwise it is loaded as it comes";
const ALWAYS_SPOOLED: &str = "the data for replicas goes through a file without a name, and to them as it is made";
const NO_DELAY: &str = "replicas that come later join the data that is on its way";
const ONE_CONNECTION: &str = "the data and the stream come over one connection";
const NO_TITLE: &str = "the process keeps its title";

/// Makes [`DIRECTIVES`] and [`Settings`] of rows such as `/// What it sets.`, `field: type = directive`; a directive without
/// effect has no field.
macro_rules! directives {
    ($(
        $(#[doc = $doc:literal] $(#[doc = $more:literal])* $field:ident: $type:ty =)?
        $kind:ident($name:literal $($args:tt)*)$(.$rule:ident($($of_rule:tt)*))*,
    )*) => {
        /// All directives.
        pub static DIRECTIVES: &[Directive] = &[$($kind($name $($args)*)$(.$rule($($of_rule)*))*,)*];

        /// What each directive with an effect sets, in words.
        #[cfg(test)]
        pub(super) const SETS: &[(&str, &str)] = &[$($(($name, concat!($doc $(, $more)*)),)?)*];

        /// The directives the server acts on, as typed fields named after them.
        ///
        /// Counts and bounds are in the directive's unit. The rest of the table is reached by name, through
        /// [`Config::get`](super::Config::get).
        #[derive(Clone, Debug, PartialEq)]
        pub struct Settings {
            $($(#[doc = $doc] $(#[doc = $more])* pub $field: $type,)?)*
        }

        impl Settings {
            /// Reads the fields from the values of the table's rows.
            pub(super) fn read(values: &[Value]) -> Self {
                Self { $($($field: FromValue::from_value(&values[row_of($name)]),)?)* }
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

directives! {
    // Network.
    /// Addresses to listen on. One with a `-` before it may be missing from the machine.
    bind: Vec<String> = special("bind", Addresses, "127.0.0.1 -::1").apply(),
    text("bind-source-addr", "").no_effect("the system chooses it"),
    /// TCP port; 0 listens on none.
    port: u64 = integer("port", 0, 65535, "6379").apply(),
    /// Connections that may wait to be accepted.
    tcp_backlog: u64 = integer("tcp-backlog", 0, I32_MAX, "511").immutable(),
    /// Path of a Unix socket to listen on as well.
    unixsocket: String = text("unixsocket", "").immutable(),
    /// Permissions of that socket, in octal; 0 leaves them as the system makes them.
    unixsocketperm: u64 = special("unixsocketperm", Permissions, "0").immutable(),
    /// Seconds after which an idle client is disconnected; 0 never does.
    timeout: u64 = integer("timeout", 0, I32_MAX, "0"),
    /// Seconds between the system's probes of silent clients; 0 sends none.
    tcp_keepalive: u64 = integer("tcp-keepalive", 0, I32_MAX, "300"),
    /// Without a password, only clients of the same machine are served.
    protected_mode: bool = boolean("protected-mode", "yes"),
    integer("socket-mark-id", 0, U32_MAX, "0").unsigned().immutable().no_effect(NO_OS),
    integer("max-new-connections-per-cycle", 1, 1000, "10").unsigned().no_effect(NO_CYCLES),
    integer("max-new-tls-connections-per-cycle", 1, 1000, "1").unsigned().no_effect(NO_CYCLES),
    // Clients and pipelines.
    /// Connections at the same time.
    maxclients: u64 = integer("maxclients", 1, U32_MAX, "10000").unsigned().apply(),
    /// Memory of all clients together; beyond it the largest are disconnected. 0 is no limit.
    maxmemory_clients: Share = special("maxmemory-clients", MemoryOrPercent, "0"),
    /// Bytes of commands of one connection that wait; beyond it is closed. More than 2 GB means 2 GB.
    client_query_buffer_limit: u64 = memory("client-query-buffer-limit", 1 << 20, BYTES_MAX, "1gb").unsigned(),
    /// For each class of clients: bytes of unread replies and messages at which it is closed, at once and after some
    /// seconds.
    client_output_buffer_limit: OutputLimits = special("client-output-buffer-limit", Kind::OutputLimits, OUTPUT_LIMITS),
    /// Bytes of the largest argument; more than 2 GB means 2 GB.
    proto_max_bulk_len: u64 = memory("proto-max-bulk-len", 1 << 20, BYTES_MAX, "512mb"),
    /// Ours: bytes of unread replies above which a connection's commands are read but not executed.
    pipeline_reply_limit: u64 = memory("pipeline-reply-limit", 16 << 10, BYTES_MAX, "1mb"),
    /// Ours: microseconds a connection may execute before the others of its thread have their turn.
    pipeline_slice_us: u64 = integer("pipeline-slice-us", 50, 1_000_000, "1000"),
    /// Keys that are remembered for client-side caching; 0 is no limit.
    tracking_table_max_keys: u64 = integer("tracking-table-max-keys", 0, I64_MAX, "1000000").unsigned(),
    // Process.
    /// Ours: threads that read, execute and write; by default one for each core.
    workers: usize = integer("workers", 1, 1024, "").immutable(),
    /// Ours: TCP port of the metrics for Prometheus, `/metrics` over HTTP; 0: none.
    metrics_port: u64 = integer("metrics-port", 0, 65535, "0").immutable(),
    /// Ours: address that the metrics are served at.
    metrics_bind: String = text("metrics-bind", "127.0.0.1").immutable(),
    /// Ours: connections gather on as few workers as hold the load. `no` spreads them over all.
    gather_connections: bool = boolean("gather-connections", "yes"),
    /// Ours: microseconds a worker goes on asking the system for events before it sleeps, where that pays; 0: none.
    busy_poll_us: u64 = integer("busy-poll-us", 0, 1_000, "20"),
    /// Goes to the background.
    daemonize: bool = boolean("daemonize", "no").immutable(),
    /// Tells systemd when the server is ready and when it ends; `auto`: if systemd has started it. `upstart` is told
    /// nothing.
    supervised: &'static str = one_of("supervised", &["upstart", "systemd", "auto", "no"], "no").immutable(),
    /// File that gets the process's number.
    pidfile: String = text("pidfile", "").immutable(),
    /// How much is logged.
    loglevel: &'static str =
        one_of("loglevel", &["debug", "verbose", "notice", "warning", "nothing"], "notice").apply(),
    /// File of the log; empty is standard output.
    logfile: String = text("logfile", "").immutable(),
    /// The log also goes to the system's log.
    syslog_enabled: bool = boolean("syslog-enabled", "no").immutable(),
    /// The server's name there.
    syslog_ident: String = text("syslog-ident", "redis").immutable(),
    /// The part of the system that it counts as there.
    syslog_facility: &'static str = one_of("syslog-facility", FACILITIES, "local0").immutable(),
    boolean("crash-log-enabled", "yes").no_effect(NO_CRASH_REPORT),
    boolean("crash-memcheck-enabled", "yes").no_effect(NO_CRASH_REPORT),
    boolean("use-exit-on-panic", "no").hidden().no_effect(NO_CRASH_REPORT),
    boolean("hide-user-data-from-log", "no").no_effect(NO_CRASH_REPORT),
    integer("watchdog-period", 0, I32_MAX, "0").hidden().no_effect(NO_CRASH_REPORT),
    boolean("always-show-logo", "no").immutable().no_effect("there is no logo"),
    boolean("set-proc-title", "yes").immutable().no_effect(NO_TITLE),
    special("proc-title-template", Text(TitleTemplate), "\"{title} {listen-addr} {server-mode}\"").no_effect(NO_TITLE),
    text("ignore-warnings", "").no_effect("there is no warning that it could silence"),
    text("locale-collate", "").no_effect(NO_LOCALE),
    boolean("disable-thp", "yes").immutable().no_effect(NO_OS),
    one_of("oom-score-adj", &["no", "yes", "relative", "absolute"], "no").no_effect(NO_OS),
    special("oom-score-adj-values", OomScores, "0 200 800").no_effect(NO_OS),
    text("server-cpulist", "").alias("server_cpulist").immutable().no_effect(NO_OS),
    text("bio-cpulist", "").alias("bio_cpulist").immutable().no_effect(NO_OS),
    text("aof-rewrite-cpulist", "").alias("aof_rewrite_cpulist").immutable().no_effect(NO_OS),
    text("bgsave-cpulist", "").alias("bgsave_cpulist").immutable().no_effect(NO_OS),
    integer("io-threads", 1, 128, "1").immutable().no_effect(NO_IO_THREADS),
    boolean("io-threads-do-reads", "no").immutable().no_effect(NO_IO_THREADS),
    /// Seconds that the end waits, with writes held back, until replicas have all; 0: none. SHUTDOWN NOW does not wait.
    shutdown_timeout: u64 = integer("shutdown-timeout", 0, I32_MAX, "10"),
    /// What SIGINT does.
    shutdown_on_sigint: Vec<&'static str> = special("shutdown-on-sigint", EnumSet(SHUTDOWN), "default"),
    /// What SIGTERM does.
    shutdown_on_sigterm: Vec<&'static str> = special("shutdown-on-sigterm", EnumSet(SHUTDOWN), "default"),
    boolean("jemalloc-bg-thread", "yes").no_effect("the allocator needs no thread for that"),
    // Databases, background work and time.
    /// Number of databases.
    databases: usize = integer("databases", 1, DATABASES_MAX, "16").immutable(),
    /// How many times a second background work is done.
    hz: u64 = integer("hz", 0, I32_MAX, "10").clamped(1, 500).apply(),
    boolean("dynamic-hz", "yes").no_effect("`hz` alone sets the pace of background work"),
    /// How hard expired keys are searched for.
    active_expire_effort: u64 = integer("active-expire-effort", 1, 10, "1"),
    boolean("activerehashing", "yes").no_effect(NO_REHASH),
    /// Frees evicted values in the background.
    lazyfree_lazy_eviction: bool = boolean("lazyfree-lazy-eviction", "no"),
    /// Frees expired values in the background.
    lazyfree_lazy_expire: bool = boolean("lazyfree-lazy-expire", "no"),
    /// Frees values that other commands replace in the background.
    lazyfree_lazy_server_del: bool = boolean("lazyfree-lazy-server-del", "no"),
    /// DEL frees like UNLINK.
    lazyfree_lazy_user_del: bool = boolean("lazyfree-lazy-user-del", "no"),
    /// FLUSHALL and FLUSHDB free in the background unless told otherwise.
    lazyfree_lazy_user_flush: bool = boolean("lazyfree-lazy-user-flush", "no"),
    boolean("activedefrag", "no").no_effect(NO_DEFRAG),
    memory("active-defrag-ignore-bytes", 1, BYTES_MAX, "100mb").no_effect(NO_DEFRAG),
    integer("active-defrag-threshold-lower", 0, 1000, "10").no_effect(NO_DEFRAG),
    integer("active-defrag-threshold-upper", 0, 1000, "100").no_effect(NO_DEFRAG),
    integer("active-defrag-cycle-min", 1, 99, "1").no_effect(NO_DEFRAG),
    integer("active-defrag-cycle-max", 1, 99, "25").no_effect(NO_DEFRAG),
    integer("active-defrag-max-scan-fields", 1, I64_MAX, "1000").no_effect(NO_DEFRAG),
    /// Milliseconds after which a script counts as busy and others are answered BUSY.
    busy_reply_threshold: u64 = integer("busy-reply-threshold", 0, I64_MAX, "5000").alias("lua-time-limit"),
    boolean("vset-force-single-threaded-execution", "no").no_effect("there are no vector sets"),
    boolean("lua-enable-deprecated-api", "no")
        .hidden()
        .immutable()
        .no_effect("functions that Lua 5.1 deprecates do not exist"),
    // Security.
    /// Password of the default user.
    requirepass: Secret = text("requirepass", "").sensitive().apply(),
    /// File with all users; not together with lines of `user`.
    aclfile: String = text("aclfile", "").immutable(),
    /// Whether new users may hear all channels.
    acl_pubsub_default: &'static str = one_of("acl-pubsub-default", &["allchannels", "resetchannels"], "resetchannels"),
    /// Entries of ACL LOG.
    acllog_max_len: u64 = integer("acllog-max-len", 0, I64_MAX, "128"),
    /// Who may change `dir` and `dbfilename` at runtime.
    enable_protected_configs: Access = one_of("enable-protected-configs", WHO, "no").immutable(),
    /// Who may use DEBUG.
    enable_debug_command: Access = one_of("enable-debug-command", WHO, "no").immutable(),
    one_of("enable-module-command", WHO, "no").immutable().no_effect(NO_MODULES),
    // Memory and eviction.
    /// Bytes of memory at which keys are evicted; 0 is no limit.
    maxmemory: u64 = memory("maxmemory", 0, u64::MAX, "0").apply(),
    /// Which keys are evicted.
    maxmemory_policy: &'static str = one_of("maxmemory-policy", POLICIES, "noeviction"),
    /// How strict the choice of the victims is.
    maxmemory_samples: u64 = integer("maxmemory-samples", 1, I32_MAX, "5"),
    /// How much time eviction takes; 100 is until it is done.
    maxmemory_eviction_tenacity: u64 = integer("maxmemory-eviction-tenacity", 0, 100, "10"),
    /// How slowly counters of LFU policies rise.
    lfu_log_factor: u64 = integer("lfu-log-factor", 0, I32_MAX, "10"),
    /// Minutes in which such a counter falls by one.
    lfu_decay_time: u64 = integer("lfu-decay-time", 0, I32_MAX, "1"),
    // Thresholds of encodings.
    /// Fields of the largest hash that is kept packed.
    hash_max_listpack_entries: u64 =
        integer("hash-max-listpack-entries", 0, I64_MAX, "512").unsigned().alias("hash-max-ziplist-entries"),
    /// Bytes of the longest field or value in one.
    hash_max_listpack_value: u64 =
        memory("hash-max-listpack-value", 0, BYTES_MAX, "64").alias("hash-max-ziplist-value"),
    /// Size of the largest list that is kept packed: elements, or from -1 to -5 for 4 to 64 KB.
    list_max_listpack_size: i64 =
        integer("list-max-listpack-size", I32_MIN, I32_MAX, "-2").alias("list-max-ziplist-size"),
    integer("list-compress-depth", 0, I32_MAX, "0").no_effect(NO_COMPRESSION),
    /// Members of the largest set of integers that is kept packed.
    set_max_intset_entries: u64 = integer("set-max-intset-entries", 0, I64_MAX, "512").unsigned(),
    /// Members of the largest other set that is kept packed.
    set_max_listpack_entries: u64 = integer("set-max-listpack-entries", 0, I64_MAX, "128").unsigned(),
    /// Bytes of the longest member in one.
    set_max_listpack_value: u64 = integer("set-max-listpack-value", 0, I64_MAX, "64").unsigned(),
    /// Members of the largest sorted set that is kept packed.
    zset_max_listpack_entries: u64 =
        integer("zset-max-listpack-entries", 0, I64_MAX, "128").unsigned().alias("zset-max-ziplist-entries"),
    /// Bytes of the longest member in one.
    zset_max_listpack_value: u64 =
        memory("zset-max-listpack-value", 0, BYTES_MAX, "64").alias("zset-max-ziplist-value"),
    /// Bytes of the largest sparse HyperLogLog.
    hll_sparse_max_bytes: u64 = memory("hll-sparse-max-bytes", 0, BYTES_MAX, "3000"),
    /// Bytes of a node of a stream; 0 is no limit.
    stream_node_max_bytes: u64 = memory("stream-node-max-bytes", 0, BYTES_MAX, "4096"),
    /// Entries of a node of a stream; 0 is no limit.
    stream_node_max_entries: u64 = integer("stream-node-max-entries", 0, I64_MAX, "100"),
    // What is watched.
    /// Microseconds from which a command is in the slow log; -1 logs none.
    slowlog_log_slower_than: i64 = integer("slowlog-log-slower-than", -1, I64_MAX, "10000"),
    /// Entries of the slow log.
    slowlog_max_len: u64 = integer("slowlog-max-len", 0, I64_MAX, "128").apply(),
    /// Milliseconds from which LATENCY remembers an event; 0 is off.
    latency_monitor_threshold: u64 = integer("latency-monitor-threshold", 0, I64_MAX, "0"),
    /// Keeps histograms of the times of commands.
    latency_tracking: bool = boolean("latency-tracking", "yes").apply(),
    /// Percentiles that INFO `latencystats` shows.
    latency_tracking_info_percentiles: Vec<f64> =
        special("latency-tracking-info-percentiles", Percentiles, "50 99 99.9"),
    /// Classes of keyspace events that are published.
    notify_keyspace_events: EventClasses = special("notify-keyspace-events", Kind::EventClasses, "\"\"").apply(),
    // Snapshots.
    /// Working directory, where files are saved.
    dir: String = special("dir", Text(Directory), "").protected().apply(),
    /// Name of the snapshot.
    dbfilename: String = special("dbfilename", Text(FileName), "dump.rdb").protected(),
    /// When a snapshot is taken: pairs of seconds and changes; empty is never.
    save: Vec<SavePoint> = special("save", SavePoints, "3600 1 300 100 60 10000"),
    /// Refuses writes after a snapshot has failed.
    stop_writes_on_bgsave_error: bool = boolean("stop-writes-on-bgsave-error", "yes"),
    /// Compresses strings in snapshots and payloads of DUMP.
    rdbcompression: bool = boolean("rdbcompression", "yes"),
    /// Writes and checks checksums of snapshots.
    rdbchecksum: bool = boolean("rdbchecksum", "yes").immutable(),
    boolean("rdb-del-sync-files", "no").no_effect("files of synchronizations have no names"),
    /// Syncs a snapshot while it is written.
    rdb_save_incremental_fsync: bool = boolean("rdb-save-incremental-fsync", "yes"),
    integer("rdb-key-save-delay", I32_MIN, I32_MAX, "0").hidden().no_effect("only Redis's own tests use it"),
    integer("key-load-delay", I32_MIN, I32_MAX, "0").hidden().no_effect("only Redis's own tests use it"),
    integer("loading-process-events-interval-bytes", 1024, I32_MAX, "2097152")
        .hidden()
        .no_effect("clients get replies all the time while data is loaded"),
    one_of("sanitize-dump-payload", &["no", "yes", "clients"], "no")
        .no_effect("payloads of RESTORE are always checked in full"),
    // Append-only file.
    /// Keeps an append-only file.
    appendonly: bool = boolean("appendonly", "no"),
    /// Name of the files of the append-only file.
    appendfilename: String = special("appendfilename", Text(FileNameNotEmpty), "appendonly.aof").immutable(),
    /// Directory that holds them.
    appenddirname: String = special("appenddirname", Text(FolderName), "appendonlydir").immutable(),
    /// When the append-only file is synced: see [durability](durability.md).
    appendfsync: &'static str = one_of("appendfsync", &["everysec", "always", "no"], "everysec"),
    boolean("no-appendfsync-on-rewrite", "no").no_effect("a rewrite does not keep the file from being synced"),
    /// Growth since the last rewrite at which the file is rewritten; 0 is never.
    auto_aof_rewrite_percentage: u64 = integer("auto-aof-rewrite-percentage", 0, I32_MAX, "100"),
    /// Bytes below which it is not rewritten by itself.
    auto_aof_rewrite_min_size: u64 = memory("auto-aof-rewrite-min-size", 0, BYTES_MAX, "64mb"),
    /// Loads a file whose end was cut by a crash, without that end.
    aof_load_truncated: bool = boolean("aof-load-truncated", "yes"),
    /// A rewrite makes an RDB file; `no` makes commands.
    aof_use_rdb_preamble: bool = boolean("aof-use-rdb-preamble", "yes"),
    /// Writes notes of the time into the file.
    aof_timestamp_enabled: bool = boolean("aof-timestamp-enabled", "no"),
    /// Syncs a rewritten file while it is written.
    aof_rewrite_incremental_fsync: bool = boolean("aof-rewrite-incremental-fsync", "yes"),
    boolean("aof-disable-auto-gc", "no").hidden().no_effect("only Redis's own tests use it"),
    // Replication.
    /// Host and port of the primary that this server is a replica of; `no one`: it is a primary.
    replicaof: String = special("replicaof", Primary, "no one").alias("slaveof").immutable(),
    /// Password for the primary.
    masterauth: Secret = text("masterauth", "").sensitive(),
    /// User for the primary; empty: the default one.
    masteruser: String = text("masteruser", "").sensitive(),
    /// `no`: commands are refused while the link to the primary is down.
    replica_serve_stale_data: bool = boolean("replica-serve-stale-data", "yes").alias("slave-serve-stale-data"),
    /// Clients of a replica may not write.
    replica_read_only: bool = boolean("replica-read-only", "yes").alias("slave-read-only"),
    boolean("replica-lazy-flush", "no").alias("slave-lazy-flush").no_effect(ALWAYS_LAZY),
    /// A replica leaves eviction to its primary.
    replica_ignore_maxmemory: bool = boolean("replica-ignore-maxmemory", "yes").alias("slave-ignore-maxmemory"),
    memory("replica-full-sync-buffer-limit", 0, BYTES_MAX, "0").no_effect(ONE_CONNECTION),
    boolean("replica-ignore-disk-write-errors", "no").no_effect("a replica goes on when its disk fails"),
    /// Whether Sentinels are to tell clients of this replica.
    replica_announced: bool = boolean("replica-announced", "yes"),
    /// Address that this replica tells its primary; empty: the one that it connects from.
    replica_announce_ip: String = text("replica-announce-ip", "").alias("slave-announce-ip"),
    /// Port that this replica tells its primary; 0: the one that it listens on.
    replica_announce_port: u64 = integer("replica-announce-port", 0, 65535, "0").alias("slave-announce-port"),
    /// Which replica Sentinels make the primary: the smallest number first; 0: never this one.
    replica_priority: u64 = integer("replica-priority", 0, I32_MAX, "100").alias("slave-priority"),
    /// Good replicas without which writes are refused; 0: none.
    min_replicas_to_write: u64 = integer("min-replicas-to-write", 0, I32_MAX, "0").alias("min-slaves-to-write"),
    /// Seconds of silence after which a replica is no good one.
    min_replicas_max_lag: u64 = integer("min-replicas-max-lag", 0, I32_MAX, "10").alias("min-slaves-max-lag"),
    /// Ours: replicas that must have executed what a connection wrote before its replies go.
    durability_replicas: u64 = integer("durability-replicas", 0, 1000, "0").apply(),
    /// Ours: milliseconds for which replies wait for them; then an error comes in their place. 0: for ever.
    durability_replicas_timeout: u64 = integer("durability-replicas-timeout", 0, I64_MAX, "10000"),
    boolean("repl-diskless-sync", "yes").no_effect(ALWAYS_SPOOLED),
    integer("repl-diskless-sync-delay", 0, I32_MAX, "5").no_effect(NO_DELAY),
    integer("repl-diskless-sync-max-replicas", 0, I32_MAX, "0").no_effect(NO_DELAY),
    one_of("repl-diskless-load", &["disabled", "on-empty-db", "swapdb"], "disabled").no_effect(SPOOLED),
    boolean("repl-disable-tcp-nodelay", "no").no_effect("the stream is sent in large pieces while there is much of it"),
    /// Seconds between two PINGs to replicas.
    repl_ping_replica_period: u64 =
        integer("repl-ping-replica-period", 1, I32_MAX, "10").alias("repl-ping-slave-period"),
    /// Seconds of silence after which a link between primary and replica is given up.
    repl_timeout: u64 = integer("repl-timeout", 1, I32_MAX, "60"),
    /// Bytes of the stream that are kept for replicas which come back.
    repl_backlog_size: u64 = memory("repl-backlog-size", 1, BYTES_MAX, "1mb").clamped(16 << 10, I64_MAX),
    /// Seconds without a replica after which nothing of it is kept; 0: never.
    repl_backlog_ttl: u64 = integer("repl-backlog-ttl", 0, I64_MAX, "3600"),
    one_of("propagation-error-behavior", &["ignore", "panic", "panic-on-replicas"], "ignore")
        .no_effect("a command that fails in a replica is logged"),
    // Cluster.
    /// The server is a node of a cluster, with one database.
    cluster_enabled: bool = boolean("cluster-enabled", "no").immutable(),
    /// File in which a node keeps what it knows of the cluster; each node needs its own.
    cluster_config_file: String = text("cluster-config-file", "nodes.conf").immutable(),
    /// Port of the bus; 0 is the port of clients and 10,000.
    cluster_port: u64 = integer("cluster-port", 0, 65535, "0").immutable(),
    /// Milliseconds of silence after which a node is taken for failed.
    cluster_node_timeout: u64 = integer("cluster-node-timeout", 0, I64_MAX, "15000").apply(),
    /// How many of these times old the data of a replica may be that takes over; 0: any.
    cluster_replica_validity_factor: u64 =
        integer("cluster-replica-validity-factor", 0, I32_MAX, "10").alias("cluster-slave-validity-factor").apply(),
    /// This replica takes over only when it is told to.
    cluster_replica_no_failover: bool =
        boolean("cluster-replica-no-failover", "no").alias("cluster-slave-no-failover").apply(),
    /// Replicas go to primaries that have none; a primary that has lost all slots becomes a replica.
    cluster_allow_replica_migration: bool = boolean("cluster-allow-replica-migration", "yes").apply(),
    /// Replicas that a primary keeps.
    cluster_migration_barrier: u64 = integer("cluster-migration-barrier", 0, I32_MAX, "1").apply(),
    /// The cluster is down while a slot is nobody's.
    cluster_require_full_coverage: bool = boolean("cluster-require-full-coverage", "yes").apply(),
    /// Clients may read while the cluster is down.
    cluster_allow_reads_when_down: bool = boolean("cluster-allow-reads-when-down", "no").apply(),
    /// Clients may use sharded channels while the cluster is down.
    cluster_allow_pubsubshard_when_down: bool = boolean("cluster-allow-pubsubshard-when-down", "yes").apply(),
    /// Bytes that may wait for another node, beyond which its link is closed; 0 is 256 MB.
    cluster_link_sendbuf_limit: u64 = memory("cluster-link-sendbuf-limit", 0, u64::MAX, "0").apply(),
    /// How many migrations of slots that are over CLUSTER GETSLOTMIGRATIONS lists.
    cluster_slot_migration_log_max_len: u64 = integer("cluster-slot-migration-log-max-len", 0, I32_MAX, "1000").apply(),
    /// The node counts CPU time and bytes by slot, for CLUSTER SLOT-STATS.
    cluster_slot_stats_enabled: bool = boolean("cluster-slot-stats-enabled", "no").apply(),
    integer("cluster-compatibility-sample-ratio", 0, 100, "0").no_effect("commands are not sampled"),
    /// Address that others are told; empty: they see it.
    cluster_announce_ip: String = special("cluster-announce-ip", Text(NodeAddress), "").apply(),
    /// Port for clients that others are told; 0: the real one.
    cluster_announce_port: u64 = integer("cluster-announce-port", 0, 65535, "0").apply(),
    /// Port for TLS that others are told; 0: the real one.
    cluster_announce_tls_port: u64 = integer("cluster-announce-tls-port", 0, 65535, "0").apply(),
    /// Port of the bus that others are told; 0: the real one.
    cluster_announce_bus_port: u64 = integer("cluster-announce-bus-port", 0, 65535, "0").apply(),
    /// Name of this host that others and clients are told.
    cluster_announce_hostname: String = special("cluster-announce-hostname", Text(Hostname), "").apply(),
    /// Name of this node that logs show.
    cluster_announce_human_nodename: String = special("cluster-announce-human-nodename", Text(NodeName), "").apply(),
    /// What clients are told of a node: its address, its host name, or nothing.
    cluster_preferred_endpoint_type: &'static str =
        one_of("cluster-preferred-endpoint-type", &["ip", "hostname", "unknown-endpoint"], "ip").apply(),
    // TLS.
    /// TCP port for TLS; 0 listens on none. `port` may be 0 beside it.
    tls_port: u64 = integer("tls-port", 0, 65535, "0").apply(),
    /// File of the server's certificate and those that vouch for it, in PEM form. Setting it again reads it again.
    tls_cert_file: String = text("tls-cert-file", "").reloads(),
    /// File of the certificate's key.
    tls_key_file: String = text("tls-key-file", "").reloads(),
    /// Password of that file.
    tls_key_file_pass: Secret = text("tls-key-file-pass", "").sensitive().reloads(),
    /// File of the certificate that the server shows to other servers; empty: the same one.
    tls_client_cert_file: String = text("tls-client-cert-file", "").reloads(),
    /// File of its key.
    tls_client_key_file: String = text("tls-client-key-file", "").reloads(),
    /// Password of that file.
    tls_client_key_file_pass: Secret = text("tls-client-key-file-pass", "").sensitive().reloads(),
    text("tls-dh-params-file", "").no_effect("keys are exchanged over elliptic curves only"),
    /// File of the authorities that may vouch for clients.
    tls_ca_cert_file: String = text("tls-ca-cert-file", "").reloads(),
    /// Directory of such files; their names do not matter.
    tls_ca_cert_dir: String = text("tls-ca-cert-dir", "").reloads(),
    /// Whether clients have to show a certificate. `optional`: one that is shown must be good.
    tls_auth_clients: &'static str = one_of("tls-auth-clients", TLS_AUTH, "yes").apply(),
    /// Encrypts the link to the primary.
    tls_replication: bool = boolean("tls-replication", "no"),
    /// Encrypts the links between nodes of a cluster; both ends show a certificate.
    tls_cluster: bool = boolean("tls-cluster", "no").apply(),
    /// `TLSv1.2`, `TLSv1.3` or both; empty: both.
    tls_protocols: String = text("tls-protocols", "").apply(),
    /// Suites of TLS 1.2, named one by one; empty: all that are supported.
    tls_ciphers: String = text("tls-ciphers", "").apply(),
    /// Suites of TLS 1.3, likewise.
    tls_ciphersuites: String = text("tls-ciphersuites", "").apply(),
    /// The server's order of suites decides, not the client's.
    tls_prefer_server_ciphers: bool = boolean("tls-prefer-server-ciphers", "no").apply(),
    /// Clients can resume sessions.
    tls_session_caching: bool = boolean("tls-session-caching", "yes").apply(),
    /// Sessions that are remembered for that; 0: 1,048,576.
    tls_session_cache_size: u64 = integer("tls-session-cache-size", 0, I32_MAX, "20480").apply(),
    /// Seconds for which a session can be resumed.
    tls_session_cache_timeout: u64 = integer("tls-session-cache-timeout", 0, I32_MAX, "300").apply(),
}

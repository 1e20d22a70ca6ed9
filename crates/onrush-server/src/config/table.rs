//! The table of directives: every name Redis 7.4 and 8.2 know, and our own.
//!
//! Ranges and defaults are Redis's, apart from `bind`, whose default here is the loopback interface. A row that ends
//! in `no_effect` says what the server does not do; `docs/configuration.md` lists those rows.

use super::directive::Kind::{
    Addresses, EnumSet, EventClasses, MemoryOrPercent, OomScores, OutputLimits, Percentiles, Permissions, Primary,
    SavePoints, Text,
};
use super::directive::TextRule::{
    Directory, FileName, FileNameNotEmpty, FolderName, Hostname, NodeAddress, NodeName, TitleTemplate,
};
use super::directive::{Directive, boolean, integer, memory, one_of, special, text};

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
const TLS_AUTH: &[&str] = &["no", "yes", "optional"];

const NO_COMPRESSION: &str = "nodes of lists are not compressed";
const NO_CRASH_REPORT: &str = "there is no crash report, and the watchdog is always on";
const NO_CYCLES: &str = "connections are accepted as they come, without a limit for each cycle";
const NO_DEFRAG: &str = "there is no active defragmentation";
const NO_IO_THREADS: &str = "`workers` sets how many threads read, execute and write";
const NO_LOCALE: &str = "texts are compared byte by byte";
const NO_MODULES: &str = "there are no modules";
const NO_OS: &str = "left to the service manager";
const NO_REHASH: &str = "the table of a shard is small and grows at once";
const ALWAYS_LAZY: &str = "data that a full sync replaces is always freed in the background";
const SPOOLED: &str = "where there is data, that of a full sync is checked on the disk before it replaces it; otherwise it is loaded as it comes";
const ALWAYS_SPOOLED: &str = "the data for replicas goes through a file without a name, and to them as it is made";
const NO_DELAY: &str = "replicas that come later join the data that is on its way";
const ONE_CONNECTION: &str = "the data and the stream come over one connection";
const NO_TITLE: &str = "the process keeps its title";

/// All directives.
pub static DIRECTIVES: &[Directive] = &[
    // Network.
    special("bind", Addresses, "127.0.0.1 -::1").apply(),
    text("bind-source-addr", "").no_effect("the system chooses it"),
    integer("port", 0, 65535, "6379").apply(),
    integer("tcp-backlog", 0, I32_MAX, "511").immutable(),
    text("unixsocket", "").immutable(),
    special("unixsocketperm", Permissions, "0").immutable(),
    integer("timeout", 0, I32_MAX, "0"),
    integer("tcp-keepalive", 0, I32_MAX, "300"),
    boolean("protected-mode", "yes"),
    integer("socket-mark-id", 0, U32_MAX, "0").unsigned().immutable().no_effect(NO_OS),
    integer("max-new-connections-per-cycle", 1, 1000, "10").unsigned().no_effect(NO_CYCLES),
    integer("max-new-tls-connections-per-cycle", 1, 1000, "1").unsigned().no_effect(NO_CYCLES),
    // Clients and pipelines.
    integer("maxclients", 1, U32_MAX, "10000").unsigned().apply(),
    special("maxmemory-clients", MemoryOrPercent, "0"),
    memory("client-query-buffer-limit", 1 << 20, BYTES_MAX, "1gb").unsigned(),
    special("client-output-buffer-limit", OutputLimits, "normal 0 0 0 replica 256mb 64mb 60 pubsub 32mb 8mb 60"),
    memory("proto-max-bulk-len", 1 << 20, BYTES_MAX, "512mb"),
    memory("pipeline-reply-limit", 16 << 10, BYTES_MAX, "1mb"),
    integer("pipeline-slice-us", 50, 1_000_000, "1000"),
    integer("tracking-table-max-keys", 0, I64_MAX, "1000000").unsigned(),
    // Process.
    integer("workers", 1, 1024, "").immutable(),
    integer("metrics-port", 0, 65535, "0").immutable(),
    text("metrics-bind", "127.0.0.1").immutable(),
    boolean("gather-connections", "yes"),
    integer("busy-poll-us", 0, 1_000, "20"),
    boolean("daemonize", "no").immutable(),
    one_of("supervised", &["upstart", "systemd", "auto", "no"], "no").immutable(),
    text("pidfile", "").immutable(),
    one_of("loglevel", &["debug", "verbose", "notice", "warning", "nothing"], "notice").apply(),
    text("logfile", "").immutable(),
    boolean("syslog-enabled", "no").immutable(),
    text("syslog-ident", "redis").immutable(),
    one_of("syslog-facility", FACILITIES, "local0").immutable(),
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
    integer("shutdown-timeout", 0, I32_MAX, "10"),
    special("shutdown-on-sigint", EnumSet(SHUTDOWN), "default"),
    special("shutdown-on-sigterm", EnumSet(SHUTDOWN), "default"),
    boolean("jemalloc-bg-thread", "yes").no_effect("the allocator needs no thread for that"),
    // Databases, background work and time.
    integer("databases", 1, DATABASES_MAX, "16").immutable(),
    integer("hz", 0, I32_MAX, "10").clamped(1, 500).apply(),
    boolean("dynamic-hz", "yes").no_effect("`hz` alone sets the pace of background work"),
    integer("active-expire-effort", 1, 10, "1"),
    boolean("activerehashing", "yes").no_effect(NO_REHASH),
    boolean("lazyfree-lazy-eviction", "no"),
    boolean("lazyfree-lazy-expire", "no"),
    boolean("lazyfree-lazy-server-del", "no"),
    boolean("lazyfree-lazy-user-del", "no"),
    boolean("lazyfree-lazy-user-flush", "no"),
    boolean("activedefrag", "no").no_effect(NO_DEFRAG),
    memory("active-defrag-ignore-bytes", 1, BYTES_MAX, "100mb").no_effect(NO_DEFRAG),
    integer("active-defrag-threshold-lower", 0, 1000, "10").no_effect(NO_DEFRAG),
    integer("active-defrag-threshold-upper", 0, 1000, "100").no_effect(NO_DEFRAG),
    integer("active-defrag-cycle-min", 1, 99, "1").no_effect(NO_DEFRAG),
    integer("active-defrag-cycle-max", 1, 99, "25").no_effect(NO_DEFRAG),
    integer("active-defrag-max-scan-fields", 1, I64_MAX, "1000").no_effect(NO_DEFRAG),
    integer("busy-reply-threshold", 0, I64_MAX, "5000").alias("lua-time-limit"),
    boolean("vset-force-single-threaded-execution", "no").no_effect("there are no vector sets"),
    boolean("lua-enable-deprecated-api", "no")
        .hidden()
        .immutable()
        .no_effect("functions that Lua 5.1 deprecates do not exist"),
    // Security.
    text("requirepass", "").sensitive().apply(),
    text("aclfile", "").immutable(),
    one_of("acl-pubsub-default", &["allchannels", "resetchannels"], "resetchannels"),
    integer("acllog-max-len", 0, I64_MAX, "128"),
    one_of("enable-protected-configs", WHO, "no").immutable(),
    one_of("enable-debug-command", WHO, "no").immutable(),
    one_of("enable-module-command", WHO, "no").immutable().no_effect(NO_MODULES),
    // Memory and eviction.
    memory("maxmemory", 0, u64::MAX, "0").apply(),
    one_of("maxmemory-policy", POLICIES, "noeviction"),
    integer("maxmemory-samples", 1, I32_MAX, "5"),
    integer("maxmemory-eviction-tenacity", 0, 100, "10"),
    integer("lfu-log-factor", 0, I32_MAX, "10"),
    integer("lfu-decay-time", 0, I32_MAX, "1"),
    // Thresholds of encodings.
    integer("hash-max-listpack-entries", 0, I64_MAX, "512").unsigned().alias("hash-max-ziplist-entries"),
    memory("hash-max-listpack-value", 0, BYTES_MAX, "64").alias("hash-max-ziplist-value"),
    integer("list-max-listpack-size", I32_MIN, I32_MAX, "-2").alias("list-max-ziplist-size"),
    integer("list-compress-depth", 0, I32_MAX, "0").no_effect(NO_COMPRESSION),
    integer("set-max-intset-entries", 0, I64_MAX, "512").unsigned(),
    integer("set-max-listpack-entries", 0, I64_MAX, "128").unsigned(),
    integer("set-max-listpack-value", 0, I64_MAX, "64").unsigned(),
    integer("zset-max-listpack-entries", 0, I64_MAX, "128").unsigned().alias("zset-max-ziplist-entries"),
    memory("zset-max-listpack-value", 0, BYTES_MAX, "64").alias("zset-max-ziplist-value"),
    memory("hll-sparse-max-bytes", 0, BYTES_MAX, "3000"),
    memory("stream-node-max-bytes", 0, BYTES_MAX, "4096"),
    integer("stream-node-max-entries", 0, I64_MAX, "100"),
    // What is watched.
    integer("slowlog-log-slower-than", -1, I64_MAX, "10000"),
    integer("slowlog-max-len", 0, I64_MAX, "128").apply(),
    integer("latency-monitor-threshold", 0, I64_MAX, "0"),
    boolean("latency-tracking", "yes").apply(),
    special("latency-tracking-info-percentiles", Percentiles, "50 99 99.9"),
    special("notify-keyspace-events", EventClasses, "\"\"").apply(),
    // Snapshots.
    special("dir", Text(Directory), "").protected().apply(),
    special("dbfilename", Text(FileName), "dump.rdb").protected(),
    special("save", SavePoints, "3600 1 300 100 60 10000"),
    boolean("stop-writes-on-bgsave-error", "yes"),
    boolean("rdbcompression", "yes"),
    boolean("rdbchecksum", "yes").immutable(),
    boolean("rdb-del-sync-files", "no").no_effect("files of synchronizations have no names"),
    boolean("rdb-save-incremental-fsync", "yes"),
    integer("rdb-key-save-delay", I32_MIN, I32_MAX, "0").hidden().no_effect("only Redis's own tests use it"),
    integer("key-load-delay", I32_MIN, I32_MAX, "0").hidden().no_effect("only Redis's own tests use it"),
    integer("loading-process-events-interval-bytes", 1024, I32_MAX, "2097152")
        .hidden()
        .no_effect("clients get replies all the time while data is loaded"),
    one_of("sanitize-dump-payload", &["no", "yes", "clients"], "no")
        .no_effect("payloads of RESTORE are always checked in full"),
    // Append-only file.
    boolean("appendonly", "no"),
    special("appendfilename", Text(FileNameNotEmpty), "appendonly.aof").immutable(),
    special("appenddirname", Text(FolderName), "appendonlydir").immutable(),
    one_of("appendfsync", &["everysec", "always", "no"], "everysec"),
    boolean("no-appendfsync-on-rewrite", "no").no_effect("a rewrite does not keep the file from being synced"),
    integer("auto-aof-rewrite-percentage", 0, I32_MAX, "100"),
    memory("auto-aof-rewrite-min-size", 0, BYTES_MAX, "64mb"),
    boolean("aof-load-truncated", "yes"),
    boolean("aof-use-rdb-preamble", "yes"),
    boolean("aof-timestamp-enabled", "no"),
    boolean("aof-rewrite-incremental-fsync", "yes"),
    boolean("aof-disable-auto-gc", "no").hidden().no_effect("only Redis's own tests use it"),
    // Replication.
    special("replicaof", Primary, "no one").alias("slaveof").immutable(),
    text("masterauth", "").sensitive(),
    text("masteruser", "").sensitive(),
    boolean("replica-serve-stale-data", "yes").alias("slave-serve-stale-data"),
    boolean("replica-read-only", "yes").alias("slave-read-only"),
    boolean("replica-lazy-flush", "no").alias("slave-lazy-flush").no_effect(ALWAYS_LAZY),
    boolean("replica-ignore-maxmemory", "yes").alias("slave-ignore-maxmemory"),
    memory("replica-full-sync-buffer-limit", 0, BYTES_MAX, "0").no_effect(ONE_CONNECTION),
    boolean("replica-ignore-disk-write-errors", "no").no_effect("a replica goes on when its disk fails"),
    boolean("replica-announced", "yes"),
    text("replica-announce-ip", "").alias("slave-announce-ip"),
    integer("replica-announce-port", 0, 65535, "0").alias("slave-announce-port"),
    integer("replica-priority", 0, I32_MAX, "100").alias("slave-priority"),
    integer("min-replicas-to-write", 0, I32_MAX, "0").alias("min-slaves-to-write"),
    integer("min-replicas-max-lag", 0, I32_MAX, "10").alias("min-slaves-max-lag"),
    integer("durability-replicas", 0, 1000, "0").apply(),
    integer("durability-replicas-timeout", 0, I64_MAX, "10000"),
    boolean("repl-diskless-sync", "yes").no_effect(ALWAYS_SPOOLED),
    integer("repl-diskless-sync-delay", 0, I32_MAX, "5").no_effect(NO_DELAY),
    integer("repl-diskless-sync-max-replicas", 0, I32_MAX, "0").no_effect(NO_DELAY),
    one_of("repl-diskless-load", &["disabled", "on-empty-db", "swapdb"], "disabled").no_effect(SPOOLED),
    boolean("repl-disable-tcp-nodelay", "no").no_effect("the stream is sent in large pieces while there is much of it"),
    integer("repl-ping-replica-period", 1, I32_MAX, "10").alias("repl-ping-slave-period"),
    integer("repl-timeout", 1, I32_MAX, "60"),
    memory("repl-backlog-size", 1, BYTES_MAX, "1mb").clamped(16 << 10, I64_MAX),
    integer("repl-backlog-ttl", 0, I64_MAX, "3600"),
    one_of("propagation-error-behavior", &["ignore", "panic", "panic-on-replicas"], "ignore")
        .no_effect("a command that fails in a replica is logged"),
    // Cluster.
    boolean("cluster-enabled", "no").immutable(),
    text("cluster-config-file", "nodes.conf").immutable(),
    integer("cluster-port", 0, 65535, "0").immutable(),
    integer("cluster-node-timeout", 0, I64_MAX, "15000").apply(),
    integer("cluster-replica-validity-factor", 0, I32_MAX, "10").alias("cluster-slave-validity-factor").apply(),
    boolean("cluster-replica-no-failover", "no").alias("cluster-slave-no-failover").apply(),
    boolean("cluster-allow-replica-migration", "yes").apply(),
    integer("cluster-migration-barrier", 0, I32_MAX, "1").apply(),
    boolean("cluster-require-full-coverage", "yes").apply(),
    boolean("cluster-allow-reads-when-down", "no").apply(),
    boolean("cluster-allow-pubsubshard-when-down", "yes").apply(),
    memory("cluster-link-sendbuf-limit", 0, u64::MAX, "0").apply(),
    integer("cluster-slot-migration-log-max-len", 0, I32_MAX, "1000").apply(),
    boolean("cluster-slot-stats-enabled", "no").apply(),
    integer("cluster-compatibility-sample-ratio", 0, 100, "0").no_effect("commands are not sampled"),
    special("cluster-announce-ip", Text(NodeAddress), "").apply(),
    integer("cluster-announce-port", 0, 65535, "0").apply(),
    integer("cluster-announce-tls-port", 0, 65535, "0").apply(),
    integer("cluster-announce-bus-port", 0, 65535, "0").apply(),
    special("cluster-announce-hostname", Text(Hostname), "").apply(),
    special("cluster-announce-human-nodename", Text(NodeName), "").apply(),
    one_of("cluster-preferred-endpoint-type", &["ip", "hostname", "unknown-endpoint"], "ip").apply(),
    // TLS.
    integer("tls-port", 0, 65535, "0").apply(),
    text("tls-cert-file", "").reloads(),
    text("tls-key-file", "").reloads(),
    text("tls-key-file-pass", "").sensitive().reloads(),
    text("tls-client-cert-file", "").reloads(),
    text("tls-client-key-file", "").reloads(),
    text("tls-client-key-file-pass", "").sensitive().reloads(),
    text("tls-dh-params-file", "").no_effect("keys are exchanged over elliptic curves only"),
    text("tls-ca-cert-file", "").reloads(),
    text("tls-ca-cert-dir", "").reloads(),
    one_of("tls-auth-clients", TLS_AUTH, "yes").apply(),
    boolean("tls-replication", "no"),
    boolean("tls-cluster", "no").apply(),
    text("tls-protocols", "").apply(),
    text("tls-ciphers", "").apply(),
    text("tls-ciphersuites", "").apply(),
    boolean("tls-prefer-server-ciphers", "no").apply(),
    boolean("tls-session-caching", "yes").apply(),
    integer("tls-session-cache-size", 0, I32_MAX, "20480").apply(),
    integer("tls-session-cache-timeout", 0, I32_MAX, "300").apply(),
];

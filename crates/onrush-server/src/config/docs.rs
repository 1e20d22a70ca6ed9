//! The part of `docs/configuration.md` that the table of directives decides, and the test that it is up to date.

use std::fmt::Write;
use std::path::PathBuf;

use super::directive::{Directive, Kind, TextRule};
use super::{Config, DIRECTIVES, Flags, Invocation, load, parse_arguments};

const BEGIN: &str = "<!-- begin: written from the table of directives -->\n";
const END: &str = "<!-- end: written from the table of directives -->\n";

/// What each directive with an effect sets, in the order of the table.
#[rustfmt::skip]
const SETS: &[(&str, &str)] = &[
    ("bind", "Addresses to listen on. One with a `-` before it may be missing from the machine."),
    ("port", "TCP port; 0 listens on none."),
    ("tcp-backlog", "Connections that may wait to be accepted."),
    ("unixsocket", "Path of a Unix socket to listen on as well."),
    ("unixsocketperm", "Permissions of that socket, in octal; 0 leaves them as the system makes them."),
    ("timeout", "Seconds after which an idle client is disconnected; 0 never does."),
    ("tcp-keepalive", "Seconds between the system's probes of silent clients; 0 sends none."),
    ("protected-mode", "Without a password, only clients of the same machine are served."),
    ("maxclients", "Connections at the same time."),
    ("maxmemory-clients", "Memory of all clients together; beyond it the largest are disconnected. 0 is no limit."),
    ("client-query-buffer-limit", "Bytes of commands of one connection that wait; beyond it is closed. More than 2 GB means 2 GB."),
    ("client-output-buffer-limit", "For each class of clients: bytes of unread replies and messages at which it is closed, at once and after some seconds."),
    ("proto-max-bulk-len", "Bytes of the largest argument; more than 2 GB means 2 GB."),
    ("pipeline-reply-limit", "Ours: bytes of unread replies above which a connection's commands are read but not executed."),
    ("pipeline-slice-us", "Ours: microseconds a connection may execute before the others of its thread have their turn."),
    ("tracking-table-max-keys", "Keys that are remembered for client-side caching; 0 is no limit."),
    ("workers", "Ours: threads that read, execute and write; by default one for each core."),
    ("busy-poll-us", "Ours: microseconds a worker goes on asking the system for events before it sleeps, where that pays; 0: none."),
    ("metrics-port", "Ours: TCP port of the metrics for Prometheus, `/metrics` over HTTP; 0: none."),
    ("metrics-bind", "Ours: address that the metrics are served at."),
    ("gather-connections", "Ours: connections gather on as few workers as hold the load. `no` spreads them over all."),
    ("daemonize", "Goes to the background."),
    ("pidfile", "File that gets the process's number."),
    ("supervised", "Tells systemd when the server is ready and when it ends; `auto`: if systemd has started it. `upstart` is told nothing."),
    ("loglevel", "How much is logged."),
    ("logfile", "File of the log; empty is standard output."),
    ("syslog-enabled", "The log also goes to the system's log."),
    ("syslog-ident", "The server's name there."),
    ("syslog-facility", "The part of the system that it counts as there."),
    ("shutdown-timeout", "Seconds that the end waits, with writes held back, until replicas have all; 0: none. SHUTDOWN NOW does not wait."),
    ("shutdown-on-sigint", "What SIGINT does."),
    ("shutdown-on-sigterm", "What SIGTERM does."),
    ("databases", "Number of databases."),
    ("hz", "How many times a second background work is done."),
    ("active-expire-effort", "How hard expired keys are searched for."),
    ("lazyfree-lazy-eviction", "Frees evicted values in the background."),
    ("lazyfree-lazy-expire", "Frees expired values in the background."),
    ("lazyfree-lazy-server-del", "Frees values that other commands replace in the background."),
    ("lazyfree-lazy-user-del", "DEL frees like UNLINK."),
    ("lazyfree-lazy-user-flush", "FLUSHALL and FLUSHDB free in the background unless told otherwise."),
    ("busy-reply-threshold", "Milliseconds after which a script counts as busy and others are answered BUSY."),
    ("requirepass", "Password of the default user."),
    ("aclfile", "File with all users; not together with lines of `user`."),
    ("acl-pubsub-default", "Whether new users may hear all channels."),
    ("acllog-max-len", "Entries of ACL LOG."),
    ("enable-protected-configs", "Who may change `dir` and `dbfilename` at runtime."),
    ("enable-debug-command", "Who may use DEBUG."),
    ("maxmemory", "Bytes of memory at which keys are evicted; 0 is no limit."),
    ("maxmemory-policy", "Which keys are evicted."),
    ("maxmemory-samples", "How strict the choice of the victims is."),
    ("maxmemory-eviction-tenacity", "How much time eviction takes; 100 is until it is done."),
    ("lfu-log-factor", "How slowly counters of LFU policies rise."),
    ("lfu-decay-time", "Minutes in which such a counter falls by one."),
    ("hash-max-listpack-entries", "Fields of the largest hash that is kept packed."),
    ("hash-max-listpack-value", "Bytes of the longest field or value in one."),
    ("list-max-listpack-size", "Size of the largest list that is kept packed: elements, or from -1 to -5 for 4 to 64 KB."),
    ("set-max-intset-entries", "Members of the largest set of integers that is kept packed."),
    ("set-max-listpack-entries", "Members of the largest other set that is kept packed."),
    ("set-max-listpack-value", "Bytes of the longest member in one."),
    ("zset-max-listpack-entries", "Members of the largest sorted set that is kept packed."),
    ("zset-max-listpack-value", "Bytes of the longest member in one."),
    ("hll-sparse-max-bytes", "Bytes of the largest sparse HyperLogLog."),
    ("stream-node-max-bytes", "Bytes of a node of a stream; 0 is no limit."),
    ("stream-node-max-entries", "Entries of a node of a stream; 0 is no limit."),
    ("slowlog-log-slower-than", "Microseconds from which a command is in the slow log; -1 logs none."),
    ("slowlog-max-len", "Entries of the slow log."),
    ("latency-monitor-threshold", "Milliseconds from which LATENCY remembers an event; 0 is off."),
    ("latency-tracking", "Keeps histograms of the times of commands."),
    ("latency-tracking-info-percentiles", "Percentiles that INFO `latencystats` shows."),
    ("notify-keyspace-events", "Classes of keyspace events that are published."),
    ("dir", "Working directory, where files are saved."),
    ("dbfilename", "Name of the snapshot."),
    ("save", "When a snapshot is taken: pairs of seconds and changes; empty is never."),
    ("stop-writes-on-bgsave-error", "Refuses writes after a snapshot has failed."),
    ("rdbcompression", "Compresses strings in snapshots and payloads of DUMP."),
    ("rdbchecksum", "Writes and checks checksums of snapshots."),
    ("rdb-save-incremental-fsync", "Syncs a snapshot while it is written."),
    ("appendonly", "Keeps an append-only file."),
    ("appendfilename", "Name of the files of the append-only file."),
    ("appenddirname", "Directory that holds them."),
    ("appendfsync", "When the append-only file is synced: see [durability](durability.md)."),
    ("auto-aof-rewrite-percentage", "Growth since the last rewrite at which the file is rewritten; 0 is never."),
    ("auto-aof-rewrite-min-size", "Bytes below which it is not rewritten by itself."),
    ("aof-load-truncated", "Loads a file whose end was cut by a crash, without that end."),
    ("aof-use-rdb-preamble", "A rewrite makes an RDB file; `no` makes commands."),
    ("aof-timestamp-enabled", "Writes notes of the time into the file."),
    ("aof-rewrite-incremental-fsync", "Syncs a rewritten file while it is written."),
    ("replicaof", "Host and port of the primary that this server is a replica of; `no one`: it is a primary."),
    ("masterauth", "Password for the primary."),
    ("masteruser", "User for the primary; empty: the default one."),
    ("replica-serve-stale-data", "`no`: commands are refused while the link to the primary is down."),
    ("replica-read-only", "Clients of a replica may not write."),
    ("replica-ignore-maxmemory", "A replica leaves eviction to its primary."),
    ("replica-announced", "Whether Sentinels are to tell clients of this replica."),
    ("replica-announce-ip", "Address that this replica tells its primary; empty: the one that it connects from."),
    ("replica-announce-port", "Port that this replica tells its primary; 0: the one that it listens on."),
    ("replica-priority", "Which replica Sentinels make the primary: the smallest number first; 0: never this one."),
    ("min-replicas-to-write", "Good replicas without which writes are refused; 0: none."),
    ("min-replicas-max-lag", "Seconds of silence after which a replica is no good one."),
    ("repl-backlog-size", "Bytes of the stream that are kept for replicas which come back."),
    ("repl-backlog-ttl", "Seconds without a replica after which nothing of it is kept; 0: never."),
    ("durability-replicas", "Ours: replicas that must have executed what a connection wrote before its replies go."),
    ("durability-replicas-timeout", "Ours: milliseconds for which replies wait for them; then an error comes in their place. 0: for ever."),
    ("repl-ping-replica-period", "Seconds between two PINGs to replicas."),
    ("repl-timeout", "Seconds of silence after which a link between primary and replica is given up."),
    ("tls-port", "TCP port for TLS; 0 listens on none. `port` may be 0 beside it."),
    ("tls-cert-file", "File of the server's certificate and those that vouch for it, in PEM form. Setting it again reads it again."),
    ("tls-key-file", "File of the certificate's key."),
    ("tls-key-file-pass", "Password of that file."),
    ("tls-client-cert-file", "File of the certificate that the server shows to other servers; empty: the same one."),
    ("tls-client-key-file", "File of its key."),
    ("tls-client-key-file-pass", "Password of that file."),
    ("tls-ca-cert-file", "File of the authorities that may vouch for clients."),
    ("tls-ca-cert-dir", "Directory of such files; their names do not matter."),
    ("tls-auth-clients", "Whether clients have to show a certificate. `optional`: one that is shown must be good."),
    ("tls-protocols", "`TLSv1.2`, `TLSv1.3` or both; empty: both."),
    ("tls-replication", "Encrypts the link to the primary."),
    ("tls-cluster", "Encrypts the links between nodes of a cluster; both ends show a certificate."),
    ("cluster-enabled", "The server is a node of a cluster, with one database."),
    ("cluster-config-file", "File in which a node keeps what it knows of the cluster; each node needs its own."),
    ("cluster-port", "Port of the bus; 0 is the port of clients and 10,000."),
    ("cluster-node-timeout", "Milliseconds of silence after which a node is taken for failed."),
    ("cluster-replica-validity-factor", "How many of these times old the data of a replica may be that takes over; 0: any."),
    ("cluster-replica-no-failover", "This replica takes over only when it is told to."),
    ("cluster-allow-replica-migration", "Replicas go to primaries that have none; a primary that has lost all slots becomes a replica."),
    ("cluster-migration-barrier", "Replicas that a primary keeps."),
    ("cluster-require-full-coverage", "The cluster is down while a slot is nobody's."),
    ("cluster-allow-reads-when-down", "Clients may read while the cluster is down."),
    ("cluster-allow-pubsubshard-when-down", "Clients may use sharded channels while the cluster is down."),
    ("cluster-slot-migration-log-max-len", "How many migrations of slots that are over CLUSTER GETSLOTMIGRATIONS lists."),
    ("cluster-slot-stats-enabled", "The node counts CPU time and bytes by slot, for CLUSTER SLOT-STATS."),
    ("cluster-link-sendbuf-limit", "Bytes that may wait for another node, beyond which its link is closed; 0 is 256 MB."),
    ("cluster-announce-ip", "Address that others are told; empty: they see it."),
    ("cluster-announce-port", "Port for clients that others are told; 0: the real one."),
    ("cluster-announce-tls-port", "Port for TLS that others are told; 0: the real one."),
    ("cluster-announce-bus-port", "Port of the bus that others are told; 0: the real one."),
    ("cluster-announce-hostname", "Name of this host that others and clients are told."),
    ("cluster-announce-human-nodename", "Name of this node that logs show."),
    ("cluster-preferred-endpoint-type", "What clients are told of a node: its address, its host name, or nothing."),
    ("tls-ciphers", "Suites of TLS 1.2, named one by one; empty: all that are supported."),
    ("tls-ciphersuites", "Suites of TLS 1.3, likewise."),
    ("tls-prefer-server-ciphers", "The server's order of suites decides, not the client's."),
    ("tls-session-caching", "Clients can resume sessions."),
    ("tls-session-cache-size", "Sessions that are remembered for that; 0: 1,048,576."),
    ("tls-session-cache-timeout", "Seconds for which a session can be resumed."),
];

fn section() -> String {
    let mut text = String::from("## Directives\n\n");
    text.push_str("| Directive | Default | Values | May change at runtime | What it sets |\n|---|---|---|---|---|\n");
    for row in effective() {
        let (_, sets) = SETS.iter().find(|(name, _)| *name == row.name).expect("each directive has a line in SETS");
        let runtime = if row.flags.contains(Flags::IMMUTABLE) {
            "no"
        } else if row.flags.contains(Flags::PROTECTED) {
            "with `enable-protected-configs`"
        } else {
            "yes"
        };
        let default = match row.default.trim_matches('"') {
            "" => String::new(),
            default => format!("`{default}`"),
        };
        let _ = writeln!(text, "| `{}` | {default} | {} | {runtime} | {sets} |", row.name, values(&row.kind));
    }
    text.push_str("\n## Directives without effect\n\n");
    text.push_str(
        "These are checked, kept, answered by `CONFIG GET` and written by `CONFIG REWRITE`, and do nothing else.\n\n",
    );
    push_table(&mut text, "Why", |directive| directive.no_effect);
    text
}

/// The directives that do something.
fn effective() -> impl Iterator<Item = &'static Directive> {
    DIRECTIVES.iter().filter(|row| row.no_effect.is_none())
}

/// What values a directive takes, in words.
fn values(kind: &Kind) -> String {
    let words = |words: &[&str]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    match kind {
        Kind::Bool => "`yes`, `no`".into(),
        Kind::Integer { min, max } => bounds(i128::from(*min), i128::from(*max), ""),
        Kind::Memory { min, max } => bounds(i128::from(*min), i128::from(*max), " bytes"),
        Kind::MemoryOrPercent => "bytes, or a percentage of `maxmemory`".into(),
        Kind::Permissions => "octal".into(),
        Kind::Enum(all) => words(all),
        Kind::EnumSet(all) => format!("any of {}", words(all)),
        Kind::Text(TextRule::FileName | TextRule::FileNameNotEmpty | TextRule::FolderName) => {
            "a name without a path".into()
        }
        Kind::Text(TextRule::Directory) => "a directory".into(),
        Kind::Text(_) => "text".into(),
        Kind::Addresses => "addresses".into(),
        Kind::SavePoints => "pairs of seconds and changes".into(),
        Kind::OutputLimits => "class, hard limit, soft limit, seconds".into(),
        Kind::EventClasses => "letters".into(),
        Kind::Percentiles => "numbers from 0 to 100".into(),
        Kind::OomScores => "three integers".into(),
        Kind::Primary => "host and port".into(),
    }
}

/// Leaves out bounds that no machine reaches.
fn bounds(min: i128, max: i128, unit: &str) -> String {
    match (min <= i128::from(i32::MIN), max >= i128::from(i32::MAX)) {
        (true, true) => format!("an integer{unit}"),
        (true, false) => format!("at most {max}{unit}"),
        (false, true) => format!("at least {min}{unit}"),
        (false, false) => format!("{min} to {max}{unit}"),
    }
}

/// A row for each reason, in alphabetical order.
fn push_table(text: &mut String, heading: &str, reason_of: impl Fn(&Directive) -> Option<&'static str>) {
    let mut reasons: Vec<&str> = DIRECTIVES.iter().filter_map(&reason_of).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let _ = write!(text, "| {heading} | Directives |\n|---|---|\n");
    for reason in reasons {
        let rows = DIRECTIVES.iter().filter(|row| reason_of(row) == Some(reason));
        let names: Vec<_> = rows.map(|row| format!("`{}`{}", row.name, hidden_mark(row))).collect();
        let _ = writeln!(text, "| {reason} | {} |", names.join(", "));
    }
}

fn hidden_mark(directive: &Directive) -> &'static str {
    if directive.flags.contains(Flags::HIDDEN) { " (hidden)" } else { "" }
}

#[test]
fn what_a_directive_sets_is_told_of_all_that_have_an_effect_and_no_other() {
    let told: Vec<&str> = SETS.iter().map(|(name, _)| *name).collect();
    let mut there: Vec<&str> = effective().map(|row| row.name).collect();
    assert_eq!(told.len(), there.len());
    there.retain(|name| !told.contains(name));
    assert!(there.is_empty(), "no line in SETS: {there:?}");
}

/// A configuration with all directives that have an effect, at their defaults. Those that have none, or whose default
/// depends on the machine, are comments.
fn example() -> String {
    let mut text = String::from(
        "# Configuration of onrush-server: all directives that have an effect, with their defaults.\n\
         # docs/configuration.md says more. Written from the table of directives; `make docs` writes it anew.\n",
    );
    for row in effective() {
        let (_, sets) = SETS.iter().find(|(name, _)| *name == row.name).expect("each directive has a line in SETS");
        let default = row.default.trim_matches('"');
        let off = if default.is_empty() { "# " } else { "" };
        let value = if default.is_empty() { "\"\"" } else { default };
        let values = values(&row.kind).replace('`', "");
        let fixed = if row.flags.contains(Flags::IMMUTABLE) { "; only at the start" } else { "" };
        let _ = write!(text, "\n# {}\n# Values: {values}{fixed}.\n{off}{} {value}\n", sets.replace('`', ""), row.name);
    }
    text
}

/// Compares the file of this text with it, or writes it anew.
fn check_file(path: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, text).expect("a file");
    } else {
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), text, "outdated; run `make docs`");
    }
}

#[test]
fn the_example_of_a_configuration_is_the_defaults() {
    let text = example();
    let mut stdin = text.as_bytes();
    let Invocation::Serve(command_line) = parse_arguments(["-".into()]) else { panic!("not to serve") };
    let loaded = load(&command_line, &mut stdin).expect("a configuration").config;
    let default = Config::default();
    for row in DIRECTIVES {
        assert_eq!(loaded.get(row.name), default.get(row.name), "{}", row.name);
    }
    check_file("contrib/onrush.conf", &text);
}

/// Run with `UPDATE_DOCS=1` to write the section anew.
#[test]
fn docs_list_what_the_table_says() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = std::fs::read_to_string(&path).expect("docs/configuration.md");
    let (before, rest) = text.split_once(BEGIN).expect("the line where the section begins");
    let (now, after) = rest.split_once(END).expect("the line where the section ends");
    let section = section();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, [before, BEGIN, &section, END, after].concat()).expect("docs/configuration.md");
    } else {
        assert_eq!(now, section, "outdated; run `make docs`");
    }
}

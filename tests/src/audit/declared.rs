//! The only list of permitted faults, with reasons, and the list of commands that need no case.

use super::judge::{Fault, Kind};

/// Permitted faults.
pub struct Declared {
    /// The scenario.
    pub scenario: &'static str,
    /// The lines, or `memory`.
    pub lines: &'static [&'static str],
    /// The kinds.
    pub kinds: &'static [Kind],
    /// Why they are permitted.
    pub reason: &'static str,
}

const TIME: &[Kind] = &[Kind::Slow, Kind::Growth, Kind::Wait];
const MEMORY: &[Kind] = &[Kind::Left, Kind::LeftResident, Kind::Takes, Kind::Peak];

const SHARDS: &str = "goes through all shards of the database, empty ones too: 8 to 35 µs whatever is in them";
const DATABASES: &str = "a database that was used once keeps its shards, and regular work goes through them";
const LREM: &str = "a removal moves the elements of its chunk of 8 KB: up to 60 µs, however long the list is";

/// All of them.
#[rustfmt::skip]
pub const DECLARED: &[Declared] = &[
    Declared { scenario: "databases", lines: &["x100 SWAPDB 0 1"], kinds: TIME, reason: "every one of the 4,096 shards is exchanged: 0.15 ms, whatever is in them" },
    Declared { scenario: "clients wait for a list that becomes something else", lines: &["x20 SWAPDB 0 1", "x20 FLUSHALL"], kinds: TIME, reason: SHARDS },
    Declared { scenario: "ten thousand databases", lines: &["x20 SWAPDB 0 {i+1}", "once INFO keyspace", "rest", "x20 FLUSHDB", "once FLUSHALL", "x5 FLUSHALL", "x5 INFO keyspace"], kinds: TIME, reason: DATABASES },
    Declared { scenario: "ten thousand databases", lines: &["memory"], kinds: MEMORY, reason: DATABASES },
    Declared { scenario: "a list of equal elements", lines: &["x100 LREM l 1 e", "x100 LREM l -1 e"], kinds: TIME, reason: LREM },
    Declared { scenario: "many clients", lines: &["x20 INFO clients", "x20 INFO everything", "x20 MEMORY STATS", "x20 MEMORY DOCTOR"], kinds: TIME, reason: "the clients are counted when they are asked for: 0.15 ms with 4,000, less than a CLIENT LIST" },
    Declared { scenario: "many clients", lines: &["x20 CLIENT UNPAUSE"], kinds: TIME, reason: "every client is woken to look: 0.4 ms with 4,000" },
    Declared { scenario: "a string of ten bytes for each of the size", lines: &["x100 APPEND k x"], kinds: TIME, reason: "the first of them moves the string to where it has room to grow, as every doubling does" },
    Declared { scenario: "a client that tracks many keys", lines: &["once CLIENT TRACKING OFF", "rest"], kinds: TIME, reason: "what was read is forgotten when no client is told of it any more, in the background: 43 ns a key; redis-server keeps it" },
    Declared { scenario: "a database that was large", lines: &["x100 SCAN 0", "x100 DBSIZE", "x20 FLUSHALL"], kinds: TIME, reason: SHARDS },
    Declared { scenario: "keys that expire at one moment", lines: &["gone"], kinds: TIME, reason: "redis-server takes so long for the line before that most keys have expired by its end" },
    Declared { scenario: "keys that are gone but not removed yet", lines: &["x100 SCAN 0"], kinds: TIME, reason: SHARDS },
    Declared { scenario: "fields that are gone but not removed yet", lines: &["x20 HLEN h", "once HGETALL h", "x100 HSCAN h 0"], kinds: TIME, reason: "a command deletes 64 of them and passes over the rest, 20 ns each, so that none pays for all; active expiry deletes them" },
    Declared { scenario: "a set of words", lines: &["x100 SRANDMEMBER e"], kinds: TIME, reason: "a set that was large keeps its directory: 15 µs a draw" },
    Declared { scenario: "fields with a time to live", lines: &["rest"], kinds: TIME, reason: "memory that the lines before needed goes back to the system: 10 ms after commands with a million arguments" },
    Declared { scenario: "many arguments", lines: &["all CONFIG GET | p{i}"], kinds: TIME, reason: "a pattern is compared with every directive, character by character" },
    Declared { scenario: "long arguments", lines: &["x5 CONFIG GET {bytes}"], kinds: TIME, reason: "a pattern is compared with every directive, character by character" },
];

const REFUSED: &str = "is refused whatever its arguments";

/// Commands whose cost cannot depend on data or on arguments, with the reason.
pub const CONSTANT: &[(&str, &str)] = &[
    ("acl|help", "answers with a fixed text"),
    ("acl|load", REFUSED),
    ("acl|save", REFUSED),
    ("acl|setuser", REFUSED),
    ("acl|users", "there is one user"),
    ("asking", REFUSED),
    ("bgrewriteaof", REFUSED),
    ("bgsave", REFUSED),
    ("client|getredir", "answers with a number of the connection"),
    ("client|help", "answers with a fixed text"),
    ("client|reply", "sets a flag of the connection"),
    ("cluster|addslotsrange", REFUSED),
    ("cluster|bumpepoch", REFUSED),
    ("cluster|cancelslotmigrations", REFUSED),
    ("cluster|count-failure-reports", REFUSED),
    ("cluster|countkeysinslot", REFUSED),
    ("cluster|delslots", REFUSED),
    ("cluster|delslotsrange", REFUSED),
    ("cluster|failover", REFUSED),
    ("cluster|flushslots", REFUSED),
    ("cluster|forget", REFUSED),
    ("cluster|getkeysinslot", REFUSED),
    ("cluster|getslotmigrations", REFUSED),
    ("cluster|help", REFUSED),
    ("cluster|keyslot", REFUSED),
    ("cluster|links", REFUSED),
    ("cluster|meet", REFUSED),
    ("cluster|migrateslots", REFUSED),
    ("cluster|myid", REFUSED),
    ("cluster|myshardid", REFUSED),
    ("cluster|nodes", REFUSED),
    ("cluster|replicas", REFUSED),
    ("cluster|replicate", REFUSED),
    ("cluster|reset", REFUSED),
    ("cluster|saveconfig", REFUSED),
    ("cluster|set-config-epoch", REFUSED),
    ("cluster|setslot", REFUSED),
    ("cluster|shards", REFUSED),
    ("cluster|slaves", REFUSED),
    ("cluster|slot-stats", REFUSED),
    ("cluster|slots", REFUSED),
    ("cluster|syncslots", REFUSED),
    ("command|help", "answers with a fixed text"),
    ("config|help", "answers with a fixed text"),
    ("config|rewrite", "writes a file as long as the configuration"),
    ("hotkeys|help", "answers with a fixed text"),
    ("function|help", "answers with a fixed text"),
    ("function|kill", "there is no function to end when it is executed"),
    ("memory|help", "answers with a fixed text"),
    ("module|help", "answers with a fixed text"),
    ("module|load", REFUSED),
    ("module|loadex", REFUSED),
    ("module|unload", REFUSED),
    ("object|help", "answers with a fixed text"),
    ("pfselftest", "tests a fixed amount of data of its own"),
    ("pipeline|help", "answers with a fixed text"),
    ("pubsub|help", "answers with a fixed text"),
    ("psync", "the thread for replicas answers; tests of replication time it"),
    ("replconf", "keeps a few words of the connection"),
    ("sync", "the thread for replicas answers; tests of replication time it"),
    ("quit", "closes the connection"),
    ("latency|doctor", "tells of at most 160 samples of 4 events"),
    ("latency|graph", "draws at most 80 samples"),
    ("latency|help", "answers with a fixed text"),
    ("latency|history", "tells at most 160 samples"),
    ("readwrite", REFUSED),
    ("restore-asking", "is RESTORE, which is measured"),
    ("script|debug", "there is no debugger"),
    ("script|help", "answers with a fixed text"),
    ("script|kill", "there is no script to end when it is executed"),
    ("slowlog|help", "answers with a fixed text"),
    ("save", REFUSED),
    ("shutdown", "ends the process; tests of its life time it"),
    ("slaveof", "another thread changes the role"),
    ("xgroup|help", "answers with a fixed text"),
    ("xinfo|help", "answers with a fixed text"),
];

/// Separates undeclared faults from declared ones with their reasons.
pub fn split(scenario: &str, faults: Vec<Fault>) -> (Vec<Fault>, Vec<(Fault, &'static str)>) {
    let reason = |fault: &Fault| {
        let is_it =
            |d: &&Declared| d.scenario == scenario && d.lines.contains(&fault.what) && d.kinds.contains(&fault.kind);
        DECLARED.iter().find(is_it).map(|d| d.reason)
    };
    let (mut undeclared, mut declared) = (Vec::new(), Vec::new());
    for fault in faults {
        match reason(&fault) {
            Some(reason) => declared.push((fault, reason)),
            None => undeclared.push(fault),
        }
    }
    (undeclared, declared)
}

//! The one list of faults that may be there, with the reason, and the list of commands that need no case.

use super::judge::{Fault, Kind};

/// Faults that may be there.
pub struct Declared {
    /// The scenario.
    pub scenario: &'static str,
    /// The lines, or `memory`.
    pub lines: &'static [&'static str],
    /// The kinds.
    pub kinds: &'static [Kind],
    /// Why they may be there.
    pub reason: &'static str,
}

const TIME: &[Kind] = &[Kind::Slow, Kind::Growth, Kind::Wait];
const ENDLESS: &[Kind] = &[Kind::Stopped, Kind::Slow, Kind::Growth, Kind::Wait];
const MEMORY: &[Kind] = &[Kind::Left, Kind::LeftResident, Kind::Takes, Kind::Peak];
const ANYTHING: &[Kind] =
    &[Kind::Stopped, Kind::Slow, Kind::Growth, Kind::Wait, Kind::Left, Kind::LeftResident, Kind::Takes, Kind::Peak];

const SCRATCH: &str = "a worker keeps the memory of its largest command";
const SHARDS: &str = "goes through all shards of the database, empty ones too: 8 to 35 µs whatever is in them";
const DATABASES: &str = "a database that was used once keeps its shards, and regular work goes through them";
const LREM: &str = "a removal or an insert costs what the list is long, wherever it is";
const HASH_ORDER: &str = "members that arrive in the order of their hashes may never find a place";
const LIMIT: &str = "the whole intersection is made before LIMIT is looked at";
const ZSCAN: &str = "a step visits members by the hundred, and all of a score";
const WAITERS: &str = "a client that waits holds a buffer of 1 MB, and a push goes through all that wait";

/// All of them.
#[rustfmt::skip]
pub const DECLARED: &[Declared] = &[
    Declared { scenario: "many keys in one command", lines: &["memory"], kinds: MEMORY, reason: SCRATCH },
    Declared { scenario: "bits", lines: &["memory"], kinds: MEMORY, reason: SCRATCH },
    Declared { scenario: "pops from the last of many lists", lines: &["memory"], kinds: MEMORY, reason: SCRATCH },
    Declared { scenario: "databases", lines: &["x100 SWAPDB 0 1"], kinds: TIME, reason: "every one of the 4,096 shards is exchanged: 0.15 ms, whatever is in them" },
    Declared { scenario: "ten thousand databases", lines: &["x20 SWAPDB 0 {i+1}", "once INFO keyspace", "rest", "x20 FLUSHDB", "once FLUSHALL", "x5 FLUSHALL", "x5 INFO keyspace"], kinds: TIME, reason: DATABASES },
    Declared { scenario: "ten thousand databases", lines: &["memory"], kinds: MEMORY, reason: DATABASES },
    Declared { scenario: "both ends and the middle of a list", lines: &["x100 LREM l 1 e:{i+10}", "x100 LREM l -1 e:{n-10}", "x100 LINSERT l BEFORE e:5 new", "x100 LREM l 1 new", "x5 LREM l 1 e:{n/2}"], kinds: TIME, reason: LREM },
    Declared { scenario: "a list of equal elements", lines: &["x100 LREM l 1 e", "x100 LREM l -1 e"], kinds: TIME, reason: LREM },
    Declared { scenario: "a list of long elements", lines: &["x20 LREM l 1 x"], kinds: TIME, reason: LREM },
    Declared { scenario: "a hash in its own order", lines: &["all HSET d | {o} v", "each HSET e {o} v", "each HDEL e {o}", "all HDEL d | {o}", "all HMGET h | {o}"], kinds: ENDLESS, reason: HASH_ORDER },
    Declared { scenario: "sets of numbers", lines: &["all SADD again | {o}", "once SUNIONSTORE u up down", "once SINTERSTORE i up down", "once SDIFFSTORE f up down"], kinds: ENDLESS, reason: HASH_ORDER },
    Declared { scenario: "a set in its own order", lines: &["all SADD d | {o}", "each SADD e {o}", "once SUNION s", "once SUNIONSTORE u s", "once SINTERSTORE i s", "once SDIFFSTORE f s", "each SMOVE e g {o}"], kinds: ENDLESS, reason: HASH_ORDER },
    Declared { scenario: "a set of long members in its own order", lines: &["all/4 SADD d | {o}", "once SUNIONSTORE u s", "once SUNION s d"], kinds: ENDLESS, reason: HASH_ORDER },
    Declared { scenario: "large sets together", lines: &["once SINTERSTORE d a b", "once SUNION a b", "once SUNIONSTORE d a c", "once SUNIONSTORE d a b c", "once SDIFFSTORE d a b", "once SDIFFSTORE d a c", "once SUNIONSTORE a a b", "once SINTERSTORE b a b", "once SDIFF a b"], kinds: ENDLESS, reason: HASH_ORDER },
    Declared { scenario: "large sets together", lines: &["x20 SINTERCARD 2 a b LIMIT 1"], kinds: TIME, reason: LIMIT },
    Declared { scenario: "large sorted sets together", lines: &["x20 ZINTERCARD 2 a b LIMIT 1"], kinds: TIME, reason: LIMIT },
    Declared { scenario: "a sorted set of rising scores", lines: &["x100 ZSCAN z 0", "x20 ZSCAN z 0 COUNT 100 MATCH nothing"], kinds: TIME, reason: ZSCAN },
    Declared { scenario: "a sorted set of equal scores", lines: &["x100 ZSCAN z 0", "x20 ZSCAN z 0 COUNT 100 MATCH nothing"], kinds: TIME, reason: ZSCAN },
    Declared { scenario: "a sorted set, member by member from the end", lines: &["x100 ZSCAN z 0", "x20 ZSCAN z 0 COUNT 100 MATCH nothing"], kinds: TIME, reason: ZSCAN },
    Declared { scenario: "a sorted set of two scores", lines: &["x100 ZSCAN z 0"], kinds: TIME, reason: ZSCAN },
    Declared { scenario: "hashes that are deleted before their fields expire", lines: &["rest", "memory"], kinds: &[Kind::Slow, Kind::Growth, Kind::Left, Kind::Takes], reason: "what is kept of a hash whose fields expire outlives the hash" },
    Declared { scenario: "a group and what is pending", lines: &["x20 XPENDING x g - + 10 d"], kinds: TIME, reason: "the entries of a consumer are found by looking through those of the group" },
    Declared { scenario: "one client waits for many keys", lines: &["all BLPOP | missing:{i} | 0.01", "all BRPOP | missing:{i} | 0.01", "all BZPOPMIN | missing:{i} | 0.01", "all BZPOPMAX | missing:{i} | 0.01", "all BLMPOP 0.01 {n} | missing:{i} | LEFT", "all BZMPOP 0.01 {n} | missing:{i} | MIN", "all BLPOP | same | 0.01", "memory"], kinds: ANYTHING, reason: "finding a key among those waited for goes through all of them" },
    Declared { scenario: "clients wait for one list, pushes one by one", lines: &["clients/25 BLPOP q 0", "rest", "each/25 RPUSH q v", "wake", "vanish", "memory"], kinds: ANYTHING, reason: WAITERS },
    Declared { scenario: "clients wait for one list, pushed at once", lines: &["clients/25 BRPOP q 0", "all/25 RPUSH q | e:{i}", "wake", "vanish", "memory"], kinds: ANYTHING, reason: WAITERS },
    Declared { scenario: "clients wait for one list and vanish", lines: &["clients/25 BLPOP q 0", "x20 PING", "vanish", "x100 RPUSH q v", "memory"], kinds: ANYTHING, reason: WAITERS },
    Declared { scenario: "clients wait for a list that becomes something else", lines: &["clients/25 BLPOP q 0", "x100 SET q v", "x100 SET q v ; DEL q", "x100 SADD q m ; DEL q", "x100 SET p v ; RENAME p q", "x100 EXPIRE q 1000", "once DEL q", "x20 FLUSHALL", "x20 SWAPDB 0 1", "vanish", "memory"], kinds: ANYTHING, reason: WAITERS },
    Declared { scenario: "clients that push to what they wait for", lines: &["clients/25 BLMOVE q q LEFT RIGHT 0", "once RPUSH q v", "wake", "vanish", "memory"], kinds: ANYTHING, reason: WAITERS },
    Declared { scenario: "clients that push to the next", lines: &["clients/25 BRPOPLPUSH q:{i} q:{i+1} 0", "once RPUSH q:0 v", "wake", "vanish", "memory"], kinds: ANYTHING, reason: WAITERS },
    Declared { scenario: "clients wait for a key each", lines: &["clients/25 BLPOP q:{i} 0", "each/25 RPUSH q:{i} v", "wake", "clients/25 BZPOPMIN z:{i} 0", "all/25 MSET | other:{i} v", "vanish", "memory"], kinds: ANYTHING, reason: WAITERS },
    Declared { scenario: "clients wait for many keys each", lines: &["clients/50 BLPOP a b c d e f g h i j k l m n o p 0", "each/50 RPUSH p v", "wake", "vanish", "memory"], kinds: ANYTHING, reason: WAITERS },
    Declared { scenario: "clients wait for one sorted set", lines: &["clients/25 BZPOPMIN z 0", "each/50 ZADD z {i} m:{i}", "all/50 ZADD z | {i} n:{i}", "wake", "clients/25 BZMPOP 0 1 z MAX", "each/25 ZADD z {i} m:{i}", "vanish", "memory"], kinds: ANYTHING, reason: WAITERS },
    Declared { scenario: "clients wait for one stream", lines: &["clients/25 XREAD BLOCK 0 STREAMS x $", "once XADD x * f v", "wake", "clients/25 XREADGROUP GROUP g c{i} BLOCK 0 STREAMS x >", "each/25 XADD x * f v", "once XGROUP DESTROY x g", "vanish", "memory"], kinds: ANYTHING, reason: WAITERS },
    Declared { scenario: "clients that stop waiting at one moment", lines: &["clients/100 BLPOP q 0.8", "wake", "vanish", "memory"], kinds: ANYTHING, reason: WAITERS },
    Declared { scenario: "many clients", lines: &["x20 INFO clients", "x20 INFO everything", "x20 MEMORY STATS", "x20 MEMORY DOCTOR"], kinds: TIME, reason: "the clients are counted when they are asked for: 0.15 ms with 4,000, less than a CLIENT LIST" },
    Declared { scenario: "many clients", lines: &["x20 CLIENT UNPAUSE"], kinds: TIME, reason: "every client is woken to look: 0.4 ms with 4,000" },
    Declared { scenario: "clients that announce much and send nothing", lines: &["memory"], kinds: MEMORY, reason: "memory for an argument is taken when it is announced" },
    Declared { scenario: "a database that was large", lines: &["x100 SCAN 0", "x100 DBSIZE", "x20 FLUSHALL"], kinds: TIME, reason: SHARDS },
    Declared { scenario: "keys that are gone but not removed yet", lines: &["x100 SCAN 0"], kinds: TIME, reason: SHARDS },
    Declared { scenario: "a set of words", lines: &["x100 SRANDMEMBER e"], kinds: TIME, reason: "a set that was large keeps its directory: 15 µs a draw" },
    Declared { scenario: "many arguments", lines: &["all CONFIG GET | p{i}"], kinds: TIME, reason: "a pattern is compared with every directive, character by character" },
    Declared { scenario: "long arguments", lines: &["x5 CONFIG GET {bytes}"], kinds: TIME, reason: "a pattern is compared with every directive, character by character" },
];

/// Commands whose cost cannot depend on data or on arguments, with the reason.
pub const CONSTANT: &[(&str, &str)] = &[
    ("client|getredir", "answers with a number of the connection"),
    ("client|help", "answers with a fixed text"),
    ("client|reply", "sets a flag of the connection"),
    ("client|trackinginfo", "answers with flags of the connection"),
    ("command|help", "answers with a fixed text"),
    ("config|help", "answers with a fixed text"),
    ("config|rewrite", "writes a file as long as the configuration"),
    ("memory|help", "answers with a fixed text"),
    ("object|help", "answers with a fixed text"),
    ("pfselftest", "tests a fixed amount of data of its own"),
    ("quit", "closes the connection"),
    ("shutdown", "ends the process; tests of its life time it"),
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

//! Keys of any type: many at once, missing ones, long names, expiry, databases.

use crate::audit::script::Scenario;

/// The scenarios of this family.
pub const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "many keys in one command",
        "
        > all MSET | k:{i} v
        > all MGET | k:{i}
        > all EXISTS | k:{i}
        > all TOUCH | k:{i}
        > all MSET | k:{i} w
        > all MGET | missing:{i}
        > all EXISTS | missing:{i}
        > all TOUCH | missing:{i}
        > all DEL | missing:{i}
        > all UNLINK | missing:{i}
        > all MSETNX | other:{i} v
        > all MSETNX | other:{j} v
        > all UNLINK | other:{i}
        > all DEL | k:{j}
        ",
    ),
    Scenario::new(
        "one key many times in one command",
        "
        once SET k v
        > all MGET | k
        > all EXISTS | k
        > all TOUCH | k
        > all MSET | k v
        > all MSETNX | o v
        > all DEL | k
        > all UNLINK | o
        ",
    ),
    Scenario::new(
        "values as bytes",
        "
        all RPUSH l | e{i}
        all HSET h | f{i} v
        all ZADD z | {i} m{i}
        > x5 DUMP l
        > x5 DUMP h
        > x5 DUMP z
        > x100 DUMP missing
        > x100 MIGRATE 127.0.0.1 1 missing 0 100
        > x100 RESTORE k 0 {nul}!value-of-thirty-three-bytes-04a0e\u{1}{nul}K7479vfb REPLACE
        ",
    ),
    Scenario::new(
        "many keys in one command of Redis 8.4",
        "
        > all MSETEX {n} | k:{i} v
        > all MSETEX {n} | k:{i} w | XX EX 10000
        > all MSETEX {n} | k:{j} w | KEEPTTL
        > all MSETEX {n} | k:{i} w | NX
        > all MSETEX {n} | other:{i} w | NX
        > all MSETEX {n} | missing:{i} w | XX
        > all MSETEX {n} | k v
        ",
    ),
    Scenario::new(
        "walking a database",
        "
        fill MSET | k:{i} v
        > once KEYS *
        > once KEYS k:1
        > once KEYS *9*9*
        > x100 SCAN 0
        > x20 SCAN 0 COUNT 1000 MATCH nothing
        > x20 SCAN 0 COUNT 1000 TYPE list
        > x100 RANDOMKEY
        > x100 DBSIZE
        > x100 TYPE k:{r}
        > x100 OBJECT ENCODING k:{r}
        > x100 OBJECT REFCOUNT k:{r}
        > x100 OBJECT IDLETIME k:{r}
        > x100 MEMORY USAGE k:{r}
        > x100 GET k:{r}
        > x100 SET k:{r} v
        > x100 RENAME k:{i} k:{i}
        > x100 RENAMENX k:{i} k:{i}
        > rest
        > once FLUSHDB
        ",
    ),
    Scenario::new(
        "a database that was large",
        "
        fill MSET | k:{i} v
        fill DEL | k:{i}
        once SET one v
        > x100 RANDOMKEY
        > x100 SCAN 0
        > x20 KEYS *
        > x100 DBSIZE
        > x100 GET one
        > x20 FLUSHDB
        > x20 FLUSHALL
        ",
    ),
    Scenario::new(
        "keys deleted one by one in the order of KEYS",
        "
        fill MSET | k:{i} v
        order KEYS *
        > each RENAME {o} x{o}
        order KEYS *
        > each GETDEL {o}
        ",
    ),
    Scenario::new(
        "keys that expire at one moment",
        "
        fill MSET | k:{i} v
        > each/5 PEXPIREAT k:{i} 99999999999000
        > each/5 EXPIRETIME k:{i}
        > each/5 PEXPIRETIME k:{i}
        > each/5 TTL k:{i}
        > each/5 PTTL k:{i}
        > x100 RANDOMKEY
        > rest
        > each/5 EXPIREAT k:{i} 99999999998
        > each/5 PERSIST k:{i}
        > each/5 EXPIRE k:{i} 100000
        > each PEXPIRE k:{i} 50
        > gone
        ",
    ),
    Scenario::new(
        "keys that are gone but not removed yet",
        "
        once DEBUG SET-ACTIVE-EXPIRE 0
        fill MSET | k:{i} v
        each PEXPIRE k:{i} 1
        rest
        > once RANDOMKEY
        > x100 SCAN 0
        > once KEYS *
        > each GET k:{i}
        once DEBUG SET-ACTIVE-EXPIRE 1
        ",
    ),
    Scenario::new(
        "keys deleted by a time in the past",
        "
        fill MSET | k:{i} v
        > each EXPIREAT k:{i} 1
        fill MSET | k:{i} v
        > each/5 PEXPIRE k:{i} -1
        > each/5 SET k:{i} v PXAT 1
        ",
    ),
    Scenario::new(
        "databases",
        "
        fill MSET | k:{i} v
        > x100 SELECT 1 ; SET k:{i} v ; SELECT 0
        > x100 SWAPDB 0 1
        > x100 COPY k:{i} c:{i} DB 2
        > each MOVE k:{i} 3
        once SELECT 3
        > once FLUSHDB
        > once FLUSHALL
        ",
    ),
    Scenario::new(
        "ten thousand databases",
        "
        each/10 SELECT {i} ; SET k v
        > x20 SWAPDB 0 {i+1}
        > once INFO keyspace
        > rest
        > x20 FLUSHDB
        > once FLUSHALL
        > x5 FLUSHALL
        > x5 INFO keyspace
        > x5 DBSIZE
        ",
    )
    .with(&["--databases", "10000"])
    .up_to(100_000),
    Scenario::new(
        "names of any length",
        "
        > x5 SET {bytes} v
        > x5 GET {bytes}
        > x5 EXISTS {bytes}
        > x5 RENAME {bytes} y{bytes} ; RENAME y{bytes} {bytes}
        > x5 KEYS {bytes}
        > x5 SCAN 0 MATCH {bytes}
        > x5 TYPE {bytes}
        > x5 DEL {bytes}
        ",
    ),
    Scenario::new(
        "patterns of stars",
        "
        once SET {bytes/10} v
        > once KEYS {stars/20}
        > once KEYS {stars/20}y
        > once SCAN 0 MATCH {stars/20}
        > once CONFIG GET {stars/20}
        > once COMMAND LIST FILTERBY PATTERN {stars/20}
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "patterns that almost match",
        "
        once SET {bytes/10} v
        > once KEYS *x*x*x*x*x*x*x*x*x*x*x*x*y
        > once KEYS x*x*x*x*x*x*x*x*x*x*x*x*[y]
        > once KEYS *xxxxxxxxxxxxxxxy
        > once KEYS [{bytes/10}]y*
        > once SCAN 0 MATCH *?*?*?*?*?*?*?*?*?*?*?*?*y
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "copies and renames of something large",
        "
        fill RPUSH l | e:{i}
        fill SADD s | m:{i}
        fill HSET h | f:{i} v
        fill ZADD z | {i} m:{i}
        > once COPY l l2
        > once COPY s s2
        > once COPY h h2
        > once COPY z z2
        > x100 RENAME l l1 ; RENAME l1 l
        > x100 MOVE s 1 ; SELECT 1 ; MOVE s 0 ; SELECT 0
        > x100 TYPE z
        > x100 OBJECT ENCODING h
        > x100 EXPIRE h 10000
        > once COPY l l2 REPLACE
        > once MEMORY USAGE l SAMPLES 0
        > once MEMORY USAGE s SAMPLES 0
        > once MEMORY USAGE h SAMPLES 0
        > once MEMORY USAGE z SAMPLES 0
        > x100 MEMORY USAGE h
        > once RENAME l2 l
        > once SET s2 v
        > once DEL h2 z2 l
        > once UNLINK s h z
        ",
    ),
    Scenario::new(
        "thousands of small collections",
        "
        each/10 RPUSH l:{i} a b c
        each/10 SADD s:{i} a b c
        each/10 HSET h:{i} a b c d
        each/10 ZADD z:{i} 1 a 2 b
        each/10 XADD x:{i} * f v
        > once KEYS *
        > all/10 DEL | l:{i} s:{i} h:{i}
        > all/10 UNLINK | z:{i} x:{i}
        ",
    ),
    Scenario::new(
        "how often a key is used",
        "
        once CONFIG SET maxmemory-policy allkeys-lfu
        fill MSET | k:{i} v
        > each OBJECT FREQ k:{i}
        > each GET k:0
        once CONFIG SET maxmemory-policy noeviction
        ",
    ),
];

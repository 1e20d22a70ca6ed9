//! Hashes, and hashes whose fields expire.

use crate::audit::script::Scenario;

/// The scenarios of this family.
pub const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "a hash",
        "
        > each HSET e f:{i} v
        > all HSET h | f:{i} v
        > all HSET h | f:{i} w
        > all HMSET h | f:{i} v
        > x100 HLEN h
        > x100 HGET h f:{r}
        > x100 HGET h missing
        > x100 HEXISTS h f:{r}
        > x100 HSTRLEN h f:{r}
        > all HMGET h | f:{i}
        > all HMGET h | missing:{i}
        > once HGETALL h
        > once HKEYS h
        > once HVALS h
        > x100 HRANDFIELD h
        > x20 HRANDFIELD h 10
        > once HRANDFIELD h {n/2} WITHVALUES
        > once HRANDFIELD h {n-2} WITHVALUES
        > once HRANDFIELD h -{n}
        > x100 HSCAN h 0
        > x20 HSCAN h 0 MATCH nothing COUNT 1000
        > each/4 HINCRBY n f:{i} 1
        > each/4 HINCRBY n f:{i} 1
        > each/4 HINCRBYFLOAT n f:{i} 1.5
        > each/4 HSETNX n f:{i} 1
        > each/4 HSETNX n x:{i} 1
        > each/4 HDEL h f:{i}
        > x100 HRANDFIELD h
        > all HDEL h | f:{j}
        > once DEL n
        ",
    ),
    Scenario::new(
        "a hash in its own order",
        "
        all HSET h | f:{i} v
        order HKEYS h
        > all HSET d | {o} v
        > each HSET e {o} v
        > each HDEL e {o}
        > all HMGET h | {o}
        > all HDEL d | {o}
        ",
    ),
    Scenario::new(
        "a hash of long values",
        "
        > each/4 HSET h f:{i} {i:0200}
        > each/4 HSET h f:{i} {i:0300}
        > each/4 HSET h f:{i} v
        > each/4 HSET h f:{i} {i:01000}
        > once HGETALL h
        > once HVALS h
        order HKEYS h
        > all/4 HSET d | {o} {i:0200}
        > all/4 HDEL h | {o}
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "one huge field",
        "
        > x5 HSET h f {bytes}
        > x5 HGET h f
        > x20 HSTRLEN h f
        > x20 HSET h g v
        > x20 HDEL h g
        > x5 HSET h {bytes} v
        > x5 HEXISTS h {bytes}
        > x5 HGETALL h
        > x5 HSET h f v ; HSET h f {bytes}
        > x5 HDEL h f {bytes}
        ",
    ),
    Scenario::new(
        "a hash that was large",
        "
        fill HSET h | f:{i} v
        all HDEL h | f:{i+10}
        > x100 HRANDFIELD h
        > x100 HSCAN h 0
        > x20 HGETALL h
        > x20 HKEYS h
        > x100 HSET h f:{i} v
        ",
    ),
    Scenario::new(
        "fields with a time to live",
        "
        fill HSET h | f:{i} v
        > all HEXPIRE h 100000 FIELDS {n} | f:{i}
        > all HTTL h FIELDS {n} | f:{i}
        > all HPTTL h FIELDS {n} | f:{i}
        > all HEXPIRETIME h FIELDS {n} | f:{i}
        > all HPEXPIRETIME h FIELDS {n} | f:{i}
        > each/2 HPEXPIRE h {i+100000000} FIELDS 1 f:{i}
        > each/2 HEXPIREAT h {j+5000000000} FIELDS 1 f:{i}
        > all HPEXPIREAT h 9999999999000 FIELDS {n} | f:{i}
        > rest
        > x100 HGET h f:{r}
        > x100 HSET h f:{i} v
        > once HGETALL h
        > x100 HRANDFIELD h
        > x100 HSCAN h 0
        > all HGETEX h PERSIST FIELDS {n} | f:{i}
        > all HGETEX h EX 10000 FIELDS {n} | f:{i}
        > all HPERSIST h FIELDS {n} | f:{i}
        > all HSETEX h EX 10000 FIELDS {n} | f:{i} v
        > each/2 HGETDEL h FIELDS 1 f:{i}
        > all HGETDEL h FIELDS {n} | f:{i}
        ",
    ),
    Scenario::new(
        "fields that expire at one moment",
        "
        fill HSET h | f:{i} v
        > all HPEXPIRE h 100 FIELDS {n} | f:{i}
        > gone
        fill HSET h | f:{i} v
        > all HPEXPIREAT h 1 FIELDS {n} | f:{i}
        ",
    ),
    Scenario::new(
        "fields that are gone but not removed yet",
        "
        once DEBUG SET-ACTIVE-EXPIRE 0
        fill HSET h | f:{i} v
        once HSET h stays v
        all HPEXPIRE h 1 FIELDS {n} | f:{i}
        rest
        > once HRANDFIELD h
        > x20 HLEN h
        > once HGETALL h
        > x100 HSCAN h 0
        > each HGET h f:{i}
        once DEBUG SET-ACTIVE-EXPIRE 1
        ",
    ),
    Scenario::new(
        "hashes that are deleted before their fields expire",
        "
        > each HSET h:{i} f v ; HEXPIRE h:{i} 1000000 FIELDS 1 f
        > rest
        > fill DEL | h:{i}
        each HSET h f v ; HEXPIRE h 1000000 FIELDS 1 f ; DEL h
        each HSET h:{i} f v ; HEXPIRE h:{i} 1000000 FIELDS 1 f ; RENAME h:{i} g:{i}
        each SET g:{i} v
        > rest
        ",
    ),
];

//! SORT on lists, sets and sorted sets.

use super::Family;

/// SORT on lists, sets and sorted sets, by themselves and by other keys.
pub const SORT: Family = Family {
    name: "sort",
    // SORT makes the oracle turn a sorted set into a skiplist; so they all are.
    args: &["--zset-max-listpack-entries", "0"],
    pipelined: true,
    reset: &[],
    newer_lines: &[],
    lines: &[
        (8, "RPUSH key small-int..."),
        (4, "RPUSH key member..."),
        (6, "!SADD key small-int..."),
        (6, "ZADD key (score small-int)..."),
        (6, "MSET (weight-key int)..."),
        (4, "HSET weight-hash =f int"),
        (14, "!SORT key [BY sort-by] [LIMIT few few] [GET sort-get]... [ASC | DESC]"),
        (10, "!SORT key ALPHA [LIMIT few few] [ASC | DESC] [STORE key]"),
        (8, "!SORT key [BY sort-by] [GET sort-get]... [DESC] [STORE key]"),
        (3, "SORT key sort-get"),
        (2, "SORT key [LIMIT few few] [ALPHA]"),
        (8, "!SORT_RO key [BY sort-by] [LIMIT few few] [GET sort-get]... [ASC | DESC]"),
        (3, "LRANGE key 0 -1"),
        (2, "TYPE key"),
        (2, "DEL key"),
        (1, "SET key value"),
    ],
};

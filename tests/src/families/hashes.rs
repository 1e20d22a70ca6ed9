//! Hashes.

use super::Family;

/// Hashes: fields, counters, random fields, scans, encodings.
pub const HASHES: Family = Family {
    name: "hashes",
    args: &["--hash-max-listpack-entries", "6", "--hash-max-listpack-value", "20"],
    pipelined: true,
    reset: &[],
    lines: &[
        (16, "HSET key (member value-short)..."),
        (4, "HSET key member value"),
        (4, "HMSET key (member value-short)..."),
        (5, "HSETNX key member value-short"),
        (6, "HGET key member"),
        (5, "HMGET key member..."),
        (6, "HGETALL key"),
        (3, "HKEYS key"),
        (3, "HVALS key"),
        (8, "HDEL key member..."),
        (3, "HLEN key"),
        (3, "HEXISTS key member"),
        (3, "HSTRLEN key member"),
        (6, "HINCRBY key member int"),
        (6, "HINCRBYFLOAT key member float"),
        (4, "!HRANDFIELD key [random-count [WITHVALUES]]"),
        (4, "!HSCAN key scan-start [MATCH pattern] COUNT all"),
        (4, "OBJECT ENCODING key"),
        (1, "TYPE key"),
        (2, "SET key value"),
        (1, "GET key"),
        (2, "COPY key key [REPLACE]"),
        (2, "RENAME key key"),
        (2, "EXPIRE key seconds"),
        (2, "DEL key"),
    ],
};

//! Sets.

use super::Family;

/// Sets: members, random ones, algebra, encodings.
pub const SETS: Family = Family {
    name: "sets",
    args: &["--set-max-intset-entries", "6"],
    pipelined: true,
    reset: &[],
    lines: &[
        (14, "SADD key member..."),
        (8, "SADD key small-int..."),
        (3, "SADD key value..."),
        (8, "SREM key member..."),
        (4, "SREM key small-int..."),
        (3, "SCARD key"),
        (4, "SISMEMBER key member"),
        (4, "SMISMEMBER key member..."),
        (6, "SMEMBERS key"),
        (5, "SMOVE key key member"),
        (2, "!SPOP key all"),
        (1, "!SPOP key limit-zero"),
        (1, "!SPOP key all all"),
        (3, "!SRANDMEMBER key [random-count]"),
        (5, "SINTER key..."),
        (5, "SUNION key..."),
        (5, "SDIFF key..."),
        (5, "SINTERSTORE key key..."),
        (5, "SUNIONSTORE key key..."),
        (5, "SDIFFSTORE key key..."),
        (6, "SINTERCARD numkeys key... [LIMIT limit]"),
        (4, "!SSCAN key scan-start [MATCH pattern] COUNT all"),
        (4, "OBJECT ENCODING key"),
        (1, "TYPE key"),
        (2, "SET key value"),
        (1, "GET key"),
        (2, "COPY key key [REPLACE]"),
        (2, "RENAME key key"),
        (2, "EXPIRE key seconds"),
        (2, "DEL key"),
        (1, "EXISTS key..."),
    ],
};

//! Lists.

use super::Family;

/// Lists: both ends, positions, values, moves, encodings. Nothing that would wait.
pub const LISTS: Family = Family {
    name: "lists",
    args: &["--list-max-listpack-size", "6"],
    pipelined: true,
    reset: &[],
    newer_lines: &[],
    lines: &[
        (10, "LPUSH key member..."),
        (10, "RPUSH key member..."),
        (3, "RPUSH key value..."),
        (3, "LPUSHX key member..."),
        (3, "RPUSHX key member..."),
        (5, "LPOP key [few]"),
        (5, "RPOP key [few]"),
        (2, "LLEN key"),
        (6, "LRANGE key small-index small-index"),
        (4, "LINDEX key small-index"),
        // No number past 32 bits: in 8.2 an index wraps around, and the least count is refused.
        (4, "!LSET key (0 | 1 | 2 | 5 | -1 | -3 | 100 | -100) member"),
        (5, "LINSERT key (BEFORE | AFTER) member member"),
        (6, "!LREM key (0 | 1 | 2 | 5 | -1 | -3 | 100 | -100 | =abc) member"),
        (3, "LTRIM key small-index small-index"),
        (6, "LPOS key member [RANK rank] [COUNT few] [MAXLEN few]"),
        (5, "LMOVE key key (LEFT | RIGHT) (LEFT | RIGHT)"),
        (3, "RPOPLPUSH key key"),
        (5, "LMPOP numkeys key... (LEFT | RIGHT) [COUNT few]"),
        (2, "!BLPOP key... 0.01"),
        (2, "!BRPOP key... 0.01"),
        (2, "!BLMOVE key key (LEFT | RIGHT) (LEFT | RIGHT) 0.01"),
        (2, "!BRPOPLPUSH key key 0.01"),
        (1, "!BLPOP key wait"),
        (2, "!BLMPOP 0.01 numkeys key... (LEFT | RIGHT) [COUNT few]"),
        (3, "OBJECT ENCODING key"),
        (1, "TYPE key"),
        (2, "SET key value"),
        (1, "GET key"),
        (2, "COPY key key [REPLACE]"),
        (2, "RENAME key key"),
        (2, "EXPIRE key seconds"),
        (2, "DEL key"),
    ],
};

//! Client-side caching: what a client is told of its own changes, between its replies.

use super::Family;

/// Options, and what is read and changed. BCAST only fails here: what it tells comes behind whatever one read has brought. There are
/// no transactions: in Redis, one that turns tracking off is still told of what it changed before.
pub const TRACKING: Family = Family {
    name: "tracking",
    args: &[],
    pipelined: true,
    reset: &[],
    newer_lines: &[],
    lines: &[
        (8, "CLIENT TRACKING ON"),
        (3, "CLIENT TRACKING ON NOLOOP"),
        (5, "CLIENT TRACKING ON OPTIN"),
        (3, "CLIENT TRACKING ON OPTOUT"),
        (3, "CLIENT TRACKING OFF"),
        (2, "CLIENT TRACKING (ON | OFF) [OPTIN] [OPTOUT] [NOLOOP] [REDIRECT 999999]"),
        (2, "CLIENT TRACKING ON [OPTIN] PREFIX key"),
        (1, "CLIENT TRACKING ON BCAST OPTIN PREFIX key"),
        (1, "CLIENT TRACKING name [value]"),
        (6, "CLIENT CACHING YES"),
        (3, "CLIENT CACHING NO"),
        (1, "CLIENT CACHING name"),
        (3, "CLIENT TRACKINGINFO"),
        (2, "CLIENT GETREDIR"),
        (1, "RESET"),
        (14, "GET key"),
        (6, "MGET key..."),
        (4, "EXISTS key..."),
        (3, "LRANGE key 0 -1"),
        (12, "SET key value"),
        (5, "MSET (key value)..."),
        (5, "DEL key..."),
        (4, "INCR key"),
        (3, "RPUSH key value..."),
        (3, "RENAME key key"),
        (2, "SELECT db"),
    ],
};

//! Pub/sub: what a client gets that publishes and listens itself, and what others publish for it.

use super::Family;

/// Subscriptions and messages. No channel matches two patterns, and no subscriptions end together: their order is the hash's.
pub const PUBSUB: Family = Family {
    name: "pubsub",
    args: &[],
    pipelined: true,
    reset: &[],
    newer_lines: &[],
    lines: &[
        (8, "!SUBSCRIBE chan..."),
        (6, "!PSUBSCRIBE chan-pattern..."),
        (6, "!SSUBSCRIBE chan..."),
        (6, "!UNSUBSCRIBE chan..."),
        (4, "!PUNSUBSCRIBE chan-pattern..."),
        (4, "!SUNSUBSCRIBE chan..."),
        (24, "PUBLISH chan value"),
        (12, "SPUBLISH chan value"),
        (2, "!PUBSUB CHANNELS chan"),
        (2, "!PUBSUB CHANNELS chan value"),
        (3, "PUBSUB NUMSUB chan..."),
        (2, "PUBSUB NUMPAT"),
        (2, "!PUBSUB SHARDCHANNELS chan"),
        (3, "PUBSUB SHARDNUMSUB chan..."),
        (1, "PUBSUB name"),
        (4, "PING [value]"),
        (2, "RESET"),
        (3, "ECHO value"),
        (3, "GET key"),
        (1, "name [value]"),
    ],
};

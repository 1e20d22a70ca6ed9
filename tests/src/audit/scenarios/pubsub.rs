//! Messages, and who listens.

use crate::audit::script::Scenario;

/// The scenarios of this family. A client that speaks RESP3 goes on with other commands after it has subscribed.
pub const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "subscribers of one channel",
        "
        > connect/12 SUBSCRIBE c
        > once PUBLISH c message
        > wake
        > x20 PUBLISH c message
        > rest
        > x100 PUBLISH other message
        > x20 PUBSUB NUMSUB c
        > x20 PUBSUB CHANNELS
        > vanish
        > x100 PUBLISH c message
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "subscribers of one pattern",
        "
        > connect/25 PSUBSCRIBE c*
        > x20 PUBLISH channel message
        > wake
        > vanish
        > connect/25 SSUBSCRIBE c
        > x20 SPUBLISH c message
        > wake
        > vanish
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "one client with many channels",
        "
        once HELLO 3
        > each SUBSCRIBE c:{i}
        > each SSUBSCRIBE c:{i}
        > x100 PUBLISH nobody message
        > each PUBLISH nobody:{i} message
        > each SPUBLISH nobody:{i} message
        > x20 PUBSUB CHANNELS nothing
        > x20 PUBSUB SHARDCHANNELS nothing
        > all PUBSUB NUMSUB | c:{i}
        > all PUBSUB SHARDNUMSUB | c:{i}
        > each/2 UNSUBSCRIBE c:{i}
        > each/2 SUNSUBSCRIBE c:{i}
        > once RESET
        > rest
        > x20 PUBSUB CHANNELS
        ",
    ),
    Scenario::new(
        "one client with many patterns",
        "
        once HELLO 3
        > each/10 PSUBSCRIBE p:{i}:*
        > x100 PUBSUB NUMPAT
        > x20 PUBLISH c message
        > x20 PUBLISH p:1: message
        > each/20 PUNSUBSCRIBE p:{i}:*
        > once RESET
        > x100 PUBLISH c message
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "clients that monitor",
        "
        > connect/1000 MONITOR
        > each/100 SET k:{i} v
        > rest
        > vanish
        > each SET k:{i} v
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "keyspace events",
        "
        > each SET k:{i} v
        > all MSET | k:{i} v
        connect/1000 PSUBSCRIBE __key*
        > each/100 SET k:{i} v
        > rest
        > vanish
        > all DEL | k:{i}
        ",
    )
    .with(&["--notify-keyspace-events", "KEA"])
    .up_to(100_000),
];

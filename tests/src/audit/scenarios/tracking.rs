//! Clients that keep copies of what they read, and what it costs to tell them.

use crate::audit::script::Scenario;

/// The scenarios of this family. A client in RESP2 is told nothing, but all the rest is done for it.
pub const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "a client that tracks many keys",
        "
        > once CLIENT TRACKING ON
        > each GET k:{i}
        > x20 INFO stats
        > x100 GET k:1
        > x100 SET other v
        > each SET k:{i} v
        > all MGET | k:{i}
        > all DEL | k:{i}
        > each EXISTS k:{i}
        > once FLUSHALL
        > each GET k:{i}
        > once CLIENT TRACKING OFF
        > rest
        > x100 SET k:1 v
        ",
    ),
    Scenario::new(
        "more keys than the table may have",
        "
        once CLIENT TRACKING ON
        > each GET k:{i}
        > all MGET | k:{i}
        > each SET k:{i} v
        > once CLIENT TRACKING OFF
        ",
    )
    .with(&["--tracking-table-max-keys", "1000"]),
    Scenario::new(
        "a client that chooses what is tracked",
        "
        once CLIENT TRACKING ON OPTIN
        > each CLIENT CACHING YES ; GET k:{i} ; GET l:{i}
        > each SET k:{i} v ; SET l:{i} v
        ",
    ),
    Scenario::new(
        "readers of one key",
        "
        raw/100 HELLO 3\\r\\nCLIENT TRACKING ON\\r\\nGET k\\r\\n
        rest
        > once SET k v
        > x100 SET k v
        > once FLUSHALL
        > rest
        > vanish
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "clients told of a prefix each",
        "
        > connect/100 CLIENT TRACKING ON BCAST PREFIX k:{i}:
        > x20 INFO stats
        > each SET k:{i}: v
        > x100 SET other v
        > vanish
        > x100 SET k:1: v
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "clients told of all keys",
        "
        raw/100 HELLO 3\\r\\nCLIENT TRACKING ON BCAST PREFIX k\\r\\n
        rest
        > each/100 SET k:{i} v
        > all/100 MSET | k:{i} v
        > x100 SET other v
        > rest
        > vanish
        > each SET k:{i} v
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "a client told of many prefixes",
        "
        > all/10 CLIENT TRACKING ON BCAST | PREFIX p:{i}:
        > x20 CLIENT TRACKINGINFO
        > each/10 SET p:{i}: v
        > all/10 MSET | p:{i}: v
        > x100 SET other v
        > once CLIENT TRACKING OFF
        > x100 SET p:1: v
        ",
    )
    .up_to(100_000),
];

//! Transactions, and the keys that clients watch.

use crate::audit::script::Scenario;

/// The scenarios of this family.
pub const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "long transactions",
        "
        once MULTI
        > each SET k:{i} v
        > once EXEC
        once MULTI
        > each INCR n
        > once EXEC
        once MULTI
        > each GET k:{i}
        > once DISCARD
        > x100 MULTI ; SET a 1 ; GET a ; EXEC
        > x20 MULTI ; DBSIZE ; EXEC
        > once FLUSHALL
        > rest
        ",
    ),
    Scenario::new(
        "one client that watches many keys",
        "
        > each WATCH k:{i}
        > x100 SET other v
        > once UNWATCH
        > all WATCH | k:{i}
        > each SET k:{i} v
        > once MULTI
        >? once EXEC
        > once FLUSHALL
        > rest
        ",
    ),
    Scenario::new(
        "many clients that watch one key",
        "
        > connect/25 WATCH k
        > x100 SET other v
        > x20 SET k v
        > vanish
        > connect/25 WATCH k
        > x20 FLUSHDB
        > vanish
        > x20 SET k v
        > once FLUSHALL
        > rest
        ",
    )
    .up_to(100_000),
];

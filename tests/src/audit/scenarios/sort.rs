//! SORT.

use crate::audit::script::Scenario;

/// The scenarios of this family.
pub const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "lists to sort",
        "
        fill RPUSH up | {i}
        fill RPUSH down | {j}
        fill RPUSH same | 5
        fill RPUSH mixed | {r}
        fill RPUSH saw | {i%10}
        > once SORT up
        > once SORT down
        > once SORT same
        > once SORT mixed
        > once SORT saw
        > once SORT mixed ALPHA DESC
        > once SORT same ALPHA
        > once SORT_RO mixed LIMIT 0 10
        > x20 SORT mixed BY nosort LIMIT 0 10
        > once SORT mixed BY nosort LIMIT {n-10} 10
        > once SORT up STORE d
        > once SORT same BY missing:* GET # GET other:*
        ",
    ),
    Scenario::new(
        "sorting by other keys",
        "
        fill RPUSH l | {i}
        fill MSET | w:{i} {j} t:{i} x
        fill HSET h | f {i}
        > once SORT l BY w:*
        > once SORT_RO l BY w:* GET t:* LIMIT 0 10
        > once SORT l BY w:* GET t:* STORE d
        > once SORT l BY h->f
        > all SORT l LIMIT 0 1 | GET t:*
        ",
    ),
    Scenario::new(
        "sets to sort",
        "
        fill SADD s | {i}
        fill ZADD z | {i} {j}
        > once SORT s
        > once SORT s BY nosort
        > once SORT s BY nosort STORE d
        > once SORT z
        > once SORT z BY nosort DESC LIMIT 0 10
        ",
    ),
];

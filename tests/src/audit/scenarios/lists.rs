//! Lists.

use crate::audit::script::Scenario;

/// The scenarios of this family.
pub const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "a list, element by element",
        "
        > each RPUSH l e:{i}
        > each/4 LPUSH l e:{i}
        > each/4 RPUSHX l e:{i}
        > each/4 LPUSHX l e:{i}
        > each/4 LMOVE l l LEFT RIGHT
        > each/4 RPOPLPUSH l l
        > each/4 BRPOPLPUSH l l 1
        > each/4 BLMOVE l l RIGHT LEFT 1
        > each/2 LPOP l
        > each/2 RPOP l
        > each/4 BLPOP l 1
        > each/4 BRPOP l 1
        ",
    ),
    Scenario::new(
        "a list, all in one command",
        "
        > all RPUSH l | e:{i}
        > all LPUSH l | e:{i}
        > all LPUSHX l | e:{i}
        > all RPUSHX l | e:{i}
        > once LPOP l {n}
        > once RPOP l {n}
        > once LMPOP 1 l LEFT COUNT {n}
        > once BLMPOP 1 1 l RIGHT COUNT {n}
        ",
    ),
    Scenario::new(
        "both ends and the middle of a list",
        "
        fill RPUSH l | e:{i}
        > x100 LLEN l
        > x100 LINDEX l 0
        > x100 LINDEX l -1
        > x100 LINDEX l {n/2}
        > x100 LINDEX l {r}
        > x100 LSET l 0 v:{i}
        > x100 LSET l -1 v:{i}
        > x100 LSET l {n/2} v:{i}
        > x100 LRANGE l 0 9
        > x100 LRANGE l -10 -1
        > x20 LRANGE l {n/2} {n/2+10}
        > once LRANGE l 0 -1
        > x100 LINSERT l BEFORE e:5 new
        > x20 LINSERT l AFTER e:{n-5} new
        > x20 LINSERT l AFTER e:{n/2} new
        > x5 LINSERT l BEFORE missing new
        > x100 LPOS l e:5
        > x100 LPOS l e:{n-5} RANK -1
        > x5 LPOS l e:{n-5}
        > x5 LPOS l missing COUNT 0
        > x100 LPOS l missing MAXLEN 10
        > x100 LREM l 1 e:{i+10}
        > x100 LREM l -1 e:{n-10}
        > x5 LREM l 1 e:{n/2}
        > x5 LREM l 0 missing
        > x100 LTRIM l 1 -2
        > x100 LREM l 1 new
        > once LTRIM l {n/2} -1
        > once LTRIM l -5 -1
        > x20 LINDEX l -1
        > once DEL l
        ",
    ),
    Scenario::new(
        "a list of equal elements",
        "
        fill RPUSH l | e
        fill RPUSH m | e
        > x100 LREM l 1 e
        > x100 LREM l -1 e
        > once LPOS l e COUNT 0
        > x100 LPOS l e
        > x5 LINSERT l AFTER x e
        > once LREM l {n/2} e
        > once LREM m -{n/2} e
        > once LREM l 0 e
        ",
    ),
    Scenario::new(
        "a list whose elements grow and shrink in place",
        "
        fill RPUSH l | e
        > x500 LSET l {r} {i:0600}
        > x500 LSET l {r} {i:02000}
        > x500 LSET l {r} x
        > each/100 LSET l {r} {i:0100}
        > once LRANGE l 0 -1
        > x100 LINDEX l {r}
        ",
    ),
    Scenario::new(
        "inserts at one place of a list",
        "
        once RPUSH l first pivot
        > each LINSERT l BEFORE pivot e:{i}
        > x100 LINSERT l AFTER first e:{i}
        ",
    )
    .up_to(10_000),
    Scenario::new(
        "a list of long elements",
        "
        each/100 RPUSH l {bytes*0}{i:020000}
        > x20 LINDEX l 0
        > x20 LINDEX l -1
        > x20 LPOS l {i:020000}
        > x20 LSET l 0 {i:020000}
        > x20 LMOVE l l LEFT RIGHT
        > x20 LRANGE l 0 0
        > x20 LREM l 1 x
        > each/100 LPOP l
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "pops from the last of many lists",
        "
        once RPUSH full a b c d e f g h
        > all LMPOP {n+1} | missing:{i} | full LEFT
        > all BLMPOP 1 {n+1} | missing:{i} | full LEFT
        > all BLPOP | missing:{i} | full 1
        > all BRPOP | missing:{i} | full 1
        ",
    ),
    Scenario::new(
        "two lists and many moves",
        "
        fill RPUSH a | e:{i}
        > each LMOVE a b RIGHT LEFT
        > each RPOPLPUSH b a
        ",
    ),
];

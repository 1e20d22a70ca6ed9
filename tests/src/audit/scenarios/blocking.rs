//! Clients that wait.

use crate::audit::script::Scenario;

/// The scenarios of this family. With 25 to a client, a size of 100,000 is 4,000 clients.
pub const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "one client waits for many keys",
        "
        > all BLPOP | missing:{i} | 0.01
        > all BRPOP | missing:{i} | 0.01
        > all BZPOPMIN | missing:{i} | 0.01
        > all BZPOPMAX | missing:{i} | 0.01
        > all BLMPOP 0.01 {n} | missing:{i} | LEFT
        > all BZMPOP 0.01 {n} | missing:{i} | MIN
        > all BLPOP | same | 0.01
        > x3 BLMOVE missing:{i} d LEFT LEFT 0.001
        > x3 BRPOPLPUSH missing:{i} d 0.001
        > x3 XREAD BLOCK 1 STREAMS missing:{i} $
        ",
    ),
    Scenario::new(
        "clients wait for one list, pushes one by one",
        "
        > clients/25 BLPOP q 0
        > rest
        > each/25 RPUSH q v
        > wake
        > vanish
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "clients wait for one list, pushed at once",
        "
        > clients/25 BRPOP q 0
        > all/25 RPUSH q | e:{i}
        > wake
        > vanish
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "clients wait for one list and vanish",
        "
        clients/25 BLPOP q 0
        > x20 PING
        > vanish
        > x100 RPUSH q v
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "clients wait for a list that becomes something else",
        "
        clients/25 BLPOP q 0
        > x100 SET q v
        > x100 SET q v ; DEL q
        > x100 SADD q m ; DEL q
        > x100 SET p v ; RENAME p q
        > x100 EXPIRE q 1000
        > once DEL q
        > x20 FLUSHALL
        > x20 SWAPDB 0 1
        > vanish
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "clients that push to what they wait for",
        "
        clients/25 BLMOVE q q LEFT RIGHT 0
        > once RPUSH q v
        > wake
        > vanish
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "clients that push to the next",
        "
        clients/25 BRPOPLPUSH q:{i} q:{i+1} 0
        > once RPUSH q:0 v
        > wake
        > vanish
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "clients wait for a key each",
        "
        > clients/25 BLPOP q:{i} 0
        > each/25 RPUSH q:{i} v
        > wake
        > clients/25 BZPOPMIN z:{i} 0
        > all/25 MSET | other:{i} v
        > vanish
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "clients wait for many keys each",
        "
        > clients/50 BLPOP a b c d e f g h i j k l m n o p 0
        > each/50 RPUSH p v
        > wake
        > vanish
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "clients wait for one sorted set",
        "
        clients/25 BZPOPMIN z 0
        > each/50 ZADD z {i} m:{i}
        > all/50 ZADD z | {i} n:{i}
        > wake
        > clients/25 BZMPOP 0 1 z MAX
        > each/25 ZADD z {i} m:{i}
        > vanish
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "clients wait for one stream",
        "
        > clients/25 XREAD BLOCK 0 STREAMS x $
        > once XADD x * f v
        > wake
        vanish
        once XGROUP CREATE x g $
        > clients/25 XREADGROUP GROUP g c{i} BLOCK 0 STREAMS x >
        > each/25 XADD x * f v
        > wake
        vanish
        > clients/25 XREADGROUP GROUP g c{i} BLOCK 0 STREAMS x >
        > once XGROUP DESTROY x g
        > wake
        > vanish
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "clients that stop waiting at one moment",
        "
        > raw/100 *3\\r\\n$5\\r\\nBLPOP\\r\\n$1\\r\\nq\\r\\n$3\\r\\n0.8\\r\\n
        > wake
        > vanish
        ",
    )
    .up_to(100_000),
];

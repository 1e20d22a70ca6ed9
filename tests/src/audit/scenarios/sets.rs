//! Sets.

use crate::audit::script::Scenario;

/// The scenarios of this family.
pub const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "a set of words",
        "
        > each SADD e m:{i}
        > all SADD s | m:{i}
        > all SADD s | m:{i}
        > x100 SCARD s
        > x100 SISMEMBER s m:{r}
        > x100 SISMEMBER s missing
        > all SMISMEMBER s | m:{i}
        > once SMEMBERS s
        > x100 SRANDMEMBER s
        > x20 SRANDMEMBER s 10
        > x20 SRANDMEMBER s -10
        > once SRANDMEMBER s {n/2}
        > once SRANDMEMBER s {n-2}
        > once SRANDMEMBER s -{n}
        > x100 SSCAN s 0
        > x20 SSCAN s 0 MATCH nothing COUNT 1000
        > each/10 SMOVE s d m:{i}
        > each/10 SREM s m:{j}
        > each/4 SPOP s
        > once SPOP s {n/4}
        > x100 SRANDMEMBER s
        > x100 SSCAN s 0
        > all SREM s | m:{i}
        > once SPOP e {n-1}
        > x100 SRANDMEMBER e
        > x100 SPOP e ; SADD e x
        > once DEL e
        ",
    ),
    Scenario::new(
        "a set in its own order",
        "
        all SADD s | m:{i}
        order SMEMBERS s
        > all SADD d | {o}
        > each SADD e {o}
        > once SUNION s
        > once SUNIONSTORE u s
        > once SINTERSTORE i s
        > once SDIFFSTORE f s
        > each SMOVE e g {o}
        > each SREM d {o}
        > all SREM g | {o}
        > all SMISMEMBER s | {o}
        ",
    ),
    Scenario::new(
        "a set of long members in its own order",
        "
        fill/4 SADD s | {i:0120}
        order SMEMBERS s
        > all/4 SADD d | {o}
        > once SUNIONSTORE u s
        > once SUNION s d
        > all/4 SREM d | {o}
        ",
    ),
    Scenario::new(
        "sets of numbers",
        "
        > all SADD up | {i}
        > all SADD down | {j}
        > each SADD e {r}
        order SMEMBERS up
        > all SADD again | {o}
        > once SUNIONSTORE u up down
        > once SINTERSTORE i up down
        > once SDIFFSTORE f up down
        > each SREM up {i}
        > each SREM down {j}
        > once SADD again word
        > once SPOP again {n/2}
        ",
    ),
    Scenario::new(
        "a small set of numbers that gets a word",
        "
        all/4 SADD s | {i}
        > once SADD s word
        > x100 SREM s word ; SADD s word
        > each/4 SREM s {i}
        ",
    ),
    Scenario::new(
        "large sets together",
        "
        fill SADD a | m:{i}
        fill SADD b | m:{i+7}
        fill SADD c | x:{i}
        once SADD one m:1
        > once SINTER a b
        > once SINTERSTORE d a b
        > once SINTERCARD 2 a b
        > x20 SINTERCARD 2 a b LIMIT 1
        > x100 SINTER a one
        > x100 SINTER a missing
        > x20 SINTER one one one a
        > once SUNION a b
        > once SUNIONSTORE d a c
        > once SUNIONSTORE d a b c
        > once SDIFF a b
        > once SDIFFSTORE d a b
        > once SDIFFSTORE d a c
        > x20 SDIFF one a b c
        > once SDIFF a one
        > once SUNIONSTORE a a b
        > once SINTERSTORE b a b
        > once SDIFFSTORE c c c
        ",
    ),
    Scenario::new(
        "one set many times in one command",
        "
        once SADD s a b c d e
        > all SINTER | s
        > all SUNION | s
        > all SDIFF | s
        > all SINTERSTORE d | s
        > all SUNIONSTORE d | s
        > all SDIFFSTORE d | s
        > all SINTERCARD {n} | s
        ",
    ),
    Scenario::new(
        "many sets in one command",
        "
        each SADD s:{i} m:{i} all
        > all SUNION | s:{i}
        > all SUNIONSTORE d | s:{i}
        > all SINTER | s:{i}
        > all SINTERSTORE d | s:{i}
        > all SINTERCARD {n} | s:{i}
        > all SDIFF | s:{i}
        > all SDIFFSTORE d | s:{i}
        > all SUNION | missing:{i}
        > all SINTER | missing:{i}
        > all SDIFF d | missing:{i}
        > all SUNIONSTORE d | missing:{i}
        ",
    ),
    Scenario::new(
        "a set that was large",
        "
        all SADD s | m:{i}
        order SMEMBERS s
        > all SREM s | {o}
        fill SADD s | m:{i}
        > each SPOP s
        fill SADD s | m:{i}
        > once SPOP s {n-1}
        > x100 SPOP s ; SADD s x
        > x20 SSCAN s 0
        > x20 SMEMBERS s
        ",
    ),
];

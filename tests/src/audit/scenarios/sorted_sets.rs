//! Sorted sets.

use crate::audit::script::Scenario;

/// What is asked of a sorted set `z`, whatever its scores.
macro_rules! questions {
    () => {
        "
        > x100 ZCARD z
        > x100 ZSCORE z m:{r:08}
        > x100 ZRANK z m:{r:08}
        > x100 ZREVRANK z m:{r:08}
        > all ZMSCORE z | m:{i:08}
        > x100 ZRANGE z 0 9
        > x100 ZRANGE z -10 -1
        > x100 ZREVRANGE z 0 9
        > x100 ZRANGE z {n/2} {n/2+9} WITHSCORES
        > x100 ZRANGE z {n/2} {n/2+9} REV
        > once ZRANGE z 0 -1
        > x20 ZRANGEBYSCORE z -inf +inf LIMIT 0 10
        > x20 ZREVRANGEBYSCORE z +inf -inf LIMIT 0 10
        > x5 ZRANGEBYSCORE z -inf +inf LIMIT {n-10} 10
        > x5 ZREVRANGEBYSCORE z +inf -inf LIMIT {n-10} 10
        > x100 ZRANGEBYSCORE z {n-5} +inf LIMIT 0 10
        > x20 ZRANGEBYLEX z - + LIMIT 0 10
        > x20 ZREVRANGEBYLEX z + - LIMIT 0 10
        > x5 ZRANGEBYLEX z - + LIMIT {n-10} 10
        > x100 ZRANGEBYLEX z [m:{r:08} + LIMIT 0 10
        > x100 ZREVRANGEBYLEX z [m:{r:08} - LIMIT 0 10
        > x100 ZCOUNT z -inf +inf
        > x100 ZCOUNT z {r} +inf
        > x100 ZLEXCOUNT z - +
        > x100 ZLEXCOUNT z [m:{r:08} +
        > x100 ZSCAN z 0
        > x20 ZSCAN z 0 COUNT 100 MATCH nothing
        > x100 ZRANDMEMBER z
        > x20 ZRANDMEMBER z 10
        > once ZRANDMEMBER z {n/2} WITHSCORES
        > once ZRANDMEMBER z {n-2} WITHSCORES
        > once ZRANDMEMBER z -{n}
        > once ZRANGESTORE d z 0 -1
        > x20 ZRANGESTORE d z 0 9
        > once SORT z BY nosort LIMIT 0 10
        > x100 ZADD z 0 m:{r:08}
        > x100 ZADD z {n} m:{r:08}
        > each ZADD z {j} m:{i:08}
        > each ZINCRBY z 1000000 m:{i:08}
        > x100 ZPOPMIN z
        > x100 ZPOPMAX z
        > x100 ZREMRANGEBYRANK z 0 0
        > x100 ZREMRANGEBYRANK z -1 -1
        > x100 ZREMRANGEBYRANK z {n/2} {n/2}
        > x100 ZREMRANGEBYSCORE z {r} {r}
        > x100 ZREMRANGEBYLEX z [m:{r:08} [m:{r:08}
        > each/4 ZREM z m:{i:08}
        > x100 ZRANDMEMBER z
        > once ZREMRANGEBYRANK z 0 {n/4}
        > all ZREM z | m:{j:08}
        "
    };
}

/// The scenarios of this family.
pub const SCENARIOS: &[Scenario] = &[
    Scenario::new("a sorted set of rising scores", concat!("> all ZADD z | {i} m:{i:08}", questions!())),
    Scenario::new("a sorted set of equal scores", concat!("> all ZADD z | 0 m:{i:08}", questions!())),
    Scenario::new("a sorted set, member by member from the end", concat!("> each ZADD z {j} m:{i:08}", questions!())),
    Scenario::new(
        "a sorted set of two scores",
        "
        fill ZADD z | {i%2} m:{i}
        > x100 ZSCAN z 0
        > x100 ZRANK z m:{r}
        > x100 ZRANGEBYSCORE z 1 1 LIMIT 0 10
        > x100 ZREVRANGEBYSCORE z 0 0 LIMIT 0 10
        > x100 ZCOUNT z 1 1
        > once ZREMRANGEBYSCORE z 1 1
        > once ZREMRANGEBYLEX z - +
        ",
    ),
    Scenario::new(
        "a sorted set in its own order",
        "
        all ZADD z | 1 m:{i}
        order ZRANGE z 0 -1
        > all ZADD d | 1 {o}
        > each ZADD e 1 {o}
        > each ZREM e {o}
        > each ZINCRBY d 1 {o}
        > all ZMSCORE z | {o}
        > all ZREM d | {o}
        ",
    ),
    Scenario::new(
        "a sorted set in the order of a set",
        "
        fill SADD s | m:{i}
        order SMEMBERS s
        > all ZADD d | 1 {o}
        > each ZADD e {i} {o}
        > once ZUNIONSTORE u 1 s
        > once ZINTERSTORE t 2 s u
        > once ZDIFFSTORE f 1 s
        > each ZREM e {o}
        ",
    ),
    Scenario::new(
        "pops from a sorted set",
        "
        fill ZADD z | {i} m:{i}
        > each/10 ZPOPMIN z
        > each/10 ZPOPMAX z
        > each/10 BZPOPMIN z 1
        > each/10 BZPOPMAX z 1
        > once ZPOPMIN z {n/10}
        > once ZPOPMAX z {n/10}
        > once ZMPOP 1 z MIN COUNT {n/10}
        > once BZMPOP 1 1 z MAX COUNT {n/10}
        > all ZMPOP {n+1} | missing:{i} | z MIN
        > all BZMPOP 1 {n+1} | missing:{i} | z MIN
        > all BZPOPMIN | missing:{i} | z 1
        > all BZPOPMAX | missing:{i} | z 1
        ",
    ),
    Scenario::new(
        "large sorted sets together",
        "
        fill ZADD a | {i} m:{i}
        fill ZADD b | 0 m:{i+7}
        fill SADD c | x:{i}
        once ZADD one 1 m:1
        > once ZUNION 2 a b
        > once ZUNIONSTORE d 2 a b WEIGHTS 2 3 AGGREGATE MAX
        > once ZUNIONSTORE d 3 a b c
        > once ZINTER 2 a b WITHSCORES
        > once ZINTERSTORE d 2 a b
        > once ZINTERCARD 2 a b
        > x20 ZINTERCARD 2 a b LIMIT 1
        > x100 ZINTER 2 a one
        > x20 ZINTERSTORE d 3 one a b
        > once ZDIFF 2 a b
        > once ZDIFFSTORE d 2 a c
        > x20 ZDIFF 3 one a b
        > once ZDIFF 2 a one
        > once ZUNIONSTORE a 2 a b
        > once ZRANGESTORE a a 0 -1
        ",
    ),
    Scenario::new(
        "many sorted sets in one command",
        "
        each ZADD z:{i} 1 m:{i} 2 all
        > all ZUNION {n} | z:{i}
        > all ZUNIONSTORE d {n} | z:{i} | AGGREGATE MIN
        > all ZINTER {n} | z:{i}
        > all ZINTERSTORE d {n} | z:{i}
        > all ZINTERCARD {n} | z:{i}
        > all ZDIFF {n} | z:{i}
        > all ZDIFFSTORE d {n} | z:{i}
        > all ZUNION {n} | missing:{i}
        > all ZUNION {n} | z:0
        > all ZINTER {n} | z:0
        > all ZDIFF {n} | z:0
        ",
    ),
];

//! Rows of the command table: the sorted-set commands.

use crate::command::spec::{KeySpec, Spec};
use crate::commands::sets::algebra::Operation;
use crate::commands::sorted_sets::ranges::By;
use crate::commands::sorted_sets::{self, algebra, pops, ranges};

/// The sorted-set commands.
pub(crate) static SPECS: &[Spec] = &[
    Spec::sorted_set("zadd", "1.2.0", -4, "write denyoom fast short", sorted_sets::zadd)
        .syntax("key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]")
        .summary("Adds members to a sorted set or changes their scores; the set is made if it is not there.")
        .complexity("O(log N) for each member")
        .key("RW update")
        .member(3),
    Spec::sorted_set("zincrby", "1.2.0", 4, "write denyoom fast short", sorted_sets::zincrby)
        .syntax("key increment member")
        .summary("Adds to the score of a member.")
        .complexity("O(log N)")
        .key("RW access update")
        .member(3),
    Spec::sorted_set("zrem", "1.2.0", -3, "write fast short", sorted_sets::zrem)
        .syntax("key member [member ...]")
        .summary("Removes members from a sorted set; an empty set is deleted.")
        .complexity("O(M log N) for M members")
        .key("RW delete")
        .member(2),
    Spec::sorted_set("zremrangebyscore", "1.2.0", 4, "write", |ctx| ranges::remove(ctx, By::Score))
        .syntax("key min max")
        .summary("Removes the members within a range of scores.")
        .complexity("O(log N + M log N) for M members removed")
        .key("RW delete"),
    Spec::sorted_set("zremrangebyrank", "2.0.0", 4, "write", |ctx| ranges::remove(ctx, By::Rank))
        .syntax("key start stop")
        .summary("Removes the members within a range of ranks.")
        .complexity("O(log N + M log N) for M members removed")
        .key("RW delete"),
    Spec::sorted_set("zremrangebylex", "2.8.9", 4, "write", |ctx| ranges::remove(ctx, By::Lex))
        .syntax("key min max")
        .summary("Removes the members within a lexical range.")
        .complexity("O(log N + M log N) for M members removed")
        .key("RW delete"),
    Spec::sorted_set("zunionstore", "2.0.0", -4, "write denyoom", |ctx| algebra::store(ctx, Operation::Union))
        .syntax("destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX | COUNT>]")
        .summary("Stores the union of sorted sets.")
        .complexity("O(N log N) for N members in all")
        .keys(&[KeySpec::key("OW update"), KeySpec::numkeys("RO access", 2)])
        .history(&[("8.8.0", "`COUNT` among the aggregates.")]),
    Spec::sorted_set("zinterstore", "2.0.0", -4, "write denyoom", |ctx| algebra::store(ctx, Operation::Intersection))
        .syntax("destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX | COUNT>]")
        .summary("Stores the intersection of sorted sets.")
        .complexity("O(N*K log M), N the smallest set, K the number of sets")
        .keys(&[KeySpec::key("OW update"), KeySpec::numkeys("RO access", 2)])
        .history(&[("8.8.0", "`COUNT` among the aggregates.")]),
    Spec::sorted_set("zdiffstore", "6.2.0", -4, "write denyoom", |ctx| algebra::store(ctx, Operation::Difference))
        .syntax("destination numkeys key [key ...]")
        .summary("Stores the members of the first sorted set that none of the others has.")
        .complexity("O(N log N) for N members in all")
        .keys(&[KeySpec::key("OW update"), KeySpec::numkeys("RO access", 2)]),
    Spec::sorted_set("zunion", "6.2.0", -3, "readonly", |ctx| algebra::reply(ctx, Operation::Union))
        .syntax(
            "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX | COUNT>] [WITHSCORES]",
        )
        .summary("Returns the union of sorted sets.")
        .complexity("O(N log N) for N members in all")
        .keys(&[KeySpec::numkeys("RO access", 1)])
        .history(&[("8.8.0", "`COUNT` among the aggregates.")]),
    Spec::sorted_set("zinter", "6.2.0", -3, "readonly", |ctx| algebra::reply(ctx, Operation::Intersection))
        .syntax(
            "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX | COUNT>] [WITHSCORES]",
        )
        .summary("Returns the intersection of sorted sets.")
        .complexity("O(N*K log M), N the smallest set, K the number of sets")
        .keys(&[KeySpec::numkeys("RO access", 1)])
        .history(&[("8.8.0", "`COUNT` among the aggregates.")]),
    Spec::sorted_set("zintercard", "7.0.0", -3, "readonly", algebra::zintercard)
        .syntax("numkeys key [key ...] [LIMIT limit]")
        .summary("Counts the members that all of the sorted sets have.")
        .complexity("O(N*K log M), N the smallest set, K the number of sets")
        .keys(&[KeySpec::numkeys("RO access", 1)]),
    Spec::sorted_set("zdiff", "6.2.0", -3, "readonly", |ctx| algebra::reply(ctx, Operation::Difference))
        .syntax("numkeys key [key ...] [WITHSCORES]")
        .summary("Returns the members of the first sorted set that none of the others has.")
        .complexity("O(N log N) for N members in all")
        .keys(&[KeySpec::numkeys("RO access", 1)]),
    Spec::sorted_set("zrange", "1.2.0", -4, "readonly short", ranges::zrange)
        .syntax("key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]")
        .summary("Returns a range of members by rank, score or bytes.")
        .complexity("O(log N + M) for M members returned")
        .key("RO access"),
    Spec::sorted_set("zrangestore", "6.2.0", -5, "write denyoom", ranges::zrangestore)
        .syntax("dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]")
        .summary("Stores a range of members.")
        .complexity("O(log N + M log M) for M members stored")
        .keys(&[KeySpec::key("OW update"), KeySpec::keys("RO access", 2, 0, 1)]),
    Spec::sorted_set("zrangebyscore", "1.0.5", -4, "readonly", |ctx| ranges::range_by(ctx, By::Score, false))
        .syntax("key min max [WITHSCORES] [LIMIT offset count]")
        .summary("Returns the members within a range of scores.")
        .complexity("O(log N + M) for M members returned")
        .key("RO access")
        .deprecated("6.2.0", "`ZRANGE` with the `BYSCORE` argument"),
    Spec::sorted_set("zrevrangebyscore", "2.2.0", -4, "readonly", |ctx| ranges::range_by(ctx, By::Score, true))
        .syntax("key max min [WITHSCORES] [LIMIT offset count]")
        .summary("Returns the members within a range of scores, greatest first.")
        .complexity("O(log N + M) for M members returned")
        .key("RO access")
        .deprecated("6.2.0", "`ZRANGE` with the `REV` and `BYSCORE` arguments"),
    Spec::sorted_set("zrangebylex", "2.8.9", -4, "readonly", |ctx| ranges::range_by(ctx, By::Lex, false))
        .syntax("key min max [LIMIT offset count]")
        .summary("Returns the members within a lexical range.")
        .complexity("O(log N + M) for M members returned")
        .key("RO access")
        .deprecated("6.2.0", "`ZRANGE` with the `BYLEX` argument"),
    Spec::sorted_set("zrevrangebylex", "2.8.9", -4, "readonly", |ctx| ranges::range_by(ctx, By::Lex, true))
        .syntax("key max min [LIMIT offset count]")
        .summary("Returns the members within a lexical range, greatest first.")
        .complexity("O(log N + M) for M members returned")
        .key("RO access")
        .deprecated("6.2.0", "`ZRANGE` with the `REV` and `BYLEX` arguments"),
    Spec::sorted_set("zcount", "2.0.0", 4, "readonly fast short", |ctx| ranges::count(ctx, By::Score))
        .syntax("key min max")
        .summary("Counts the members within a range of scores.")
        .complexity("O(log N)")
        .key("RO access"),
    Spec::sorted_set("zlexcount", "2.8.9", 4, "readonly fast short", |ctx| ranges::count(ctx, By::Lex))
        .syntax("key min max")
        .summary("Counts the members within a lexical range.")
        .complexity("O(log N)")
        .key("RO access"),
    Spec::sorted_set("zrevrange", "1.2.0", -4, "readonly", |ctx| ranges::range_by(ctx, By::Rank, true))
        .syntax("key start stop [WITHSCORES]")
        .summary("Returns a range of members, greatest first.")
        .complexity("O(log N + M) for M members returned")
        .key("RO access")
        .deprecated("6.2.0", "`ZRANGE` with the `REV` argument"),
    Spec::sorted_set("zcard", "1.2.0", 2, "readonly fast short", sorted_sets::zcard)
        .syntax("key")
        .summary("Returns the number of members of a sorted set.")
        .key("RO"),
    Spec::sorted_set("zscore", "1.2.0", 3, "readonly fast short", sorted_sets::zscore)
        .syntax("key member")
        .summary("Returns the score of a member.")
        .complexity("O(log N)")
        .key("RO access")
        .member(2),
    Spec::sorted_set("zmscore", "6.2.0", -3, "readonly fast short", sorted_sets::zmscore)
        .syntax("key member [member ...]")
        .summary("Returns the scores of several members.")
        .complexity("O(M log N) for M members")
        .key("RO access"),
    Spec::sorted_set("zrank", "2.0.0", -3, "readonly fast short", |ctx| sorted_sets::rank(ctx, false))
        .syntax("key member [WITHSCORE]")
        .summary("Returns the rank of a member.")
        .complexity("O(log N)")
        .key("RO access")
        .member(2)
        .history(&[("7.2.0", "Option `WITHSCORE`.")]),
    Spec::sorted_set("zrevrank", "2.0.0", -3, "readonly fast short", |ctx| sorted_sets::rank(ctx, true))
        .syntax("key member [WITHSCORE]")
        .summary("Returns the rank of a member, counted from the greatest.")
        .complexity("O(log N)")
        .key("RO access")
        .member(2)
        .history(&[("7.2.0", "Option `WITHSCORE`.")]),
    Spec::sorted_set("zscan", "2.8.0", -3, "readonly", sorted_sets::zscan)
        .syntax("key cursor [MATCH pattern] [COUNT count] [NOSCORES]")
        .summary("Goes through the members of a sorted set step by step.")
        .complexity("O(1) for a call, O(N) for a whole scan")
        .key("RO access")
        .tips("nondeterministic_output"),
    Spec::sorted_set("zpopmin", "5.0.0", -2, "write fast short", |ctx| pops::pop(ctx, false))
        .syntax("key [count]")
        .summary("Removes the members with the least scores and returns them.")
        .complexity("O(M log N) for M members")
        .key("RW access delete"),
    Spec::sorted_set("zpopmax", "5.0.0", -2, "write fast short", |ctx| pops::pop(ctx, true))
        .syntax("key [count]")
        .summary("Removes the members with the greatest scores and returns them.")
        .complexity("O(M log N) for M members")
        .key("RW access delete"),
    Spec::sorted_set("zmpop", "7.0.0", -4, "write", pops::zmpop)
        .syntax("numkeys key [key ...] <MIN | MAX> [COUNT count]")
        .summary("Pops members from the first sorted set that is there.")
        .complexity("O(K + M log N), K the keys, M the members returned")
        .keys(&[KeySpec::numkeys("RW access delete", 1)]),
    Spec::sorted_set("bzpopmin", "5.0.0", -3, "write blocking fast", |ctx| pops::pop_or_wait(ctx, false))
        .syntax("key [key ...] timeout")
        .summary("Pops the least member of the first sorted set that is there, or waits for one.")
        .complexity("O(K + log N) for K keys")
        .keys(&[KeySpec::keys("RW access delete", 1, -2, 1)]),
    Spec::sorted_set("bzpopmax", "5.0.0", -3, "write blocking fast", |ctx| pops::pop_or_wait(ctx, true))
        .syntax("key [key ...] timeout")
        .summary("Pops the greatest member of the first sorted set that is there, or waits for one.")
        .complexity("O(K + log N) for K keys")
        .keys(&[KeySpec::keys("RW access delete", 1, -2, 1)]),
    Spec::sorted_set("bzmpop", "7.0.0", -5, "write blocking", pops::zmpop)
        .syntax("timeout numkeys key [key ...] <MIN | MAX> [COUNT count]")
        .summary("Pops members from the first sorted set that is there, or waits for one.")
        .complexity("O(K + M log N), K the keys, M the members returned")
        .keys(&[KeySpec::numkeys("RW access delete", 2)]),
    Spec::sorted_set("zrandmember", "6.2.0", -2, "readonly short", sorted_sets::zrandmember)
        .syntax("key [count [WITHSCORES]]")
        .summary("Returns random members of a sorted set.")
        .complexity("O(M log N) for M members")
        .key("RO access")
        .tips("nondeterministic_output"),
];

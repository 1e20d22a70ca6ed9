//! Rows of the command table: the set commands.

use crate::command::spec::{KeySpec, Spec};
use crate::commands::sets::algebra::Operation;
use crate::commands::sets::{self, algebra};

/// The set commands.
pub(crate) static SPECS: &[Spec] = &[
    Spec::set("sadd", "1.0.0", -3, "write denyoom fast short", sets::sadd)
        .syntax("key member [member ...]")
        .summary("Adds members to a set; the set is made if it is not there.")
        .complexity("O(N) for N members")
        .key("RW insert")
        .member(2),
    Spec::set("srem", "1.0.0", -3, "write fast short", sets::srem)
        .syntax("key member [member ...]")
        .summary("Removes members from a set; an empty set is deleted.")
        .complexity("O(N) for N members")
        .key("RW delete")
        .member(2),
    Spec::set("smove", "1.0.0", 4, "write fast", sets::smove)
        .syntax("source destination member")
        .summary("Moves a member from one set to another.")
        .keys(&[KeySpec::key("RW access delete"), KeySpec::keys("RW insert", 2, 0, 1)]),
    Spec::set("sismember", "1.0.0", 3, "readonly fast short", sets::sismember)
        .syntax("key member")
        .summary("Tells whether a value is a member of a set.")
        .key("RO")
        .member(2),
    Spec::set("smismember", "6.2.0", -3, "readonly fast short", sets::smismember)
        .syntax("key member [member ...]")
        .summary("Tells of several values whether they are members of a set.")
        .complexity("O(N) for N members")
        .key("RO access"),
    Spec::set("scard", "1.0.0", 2, "readonly fast short", sets::scard)
        .syntax("key")
        .summary("Returns the number of members of a set.")
        .key("RO"),
    Spec::set("spop", "1.0.0", -2, "write fast short", sets::spop)
        .syntax("key [count]")
        .summary("Removes random members from a set and returns them.")
        .complexity("O(N) for N members")
        .key("RW access delete")
        .tips("nondeterministic_output"),
    Spec::set("srandmember", "1.0.0", -2, "readonly short", sets::srandmember)
        .syntax("key [count]")
        .summary("Returns random members of a set.")
        .complexity("O(N) for N members")
        .key("RO access")
        .tips("nondeterministic_output"),
    Spec::set("sinter", "1.0.0", -2, "readonly", |ctx| algebra::reply(ctx, Operation::Intersection))
        .syntax("key [key ...]")
        .summary("Returns the members that all of the sets have.")
        .complexity("O(N*M), N the members of the smallest set, M the number of sets")
        .keys(&[KeySpec::keys("RO access", 1, -1, 1)])
        .tips("nondeterministic_output_order"),
    Spec::set("sintercard", "7.0.0", -3, "readonly", algebra::sintercard)
        .syntax("numkeys key [key ...] [LIMIT limit]")
        .summary("Counts the members that all of the sets have.")
        .complexity("O(N*M), N the members of the smallest set, M the number of sets")
        .keys(&[KeySpec::numkeys("RO access", 1)]),
    Spec::set("sinterstore", "1.0.0", -3, "write denyoom", |ctx| algebra::store(ctx, Operation::Intersection))
        .syntax("destination key [key ...]")
        .summary("Stores the members that all of the sets have.")
        .complexity("O(N*M), N the members of the smallest set, M the number of sets")
        .keys(&[KeySpec::key("RW update"), KeySpec::keys("RO access", 2, -1, 1)]),
    Spec::set("sunion", "1.0.0", -2, "readonly", |ctx| algebra::reply(ctx, Operation::Union))
        .syntax("key [key ...]")
        .summary("Returns the members that any of the sets has.")
        .complexity("O(N) for N members in all")
        .keys(&[KeySpec::keys("RO access", 1, -1, 1)])
        .tips("nondeterministic_output_order"),
    Spec::set("sunionstore", "1.0.0", -3, "write denyoom", |ctx| algebra::store(ctx, Operation::Union))
        .syntax("destination key [key ...]")
        .summary("Stores the members that any of the sets has.")
        .complexity("O(N) for N members in all")
        .keys(&[KeySpec::key("OW update"), KeySpec::keys("RO access", 2, -1, 1)]),
    Spec::set("sdiff", "1.0.0", -2, "readonly", |ctx| algebra::reply(ctx, Operation::Difference))
        .syntax("key [key ...]")
        .summary("Returns the members of the first set that none of the others has.")
        .complexity("O(N) for N members in all")
        .keys(&[KeySpec::keys("RO access", 1, -1, 1)])
        .tips("nondeterministic_output_order"),
    Spec::set("sdiffstore", "1.0.0", -3, "write denyoom", |ctx| algebra::store(ctx, Operation::Difference))
        .syntax("destination key [key ...]")
        .summary("Stores the members of the first set that none of the others has.")
        .complexity("O(N) for N members in all")
        .keys(&[KeySpec::key("OW update"), KeySpec::keys("RO access", 2, -1, 1)]),
    Spec::set("smembers", "1.0.0", 2, "readonly", sets::smembers)
        .syntax("key")
        .summary("Returns all members of a set.")
        .complexity("O(N) for N members")
        .key("RO access")
        .tips("nondeterministic_output_order"),
    Spec::set("sscan", "2.8.0", -3, "readonly", sets::sscan)
        .syntax("key cursor [MATCH pattern] [COUNT count]")
        .summary("Goes through the members of a set step by step.")
        .complexity("O(1) for a call, O(N) for a whole scan")
        .key("RO access")
        .tips("nondeterministic_output"),
];

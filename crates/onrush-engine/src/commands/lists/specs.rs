//! Rows of the command table: the list commands.

use onrush_store::End;

use crate::command::spec::{KeySpec, Spec};
use crate::commands::lists::{self, blocking};

/// The list commands.
pub(crate) static SPECS: &[Spec] = &[
    Spec::list("lpush", "1.0.0", -3, "write denyoom fast short", |ctx| lists::push(ctx, End::Front))
        .syntax("key element [element ...]")
        .summary("Adds elements at the left end of a list; the list is made if it is not there.")
        .complexity("O(N) for N elements")
        .key("RW insert"),
    Spec::list("rpush", "1.0.0", -3, "write denyoom fast short", |ctx| lists::push(ctx, End::Back))
        .syntax("key element [element ...]")
        .summary("Adds elements at the right end of a list; the list is made if it is not there.")
        .complexity("O(N) for N elements")
        .key("RW insert"),
    Spec::list("lpushx", "2.2.0", -3, "write denyoom fast short", |ctx| lists::pushx(ctx, End::Front))
        .syntax("key element [element ...]")
        .summary("Adds elements at the left end of a list that is there.")
        .complexity("O(N) for N elements")
        .key("RW insert"),
    Spec::list("rpushx", "2.2.0", -3, "write denyoom fast short", |ctx| lists::pushx(ctx, End::Back))
        .syntax("key element [element ...]")
        .summary("Adds elements at the right end of a list that is there.")
        .complexity("O(N) for N elements")
        .key("RW insert"),
    Spec::list("linsert", "2.2.0", 5, "write denyoom", lists::linsert)
        .syntax("key <BEFORE | AFTER> pivot element")
        .summary("Inserts an element next to another.")
        .complexity("O(N) for N elements looked at")
        .key("RW insert"),
    Spec::list("lset", "1.0.0", 4, "write denyoom", lists::lset)
        .syntax("key index element")
        .summary("Replaces an element.")
        .complexity("O(N) for N elements, O(1) at the ends")
        .key("RW update"),
    Spec::list("lindex", "1.0.0", 3, "readonly", lists::lindex)
        .syntax("key index")
        .summary("Returns an element by its position.")
        .complexity("O(N) for N elements, O(1) at the ends")
        .key("RO access"),
    Spec::list("llen", "1.0.0", 2, "readonly fast short", lists::llen)
        .syntax("key")
        .summary("Returns the number of elements of a list.")
        .key("RO"),
    Spec::list("lpop", "1.0.0", -2, "write fast short", |ctx| lists::pop(ctx, End::Front))
        .syntax("key [count]")
        .summary("Removes elements from the left end of a list and returns them.")
        .complexity("O(N) for N elements")
        .key("RW access delete"),
    Spec::list("rpop", "1.0.0", -2, "write fast short", |ctx| lists::pop(ctx, End::Back))
        .syntax("key [count]")
        .summary("Removes elements from the right end of a list and returns them.")
        .complexity("O(N) for N elements")
        .key("RW access delete"),
    Spec::list("lrange", "1.0.0", 4, "readonly short", lists::lrange)
        .syntax("key start stop")
        .summary("Returns a range of elements.")
        .complexity("O(S+N), S the distance to the nearer end, N the elements returned")
        .key("RO access"),
    Spec::list("ltrim", "1.0.0", 4, "write", lists::ltrim)
        .syntax("key start stop")
        .summary("Keeps only a range of elements.")
        .complexity("O(N) for N elements removed")
        .key("RW delete"),
    Spec::list("lpos", "6.0.6", -3, "readonly", lists::lpos)
        .syntax("key element [RANK rank] [COUNT num-matches] [MAXLEN len]")
        .summary("Finds elements by their value.")
        .complexity("O(N) for N elements")
        .key("RO access"),
    Spec::list("lrem", "1.0.0", 4, "write", lists::lrem)
        .syntax("key count element")
        .summary("Removes elements by their value.")
        .complexity("O(N) for N elements")
        .key("RW delete"),
    Spec::list("lmove", "6.2.0", 5, "write denyoom", blocking::lmove)
        .syntax("source destination <LEFT | RIGHT> <LEFT | RIGHT>")
        .summary("Moves an element from an end of a list to an end of another.")
        .keys(&[KeySpec::key("RW access delete"), KeySpec::keys("RW insert", 2, 0, 1)]),
    Spec::list("rpoplpush", "1.2.0", 3, "write denyoom", blocking::rpoplpush)
        .syntax("source destination")
        .summary("Moves an element from the right end of a list to the left end of another.")
        .keys(&[KeySpec::key("RW access delete"), KeySpec::keys("RW insert", 2, 0, 1)])
        .deprecated("6.2.0", "`LMOVE` with the `RIGHT` and `LEFT` arguments"),
    Spec::list("lmpop", "7.0.0", -4, "write", blocking::lmpop)
        .syntax("numkeys key [key ...] <LEFT | RIGHT> [COUNT count]")
        .summary("Pops elements from the first list that is there.")
        .complexity("O(N+M), N the keys, M the elements returned")
        .keys(&[KeySpec::numkeys("RW access delete", 1)]),
    Spec::list("blpop", "2.0.0", -3, "write blocking", |ctx| blocking::pop_or_wait(ctx, End::Front))
        .syntax("key [key ...] timeout")
        .summary("Pops from the left end of the first list that is there, or waits for one.")
        .complexity("O(N) for N keys")
        .keys(&[KeySpec::keys("RW access delete", 1, -2, 1)]),
    Spec::list("brpop", "2.0.0", -3, "write blocking", |ctx| blocking::pop_or_wait(ctx, End::Back))
        .syntax("key [key ...] timeout")
        .summary("Pops from the right end of the first list that is there, or waits for one.")
        .complexity("O(N) for N keys")
        .keys(&[KeySpec::keys("RW access delete", 1, -2, 1)]),
    Spec::list("blmove", "6.2.0", 6, "write denyoom blocking", blocking::blmove)
        .syntax("source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout")
        .summary("Moves an element between lists, or waits for one.")
        .keys(&[KeySpec::key("RW access delete"), KeySpec::keys("RW insert", 2, 0, 1)]),
    Spec::list("brpoplpush", "2.2.0", 4, "write denyoom blocking", blocking::brpoplpush)
        .syntax("source destination timeout")
        .summary("Moves an element from the right end of a list to the left end of another, or waits for one.")
        .keys(&[KeySpec::key("RW access delete"), KeySpec::keys("RW insert", 2, 0, 1)])
        .deprecated("6.2.0", "`BLMOVE` with the `RIGHT` and `LEFT` arguments"),
    Spec::list("blmpop", "7.0.0", -5, "write blocking", blocking::lmpop)
        .syntax("timeout numkeys key [key ...] <LEFT | RIGHT> [COUNT count]")
        .summary("Pops elements from the first list that is there, or waits for one.")
        .complexity("O(N+M), N the keys, M the elements returned")
        .keys(&[KeySpec::numkeys("RW access delete", 2)]),
];

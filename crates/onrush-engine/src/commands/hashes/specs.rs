//! Rows of the command table: the hash commands.

use crate::command::spec::Spec;
use crate::commands::hashes::{self, expiry};
use crate::commands::strings::ExpiryUnit;

/// The hash commands.
pub(crate) static SPECS: &[Spec] = &[
    Spec::hash("hset", "2.0.0", -4, "write denyoom fast short", hashes::hset)
        .syntax("key field value [field value ...]")
        .summary("Sets fields of a hash; the hash is made if it is not there.")
        .complexity("O(N) for N fields")
        .key("RW update")
        .member(2),
    Spec::hash("hmset", "2.0.0", -4, "write denyoom fast short", hashes::hmset)
        .syntax("key field value [field value ...]")
        .summary("Sets fields of a hash.")
        .complexity("O(N) for N fields")
        .key("RW update")
        .member(2)
        .deprecated("4.0.0", "`HSET` with multiple field-value pairs"),
    Spec::hash("hsetnx", "2.0.0", 4, "write denyoom fast short", hashes::hsetnx)
        .syntax("key field value")
        .summary("Sets a field of a hash unless it exists.")
        .key("RW insert")
        .member(2),
    Spec::hash("hget", "2.0.0", 3, "readonly fast short", hashes::hget)
        .syntax("key field")
        .summary("Returns the value of a field.")
        .key("RO access")
        .member(2),
    Spec::hash("hmget", "2.0.0", -3, "readonly fast short", hashes::hmget)
        .syntax("key field [field ...]")
        .summary("Returns the values of several fields.")
        .complexity("O(N) for N fields")
        .key("RO access")
        .member(2),
    Spec::hash("hgetall", "2.0.0", 2, "readonly", hashes::hgetall)
        .syntax("key")
        .summary("Returns all fields of a hash with their values.")
        .complexity("O(N) for N fields")
        .key("RO access")
        .tips("nondeterministic_output_order"),
    Spec::hash("hdel", "2.0.0", -3, "write fast short", hashes::hdel)
        .syntax("key field [field ...]")
        .summary("Deletes fields of a hash; an empty hash is deleted.")
        .complexity("O(N) for N fields")
        .key("RW delete")
        .member(2),
    Spec::hash("hlen", "2.0.0", 2, "readonly fast short", hashes::hlen)
        .syntax("key")
        .summary("Returns the number of fields of a hash.")
        .key("RO"),
    Spec::hash("hexists", "2.0.0", 3, "readonly fast short", hashes::hexists)
        .syntax("key field")
        .summary("Tells whether a hash has a field.")
        .key("RO")
        .member(2),
    Spec::hash("hkeys", "2.0.0", 2, "readonly", hashes::hkeys)
        .syntax("key")
        .summary("Returns the names of all fields of a hash.")
        .complexity("O(N) for N fields")
        .key("RO access")
        .tips("nondeterministic_output_order"),
    Spec::hash("hvals", "2.0.0", 2, "readonly", hashes::hvals)
        .syntax("key")
        .summary("Returns the values of all fields of a hash.")
        .complexity("O(N) for N fields")
        .key("RO access")
        .tips("nondeterministic_output_order"),
    Spec::hash("hstrlen", "3.2.0", 3, "readonly fast short", hashes::hstrlen)
        .syntax("key field")
        .summary("Returns the length of a field's value.")
        .key("RO")
        .member(2),
    Spec::hash("hincrby", "2.0.0", 4, "write denyoom fast short", hashes::hincrby)
        .syntax("key field increment")
        .summary("Adds to the integer a field holds; an absent field counts as 0.")
        .key("RW access update")
        .member(2),
    Spec::hash("hincrbyfloat", "2.6.0", 4, "write denyoom fast short", hashes::hincrbyfloat)
        .syntax("key field increment")
        .summary("Adds to the floating-point number a field holds; an absent field counts as 0.")
        .key("RW access update")
        .member(2),
    Spec::hash("hrandfield", "6.2.0", -2, "readonly short", hashes::hrandfield)
        .syntax("key [count [WITHVALUES]]")
        .summary("Returns random fields of a hash.")
        .complexity("O(N) for N fields")
        .key("RO access")
        .tips("nondeterministic_output"),
    Spec::hash("hscan", "2.8.0", -3, "readonly", hashes::hscan)
        .syntax("key cursor [MATCH pattern] [COUNT count] [NOVALUES]")
        .summary("Goes through the fields of a hash step by step.")
        .complexity("O(1) for a call, O(N) for a whole scan")
        .key("RO access")
        .tips("nondeterministic_output")
        .history(&[("7.4.0", "Option `NOVALUES`.")]),
    Spec::hash("hexpire", "7.4.0", -6, "write fast short", |ctx| expiry::expire(ctx, ExpiryUnit::Ex))
        .syntax("key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]")
        .summary("Makes fields expire after some seconds.")
        .complexity("O(N) for N fields")
        .key("RW update"),
    Spec::hash("hpexpire", "7.4.0", -6, "write fast short", |ctx| expiry::expire(ctx, ExpiryUnit::Px))
        .syntax("key milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]")
        .summary("Makes fields expire after some milliseconds.")
        .complexity("O(N) for N fields")
        .key("RW update"),
    Spec::hash("hexpireat", "7.4.0", -6, "write fast short", |ctx| expiry::expire(ctx, ExpiryUnit::ExAt))
        .syntax("key unix-time-seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]")
        .summary("Makes fields expire at a Unix time in seconds.")
        .complexity("O(N) for N fields")
        .key("RW update"),
    Spec::hash("hpexpireat", "7.4.0", -6, "write fast short", |ctx| expiry::expire(ctx, ExpiryUnit::PxAt))
        .syntax("key unix-time-milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]")
        .summary("Makes fields expire at a Unix time in milliseconds.")
        .complexity("O(N) for N fields")
        .key("RW update"),
    Spec::hash("httl", "7.4.0", -5, "readonly fast short", |ctx| expiry::reply_times(ctx, ExpiryUnit::Ex))
        .syntax("key FIELDS numfields field [field ...]")
        .summary("Returns the seconds until fields expire.")
        .complexity("O(N) for N fields")
        .key("RO access"),
    Spec::hash("hpttl", "7.4.0", -5, "readonly fast short", |ctx| expiry::reply_times(ctx, ExpiryUnit::Px))
        .syntax("key FIELDS numfields field [field ...]")
        .summary("Returns the milliseconds until fields expire.")
        .complexity("O(N) for N fields")
        .key("RO access"),
    Spec::hash("hexpiretime", "7.4.0", -5, "readonly fast short", |ctx| expiry::reply_times(ctx, ExpiryUnit::ExAt))
        .syntax("key FIELDS numfields field [field ...]")
        .summary("Returns the Unix times in seconds at which fields expire.")
        .complexity("O(N) for N fields")
        .key("RO access"),
    Spec::hash("hpexpiretime", "7.4.0", -5, "readonly fast short", |ctx| expiry::reply_times(ctx, ExpiryUnit::PxAt))
        .syntax("key FIELDS numfields field [field ...]")
        .summary("Returns the Unix times in milliseconds at which fields expire.")
        .complexity("O(N) for N fields")
        .key("RO access"),
    Spec::hash("hpersist", "7.4.0", -5, "write fast short", expiry::hpersist)
        .syntax("key FIELDS numfields field [field ...]")
        .summary("Keeps fields from expiring.")
        .complexity("O(N) for N fields")
        .key("RW update"),
    Spec::hash("hgetdel", "8.0.0", -5, "write fast short", expiry::hgetdel)
        .syntax("key FIELDS numfields field [field ...]")
        .summary("Returns the values of fields and deletes the fields.")
        .complexity("O(N) for N fields")
        .key("RW access delete"),
    Spec::hash("hgetex", "8.0.0", -5, "write fast short", expiry::hgetex)
        .syntax(
            "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST] \
             FIELDS numfields field [field ...]",
        )
        .summary("Returns the values of fields and sets or removes their expiry.")
        .complexity("O(N) for N fields")
        .key("RW access update"),
    Spec::hash("hsetex", "8.0.0", -6, "write denyoom fast short", expiry::hsetex)
        .syntax(
            "key [FNX | FXX] \
             [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL] \
             FIELDS numfields field value [field value ...]",
        )
        .summary("Sets fields of a hash and their expiry.")
        .complexity("O(N) for N fields")
        .key("RW update"),
];

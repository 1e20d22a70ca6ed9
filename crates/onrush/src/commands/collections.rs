//! The table of the commands on lists, hashes and sets.

macro_rules! collection_commands {
    ($($link:tt)*) => { $crate::commands::chain! { [$($link)*]
        /// Adds elements at the front and returns the length.
        fn lpush(key, elements) = "LPUSH", key, elements;
        /// Adds elements at the back and returns the length.
        fn rpush(key, elements) = "RPUSH", key, elements;
        /// Adds elements at the front if the list exists.
        fn lpush_exists(key, elements) = "LPUSHX", key, elements;
        /// Adds elements at the back if the list exists.
        fn rpush_exists(key, elements) = "RPUSHX", key, elements;
        /// Takes elements from the front; `count` may be `None`.
        fn lpop(key, count) = "LPOP", key, count;
        /// Takes elements from the back; `count` may be `None`.
        fn rpop(key, count) = "RPOP", key, count;
        /// Takes elements from the first list of several that has some: its key and the elements, or nothing.
        fn lmpop(keys, from, count) = "LMPOP", keys.num_of_args(), keys, from, "COUNT", count;
        /// The length of a list.
        fn llen(key) = "LLEN", key;
        /// Elements by index; negative ones count from the back.
        fn lrange(key, start, stop) = "LRANGE", key, start, stop;
        /// One element by index.
        fn lindex(key, index) = "LINDEX", key, index;
        /// Replaces an element.
        fn lset(key, index, element) = "LSET", key, index, element;
        /// Inserts before an element.
        fn linsert_before(key, pivot, element) = "LINSERT", key, "BEFORE", pivot, element;
        /// Inserts after an element.
        fn linsert_after(key, pivot, element) = "LINSERT", key, "AFTER", pivot, element;
        /// Removes elements that are equal to `element`.
        fn lrem(key, count, element) = "LREM", key, count, element;
        /// Keeps a range only.
        fn ltrim(key, start, stop) = "LTRIM", key, start, stop;
        /// Where an element is, with [`LposOptions`](crate::LposOptions) or `()`.
        fn lpos(key, element, options) = "LPOS", key, element, options;
        /// Moves an element; the ends are a [`Direction`](crate::Direction) each.
        fn lmove(source, destination, from, to) = "LMOVE", source, destination, from, to;
        /// Moves the last element to the front of another list.
        fn rpoplpush(source, destination) = "RPOPLPUSH", source, destination;
        /// Takes the first element of the first list that has one, waiting for one; 0 seconds is for ever.
        fn blpop(keys, seconds) = "BLPOP", keys, seconds;
        /// Takes the last element of the first list that has one, waiting for one.
        fn brpop(keys, seconds) = "BRPOP", keys, seconds;
        /// Moves an element, waiting for one.
        fn blmove(source, destination, from, to, seconds) = "BLMOVE", source, destination, from, to, seconds;
        /// Takes elements from the first list of several that has some, waiting for one.
        fn blmpop(seconds, keys, from, count) = "BLMPOP", seconds, keys.num_of_args(), keys, from, "COUNT", count;
        /// Moves the last element to the front of another list, waiting for one.
        fn brpoplpush(source, destination, seconds) = "BRPOPLPUSH", source, destination, seconds;

        /// One field, or several with [`hmget`](Self::hmget).
        fn hget(key, field) = "HGET", key, field;
        /// Several fields.
        fn hmget(key, fields) = "HMGET", key, fields;
        /// All fields and values.
        fn hgetall(key) = "HGETALL", key;
        /// Sets a field.
        fn hset(key, field, value) = "HSET", key, field, value;
        /// Sets several fields from pairs.
        fn hset_multiple(key, pairs) = "HSET", key, pairs;
        /// Sets a field if it does not exist.
        fn hset_nx(key, field, value) = "HSETNX", key, field, value;
        /// Deletes fields and returns how many there were.
        fn hdel(key, fields) = "HDEL", key, fields;
        /// Whether a field exists.
        fn hexists(key, field) = "HEXISTS", key, field;
        /// All fields.
        fn hkeys(key) = "HKEYS", key;
        /// All values.
        fn hvals(key) = "HVALS", key;
        /// The number of fields.
        fn hlen(key) = "HLEN", key;
        /// The length of a value.
        fn hstrlen(key, field) = "HSTRLEN", key, field;
        /// Adds to a number and returns it.
        fn hincr(key, field, by) = "HINCRBY", key, field, by;
        /// Adds to a floating-point number and returns it.
        fn hincr_float(key, field, by) = "HINCRBYFLOAT", key, field, by;
        /// Some fields; `count` may be `None`.
        fn hrandfield(key, count) = "HRANDFIELD", key, count;
        /// Some fields with their values.
        fn hrandfield_withvalues(key, count) = "HRANDFIELD", key, count, "WITHVALUES";
        /// Lets fields expire in some seconds, if an [`ExpireOption`](crate::ExpireOption) (or `()`) allows it. For each
        /// field: 1 set, 2 deleted at once, 0 not allowed, -2 no such field.
        fn hexpire(key, seconds, option, fields) = "HEXPIRE", key, seconds, option, "FIELDS", fields.num_of_args(), fields;
        /// Lets fields expire in some milliseconds; as [`hexpire`](Self::hexpire).
        fn hpexpire(key, milliseconds, option, fields) = "HPEXPIRE", key, milliseconds, option, "FIELDS", fields.num_of_args(), fields;
        /// Lets fields expire at a Unix time in seconds; as [`hexpire`](Self::hexpire).
        fn hexpire_at(key, time, option, fields) = "HEXPIREAT", key, time, option, "FIELDS", fields.num_of_args(), fields;
        /// Lets fields expire at a Unix time in milliseconds; as [`hexpire`](Self::hexpire).
        fn hpexpire_at(key, time, option, fields) = "HPEXPIREAT", key, time, option, "FIELDS", fields.num_of_args(), fields;
        /// Takes the expiry off fields. For each field: 1 done, -1 it had none, -2 no such field.
        fn hpersist(key, fields) = "HPERSIST", key, "FIELDS", fields.num_of_args(), fields;
        /// Seconds until fields expire, each an [`IntegerReplyOrNoOp`](crate::IntegerReplyOrNoOp).
        fn httl(key, fields) = "HTTL", key, "FIELDS", fields.num_of_args(), fields;
        /// Milliseconds until fields expire, each an [`IntegerReplyOrNoOp`](crate::IntegerReplyOrNoOp).
        fn hpttl(key, fields) = "HPTTL", key, "FIELDS", fields.num_of_args(), fields;
        /// The Unix times in seconds at which fields expire.
        fn hexpire_time(key, fields) = "HEXPIRETIME", key, "FIELDS", fields.num_of_args(), fields;
        /// The Unix times in milliseconds at which fields expire.
        fn hpexpire_time(key, fields) = "HPEXPIRETIME", key, "FIELDS", fields.num_of_args(), fields;
        /// Reads fields and changes their [`Expiry`](crate::Expiry).
        fn hget_ex(key, fields, expiry) = "HGETEX", key, expiry, "FIELDS", fields.num_of_args(), fields;
        /// Sets fields from pairs, with their expiry in [`HashFieldExpirationOptions`](crate::HashFieldExpirationOptions).
        fn hset_ex(key, options, pairs) = "HSETEX", key, options, "FIELDS", pairs.num_of_args() / 2, pairs;
        /// Reads fields and deletes them.
        fn hget_del(key, fields) = "HGETDEL", key, "FIELDS", fields.num_of_args(), fields;

        /// Adds members and returns how many are new.
        fn sadd(key, members) = "SADD", key, members;
        /// Removes members and returns how many there were.
        fn srem(key, members) = "SREM", key, members;
        /// All members.
        fn smembers(key) = "SMEMBERS", key;
        /// Whether a member is there.
        fn sismember(key, member) = "SISMEMBER", key, member;
        /// Which members are there.
        fn smismember(key, members) = "SMISMEMBER", key, members;
        /// The number of members.
        fn scard(key) = "SCARD", key;
        /// Takes some members; `count` may be `None`.
        fn spop(key, count) = "SPOP", key, count;
        /// Some members; `count` may be `None`.
        fn srandmember(key, count) = "SRANDMEMBER", key, count;
        /// That many members; the same more than once if the count is negative.
        fn srandmember_multiple(key, count) = "SRANDMEMBER", key, count;
        /// Moves a member.
        fn smove(source, destination, member) = "SMOVE", source, destination, member;
        /// The members that are in all.
        fn sinter(keys) = "SINTER", keys;
        /// The number of members that are in all.
        fn sintercard(keys) = "SINTERCARD", keys.num_of_args(), keys;
        /// As [`sintercard`](Self::sintercard), but counts at most `limit`.
        fn sintercard_limit(keys, limit) = "SINTERCARD", keys.num_of_args(), keys, "LIMIT", limit;
        /// Stores the members that are in all.
        fn sinterstore(destination, keys) = "SINTERSTORE", destination, keys;
        /// The members that are in any.
        fn sunion(keys) = "SUNION", keys;
        /// Stores the members that are in any.
        fn sunionstore(destination, keys) = "SUNIONSTORE", destination, keys;
        /// The members that are in the first only.
        fn sdiff(keys) = "SDIFF", keys;
        /// Stores the members that are in the first only.
        fn sdiffstore(destination, keys) = "SDIFFSTORE", destination, keys;
    }};
}

pub(crate) use collection_commands;

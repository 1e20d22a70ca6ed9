//! Typed methods for commands, over connections and in pipelines.

use crate::args::ToRedisArgs;
use crate::cmd::{Cmd, cmd};
use crate::connection::ConnectionLike;
use crate::error::RedisResult;
use crate::from_value::FromRedisValue;
use crate::pipeline::Pipeline;

macro_rules! commands {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident),*) = $word:literal $(, $part:expr)*;)*) => {
        /// Commands as methods of everything that commands can be sent over, by the names they have in the `redis` crate
        /// where it has them.
        ///
        /// Arguments are whatever gives command arguments: a key or several, a member or a list of them, a tuple of options.
        /// The reply is converted to the type asked for.
        ///
        /// # Errors
        /// All of them fail as [`Cmd::query_async`] does.
        pub trait AsyncCommands: ConnectionLike + Sized {
            $(
                $(#[$doc])*
                #[allow(non_camel_case_types)]
                fn $name<$($arg: ToRedisArgs,)* RV: FromRedisValue>(
                    &self,
                    $($arg: $arg),*
                ) -> impl Future<Output = RedisResult<RV>> {
                    #[allow(unused_mut)]
                    let mut command = cmd($word);
                    $(command.arg($part);)*
                    send(self, command)
                }
            )*
        }

        impl Pipeline {
            $(
                $(#[$doc])*
                #[allow(non_camel_case_types)]
                pub fn $name<$($arg: ToRedisArgs),*>(&mut self, $($arg: $arg),*) -> &mut Pipeline {
                    self.cmd($word)$(.arg($part))*
                }
            )*
        }
    };
}

impl<T: ConnectionLike> AsyncCommands for T {}

async fn send<RV: FromRedisValue>(con: &impl ConnectionLike, command: Cmd) -> RedisResult<RV> {
    RV::from_redis_value(con.send_command(&command).await?)
}

commands! {
    /// Reads a string.
    fn get(key) = "GET", key;
    /// Sets a string.
    fn set(key, value) = "SET", key, value;
    /// Sets a string; `options` are further arguments, such as `("EX", 60, "NX")`.
    fn set_options(key, value, options) = "SET", key, value, options;
    /// Sets a string that expires in some seconds.
    fn set_ex(key, value, seconds) = "SETEX", key, seconds, value;
    /// Sets a string that expires in some milliseconds.
    fn pset_ex(key, value, milliseconds) = "PSETEX", key, milliseconds, value;
    /// Sets a string if the key is not there.
    fn set_nx(key, value) = "SETNX", key, value;
    /// Sets a string and returns the one before.
    fn getset(key, value) = "GETSET", key, value;
    /// Reads a string and deletes it.
    fn get_del(key) = "GETDEL", key;
    /// Reads a string and changes its expiry, such as `("EX", 60)`.
    fn get_ex(key, options) = "GETEX", key, options;
    /// Sets several strings at once, from pairs.
    fn mset(pairs) = "MSET", pairs;
    /// Sets several strings at once if none of the keys is there.
    fn mset_nx(pairs) = "MSETNX", pairs;
    /// Reads several strings.
    fn mget(keys) = "MGET", keys;
    /// Appends to a string and returns its length.
    fn append(key, value) = "APPEND", key, value;
    /// The length of a string.
    fn strlen(key) = "STRLEN", key;
    /// A part of a string.
    fn getrange(key, from, to) = "GETRANGE", key, from, to;
    /// Overwrites a part of a string and returns its length.
    fn setrange(key, offset, value) = "SETRANGE", key, offset, value;
    /// Adds to a number and returns it.
    fn incr(key, by) = "INCRBY", key, by;
    /// Subtracts from a number and returns it.
    fn decr(key, by) = "DECRBY", key, by;
    /// Adds to a floating-point number and returns it.
    fn incr_float(key, by) = "INCRBYFLOAT", key, by;
    /// Deletes keys and returns how many there were.
    fn del(keys) = "DEL", keys;
    /// Deletes keys, freeing their values in the background.
    fn unlink(keys) = "UNLINK", keys;
    /// How many of the keys are there.
    fn exists(keys) = "EXISTS", keys;
    /// How many of the keys are there, now accessed.
    fn touch(keys) = "TOUCH", keys;
    /// The type of a key.
    fn key_type(key) = "TYPE", key;
    /// Lets a key expire in some seconds.
    fn expire(key, seconds) = "EXPIRE", key, seconds;
    /// Lets a key expire in some milliseconds.
    fn pexpire(key, milliseconds) = "PEXPIRE", key, milliseconds;
    /// Lets a key expire at a Unix time in seconds.
    fn expire_at(key, time) = "EXPIREAT", key, time;
    /// Lets a key expire at a Unix time in milliseconds.
    fn pexpire_at(key, time) = "PEXPIREAT", key, time;
    /// Takes the expiry off a key.
    fn persist(key) = "PERSIST", key;
    /// Seconds until a key expires; -1 for never, -2 for no such key.
    fn ttl(key) = "TTL", key;
    /// Milliseconds until a key expires; -1 for never, -2 for no such key.
    fn pttl(key) = "PTTL", key;
    /// The Unix time in seconds at which a key expires.
    fn expire_time(key) = "EXPIRETIME", key;
    /// The Unix time in milliseconds at which a key expires.
    fn pexpire_time(key) = "PEXPIRETIME", key;
    /// Renames a key.
    fn rename(key, new_key) = "RENAME", key, new_key;
    /// Renames a key unless the new one is there.
    fn rename_nx(key, new_key) = "RENAMENX", key, new_key;
    /// Copies a key; `options` are `()`, `"REPLACE"` and the like.
    fn copy(key, to, options) = "COPY", key, to, options;
    /// All keys that match. O(keys): use SCAN in production.
    fn keys(pattern) = "KEYS", pattern;
    /// A part of the keys; `options` are `()`, `("MATCH", pattern, "COUNT", 100)` and the like.
    fn scan(cursor, options) = "SCAN", cursor, options;
    /// The number of keys.
    fn dbsize() = "DBSIZE";
    /// Some key.
    fn randomkey() = "RANDOMKEY";
    /// How the value is kept.
    fn object_encoding(key) = "OBJECT", "ENCODING", key;
    /// The access frequency counter.
    fn object_freq(key) = "OBJECT", "FREQ", key;
    /// Seconds since the last access.
    fn object_idletime(key) = "OBJECT", "IDLETIME", key;
    /// Bytes that a key takes.
    fn memory_usage(key) = "MEMORY", "USAGE", key;
    /// Deletes all keys of the database.
    fn flushdb() = "FLUSHDB";
    /// Deletes all keys of all databases.
    fn flushall() = "FLUSHALL";
    /// Adds elements in front and returns the length.
    fn lpush(key, elements) = "LPUSH", key, elements;
    /// Adds elements behind and returns the length.
    fn rpush(key, elements) = "RPUSH", key, elements;
    /// Adds elements in front if the list is there.
    fn lpush_exists(key, elements) = "LPUSHX", key, elements;
    /// Adds elements behind if the list is there.
    fn rpush_exists(key, elements) = "RPUSHX", key, elements;
    /// Takes elements from the front; `count` may be `None`.
    fn lpop(key, count) = "LPOP", key, count;
    /// Takes elements from behind; `count` may be `None`.
    fn rpop(key, count) = "RPOP", key, count;
    /// The length of a list.
    fn llen(key) = "LLEN", key;
    /// Elements by index; negative ones count from behind.
    fn lrange(key, start, stop) = "LRANGE", key, start, stop;
    /// One element by index.
    fn lindex(key, index) = "LINDEX", key, index;
    /// Replaces an element.
    fn lset(key, index, element) = "LSET", key, index, element;
    /// Inserts in front of an element.
    fn linsert_before(key, pivot, element) = "LINSERT", key, "BEFORE", pivot, element;
    /// Inserts behind an element.
    fn linsert_after(key, pivot, element) = "LINSERT", key, "AFTER", pivot, element;
    /// Removes elements that are equal.
    fn lrem(key, count, element) = "LREM", key, count, element;
    /// Keeps a range only.
    fn ltrim(key, start, stop) = "LTRIM", key, start, stop;
    /// Where an element is.
    fn lpos(key, element, options) = "LPOS", key, element, options;
    /// Moves an element; the ends are `"LEFT"` and `"RIGHT"`.
    fn lmove(source, destination, from, to) = "LMOVE", source, destination, from, to;
    /// Moves the last element to the front of another list.
    fn rpoplpush(source, destination) = "RPOPLPUSH", source, destination;
    /// Takes the first element there is, waiting for one; 0 seconds is for ever.
    fn blpop(keys, seconds) = "BLPOP", keys, seconds;
    /// Takes the last element there is, waiting for one.
    fn brpop(keys, seconds) = "BRPOP", keys, seconds;
    /// Moves an element, waiting for one.
    fn blmove(source, destination, from, to, seconds) = "BLMOVE", source, destination, from, to, seconds;
    /// One field, or several as HMGET gives them if the value has several.
    fn hget(key, field) = "HGET", key, field;
    /// Several fields.
    fn hmget(key, fields) = "HMGET", key, fields;
    /// All fields and values.
    fn hgetall(key) = "HGETALL", key;
    /// Sets a field.
    fn hset(key, field, value) = "HSET", key, field, value;
    /// Sets several fields from pairs.
    fn hset_multiple(key, pairs) = "HSET", key, pairs;
    /// Sets a field if it is not there.
    fn hset_nx(key, field, value) = "HSETNX", key, field, value;
    /// Deletes fields and returns how many there were.
    fn hdel(key, fields) = "HDEL", key, fields;
    /// Whether a field is there.
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
    /// A part of the fields and values.
    fn hscan(key, cursor, options) = "HSCAN", key, cursor, options;
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
    /// Moves a member.
    fn smove(source, destination, member) = "SMOVE", source, destination, member;
    /// The members that are in all.
    fn sinter(keys) = "SINTER", keys;
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
    /// A part of the members.
    fn sscan(key, cursor, options) = "SSCAN", key, cursor, options;
    /// Adds a member or changes its score.
    fn zadd(key, member, score) = "ZADD", key, score, member;
    /// Adds several members, from pairs of a score and a member.
    fn zadd_multiple(key, scored_members) = "ZADD", key, scored_members;
    /// As `zadd_multiple`, with options such as `("NX", "CH")`.
    fn zadd_options(key, options, scored_members) = "ZADD", key, options, scored_members;
    /// Adds to a score and returns it.
    fn zincr(key, member, by) = "ZINCRBY", key, by, member;
    /// Removes members and returns how many there were.
    fn zrem(key, members) = "ZREM", key, members;
    /// The number of members.
    fn zcard(key) = "ZCARD", key;
    /// The number of members with scores in a range.
    fn zcount(key, min, max) = "ZCOUNT", key, min, max;
    /// The number of members in a lexical range.
    fn zlexcount(key, min, max) = "ZLEXCOUNT", key, min, max;
    /// A member's score.
    fn zscore(key, member) = "ZSCORE", key, member;
    /// Several members' scores.
    fn zscore_multiple(key, members) = "ZMSCORE", key, members;
    /// A member's rank.
    fn zrank(key, member) = "ZRANK", key, member;
    /// A member's rank from behind.
    fn zrevrank(key, member) = "ZREVRANK", key, member;
    /// Members by rank.
    fn zrange(key, start, stop) = "ZRANGE", key, start, stop;
    /// Members by rank with their scores.
    fn zrange_withscores(key, start, stop) = "ZRANGE", key, start, stop, "WITHSCORES";
    /// Members of a range with options such as `("BYSCORE", "REV")`.
    fn zrange_options(key, start, stop, options) = "ZRANGE", key, start, stop, options;
    /// Members by rank from behind.
    fn zrevrange(key, start, stop) = "ZREVRANGE", key, start, stop;
    /// Members by rank from behind with their scores.
    fn zrevrange_withscores(key, start, stop) = "ZREVRANGE", key, start, stop, "WITHSCORES";
    /// Members by score.
    fn zrangebyscore(key, min, max) = "ZRANGEBYSCORE", key, min, max;
    /// Members by score with their scores.
    fn zrangebyscore_withscores(key, min, max) = "ZRANGEBYSCORE", key, min, max, "WITHSCORES";
    /// Members in a lexical range.
    fn zrangebylex(key, min, max) = "ZRANGEBYLEX", key, min, max;
    /// Removes members by rank.
    fn zremrangebyrank(key, start, stop) = "ZREMRANGEBYRANK", key, start, stop;
    /// Removes members by score.
    fn zrembyscore(key, min, max) = "ZREMRANGEBYSCORE", key, min, max;
    /// Removes members in a lexical range.
    fn zrembylex(key, min, max) = "ZREMRANGEBYLEX", key, min, max;
    /// Takes the members with the least scores.
    fn zpopmin(key, count) = "ZPOPMIN", key, count;
    /// Takes the members with the greatest scores.
    fn zpopmax(key, count) = "ZPOPMAX", key, count;
    /// Takes the member with the least score, waiting for one.
    fn bzpopmin(keys, seconds) = "BZPOPMIN", keys, seconds;
    /// Takes the member with the greatest score, waiting for one.
    fn bzpopmax(keys, seconds) = "BZPOPMAX", keys, seconds;
    /// Some members; `count` may be `None`.
    fn zrandmember(key, count) = "ZRANDMEMBER", key, count;
    /// A part of the members with their scores.
    fn zscan(key, cursor, options) = "ZSCAN", key, cursor, options;
    /// Appends an entry; `"*"` lets the server choose its identifier.
    fn xadd(key, id, pairs) = "XADD", key, id, pairs;
    /// Appends an entry with options such as `("MAXLEN", "~", 1000)`.
    fn xadd_options(key, options, id, pairs) = "XADD", key, options, id, pairs;
    /// The number of entries.
    fn xlen(key) = "XLEN", key;
    /// Entries of a range.
    fn xrange(key, start, end) = "XRANGE", key, start, end;
    /// Entries of a range, newest first.
    fn xrevrange(key, end, start) = "XREVRANGE", key, end, start;
    /// Deletes entries.
    fn xdel(key, ids) = "XDEL", key, ids;
    /// Cuts off old entries, such as by `("MAXLEN", 1000)`.
    fn xtrim(key, options) = "XTRIM", key, options;
    /// Entries behind given ones of several streams.
    fn xread(keys, ids) = "XREAD", "STREAMS", keys, ids;
    /// Entries with options such as `("COUNT", 10, "BLOCK", 0)`.
    fn xread_options(options, keys, ids) = "XREAD", options, "STREAMS", keys, ids;
    /// Makes a consumer group.
    fn xgroup_create(key, group, id) = "XGROUP", "CREATE", key, group, id;
    /// Makes a consumer group and the stream.
    fn xgroup_create_mkstream(key, group, id) = "XGROUP", "CREATE", key, group, id, "MKSTREAM";
    /// Entries for a consumer of a group.
    fn xreadgroup(group, consumer, options, keys, ids) = "XREADGROUP", "GROUP", group, consumer, options, "STREAMS", keys, ids;
    /// Acknowledges entries.
    fn xack(key, group, ids) = "XACK", key, group, ids;
    /// What is pending in a group.
    fn xpending(key, group) = "XPENDING", key, group;
    /// Sets a bit and returns the old one.
    fn setbit(key, offset, value) = "SETBIT", key, offset, value;
    /// A bit.
    fn getbit(key, offset) = "GETBIT", key, offset;
    /// The number of bits set.
    fn bitcount(key) = "BITCOUNT", key;
    /// The number of bits set in a range of bytes.
    fn bitcount_range(key, start, end) = "BITCOUNT", key, start, end;
    /// The first bit of a value.
    fn bitpos(key, bit) = "BITPOS", key, bit;
    /// Stores the bits set in all.
    fn bit_and(destination, sources) = "BITOP", "AND", destination, sources;
    /// Stores the bits set in any.
    fn bit_or(destination, sources) = "BITOP", "OR", destination, sources;
    /// Stores the bits set in an odd number.
    fn bit_xor(destination, sources) = "BITOP", "XOR", destination, sources;
    /// Stores the bits not set.
    fn bit_not(destination, source) = "BITOP", "NOT", destination, source;
    /// Shows a HyperLogLog elements.
    fn pfadd(key, elements) = "PFADD", key, elements;
    /// About how many distinct elements there were.
    fn pfcount(keys) = "PFCOUNT", keys;
    /// Merges HyperLogLogs.
    fn pfmerge(destination, sources) = "PFMERGE", destination, sources;
    /// Adds members, from longitude, latitude and name.
    fn geo_add(key, places) = "GEOADD", key, places;
    /// The distance of two members.
    fn geo_dist(key, one, other, unit) = "GEODIST", key, one, other, unit;
    /// Members as Geohash texts.
    fn geo_hash(key, members) = "GEOHASH", key, members;
    /// Longitude and latitude of members.
    fn geo_pos(key, members) = "GEOPOS", key, members;
    /// Members within a circle or a box.
    fn geo_search(key, options) = "GEOSEARCH", key, options;
    /// Publishes a message and returns how many got it.
    fn publish(channel, message) = "PUBLISH", channel, message;
    /// Answers PONG.
    fn ping() = "PING";
    /// Answers the message.
    fn echo(message) = "ECHO", message;
}

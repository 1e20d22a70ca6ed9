//! Commands whose results have the types that they nearly always have: text, numbers, lists of them.

use std::collections::{HashMap, HashSet};

use crate::commands::AsyncCommands;
use crate::commands::options::{InfoDict, IntegerReplyOrNoOp};
use crate::error::RedisResult;
use crate::streams::{StreamRangeReply, StreamReadReply};
use crate::values::args::ToRedisArgs;

/// Calls a macro with the commands and their types.
macro_rules! typed_commands {
    ($then:ident) => {
        $then! {
            get(key) -> Option<String>;
            set(key, value) -> ();
            set_options(key, value, options) -> Option<String>;
            set_ex(key, value, seconds) -> ();
            pset_ex(key, value, milliseconds) -> ();
            set_nx(key, value) -> bool;
            getset(key, value) -> Option<String>;
            get_del(key) -> Option<String>;
            get_ex(key, expiry) -> Option<String>;
            mset(pairs) -> ();
            mset_nx(pairs) -> bool;
            mget(keys) -> Vec<Option<String>>;
            append(key, value) -> usize;
            strlen(key) -> usize;
            getrange(key, from, to) -> String;
            setrange(key, offset, value) -> usize;
            incr(key, by) -> i64;
            decr(key, by) -> i64;
            incr_float(key, by) -> f64;

            del(keys) -> usize;
            unlink(keys) -> usize;
            exists(keys) -> usize;
            touch(keys) -> usize;
            key_type(key) -> String;
            expire(key, seconds) -> bool;
            expire_options(key, seconds, option) -> bool;
            pexpire(key, milliseconds) -> bool;
            pexpire_options(key, milliseconds, option) -> bool;
            expire_at(key, time) -> bool;
            expire_at_options(key, time, option) -> bool;
            pexpire_at(key, time) -> bool;
            pexpire_at_options(key, time, option) -> bool;
            persist(key) -> bool;
            ttl(key) -> IntegerReplyOrNoOp;
            pttl(key) -> IntegerReplyOrNoOp;
            expire_time(key) -> IntegerReplyOrNoOp;
            pexpire_time(key) -> IntegerReplyOrNoOp;
            rename(key, new_key) -> ();
            rename_nx(key, new_key) -> bool;
            copy(key, to, options) -> bool;
            move_key(key, db) -> bool;
            keys(pattern) -> Vec<String>;
            randomkey() -> Option<String>;
            dump(key) -> Option<Vec<u8>>;
            restore(key, milliseconds, serialized, options) -> ();
            object_encoding(key) -> Option<String>;
            object_freq(key) -> Option<u64>;
            object_idletime(key) -> Option<u64>;
            object_refcount(key) -> Option<u64>;
            memory_usage(key) -> Option<u64>;

            setbit(key, offset, value) -> bool;
            getbit(key, offset) -> bool;
            bitcount(key) -> usize;
            bitcount_range(key, start, end) -> usize;
            bitpos(key, bit) -> i64;
            bitpos_range(key, bit, start, end) -> i64;
            bit_and(destination, sources) -> usize;
            bit_or(destination, sources) -> usize;
            bit_xor(destination, sources) -> usize;
            bit_not(destination, source) -> usize;
            pfadd(key, elements) -> bool;
            pfcount(keys) -> usize;
            pfmerge(destination, sources) -> ();

            lpush(key, elements) -> usize;
            rpush(key, elements) -> usize;
            lpush_exists(key, elements) -> usize;
            rpush_exists(key, elements) -> usize;
            llen(key) -> usize;
            lrange(key, start, stop) -> Vec<String>;
            lindex(key, index) -> Option<String>;
            lset(key, index, element) -> ();
            linsert_before(key, pivot, element) -> i64;
            linsert_after(key, pivot, element) -> i64;
            lrem(key, count, element) -> usize;
            ltrim(key, start, stop) -> ();
            lmove(source, destination, from, to) -> Option<String>;
            rpoplpush(source, destination) -> Option<String>;
            blpop(keys, seconds) -> Option<(String, String)>;
            brpop(keys, seconds) -> Option<(String, String)>;
            blmove(source, destination, from, to, seconds) -> Option<String>;

            hget(key, field) -> Option<String>;
            hmget(key, fields) -> Vec<Option<String>>;
            hgetall(key) -> HashMap<String, String>;
            hset(key, field, value) -> usize;
            hset_multiple(key, pairs) -> usize;
            hset_nx(key, field, value) -> bool;
            hdel(key, fields) -> usize;
            hexists(key, field) -> bool;
            hkeys(key) -> Vec<String>;
            hvals(key) -> Vec<String>;
            hlen(key) -> usize;
            hstrlen(key, field) -> usize;
            hincr(key, field, by) -> i64;
            hincr_float(key, field, by) -> f64;
            hexpire(key, seconds, option, fields) -> Vec<IntegerReplyOrNoOp>;
            hpersist(key, fields) -> Vec<IntegerReplyOrNoOp>;
            httl(key, fields) -> Vec<IntegerReplyOrNoOp>;
            hpttl(key, fields) -> Vec<IntegerReplyOrNoOp>;

            sadd(key, members) -> usize;
            srem(key, members) -> usize;
            smembers(key) -> HashSet<String>;
            sismember(key, member) -> bool;
            smismember(key, members) -> Vec<bool>;
            scard(key) -> usize;
            srandmember_multiple(key, count) -> Vec<String>;
            smove(source, destination, member) -> bool;
            sinter(keys) -> HashSet<String>;
            sintercard(keys) -> usize;
            sinterstore(destination, keys) -> usize;
            sunion(keys) -> HashSet<String>;
            sunionstore(destination, keys) -> usize;
            sdiff(keys) -> HashSet<String>;
            sdiffstore(destination, keys) -> usize;

            zadd(key, member, score) -> usize;
            zadd_multiple(key, scored_members) -> usize;
            zincr(key, member, by) -> f64;
            zrem(key, members) -> usize;
            zcard(key) -> usize;
            zcount(key, min, max) -> usize;
            zlexcount(key, min, max) -> usize;
            zscore(key, member) -> Option<f64>;
            zscore_multiple(key, members) -> Vec<Option<f64>>;
            zrank(key, member) -> Option<usize>;
            zrank_withscore(key, member) -> Option<(usize, f64)>;
            zrevrank(key, member) -> Option<usize>;
            zrevrank_withscore(key, member) -> Option<(usize, f64)>;
            zrange(key, start, stop) -> Vec<String>;
            zrange_withscores(key, start, stop) -> Vec<(String, f64)>;
            zrevrange(key, start, stop) -> Vec<String>;
            zrevrange_withscores(key, start, stop) -> Vec<(String, f64)>;
            zrangebyscore(key, min, max) -> Vec<String>;
            zrangebyscore_withscores(key, min, max) -> Vec<(String, f64)>;
            zrangebylex(key, min, max) -> Vec<String>;
            zremrangebyrank(key, start, stop) -> usize;
            zrembyscore(key, min, max) -> usize;
            zrembylex(key, min, max) -> usize;
            zpopmin(key, count) -> Vec<(String, f64)>;
            zpopmax(key, count) -> Vec<(String, f64)>;
            bzpopmin(keys, seconds) -> Option<(String, String, f64)>;
            bzpopmax(keys, seconds) -> Option<(String, String, f64)>;
            zinterstore(destination, keys) -> usize;
            zunionstore(destination, keys) -> usize;
            zdiffstore(destination, keys) -> usize;

            xadd(key, id, pairs) -> String;
            xadd_options(key, id, pairs, options) -> Option<String>;
            xlen(key) -> usize;
            xrange(key, start, end) -> StreamRangeReply;
            xrange_all(key) -> StreamRangeReply;
            xrange_count(key, start, end, count) -> StreamRangeReply;
            xrevrange(key, end, start) -> StreamRangeReply;
            xrevrange_all(key) -> StreamRangeReply;
            xdel(key, ids) -> usize;
            xtrim(key, options) -> usize;
            xread(keys, ids) -> Option<StreamReadReply>;
            xread_options(keys, ids, options) -> Option<StreamReadReply>;
            xgroup_create(key, group, id) -> ();
            xgroup_create_mkstream(key, group, id) -> ();
            xgroup_destroy(key, group) -> bool;
            xack(key, group, ids) -> usize;

            publish(channel, message) -> usize;
            spublish(channel, message) -> usize;
            ping() -> String;
            echo(message) -> String;
            dbsize() -> usize;
            flushdb() -> ();
            flushall() -> ();
            info(sections) -> InfoDict;
            config_get(patterns) -> HashMap<String, String>;
            config_set(pairs) -> ();
            client_id() -> u64;
            lastsave() -> u64;
        }
    };
}

pub(crate) use typed_commands;

macro_rules! async_typed {
    ($($name:ident($($arg:ident),*) -> $reply:ty;)*) => {
        /// Commands as methods whose results need no type: text as `String`, numbers, lists of them. For others, and
        /// for commands whose reply depends on their options, there is [`AsyncCommands`]. A program imports one of the
        /// two, since their methods have the same names:
        ///
        /// ```no_run
        /// # async fn example(con: onrush::Connection) -> onrush::RedisResult<()> {
        /// use onrush::AsyncTypedCommands;
        /// con.set("greeting", "hello").await?;
        /// let greeting = con.get("greeting").await?;
        /// assert_eq!(greeting.as_deref(), Some("hello"));
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        /// All of them fail as [`Cmd::query_async`](crate::Cmd::query_async) does; text that is no UTF-8 does not fit.
        pub trait AsyncTypedCommands: AsyncCommands {$(
            #[doc = concat!("As [`", stringify!($name), "`](AsyncCommands::", stringify!($name), ").")]
            fn $name(&self, $($arg: impl ToRedisArgs),*) -> impl Future<Output = RedisResult<$reply>> + Send {
                AsyncCommands::$name(self, $($arg),*)
            }
        )*}

        impl<T: AsyncCommands> AsyncTypedCommands for T {}
    };
}

typed_commands! { async_typed }

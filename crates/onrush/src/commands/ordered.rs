//! The table of the commands on sorted sets, streams and geo indexes.

macro_rules! ordered_commands {
    ($($link:tt)*) => { $crate::commands::chain! { [$($link)*]
        /// Adds a member or changes its score.
        fn zadd(key, member, score) = "ZADD", key, score, member;
        /// Adds several members, from pairs of a score and a member.
        fn zadd_multiple(key, scored_members) = "ZADD", key, scored_members;
        /// As [`zadd`](Self::zadd), with [`SortedSetAddOptions`](crate::SortedSetAddOptions).
        fn zadd_options(key, member, score, options) = "ZADD", key, options, score, member;
        /// As [`zadd_multiple`](Self::zadd_multiple), with [`SortedSetAddOptions`](crate::SortedSetAddOptions).
        fn zadd_multiple_options(key, scored_members, options) = "ZADD", key, options, scored_members;
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
        /// A member's rank and score.
        fn zrank_withscore(key, member) = "ZRANK", key, member, "WITHSCORE";
        /// A member's rank from behind.
        fn zrevrank(key, member) = "ZREVRANK", key, member;
        /// A member's rank from behind and its score.
        fn zrevrank_withscore(key, member) = "ZREVRANK", key, member, "WITHSCORE";
        /// Members by rank.
        fn zrange(key, start, stop) = "ZRANGE", key, start, stop;
        /// Members by rank with their scores.
        fn zrange_withscores(key, start, stop) = "ZRANGE", key, start, stop, "WITHSCORES";
        /// Members of a range with [`SortedSetRangeOptions`](crate::SortedSetRangeOptions).
        fn zrange_options(key, start, stop, options) = "ZRANGE", key, start, stop, options;
        /// Stores members of a range, with [`SortedSetRangeOptions`](crate::SortedSetRangeOptions) or `()`.
        fn zrangestore(destination, source, start, stop, options) = "ZRANGESTORE", destination, source, start, stop, options;
        /// Members by rank from behind.
        fn zrevrange(key, start, stop) = "ZREVRANGE", key, start, stop;
        /// Members by rank from behind with their scores.
        fn zrevrange_withscores(key, start, stop) = "ZREVRANGE", key, start, stop, "WITHSCORES";
        /// Members by score; an end may be a [`ScoreBound`](crate::ScoreBound).
        fn zrangebyscore(key, min, max) = "ZRANGEBYSCORE", key, min, max;
        /// Members by score with their scores.
        fn zrangebyscore_withscores(key, min, max) = "ZRANGEBYSCORE", key, min, max, "WITHSCORES";
        /// Members by score: at most `count` after an offset.
        fn zrangebyscore_limit(key, min, max, offset, count) = "ZRANGEBYSCORE", key, min, max, "LIMIT", offset, count;
        /// Members by score with their scores: at most `count` after an offset.
        fn zrangebyscore_limit_withscores(key, min, max, offset, count) = "ZRANGEBYSCORE", key, min, max, "WITHSCORES", "LIMIT", offset, count;
        /// Members by score from behind.
        fn zrevrangebyscore(key, max, min) = "ZREVRANGEBYSCORE", key, max, min;
        /// Members by score from behind with their scores.
        fn zrevrangebyscore_withscores(key, max, min) = "ZREVRANGEBYSCORE", key, max, min, "WITHSCORES";
        /// Members by score from the greatest: at most `count` after an offset.
        fn zrevrangebyscore_limit(key, max, min, offset, count) = "ZREVRANGEBYSCORE", key, max, min, "LIMIT", offset, count;
        /// Members by score from the greatest, with their scores: at most `count` after an offset.
        fn zrevrangebyscore_limit_withscores(key, max, min, offset, count) = "ZREVRANGEBYSCORE", key, max, min, "WITHSCORES", "LIMIT", offset, count;
        /// Members in a lexical range; an end may be a [`LexBound`](crate::LexBound).
        fn zrangebylex(key, min, max) = "ZRANGEBYLEX", key, min, max;
        /// Members in a lexical range: at most `count` after an offset.
        fn zrangebylex_limit(key, min, max, offset, count) = "ZRANGEBYLEX", key, min, max, "LIMIT", offset, count;
        /// Members in a lexical range from behind.
        fn zrevrangebylex(key, max, min) = "ZREVRANGEBYLEX", key, max, min;
        /// Members in a lexical range from the greatest: at most `count` after an offset.
        fn zrevrangebylex_limit(key, max, min, offset, count) = "ZREVRANGEBYLEX", key, max, min, "LIMIT", offset, count;
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
        /// Takes the members with the least scores of the first of several sets that has some.
        fn zmpop_min(keys, count) = "ZMPOP", keys.num_of_args(), keys, "MIN", "COUNT", count;
        /// Takes the members with the greatest scores of the first of several sets that has some.
        fn zmpop_max(keys, count) = "ZMPOP", keys.num_of_args(), keys, "MAX", "COUNT", count;
        /// As [`zmpop_min`](Self::zmpop_min), waiting for one.
        fn bzmpop_min(seconds, keys, count) = "BZMPOP", seconds, keys.num_of_args(), keys, "MIN", "COUNT", count;
        /// As [`zmpop_max`](Self::zmpop_max), waiting for one.
        fn bzmpop_max(seconds, keys, count) = "BZMPOP", seconds, keys.num_of_args(), keys, "MAX", "COUNT", count;
        /// Some members; `count` may be `None`.
        fn zrandmember(key, count) = "ZRANDMEMBER", key, count;
        /// Some members with their scores.
        fn zrandmember_withscores(key, count) = "ZRANDMEMBER", key, count, "WITHSCORES";
        /// The members that are in all.
        fn zinter(keys) = "ZINTER", keys.num_of_args(), keys;
        /// The members that are in all with their scores, combined by [`SortedSetCombineOptions`](crate::SortedSetCombineOptions) or `()`.
        fn zinter_withscores(keys, options) = "ZINTER", keys.num_of_args(), keys, options, "WITHSCORES";
        /// The number of members that are in all.
        fn zintercard(keys) = "ZINTERCARD", keys.num_of_args(), keys;
        /// Stores the members that are in all.
        fn zinterstore(destination, keys) = "ZINTERSTORE", destination, keys.num_of_args(), keys;
        /// The same with [`SortedSetCombineOptions`](crate::SortedSetCombineOptions).
        fn zinterstore_options(destination, keys, options) = "ZINTERSTORE", destination, keys.num_of_args(), keys, options;
        /// Stores the members that are in all with the least of their scores.
        fn zinterstore_min(destination, keys) = "ZINTERSTORE", destination, keys.num_of_args(), keys, "AGGREGATE", "MIN";
        /// Stores the members that are in all with the greatest of their scores.
        fn zinterstore_max(destination, keys) = "ZINTERSTORE", destination, keys.num_of_args(), keys, "AGGREGATE", "MAX";
        /// The members that are in any.
        fn zunion(keys) = "ZUNION", keys.num_of_args(), keys;
        /// The members that are in any with their scores, combined by [`SortedSetCombineOptions`](crate::SortedSetCombineOptions) or `()`.
        fn zunion_withscores(keys, options) = "ZUNION", keys.num_of_args(), keys, options, "WITHSCORES";
        /// Stores the members that are in any.
        fn zunionstore(destination, keys) = "ZUNIONSTORE", destination, keys.num_of_args(), keys;
        /// The same with [`SortedSetCombineOptions`](crate::SortedSetCombineOptions).
        fn zunionstore_options(destination, keys, options) = "ZUNIONSTORE", destination, keys.num_of_args(), keys, options;
        /// Stores the members that are in any with the least of their scores.
        fn zunionstore_min(destination, keys) = "ZUNIONSTORE", destination, keys.num_of_args(), keys, "AGGREGATE", "MIN";
        /// Stores the members that are in any with the greatest of their scores.
        fn zunionstore_max(destination, keys) = "ZUNIONSTORE", destination, keys.num_of_args(), keys, "AGGREGATE", "MAX";
        /// The members that are in the first only.
        fn zdiff(keys) = "ZDIFF", keys.num_of_args(), keys;
        /// The members that are in the first only, with their scores.
        fn zdiff_withscores(keys) = "ZDIFF", keys.num_of_args(), keys, "WITHSCORES";
        /// Stores the members that are in the first only.
        fn zdiffstore(destination, keys) = "ZDIFFSTORE", destination, keys.num_of_args(), keys;

        /// Appends an entry; `"*"` lets the server choose its identifier.
        fn xadd(key, id, pairs) = "XADD", key, id, pairs;
        /// Appends an entry with [`StreamAddOptions`](crate::streams::StreamAddOptions).
        fn xadd_options(key, id, pairs, options) = "XADD", key, options, id, pairs;
        /// Appends an entry and cuts off old ones by a [`StreamMaxlen`](crate::streams::StreamMaxlen).
        fn xadd_maxlen(key, maxlen, id, pairs) = "XADD", key, maxlen, id, pairs;
        /// The number of entries.
        fn xlen(key) = "XLEN", key;
        /// Entries of a range, as a [`StreamRangeReply`](crate::streams::StreamRangeReply).
        fn xrange(key, start, end) = "XRANGE", key, start, end;
        /// All entries.
        fn xrange_all(key) = "XRANGE", key, "-", "+";
        /// At most `count` entries of a range.
        fn xrange_count(key, start, end, count) = "XRANGE", key, start, end, "COUNT", count;
        /// Entries of a range, newest first.
        fn xrevrange(key, end, start) = "XREVRANGE", key, end, start;
        /// All entries, newest first.
        fn xrevrange_all(key) = "XREVRANGE", key, "+", "-";
        /// At most `count` entries of a range, newest first.
        fn xrevrange_count(key, end, start, count) = "XREVRANGE", key, end, start, "COUNT", count;
        /// Deletes entries.
        fn xdel(key, ids) = "XDEL", key, ids;
        /// Cuts off old entries by a [`StreamMaxlen`](crate::streams::StreamMaxlen) or [`StreamTrimOptions`](crate::streams::StreamTrimOptions).
        fn xtrim(key, options) = "XTRIM", key, options;
        /// The same by the name that takes [`StreamTrimOptions`](crate::streams::StreamTrimOptions) in the `redis` crate.
        fn xtrim_options(key, options) = "XTRIM", key, options;
        /// Entries after the given ones of several streams, as a [`StreamReadReply`](crate::streams::StreamReadReply).
        fn xread(keys, ids) = "XREAD", "STREAMS", keys, ids;
        /// The same with [`StreamReadOptions`](crate::streams::StreamReadOptions), waiting with its `block`.
        fn xread_options(keys, ids, options) = "XREAD", options, "STREAMS", keys, ids;
        /// Entries for a consumer of a group: new ones by the identifier `">"`, its pending ones by any other.
        fn xreadgroup(group, consumer, keys, ids) = "XREADGROUP", "GROUP", group, consumer, "STREAMS", keys, ids;
        /// The same with [`StreamReadOptions`](crate::streams::StreamReadOptions), waiting with its `block`.
        fn xreadgroup_options(group, consumer, keys, ids, options) = "XREADGROUP", "GROUP", group, consumer, options, "STREAMS", keys, ids;
        /// Makes a consumer group.
        fn xgroup_create(key, group, id) = "XGROUP", "CREATE", key, group, id;
        /// Makes a consumer group and the stream.
        fn xgroup_create_mkstream(key, group, id) = "XGROUP", "CREATE", key, group, id, "MKSTREAM";
        /// Makes a consumer of a group.
        fn xgroup_createconsumer(key, group, consumer) = "XGROUP", "CREATECONSUMER", key, group, consumer;
        /// Deletes a consumer and returns how many entries it had pending.
        fn xgroup_delconsumer(key, group, consumer) = "XGROUP", "DELCONSUMER", key, group, consumer;
        /// Deletes a consumer group.
        fn xgroup_destroy(key, group) = "XGROUP", "DESTROY", key, group;
        /// Sets the last delivered entry of a group.
        fn xgroup_setid(key, group, id) = "XGROUP", "SETID", key, group, id;
        /// Acknowledges entries.
        fn xack(key, group, ids) = "XACK", key, group, ids;
        /// Acknowledges entries and deletes them; `policy` is `"KEEPREF"`, `"DELREF"` or `"ACKED"`.
        fn xack_del(key, group, policy, ids) = "XACKDEL", key, group, policy, "IDS", ids.num_of_args(), ids;
        /// Deletes entries; `policy` is `"KEEPREF"`, `"DELREF"` or `"ACKED"`.
        fn xdel_ex(key, policy, ids) = "XDELEX", key, policy, "IDS", ids.num_of_args(), ids;
        /// A summary of a group's pending entries, as a [`StreamPendingReply`](crate::streams::StreamPendingReply).
        fn xpending(key, group) = "XPENDING", key, group;
        /// Pending entries of a range, as a [`StreamPendingCountReply`](crate::streams::StreamPendingCountReply).
        fn xpending_count(key, group, start, end, count) = "XPENDING", key, group, start, end, count;
        /// As [`xpending_count`](Self::xpending_count), for one consumer.
        fn xpending_consumer_count(key, group, start, end, count, consumer) = "XPENDING", key, group, start, end, count, consumer;
        /// As [`xpending_count`](Self::xpending_count), for entries that were idle for `milliseconds`; `consumer` may
        /// be `None`.
        fn xpending_idle_count(key, group, milliseconds, start, end, count, consumer) = "XPENDING", key, group, "IDLE", milliseconds, start, end, count, consumer;
        /// Gives a consumer pending entries that were idle for `milliseconds`, as a
        /// [`StreamClaimReply`](crate::streams::StreamClaimReply).
        fn xclaim(key, group, consumer, milliseconds, ids) = "XCLAIM", key, group, consumer, milliseconds, ids;
        /// The same with [`StreamClaimOptions`](crate::streams::StreamClaimOptions).
        fn xclaim_options(key, group, consumer, milliseconds, ids, options) = "XCLAIM", key, group, consumer, milliseconds, ids, options;
        /// Gives a consumer all entries that were idle for `milliseconds`, as a
        /// [`StreamAutoClaimReply`](crate::streams::StreamAutoClaimReply).
        fn xautoclaim(key, group, consumer, milliseconds, start) = "XAUTOCLAIM", key, group, consumer, milliseconds, start;
        /// The same with [`StreamAutoClaimOptions`](crate::streams::StreamAutoClaimOptions).
        fn xautoclaim_options(key, group, consumer, milliseconds, start, options) = "XAUTOCLAIM", key, group, consumer, milliseconds, start, options;
        /// Facts about a stream, as a [`StreamInfoStreamReply`](crate::streams::StreamInfoStreamReply).
        fn xinfo_stream(key) = "XINFO", "STREAM", key;
        /// The groups of a stream, as a [`StreamInfoGroupsReply`](crate::streams::StreamInfoGroupsReply).
        fn xinfo_groups(key) = "XINFO", "GROUPS", key;
        /// The consumers of a group, as a [`StreamInfoConsumersReply`](crate::streams::StreamInfoConsumersReply).
        fn xinfo_consumers(key, group) = "XINFO", "CONSUMERS", key, group;
        /// Sets the last identifier of a stream.
        fn xsetid(key, id) = "XSETID", key, id;

        /// Adds members, each from its [`Coord`](crate::commands::geo::Coord) (or longitude and latitude) and name.
        fn geo_add(key, places) = "GEOADD", key, places;
        /// The same with [`GeoAddOptions`](crate::commands::geo::GeoAddOptions).
        fn geo_add_options(key, places, options) = "GEOADD", key, options, places;
        /// The distance between two members in a [`Unit`](crate::commands::geo::Unit).
        fn geo_dist(key, one, other, unit) = "GEODIST", key, one, other, unit;
        /// Members as Geohash texts.
        fn geo_hash(key, members) = "GEOHASH", key, members;
        /// Longitude and latitude of members, each a [`Coord`](crate::commands::geo::Coord).
        fn geo_pos(key, members) = "GEOPOS", key, members;
        /// Members within a circle or a box, by a [`GeoSearch`](crate::commands::geo::GeoSearch), each a [`RadiusSearchResult`](crate::commands::geo::RadiusSearchResult).
        fn geo_search(key, search) = "GEOSEARCH", key, search;
        /// Stores the members within a circle or a box and returns how many.
        fn geo_search_store(destination, source, search) = "GEOSEARCHSTORE", destination, source, search;
        /// Members within a circle around a place, with [`RadiusOptions`](crate::commands::geo::RadiusOptions) or `()`.
        fn geo_radius(key, longitude, latitude, radius, unit, options) = "GEORADIUS", key, longitude, latitude, radius, unit, options;
        /// Members within a circle around a member, with [`RadiusOptions`](crate::commands::geo::RadiusOptions) or `()`.
        fn geo_radius_by_member(key, member, radius, unit, options) = "GEORADIUSBYMEMBER", key, member, radius, unit, options;
    }};
}

pub(crate) use ordered_commands;

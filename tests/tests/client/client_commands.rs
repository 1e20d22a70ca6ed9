//! The client library's typed commands, options and replies, over RESP2 and RESP3, against Onrush and both oracles.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use futures_core::Stream;
use onrush::geo::{Coord, GeoAddOptions, GeoSearch, RadiusOptions, RadiusOrder, RadiusSearchResult, Unit};
use onrush::streams::{
    StreamAddOptions, StreamAutoClaimOptions, StreamAutoClaimReply, StreamClaimOptions, StreamClaimReply,
    StreamInfoConsumersReply, StreamInfoGroupsReply, StreamInfoStreamReply, StreamMaxlen, StreamPendingCountReply,
    StreamPendingReply, StreamRangeReply, StreamReadOptions, StreamReadReply, StreamTrimOptions, StreamTrimStrategy,
};
use onrush::{
    Aggregate, AsyncCommands, Client, Connection, CopyOptions, Direction, ExistenceCheck, ExpireOption, Expiry,
    FieldExistenceCheck, HashFieldExpirationOptions, InfoDict, IntegerReplyOrNoOp, Json, LexBound, LposOptions,
    RedisResult, ScanOptions, ScoreBound, SetExpiry, SetOptions, SortedSetAddOptions, SortedSetCombineOptions,
    SortedSetRangeOptions, cmd, json, pipe,
};
use onrush_tests::server::{Oracle, Server};

/// Runs a test with both protocols against Onrush and the oracles, a fresh server each.
fn each(oracles: &[Oracle], test: impl AsyncFn(&Connection) -> RedisResult<()>) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let mut servers = vec![("onrush".to_owned(), Server::start_onrush(&["--workers", "2"]))];
    servers.extend(oracles.iter().map(|&oracle| (format!("{oracle:?}"), Server::start_oracle(oracle, &[]))));
    for (name, server) in servers {
        for protocol in ["resp2", "resp3"] {
            let url = format!("redis://127.0.0.1:{}/?protocol={protocol}", server.port());
            runtime.block_on(async {
                let con = Client::open(url).expect("a URL").connect().await.expect("a connection");
                let () = con.flushall().await.expect("FLUSHALL");
                let done = tokio::time::timeout(Duration::from_secs(60), test(&con)).await;
                done.expect("the test ends").unwrap_or_else(|error| panic!("{name} {protocol}: {error}"));
            });
        }
    }
}

#[test]
fn strings_and_keys() {
    each(&Oracle::ALL, async |con| {
        let lock = SetOptions::new().conditional_set(ExistenceCheck::NX).with_expiration(SetExpiry::PX(50_000));
        assert!(con.set_options::<_, _, _, bool>("lock", "me", lock).await?);
        assert!(!con.set_options::<_, _, _, bool>("lock", "you", lock).await?);
        let old: String = con.set_options("lock", "us", SetOptions::new().get(true)).await?;
        assert_eq!((old.as_str(), con.ttl::<_, IntegerReplyOrNoOp>("lock").await?.integer()), ("me", None));
        assert_eq!(con.get_ex::<_, _, String>("lock", Expiry::EX(100)).await?, "us");
        assert!(con.pttl::<_, IntegerReplyOrNoOp>("lock").await?.integer().is_some_and(|left| left <= 100_000));
        assert!(!con.expire_options::<_, _, _, bool>("lock", 50, ExpireOption::GT).await?);
        assert!(con.expire_options::<_, _, _, bool>("lock", 50, ExpireOption::LT).await?);
        let () = con.get_ex("lock", Expiry::PERSIST).await?;
        assert_eq!(con.ttl::<_, IntegerReplyOrNoOp>("lock").await?, IntegerReplyOrNoOp::ExistsButNotRelevant);
        assert_eq!(con.ttl::<_, IntegerReplyOrNoOp>("none").await?, IntegerReplyOrNoOp::NotExists);
        assert!(con.copy::<_, _, _, bool>("lock", "other", CopyOptions::new().replace(true)).await?);
        assert_eq!(con.lcs::<_, _, _, usize>("lock", "other", "LEN").await?, 2);
        let dumped: Vec<u8> = con.dump("lock").await?;
        let () = con.restore("again", 0, dumped, ()).await?;
        assert_eq!(con.get::<_, bytes::Bytes>("again").await?, "us");
        assert_eq!(con.bitfield::<_, _, Vec<i64>>("bits", ("SET", "u8", 0, 255, "GET", "u4", 4)).await?, [0, 15]);
        assert_eq!(con.bitcount_bits::<_, _, _, i64>("bits", 1, 3).await?, 3);
        let () = con.rpush("l", [3, 1, 2]).await?;
        assert_eq!(con.sort::<_, _, Vec<i32>>("l", "DESC").await?, [3, 2, 1]);
        Ok(())
    });
}

#[test]
fn lists_and_sets() {
    each(&Oracle::ALL, async |con| {
        let () = con.rpush("l", ["a", "b", "a", "c"]).await?;
        let all = LposOptions::new().count(0);
        assert_eq!(con.lpos::<_, _, _, Vec<usize>>("l", "a", all).await?, [0, 2]);
        assert_eq!(con.lpos::<_, _, _, Option<usize>>("l", "z", ()).await?, None);
        let moved: String = con.lmove("l", "m", Direction::Right, Direction::Left).await?;
        assert_eq!(moved, "c");
        let popped: Option<(String, Vec<String>)> = con.lmpop(["none", "l"], Direction::Left, 2).await?;
        assert_eq!(popped, Some(("l".into(), vec!["a".into(), "b".into()])));
        let popped: Option<(String, Vec<String>)> = con.blmpop(0.01, ["none"], Direction::Left, 1).await?;
        assert_eq!(popped, None);
        assert_eq!(con.blpop::<_, _, (String, String)>(["none", "m"], 1).await?, ("m".into(), "c".into()));
        let () = con.sadd("s", ["a", "b", "c"]).await?;
        let () = con.sadd("t", ["b", "c", "d"]).await?;
        assert_eq!(con.sintercard::<_, usize>(["s", "t"]).await?, 2);
        assert_eq!(con.sintercard_limit::<_, _, usize>(["s", "t"], 1).await?, 1);
        assert_eq!(con.srandmember_multiple::<_, _, Vec<String>>("s", -5).await?.len(), 5);
        assert_eq!(con.smismember::<_, _, Vec<bool>>("s", ["a", "d"]).await?, [true, false]);
        Ok(())
    });
}

#[test]
fn hashes() {
    each(&Oracle::ALL, async |con| {
        let () = con.hset_multiple("h", &[("a", 1), ("b", 2)]).await?;
        let pairs: BTreeMap<String, i32> = con.hrandfield_withvalues("h", 5).await?;
        assert_eq!(pairs, BTreeMap::from([("a".into(), 1), ("b".into(), 2)]));
        assert_eq!(con.hmget::<_, _, (i32, Option<i32>)>("h", ["a", "z"]).await?, (1, None));
        Ok(())
    });
}

#[test]
fn fields_that_expire() {
    each(&[Oracle::Newer], async |con| {
        let ttl = async |fields: &[&str]| con.httl::<_, _, Vec<IntegerReplyOrNoOp>>("h", fields).await;
        let () = con.hset_multiple("h", &[("a", 1), ("b", 2)]).await?;
        assert_eq!(con.hexpire::<_, _, _, _, Vec<i32>>("h", 100, ExpireOption::NONE, ["a", "z"]).await?, [1, -2]);
        assert_eq!(con.hpexpire::<_, _, _, _, Vec<i32>>("h", 200_000, ExpireOption::LT, ["a"]).await?, [0]);
        let left = ttl(&["a", "b", "z"]).await?;
        assert!(left[0].integer().is_some_and(|seconds| seconds <= 100));
        assert_eq!(left[1..], [IntegerReplyOrNoOp::ExistsButNotRelevant, IntegerReplyOrNoOp::NotExists]);
        assert!(con.hexpire_time::<_, _, Vec<i64>>("h", ["a"]).await?[0] > 1_700_000_000);
        assert_eq!(con.hpersist::<_, _, Vec<i32>>("h", ["a", "b"]).await?, [1, -1]);
        let options = HashFieldExpirationOptions::new()
            .set_existence_check(FieldExistenceCheck::FNX)
            .set_expiration(SetExpiry::EX(50));
        assert!(con.hset_ex::<_, _, _, bool>("h", options, &[("c", 3), ("d", 4)]).await?);
        assert!(!con.hset_ex::<_, _, _, bool>("h", options, &[("c", 5), ("e", 6)]).await?);
        assert!(ttl(&["d"]).await?[0].integer().is_some_and(|seconds| seconds <= 50));
        assert_eq!(con.hget_ex::<_, _, _, Vec<i32>>("h", ["c", "d"], Expiry::PERSIST).await?, [3, 4]);
        assert_eq!(ttl(&["d"]).await?, [IntegerReplyOrNoOp::ExistsButNotRelevant]);
        assert_eq!(con.hget_del::<_, _, Vec<Option<i32>>>("h", ["c", "z"]).await?, [Some(3), None]);
        let fields: BTreeSet<String> =
            con.hscan_options::<String>("h", ScanOptions::new().novalues()).collect().await?;
        assert_eq!(fields, ["a", "b", "d"].map(String::from).into());
        Ok(())
    });
}

#[test]
fn sorted_sets() {
    each(&Oracle::ALL, async |con| {
        let () = con.zadd_multiple("z", &[(1.0, "a"), (2.0, "b"), (3.0, "c")]).await?;
        let greater = SortedSetAddOptions::update_only().greater_than().include_changed_count();
        assert_eq!(con.zadd_options::<_, _, _, _, i32>("z", "a", 0.5, greater).await?, 0);
        assert_eq!(con.zadd_multiple_options::<_, _, _, i32>("z", &[(1.5, "a"), (9.0, "new")], greater).await?, 1);
        let increment = SortedSetAddOptions::add_only().increment_score();
        assert_eq!(con.zadd_options::<_, _, _, _, Option<f64>>("z", "a", 1, increment).await?, None);
        let range: Vec<String> = con.zrangebyscore("z", ScoreBound::Exclusive(1.5), ScoreBound::Max).await?;
        assert_eq!(range, ["b", "c"]);
        let options = SortedSetRangeOptions::by_score().rev().limit(0, 2).withscores();
        let range: Vec<(String, f64)> = con.zrange_options("z", ScoreBound::Max, ScoreBound::Min, options).await?;
        assert_eq!(range, [("c".into(), 3.0), ("b".into(), 2.0)]);
        let lex: Vec<String> = con.zrangebylex("z", LexBound::Min, LexBound::Max).await?;
        assert_eq!(lex.len(), 3);
        let () = con.zadd_multiple("y", &[(10, "b"), (20, "d")]).await?;
        let combine = SortedSetCombineOptions::new().weights([1.0, 2.0]).aggregate(Aggregate::Max);
        let union: Vec<(String, f64)> = con.zunion_withscores(["z", "y"], combine).await?;
        assert_eq!(union.last(), Some(&("d".into(), 40.0)));
        assert_eq!(con.zinterstore_min::<_, _, i32>("out", ["z", "y"]).await?, 1);
        assert_eq!(con.zscore::<_, _, f64>("out", "b").await?, 2.0);
        assert_eq!(con.zdiff::<_, Vec<String>>(["z", "y"]).await?, ["a", "c"]);
        let popped: Option<(String, Vec<(String, f64)>)> = con.zmpop_max(["none", "z"], 2).await?;
        assert_eq!(popped, Some(("z".into(), vec![("c".into(), 3.0), ("b".into(), 2.0)])));
        let popped: Option<(String, Vec<(String, f64)>)> = con.bzmpop_min(0.01, ["none"], 1).await?;
        assert_eq!(popped, None);
        assert_eq!(con.bzpopmin::<_, _, (String, String, f64)>(["z"], 1).await?, ("z".into(), "a".into(), 1.5));
        Ok(())
    });
}

#[test]
fn streams_are_added_to_trimmed_and_read() {
    each(&Oracle::ALL, async |con| {
        for n in 1..=5 {
            let options = StreamAddOptions::new().trim(StreamMaxlen::Equals(4));
            let _: String = con.xadd_options("s", format!("{n}-0"), &[("n", n), ("n", -n)], options).await?;
        }
        let missing: Option<String> =
            con.xadd_options("none", "*", &[("n", 1)], StreamAddOptions::new().nomkstream()).await?;
        assert_eq!(missing, None);
        let all: StreamRangeReply = con.xrange_all("s").await?;
        assert_eq!(all.ids.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>(), ["2-0", "3-0", "4-0", "5-0"]);
        assert_eq!((all.ids[0].get::<i32>("n"), all.ids[0].len()), (Some(2), 2));
        let last: StreamRangeReply = con.xrevrange_count("s", "+", "-", 1).await?;
        assert_eq!(last.ids[0].id, "5-0");
        assert_eq!(con.xtrim_options::<_, _, i32>("s", StreamTrimOptions::minid("3")).await?, 1);
        let about = StreamTrimOptions::new(StreamTrimStrategy::minid_approx("4").limit(10));
        assert_eq!(con.xtrim::<_, _, i32>("s", about).await?, 0);
        let read: StreamReadReply = con.xread_options(["s", "none"], [0, 0], StreamReadOptions::new().count(2)).await?;
        assert_eq!((read.keys.len(), read.keys[0].key.as_str(), read.keys[0].ids.len()), (1, "s", 2));
        let waited: StreamReadReply = con.xread_options(["s"], ["$"], StreamReadOptions::new().block(10)).await?;
        assert_eq!(waited, StreamReadReply::default());
        let info: StreamInfoStreamReply = con.xinfo_stream("s").await?;
        assert_eq!((info.length, info.last_generated_id.as_str(), info.entries_added), (3, "5-0", 5));
        assert_eq!(info.first_entry.unwrap().id, "3-0");
        Ok(())
    });
}

#[test]
fn streams_are_worked_off_by_groups() {
    each(&Oracle::ALL, async |con| {
        let () = con.xgroup_create_mkstream("s", "g", 0).await?;
        let pending: StreamPendingReply = con.xpending("s", "g").await?;
        assert_eq!(pending, StreamPendingReply::Empty);
        for n in 1..=3 {
            let () = con.xadd("s", format!("{n}-0"), &[("n", n)]).await?;
        }
        let read: StreamReadReply = con.xreadgroup("g", "one", ["s"], [">"]).await?;
        assert_eq!(read.keys[0].ids.len(), 3);
        let none: StreamReadReply =
            con.xreadgroup_options("g", "one", ["s"], [">"], StreamReadOptions::new().block(5)).await?;
        assert!(none.keys.is_empty());
        assert_eq!(con.xack::<_, _, _, i32>("s", "g", ["1-0"]).await?, 1);
        let StreamPendingReply::Data(data) = con.xpending("s", "g").await? else { panic!("some are pending") };
        assert_eq!((data.count, data.start_id.as_str(), data.end_id.as_str()), (2, "2-0", "3-0"));
        assert_eq!((data.consumers[0].name.as_str(), data.consumers[0].pending), ("one", 2));
        let rows: StreamPendingCountReply = con.xpending_consumer_count("s", "g", "-", "+", 10, "one").await?;
        assert_eq!((rows.ids[0].id.as_str(), rows.ids[0].times_delivered), ("2-0", 1));
        let claimed: StreamClaimReply = con.xclaim("s", "g", "two", 0, ["2-0"]).await?;
        assert_eq!(claimed.ids[0].get::<i32>("n"), Some(2));
        let just = StreamClaimOptions::new().with_justid().retry(7);
        let claimed: StreamClaimReply = con.xclaim_options("s", "g", "two", 0, ["2-0"], just).await?;
        assert_eq!((claimed.ids[0].id.as_str(), claimed.ids[0].is_empty()), ("2-0", true));
        let () = con.xdel("s", ["3-0"]).await?;
        let options = StreamAutoClaimOptions::new().count(10);
        let auto: StreamAutoClaimReply = con.xautoclaim_options("s", "g", "three", 0, 0, options).await?;
        assert_eq!(
            (auto.next_stream_id.as_str(), auto.claimed.len(), auto.deleted_ids),
            ("0-0", 1, vec!["3-0".into()])
        );
        let groups: StreamInfoGroupsReply = con.xinfo_groups("s").await?;
        let group = &groups.groups[0];
        assert_eq!((group.name.as_str(), group.pending, group.last_delivered_id.as_str()), ("g", 1, "3-0"));
        let consumers: StreamInfoConsumersReply = con.xinfo_consumers("s", "g").await?;
        let names: Vec<&str> = consumers.consumers.iter().map(|consumer| consumer.name.as_str()).collect();
        assert_eq!(names, ["one", "three", "two"]);
        // A pending entry that is deleted comes with its identifier only.
        let () = con.xdel("s", ["2-0"]).await?;
        let history: StreamReadReply = con.xreadgroup("g", "three", ["s"], [0]).await?;
        assert!(history.keys[0].ids[0].deleted);
        assert_eq!(con.xgroup_delconsumer::<_, _, _, i32>("s", "g", "three").await?, 1);
        assert!(con.xgroup_destroy::<_, _, bool>("s", "g").await?);
        Ok(())
    });
}

#[test]
fn places() {
    each(&Oracle::ALL, async |con| {
        let places =
            [(Coord::lon_lat(13.361389, 38.115556), "Palermo"), (Coord::lon_lat(15.087269, 37.502669), "Catania")];
        assert_eq!(con.geo_add::<_, _, i32>("g", &places).await?, 2);
        let only_new = GeoAddOptions::new().conditional_set(ExistenceCheck::NX).include_changed_count();
        assert_eq!(con.geo_add_options::<_, _, _, i32>("g", &places, only_new).await?, 0);
        assert_eq!(con.geo_dist::<_, _, _, _, f64>("g", "Palermo", "Catania", Unit::Kilometers).await?.round(), 166.0);
        let positions: Vec<Option<Coord>> = con.geo_pos("g", ["Palermo", "none"]).await?;
        assert!((positions[0].unwrap().longitude - 13.361389).abs() < 1e-4 && positions[1].is_none());
        let around = GeoSearch::from_coord(Coord::lon_lat(15.0, 37.0)).order(RadiusOrder::Asc);
        let search = around.clone().by_radius(200.0, Unit::Kilometers).with_coord().with_dist().with_hash();
        let found: Vec<RadiusSearchResult> = con.geo_search("g", search).await?;
        assert_eq!(found.iter().map(|place| place.name.as_str()).collect::<Vec<_>>(), ["Catania", "Palermo"]);
        assert!(found[0].dist.is_some_and(|dist| (56.0..57.0).contains(&dist)) && found[0].hash.is_some());
        assert!(found[1].coord.is_some_and(|coord| (coord.latitude - 38.115556).abs() < 1e-4));
        let boxed: Vec<RadiusSearchResult> =
            con.geo_search("g", around.clone().by_box(400.0, 400.0, Unit::Kilometers).limit(1)).await?;
        assert_eq!((boxed.len(), boxed[0].dist), (1, None));
        let near = GeoSearch::from_member("Palermo").by_radius(1.0, Unit::Miles).store_dist();
        assert_eq!(con.geo_search_store::<_, _, _, i32>("to", "g", near).await?, 1);
        let options = RadiusOptions::new().with_dist().order(RadiusOrder::Desc).limit(1);
        let far: Vec<RadiusSearchResult> = con.geo_radius("g", 15, 37, 200, Unit::Kilometers, options).await?;
        assert_eq!((far[0].name.as_str(), far.len()), ("Palermo", 1));
        Ok(())
    });
}

#[test]
fn scripts_functions_and_the_server() {
    each(&Oracle::ALL, async |con| {
        let sum: i32 = con.eval("return #KEYS * 10 + ARGV[1]", ["a", "b"], 5).await?;
        assert_eq!(sum, 25);
        let digest: String = con.script_load("return ARGV[1]").await?;
        assert_eq!(con.script_exists::<_, Vec<bool>>([digest.as_str(), "0"]).await?, [true, false]);
        assert_eq!(con.evalsha::<_, _, _, String>(&digest, (), "x").await?, "x");
        let library = "#!lua name=lib\nredis.register_function('double', function(_, args) return 2 * args[1] end)";
        assert_eq!(con.function_load_replace::<_, String>(library).await?, "lib");
        assert_eq!(con.fcall::<_, _, _, i32>("double", (), 21).await?, 42);
        let dump: Vec<u8> = con.function_dump().await?;
        let () = con.function_flush().await?;
        let () = con.function_restore(dump, "FLUSH").await?;
        let libraries: Vec<HashMap<String, onrush::Value>> = con.function_list(()).await?;
        assert_eq!(libraries.len(), 1);
        let () = con.function_delete("lib").await?;
        let info: InfoDict = con.info("server").await?;
        assert!(info.get::<u64>("process_id").is_some_and(|pid| pid > 0));
        let options: HashMap<String, String> = con.config_get(["maxmemory", "appendonly"]).await?;
        assert_eq!(options.len(), 2);
        let (seconds, micros): (u64, u64) = con.time().await?;
        assert!(seconds > 1_700_000_000 && micros < 1_000_000);
        assert!(con.command_count::<usize>().await? > 200 && con.client_id::<u64>().await? > 0);
        let () = con.client_setname("me").await?;
        assert_eq!(con.client_getname::<String>().await?, "me");
        assert_eq!(con.ping_message::<_, String>("hi").await?, "hi");
        Ok(())
    });
}

#[test]
fn scans_bring_everything_page_by_page() {
    each(&Oracle::ALL, async |con| {
        let mut fill = pipe();
        for n in 0..1_000 {
            fill.set(format!("key:{n}"), n)
                .ignore()
                .hset("h", n, n)
                .ignore()
                .sadd("s", n)
                .ignore()
                .zadd("z", n, n)
                .ignore();
        }
        fill.exec_async(con).await?;
        let keys: BTreeSet<String> = con.scan_match::<String>("key:*").collect().await?;
        assert_eq!(keys.len(), 1_000);
        let hashes: Vec<String> =
            con.scan_options::<String>(ScanOptions::new().with_type("hash").with_count(300)).collect().await?;
        assert_eq!(hashes, ["h"]);
        let fields: HashMap<i32, i32> = con.hscan::<(i32, i32)>("h").collect().await?;
        assert!(fields.len() == 1_000 && fields.iter().all(|(field, value)| field == value));
        let scores: HashMap<i32, f64> = con.zscan::<(i32, f64)>("z").collect().await?;
        assert!(scores.len() == 1_000 && scores.iter().all(|(&member, &score)| f64::from(member) == score));
        let some: BTreeSet<i32> = con.sscan_match::<i32>("s", "99*").collect().await?;
        assert_eq!(some, (99..=99).chain(990..=999).collect());
        // As a stream, and with nothing to find.
        let mut stream = con.scan::<String>();
        let mut count = 0;
        while let Some(key) = poll_fn(|cx| Pin::new(&mut stream).poll_next(cx)).await {
            key?;
            count += 1;
        }
        assert!(count >= 1_003);
        assert!(con.sscan::<String>("none").next_item().await.is_none());
        // An error ends it.
        let mut wrong = con.hscan::<(String, String)>("s");
        assert_eq!(wrong.next_item().await.unwrap().unwrap_err().code(), Some("WRONGTYPE"));
        assert!(wrong.next_item().await.is_none());
        // A scan may be run by any task.
        let own = con.clone();
        let counted = tokio::spawn(async move { own.sscan::<i32>("s").collect::<BTreeSet<_>>().await });
        assert_eq!(counted.await.expect("a task")?.len(), 1_000);
        Ok(())
    });
}

#[test]
fn json_and_shared_bytes_go_there_and_back() {
    each(&[Oracle::Older], async |con| {
        let value = serde_json::json!({"name": "Ada", "tags": [1, null]});
        let () = con.set("j", &value).await?;
        assert_eq!(con.get::<_, serde_json::Value>("j").await?, value);
        let () = con.set("user", json::to_arg(&("Ada", 36))?).await?;
        assert_eq!(con.get::<_, Json<(String, u8)>>("user").await?.0, ("Ada".to_owned(), 36));
        assert_eq!(con.get::<_, Option<Json<u8>>>("none").await?.map(|json| json.0), None);
        let bytes = bytes::Bytes::from(vec![0, 255, 13, 10]);
        let () = cmd("SET").arg("b").arg(&bytes).query_async(con).await?;
        assert_eq!(con.mget::<_, Vec<Option<bytes::Bytes>>>(["b", "none"]).await?, [Some(bytes), None]);
        Ok(())
    });
}

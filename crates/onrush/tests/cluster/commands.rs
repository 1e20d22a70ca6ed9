//! Commands go where their keys are, or to all primaries.

use super::harness::{Cluster, run, text, until};
use onrush::{
    AsyncCommands, CacheConfig, ClusterClient, ClusterConfig, ConnectionConfig, ErrorKind, Fate, RedisResult, Script,
    cmd, pipe,
};

#[test]
fn commands_and_pipelines_reach_the_nodes_of_their_keys() {
    run(async {
        let cluster = Cluster::start(3, false).await;
        let con = cluster.client().connect().await.unwrap();
        for number in 0..100 {
            let () = con.set(format!("key:{number}"), number).await.unwrap();
        }
        let mut many = pipe();
        (0..100).for_each(|number| _ = many.get(format!("key:{number}")));
        assert_eq!(many.query_async::<Vec<i64>>(&con).await.unwrap(), (0..100).collect::<Vec<_>>());
        for node in &cluster.nodes {
            let size: i64 = cmd("DBSIZE").query_async(&node.connect().await).await.unwrap();
            assert!(size > 10, "{size} keys on one node");
        }
        let mut mixed = pipe();
        mixed.set("a", "x").incr("a", 1).cmd("MGET").arg(("b", "c")).cmd("PING").cmd("DBSIZE").get("a").cmd("TIME");
        let results: Vec<RedisResult<onrush::Value>> = mixed.query_each(&con).await.unwrap();
        assert_eq!(results[1].as_ref().unwrap_err().code(), Some("ERR"));
        assert_eq!(results[2].as_ref().unwrap_err().code(), Some("CROSSSLOT"));
        assert_eq!(results[2].as_ref().unwrap_err().fate(), Fate::NotSent);
        assert_eq!(results[4], Ok(onrush::Value::Int(101)));
        assert_eq!(results[5], Ok(onrush::Value::BulkString(b"x".to_vec())));
        assert!(results[6].is_ok());
        assert_eq!(con.primaries().len(), 3);
    });
}

#[test]
fn what_concerns_all_nodes_goes_to_all_primaries() {
    run(async {
        let cluster = Cluster::start(3, false).await;
        let con = cluster.client().connect().await.unwrap();
        let keys: Vec<String> = (0..50).map(|number| format!("key:{number}")).collect();
        for key in &keys {
            let () = con.set(key, 1).await.unwrap();
        }
        assert_eq!(cmd("DBSIZE").query_async::<i64>(&con).await, Ok(50));
        let mut found: Vec<String> = con.keys("key:*").await.unwrap();
        found.sort();
        let mut wanted = keys.clone();
        wanted.sort();
        assert_eq!(found, wanted);
        assert_eq!(cmd("PING").query_async::<String>(&con).await, Ok("PONG".to_owned()));
        assert!(cmd("RANDOMKEY").query_async::<String>(&con).await.unwrap().starts_with("key:"));
        let hash: String = cmd("SCRIPT").arg("LOAD").arg("return 7").query_async(&con).await.unwrap();
        for key in &keys {
            assert_eq!(cmd("EVALSHA").arg(&hash).arg(1).arg(key).query_async::<i64>(&con).await, Ok(7));
        }
        let exist: Vec<bool> =
            cmd("SCRIPT").arg("EXISTS").arg(&hash).arg("f".repeat(40)).query_async(&con).await.unwrap();
        assert_eq!(exist, [true, false]);
        let () = cmd("CONFIG").arg("SET").arg("maxmemory-samples").arg(7).query_async(&con).await.unwrap();
        for node in &cluster.nodes {
            let set = node.call("CONFIG GET maxmemory-samples").await.unwrap();
            assert!(format!("{set:?}").contains("[55]"), "{set:?}");
        }
        let mut scanned: Vec<String> = con.scan_match::<String>("key:*").collect().await.unwrap();
        scanned.sort();
        assert_eq!(scanned, wanted);
        assert_eq!(
            cmd("SCAN").arg("7").query_async::<onrush::Value>(&con).await.unwrap_err().kind(),
            ErrorKind::Client
        );
        let () = cmd("FLUSHALL").query_async(&con).await.unwrap();
        assert_eq!(cmd("DBSIZE").query_async::<i64>(&con).await, Ok(0));
    });
}

#[test]
fn keys_in_several_slots_are_split_only_on_request() {
    run(async {
        let cluster = Cluster::start(3, false).await;
        let con = cluster.client().connect().await.unwrap();
        let error = con.mget::<_, ()>(["a", "b", "c"]).await.unwrap_err();
        assert_eq!((error.code(), error.fate()), (Some("CROSSSLOT"), Fate::NotSent));
        let con = cluster.client().connect_with(ClusterConfig::new().set_split(true)).await.unwrap();
        let pairs: Vec<(String, usize)> = (0..40).map(|number| (format!("key:{number}"), number)).collect();
        let keys: Vec<String> = pairs.iter().map(|(key, _)| key.clone()).chain(["none".to_owned()]).collect();
        let () = cmd("MSET").arg(&pairs).query_async(&con).await.unwrap();
        let values: Vec<Option<usize>> = con.mget(&keys).await.unwrap();
        assert_eq!(values, (0..40).map(Some).chain([None]).collect::<Vec<_>>());
        assert_eq!(con.exists::<_, i64>(&keys).await, Ok(40));
        assert_eq!(cmd("TOUCH").arg(&keys).query_async::<i64>(&con).await, Ok(40));
        let mut both = pipe();
        both.del(&keys[..10]).unlink(&keys[10..]).cmd("MGET").arg(&keys[..2]);
        let (deleted, unlinked, values): (i64, i64, Vec<Option<i64>>) = both.query_async(&con).await.unwrap();
        assert_eq!((deleted, unlinked, values), (10, 30, vec![None, None]));
        let error = cmd("RENAME").arg("a").arg("b").exec_async(&con).await.unwrap_err();
        assert_eq!(error.code(), Some("CROSSSLOT"));
    });
}

#[test]
fn transactions_scripts_and_blocking_commands_run_at_the_node_of_their_slot() {
    run(async {
        let cluster = Cluster::start(3, false).await;
        let con = cluster.client().connect().await.unwrap();
        for number in 0..20 {
            let (one, two) = (format!("{{{number}}}:a"), format!("{{{number}}}:b"));
            let (a, b): (i64, i64) = pipe().atomic().incr(&one, 2).incr(&two, 3).query_async(&con).await.unwrap();
            assert_eq!((a, b), (2, 3));
            let script = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
            assert_eq!(script.key(&one).arg(5).invoke_async::<i64>(&con).await, Ok(7));
            let () = cmd("SCRIPT").arg("FLUSH").query_async(&con).await.unwrap();
            assert_eq!(script.key(&one).arg(5).invoke_async::<i64>(&con).await, Ok(12));
            let mut both = pipe();
            both.atomic().invoke_script(script.key(&one).arg(0)).ignore();
            let () = both.exec_async(&con).await.unwrap();
            let () = cmd("SCRIPT").arg("FLUSH").query_async(&con).await.unwrap();
            assert_eq!(both.exec_async(&con).await.unwrap_err().code(), Some("NOSCRIPT"));
            assert_eq!(both.exec_async(&con).await, Ok(()));
            let new: (i64,) = con
                .transaction(&[&one, &two], async |lease, pipeline| {
                    let old: i64 = lease.get(&one).await?;
                    pipeline.set(&two, old + 1).ignore().get(&two).query_async(lease).await
                })
                .await
                .unwrap();
            assert_eq!(new, (13,));
            let key = format!("list:{number}");
            let (popped, pushed) = tokio::join!(
                async { cmd("BLPOP").arg(&key).arg(10).query_async::<(String, i64)>(&con).await },
                async {
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                    con.rpush::<_, _, i64>(&key, 4).await
                }
            );
            assert_eq!((popped.unwrap(), pushed.unwrap()), ((key.clone(), 4), 1));
        }
        let error = pipe().atomic().incr("a", 1).incr("b", 1).exec_async(&con).await.unwrap_err();
        assert_eq!(error.code(), Some("CROSSSLOT"));
        let error = con.transaction::<()>(["a", "b"], async |_, _| Ok(Some(()))).await.unwrap_err();
        assert_eq!(error.code(), Some("CROSSSLOT"));
        let error = cmd("SUBSCRIBE").arg("c").exec_async(&con).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Client);
        let lease = con.lease("x").await.unwrap();
        let () = cmd("WATCH").arg("x").query_async(&lease).await.unwrap();
        let () = lease.set("x", 1).await.unwrap();
    });
}

#[test]
fn what_a_cluster_cannot_do_is_refused_with_a_reason() {
    run(async {
        let cluster = Cluster::start(1, false).await;
        let cached = ConnectionConfig::new().set_cache(CacheConfig::new());
        let error = cluster.client().connect_with(ClusterConfig::new().set_connection(cached)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidClientConfig);
        assert!(error.to_string().contains("cache"), "{error}");
        let error = onrush::Client::open(cluster.url()).unwrap().connect().await.unwrap_err();
        assert!(error.to_string().contains("ClusterClient"), "{error}");
        let con = cluster.client().connect().await.unwrap();
        con.close().await;
        let error = con.set::<_, _, ()>("k", 1).await.unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::Closed, Fate::NotSent));
    });
}

#[test]
fn a_node_that_serves_nothing_any_more_is_left() {
    run(async {
        let cluster = Cluster::start(3, false).await;
        let config = ClusterConfig::new().set_refresh_interval(Some(std::time::Duration::from_millis(100)));
        let client = ClusterClient::open(format!("{}?client_name=lingers", cluster.url())).unwrap();
        let con = client.connect_with(config).await.unwrap();
        let mut all = pipe();
        (0..100).for_each(|number| _ = all.set(format!("key:{number}"), number));
        all.exec_async(&con).await.unwrap();
        let lingers = async || text(&cluster.nodes[2].call("CLIENT LIST").await.unwrap()).contains("lingers");
        assert!(lingers().await);
        cluster.nodes[2].call("FLUSHALL").await.unwrap();
        let id = cluster.id(0).await;
        for node in &cluster.nodes {
            let mut give = pipe();
            give.atomic();
            (10_922..16_384).for_each(|slot| _ = give.cmd("CLUSTER").arg(("SETSLOT", slot, "NODE", &id)));
            if node.port == cluster.nodes[0].port {
                // At once: a node that still claims them would get them back.
                give.cmd("CLUSTER").arg("BUMPEPOCH");
            }
            give.exec_async(&node.connect().await).await.unwrap();
        }
        until("the connection is closed", async || !lingers().await).await;
        all.exec_async(&con).await.unwrap();
        assert_eq!(con.primaries().len(), 2);
    });
}

#[test]
fn the_example_runs() {
    run(async {
        let cluster = Cluster::start(3, false).await;
        super::example::run(&cluster.url()).await.unwrap();
    });
}

#[test]
fn limits_and_counters_are_those_of_all_nodes() {
    run(async {
        let cluster = Cluster::start(3, false).await;
        let con = cluster.client().connect().await.unwrap();
        let () = con.with_timeout(std::time::Duration::from_secs(5)).set("a", 1).await.unwrap();
        let mut many = pipe();
        (0..99).for_each(|number| _ = many.get(format!("key:{number}")));
        many.exec_async(&con).await.unwrap();
        until("all replies are counted", async || con.counters().in_flight == 0).await;
        let counters = con.counters();
        assert!(counters.commands >= 100 && counters.received_bytes >= 300, "{counters:?}");
        assert_eq!((counters.reconnects, counters.lost), (0, 0));
    });
}

#[test]
fn the_login_and_the_protocol_of_the_url_are_those_of_all_nodes() {
    run(async {
        let cluster = Cluster::start(3, false).await;
        for node in &cluster.nodes {
            node.call("CONFIG SET requirepass secret").await.unwrap();
        }
        let error = cluster.client().connect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AuthenticationFailed, "{error}");
        let hosts = cluster.url().replace("redis-cluster://", "");
        let client = ClusterClient::open(format!("redis-cluster://:secret@{hosts}?protocol=resp2")).unwrap();
        let con = client.connect().await.unwrap();
        let mut many = pipe();
        (0..50).for_each(|number| _ = many.hset(format!("key:{number}"), "f", number).ignore());
        many.exec_async(&con).await.unwrap();
        let all: std::collections::HashMap<String, u64> = con.hgetall("key:7").await.unwrap();
        assert_eq!(all["f"], 7);
        assert_eq!(con.scan::<String>().collect::<Vec<_>>().await.unwrap().len(), 50);
        let mut sub = con.pubsub();
        sub.ssubscribe("a").await.unwrap();
        sub.subscribe("b").await.unwrap();
        let () = cmd("SPUBLISH").arg("a").arg("x").query_async(&con).await.unwrap();
        assert_eq!(sub.next_message().await.unwrap().get_payload_bytes(), b"x");
        let () = cmd("PUBLISH").arg("b").arg("y").query_async(&con).await.unwrap();
        assert_eq!(sub.next_message().await.unwrap().get_payload_bytes(), b"y");
    });
}

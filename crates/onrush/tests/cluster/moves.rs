//! What takes its time while slots move: commands with several keys, blocking commands, transactions, scans.

use std::collections::BTreeSet;
use std::task::Poll;
use std::time::{Duration, Instant};

use super::harness::{Cluster, run};
use onrush::{AsyncCommands, ClusterConfig, ConnectionConfig, RedisResult, Value, cmd, pipe};

async fn slot_of(cluster: &Cluster, key: &str) -> u16 {
    onrush::from_redis_value(cluster.nodes[0].call(&format!("CLUSTER KEYSLOT {key}")).await.unwrap()).unwrap()
}

#[test]
fn a_command_with_several_keys_waits_until_all_of_them_are_together_again() {
    run(async {
        let cluster = Cluster::start(3, false).await;
        let con = cluster.client().connect().await.unwrap();
        let slot = slot_of(&cluster, "{m}").await;
        let (from, to) = (cluster.owner(slot).await, (cluster.owner(slot).await + 1) % 3);
        let () = cmd("MSET").arg(("{m}1", 1, "{m}2", 2, "{m}3", 3)).query_async(&con).await.unwrap();
        cluster.begin_move(slot, from, to).await;
        assert_eq!(cluster.move_some(slot, from, to, 1).await, 1);
        // All keys are in one place: no wait.
        for key in ["{m}1", "{m}2", "{m}3"] {
            let () = pipe().atomic().incr(key, 10).ignore().incr(key, 10).ignore().query_async(&con).await.unwrap();
        }
        let both = tokio::spawn({
            let con = con.clone();
            async move {
                let mut pipeline = pipe();
                pipeline.cmd("MGET").arg(("{m}1", "{m}2", "{m}3")).incr("{m}1", 100).get("other");
                let results: Vec<RedisResult<Value>> = pipeline.query_each(&con).await.unwrap();
                let mut sum = cmd("MGET");
                sum.arg(("{m}1", "{m}2", "{m}3"));
                (results, sum.query_async::<Vec<i64>>(&con).await)
            }
        });
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!both.is_finished(), "some keys are here and some there");
        while cluster.move_some(slot, from, to, 1).await > 0 {}
        cluster.end_move(slot, from, to).await;
        let (results, sum) = both.await.unwrap();
        // INCR went on, since it has one key: MGET cannot come before it any more.
        let first = results[0].as_ref().map(|_| ()).map_err(|error| error.code().map(str::to_owned));
        assert!(first == Ok(()) || first == Err(Some("TRYAGAIN".to_owned())), "{results:?}");
        assert_eq!(results[1], Ok(Value::Int(121)));
        assert_eq!(sum, Ok(vec![121, 22, 23]));
    });
}

#[test]
fn a_command_that_is_refused_for_too_long_fails_with_the_reason() {
    run(async {
        let cluster = Cluster::start(3, false).await;
        let patience = ConnectionConfig::new().set_response_timeout(Some(Duration::from_millis(500)));
        let con = cluster.client().connect_with(ClusterConfig::new().set_connection(patience)).await.unwrap();
        let slot = slot_of(&cluster, "{m}").await;
        let (from, to) = (cluster.owner(slot).await, (cluster.owner(slot).await + 1) % 3);
        let () = cmd("MSET").arg(("{m}1", 1, "{m}2", 2)).query_async(&con).await.unwrap();
        cluster.begin_move(slot, from, to).await;
        cluster.move_some(slot, from, to, 1).await;
        let error = con.mget::<_, ()>(["{m}1", "{m}2"]).await.unwrap_err();
        assert_eq!((error.code(), error.fate()), (Some("TRYAGAIN"), onrush::Fate::Replied));
    });
}

#[test]
fn blocking_commands_and_transactions_follow_their_slot() {
    run(async {
        let cluster = Cluster::start(3, false).await;
        let con = cluster.client().connect().await.unwrap();
        let slot = slot_of(&cluster, "{m}").await;
        let (from, to) = (cluster.owner(slot).await, (cluster.owner(slot).await + 1) % 3);
        let () = con.set("{m}:n", 1).await.unwrap();
        let popped = tokio::spawn({
            let con = con.clone();
            async move { cmd("BLPOP").arg("{m}:list").arg(20).query_async::<(String, u64)>(&con).await }
        });
        let mut attempts = 0;
        let new: RedisResult<(i64,)> = con
            .transaction("{m}:n", async |lease, pipeline| {
                attempts += 1;
                let old: i64 = lease.get("{m}:n").await?;
                if attempts == 1 {
                    cluster.move_slot(slot, from, to).await;
                }
                pipeline.incr("{m}:n", old).query_async(lease).await
            })
            .await;
        assert_eq!((new, attempts), (Ok((2,)), 2));
        assert!(!popped.is_finished());
        assert_eq!(con.rpush::<_, _, u64>("{m}:list", 7).await, Ok(1));
        assert_eq!(popped.await.unwrap(), Ok(("{m}:list".to_owned(), 7)));
    });
}

#[test]
fn a_scan_finds_what_was_there_all_the_time_though_slots_move() {
    run(async {
        let cluster = Cluster::start(3, false).await;
        let con = cluster.client().connect().await.unwrap();
        let mut slots = BTreeSet::new();
        let mut fill = pipe();
        for tag in 0..30 {
            slots.insert(slot_of(&cluster, &format!("{{{tag}}}")).await);
            (0..100).for_each(|number| _ = fill.set(format!("{{{tag}}}:{number}"), number));
        }
        let () = fill.exec_async(&con).await.unwrap();
        let mut found = BTreeSet::new();
        let mut scan = con.scan::<String>();
        let mut slots = slots.into_iter();
        let mut seen = 0;
        while let Some(key) = scan.next_item().await {
            found.insert(key.unwrap());
            seen += 1;
            if let Some(slot) = (seen % 100 == 0).then(|| slots.next()).flatten() {
                let owner = cluster.owner(slot).await;
                cluster.move_slot(slot, owner, (owner + 1 + seen / 100 % 2) % 3).await;
            }
        }
        assert_eq!(found.len(), 3_000);
    });
}

#[test]
fn a_scan_of_a_set_finds_all_though_its_node_becomes_another() {
    run(async {
        let cluster = Cluster::start(3, false).await;
        let con = cluster.client().connect().await.unwrap();
        let slot = slot_of(&cluster, "set").await;
        let () = con.sadd("set", (0..5_000).collect::<Vec<i64>>()).await.unwrap();
        let mut found = BTreeSet::new();
        let mut scan = con.sscan::<i64>("set");
        let mut seen = 0;
        while let Some(member) = scan.next_item().await {
            found.insert(member.unwrap());
            seen += 1;
            if seen == 2_500 {
                let owner = cluster.owner(slot).await;
                cluster.move_slot(slot, owner, (owner + 1) % 3).await;
            }
        }
        assert_eq!(found.len(), 5_000);
    });
}

#[test]
fn a_future_that_nobody_polls_delays_others_only_for_a_while() {
    run(async {
        let cluster = Cluster::start(3, false).await;
        let patience = ConnectionConfig::new().set_response_timeout(Some(Duration::from_millis(400)));
        let con = cluster.client().connect_with(ClusterConfig::new().set_connection(patience)).await.unwrap();
        let slot = slot_of(&cluster, "{m}").await;
        let owner = cluster.owner(slot).await;
        for (is_dropped, shortest, longest) in [(false, 400, 3_000), (true, 0, 400)] {
            let (from, to) = if is_dropped { ((owner + 1) % 3, owner) } else { (owner, (owner + 1) % 3) };
            let () = con.set("{m}1", 1).await.unwrap();
            let parked = cmd("INCR").arg("{m}1").clone();
            let mut parked = Box::pin(parked.query_async::<i64>(&con));
            // Sent, but its reply is not looked at.
            std::future::poll_fn(|cx| {
                assert!(parked.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            cluster.move_slot(slot, from, to).await;
            let kept = (!is_dropped).then_some(parked);
            let began = Instant::now();
            assert_eq!(con.get::<_, i64>("{m}1").await, Ok(2));
            let took = began.elapsed();
            assert!(took >= Duration::from_millis(shortest) && took < Duration::from_millis(longest), "{took:?}");
            if let Some(parked) = kept {
                assert_eq!(parked.await, Ok(2));
            }
        }
    });
}

//! The client matrix's part for the `redis` crate: over its own connection, against a fresh Onrush and a
//! fresh redis-server for each protocol.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures_core::Stream;
use onrush_tests::server::Server;
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, RedisResult};

const PIPELINE_LEN: i64 = 10_000;

fn each(test: impl AsyncFn(&redis::Client, MultiplexedConnection) -> RedisResult<()>) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    for protocol in ["resp2", "resp3"] {
        for server in [Server::start_onrush(&["--workers", "2"]), Server::start_redis(&[])] {
            let url = format!("redis://127.0.0.1:{}/?protocol={protocol}", server.port());
            let client = redis::Client::open(url).expect("a URL");
            // On a busy machine the crate's defaults, half a second and one, are too short.
            let patience = Some(Duration::from_secs(60));
            let config =
                redis::AsyncConnectionConfig::new().set_response_timeout(patience).set_connection_timeout(patience);
            runtime.block_on(async {
                let con = client.get_multiplexed_async_connection_with_config(&config).await.expect("a connection");
                let done = tokio::time::timeout(Duration::from_secs(60), test(&client, con)).await;
                done.expect("the test ends").expect("no error");
            });
        }
    }
}

#[test]
fn strings() {
    each(async |_, mut con| {
        let () = con.set_ex("k", "v", 100).await?;
        let both: (Option<String>, Option<String>) = con.mget(&["k", "none"]).await?;
        assert_eq!(both, (Some("v".into()), None));
        assert_eq!(con.incr::<_, _, i64>("n", 5).await?, 5);
        Ok(())
    });
}

#[test]
fn types() {
    each(async |_, mut con| {
        assert_eq!(con.rpush::<_, _, i64>("l", &[1, 2, 3]).await?, 3);
        assert_eq!(con.lrange::<_, Vec<i64>>("l", 0, -1).await?, [1, 2, 3]);
        let () = con.hset_multiple("h", &[("a", 1), ("b", 2)]).await?;
        assert_eq!(
            con.hgetall::<_, HashMap<String, i64>>("h").await?,
            HashMap::from([("a".into(), 1), ("b".into(), 2)])
        );
        assert_eq!(con.sadd::<_, _, i64>("s", &["x", "y"]).await?, 2);
        assert_eq!(con.smembers::<_, HashSet<String>>("s").await?.len(), 2);
        assert_eq!(con.zadd::<_, _, _, i64>("z", "m", 1.5).await?, 1);
        assert_eq!(con.zrange_withscores::<_, Vec<(String, f64)>>("z", 0, -1).await?, [("m".into(), 1.5)]);
        let id: String = con.xadd("x", "*", &[("f", "v")]).await?;
        let entries: redis::streams::StreamRangeReply = con.xrange_all("x").await?;
        assert_eq!((entries.ids[0].id.as_str(), entries.ids[0].get::<String>("f")), (id.as_str(), Some("v".into())));
        assert!(!con.setbit::<_, bool>("b", 3, true).await?);
        assert!(con.pfadd::<_, _, bool>("p", &["a", "b"]).await?);
        let palermo = (redis::geo::Coord::lon_lat(13.361_389, 38.115_556), "Palermo");
        assert_eq!(con.geo_add::<_, _, i64>("g", palermo).await?, 1);
        Ok(())
    });
}

#[test]
fn pipelines_explicit_and_automatic() {
    each(async |_, mut con| {
        let mut pipeline = redis::pipe();
        (0..PIPELINE_LEN).for_each(|_| _ = pipeline.incr("n", 1));
        let replies: Vec<i64> = pipeline.query_async(&mut con).await?;
        assert_eq!(replies, (1..=PIPELINE_LEN).collect::<Vec<_>>());
        let tasks: Vec<_> = (0..PIPELINE_LEN)
            .map(|_| {
                let mut con = con.clone();
                tokio::spawn(async move { con.incr::<_, _, i64>("m", 1).await })
            })
            .collect();
        for task in tasks {
            task.await.expect("a task")?;
        }
        assert_eq!(con.get::<_, i64>("m").await?, PIPELINE_LEN);
        Ok(())
    });
}

#[test]
fn transactions() {
    each(async |_, mut con| {
        let replies: (i64, i64) = redis::pipe().atomic().incr("n", 1).incr("n", 1).query_async(&mut con).await?;
        assert_eq!(replies, (1, 2));
        Ok(())
    });
}

#[test]
fn scripts() {
    each(async |_, mut con| {
        let script = redis::Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
        assert_eq!(script.key("n").arg(7).invoke_async::<i64>(&mut con).await?, 7);
        Ok(())
    });
}

#[test]
fn messages() {
    each(async |client, mut con| {
        let (mut sink, stream) = client.get_async_pubsub().await?.split();
        sink.subscribe("c").await?;
        assert_eq!(con.publish::<_, _, i64>("c", "hello").await?, 1);
        let mut stream = std::pin::pin!(stream);
        let message = std::future::poll_fn(|cx| stream.as_mut().poll_next(cx)).await.expect("a message");
        assert_eq!((message.get_channel_name(), message.get_payload::<String>()?), ("c", "hello".into()));
        Ok(())
    });
}

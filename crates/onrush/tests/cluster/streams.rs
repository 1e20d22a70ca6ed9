//! Streams over all nodes.

use std::time::Duration;

use super::harness::{Cluster, run};
use onrush::{ErrorKind, WindowSize, cmd};

#[test]
fn replies_of_all_nodes_come_in_the_order_of_the_commands() {
    run(async {
        let cluster = Cluster::start(3, false).await;
        let con = cluster.client().connect().await.unwrap();
        const COUNT: u64 = 50_000;
        let mut next = 0;
        let written = con.stream_fn(move |out| {
            out.cmd("SET").arg(format!("key:{next}")).arg(next);
            next += 1;
            next < COUNT
        });
        assert_eq!(written.count().await.into_result(), Ok(COUNT));
        let reads = (0..COUNT).map(|number| cmd("GET").arg(format!("key:{number}")).clone());
        let mut replies = con.stream(reads).window(WindowSize::new().set_commands(3_000));
        for number in 0..COUNT {
            let value: u64 = onrush::from_redis_value(replies.next().await.unwrap().unwrap()).unwrap();
            assert_eq!(value, number);
        }
        assert!(replies.next().await.is_none());
        let reads = (0..COUNT).map(|number| cmd("GET").arg(format!("key:{number}")).clone());
        let mut replies = con.stream(reads);
        replies.next().await.unwrap().unwrap();
        assert_eq!(replies.count().await.into_result(), Ok(COUNT - 1));
        let mixed = ["DBSIZE", "FLUSHALL", "DBSIZE"].map(cmd);
        let sizes: Vec<_> = con
            .stream(mixed)
            .fold(Vec::new(), |mut all, reply| {
                all.push(reply.unwrap());
                all
            })
            .await;
        assert_eq!((&sizes[0], &sizes[2]), (&onrush::Value::Int(COUNT as i64), &onrush::Value::Int(0)));
        let refused = con.stream([cmd("PING"), cmd("BLPOP").arg(("k", 1)).clone()]).count().await;
        assert_eq!(refused.first_error.map(|(_, error)| error.kind()), Some(ErrorKind::Client));
    });
}

#[test]
fn a_stream_goes_on_at_the_replica_of_a_dead_node_and_tells_what_is_unknown() {
    run(async {
        let mut cluster = Cluster::start(3, true).await;
        let con = cluster.client().connect().await.unwrap();
        let began = std::time::Instant::now();
        let numbers = (0..u64::MAX).take_while(move |_| began.elapsed() < Duration::from_secs(6));
        let commands = numbers.map(|number| cmd("SET").arg(format!("key:{}", number % 1_000)).arg(number).clone());
        let stream = tokio::spawn({
            let con = con.clone();
            async move { con.stream(commands).count().await }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        cluster.nodes[0].kill();
        let summary = stream.await.unwrap();
        let unknown: u64 = summary.unknown.iter().map(|range| range.end - range.start).sum();
        // Commands of other nodes lie between them, so the last of the ranges may hold some of these.
        assert!(summary.errors <= unknown && summary.not_sent.is_empty(), "{:?}", summary.first_error);
        assert!(unknown < 20_000 && summary.replies > 50_000, "{unknown} of {}", summary.replies);
    });
}

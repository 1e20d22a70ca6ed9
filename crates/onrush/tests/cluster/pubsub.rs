//! Subscriptions while slots move and nodes die.

use std::time::Duration;

use super::harness::{Cluster, run, until};
use onrush::{ClusterConnection, ClusterPubSub, PubSubEvent, cmd};

async fn publish(con: &ClusterConnection, command: &str, channel: &str, message: u64) {
    // Nobody may be there just then.
    let _ = cmd(command).arg(channel).arg(message).query_async::<i64>(con).await;
}

/// Publishes numbers until one has come that was sent after `from`; returns what has come.
async fn exchange(
    con: &ClusterConnection,
    sub: &mut ClusterPubSub,
    command: &str,
    channel: &str,
    from: u64,
) -> Vec<u64> {
    let (mut sent, mut got) = (from, Vec::new());
    while got.is_empty() {
        publish(con, command, channel, sent).await;
        sent += 1;
        let patience = Duration::from_millis(50);
        while let Ok(Some(event)) = tokio::time::timeout(patience, sub.next_event()).await {
            if let PubSubEvent::Message(message) = event {
                assert_eq!(message.get_channel_name(), Some(channel));
                got.push(message.get_payload().unwrap());
            }
        }
        assert!(sent < from + 1_000, "nothing comes through {channel}");
    }
    got
}

#[test]
fn channels_and_shard_channels_bring_their_messages() {
    run(async {
        let cluster = Cluster::start(3, false).await;
        let con = cluster.client().connect().await.unwrap();
        let mut sub = con.pubsub();
        sub.subscribe("news").await.unwrap();
        sub.psubscribe("n?ws").await.unwrap();
        for channel in ["a", "b", "c", "d"] {
            sub.ssubscribe(channel).await.unwrap();
        }
        publish(&con, "PUBLISH", "news", 1).await;
        for _ in 0..2 {
            assert_eq!(sub.next_message().await.unwrap().get_payload::<u64>(), Ok(1));
        }
        for (nth, channel) in ["a", "b", "c", "d"].into_iter().enumerate() {
            assert_eq!(cmd("SPUBLISH").arg(channel).arg(nth).query_async::<i64>(&con).await, Ok(1));
            let message = sub.next_message().await.unwrap();
            assert_eq!((message.get_channel_name(), message.get_payload::<usize>()), (Some(channel), Ok(nth)));
            assert!(!message.is_after_gap());
        }
        sub.sunsubscribe("a").await.unwrap();
        sub.unsubscribe("news").await.unwrap();
        sub.punsubscribe("n?ws").await.unwrap();
        assert_eq!(cmd("SPUBLISH").arg("a").arg(1).query_async::<i64>(&con).await, Ok(0));
    });
}

#[test]
fn a_shard_channel_is_followed_where_its_slot_goes() {
    run(async {
        let cluster = Cluster::start(3, false).await;
        let con = cluster.client().connect().await.unwrap();
        let mut sub = con.pubsub();
        sub.ssubscribe("{m}").await.unwrap();
        let slot: u16 = onrush::from_redis_value(cluster.nodes[0].call("CLUSTER KEYSLOT {m}").await.unwrap()).unwrap();
        let mut owner = cluster.owner(slot).await;
        for round in 1..4 {
            assert_eq!(exchange(&con, &mut sub, "SPUBLISH", "{m}", round * 1_000).await[0], round * 1_000);
            let next = (owner + 1) % 3;
            cluster.move_slot(slot, owner, next).await;
            owner = next;
            assert_eq!(sub.next_event().await, Some(PubSubEvent::Gap));
            assert_eq!(sub.next_event().await, Some(PubSubEvent::Resubscribed));
            publish(&con, "SPUBLISH", "{m}", round).await;
            let message = sub.next_message().await.unwrap();
            assert!(message.is_after_gap() && message.get_payload() == Ok(round), "{message:?}");
        }
    });
}

#[test]
fn subscriptions_outlive_the_death_of_their_nodes() {
    run(async {
        let mut cluster = Cluster::start(3, true).await;
        let con = cluster.client().connect().await.unwrap();
        let mut sub = con.pubsub();
        sub.ssubscribe("{m}").await.unwrap();
        sub.subscribe("news").await.unwrap();
        let slot: u16 = onrush::from_redis_value(cluster.nodes[0].call("CLUSTER KEYSLOT {m}").await.unwrap()).unwrap();
        let owner = cluster.owner(slot).await;
        exchange(&con, &mut sub, "SPUBLISH", "{m}", 0).await;
        cluster.nodes[owner].kill();
        until("another has the slot", async || cluster.owner_if_any(slot).await.is_some()).await;
        exchange(&con, &mut sub, "SPUBLISH", "{m}", 10_000).await;
        exchange(&con, &mut sub, "PUBLISH", "news", 20_000).await;
    });
}

#[test]
fn a_gap_is_told_once_and_ends_when_a_server_closes_one_of_the_links() {
    run(async {
        let cluster = Cluster::start(3, false).await;
        let con = cluster.client().connect().await.unwrap();
        let mut sub = con.pubsub();
        for channel in ["a", "b", "c", "d"] {
            sub.ssubscribe(channel).await.unwrap();
        }
        let slot: u16 = onrush::from_redis_value(cluster.nodes[0].call("CLUSTER KEYSLOT a").await.unwrap()).unwrap();
        let owner = cluster.owner(slot).await;
        for round in 1..4 {
            let killed = cluster.nodes[owner].call("CLIENT KILL TYPE pubsub").await.unwrap();
            assert_ne!(killed, onrush::Value::Int(0));
            assert_eq!(sub.next_event().await, Some(PubSubEvent::Gap));
            assert_eq!(sub.next_event().await, Some(PubSubEvent::Resubscribed));
            for channel in ["a", "b", "c", "d"] {
                let got = exchange(&con, &mut sub, "SPUBLISH", channel, round * 1_000).await;
                assert_eq!(got[0], round * 1_000, "{channel}");
            }
        }
    });
}

//! Subscriptions that outlast their connections: what is asked for again, and what the reader is told of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::fake::{Answer, Fake, oblige, run};
use onrush::{Backoff, Client, ConnectionConfig, PubSub, PubSubEvent, cmd};
use onrush_tests::server::Server;

fn config() -> ConnectionConfig {
    let backoff = Backoff::new().set_first(Duration::from_millis(1)).set_max(Duration::from_millis(20));
    ConnectionConfig::new().set_client_info(false).set_ready_check(false).set_backoff(Some(backoff))
}

async fn pubsub(fake: &Fake) -> PubSub {
    let client = Client::open(format!("redis://127.0.0.1:{}/?protocol=resp2", fake.port)).unwrap();
    client.pubsub_with(config()).await.unwrap()
}

/// Confirms a (un)subscription.
fn confirm(line: &str) -> Answer {
    let (name, target) = line.split_once(' ').unwrap();
    let name = name.to_lowercase();
    Answer::Say(format!("*3\r\n${}\r\n{name}\r\n${}\r\n{target}\r\n:1\r\n", name.len(), target.len()))
}

async fn event(pubsub: &mut PubSub) -> PubSubEvent {
    pubsub.next_event().await.expect("the connection goes on")
}

#[test]
fn a_subscription_that_is_refused_for_now_is_asked_for_again() {
    for passing in
        ["BUSY Redis is busy running a script", "LOADING Redis is loading", "MASTERDOWN Link with MASTER is down"]
    {
        run(async move {
            let left = AtomicUsize::new(3);
            let fake = Fake::start(move |connection, line| match (connection, line) {
                (0, "SUBSCRIBE last") => Answer::HangUp,
                (1, "SUBSCRIBE a") if left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() => {
                    Answer::Say(format!("-{passing}\r\n"))
                }
                (_, line) if line.contains("SUBSCRIBE") => confirm(line),
                (_, line) => oblige(line),
            })
            .await;
            let mut pubsub = pubsub(&fake).await;
            for channel in ["a", "b", "last"] {
                pubsub.subscribe(channel).await.unwrap();
            }
            assert_eq!(event(&mut pubsub).await, PubSubEvent::Gap);
            assert_eq!(event(&mut pubsub).await, PubSubEvent::Resubscribed);
            let lines = fake.lines(1);
            assert_eq!(lines.iter().filter(|line| *line == "SUBSCRIBE a").count(), 4, "{lines:?}");
            assert_eq!(lines.iter().filter(|line| *line == "SUBSCRIBE b").count(), 1, "{lines:?}");
        });
    }
}

#[test]
fn what_its_user_has_ended_is_not_asked_for_again() {
    run(async {
        let refused = Arc::new(tokio::sync::Notify::new());
        let heard = refused.clone();
        let fake = Fake::start(move |connection, line| match (connection, line) {
            (0, "SUBSCRIBE last") => Answer::HangUp,
            (1, "SUBSCRIBE a") => {
                refused.notify_one();
                Answer::Say("-BUSY Redis is busy running a script\r\n".into())
            }
            (_, line) if line.contains("SUBSCRIBE") => confirm(line),
            (_, line) => oblige(line),
        })
        .await;
        let mut pubsub = pubsub(&fake).await;
        for channel in ["a", "last"] {
            pubsub.subscribe(channel).await.unwrap();
        }
        heard.notified().await;
        pubsub.unsubscribe("a").await.unwrap();
        assert_eq!(event(&mut pubsub).await, PubSubEvent::Gap);
        assert_eq!(event(&mut pubsub).await, PubSubEvent::Resubscribed);
    });
}

#[test]
fn a_subscription_that_is_refused_for_good_is_told_before_the_gap_ends() {
    run(async {
        let fake = Fake::start(|connection, line| match (connection, line) {
            (0, "SUBSCRIBE last") => Answer::HangUp,
            (1, "SUBSCRIBE a") => Answer::Say("-NOPERM no access to this channel\r\n".into()),
            (_, line) if line.contains("SUBSCRIBE") => confirm(line),
            (_, line) => oblige(line),
        })
        .await;
        let mut pubsub = pubsub(&fake).await;
        pubsub.subscribe("a").await.unwrap();
        pubsub.subscribe("last").await.unwrap();
        assert_eq!(event(&mut pubsub).await, PubSubEvent::Gap);
        assert!(matches!(event(&mut pubsub).await, PubSubEvent::Refused { name, .. } if name == b"a"));
        assert_eq!(event(&mut pubsub).await, PubSubEvent::Resubscribed);
    });
}

#[test]
fn without_a_subscription_there_is_no_gap() {
    run(async {
        let message = "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n";
        let fake = Fake::start(move |connection, line| match (connection, line) {
            // The first connections are lost before anything is confirmed, the third when nothing is left.
            (0..2, "SUBSCRIBE a") => Answer::HangUp,
            (2, "SUBSCRIBE b") => Answer::HangUp,
            (3, "SUBSCRIBE b") => Answer::Say(format!("*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:1\r\n{message}")),
            (_, line) if line.contains("SUBSCRIBE") => confirm(line),
            (_, line) => oblige(line),
        })
        .await;
        let mut pubsub = pubsub(&fake).await;
        pubsub.subscribe("a").await.unwrap();
        pubsub.unsubscribe("a").await.unwrap();
        pubsub.subscribe("b").await.unwrap();
        let PubSubEvent::Message(message) = event(&mut pubsub).await else { panic!("a gap is told") };
        assert!(!message.is_after_gap());
    });
}

#[test]
fn a_gap_ends_on_real_servers_too() {
    run(async {
        for server in [Server::start_onrush(&["--workers", "2"]), Server::start_redis(&[])] {
            let client = Client::open(format!("redis://127.0.0.1:{}/", server.port())).unwrap();
            let con = client.connect().await.unwrap();
            let mut pubsub = client.pubsub_with(config()).await.unwrap();
            pubsub.subscribe("c").await.unwrap();
            pubsub.psubscribe("d*").await.unwrap();
            cmd("CLIENT").arg(("KILL", "TYPE", "pubsub")).exec_async(&con).await.unwrap();
            assert_eq!(event(&mut pubsub).await, PubSubEvent::Gap);
            assert_eq!(event(&mut pubsub).await, PubSubEvent::Resubscribed);
            let heard: usize = cmd("PUBLISH").arg(("c", "x")).query_async(&con).await.unwrap();
            assert_eq!(heard, 1);
            assert!(matches!(event(&mut pubsub).await, PubSubEvent::Message(message) if message.is_after_gap()));
        }
    });
}

//! What must not stay broken: a task that is not polled, a script that is gone, a vault that is silent, a server away.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::fake::{Answer, Fake, oblige, polled, run};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use onrush::{
    AsyncCommands, Backoff, CacheConfig, Client, ConnectionConfig, Credentials, ErrorKind, Fate, PubSubEvent,
    RedisResult, Script, cmd, pipe,
};

const UNKNOWN_SCRIPT: &str = "-NOSCRIPT No matching script. Please use EVAL.\r\n";

fn quick() -> ConnectionConfig {
    let backoff = Backoff::new().set_first(Duration::from_millis(1)).set_max(Duration::from_millis(20));
    ConnectionConfig::new().set_client_info(false).set_ready_check(false).set_backoff(Some(backoff))
}

#[test]
fn what_is_counted_behind_next_is_everything_that_was_not_taken() {
    run(async {
        let fake = Fake::start(|_, line| match line {
            "GET 3" | "GET 900" => Answer::Say("-ERR no\r\n".into()),
            line => oblige(line),
        })
        .await;
        let con = fake.connect(ConnectionConfig::new()).await;
        let gets = || (0..1_000).map(|number| cmd("GET").arg(number).to_owned());
        for taken in [0, 1, 10] {
            let mut replies = con.stream(gets());
            let mut failed = 0;
            for _ in 0..taken {
                failed += u64::from(replies.next().await.unwrap().is_err());
            }
            let summary = replies.count().await;
            assert_eq!((summary.replies, summary.errors), (1_000 - taken, 2 - failed));
            let first = if failed == 0 { 3 } else { 900 };
            assert_eq!(summary.first_error.map(|(index, _)| index), Some(first));
        }
        assert_eq!(fake.lines(0).len(), 3_000);
        let mut replies = con.stream(gets().take(500));
        replies.next().await.unwrap().unwrap();
        assert!(replies.drain().await.is_err());
    });
}

#[test]
fn a_script_that_a_stream_finds_gone_is_loaded_again() {
    run(async {
        let loads = Arc::new(AtomicUsize::new(0));
        let seen = loads.clone();
        let fake = Fake::start(move |_, line| match line.split(' ').next() {
            Some("SCRIPT") => Answer::Say(format!(":{}\r\n", seen.fetch_add(1, Relaxed))),
            Some("EVALSHA") if seen.load(Relaxed) < 2 => Answer::Say(UNKNOWN_SCRIPT.into()),
            _ => oblige(line),
        })
        .await;
        let con = fake.connect(ConnectionConfig::new()).await;
        let script = Script::new("return 1");
        let mut outcomes = Vec::new();
        for _ in 0..2 {
            let mut left = 3;
            let calls = con.stream_fn(|out| {
                left -= 1;
                out.invoke_script(&script.key("k"));
                left > 0
            });
            outcomes.push(calls.count().await.errors);
        }
        assert_eq!((outcomes, loads.load(Relaxed)), (vec![3, 0], 2));
    });
}

#[test]
fn a_script_is_not_loaded_inside_a_transaction_made_by_hand() {
    run(async {
        let fake = Fake::obliging().await;
        let con = fake.connect(ConnectionConfig::new()).await;
        let lease = con.lease().await.unwrap();
        let script = Script::new("return 1");
        let () = cmd("MULTI").query_async(&lease).await.unwrap();
        let refused = script.key("k").invoke_async::<()>(&lease).await.unwrap_err();
        assert_eq!((refused.kind(), refused.fate()), (ErrorKind::Client, Fate::NotSent));
        let () = cmd("DISCARD").query_async(&lease).await.unwrap();
        let () = script.key("k").invoke_async(&lease).await.unwrap();
        let () = cmd("multi").query_async(&lease).await.unwrap();
        let () = script.key("k").invoke_async(&lease).await.unwrap();
        let () = cmd("EXEC").query_async(&lease).await.unwrap();
        let names = fake.lines(1).into_iter().map(|line| line.split(' ').next().unwrap().to_owned());
        assert_eq!(names.collect::<Vec<_>>(), ["MULTI", "DISCARD", "SCRIPT", "EVALSHA", "multi", "EVALSHA", "EXEC"]);
    });
}

#[test]
fn what_waits_for_room_while_the_server_is_away_fails_as_what_has_room() {
    run(async {
        let fake = Fake::start(|connection, line| match connection {
            0 if line.starts_with("GET") => Answer::HangUp,
            0 => oblige(line),
            _ => Answer::Nothing,
        })
        .await;
        let timeout = Duration::from_millis(400);
        let config = quick().set_response_timeout(Some(timeout)).set_queue_bytes_max(4 << 10);
        let config = config.set_connection_timeout(Some(Duration::from_secs(30)));
        // It greets, so the second connection hangs in that.
        let client = Client::open(format!("redis://127.0.0.1:{}/", fake.port)).unwrap();
        let con = client.connect_with(config.set_ready_check(true)).await.unwrap();
        let _ = con.get::<_, ()>("k").await;
        let mut tasks = tokio::task::JoinSet::new();
        let began = Instant::now();
        for number in 0..40 {
            let con = con.clone();
            tasks.spawn(async move { con.set::<_, _, ()>(number, "x".repeat(1_000)).await.unwrap_err().fate() });
        }
        assert!(tasks.join_all().await.into_iter().all(|fate| fate == Fate::NotSent));
        assert!(began.elapsed() < 3 * timeout, "{:?}", began.elapsed());
    });
}

#[test]
fn a_read_of_the_cache_waits_for_no_task_that_is_not_polled() {
    run(async {
        let mut fake = Fake::start(|connection, line| match line {
            "GET k" if connection == 0 => Answer::HangUp,
            "GET k" => Answer::Say("$1\r\nv\r\n".into()),
            "PTTL k" => Answer::Say(":-1\r\n".into()),
            line => oblige(line),
        })
        .await;
        let client = Client::open(format!("redis://127.0.0.1:{}/", fake.port)).unwrap();
        let con = client.connect_with(quick().set_cache(CacheConfig::new())).await.unwrap();
        let mut leader = pin!(con.get::<_, String>("k"));
        assert!(polled(leader.as_mut(), 1).await.is_none());
        let passenger = tokio::spawn({
            let con = con.clone();
            async move { con.get::<_, String>("k").await }
        });
        fake.wait_for_ends(1).await;
        let got = tokio::time::timeout(Duration::from_secs(5), passenger).await;
        assert_eq!(got.expect("it does not wait for the other").unwrap().unwrap(), "v");
        assert_eq!(leader.await.unwrap(), "v");
    });
}

#[test]
fn a_silent_vault_holds_no_login_up_for_ever() {
    run(async {
        let asked = AtomicUsize::new(0);
        let provider = move || {
            let is_first = asked.fetch_add(1, Relaxed) == 0;
            async move {
                if !is_first {
                    std::future::pending::<()>().await;
                }
                RedisResult::Ok(Credentials::password("secret"))
            }
        };
        let fake = Fake::obliging().await;
        let config = quick().set_connection_timeout(Some(Duration::from_millis(100)));
        let con = fake.connect(config.set_credentials_provider(provider)).await;
        assert!(con.log_in_again().await.unwrap_err().is_timeout());
    });
}

#[test]
fn subscriptions_of_a_link_that_was_lost_at_once_are_made_once() {
    run(async {
        let fake = Fake::start(|connection, line| match (connection, line) {
            (0, "SUBSCRIBE last") | (1, _) => Answer::HangUp,
            (_, line) if line.starts_with("SUBSCRIBE") => {
                let channel = line.split_once(' ').unwrap().1;
                Answer::Say(format!("*3\r\n$9\r\nsubscribe\r\n${}\r\n{channel}\r\n:1\r\n", channel.len()))
            }
            (_, line) => oblige(line),
        })
        .await;
        let client = Client::open(format!("redis://127.0.0.1:{}/?protocol=resp2", fake.port)).unwrap();
        let mut pubsub = client.pubsub_with(quick()).await.unwrap();
        for channel in ["a", "b", "last"] {
            pubsub.subscribe(channel).await.unwrap();
        }
        assert_eq!(pubsub.next_event().await, Some(PubSubEvent::Gap));
        assert_eq!(pubsub.next_event().await, Some(PubSubEvent::Resubscribed));
        let more = tokio::time::timeout(Duration::from_millis(200), pubsub.next_event()).await;
        assert!(more.is_err(), "{more:?}");
    });
}

#[test]
fn a_pipeline_over_a_closed_connection_tells_it_of_each_command() {
    run(async {
        let fake = Fake::start(|_, line| if line == "GET k" { Answer::HangUp } else { oblige(line) }).await;
        let con = fake.connect(ConnectionConfig::new().set_backoff(None)).await;
        let _ = con.get::<_, ()>("k").await;
        for pipeline in [pipe().get("a").get("b"), pipe().atomic().get("a").get("b")] {
            let each = pipeline.query_each::<()>(&con).await.unwrap();
            let fates: Vec<Fate> = each.into_iter().map(|result| result.unwrap_err().fate()).collect();
            assert_eq!(fates, [Fate::NotSent; 2]);
        }
    });
}

#[test]
fn a_long_time_between_probes_of_the_kernel_is_shortened() {
    run(async {
        let fake = Fake::obliging().await;
        for idle in [Duration::from_secs(10 * 3_600), Duration::MAX, Duration::ZERO] {
            let con = fake.connect(ConnectionConfig::new().set_keepalive(Some(idle))).await;
            let () = con.set("k", 1).await.unwrap();
        }
    });
}

#[test]
fn time_runs_while_attempts_to_connect_are_short() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let timeout = Duration::from_millis(400);
        let client = Client::open(format!("redis://127.0.0.1:{port}/?protocol=resp2")).unwrap();
        let con = client.connect_with(quick().set_response_timeout(Some(timeout))).await.unwrap();
        // From here on attempts are refused at once.
        drop(listener);
        let began = Instant::now();
        let error = con.set::<_, _, ()>("k", 1).await.unwrap_err();
        assert_eq!(error.fate(), Fate::NotSent);
        assert!(began.elapsed() < 3 * timeout, "{:?}", began.elapsed());
    });
}

#[test]
fn messages_are_no_reply() {
    run(async {
        let fake = Fake::start(|_, line| match line {
            "GET k" => {
                let push = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nx\r\n".to_owned();
                let permits = Arc::new(Semaphore::new(0));
                let given = permits.clone();
                tokio::spawn(async move {
                    for _ in 0..40 {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        given.add_permits(1);
                    }
                });
                Answer::Staged(permits, vec![push; 40])
            }
            line => oblige(line),
        })
        .await;
        let con = fake.connect(quick().set_response_timeout(Some(Duration::from_millis(400)))).await;
        let began = Instant::now();
        assert!(con.get::<_, ()>("k").await.unwrap_err().is_timeout());
        assert!(began.elapsed() < Duration::from_millis(1_200), "{:?}", began.elapsed());
    });
}

#[test]
fn a_stream_without_a_server_fails_in_few_timeouts() {
    run(async {
        let fake = Fake::start(|_, _| Answer::Nothing).await;
        let timeout = Duration::from_millis(200);
        let con = fake.connect(quick().set_response_timeout(Some(timeout))).await;
        let began = Instant::now();
        let summary = con.stream((0..2_000).map(|number| cmd("SET").arg((number, 1)).to_owned())).count().await;
        assert_eq!((summary.replies, summary.errors), (2_000, 2_000));
        assert!(began.elapsed() < 10 * timeout, "{:?}", began.elapsed());
    });
}

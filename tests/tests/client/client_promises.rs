//! What a program may believe: outcomes, its own writes, the age of what is cached, gaps, limits.

use crate::fake::{Answer, Fake, oblige, polled, run};
use onrush::{
    AsyncCommands, Attempt, Backoff, CacheConfig, Client, Cmd, Connection, ConnectionConfig, ConnectionLike, ErrorKind,
    Fate, Lease, Msg, Pipeline, PubSubEvent, RedisError, RedisResult, Scan, Summary, cmd, pipe,
};
use onrush_tests::server::Server;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Plays a server up to EXEC, which has one reply; `unwatch` is the answer to UNWATCH.
fn transact(line: &str, unwatch: impl Fn() -> Answer) -> Answer {
    match line {
        "EXEC" => Answer::Say("*1\r\n:7\r\n".into()),
        "INCR n" => Answer::Say("+QUEUED\r\n".into()),
        "UNWATCH" => unwatch(),
        line => oblige(line),
    }
}

async fn incr(lease: &Lease, pipeline: &mut Pipeline) -> RedisResult<Option<i64>> {
    let outcome: Option<(i64,)> = pipeline.incr("n", 1).query_async(lease).await?;
    Ok(outcome.map(|(n,)| n))
}

#[test]
fn an_executed_transaction_is_a_success_whatever_becomes_of_the_connection_behind_it() {
    run(async {
        let mut fake = Fake::start(|_, line| {
            let line = if line == "INCRBY n 1" { "INCR n" } else { line };
            transact(line, || Answer::HangUp)
        })
        .await;
        let con = fake.connect(ConnectionConfig::new()).await;
        for connection in 1..4 {
            assert_eq!(con.transaction("n", incr).await, Ok(7));
            fake.wait_for(connection, 5).await;
            assert_eq!(fake.lines(connection), ["WATCH n", "MULTI", "INCRBY n 1", "EXEC", "UNWATCH"]);
        }
        let outcome = con.transaction("n", async |_, _| Err::<Option<()>, _>(own_error())).await;
        assert_eq!(outcome, Err(own_error()));
    });
}

fn own_error() -> RedisError {
    RedisError::new(ErrorKind::Client, "the attempt has its reasons")
}

#[test]
fn a_transaction_that_blocks_its_thread_believes_the_same() {
    let (told, heard) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        run(async {
            let fake = Fake::start(|_, line| {
                let line = if line == "INCRBY n 1" { "INCR n" } else { line };
                transact(line, || Answer::HangUp)
            })
            .await;
            let (done, ended) = tokio::sync::oneshot::channel::<()>();
            told.send((fake.port, done)).unwrap();
            _ = ended.await;
        });
    });
    let (port, done) = heard.recv().unwrap();
    let client = onrush::blocking::Client::open(format!("redis://127.0.0.1:{port}/?protocol=resp2")).unwrap();
    let con = client.get_connection().unwrap();
    let outcome = con.transaction("n", |lease, pipeline| {
        let outcome: Option<(i64,)> = pipeline.incr("n", 1).query(lease)?;
        Ok(outcome.map(|(n,)| n))
    });
    assert_eq!(outcome, Ok(7));
    let outcome = con.transaction("n", |_, _| Err::<Option<()>, _>(own_error()));
    assert_eq!(outcome, Err(own_error()));
    drop(done);
    server.join().unwrap();
}

const LARGE: usize = 1 << 20;

fn gets(count: usize) -> impl Iterator<Item = onrush::Cmd> {
    (0..count).map(|n| cmd("GET").arg(n).to_owned())
}

#[test]
fn a_stream_of_large_replies_asks_for_few_at_a_time() {
    run(async {
        let large = format!("${LARGE}\r\n{}\r\n", "x".repeat(LARGE));
        let fake = Fake::start(move |_, _| Answer::Say(large.clone())).await;
        let con = fake.connect(ConnectionConfig::new()).await;
        let mut replies = con.stream(gets(100));
        let mut taken = 0;
        while let Some(reply) = replies.next().await {
            reply.unwrap();
            taken += 1;
            // The client reads on meanwhile.
            tokio::time::sleep(Duration::from_millis(2)).await;
            let limit = if taken <= 16 { 16 } else { 4 };
            assert!(fake.lines(0).len() <= taken + limit, "{} sent, {taken} taken", fake.lines(0).len());
        }
        assert_eq!(taken, 100);
    });
}

#[test]
fn a_stream_that_only_counts_asks_for_few_large_replies_at_a_time() {
    run(async {
        let large = format!("${LARGE}\r\n{}\r\n", "x".repeat(LARGE));
        let left = AtomicUsize::new(16);
        let answer = move |_: usize, _: &str| match left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)) {
            Ok(_) => Answer::Say(large.clone()),
            Err(_) => Answer::Nothing,
        };
        let mut fake = Fake::start(answer).await;
        let con = fake.connect(ConnectionConfig::new().set_response_timeout(None)).await;
        let counted = tokio::spawn(con.stream(gets(100_000)).count());
        fake.wait_for(0, 17).await;
        // More would come in this time.
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(fake.lines(0).len() <= 20, "{} sent", fake.lines(0).len());
        counted.abort();
    });
}

/// A connection with a cache, to a server that never reports a change: `k` has another value at each GET.
async fn caching() -> (Fake, Connection) {
    let version = AtomicUsize::new(0);
    let answer = move |_: usize, line: &str| match line {
        "PTTL k" => Answer::Say(":-1\r\n".into()),
        "GET k" => Answer::Say(format!(":{}\r\n", version.fetch_add(1, Relaxed))),
        "BLPOP x k 0" => Answer::Say("*2\r\n$1\r\nk\r\n$1\r\nv\r\n".into()),
        "EXEC" => Answer::Say("*1\r\n+OK\r\n".into()),
        _ => oblige(line),
    };
    let fake = Fake::start(answer).await;
    let config = ConnectionConfig::new().set_client_info(false).set_ready_check(false).set_cache(CacheConfig::new());
    let client = Client::open(format!("redis://127.0.0.1:{}/", fake.port)).unwrap();
    (fake, client.connect_with(config).await.unwrap())
}

async fn version(con: &Connection) -> i64 {
    con.get("k").await.unwrap()
}

/// Keeps the key, writes, and reads it again.
async fn check_own_write(con: &Connection, what: &str, write: impl AsyncFnOnce()) {
    let before = version(con).await;
    assert_eq!(version(con).await, before, "{what}: it is cached");
    write().await;
    assert!(version(con).await > before, "{what}: an old value is read");
}

#[test]
fn what_was_written_over_a_lease_is_read_from_then_on() {
    run(async {
        let (_fake, con) = caching().await;
        let con = &con;
        check_own_write(con, "blpop", async || cmd("BLPOP").arg(("x", "k", 0)).exec_async(con).await.unwrap()).await;
        check_own_write(con, "transaction", async || {
            let attempt = async |lease: &Lease, pipeline: &mut Pipeline| {
                pipeline.set("k", 1).query_async::<Option<((),)>>(lease).await
            };
            con.transaction("other", attempt).await.unwrap();
        })
        .await;
        let lease = &con.lease().await.unwrap();
        check_own_write(con, "set", async || cmd("SET").arg(("k", 1)).exec_async(lease).await.unwrap()).await;
        check_own_write(con, "pipeline", async || {
            pipe().set("a", 1).get("b").del("k").exec_async(lease).await.unwrap();
        })
        .await;
        check_own_write(con, "flush", async || cmd("FLUSHDB").exec_async(lease).await.unwrap()).await;
        check_own_write(con, "stream", async || {
            let mut replies =
                lease.stream((0..3).map(|n| if n == 0 { cmd("SET").arg(("k", 1)).clone() } else { cmd("PING") }));
            replies.next().await.unwrap().unwrap();
        })
        .await;
        check_own_write(con, "dropped", async || {
            let mut command = cmd("SET");
            command.arg(("k", 1));
            assert!(polled(command.exec_async(lease), 1).await.is_none());
            cmd("PING").exec_async(lease).await.unwrap();
        })
        .await;
        cmd("MULTI").exec_async(lease).await.unwrap();
        cmd("SET").arg(("k", 1)).exec_async(lease).await.unwrap();
        check_own_write(con, "by hand", async || cmd("EXEC").exec_async(lease).await.unwrap()).await;
    });
}

#[test]
fn what_a_lost_lease_may_have_written_is_not_read_from_the_cache() {
    run(async {
        let (_fake, con) = caching().await;
        let lease = con.lease().await.unwrap();
        check_own_write(&con, "lost", async || {
            let mut command = cmd("SET");
            command.arg(("k", 1));
            assert!(polled(command.exec_async(&lease), 1).await.is_none());
            lease.close().await;
        })
        .await;
    });
}

#[test]
fn own_writes_over_leases_are_read_whatever_the_server_reports_and_when() {
    run(async {
        for server in [Server::start_onrush(&["--workers", "2"]), Server::start_redis(&[])] {
            let config = ConnectionConfig::new().set_cache(CacheConfig::new());
            let client = Client::open(format!("redis://127.0.0.1:{}/", server.port())).unwrap();
            let con = client.connect_with(config).await.unwrap();
            for n in 1..=1_000 {
                let attempt = async |lease: &Lease, pipeline: &mut Pipeline| {
                    let old: Option<i64> = con.get("k").await?;
                    assert_eq!(old.unwrap_or(0), n - 1);
                    pipeline.set("k", n).query_async::<Option<((),)>>(lease).await
                };
                con.transaction("k", attempt).await.unwrap();
                assert_eq!(con.get::<_, i64>("k").await.unwrap(), n);
                let () = con.rpush("list", n).await.unwrap();
                assert_eq!(con.llen::<_, usize>("list").await.unwrap(), 1);
                let _: (String, i64) = con.blpop("list", 0).await.unwrap();
                assert_eq!(con.llen::<_, usize>("list").await.unwrap(), 0);
            }
        }
    });
}

#[test]
fn a_scan_over_a_closed_connection_ends_with_one_error() {
    run(async {
        let answer = |_: usize, line: &str| match line {
            "SCAN 0" => Answer::Say("*2\r\n$1\r\n7\r\n*1\r\n$1\r\na\r\n".into()),
            line if line.starts_with("SCAN") => Answer::HangUp,
            line => oblige(line),
        };
        let fake = Fake::start(answer).await;
        let closed = fake.connect(ConnectionConfig::new()).await;
        closed.close().await;
        let breaking = fake.connect(ConnectionConfig::new().set_backoff(None)).await;
        let home = fake.connect(ConnectionConfig::new()).await;
        let lease = home.lease().await.unwrap();
        let timed = lease.with_timeout(Duration::from_secs(9));
        assert_eq!(all_of(closed.scan()).await, (0, 1));
        assert_eq!(all_of(breaking.scan()).await, (1, 1));
        assert_eq!(all_of(timed.scan()).await, (1, 1));
        assert_eq!(all_of(lease.scan()).await, (0, 1));
    });
}

/// The numbers of items and of errors of a scan that ends.
async fn all_of<C: ConnectionLike>(mut scan: Scan<'_, C, String>) -> (usize, usize) {
    let mut seen = (0, 0);
    while let Some(item) = scan.next_item().await {
        if item.is_ok() {
            seen.0 += 1
        } else {
            seen.1 += 1
        }
        assert!(seen.0 + seen.1 < 10, "it has no end");
    }
    seen
}

#[test]
fn a_user_without_a_password_logs_in_as_that_user() {
    run(async {
        let fake = Fake::obliging().await;
        let config = || ConnectionConfig::new().set_client_info(false).set_ready_check(false);
        for (connection, (login, first)) in [
            ("redis://bob@127.0.0.1:P/", "HELLO 3 AUTH bob "),
            ("redis://bob@127.0.0.1:P/?protocol=resp2", "AUTH bob "),
            ("redis://127.0.0.1:P/?user=bob", "HELLO 3 AUTH bob "),
            ("redis://:secret@127.0.0.1:P/", "HELLO 3 AUTH default secret"),
            ("redis://127.0.0.1:P/", "HELLO 3"),
        ]
        .into_iter()
        .enumerate()
        {
            let client = Client::open(login.replace("P", &fake.port.to_string())).unwrap();
            client.connect_with(config()).await.unwrap();
            assert_eq!(fake.lines(connection)[0], first, "{login}");
        }
        for server in [Server::start_onrush(&[]), Server::start_redis(&[])] {
            let client = Client::open(format!("redis://default@127.0.0.1:{}/", server.port())).unwrap();
            let con = client.connect().await.unwrap();
            let bob = Client::open(format!("redis://bob@127.0.0.1:{}/", server.port())).unwrap();
            assert_eq!(bob.connect().await.unwrap_err().kind(), ErrorKind::AuthenticationFailed);
            let mut add = cmd("ACL");
            add.arg(("SETUSER", "bob", "on", "nopass", "+@all", "~*"));
            if add.exec_async(&con).await.is_err_and(|error| error.to_string().contains("only the default one")) {
                continue;
            }
            let me: String = cmd("ACL").arg("WHOAMI").query_async(&bob.connect().await.unwrap()).await.unwrap();
            assert_eq!(me, "bob");
        }
    });
}

/// A server that takes the first commands of its first connection, answers one, and hangs up; then it obliges.
async fn hangs_up_once(taken: &'static str) -> Fake {
    Fake::start(move |connection, line| match (connection, line) {
        (0, "GET 0") => oblige(line),
        (0, line) if line == taken => Answer::HangUp,
        (0, _) => Answer::Nothing,
        _ => oblige(line),
    })
    .await
}

fn unknown(summary: &Summary) -> Vec<u64> {
    summary.unknown.iter().cloned().flatten().collect()
}

#[test]
fn a_stream_sends_again_what_may_be_executed_twice() {
    run(async {
        let commands = || (0..100).map(|n| cmd("GET").arg(n).idempotent().to_owned());
        let con = hangs_up_once("GET 9").await.connect(ConnectionConfig::new()).await;
        let good = con.stream(commands()).fold(0, |good, reply| good + usize::from(reply.is_ok())).await;
        assert_eq!(good, 100);
        let fake = hangs_up_once("GET 9").await;
        let con = fake.connect(ConnectionConfig::new()).await;
        let summary = con.stream(commands()).count().await;
        assert_eq!((summary.replies, summary.errors), (100, 0), "{summary:?}");
        let again: Vec<String> = (1..100).map(|n| format!("GET {n}")).collect();
        assert_eq!(fake.lines(1), again);
        let counters = con.counters();
        assert_eq!((counters.commands, counters.in_flight), (counters.replies + counters.lost, 0));
        assert!(counters.lost > 0 && counters.lost == counters.retries, "{counters:?}");
    });
}

#[test]
fn what_a_stream_sends_again_overtakes_nothing_of_it() {
    run(async {
        let fake = hangs_up_once("GET 9").await;
        let con = fake.connect(ConnectionConfig::new()).await;
        // One of those that are sent before the loss must not be executed twice.
        let commands =
            (0..12).map(|n| if n == 5 { cmd("GET").arg(n).clone() } else { cmd("GET").arg(n).idempotent().clone() });
        let summary = con.stream(commands).count().await;
        assert_eq!((summary.replies, summary.errors, unknown(&summary)), (12, 5, (1..6).collect()));
        let again: Vec<String> = (6..12).map(|n| format!("GET {n}")).collect();
        assert_eq!(fake.lines(1), again);
    });
}

#[test]
fn a_stream_that_counts_names_every_command_of_unknown_fate() {
    run(async {
        // Each of the first connections answers three commands and takes more.
        let answered = [const { AtomicUsize::new(0) }; 100];
        let fake = Fake::start(move |connection, line| match answered[connection].fetch_add(1, Relaxed) {
            0..3 => oblige(line),
            3..6 => Answer::Nothing,
            _ if connection < 5 => Answer::HangUp,
            _ => oblige(line),
        })
        .await;
        let con = fake.connect(ConnectionConfig::new().set_response_timeout(Some(Duration::from_millis(300)))).await;
        let summary = con.stream(gets(1_000)).count().await;
        assert_eq!(summary.replies, 1_000);
        let unknown = unknown(&summary);
        assert_eq!(unknown.len() as u64, summary.errors, "{summary:?}");
        assert_eq!(summary.first_error.as_ref().map(|(index, _)| *index), unknown.first().copied());
        // Whatever is not named has been executed once.
        let lines: Vec<String> = fake.seen().into_iter().map(|came| came.line).collect();
        for n in (0..1_000u64).filter(|n| !unknown.contains(n)) {
            assert_eq!(lines.iter().filter(|line| **line == format!("GET {n}")).count(), 1, "{n}");
        }
    });
}

#[test]
fn what_a_stream_has_sent_once_stays_unknown_whatever_becomes_of_the_next_attempt() {
    run(async {
        let fake = Fake::start(|_, line| if line == "GET 0" { Answer::HangUp } else { Answer::Nothing }).await;
        let config = ConnectionConfig::new().set_backoff(Some(Backoff::new().set_attempts_max(Some(1))));
        let con = fake.connect(config).await;
        let commands = (0..5).map(|n| cmd("GET").arg(n).idempotent().clone());
        let summary = con.stream(commands).count().await;
        assert_eq!((summary.replies, summary.errors, unknown(&summary)), (5, 5, (0..5).collect()));
    });
}

#[test]
fn a_subscriber_that_the_server_cuts_off_sees_the_gap() {
    run(async {
        for server in [Server::start_onrush(&["--workers", "2"]), Server::start_redis(&[])] {
            let client = Client::open(format!("redis://127.0.0.1:{}/", server.port())).unwrap();
            let con = client.connect().await.unwrap();
            let limit = "pubsub 1mb 0 0";
            cmd("CONFIG").arg(("SET", "client-output-buffer-limit", limit)).exec_async(&con).await.unwrap();
            let small = ConnectionConfig::new().set_socket_buffers(None, Some(64 << 10));
            let mut messages = client.pubsub_with(small.clone()).await.unwrap();
            let mut events = client.pubsub_with(small).await.unwrap();
            messages.subscribe("c").await.unwrap();
            events.subscribe("c").await.unwrap();
            let padding = "x".repeat(4 << 10);
            let publish = async |n: u64| con.publish::<_, _, usize>("c", format!("{n} {padding}")).await.unwrap();
            let mut sent = 0;
            while publish(sent).await > 0 {
                sent += 1;
            }
            let go_on = async {
                loop {
                    sent += 1;
                    publish(sent).await;
                    tokio::task::yield_now().await;
                }
            };
            let read = async {
                let (mut last, mut marked) = (None, 0);
                while marked == 0 {
                    let message = messages.next_message().await.unwrap();
                    marked += usize::from(message.is_after_gap());
                    check_order(&mut last, &message, message.is_after_gap());
                }
                let (mut last, mut is_gap) = (None, false);
                loop {
                    match events.next_event().await.unwrap() {
                        PubSubEvent::Message(message) => {
                            check_order(&mut last, &message, is_gap);
                            if is_gap {
                                break;
                            }
                        }
                        event => is_gap |= event == PubSubEvent::Gap,
                    }
                }
            };
            tokio::select! {
                () = read => {}
                () = go_on => {}
            }
        }
    });
}

/// A message's number follows the last one, except behind a gap.
fn check_order(last: &mut Option<u64>, message: &Msg, is_after_gap: bool) {
    let text: String = message.get_payload().unwrap();
    let number = text.split(' ').next().unwrap().parse().unwrap();
    assert!(is_after_gap || last.is_none_or(|last| last + 1 == number), "{last:?}, {number}");
    *last = Some(number);
}

#[test]
fn a_blocking_command_goes_over_another_lease_if_it_may() {
    run(async {
        // Leases hang up on their second command, and some before their first.
        let fake = Fake::start(|connection, line| match line {
            "SELECT 1" if matches!(connection, 1..4) => Answer::HangUp,
            "BLPOP x 0" if connection % 2 == 0 => Answer::HangUp,
            line => oblige(line),
        })
        .await;
        let client = Client::open(format!("redis://127.0.0.1:{}/1?protocol=resp2", fake.port)).unwrap();
        let con =
            client.connect_with(ConnectionConfig::new().set_client_info(false).set_ready_check(false)).await.unwrap();
        let mut pop = cmd("BLPOP");
        pop.arg(("x", 0));
        let error = pop.exec_async(&con).await.unwrap_err();
        assert_eq!(error.fate(), Fate::Unknown, "{error}");
        pop.idempotent().exec_async(&con).await.unwrap();
        let mut pipeline = pipe();
        pipeline.add_command(&pop).add_command(&pop);
        pipeline.exec_async(&con).await.unwrap();
    });
}

#[test]
fn a_transaction_goes_over_another_lease_until_exec_is_sent() {
    run(async {
        let executes = Arc::new(AtomicBool::new(true));
        let does = executes.clone();
        let fake = Fake::start(move |connection, line| match (connection, line) {
            (1, "WATCH n") | (2, "PING") => Answer::HangUp,
            (_, "EXEC") if !does.load(Relaxed) => Answer::HangUp,
            (_, "INCRBY n 1") => Answer::Say("+QUEUED\r\n".into()),
            (_, line) => transact(line, || oblige(line)),
        })
        .await;
        let con = fake.connect(ConnectionConfig::new()).await;
        let mut attempts = 0;
        let attempt = async |lease: &Lease, pipeline: &mut Pipeline| {
            attempts += 1;
            if cmd("PING").exec_async(lease).await.is_err() {
                assert!(lease.is_closed());
            }
            incr(lease, pipeline).await
        };
        assert_eq!(con.transaction("n", attempt).await, Ok(7));
        assert_eq!((attempts, fake.lines(3)[0].as_str()), (2, "WATCH n"));
        executes.store(false, Relaxed);
        let error = con.transaction("n", incr).await.unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::Io, Fate::Unknown));
    });
}

#[test]
fn a_transaction_that_was_executed_is_not_attempted_again() {
    run(async {
        let fake = Fake::start(|_, line| match line {
            "ECHO x" => Answer::HangUp,
            "INCRBY n 1" => Answer::Say("+QUEUED\r\n".into()),
            line => transact(line, || oblige(line)),
        })
        .await;
        let con = fake.connect(ConnectionConfig::new()).await;
        let mut attempts = 0;
        let attempt = async |lease: &Lease, pipeline: &mut Pipeline| {
            attempts += 1;
            let new = incr(lease, pipeline).await?;
            // The lease is lost, and what comes then is not sent.
            let echo = cmd("ECHO").arg("x").exec_async(lease).await;
            assert_eq!(echo.unwrap_err().fate(), Fate::Unknown);
            cmd("PING").exec_async(lease).await?;
            Ok(new)
        };
        let error = con.transaction("n", attempt).await.unwrap_err();
        assert_eq!((error.fate(), attempts), (Fate::NotSent, 1));
        let by_hand = async |lease: &Lease, _: &mut Pipeline| {
            attempts += 1;
            for line in ["MULTI", "INCR", "EXEC"] {
                let mut command = cmd(line);
                if line == "INCR" {
                    command.arg("n");
                }
                command.exec_async(lease).await?;
            }
            let echo = cmd("ECHO").arg("x").exec_async(lease).await;
            assert!(echo.is_err());
            cmd("PING").exec_async(lease).await.map(Some)
        };
        let error = con.transaction("n", by_hand).await.unwrap_err();
        assert_eq!((error.fate(), attempts), (Fate::NotSent, 2));
    });
}

#[test]
fn a_stream_that_ends_names_all_that_it_has_taken() {
    run(async {
        let fake = Fake::start(|_, line| oblige(line)).await;
        let con = fake.connect(ConnectionConfig::new()).await;
        let mut commands: Vec<Cmd> = (0..100).map(|n| cmd("ECHO").arg(n).clone()).collect();
        commands.insert(60, cmd("BLPOP").arg(("list", 0)).clone());
        let summary = con.stream(commands).count().await;
        let not_sent: u64 = summary.not_sent.iter().map(|range| range.end - range.start).sum();
        assert_eq!((summary.errors, summary.replies), (not_sent, 101), "{summary:?}");
        assert!(summary.not_sent.iter().any(|range| range.contains(&60)), "{summary:?}");
        con.close().await;
        let summary = con.stream((0..10).map(|n| cmd("ECHO").arg(n).clone())).count().await;
        assert_eq!((summary.replies, summary.errors), (10, 10));
        assert_eq!(summary.not_sent.iter().cloned().flatten().count(), 10);
    });
}

#[test]
fn what_is_watched_is_not_forgotten_while_the_server_loads() {
    run(async {
        let fake = Fake::start(|_, line| match line {
            "INCRBY n 1" => Answer::Say(LOADING.into()),
            "EXEC" => Answer::Say("-EXECABORT Transaction discarded because of previous errors.\r\n".into()),
            line => oblige(line),
        })
        .await;
        let con = fake.connect(ConnectionConfig::new()).await;
        let error = con.transaction("n", incr).await.unwrap_err();
        assert_eq!(error.code(), Some("LOADING"), "{error}");
        let lines = fake.lines(1);
        assert_eq!(lines.iter().filter(|line| *line == "EXEC").count(), 1, "{lines:?}");
    });
}

#[test]
fn a_hundred_workers_may_wait_at_a_time() {
    run(async {
        let fake = Fake::start(|_, line| if line.starts_with("BLPOP") { Answer::Nothing } else { oblige(line) }).await;
        let con = fake.connect(ConnectionConfig::new().set_response_timeout(Some(Duration::from_millis(200)))).await;
        let workers: Vec<_> = (0..100)
            .map(|_| {
                let con = con.clone();
                tokio::spawn(async move { cmd("BLPOP").arg(("x", 0)).exec_async(&con).await })
            })
            .collect();
        while fake.seen().iter().filter(|came| came.line.starts_with("BLPOP")).count() < 100 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(!workers.iter().any(|worker| worker.is_finished()));
    });
}

#[test]
fn who_may_wait_for_a_lease_without_limit_does() {
    run(async {
        let fake = Fake::obliging().await;
        let config = ConnectionConfig::new().set_response_timeout(Some(Duration::from_millis(50))).set_leases_max(1);
        let con = fake.connect(config.set_lease_timeout(None)).await;
        let held = con.lease().await.unwrap();
        let mut pop = cmd("BLPOP");
        let pop = pop.arg(("x", 0)).exec_async(&con);
        tokio::pin!(pop);
        assert!(tokio::time::timeout(Duration::from_millis(200), &mut pop).await.is_err());
        drop(held);
        pop.await.unwrap();
    });
}

#[test]
fn leases_that_nobody_uses_are_closed() {
    run(async {
        let server = Server::start_onrush(&["--workers", "2"]);
        let client = Client::open(format!("redis://127.0.0.1:{}/", server.port())).unwrap();
        let con =
            client.connect_with(ConnectionConfig::new().set_lease_idle(Some(Duration::from_millis(20)))).await.unwrap();
        let count = async || {
            let list: String = cmd("CLIENT").arg("LIST").query_async(&con).await.unwrap();
            list.lines().count()
        };
        for _ in 0..2 {
            let leases = [con.lease().await.unwrap(), con.lease().await.unwrap()];
            assert_eq!(count().await, 3);
            drop(leases);
            while count().await > 1 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    });
}

const LOADING: &str = "-LOADING Redis is loading the dataset in memory\r\n";

fn ready_checking() -> ConnectionConfig {
    ConnectionConfig::new().set_client_info(false)
}

async fn connect(fake: &Fake, config: ConnectionConfig) -> RedisResult<Connection> {
    Client::open(format!("redis://127.0.0.1:{}/?protocol=resp2", fake.port)).unwrap().connect_with(config).await
}

#[test]
fn a_server_that_loads_its_data_counts_as_away() {
    run(async {
        // It loads its data whenever it starts, and hangs up once.
        let fake = Fake::start(|connection, line| match (connection, line) {
            (0..3 | 4..8, "PING") => Answer::Say(LOADING.into()),
            (0..3 | 4..8, _) => panic!("{line}"),
            (3, "GET last") => Answer::HangUp,
            (3, "GET k") => Answer::Nothing,
            (_, line) => oblige(line),
        })
        .await;
        // Loading is no failed attempt.
        let backoff = Backoff::new().set_attempts_max(Some(2));
        let con = connect(&fake, ready_checking().set_backoff(Some(backoff))).await.unwrap();
        let mut get = cmd("GET");
        let get = get.arg("k").idempotent();
        let mut last = cmd("GET");
        let last = last.arg("last").idempotent();
        let (one, two) = tokio::join!(get.exec_async(&con), last.exec_async(&con));
        assert_eq!((one, two), (Ok(()), Ok(())));
        assert_eq!(fake.seen().last().unwrap().connection, 8);
    });
}

#[test]
fn a_server_that_goes_on_loading_is_told_after_the_response_timeout() {
    run(async {
        let fake = Fake::start(|_, _| Answer::Say(LOADING.into())).await;
        let config = ready_checking().set_response_timeout(Some(Duration::from_millis(100)));
        let error = connect(&fake, config.clone()).await.unwrap_err();
        assert_eq!((error.code(), error.fate()), (Some("LOADING"), Fate::NotSent), "{error}");
        // Who wants to see it may.
        let con = connect(&fake, config.set_ready_check(false)).await.unwrap();
        let error = cmd("GET").arg("k").exec_async(&con).await.unwrap_err();
        assert_eq!((error.code(), error.fate()), (Some("LOADING"), Fate::Replied));
    });
}

#[test]
fn what_loading_has_kept_from_running_is_sent_again() {
    run(async {
        // It begins to load while it is connected.
        let left = Arc::new(AtomicUsize::new(0));
        let (loads, spoiled) = (left.clone(), AtomicUsize::new(0));
        let answer = move |_: usize, line: &str| match line {
            "MULTI" => {
                spoiled.store(0, Relaxed);
                oblige(line)
            }
            "EXEC" if spoiled.load(Relaxed) == 0 => Answer::Say("*2\r\n+OK\r\n+OK\r\n".into()),
            "EXEC" => Answer::Say("-EXECABORT Transaction discarded because of previous errors.\r\n".into()),
            line => match loads.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)) {
                Ok(_) => {
                    spoiled.store(1, Relaxed);
                    Answer::Say(LOADING.into())
                }
                Err(_) => oblige(line),
            },
        };
        let fake = Fake::start(answer).await;
        let con = connect(&fake, ready_checking()).await.unwrap();
        left.store(3, Relaxed);
        cmd("SET").arg(("k", 1)).exec_async(&con).await.unwrap();
        left.store(4, Relaxed);
        pipe().set("k", 1).get("k").exec_async(&con).await.unwrap();
        left.store(3, Relaxed);
        let each = pipe().set("k", 1).get("k").query_each::<String>(&con).await.unwrap();
        // The second attempt was executed in part, so it is not repeated.
        assert_eq!((each[0].as_ref().unwrap_err().code(), each[1].as_deref()), (Some("LOADING"), Ok("OK")));
        left.store(6, Relaxed);
        pipe().atomic().set("k", 1).get("k").exec_async(&con).await.unwrap();
        left.store(2, Relaxed);
        cmd("BLPOP").arg(("x", 0)).exec_async(&con).await.unwrap();
    });
}

#[test]
fn a_transaction_runs_in_a_task_and_borrows() {
    run(async {
        for server in [Server::start_onrush(&["--workers", "2"]), Server::start_redis(&[])] {
            let client = Client::open(format!("redis://127.0.0.1:{}/", server.port())).unwrap();
            let con = client.connect().await.unwrap();
            let task = |_: usize| {
                let con = con.clone();
                tokio::spawn(async move {
                    let key = String::from("n");
                    let key = &key;
                    let attempt = |lease: Attempt| async move {
                        let old: Option<i64> = lease.get(key).await?;
                        let mut pipeline = pipe();
                        pipeline.atomic().set(key, old.unwrap_or(0) + 1);
                        pipeline.query_async::<Option<((),)>>(&lease).await
                    };
                    for _ in 0..10 {
                        con.transact(key, attempt).await.unwrap();
                    }
                })
            };
            let tasks: Vec<_> = (0..10).map(task).collect();
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(con.get::<_, i64>("n").await.unwrap(), 100);
        }
        // The same rules apply as to `transaction`.
        let fake = Fake::start(|connection, line| match (connection, line) {
            (1, "PING") | (2.., "UNWATCH") => Answer::HangUp,
            (_, "INCRBY n 1") => Answer::Say("+QUEUED\r\n".into()),
            (_, line) => transact(line, || oblige(line)),
        })
        .await;
        let con = fake.connect(ConnectionConfig::new()).await;
        let attempt = async |lease: Attempt| {
            _ = cmd("PING").exec_async(&lease).await;
            let mut pipeline = pipe();
            pipeline.atomic();
            incr(&lease, &mut pipeline).await
        };
        assert_eq!(con.transact("n", attempt).await, Ok(7));
        assert_eq!(con.transact("n", async |_| Err::<Option<()>, _>(own_error())).await, Err(own_error()));
    });
}

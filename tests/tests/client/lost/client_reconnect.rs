//! Lost connections: which commands survive, which errors come, and subscriptions, which are made again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::fake::{Answer, Fake, oblige, run};
use onrush::{
    AsyncCommands, Backoff, Client, ConnectionConfig, ErrorKind, Fate, PUSHES_MAX, PubSub, PushKind, RedisResult, cmd,
    pipe,
};
use onrush_tests::server::Server;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

fn quick() -> ConnectionConfig {
    ConnectionConfig::new().set_response_timeout(Some(Duration::from_millis(200)))
}

#[test]
fn what_may_be_sent_again_is_after_a_timeout() {
    run(async {
        // The first connection answers nothing.
        let fake = Fake::start(|connection, line| if connection == 0 { Answer::Nothing } else { oblige(line) }).await;
        let con = fake.connect(quick()).await;
        let mut command = cmd("GET");
        let command = command.arg("k").idempotent();
        let mut pipeline = pipe();
        pipeline.cmd("INCR").arg("n").cmd("GET").arg("k").idempotent();
        let (single, each) = tokio::join!(command.query_async::<String>(&con), pipeline.query_each::<String>(&con));
        assert_eq!(single.unwrap(), "OK");
        let each = each.unwrap();
        let error = each[0].as_ref().unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::Timeout, Fate::Unknown));
        assert_eq!(each[1].as_deref(), Ok("OK"));
    });
}

#[test]
fn what_may_have_been_executed_once_says_so_whatever_becomes_of_the_next_attempt() {
    run(async {
        let fake = Fake::start(|_, _| Answer::HangUp).await;
        let config = quick().set_backoff(Some(Backoff::new().set_attempts_max(Some(1))));
        let con = fake.connect(config).await;
        let error = cmd("GET").arg("k").idempotent().exec_async(&con).await.unwrap_err();
        assert_eq!(error.fate(), Fate::Unknown, "{error}");
        let each = pipe().cmd("GET").arg("k").idempotent().query_each::<String>(&fake.connect(quick()).await).await;
        assert_eq!(each.unwrap()[0].as_ref().unwrap_err().fate(), Fate::Unknown);
    });
}

#[test]
fn what_is_sent_again_overtakes_nothing_of_its_pipeline() {
    run(async {
        // The first connection is lost with all four commands in it.
        let fake = Fake::start(|connection, line| match (connection, line) {
            (0, "GET last") => Answer::HangUp,
            (0, _) => Answer::Nothing,
            _ => oblige(line),
        })
        .await;
        let con = fake.connect(ConnectionConfig::new()).await;
        let mut pipeline = pipe();
        pipeline.cmd("SET").arg(("x", 1)).idempotent().cmd("INCR").arg("x");
        pipeline.cmd("SET").arg(("y", 1)).idempotent().cmd("GET").arg("last").idempotent();
        let results = pipeline.query_each::<String>(&con).await.unwrap();
        let fates: Vec<Option<Fate>> =
            results.iter().map(|result| result.as_ref().err().map(|error| error.fate())).collect();
        assert_eq!(fates, [Some(Fate::Unknown), Some(Fate::Unknown), None, None]);
        assert_eq!(fake.lines(1), ["SET y 1", "GET last"]);
    });
}

#[test]
fn why_there_is_no_connection_is_told() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let client = Client::open(format!("redis://{addr}/?protocol=resp2")).unwrap();
        let con = client.connect_with(quick().set_client_info(false).set_ready_check(false)).await.unwrap();
        drop(listener);
        // Refused after the first has found the connection gone.
        let mut error = cmd("PING").exec_async(&con).await.unwrap_err();
        if error.fate() == Fate::Unknown {
            error = cmd("PING").exec_async(&con).await.unwrap_err();
        }
        assert_eq!((error.kind(), error.fate()), (ErrorKind::Timeout, Fate::NotSent), "{error}");
        assert!(error.is_connection_refusal() && error.to_string().contains(&addr.to_string()), "{error}");
        let error = client.connect().await.unwrap_err();
        assert!(error.is_connection_refusal() && error.to_string().contains(&addr.to_string()), "{error}");
    });
}

#[test]
fn a_peer_that_accepts_and_hangs_up_is_not_called_again_at_once() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://127.0.0.1:{}/?protocol=resp2", listener.local_addr().unwrap().port());
        let config = ConnectionConfig::new().set_client_info(false).set_ready_check(false);
        let con = Client::open(url).unwrap().connect_with(config).await.unwrap();
        let started = Instant::now();
        for _ in 0..7 {
            drop::<TcpStream>(listener.accept().await.unwrap().0);
        }
        // The waits are none, and half at least of 10, 20, 40, 80 and 160 ms.
        assert!(started.elapsed() >= Duration::from_millis(155), "{:?}", started.elapsed());
        assert!(!con.is_closed());
    });
}

#[test]
fn a_peer_that_accepts_and_hangs_up_is_given_up_after_the_attempts_allowed() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://127.0.0.1:{}/?protocol=resp2", listener.local_addr().unwrap().port());
        let backoff = Backoff::new().set_attempts_max(Some(3));
        let config = ConnectionConfig::new().set_client_info(false).set_ready_check(false).set_backoff(Some(backoff));
        let con = Client::open(url).unwrap().connect_with(config).await.unwrap();
        let hang_up = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                drop(stream);
            }
        });
        while !con.is_closed() {
            tokio::task::yield_now().await;
        }
        let error = cmd("PING").exec_async(&con).await.unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::Io, Fate::NotSent), "{error}");
        hang_up.abort();
    });
}

#[test]
fn who_waits_for_a_lease_waits_no_longer_than_the_timeout() {
    run(async {
        let fake = Fake::start(|_, line| if line.starts_with("BLPOP") { Answer::Nothing } else { oblige(line) }).await;
        let con = fake.connect(quick().set_leases_max(1)).await;
        let lease = con.lease().await.unwrap();
        for error in [con.lease().await.unwrap_err(), cmd("BLPOP").arg(("k", 0)).exec_async(&con).await.unwrap_err()] {
            assert_eq!((error.kind(), error.fate()), (ErrorKind::Timeout, Fate::NotSent), "{error}");
        }
        drop(lease);
        cmd("PING").exec_async(&con.lease().await.unwrap()).await.unwrap();
    });
}

/// Waits until `count` of these lines have come on a connection.
async fn wait_for_lines(fake: &mut Fake, connection: usize, line: &str, count: usize) {
    let mut lines = 1;
    while fake.lines(connection).iter().filter(|came| *came == line).count() < count {
        fake.wait_for(connection, lines).await;
        lines = fake.lines(connection).len() + 1;
    }
}

fn alert() -> ConnectionConfig {
    quick().set_client_info(false).set_ready_check(false).set_ping_interval(Some(Duration::from_millis(50)))
}

#[test]
fn a_server_gone_silent_is_found_by_who_waits_for_messages() {
    run(async {
        for response_timeout in [Some(Duration::from_millis(200)), None] {
            let mut fake = Fake::start(|connection, line| match line {
                "PING" if connection == 0 => Answer::Nothing,
                "PING" => Answer::Say("*2\r\n$4\r\npong\r\n$0\r\n\r\n".into()),
                _ => confirm(line),
            })
            .await;
            let url = format!("redis://127.0.0.1:{}/?protocol=resp2", fake.port);
            let config = alert().set_response_timeout(response_timeout);
            let mut pubsub = Client::open(url).unwrap().pubsub_with(config).await.unwrap();
            pubsub.subscribe("c").await.unwrap();
            // It stays on the second connection, which answers.
            wait_for_lines(&mut fake, 1, "PING", 5).await;
            assert_eq!(fake.lines(0), ["SUBSCRIBE c", "PING"]);
            assert_eq!(fake.lines(1)[0], "SUBSCRIBE c");
            assert!(fake.lines(2).is_empty());
        }
    });
}

#[test]
fn a_connection_that_waits_for_nothing_is_left_alone() {
    run(async {
        let server = Server::start_redis(&[]);
        let client = Client::open(format!("redis://127.0.0.1:{}/", server.port())).unwrap();
        let idle = client.connect_with(alert()).await.unwrap();
        let listening = client.connect_with(alert()).await.unwrap();
        listening.subscribe("c").await.unwrap();
        let pings = async || -> u64 {
            let stats: String = cmd("INFO").arg("commandstats").query_async(&idle).await.unwrap();
            let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_ping:calls="));
            line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
        };
        while pings().await < 3 {
            tokio::task::yield_now().await;
        }
        listening.unsubscribe("c").await.unwrap();
        let before = pings().await;
        let started = Instant::now();
        while started.elapsed() < Duration::from_millis(300) {
            tokio::task::yield_now().await;
            cmd("PUBLISH").arg(("c", 1)).exec_async(&listening).await.unwrap();
        }
        assert_eq!(pings().await, before);
    });
}

#[test]
fn a_server_gone_silent_is_found_while_a_blocking_command_waits() {
    run(async {
        let silent = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let mut fake = Fake::start({
            let silent = silent.clone();
            move |_, line| match line.split(' ').next() {
                Some("BLPOP") => Answer::Nothing,
                _ if silent.load(std::sync::atomic::Ordering::Relaxed) => Answer::Nothing,
                _ => oblige(line),
            }
        })
        .await;
        let con = fake.connect(alert()).await;
        let waiting = tokio::spawn(async move { cmd("BLPOP").arg(("k", 0)).exec_async(&con).await });
        wait_for_lines(&mut fake, 0, "PING", 5).await;
        assert!(!waiting.is_finished());
        silent.store(true, std::sync::atomic::Ordering::Relaxed);
        let error = waiting.await.unwrap().unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::Timeout, Fate::Unknown), "{error}");
    });
}

async fn pubsub(server: &Server, protocol: &str) -> PubSub {
    let url = format!("redis://127.0.0.1:{}/?protocol={protocol}", server.port());
    Client::open(url).unwrap().get_async_pubsub().await.unwrap()
}

#[test]
fn any_number_of_subscriptions_may_be_made_before_a_message_is_read() {
    run(async {
        let server = Server::start_redis(&[]);
        let con = Client::open(format!("redis://127.0.0.1:{}/", server.port())).unwrap().connect().await.unwrap();
        for protocol in ["resp2", "resp3"] {
            let mut pubsub = pubsub(&server, protocol).await;
            pubsub.subscribe("c:0").await.unwrap();
            // Messages that nobody reads stand before all confirmations to come.
            let sent = PUSHES_MAX + 100;
            let mut publish = pipe();
            for n in 0..sent {
                publish.cmd("PUBLISH").arg(("c:0", n));
            }
            publish.exec_async(&con).await.unwrap();
            for n in 1..3 * PUSHES_MAX {
                pubsub.subscribe(format!("c:{n}")).await.unwrap();
            }
            let last = format!("c:{}", 3 * PUSHES_MAX - 1);
            let _: usize = con.publish(&last, "end").await.unwrap();
            for n in 0..sent {
                assert_eq!(pubsub.next_message().await.unwrap().get_payload::<usize>().unwrap(), n, "{protocol}");
            }
            assert_eq!(pubsub.next_message().await.unwrap().get_channel_name(), Some(last.as_str()), "{protocol}");
        }
    });
}

#[test]
fn a_subscription_comes_back_after_a_disconnect() {
    run(async {
        let server = Server::start_redis(&[]);
        let con = Client::open(format!("redis://127.0.0.1:{}/", server.port())).unwrap().connect().await.unwrap();
        let mut pushes = con.pushes().unwrap();
        con.subscribe("news").await.unwrap();
        con.subscribe("old").await.unwrap();
        con.unsubscribe("old").await.unwrap();
        let mut pubsub = pubsub(&server, "resp2").await;
        pubsub.psubscribe("new*").await.unwrap();
        let other = Client::open(format!("redis://127.0.0.1:{}/", server.port())).unwrap().connect().await.unwrap();
        for kind in ["normal", "pubsub"] {
            let _: usize = cmd("CLIENT").arg(("KILL", "TYPE", kind)).query_async(&other).await.unwrap();
        }
        loop {
            let counts: RedisResult<((String, usize), usize)> =
                pipe().cmd("PUBSUB").arg(("NUMSUB", "news")).cmd("PUBSUB").arg("NUMPAT").query_async(&other).await;
            if matches!(&counts, Ok(((_, 1), 1))) {
                break;
            }
        }
        let _: usize = other.publish("old", "no").await.unwrap();
        let _: usize = other.publish("news", "yes").await.unwrap();
        let message = pubsub.next_message().await.unwrap();
        assert_eq!((message.get_payload::<String>().unwrap(), message.from_pattern()), ("yes".into(), true));
        let mut push = pushes.recv().await.unwrap();
        while push.kind != PushKind::Message {
            push = pushes.recv().await.unwrap();
        }
        assert_eq!(push.data[1].as_bytes(), Some(b"yes".as_slice()));
    });
}

/// The confirmation of a subscription in RESP2.
fn confirm(line: &str) -> Answer {
    match line.split_once(' ') {
        Some(("SUBSCRIBE", channel)) if !channel.contains(' ') => {
            Answer::Say(format!("*3\r\n$9\r\nsubscribe\r\n${}\r\n{channel}\r\n:1\r\n", channel.len()))
        }
        _ => oblige(line),
    }
}

async fn fake_pubsub(fake: &Fake) -> PubSub {
    let url = format!("redis://127.0.0.1:{}/?protocol=resp2", fake.port);
    Client::open(url)
        .unwrap()
        .pubsub_with(ConnectionConfig::new().set_client_info(false).set_ready_check(false))
        .await
        .unwrap()
}

#[test]
fn a_subscription_counts_from_when_it_is_confirmed() {
    run(async {
        // The first connection is lost before it confirms anything.
        let hang_up_first = |connection, line: &str| if connection == 0 { Answer::HangUp } else { confirm(line) };
        let fake = Fake::start(hang_up_first).await;
        let mut subscriber = fake_pubsub(&fake).await;
        subscriber.subscribe("c").await.unwrap();
        assert!(fake.lines(1).iter().all(|line| line == "SUBSCRIBE c"), "{:?}", fake.lines(1));

        let mut fake = Fake::start(hang_up_first).await;
        let mut given_up = fake_pubsub(&fake).await;
        let polled_once = std::future::poll_fn(|cx| {
            let subscribing = std::pin::pin!(given_up.subscribe("c"));
            std::task::Poll::Ready(subscribing.poll(cx).is_pending())
        });
        assert!(polled_once.await, "it waits for the confirmation");
        given_up.subscribe("d").await.unwrap();
        fake.wait_for(1, 1).await;
        assert_eq!(fake.lines(1), ["SUBSCRIBE d"]);
    });
}

#[test]
fn a_subscription_that_was_refused_does_not_come_back() {
    run(async {
        let mut fake = Fake::start(|_, line| match line {
            "SUBSCRIBE secret" => Answer::Say("-NOPERM no\r\n".into()),
            "SUBSCRIBE last" => Answer::HangUp,
            _ => confirm(line),
        })
        .await;
        let mut pubsub = fake_pubsub(&fake).await;
        pubsub.subscribe("open").await.unwrap();
        assert_eq!(pubsub.subscribe("secret").await.unwrap_err().code(), Some("NOPERM"));
        let lost = tokio::spawn(async move { pubsub.subscribe("last").await });
        fake.wait_for(1, 1).await;
        assert_eq!(fake.lines(1)[0], "SUBSCRIBE open");
        lost.abort();
    });
}

#[test]
fn a_subscription_that_is_refused_after_a_reconnect_says_so_and_the_others_stay() {
    run(async {
        let mut fake = Fake::start(|connection, line| match (connection, line) {
            (1, "SUBSCRIBE b") => Answer::Say("-NOPERM no\r\n".into()),
            (_, "SUBSCRIBE lost") if connection < 2 => Answer::HangUp,
            _ => confirm(line),
        })
        .await;
        let mut pubsub = fake_pubsub(&fake).await;
        for channel in ["a", "b", "c"] {
            pubsub.subscribe(channel).await.unwrap();
        }
        pubsub.subscribe("lost").await.unwrap();
        fake.wait_for(2, 3).await;
        assert_eq!(fake.lines(1), ["SUBSCRIBE a", "SUBSCRIBE b", "SUBSCRIBE c", "SUBSCRIBE lost"]);
        assert_eq!(fake.lines(2), ["SUBSCRIBE a", "SUBSCRIBE c", "SUBSCRIBE lost"]);
        let mut push = pubsub.next_push().await.unwrap();
        while push.kind != PushKind::Unsubscribe {
            push = pubsub.next_push().await.unwrap();
        }
        assert_eq!(push.data[0].as_bytes(), Some(b"b".as_slice()));
        assert!(matches!(&push.data[1], onrush::Value::ServerError(error) if error.code() == "NOPERM"), "{push:?}");
    });
}

#[test]
fn shard_channels_come_back_too_until_the_server_ends_them() {
    run(async {
        let server = Server::start_redis(&["--cluster-enabled", "yes"]);
        let client = Client::open(format!("redis://127.0.0.1:{}/", server.port())).unwrap();
        let (con, other) = (client.connect().await.unwrap(), client.connect().await.unwrap());
        let _: () = cmd("CLUSTER").arg(("ADDSLOTSRANGE", 0, 16383)).query_async(&other).await.unwrap();
        let mut pubsub = client.get_async_pubsub().await.unwrap();
        let mut pushes = con.pushes().unwrap();
        pubsub.ssubscribe("a").await.unwrap();
        con.ssubscribe("a").await.unwrap();
        con.ssubscribe("b").await.unwrap();
        con.sunsubscribe("b").await.unwrap();
        for kind in ["normal", "pubsub"] {
            let _: usize =
                cmd("CLIENT").arg(("KILL", "TYPE", kind, "SKIPME", "yes")).query_async(&other).await.unwrap();
        }
        loop {
            let counts: RedisResult<(String, usize, String, usize)> =
                cmd("PUBSUB").arg(("SHARDNUMSUB", "a", "b")).query_async(&other).await;
            if matches!(&counts, Ok((_, 2, _, 0))) {
                break;
            }
        }
        let _: usize = cmd("SPUBLISH").arg(("a", "hello")).query_async(&other).await.unwrap();
        assert_eq!(pubsub.next_message().await.unwrap().get_payload::<String>().unwrap(), "hello");
        let mut push = pushes.recv().await.unwrap();
        while push.kind != PushKind::SMessage {
            push = pushes.recv().await.unwrap();
        }
        // The slot of "a" goes: the server ends the subscription, and it does not come back.
        let slot: u16 = cmd("CLUSTER").arg(("KEYSLOT", "a")).query_async(&other).await.unwrap();
        let _: () = cmd("CLUSTER").arg(("DELSLOTS", slot)).query_async(&other).await.unwrap();
        while push.kind != PushKind::SUnsubscribe {
            push = pushes.recv().await.unwrap();
        }
        let _: usize =
            cmd("CLIENT").arg(("KILL", "TYPE", "normal", "SKIPME", "yes")).query_async(&other).await.unwrap();
        let _: usize =
            cmd("CLIENT").arg(("KILL", "TYPE", "pubsub", "SKIPME", "yes")).query_async(&other).await.unwrap();
        while push.kind != PushKind::Disconnection {
            push = pushes.recv().await.unwrap();
        }
        cmd("PING").exec_async(&con).await.unwrap();
        assert_eq!(pushes.try_recv().map(|push| push.kind), Some(PushKind::Resubscribed));
        assert!(pushes.try_recv().is_none(), "no subscription is made again, and none is refused");
    });
}

#[test]
fn what_a_stream_sends_again_has_its_whole_time_anew() {
    run(async {
        let permits = Arc::new(Semaphore::new(0));
        let answers = permits.clone();
        let fake = Fake::start(move |connection, line| match (connection, line) {
            (0, "GET 0") => Answer::Staged(answers.clone(), vec!["+OK\r\n".into()]),
            (0, "GET 1") | (1, "PING") => Answer::HangUp,
            (_, line) => oblige(line),
        })
        .await;
        let backoff = Backoff::new().set_first(Duration::from_millis(300));
        let config = ConnectionConfig::new().set_response_timeout(Some(Duration::from_millis(400)));
        let client = Client::open(format!("redis://127.0.0.1:{}/?protocol=resp2", fake.port)).unwrap();
        let con = client.connect_with(config.set_client_info(false).set_backoff(Some(backoff))).await.unwrap();
        let sent = con.stream((0..4).map(|n| cmd("GET").arg(n).idempotent().clone())).count();
        let later = async {
            tokio::time::sleep(Duration::from_millis(350)).await;
            permits.add_permits(1);
        };
        let (summary, ()) = tokio::join!(sent, later);
        assert_eq!((summary.replies, summary.errors), (4, 0), "{summary:?}");
    });
}

#[test]
fn why_a_login_is_refused_keeps_its_code() {
    run(async {
        let server = Server::start_redis(&["--requirepass", "secret"]);
        let open = |login: &str, rest: &str| {
            Client::open(format!("redis://{login}127.0.0.1:{}/{rest}", server.port())).unwrap()
        };
        for protocol in ["resp2", "resp3"] {
            let error = open(":wrong@", &format!("?protocol={protocol}")).connect().await.unwrap_err();
            assert_eq!((error.kind(), error.code()), (ErrorKind::AuthenticationFailed, Some("WRONGPASS")), "{error}");
            let error = open("", &format!("1?protocol={protocol}")).connect().await.unwrap_err();
            assert_eq!((error.kind(), error.code()), (ErrorKind::AuthenticationFailed, Some("NOAUTH")), "{error}");
        }
        // Whoever is thrown out and may not come back learns why, from the library and through the redis crate's trait.
        let (mut con, other) = (open(":secret@", "").connect_with(quick()).await.unwrap(), open(":secret@", ""));
        let other = other.connect().await.unwrap();
        let reset = "CONFIG SET requirepass other".split(' ').collect::<Vec<_>>();
        onrush::Cmd::new().arg(&reset[..]).exec_async(&other).await.unwrap();
        cmd("CLIENT").arg(("KILL", "TYPE", "normal", "SKIPME", "yes")).exec_async(&other).await.unwrap();
        let mut error = cmd("GET").arg("k").exec_async(&con).await.unwrap_err();
        if error.fate() == Fate::Unknown {
            error = cmd("GET").arg("k").exec_async(&con).await.unwrap_err();
        }
        assert_eq!((error.kind(), error.code()), (ErrorKind::Timeout, Some("WRONGPASS")), "{error}");
        let con2 = Client::open(format!("redis://:other@127.0.0.1:{}/?protocol=resp2", server.port())).unwrap();
        con = con2.connect().await.unwrap();
        let mut refusal = redis::cmd("EVAL");
        refusal.arg("return redis.error_reply('NOAUTH no')").arg(0);
        let error = refusal.exec_async(&mut con).await.unwrap_err();
        assert_eq!(error.code(), Some("NOAUTH"));
    });
}

#[test]
fn a_connection_closed_for_good_ends_every_receiver() {
    run(async {
        let server = Server::start_redis(&[]);
        let client = Client::open(format!("redis://127.0.0.1:{}/", server.port())).unwrap();
        let config = ConnectionConfig::new().set_backoff(None);
        let con = client.connect_with(config.clone()).await.unwrap();
        let (mut first, mut second) = (con.pushes().unwrap(), con.pushes().unwrap());
        let mut pubsub = client.pubsub_with(config).await.unwrap();
        pubsub.subscribe("c").await.unwrap();
        drop(server);
        for pushes in [&mut first, &mut second] {
            assert_eq!(pushes.recv().await.unwrap().kind, PushKind::Disconnection);
            assert_eq!(pushes.recv().await, None);
        }
        assert_eq!(pubsub.next_message().await, None);
        assert!(con.is_closed());
        assert_eq!(con.pushes().unwrap_err().kind(), ErrorKind::Closed);
    });
}

#[test]
fn a_stream_ends_with_the_runtime_of_its_connection() {
    let fake_runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut fake = fake_runtime.block_on(Fake::start(|_, _| Answer::Nothing));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let con = runtime.block_on(fake.connect(ConnectionConfig::new()));
    let counted = std::thread::spawn(move || {
        let commands = (0..10).map(|_| cmd("PING"));
        let waiter = tokio::runtime::Builder::new_current_thread().build().unwrap();
        waiter.block_on(con.stream(commands).count())
    });
    fake_runtime.block_on(fake.wait_for(0, 10));
    runtime.shutdown_background();
    assert_eq!(counted.join().unwrap().errors, 10);
}

#[test]
fn tracking_tells_of_keys_that_change() {
    run(async {
        let server = Server::start_redis(&[]);
        let client = Client::open(format!("redis://127.0.0.1:{}/", server.port())).unwrap();
        let con = client.connect_with(ConnectionConfig::new().set_tracking(&["NOLOOP"])).await.unwrap();
        let mut pushes = con.pushes().unwrap();
        let _: Option<String> = con.get("k").await.unwrap();
        let () = client.connect().await.unwrap().set("k", 1).await.unwrap();
        assert_eq!(pushes.recv().await.unwrap().kind, PushKind::Invalidate);
    });
}

//! What a program may set: resolvers, logins of live connections, lives of leases, limits of single commands, hooks.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::fake::{Answer, Fake, oblige, run};
use onrush::{
    AnyConnection, AsyncCommands, Backoff, CacheConfig, Client, ConnectionConfig, ConnectionEvent, Credentials, Ended,
    ErrorKind, Fate, Latencies, Observer, PubSubEvent, RedisError, WindowSize, cmd, pipe,
};
use onrush_tests::server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn plain() -> ConnectionConfig {
    ConnectionConfig::new().set_client_info(false).set_ready_check(false)
}

#[test]
fn a_resolver_finds_the_addresses_of_the_host() {
    run(async {
        let fake = Fake::obliging().await;
        let here = SocketAddr::from(([127, 0, 0, 1], fake.port));
        // Nobody listens at the first address.
        let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let asks = asked.clone();
        let resolver = move |host: String, port: u16| {
            asks.lock().unwrap().push((host, port));
            async move { Ok(vec![nobody, here]) }
        };
        let client = Client::open("redis://db.invalid:1234/?protocol=resp2").unwrap();
        let con = client.connect_with(plain().set_resolver(resolver)).await.unwrap();
        cmd("PING").exec_async(&con.lease().await.unwrap()).await.unwrap();
        assert_eq!(*asked.lock().unwrap(), vec![("db.invalid".to_owned(), 1234); 2]);
        for found in [Ok(Vec::new()), Err("the name service is away")] {
            let resolver = move |_: String, _: u16| {
                let found = found.clone().map_err(std::io::Error::other);
                async move { found }
            };
            let error = client.connect_with(plain().set_resolver(resolver)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        }
    });
}

/// Passwords that are counted up.
fn rotating() -> ConnectionConfig {
    let next = AtomicUsize::new(0);
    plain().set_credentials_provider(move || {
        let password = format!("secret{}", next.fetch_add(1, Relaxed));
        async move { Ok(Credentials::password(password)) }
    })
}

#[test]
fn a_live_connection_logs_in_again() {
    run(async {
        let fake = Fake::start(|_, line| match line {
            "AUTH secret4" => Answer::Say("-WRONGPASS invalid username-password pair\r\n".into()),
            line => oblige(line),
        })
        .await;
        let con = fake.connect(rotating()).await;
        let (held, idle) = (con.lease().await.unwrap(), con.lease().await.unwrap());
        drop(idle);
        con.log_in_again().await.unwrap();
        assert_eq!(fake.lines(0), ["AUTH secret0", "AUTH secret3"]);
        // Leases are made anew, those that were held included.
        drop(held);
        let error = con.lease().await.unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::AuthenticationFailed, Fate::NotSent), "{error}");
        con.lease().await.unwrap();
        assert_eq!(fake.lines(4), ["AUTH secret5"]);
        // Who has no login needs none.
        let con = fake.connect(ConnectionConfig::new()).await;
        con.log_in_again().await.unwrap();
        assert!(fake.lines(5).is_empty());
    });
}

#[test]
fn a_login_that_fails_is_told_and_tried_again_sooner() {
    run(async {
        let mut fake = Fake::start(|_, line| match line {
            "AUTH secret2" => Answer::Say("-ERR not now\r\n".into()),
            line => oblige(line),
        })
        .await;
        let con = fake.connect(rotating().set_login_interval(Some(Duration::from_millis(80)))).await;
        fake.wait_for(0, 4).await;
        let want: Vec<String> = (0..4).map(|n| format!("AUTH secret{n}")).collect();
        assert_eq!(fake.lines(0)[..4], want);
        let fake = Fake::start(|_, line| match line {
            "AUTH secret1" => Answer::Say("-WRONGPASS invalid username-password pair\r\n".into()),
            line => oblige(line),
        })
        .await;
        drop(con);
        let con = fake.connect(rotating()).await;
        assert_eq!(con.log_in_again().await.unwrap_err().code(), Some("WRONGPASS"));
        cmd("GET").arg("k").exec_async(&con).await.unwrap();
    });
}

#[test]
fn a_login_under_way_keeps_no_connection_open() {
    run(async {
        let often = || rotating().set_login_interval(Some(Duration::from_millis(5)));
        let mut fake = Fake::start(|_, line| match line {
            "AUTH secret0" => Answer::Say("+OK\r\n".into()),
            line if line.starts_with("AUTH") => Answer::Nothing,
            line => oblige(line),
        })
        .await;
        // Nor does a provider that does not answer.
        let asked = AtomicUsize::new(0);
        let stuck = often().set_credentials_provider(move || {
            let first = asked.fetch_add(1, Relaxed) == 0;
            async move { if first { Ok(Credentials::password("secret0")) } else { std::future::pending().await } }
        });
        for (nth, config) in [often(), stuck].into_iter().enumerate() {
            let con = fake.connect(config.set_response_timeout(None)).await;
            fake.wait_for(nth, if nth == 0 { 2 } else { 1 }).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            drop(con);
            tokio::time::timeout(Duration::from_secs(5), fake.wait_for_ends(nth + 1)).await.expect("it is closed");
        }
    });
}

#[test]
fn a_password_that_changes_is_used_by_a_live_connection() {
    run(async {
        let server = Server::start_redis(&["--requirepass", "old"]);
        let password = Arc::new(Mutex::new("old"));
        let now = password.clone();
        let config = ConnectionConfig::new().set_credentials_provider(move || {
            let password = *now.lock().unwrap();
            async move { Ok(Credentials::password(password)) }
        });
        let client = Client::open(format!("redis://127.0.0.1:{}/", server.port())).unwrap();
        let con = client.connect_with(config).await.unwrap();
        cmd("CONFIG").arg(("SET", "requirepass", "new")).exec_async(&con).await.unwrap();
        assert_eq!(con.log_in_again().await.unwrap_err().code(), Some("WRONGPASS"));
        *password.lock().unwrap() = "new";
        con.log_in_again().await.unwrap();
    });
}

#[test]
fn a_lease_that_has_lived_long_is_not_used_again() {
    run(async {
        let fake = Fake::obliging().await;
        let config = ConnectionConfig::new().set_lease_idle(None);
        let con = fake.connect(config.set_lease_lifetime(Some(Duration::from_millis(50)))).await;
        let lease = con.lease().await.unwrap();
        tokio::time::sleep(Duration::from_millis(60)).await;
        // Its holder is not disturbed.
        cmd("ECHO").arg("1").exec_async(&lease).await.unwrap();
        drop(lease);
        let lease = con.lease().await.unwrap();
        cmd("ECHO").arg("2").exec_async(&lease).await.unwrap();
        assert_eq!((fake.lines(1), fake.lines(2)), (vec!["ECHO 1".to_owned()], vec!["ECHO 2".to_owned()]));
    });
}

#[test]
fn a_command_sets_its_own_time_and_number_of_retries() {
    run(async {
        let fake = Fake::start(|_, line| match line {
            "GET slow" => Answer::Nothing,
            "GET lost" => Answer::HangUp,
            line => oblige(line),
        })
        .await;
        let con = fake.connect(ConnectionConfig::new()).await;
        let mut slow = cmd("GET");
        slow.arg("slow").timeout(Duration::from_millis(20));
        let error = slow.exec_async(&con).await.unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::Timeout, Fate::Unknown), "{error}");
        for (retries, sent) in [(0, 1), (5, 6)] {
            let seen = fake.seen().len();
            let mut lost = cmd("GET");
            let error = lost.arg("lost").idempotent().retries_max(retries).exec_async(&con).await.unwrap_err();
            assert_eq!(error.fate(), Fate::Unknown);
            assert_eq!(fake.seen().len() - seen, sent);
        }
    });
}

/// Writes down what it is told.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Observer for Notes {
    fn ended(&self, ended: &Ended<'_>) {
        let error = ended.error.map_or(String::new(), RedisError::to_string);
        self.0.lock().unwrap().push(format!("{} {} {error}", ended.name, ended.commands).trim().to_owned());
    }

    fn connection(&self, _: &str, event: ConnectionEvent<'_>) {
        let note = match event {
            ConnectionEvent::Connected => "connected",
            ConnectionEvent::Failed(_) => "failed",
            ConnectionEvent::Lost(_) => "lost",
            _ => "other",
        };
        self.0.lock().unwrap().push(note.to_owned());
    }
}

#[test]
fn hooks_are_told_what_ends_and_what_becomes_of_connections() {
    run(async {
        let fake = Fake::start(|connection, line| match (connection, line) {
            (_, "GET lost") | (1, "SELECT 1") => Answer::HangUp,
            (_, "GET bad") => Answer::Say("-WRONGTYPE no\r\n".into()),
            (_, "EXEC") => Answer::Say("*1\r\n+OK\r\n".into()),
            (_, line) => oblige(line),
        })
        .await;
        let (notes, latencies) = (Notes::default(), Latencies::new());
        let client = Client::open(format!("redis://127.0.0.1:{}/1?protocol=resp2", fake.port)).unwrap();
        let backoff = Backoff::new().set_first(Duration::from_millis(1));
        let config = plain().set_backoff(Some(backoff)).set_observer((notes.clone(), latencies.clone()));
        let con = client.connect_with(config).await.unwrap();
        cmd("get").arg("k").exec_async(&con).await.unwrap();
        let _ = cmd("GET").arg("bad").exec_async(&con).await;
        let _ = cmd("GET").arg("lost").exec_async(&con).await;
        pipe().get("a").get("bad").exec_async(&con).await.unwrap_err();
        pipe().atomic().set("a", 1).exec_async(&con).await.unwrap();
        cmd("BLPOP").arg(("x", 0)).exec_async(&con).await.unwrap();
        let noted = notes.0.lock().unwrap().clone();
        let mut ended: Vec<&str> = noted.iter().map(String::as_str).collect();
        let events: Vec<&str> = ended.extract_if(.., |note| !note.contains(' ')).collect();
        assert_eq!(events, ["connected", "lost", "failed", "connected", "connected"]);
        assert_eq!((ended[0], ended[1], ended[3]), ("GET 1", "GET 1 WRONGTYPE no", "PIPELINE 2 WRONGTYPE no"));
        assert!(ended[2].starts_with("GET 1 ") && ended[2].contains("the server closed the connection"), "{ended:?}");
        assert_eq!(ended[4..], ["TRANSACTION 1", "BLPOP 1"]);
        let gets = latencies.of("GET").unwrap();
        assert_eq!((gets.count(), gets.errors()), (3, 2));
        assert!(gets.quantile(1.0) > Duration::ZERO && gets.mean() <= gets.quantile(1.0));
    });
}

#[test]
fn reads_through_the_cache_are_told_and_bounded_too() {
    run(async {
        let fake = Fake::start(|_, line| match line {
            line if line.starts_with("PTTL") => Answer::Say(":-1\r\n".into()),
            "GET slow" => Answer::Nothing,
            line => oblige(line),
        })
        .await;
        let latencies = Latencies::new();
        let client = Client::open(format!("redis://127.0.0.1:{}/", fake.port)).unwrap();
        let config = plain().set_cache(CacheConfig::new()).set_observer(latencies.clone());
        let con = client.connect_with(config).await.unwrap();
        let cached = con.cached(Duration::from_secs(9));
        for _ in 0..2 {
            let _: String = cached.get("k").await.unwrap();
            let _: String = con.get("k").await.unwrap();
            let _: (String,) = pipe().get("k").query_async(&cached).await.unwrap();
            let _: (String,) = pipe().get("k").query_async(&con).await.unwrap();
        }
        let mut slow = cmd("GET");
        slow.arg("slow").timeout(Duration::from_millis(20));
        assert!(slow.exec_async(&cached).await.unwrap_err().is_timeout());
        assert!(slow.exec_async(&con).await.unwrap_err().is_timeout());
        let (gets, pipelines) = (latencies.of("GET").unwrap(), latencies.of("PIPELINE").unwrap());
        assert_eq!((gets.count(), gets.errors(), pipelines.count(), pipelines.errors()), (6, 2, 4, 0));
    });
}

#[test]
fn a_connection_of_any_kind_is_one_type() {
    run(async {
        let fake = Fake::obliging().await;
        let con = fake.connect(ConnectionConfig::new()).await;
        let lease = con.lease().await.unwrap();
        let all = [AnyConnection::new(con.clone()), AnyConnection::new(lease)];
        for any in &all {
            let con = any.clone();
            let task = tokio::spawn(async move { con.get::<_, String>("k").await });
            assert_eq!(task.await.unwrap().unwrap(), "OK");
            let (a, b): (String, String) = pipe().get("a").get("b").query_async(any).await.unwrap();
            assert_eq!((a.as_str(), b.as_str()), ("OK", "OK"));
        }
        con.close().await;
        assert!(onrush::ConnectionLike::is_closed(&all[0]));
    });
}

#[test]
fn one_task_subscribes_while_another_reads() {
    run(async {
        for server in [Server::start_onrush(&["--workers", "2"]), Server::start_redis(&[])] {
            for protocol in ["resp2", "resp3"] {
                let url = format!("redis://127.0.0.1:{}/?protocol={protocol}", server.port());
                let client = Client::open(url).unwrap();
                let con = client.connect().await.unwrap();
                let (sink, mut stream) = client.get_async_pubsub().await.unwrap().split();
                let reader = tokio::spawn(async move {
                    let event = stream.next_event().await;
                    (event, stream)
                });
                tokio::task::yield_now().await;
                let other = sink.clone();
                let (one, two) = tokio::join!(sink.subscribe("a"), other.psubscribe("b*"));
                one.and(two).unwrap();
                sink.unsubscribe("a").await.unwrap();
                let heard: usize = con.publish("bc", "hello").await.unwrap();
                assert_eq!(heard, 1);
                let (event, stream) = reader.await.unwrap();
                let Some(PubSubEvent::Message(message)) = event else { panic!("{event:?}") };
                assert_eq!(message.get_payload::<String>().unwrap(), "hello");
                drop(stream);
                assert_eq!(sink.subscribe("c").await.unwrap_err().kind(), ErrorKind::Closed);
            }
        }
    });
}

#[test]
fn each_clone_of_a_handle_of_several_connections_uses_the_next() {
    run(async {
        let fake = Fake::obliging().await;
        let client = Client::open(format!("redis://127.0.0.1:{}/?protocol=resp2", fake.port)).unwrap();
        let handle = client.connect_many(3, plain()).await.unwrap();
        let handles = [handle.clone(), handle.clone(), handle.clone(), handle];
        for (n, handle) in handles.iter().enumerate() {
            cmd("ECHO").arg(n).exec_async(handle).await.unwrap();
            let _: String = handle.get(n).await.unwrap();
        }
        let lines = |connection, ns: &[usize]| {
            let want: Vec<String> = ns.iter().flat_map(|n| [format!("ECHO {n}"), format!("GET {n}")]).collect();
            assert_eq!(fake.lines(connection), want);
        };
        lines(0, &[2, 3]);
        lines(1, &[0]);
        lines(2, &[1]);
        assert_eq!(handles[0].all().iter().map(|con| con.counters().commands).collect::<Vec<_>>(), [4, 2, 2]);
        handles[0].close().await;
        assert!(handles.iter().all(|handle| handle.is_closed()));
        assert_eq!(client.connect_many(0, plain()).await.unwrap().all().len(), 1);
    });
}

#[test]
fn the_page_of_defaults_says_what_the_code_says() {
    let page = include_str!("../../../docs/client-library.md");
    let scripts = include_str!("../../../crates/onrush/src/connection/scripts.rs");
    let addresses = include_str!("../../../crates/onrush/src/link/net.rs");
    let messages = format!("messages: {}, {} MB", onrush::PUSHES_MAX, onrush::PUSHES_BYTES_MAX >> 20);
    let code = [
        format!("{:?}", ConnectionConfig::new()),
        format!("{:?}", WindowSize::new()),
        format!("{:?}", CacheConfig::new()),
        messages,
        scripts.to_owned(),
        addresses.to_owned(),
    ]
    .join("\n");
    let rows: Vec<(&str, &str)> = page
        .lines()
        .skip_while(|line| *line != "## Defaults")
        .skip_while(|line| !line.starts_with("|---"))
        .skip(1)
        .map_while(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "))
        .collect();
    let known: [(&str, &str, &[&str]); 17] = [
        ("longest time without a reply", "10 s", &["response_timeout: Some(10s)"]),
        ("longest time of one attempt to connect", "5 s", &["connection_timeout: Some(5s)"]),
        ("wait for one address", "250 ms", &["HEAD_START: Duration = Duration::from_millis(250);"]),
        ("silence before a connection", "15 s", &["ping_interval: Some(15s)"]),
        ("idle time before the kernel", "15 s", &["keepalive: Some(15s)"]),
        (
            "waits between attempts",
            "none, then 10 ms doubling to 2 s, up to a half less at random; without end",
            &["Backoff { first: 10ms, max: 2s, attempts_max: None }"],
        ),
        ("how often a command is sent again", "3", &["retries_max: 3,"]),
        ("bytes of commands that wait", "64 MB", &["queue_bytes_max: 67108864,"]),
        ("leases at a time", "1,024", &["leases_max: 1024,"]),
        ("longest wait for a lease", "10 s, as for a reply", &["lease_timeout: None,"]),
        ("time for which an unused lease", "60 s", &["idle: Some(60s)"]),
        ("longest life of a lease", "none", &["lifetime: None"]),
        ("how often a live connection logs in", "never", &["login_interval: None"]),
        (
            "a stream's window",
            "1 MB and 16,384 commands, 4 MB of replies; more over a long line",
            &["WindowSize { bytes: 1048576, commands: 16384, reply_bytes: 4194304 }"],
        ),
        (
            "the cache",
            "off; 100,000 replies, 64 MB, 10 minutes",
            &["cache: None,", "entries_max: 100000, bytes_max: 67108864, ttl_max: 600s"],
        ),
        ("messages that wait", "1,024, with 16 MB", &["messages: 1024, 16 MB"]),
        (
            "scripts that a connection remembers",
            "1,000, with 1 MB of code",
            &["SCRIPTS_MAX: usize = 1_000;", "CODE_BYTES_MAX: usize = 1 << 20;"],
        ),
    ];
    assert_eq!(rows.len(), known.len(), "{rows:#?}");
    for ((what, says), (begins, value, in_code)) in rows.iter().zip(known) {
        assert!(what.starts_with(begins), "{what}: {begins}");
        assert_eq!(*says, value, "{what}");
        for part in in_code {
            assert!(code.contains(part), "{what}: {part} is not in the code: {code}");
        }
    }
}

#[test]
fn a_long_command_may_take_its_time_to_be_written_whatever_waits_behind_it() {
    // One thread: the driver finds both commands queued.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        const LEN: usize = 6 << 20;
        // The kernel holds little of the command.
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(64 << 10).unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let listener = socket.listen(1).unwrap();
        let port = listener.local_addr().unwrap().port();
        // It takes a small part of the command at a time.
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (mut part, mut read) = (vec![0; LEN / 128], 0);
            while read < LEN {
                stream.read_exact(&mut part).await.unwrap();
                read += part.len();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            stream.write_all(b"+OK\r\n+PONG\r\n").await.unwrap();
            let _ = stream.read_to_end(&mut Vec::new()).await;
        });
        let client = Client::open(format!("redis://127.0.0.1:{port}/?protocol=resp2")).unwrap();
        let config = plain().set_response_timeout(Some(Duration::from_millis(500)));
        let config = config.set_socket_buffers(Some(64 << 10), None);
        let con = client.connect_with(config).await.unwrap();
        let (mut long, ping) = (cmd("SET"), cmd("PING"));
        long.arg(("k", vec![b'x'; LEN]));
        let (set, pong) = tokio::join!(long.exec_async(&con), ping.query_async::<String>(&con));
        set.unwrap();
        assert_eq!(pong.unwrap(), "PONG");
        assert_eq!(con.counters().batches, 1);
    });
}

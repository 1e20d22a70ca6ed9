//! Services around commands: timeouts of single ones, passwords that change, an orderly end, and counters.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use onrush::{
    AsyncCommands, Client, Connection, ConnectionConfig, Credentials, ErrorKind, Fate, RedisError, RedisResult, cmd,
    pipe,
};
use onrush_tests::server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::fake::{Answer, Fake, oblige, polled};

fn run<F: Future<Output = ()>>(test: F) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), test).await.expect("the test ends") });
}

fn servers() -> [Server; 2] {
    [Server::start_onrush(&["--workers", "2"]), Server::start_redis(&[])]
}

fn client(server: &Server, rest: &str) -> Client {
    Client::open(format!("redis://127.0.0.1:{}/{rest}", server.port())).expect("a URL")
}

async fn connect(server: &Server) -> Connection {
    client(server, "").connect().await.expect("a connection")
}

/// Holds up all writes until CLIENT UNPAUSE.
async fn pause(con: &Connection) {
    cmd("CLIENT").arg(("PAUSE", 60_000, "WRITE")).exec_async(con).await.unwrap();
}

/// Looks again and again, between other tasks' turns.
async fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_command_may_have_a_timeout_of_its_own() {
    run(async {
        for server in servers() {
            let (con, other) = (connect(&server).await, connect(&server).await);
            pause(&other).await;
            let soon = con.with_timeout(Duration::from_millis(30));
            let error = soon.incr::<_, _, i32>("n", 1).await.unwrap_err();
            assert_eq!((error.kind(), error.fate()), (ErrorKind::Timeout, Fate::Unknown));
            assert!(error.to_string().contains("30ms"), "{error}");
            let error = pipe().incr("n", 1).incr("n", 1).query_async::<(i32, i32)>(&soon).await.unwrap_err();
            assert!(error.is_timeout());
            // One that blocks is given up with its lease.
            let error = soon.blpop::<_, _, (String, String)>("list", 0).await.unwrap_err();
            assert!(error.is_timeout());
            let () = other.client_unpause().await.unwrap();
            // The late replies went to nobody, and the connection is the same.
            assert_eq!(con.incr::<_, _, i32>("n", 1).await.unwrap(), 4);
            assert_eq!(con.counters().reconnects, 0);
            // An element goes to whoever waits, until the server has noticed that nobody does any more.
            while !cmd("INFO")
                .arg("clients")
                .query_async::<String>(&other)
                .await
                .unwrap()
                .contains("connected_clients:2\r")
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let () = con.rpush("list", "x").await.unwrap();
            assert_eq!(con.llen::<_, usize>("list").await.unwrap(), 1);
        }
    });
}

#[test]
fn a_rotated_password_is_used_for_every_connection_that_is_made() {
    run(async {
        for (server, protocol) in [(0, "resp2"), (0, "resp3"), (1, "resp2"), (1, "resp3")] {
            let password = ["--requirepass", "first"];
            let server = if server == 0 { Server::start_onrush(&password) } else { Server::start_redis(&password) };
            let (vault, asked) = (Arc::new(Mutex::new("first")), Arc::new(AtomicUsize::new(0)));
            let provider = {
                let (vault, asked) = (vault.clone(), asked.clone());
                move || {
                    let password = *vault.lock().unwrap();
                    asked.fetch_add(1, Ordering::SeqCst);
                    async move {
                        // It takes its time.
                        tokio::task::yield_now().await;
                        Ok(Credentials::new("default", password))
                    }
                }
            };
            // The password in the URL is not asked for.
            let client =
                Client::open(format!("redis://:wrong@127.0.0.1:{}/?protocol={protocol}", server.port())).unwrap();
            let config = ConnectionConfig::new().set_credentials_provider(provider);
            let con = client.connect_with(config).await.unwrap();
            let () = con.set("k", 1).await.unwrap();
            let () = con.config_set(("requirepass", "second")).await.unwrap();
            *vault.lock().unwrap() = "second";
            let id: u64 = con.client_id().await.unwrap();
            // It may be hit by its own blow before it hears of it.
            let _ = con.client_kill::<_, i32>(("ID", id, "SKIPME", "no")).await;
            assert_eq!(cmd("GET").arg("k").idempotent().query_async::<i32>(&con).await.unwrap(), 1);
            assert_eq!((asked.load(Ordering::SeqCst), con.counters().reconnects), (2, 1));
            // A lease logs in too.
            assert_eq!(con.lease().await.unwrap().get::<_, i32>("k").await.unwrap(), 1);
            assert_eq!(asked.load(Ordering::SeqCst), 3);
        }
    });
}

#[test]
fn a_provider_that_fails_or_is_late_is_an_error_of_connecting() {
    run(async {
        let server = Server::start_onrush(&[]);
        let refusing =
            || async { RedisResult::<Credentials>::Err(RedisError::new(ErrorKind::Client, "the vault is shut")) };
        let config = ConnectionConfig::new().set_credentials_provider(refusing);
        let error = client(&server, "").connect_with(config).await.unwrap_err();
        assert!(error.to_string().contains("the vault is shut") && error.fate() == Fate::NotSent, "{error}");
        let config = ConnectionConfig::new()
            .set_connection_timeout(Some(Duration::from_millis(50)))
            .set_credentials_provider(std::future::pending::<RedisResult<Credentials>>);
        assert!(client(&server, "").connect_with(config).await.unwrap_err().is_timeout());
    });
}

#[test]
fn closing_waits_for_what_is_under_way_and_takes_no_more() {
    run(async {
        for server in servers() {
            let (con, other) = (connect(&server).await, connect(&server).await);
            let id: u64 = con.client_id().await.unwrap();
            pause(&other).await;
            let mut writes = tokio::task::JoinSet::new();
            for n in 0..100 {
                let con = con.clone();
                writes.spawn(async move { con.incr::<_, _, i64>("n", n).await });
            }
            until(|| con.counters().in_flight == 100).await;
            let closing = tokio::spawn({
                let con = con.clone();
                async move { con.close().await }
            });
            until(|| con.is_closed()).await;
            let error = con.get::<_, String>("k").await.unwrap_err();
            assert_eq!((error.kind(), error.fate()), (ErrorKind::Closed, Fate::NotSent));
            assert!(con.lease().await.is_err());
            assert!(!closing.is_finished());
            let () = other.client_unpause().await.unwrap();
            closing.await.unwrap();
            while let Some(write) = writes.join_next().await {
                write.unwrap().unwrap();
            }
            assert_eq!(con.counters().in_flight, 0);
            // The server's side of it ends as well.
            while other.client_list::<String>().await.unwrap().contains(&format!("id={id} ")) {}
            // Once more does no harm.
            con.close().await;
        }
    });
}

#[test]
fn closing_ends_while_the_server_is_away_and_after_its_runtime() {
    run(async {
        let server = Server::start_onrush(&[]);
        let config = ConnectionConfig::new().set_response_timeout(Some(Duration::from_millis(200)));
        let con = client(&server, "").connect_with(config).await.unwrap();
        drop(server);
        while con.get::<_, Option<String>>("k").await.is_ok() {}
        con.close().await;
        assert!(con.is_closed());
    });
    let server = Server::start_onrush(&[]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let con = runtime.block_on(connect(&server));
    drop(runtime);
    run(async { con.close().await });
}

#[test]
fn all_of_several_connections_close_even_if_nobody_waits_for_the_first() {
    run(async {
        let fake = Fake::start(|_, line| if line == "SLOW" { Answer::Nothing } else { oblige(line) }).await;
        let client = Client::open(format!("redis://127.0.0.1:{}/?protocol=resp2", fake.port)).unwrap();
        let cons = client.connect_many(3, ConnectionConfig::new()).await.unwrap();
        let slow = cmd("SLOW");
        let _slow = polled(slow.exec_async(&cons.all()[0]), 1).await;
        assert!(polled(cons.close(), 1).await.is_none());
        assert!(cons.all().iter().all(Connection::is_closed));
    });
}

#[test]
fn a_scan_goes_on_at_the_same_process_and_begins_anew_at_another() {
    let page = |cursor: &str, key: &str| {
        let len = cursor.len();
        Answer::Say(format!("*2\r\n${len}\r\n{cursor}\r\n*1\r\n$1\r\n{key}\r\n"))
    };
    let info = |run_id: &str| Answer::Say(format!("${}\r\nrun_id:{run_id}\r\n", run_id.len() + 7));
    for (now, rest) in [(Some("0abc"), &["b"][..]), (Some("0abd"), &["b", "a", "b"]), (None, &["b", "a", "b"])] {
        run(async move {
            let fake = Fake::start(move |connection, line| match (connection, line) {
                (_, "SCAN 0") => page("17", "a"),
                (0, "INFO server") => info("0abc"),
                (1, "INFO server") => now.map_or_else(|| Answer::Say("-NOPERM\r\n".into()), info),
                (0, "SCAN 17") => Answer::HangUp,
                (1, "SCAN 17") => page("0", "b"),
                _ => Answer::Say(format!("-ERR not expected: {line}\r\n")),
            })
            .await;
            let con = fake.connect(ConnectionConfig::new()).await;
            let mut keys = con.scan::<String>();
            assert_eq!(keys.next_item().await.unwrap().unwrap(), "a");
            // Given up in the middle of a page, it goes on with that page.
            let polled_once = std::future::poll_fn(|cx| {
                let next = std::pin::pin!(keys.next_item());
                std::task::Poll::Ready(next.poll(cx).is_pending())
            });
            assert!(polled_once.await);
            for key in rest {
                assert_eq!(keys.next_item().await.unwrap().unwrap(), *key);
            }
            assert!(keys.next_item().await.is_none());
            assert_eq!(con.counters().retries, 1);
        });
    }
    run(async move {
        // Without a connection that comes back there is an error, and the page may be asked for once more.
        let fake = Fake::start(move |_, line| match line {
            "SCAN 0" => page("17", "a"),
            "INFO server" => info("0abc"),
            _ => Answer::HangUp,
        })
        .await;
        let con = fake.connect(ConnectionConfig::new().set_retries_max(1)).await;
        let mut keys = con.scan::<String>();
        assert_eq!(keys.next_item().await.unwrap().unwrap(), "a");
        for _ in 0..2 {
            assert!(keys.next_item().await.unwrap().unwrap_err().is_connection_dropped());
        }
    });
}

#[test]
fn counters_tell_what_went_over_a_connection() {
    run(async {
        for server in servers() {
            let con = connect(&server).await;
            assert_eq!((con.counters().commands, con.counters().in_flight), (0, 0));
            let mut pipeline = pipe();
            (0..1_000).for_each(|n| _ = pipeline.set(n, n).ignore());
            pipeline.exec_async(&con).await.unwrap();
            until(|| con.counters().in_flight == 0).await;
            let counters = con.counters();
            assert_eq!((counters.commands, counters.replies, counters.lost), (1_000, 1_000, 0));
            assert_eq!((counters.batches, counters.sent_bytes), (1, pipeline.get_packed_pipeline().len() as u64));
            assert_eq!((counters.received_bytes, counters.queued_bytes), (5 * 1_000, 0));
            let stream = con.stream((0..5_000).map(|_| cmd("PING")));
            assert_eq!(stream.count().await.into_result().unwrap(), 5_000);
            until(|| con.counters().in_flight == 0).await;
            assert_eq!(con.counters().replies, 6_000);
        }
    });
}

#[test]
fn counters_tell_of_losses_and_of_what_is_sent_again() {
    run(async {
        // It takes commands and answers nothing but the greeting's, and hangs up when it is told to.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://127.0.0.1:{}/?protocol=resp2", listener.local_addr().unwrap().port());
        let config = ConnectionConfig::new().set_client_info(false).set_ready_check(false);
        let con = Client::open(url).unwrap().connect_with(config).await.unwrap();
        let (first, _) = listener.accept().await.unwrap();
        let (one, again) = (con.clone(), con.clone());
        let lost = tokio::spawn(async move { one.get::<_, String>("k").await });
        let kept = tokio::spawn(async move { cmd("GET").arg("k").idempotent().query_async::<String>(&again).await });
        until(|| con.counters().in_flight == 2 && con.counters().queued_bytes == 0).await;
        // Not before both are on their way: what was not sent is not lost.
        until(|| con.counters().sent_bytes == 2 * "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".len() as u64).await;
        drop(first);
        assert_eq!(lost.await.unwrap().unwrap_err().fate(), Fate::Unknown);
        let (mut second, _) = listener.accept().await.unwrap();
        // Not before it was asked: a reply to nothing ends the connection.
        let mut request = [0; "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".len()];
        second.read_exact(&mut request).await.unwrap();
        until(|| con.counters().in_flight == 1).await;
        second.write_all(b"$1\r\nv\r\n").await.unwrap();
        assert_eq!(kept.await.unwrap().unwrap(), "v");
        until(|| con.counters().in_flight == 0).await;
        let counters = con.counters();
        assert_eq!((counters.commands, counters.replies, counters.lost), (3, 1, 2));
        assert_eq!((counters.reconnects, counters.retries), (1, 1));
    });
}

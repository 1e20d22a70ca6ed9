//! Every task gets its own command's reply: what could shift replies is refused, and what is given up half-way shifts
//! nothing.

mod fake;

use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use fake::{Answer, Fake, oblige, run};
use onrush::{
    Client, Cmd, Connection, ConnectionConfig, ConnectionLike, ErrorKind, Lease, Value, WindowSize, cmd, pipe,
};
use onrush_tests::server::Server;
use redis::aio::ConnectionLike as _;

/// What no server answers with exactly one reply, or what would change a connection that others share.
const BARRED: &[&str] = &[
    "",
    "SUBSCRIBE c",
    "psubscribe c*",
    "SSUBSCRIBE c",
    "UNSUBSCRIBE",
    "PUNSUBSCRIBE",
    "sunsubscribe",
    "MONITOR",
    "QUIT",
    "reset",
    "AUTH secret",
    "HELLO 3",
    "CLIENT REPLY OFF",
    "client reply skip",
    "SYNC",
    "PSYNC ? -1",
    "REPLCONF ACK 0",
    "READONLY",
    "READWRITE",
    "ASKING",
    "WAIT 1 0",
    "WAITAOF 1 0 0",
    "MULTI",
    "EXEC",
    "discard",
    "WATCH k",
    "UNWATCH",
    "CLIENT TRACKING ON",
    "client caching YES",
    "CLIENT NO-EVICT ON",
    "CLIENT NO-TOUCH ON",
    "SELECT 1",
    "script debug YES",
    "CLUSTER SYNCSLOTS SYNC",
    "POST",
    "Host:",
];

fn built(line: &str) -> Cmd {
    let args: Vec<&str> = line.split_whitespace().collect();
    Cmd::new().arg(&args[..]).clone()
}

/// Makes sure that the connection's next reply is that of its next command.
async fn check_pairing(con: &impl ConnectionLike, text: &str) {
    let echo: String = cmd("ECHO").arg(text).query_async(con).await.unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(echo, text);
}

#[test]
fn what_does_not_bring_one_reply_is_refused_before_anything_is_written() {
    run(async {
        let fake = Fake::obliging().await;
        let con = fake.connect(ConnectionConfig::new()).await;
        let is_refused = |error: onrush::RedisError, line: &str, way: &str| {
            assert_eq!(error.kind(), ErrorKind::Client, "{line:?} {way}: {error}");
        };
        for line in BARRED {
            let command = built(line);
            let args: Vec<&str> = line.split_whitespace().collect();
            is_refused(command.exec_async(&con).await.unwrap_err(), line, "as a command");
            let mut raw = pipe();
            raw.arg(&args[..]);
            is_refused(raw.exec_async(&con).await.unwrap_err(), line, "as arguments of a pipeline");
            let mut late = pipe();
            late.cmd("ECHO").arg(1).add_command(&Cmd::new()).arg(&args[..]);
            is_refused(late.exec_async(&con).await.unwrap_err(), line, "named late");
            let mut mixed = pipe();
            mixed.cmd("ECHO").arg(1).add_command(&command);
            is_refused(mixed.query_each::<Value>(&con).await.unwrap_err(), line, "in a pipeline");
            mixed.cmd("BLPOP").arg(("k", 0));
            is_refused(mixed.exec_async(&con).await.unwrap_err(), line, "beside one that blocks");
            is_refused(mixed.atomic().exec_async(&con).await.unwrap_err(), line, "in a transaction");
            is_refused(con.stream([command.clone()]).drain().await.unwrap_err(), line, "in a stream");
            let write = |out: &mut onrush::Pipeline| {
                out.add_command(&command);
                false
            };
            is_refused(con.stream_fn(write).drain().await.unwrap_err(), line, "in a stream of a function");
        }
        check_pairing(&con, "after all").await;
        assert_eq!(fake.seen().into_iter().map(|came| came.line).collect::<Vec<_>>(), ["ECHO after all"]);
    });
}

#[test]
fn code_for_the_redis_crate_meets_the_same_gate() {
    run(async {
        let fake = Fake::obliging().await;
        let mut con = fake.connect(ConnectionConfig::new()).await;
        for line in BARRED {
            let mut command = redis::Cmd::new();
            command.arg(line.split_whitespace().collect::<Vec<_>>());
            let error = command.exec_async(&mut con).await.unwrap_err();
            assert_eq!(error.kind(), redis::ErrorKind::Client, "{line:?}: {error}");
            let mut pipeline = redis::pipe();
            pipeline.cmd("ECHO").arg(1).add_command(command);
            assert!(pipeline.exec_async(&mut con).await.is_err(), "{line:?}");
            assert!(pipeline.atomic().exec_async(&mut con).await.is_err(), "{line:?}");
        }
        let (empty, mut one) = (redis::pipe(), redis::pipe());
        one.cmd("ECHO").arg(1);
        assert_eq!(con.req_packed_commands(&empty, 0, 0).await.unwrap(), []);
        for (offset, count) in [(0, 0), (0, 2), (1, 1), (usize::MAX, 1)] {
            assert!(con.req_packed_commands(&one, offset, count).await.is_err(), "{offset} {count}");
        }
        check_pairing(&con, "after all").await;
        assert_eq!(fake.seen().len(), 1, "{:?}", fake.seen());
    });
}

#[test]
fn an_empty_pipeline_sends_nothing() {
    run(async {
        let fake = Fake::obliging().await;
        let con = fake.connect(ConnectionConfig::new()).await;
        assert_eq!(con.send_pipeline(&pipe()).await.unwrap(), Some(vec![]));
        assert_eq!(con.send_pipeline(pipe().atomic()).await.unwrap(), Some(vec![]));
        assert_eq!(pipe().query_async::<Vec<Value>>(&con).await.unwrap(), []);
        check_pairing(&con, "after all").await;
        assert_eq!(fake.seen().len(), 1, "{:?}", fake.seen());
    });
}

/// The connection that a lease's commands come over.
async fn number(fake: &Fake, lease: &Lease) -> usize {
    check_pairing(lease, "number").await;
    fake.seen().into_iter().rfind(|came| came.line == "ECHO number").expect("just sent").connection
}

#[test]
fn only_a_lease_as_good_as_new_is_leased_again() {
    run(async {
        let fake = Fake::start(|_, line| if line == "GET slow" { Answer::Nothing } else { oblige(line) }).await;
        let con = fake.connect(ConnectionConfig::new()).await;
        let (mut last, mut lease) = (usize::MAX, con.lease().await.unwrap());
        for line in [
            "SELECT 1",
            "AUTH other secret",
            "hello 3",
            "RESET",
            "READONLY",
            "CLIENT TRACKING ON",
            "client no-evict on",
            "CLIENT NO-TOUCH on",
            "client SETNAME me",
            "CLIENT setinfo LIB-NAME mine",
            "QUIT",
            "MULTI",
            "WATCH k",
        ] {
            let now = number(&fake, &lease).await;
            assert_ne!(now, last, "before {line}");
            built(line).exec_async(&lease).await.unwrap();
            if line != "WATCH k" && line != "MULTI" {
                lease.is_clean();
            }
            drop(lease);
            (last, lease) = (now, con.lease().await.unwrap());
        }
        let first = number(&fake, &lease).await;
        assert_ne!(first, last, "after WATCH");
        drop(lease);
        let lease = con.lease().await.unwrap();
        cmd("WATCH").arg("k").exec_async(&lease).await.unwrap();
        lease.is_clean();
        drop(lease);
        let lease = con.lease().await.unwrap();
        assert_eq!(number(&fake, &lease).await, first, "one that is as new");

        let copy = lease.connection().clone();
        drop(lease);
        let lease = con.lease().await.unwrap();
        let second = number(&fake, &lease).await;
        assert_ne!(second, first, "one of which a copy is left");
        assert!(cmd("ECHO").arg(1).exec_async(&copy).await.is_err(), "it is closed");

        let commands = (0..10).map(|_| cmd("GET").arg("slow").to_owned());
        let mut replies = lease.stream(commands).window(WindowSize { bytes: 1, commands: 1 });
        assert!(polled(replies.next(), 1).await.is_none());
        drop(replies);
        drop(lease);
        let lease = con.lease().await.unwrap();
        let third = number(&fake, &lease).await;
        assert_ne!(third, second, "one with a stream given up half-way");

        assert!(polled(cmd("GET").arg("slow").exec_async(&lease), 1).await.is_none());
        drop(lease);
        assert_ne!(number(&fake, &con.lease().await.unwrap()).await, third, "one with a request given up half-way");
    });
}

#[test]
fn a_lease_given_up_is_hung_up_even_if_its_server_takes_nothing() {
    run(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://127.0.0.1:{}/?protocol=resp2", listener.local_addr().unwrap().port());
        let config = ConnectionConfig::new().set_client_info(false).set_response_timeout(None);
        let con = Client::open(url).unwrap().connect_with(config).await.unwrap();
        let lease = con.lease().await.unwrap();
        let _shared = listener.accept().await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        // More than any socket's buffers hold.
        let large = vec![b'x'; 64 << 20];
        assert!(polled(cmd("BLPOP").arg(&large).arg(0).exec_async(&lease), 1).await.is_none());
        stream.readable().await.unwrap();
        drop(lease);
        let mut rest = vec![0; 1 << 20];
        loop {
            stream.readable().await.unwrap();
            match stream.try_read(&mut rest) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    });
}

/// Polls a future that many times at most, each time when it asks for it; `None` if it has not ended by then.
async fn polled<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = times;
    std::future::poll_fn(|cx| {
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Drops a future at its first await point, at its second and so on until it ends, and looks after each whether replies
/// are where they belong.
async fn cancel_everywhere(con: &Connection, what: &str, future: impl AsyncFn(Connection)) {
    for times in 1.. {
        let has_ended = polled(future(con.clone()), times).await.is_some();
        check_pairing(con, &format!("{what} after {times}")).await;
        let (one, two) = (con.lease().await.unwrap(), con.lease().await.unwrap());
        check_pairing(&one, &format!("{what} after {times}, lease")).await;
        check_pairing(&two, &format!("{what} after {times}, another lease")).await;
        if has_ended {
            assert!(times > 1, "{what} never waited");
            return;
        }
        assert!(times < 100, "{what} does not end");
    }
}

fn servers() -> Vec<Server> {
    vec![Server::start_onrush(&["--workers", "2"]), Server::start_redis(&[])]
}

async fn connect(server: &Server, config: ConnectionConfig) -> Connection {
    Client::open(format!("redis://127.0.0.1:{}/", server.port())).unwrap().connect_with(config).await.unwrap()
}

#[test]
fn any_future_may_be_dropped_at_any_await_point() {
    run(async {
        for server in servers() {
            // With so small a queue, sending waits too.
            for queue_bytes_max in [64 << 20, 1] {
                let con = connect(&server, ConnectionConfig::new().set_queue_bytes_max(queue_bytes_max)).await;
                plain_futures(&con).await;
                leased_futures(&con).await;
                cancel_everywhere(&con, "an atomic pipeline", async |con| {
                    let _: Value = pipe().atomic().incr("n", 1).incr("n", 1).query_async(&con).await.unwrap();
                })
                .await;
                cancel_everywhere(&con, "a transaction", async |con| {
                    let run = con.transaction("n", async |lease, pipeline| {
                        pipeline.incr("n", 1).query_async::<Option<(i64,)>>(lease).await
                    });
                    run.await.unwrap();
                })
                .await;
                cancel_everywhere(&con, "subscribe", async |con| con.subscribe("c").await.unwrap()).await;
                cancel_everywhere(&con, "unsubscribe", async |con| con.unsubscribe("c").await.unwrap()).await;
                cancel_everywhere(&con, "a script", async |con| {
                    let script = onrush::Script::new("return redis.call('INCR', KEYS[1])");
                    let _: i64 = script.key("n").invoke_async(&con).await.unwrap();
                })
                .await;
            }
        }
    });
}

async fn plain_futures(con: &Connection) {
    cancel_everywhere(con, "a command", async |con| cmd("INCR").arg("n").exec_async(&con).await.unwrap()).await;
    cancel_everywhere(con, "a pipeline", async |con| {
        pipe().incr("n", 1).incr("n", 1).exec_async(&con).await.unwrap();
    })
    .await;
    cancel_everywhere(con, "a stream", async |con| {
        let commands = (0..20).map(|_| cmd("INCR").arg("n").to_owned());
        con.stream(commands).window(WindowSize { bytes: 1, commands: 1 }).drain().await.unwrap();
    })
    .await;
    cancel_everywhere(con, "the redis crate's command", async |mut con| {
        redis::cmd("INCR").arg("n").exec_async(&mut con).await.unwrap();
    })
    .await;
    cancel_everywhere(con, "the redis crate's pipeline", async |mut con| {
        redis::pipe().incr("n", 1).incr("n", 1).exec_async(&mut con).await.unwrap();
    })
    .await;
}

async fn leased_futures(con: &Connection) {
    cancel_everywhere(con, "BLPOP", async |con| {
        cmd("BLPOP").arg(("none", 0.01)).exec_async(&con).await.unwrap();
    })
    .await;
    cancel_everywhere(con, "BLPOP in a pipeline", async |con| {
        pipe().cmd("ECHO").arg(1).cmd("BLPOP").arg(("none", 0.01)).exec_async(&con).await.unwrap();
    })
    .await;
    cancel_everywhere(con, "the redis crate's BLPOP", async |mut con| {
        redis::cmd("BLPOP").arg(("none", 0.01)).exec_async(&mut con).await.unwrap();
    })
    .await;
    cancel_everywhere(con, "the redis crate's BLPOP in a pipeline", async |mut con| {
        redis::pipe().cmd("BLPOP").arg(("none", 0.01)).exec_async(&mut con).await.unwrap();
    })
    .await;
    cancel_everywhere(con, "a lease's command", async |con| {
        let lease = con.lease().await.unwrap();
        cmd("INCR").arg("n").exec_async(&lease).await.unwrap();
    })
    .await;
    cancel_everywhere(con, "a lease's stream", async |con| {
        let lease = con.lease().await.unwrap();
        lease.stream((0..20).map(|_| cmd("INCR").arg("n").to_owned())).drain().await.unwrap();
    })
    .await;
}

/// Waits until the server says that so many clients are blocked.
async fn wait_blocked(con: &Connection, count: usize) {
    let started = Instant::now();
    loop {
        let info: String = cmd("INFO").arg("clients").query_async(con).await.unwrap();
        if info.contains(&format!("blocked_clients:{count}\r\n")) {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(10), "not {count} blocked: {info}");
    }
}

#[test]
fn a_blocking_pop_that_was_given_up_takes_no_element() {
    run(async {
        for server in servers() {
            let con = connect(&server, ConnectionConfig::new()).await;
            for way in ["ours", "a pipeline", "the redis crate", "its pipeline", "a lease"] {
                let waiting = tokio::spawn({
                    let mut con = con.clone();
                    async move {
                        match way {
                            "ours" => drop(cmd("BLPOP").arg(("queue", 0)).exec_async(&con).await),
                            "a pipeline" => drop(pipe().cmd("BLPOP").arg(("queue", 0)).exec_async(&con).await),
                            "the redis crate" => drop(redis::cmd("BLPOP").arg(("queue", 0)).exec_async(&mut con).await),
                            "its pipeline" => {
                                drop(redis::pipe().cmd("BLPOP").arg(("queue", 0)).exec_async(&mut con).await);
                            }
                            _ => {
                                let lease = con.lease().await.unwrap();
                                drop(cmd("BLPOP").arg(("queue", 0)).exec_async(&lease).await);
                            }
                        }
                    }
                });
                wait_blocked(&con, 1).await;
                waiting.abort();
                assert!(waiting.await.unwrap_err().is_cancelled());
                wait_blocked(&con, 0).await;
                cmd("RPUSH").arg(("queue", way)).exec_async(&con).await.unwrap();
                let popped: (String, String) = cmd("BLPOP").arg(("queue", 1)).query_async(&con).await.unwrap();
                assert_eq!(popped.1, way);
            }
        }
    });
}

//! A future that is dropped half-way, at any point, shifts no reply and loses nothing.

use std::time::{Duration, Instant};

use crate::fake::{Answer, Fake, check_pairing, polled, run};
use onrush::{
    AsyncCommands, CacheConfig, Client, Connection, ConnectionConfig, PubSub, PushKind, Value, WindowSize, cmd, pipe,
};
use onrush_tests::server::Server;

/// Drops a future at its first await point, at its second and so on until it ends, and checks after each that replies
/// go to the right commands.
async fn cancel_everywhere(con: &Connection, what: &str, future: impl AsyncFn(Connection)) {
    for times in 0.. {
        let has_ended = times > 0 && polled(future(con.clone()), times).await.is_some();
        check_pairing(con, &format!("{what} after {times}")).await;
        let (one, two) = (con.lease().await.unwrap(), con.lease().await.unwrap());
        check_pairing(&one, &format!("{what} after {times}, lease")).await;
        check_pairing(&two, &format!("{what} after {times}, another lease")).await;
        if has_ended {
            assert!(times > 1, "{what} never waited");
            return;
        }
        assert!(times < 1_000, "{what} does not end");
    }
}

fn servers() -> Vec<Server> {
    vec![Server::start_onrush(&["--workers", "2"]), Server::start_redis(&[])]
}

fn client(server: &Server) -> Client {
    Client::open(format!("redis://127.0.0.1:{}/", server.port())).unwrap()
}

/// Two leases at most: one that is not given back shows.
fn config() -> ConnectionConfig {
    ConnectionConfig::new().set_leases_max(2).set_response_timeout(Some(Duration::from_secs(20)))
}

async fn connect(server: &Server, config: ConnectionConfig) -> Connection {
    client(server).connect_with(config).await.unwrap()
}

#[test]
fn any_future_may_be_dropped_at_any_await_point() {
    run(async {
        for server in servers() {
            // With so small a queue, sending waits too.
            for queue_bytes_max in [64 << 20, 1] {
                let con = connect(&server, config().set_queue_bytes_max(queue_bytes_max)).await;
                plain_futures(&con).await;
                leased_futures(&con).await;
                stateful_futures(&con).await;
                cached_futures(&server, queue_bytes_max).await;
            }
        }
    });
}

async fn stateful_futures(con: &Connection) {
    cancel_everywhere(con, "an atomic pipeline", async |con| {
        let _: Value = pipe().atomic().incr("n", 1).incr("n", 1).query_async(&con).await.unwrap();
    })
    .await;
    cancel_everywhere(con, "a transaction", async |con| {
        let run = con
            .transaction("n", async |lease, pipeline| pipeline.incr("n", 1).query_async::<Option<(i64,)>>(lease).await);
        run.await.unwrap();
    })
    .await;
    cancel_everywhere(con, "subscribe", async |con| con.subscribe("c").await.unwrap()).await;
    cancel_everywhere(con, "unsubscribe", async |con| con.unsubscribe("c").await.unwrap()).await;
    cancel_everywhere(con, "a script", async |con| {
        let script = onrush::Script::new("return redis.call('INCR', KEYS[1])");
        let _: i64 = script.key("n").invoke_async(&con).await.unwrap();
    })
    .await;
}

async fn cached_futures(server: &Server, queue_bytes_max: usize) {
    let config = config().set_cache(CacheConfig::new()).set_queue_bytes_max(queue_bytes_max);
    let con = connect(server, config).await;
    cancel_everywhere(&con, "a cached read", async |con| {
        con.flush_cache();
        cmd("GET").arg("n").exec_async(&con).await.unwrap();
    })
    .await;
}

async fn plain_futures(con: &Connection) {
    cancel_everywhere(con, "a command", async |con| cmd("INCR").arg("n").exec_async(&con).await.unwrap()).await;
    cancel_everywhere(con, "a pipeline", async |con| {
        pipe().incr("n", 1).incr("n", 1).exec_async(&con).await.unwrap();
    })
    .await;
    cancel_everywhere(con, "a stream", async |con| {
        let commands = (0..20).map(|_| cmd("INCR").arg("n").to_owned());
        con.stream(commands).window(WindowSize::new().set_bytes(1).set_commands(1)).drain().await.unwrap();
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

/// Answers whatever the futures here send, byte by byte or late.
fn slowly(late: bool) -> impl Fn(usize, &str) -> Answer + Send + Sync + 'static {
    move |_, line| {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        let text = match name {
            "ECHO" => format!("${}\r\n{rest}\r\n", rest.len()),
            "EXEC" => "*2\r\n:1\r\n:2\r\n".into(),
            "EVALSHA" => ":1\r\n".into(),
            "SUBSCRIBE" | "UNSUBSCRIBE" => {
                let name = name.to_lowercase();
                format!("*3\r\n${}\r\n{name}\r\n${}\r\n{rest}\r\n:1\r\n", name.len(), rest.len())
            }
            _ => "+OK\r\n".into(),
        };
        if late { Answer::Delay(text) } else { Answer::Spell(text) }
    }
}

#[test]
fn any_future_may_be_dropped_while_the_reply_comes_byte_by_byte_or_late() {
    run(async {
        for late in [false, true] {
            let fake = Fake::start(slowly(late)).await;
            for queue_bytes_max in [64 << 20, 1] {
                let con = fake.connect(config().set_queue_bytes_max(queue_bytes_max)).await;
                plain_futures(&con).await;
                leased_futures(&con).await;
                cancel_everywhere(&con, "an atomic pipeline", async |con| {
                    let _: (i64, i64) = pipe().atomic().incr("n", 1).incr("n", 1).query_async(&con).await.unwrap();
                })
                .await;
                cancel_everywhere(&con, "a transaction", async |con| {
                    let run = con.transaction("n", async |lease, pipeline| {
                        pipeline.incr("n", 1).incr("n", 1).query_async::<Option<(i64, i64)>>(lease).await
                    });
                    run.await.unwrap();
                })
                .await;
                cancel_everywhere(&con, "a script", async |con| {
                    let script = onrush::Script::new("return redis.call('INCR', KEYS[1])");
                    let _: i64 = script.key("n").invoke_async(&con).await.unwrap();
                })
                .await;
            }
        }
    });
}

#[test]
fn connecting_may_be_given_up_at_any_point() {
    run(async {
        for server in servers() {
            let client = client(&server);
            for times in 1.. {
                let connected = polled(client.connect_with(config()), times).await;
                let waiting = polled(client.pubsub_with(config()), times).await;
                let leased = polled(async { client.connect().await.unwrap().lease().await }, times).await;
                check_pairing(&client.connect().await.unwrap(), "another").await;
                if let (Some(con), Some(pubsub), Some(lease)) = (connected, waiting, leased) {
                    check_pairing(&con.unwrap(), "the same").await;
                    check_pairing(&lease.unwrap(), "a lease").await;
                    pubsub.unwrap().subscribe("c").await.unwrap();
                    break;
                }
                assert!(times < 100);
            }
        }
    });
}

/// Makes sure that all messages come, one after the other, the next one being `from`.
async fn check_messages(pubsub: &mut PubSub, other: &Connection, from: usize) {
    let _: usize = other.publish("news", from).await.unwrap();
    assert_eq!(pubsub.next_message().await.unwrap().get_payload::<usize>().unwrap(), from);
}

#[test]
fn subscribing_and_receiving_may_be_given_up_at_any_point() {
    run(async {
        for server in servers() {
            let other = connect(&server, config()).await;
            for protocol in ["resp2", "resp3"] {
                let url = format!("redis://127.0.0.1:{}/?protocol={protocol}", server.port());
                let mut pubsub = Client::open(url).unwrap().pubsub_with(config()).await.unwrap();
                pubsub.subscribe("news").await.unwrap();
                let mut sent = 0;
                for times in 1..6 {
                    let _ = polled(pubsub.subscribe("other"), times).await;
                    let _ = polled(pubsub.unsubscribe("other"), times).await;
                    let _ = polled(pubsub.psubscribe("o*"), times).await;
                    let _ = polled(pubsub.punsubscribe("o*"), times).await;
                    let _ = polled(pubsub.ssubscribe("s"), times).await;
                    let _ = polled(pubsub.sunsubscribe("s"), times).await;
                    // Nothing has come that a message could be, so these wait; the last has it.
                    assert!(polled(pubsub.next_message(), 1).await.is_none());
                    check_messages(&mut pubsub, &other, sent).await;
                    sent += 1;
                }
                while polled(pubsub.next_push(), 1).await.is_some() {}
                check_messages(&mut pubsub, &other, sent).await;
            }
            let con = connect(&server, config()).await;
            let mut pushes = con.pushes().unwrap();
            con.subscribe("news").await.unwrap();
            assert_eq!(pushes.recv().await.unwrap().kind, PushKind::Subscribe);
            for n in 0..10 {
                assert!(polled(pushes.recv(), 1).await.is_none());
                let _: usize = other.publish("news", n).await.unwrap();
                assert_eq!(pushes.recv().await.unwrap().kind, PushKind::Message);
            }
        }
    });
}

/// Waits until the server reports `count` blocked clients.
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
            let con = connect(&server, config()).await;
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

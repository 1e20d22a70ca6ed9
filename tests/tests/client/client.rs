//! The client library against Onrush and redis-server, and against servers that behave badly.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use onrush::{
    AsyncCommands, Backoff, Client, Connection, ConnectionConfig, ErrorKind, Fate, ProtocolVersion, RedisResult,
    Script, Value, WindowSize, cmd, pipe,
};
use onrush_tests::server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

fn run<F: Future<Output = ()>>(test: F) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let limit = Duration::from_secs(120);
    runtime.block_on(async { tokio::time::timeout(limit, test).await.expect("the test ends") });
}

fn servers() -> Vec<(&'static str, Server)> {
    vec![("onrush", Server::start_onrush(&["--workers", "2"])), ("redis", Server::start_redis(&[]))]
}

fn url(port: u16, rest: &str) -> String {
    format!("redis://127.0.0.1:{port}/{rest}")
}

async fn connect(server: &Server, rest: &str) -> Connection {
    Client::open(url(server.port(), rest)).expect("a URL").connect().await.expect("a connection")
}

#[test]
fn all_types_over_both_protocols() {
    run(async {
        for (name, server) in servers() {
            for protocol in ["resp2", "resp3"] {
                let con = connect(&server, &format!("3?protocol={protocol}&client_name=tester")).await;
                let resp3 = con.protocol() == ProtocolVersion::RESP3;
                assert_eq!(resp3, protocol == "resp3", "{name}");
                let () = con.flushdb().await.unwrap();
                types(&con).await.unwrap_or_else(|error| panic!("{name} {protocol}: {error}"));
                let info: String = cmd("CLIENT").arg("INFO").query_async(&con).await.unwrap();
                assert!(info.contains("name=tester") && info.contains("db=3"), "{info}");
            }
        }
    });
}

async fn types(con: &Connection) -> RedisResult<()> {
    let () = con.set("s", "text").await?;
    assert_eq!(con.get::<_, String>("s").await?, "text");
    assert_eq!(con.get::<_, Option<String>>("none").await?, None);
    assert_eq!(con.incr::<_, _, i64>("n", 5).await?, 5);
    assert_eq!(con.incr_float::<_, _, f64>("f", 1.5).await?, 1.5);
    let () = con.mset(&[("a", 1), ("b", 2)]).await?;
    assert_eq!(con.mget::<_, Vec<Option<i32>>>(["a", "none", "b"]).await?, [Some(1), None, Some(2)]);
    assert_eq!(con.rpush::<_, _, usize>("l", [1, 2, 3]).await?, 3);
    assert_eq!(con.lrange::<_, _, _, Vec<i32>>("l", 0, -1).await?, [1, 2, 3]);
    assert_eq!(con.hset_multiple::<_, _, usize>("h", &[("x", "1"), ("y", "2")]).await?, 2);
    let all: HashMap<String, i32> = con.hgetall("h").await?;
    assert_eq!(all, HashMap::from([("x".into(), 1), ("y".into(), 2)]));
    assert_eq!(con.sadd::<_, _, usize>("set", ["m", "m", "o"]).await?, 2);
    assert!(con.sismember::<_, _, bool>("set", "o").await?);
    assert_eq!(con.zadd_multiple::<_, _, usize>("z", &[(1.5, "one"), (0.5, "two")]).await?, 2);
    let scored: Vec<(String, f64)> = con.zrange_withscores("z", 0, -1).await?;
    assert_eq!(scored, [("two".to_owned(), 0.5), ("one".to_owned(), 1.5)]);
    let id: String = con.xadd("x", "*", &[("f", "v")]).await?;
    let entries: Vec<(String, HashMap<String, String>)> = con.xrange("x", "-", "+").await?;
    assert_eq!(entries, [(id, HashMap::from([("f".into(), "v".into())]))]);
    assert!(!con.setbit::<_, _, _, bool>("bits", 7, true).await?);
    assert_eq!(con.bitcount::<_, u64>("bits").await?, 1);
    assert!(con.pfadd::<_, _, bool>("hll", ["a", "b"]).await?);
    assert_eq!(con.pfcount::<_, u64>("hll").await?, 2);
    assert_eq!(con.geo_add::<_, _, usize>("g", (13.361389, 38.115556, "Palermo")).await?, 1);
    assert_eq!(con.geo_hash::<_, _, Vec<String>>("g", "Palermo").await?, ["sqc8b49rny0"]);
    let error = con.get::<_, String>("l").await.unwrap_err();
    assert_eq!((error.code(), error.fate()), (Some("WRONGTYPE"), Fate::Replied));
    Ok(())
}

#[test]
fn a_failure_in_a_pipeline_hides_nothing() {
    run(async {
        for (_, server) in servers() {
            let con = connect(&server, "").await;
            let mut pipeline = pipe();
            for n in 0..10_000 {
                match n % 100 {
                    7 => pipeline.cmd("LPUSH").arg("counter").arg(n),
                    8 => pipeline.set("other", n).ignore(),
                    _ => pipeline.incr("counter", 1),
                };
            }
            let results: Vec<RedisResult<i64>> = pipeline.query_each(&con).await.unwrap();
            // INCR runs before the first LPUSH, so that one is an error.
            assert_eq!(results.len(), 9_900);
            assert_eq!(results.iter().filter(|result| result.is_err()).count(), 100);
            let good: Vec<i64> = results.into_iter().flatten().collect();
            assert!(good.into_iter().eq(1..=9_800));
            assert_eq!(pipeline.query_async::<Vec<i64>>(&con).await.unwrap_err().code(), Some("WRONGTYPE"));
        }
    });
}

#[test]
fn many_tasks_share_one_connection() {
    run(async {
        for (_, server) in servers() {
            let con = connect(&server, "").await;
            let tasks: Vec<_> = (0..256)
                .map(|task| {
                    let con = con.clone();
                    tokio::spawn(async move {
                        for n in 0..200 {
                            let key = format!("{task}:{n}");
                            let () = con.set(&key, n).await.unwrap();
                            assert_eq!(con.get::<_, i32>(&key).await.unwrap(), n);
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(con.dbsize::<usize>().await.unwrap(), 256 * 200);
        }
    });
}

#[test]
fn streams_keep_order_and_count() {
    run(async {
        for (_, server) in servers() {
            let con = connect(&server, "").await;
            let mut left = 200_000;
            let write = |out: &mut onrush::Pipeline| {
                left -= 1;
                out.cmd("INCR").arg("counter");
                left > 0
            };
            // The last call says false and its command still counts.
            let summary = con.stream_fn(write).count().await;
            assert_eq!(summary.into_result().unwrap(), 200_000);
            assert_eq!(con.get::<_, u64>("counter").await.unwrap(), 200_000);

            // With the first, each command is a round trip.
            for (size, count) in [
                (WindowSize::new().set_bytes(1).set_commands(1), 1_000),
                (WindowSize::new().set_bytes(300).set_commands(7), 10_000),
                (WindowSize::new(), 20_000),
            ] {
                let commands = (0..count).map(|n| cmd("ECHO").arg(n).to_owned());
                let mut replies = con.stream(commands).window(size);
                let mut expected = 0;
                while let Some(reply) = replies.next().await {
                    assert_eq!(onrush::from_redis_value::<u64>(reply.unwrap()).unwrap(), expected);
                    expected += 1;
                }
                assert_eq!(expected, count);
            }

            let commands = (0..1_000).map(|n| match n % 10 {
                3 => cmd("LPUSH").arg("counter").arg(1).to_owned(),
                4 => cmd("PING"),
                n if n % 2 == 0 => cmd("INCR").arg("counter").to_owned(),
                _ => cmd("SET").arg("other").arg(n).to_owned(),
            });
            let summary = con.stream(commands).count().await;
            assert_eq!((summary.replies, summary.errors), (1_000, 100));
            assert_eq!(summary.first_error.unwrap().0, 3);
            let sum = con
                .stream((0..100).map(|n| cmd("ECHO").arg(n).to_owned()))
                .fold(0, |sum, reply| sum + onrush::from_redis_value::<i64>(reply.unwrap()).unwrap());
            assert_eq!(sum.await, 4_950);
            let error = con.stream([cmd("BLPOP").arg("l").arg(0).to_owned()]).drain().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Client);
        }
    });
}

#[test]
fn a_blocking_command_holds_up_nobody() {
    run(async {
        for (_, server) in servers() {
            let con = connect(&server, "").await;
            let waiting = tokio::spawn({
                let con = con.clone();
                async move { con.blpop::<_, _, (String, String)>("queue", 0).await.unwrap() }
            });
            for n in 0..100 {
                let () = con.set("k", n).await.unwrap();
            }
            assert!(!waiting.is_finished());
            let _: usize = con.rpush("queue", "job").await.unwrap();
            assert_eq!(waiting.await.unwrap(), ("queue".to_owned(), "job".to_owned()));
            let error = cmd("SELECT").arg(1).exec_async(&con).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Client);
            let lease = con.lease().await.unwrap();
            cmd("SELECT").arg(1).exec_async(&lease).await.unwrap();
        }
    });
}

#[test]
fn transactions_watch_and_try_again() {
    run(async {
        for (_, server) in servers() {
            let con = connect(&server, "").await;
            let results: Vec<RedisResult<i64>> =
                pipe().atomic().incr("a", 1).lpush("a", 1).incr("a", 1).query_each(&con).await.unwrap();
            assert!(results[0] == Ok(1) && results[1].is_err() && results[2] == Ok(2));
            let attempts = AtomicU64::new(0);
            let (new,): (i64,) = con
                .transaction("a", async |lease, pipeline| {
                    let old: i64 = lease.get("a").await?;
                    if attempts.fetch_add(1, Ordering::Relaxed) == 0 {
                        let () = con.set("a", 10).await?;
                    }
                    pipeline.incr("a", old).query_async(lease).await
                })
                .await
                .unwrap();
            assert_eq!((new, attempts.into_inner()), (20, 2));
        }
    });
}

#[test]
fn scripts_load_themselves() {
    run(async {
        for (_, server) in servers() {
            let con = connect(&server, "").await;
            let script = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
            let mut pipeline = pipe();
            for n in 1..=3 {
                pipeline.invoke_script(script.key("k").arg(n)).cmd("PING").ignore();
            }
            assert_eq!(pipeline.query_async::<Vec<i64>>(&con).await.unwrap(), [1, 3, 6]);
            let () = cmd("SCRIPT").arg("FLUSH").query_async(&con).await.unwrap();
            assert_eq!(script.key("k").arg(4).invoke_async::<i64>(&con).await.unwrap(), 10);
        }
    });
}

#[test]
fn messages_come_to_subscribers() {
    run(async {
        for (_, server) in servers() {
            let con = connect(&server, "").await;
            let mut pubsub =
                Client::open(url(server.port(), "?protocol=resp2")).unwrap().get_async_pubsub().await.unwrap();
            pubsub.subscribe("news").await.unwrap();
            pubsub.psubscribe("n*").await.unwrap();
            let mut pushes = con.pushes().unwrap();
            con.subscribe("news").await.unwrap();
            let _: usize = con.publish("news", "hello").await.unwrap();
            for has_pattern in [false, true] {
                let message = pubsub.next_message().await.unwrap();
                assert_eq!((message.get_channel_name(), message.from_pattern()), (Some("news"), has_pattern));
                assert_eq!(message.get_payload::<String>().unwrap(), "hello");
            }
            let confirmed = pushes.recv().await.unwrap();
            assert_eq!(confirmed.kind, onrush::PushKind::Subscribe);
            assert_eq!(pushes.recv().await.unwrap().kind, onrush::PushKind::Message);
        }
    });
}

#[test]
fn code_for_the_redis_crate_runs_over_it() {
    run(async {
        for (_, server) in servers() {
            let mut con = connect(&server, "").await;
            redis::AsyncTypedCommands::set(&mut con, "k", 5).await.unwrap();
            assert_eq!(redis::AsyncTypedCommands::get(&mut con, "k").await.unwrap().as_deref(), Some("5"));
            let (a, b): (i64, Vec<String>) = redis::pipe()
                .incr("k", 1)
                .ignore()
                .incr("k", 1)
                .cmd("LRANGE")
                .arg("none")
                .arg(0)
                .arg(-1)
                .query_async(&mut con)
                .await
                .unwrap();
            assert_eq!((a, b), (7, vec![]));
            let error = redis::cmd("LPUSH").arg("k").arg(1).query_async::<i64>(&mut con).await.unwrap_err();
            assert_eq!(error.code(), Some("WRONGTYPE"));
        }
    });
}

/// A server with small socket buffers that handles one connection after the other as told.
async fn bad_server<F, R>(handle: F) -> u16
where
    F: Fn(TcpStream, usize) -> R + Send + 'static,
    R: Future<Output = ()> + Send,
{
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.set_send_buffer_size(4096).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener: TcpListener = socket.listen(16).unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut count = 0;
        while let Ok((stream, _)) = listener.accept().await {
            handle(stream, count).await;
            count += 1;
        }
    });
    port
}

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

fn tiny() -> ConnectionConfig {
    ConnectionConfig::new()
        .set_client_info(false)
        .set_ready_check(false)
        .set_socket_buffers(Some(4096), Some(4096))
        .set_response_timeout(Some(Duration::from_secs(20)))
}

async fn connect_to(port: u16, config: ConnectionConfig) -> Connection {
    Client::open(url(port, "?protocol=resp2")).unwrap().connect_with(config).await.unwrap()
}

#[test]
fn a_server_that_answers_only_when_all_is_sent_does_not_stop_us() {
    // Many times what fits into the buffers between.
    const COUNT: usize = 20_000;
    run(async {
        let port = bad_server(|mut stream, _| async move {
            let mut input = vec![0; COUNT * PING.len()];
            stream.read_exact(&mut input).await.unwrap();
            stream.write_all(&b"+PONG\r\n".repeat(COUNT)).await.unwrap();
            let _ = stream.read(&mut input).await;
        })
        .await;
        let con = connect_to(port, tiny()).await;
        let mut pipeline = pipe();
        for _ in 0..COUNT {
            pipeline.cmd("PING");
        }
        assert_eq!(pipeline.query_async::<Vec<String>>(&con).await.unwrap().len(), COUNT);
    });
}

#[test]
fn a_server_that_reads_only_when_all_is_answered_does_not_stop_us() {
    const COUNT: usize = 400;
    const REPLY_LEN: usize = 400;
    run(async {
        // For every command a reply many times as long is written before the next is read.
        let port = bad_server(|mut stream, _| async move {
            let mut input = vec![0; PING.len()];
            let mut reply = format!("${REPLY_LEN}\r\n").into_bytes();
            reply.resize(reply.len() + REPLY_LEN, b'x');
            reply.extend_from_slice(b"\r\n");
            for _ in 0..COUNT {
                stream.read_exact(&mut input).await.unwrap();
                stream.write_all(&reply).await.unwrap();
            }
            let _ = stream.read(&mut input).await;
        })
        .await;
        let con = connect_to(port, tiny()).await;
        let total = con
            .stream((0..COUNT).map(|_| cmd("PING")))
            .fold(0, |total, reply| total + reply.unwrap().as_bytes().map_or(0, <[u8]>::len));
        assert_eq!(total.await, COUNT * REPLY_LEN);
    });
}

#[test]
fn after_a_disconnect_each_command_knows_its_fate() {
    run(async {
        // The first connection answers ten commands, reads five more and hangs up; the others answer everything.
        let handled = Arc::new(AtomicU64::new(0));
        let port = bad_server({
            let handled = handled.clone();
            move |mut stream, count| {
                let handled = handled.clone();
                async move {
                    let mut input = vec![0; PING.len()];
                    let mut answered = 0;
                    while stream.read_exact(&mut input).await.is_ok() {
                        handled.fetch_add(1, Ordering::Relaxed);
                        answered += 1;
                        if count == 0 && answered > 10 {
                            if answered == 15 {
                                return;
                            }
                            continue;
                        }
                        if stream.write_all(b"+PONG\r\n").await.is_err() {
                            return;
                        }
                    }
                }
            }
        })
        .await;
        let backoff = Backoff::default();
        let con = connect_to(port, tiny().set_backoff(Some(backoff))).await;
        let mut pipeline = pipe();
        for _ in 0..15 {
            pipeline.cmd("PING");
        }
        pipeline.cmd("PING").idempotent();
        let results = pipeline.query_each::<String>(&con).await.unwrap();
        let fates: Vec<Option<Fate>> =
            results.iter().map(|result| result.as_ref().err().map(|error| error.fate())).collect();
        assert!(fates[..10].iter().all(Option::is_none), "{fates:?}");
        assert!(fates[10..15].iter().all(|fate| *fate == Some(Fate::Unknown)), "{fates:?}");
        assert_eq!(fates[15], None, "what may be repeated is");
        assert_eq!(cmd("PING").query_async::<String>(&con).await.unwrap(), "PONG");
        assert_eq!(handled.load(Ordering::Relaxed), 17);
    });
}

#[test]
fn a_timeout_counts_from_the_last_reply() {
    run(async {
        // Twenty replies, a tenth of a second apart, then none.
        let port = bad_server(|mut stream, _| async move {
            let mut input = vec![0; 1 << 16];
            let _ = stream.read(&mut input).await;
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                if stream.write_all(b"+PONG\r\n").await.is_err() {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_secs(30)).await;
        })
        .await;
        let config = tiny().set_response_timeout(Some(Duration::from_millis(500))).set_backoff(None);
        let con = connect_to(port, config).await;
        let mut pipeline = pipe();
        for _ in 0..21 {
            pipeline.cmd("PING");
        }
        let started = Instant::now();
        let results = pipeline.query_each::<String>(&con).await.unwrap();
        assert!(results[..20].iter().all(Result::is_ok), "{results:?}");
        let error = results[20].as_ref().unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::Timeout, Fate::Unknown));
        assert!((2_400..3_500).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
    });
}

#[test]
fn a_connection_that_was_killed_comes_back() {
    run(async {
        for (_, server) in servers() {
            let (con, other) = (connect(&server, "").await, connect(&server, "2?client_name=phoenix").await);
            let () = other.set("k", 1).await.unwrap();
            for _ in 0..3 {
                let id: u64 = cmd("CLIENT").arg("ID").query_async(&other).await.unwrap();
                let _: Value = cmd("CLIENT").arg(("KILL", "ID", id)).query_async(&con).await.unwrap();
                // What was sent just then may be lost, and says so; the connection itself goes on.
                while let Err(error) = other.get::<_, i64>("k").await {
                    assert_eq!(error.fate(), Fate::Unknown, "{error}");
                }
                let name: String = cmd("CLIENT").arg("GETNAME").query_async(&other).await.unwrap();
                assert_eq!(name, "phoenix");
            }
        }
    });
}

//! Client-side caching: a read from the cache is never older than the server's last report.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::fake::{Answer, Fake, oblige, run};
use onrush::{
    AsyncCommands, CacheConfig, CacheMode, Client, Connection, ConnectionConfig, ErrorKind, RedisResult, cmd, pipe,
};
use onrush_tests::server::Server;

fn servers() -> Vec<(&'static str, Server)> {
    vec![("onrush", Server::start_onrush(&["--workers", "2"])), ("redis", Server::start_redis(&[]))]
}

fn client(server: &Server) -> Client {
    Client::open(format!("redis://127.0.0.1:{}/", server.port())).unwrap()
}

async fn caching(server: &Server, cache: CacheConfig) -> Connection {
    client(server).connect_with(ConnectionConfig::new().set_cache(cache)).await.unwrap()
}

fn counts(con: &Connection) -> (u64, u64) {
    let stats = con.cache_stats().expect("a cache");
    (stats.hits, stats.misses)
}

/// Every mode, with the reads marked as it needs them.
fn modes() -> [CacheMode; 3] {
    [CacheMode::All, CacheMode::OptIn, CacheMode::Prefixes(vec![b"n:".to_vec()])]
}

#[test]
fn what_was_read_is_read_here_until_it_changes() {
    run(async {
        for (name, server) in servers() {
            let other = client(&server).connect().await.unwrap();
            for mode in modes() {
                let con = caching(&server, CacheConfig::new().set_mode(mode.clone())).await;
                let read = con.cached(Duration::from_secs(60));
                let () = other.set("n:1", "one").await.unwrap();
                let () = other.hset("n:h", "f", 1).await.unwrap();
                // Behind its reply nothing is left of what the server had to tell before.
                cmd("PING").exec_async(&con).await.unwrap();
                for _ in 0..10 {
                    assert_eq!(read.get::<_, String>("n:1").await.unwrap(), "one");
                    assert_eq!(read.hget::<_, _, i64>("n:h", "f").await.unwrap(), 1);
                    assert_eq!(read.get::<_, Option<String>>("n:none").await.unwrap(), None);
                }
                assert_eq!(counts(&con), (27, 3), "{name} {mode:?}");
                let () = other.set("n:1", "two").await.unwrap();
                let () = other.set("n:none", "some").await.unwrap();
                cmd("PING").exec_async(&con).await.unwrap();
                assert_eq!(read.get::<_, String>("n:1").await.unwrap(), "two", "{name} {mode:?}");
                assert_eq!(read.get::<_, String>("n:none").await.unwrap(), "some", "{name} {mode:?}");
                assert_eq!(read.hget::<_, _, i64>("n:h", "f").await.unwrap(), 1);
                assert_eq!(counts(&con), (28, 5), "{name} {mode:?}");
                let () = other.flushall().await.unwrap();
                cmd("PING").exec_async(&con).await.unwrap();
                assert_eq!(read.get::<_, Option<String>>("n:1").await.unwrap(), None, "{name} {mode:?}");
            }
        }
    });
}

#[test]
fn two_writers_and_no_outdated_value() {
    const KEYS: usize = 8;
    const WRITES: usize = 400;
    run(async {
        for (name, server) in servers() {
            for mode in modes() {
                let con = caching(&server, CacheConfig::new().set_mode(mode.clone())).await;
                let () = con.flushall().await.unwrap();
                let done: AtomicUsize = AtomicUsize::new(0);
                let writer = async |seed: usize| {
                    let other = client(&server).connect().await.unwrap();
                    for n in 0..WRITES {
                        let key = format!("n:{}", (n * (seed + 1)) % KEYS);
                        let written: i64 = other.incr(&key, 1).await.unwrap();
                        // The server had told of the write when it answered this.
                        cmd("PING").exec_async(&con).await.unwrap();
                        let read: i64 = con.cached(Duration::from_secs(60)).get(&key).await.unwrap();
                        assert!(read >= written, "{name} {mode:?}: {key} is {read} after {written}");
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                };
                // Readers fill the cache at all moments, and see no value go back.
                let reader = async || {
                    let mut last = [0; KEYS];
                    while done.load(Ordering::Relaxed) < 2 {
                        for (n, last) in last.iter_mut().enumerate() {
                            let key = format!("n:{n}");
                            let read: Option<i64> = con.cached(Duration::from_secs(60)).get(key).await.unwrap();
                            let read = read.unwrap_or(0);
                            assert!(read >= *last, "{name} {mode:?}: n:{n} went from {last} to {read}");
                            *last = read;
                        }
                        tokio::task::yield_now().await;
                    }
                };
                tokio::join!(writer(0), writer(1), reader(), reader());
                assert!(counts(&con).0 > 0 && counts(&con).1 > KEYS as u64, "{:?}", con.cache_stats());
            }
        }
    });
}

#[test]
fn a_connection_reads_what_it_has_written_itself() {
    run(async {
        for (name, server) in servers() {
            let con = caching(&server, CacheConfig::new()).await;
            let reading = tokio::spawn({
                let con = con.clone();
                async move {
                    loop {
                        let _: RedisResult<Option<i64>> = con.get("k").await;
                        tokio::task::yield_now().await;
                    }
                }
            });
            for n in 0..5_000_i64 {
                match n % 4 {
                    0 => con.set::<_, _, ()>("k", n).await.unwrap(),
                    1 => pipe().set("l", 1).set("k", n).exec_async(&con).await.unwrap(),
                    2 => pipe().atomic().set("k", n).exec_async(&con).await.unwrap(),
                    _ => {
                        let script = onrush::Script::new("return redis.call('SET', KEYS[1], ARGV[1])");
                        script.key("k").arg(n).invoke_async(&con).await.unwrap()
                    }
                }
                assert_eq!(con.get::<_, i64>("k").await.unwrap(), n, "{name}");
            }
            reading.abort();
        }
    });
}

/// A RESP3 server that gives these replies to PTTL and GET, and OK to everything else.
async fn fake(pttl: &'static str, get: &'static str) -> (Fake, Connection) {
    let fake = Fake::start(move |_, line| match line.split(' ').next() {
        Some("HELLO") => Answer::Say("%0\r\n".into()),
        Some("PTTL") => Answer::Say(pttl.into()),
        Some("GET") => Answer::Say(get.into()),
        _ => oblige(line),
    })
    .await;
    let config = ConnectionConfig::new().set_client_info(false).set_ready_check(false).set_cache(CacheConfig::new());
    let url = format!("redis://127.0.0.1:{}/", fake.port);
    let con = Client::open(url).unwrap().connect_with(config).await.unwrap();
    (fake, con)
}

#[test]
fn news_that_overtakes_a_reply_keeps_it_out_of_the_cache() {
    const NEWS: &str = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
    run(async {
        let behind_pttl: &str = Box::leak(format!(":-1\r\n{NEWS}").into_boxed_str());
        let before_get: &str = Box::leak(format!("{NEWS}+old\r\n").into_boxed_str());
        let behind_get: &str = Box::leak(format!("+old\r\n{NEWS}").into_boxed_str());
        for (pttl, get) in [(behind_pttl, "+old\r\n"), (":-1\r\n", before_get), (":-1\r\n", behind_get)] {
            let (fake, con) = fake(pttl, get).await;
            for _ in 0..3 {
                assert_eq!(con.get::<_, String>("k").await.unwrap(), "old");
                cmd("PING").exec_async(&con).await.unwrap();
            }
            assert_eq!(counts(&con), (0, 3), "{:?}", fake.lines(0));
            assert_eq!(con.cache_stats().unwrap().entries, 0);
        }
        // What it is compared with: without news it is kept.
        let (_fake, con) = fake(":-1\r\n", "+same\r\n").await;
        for _ in 0..3 {
            assert_eq!(con.get::<_, String>("k").await.unwrap(), "same");
        }
        assert_eq!(counts(&con), (2, 1));
    });
}

#[test]
fn an_error_and_a_read_that_was_given_up_are_no_answers() {
    run(async {
        let (_fake, con) = fake(":-1\r\n", "-WRONGTYPE no\r\n").await;
        for _ in 0..3 {
            assert_eq!(con.get::<_, String>("k").await.unwrap_err().code(), Some("WRONGTYPE"));
        }
        assert_eq!(counts(&con), (0, 3));
        let (_fake, con) = fake(":-1\r\n", "+same\r\n").await;
        let given_up = std::future::poll_fn(|cx| {
            let reading = std::pin::pin!(con.get::<_, String>("k"));
            std::task::Poll::Ready(reading.poll(cx).is_pending())
        });
        assert!(given_up.await);
        assert_eq!(con.get::<_, String>("other").await.unwrap(), "same");
        // Its reply has come all the same, and was worth keeping.
        assert_eq!(con.get::<_, String>("k").await.unwrap(), "same");
        assert_eq!(counts(&con), (1, 2));
    });
}

#[test]
fn a_lost_connection_takes_its_cache_along() {
    run(async {
        for (name, server) in servers() {
            let con = caching(&server, CacheConfig::new()).await;
            let other = client(&server).connect().await.unwrap();
            for n in 0..5 {
                let () = other.set("k", n).await.unwrap();
                assert_eq!(con.get::<_, i64>("k").await.unwrap_or(n), n, "{name}");
                // Killed and changed in one go, so that no news can come.
                let mut pipe = pipe();
                pipe.cmd("CLIENT").arg(("KILL", "TYPE", "normal", "SKIPME", "yes")).set("k", n + 1);
                pipe.atomic().exec_async(&other).await.unwrap();
                let started = Instant::now();
                while con.get::<_, i64>("k").await != Ok(n + 1) {
                    assert!(started.elapsed() < Duration::from_secs(10), "{name}: {:?}", con.cache_stats());
                }
                assert_eq!(con.get::<_, i64>("k").await.unwrap(), n + 1);
            }
            assert!(con.cache_stats().unwrap().flushes >= 5);
        }
    });
}

#[test]
fn a_key_that_expires_on_the_server_expires_here() {
    run(async {
        // It never looks for expired keys by itself, so no news comes.
        let server = Server::start_redis(&["--enable-debug-command", "yes"]);
        let con = caching(&server, CacheConfig::new()).await;
        cmd("DEBUG").arg(("SET-ACTIVE-EXPIRE", 0)).exec_async(&con).await.unwrap();
        cmd("SET").arg(("k", 1, "PX", 200)).exec_async(&client(&server).connect().await.unwrap()).await.unwrap();
        assert_eq!(con.get::<_, Option<i64>>("k").await.unwrap(), Some(1));
        assert_eq!(con.get::<_, Option<i64>>("k").await.unwrap(), Some(1));
        while con.get::<_, Option<i64>>("k").await.unwrap().is_some() {}
        assert!(counts(&con).0 > 0);
    });
}

#[test]
fn whoever_calls_says_what_is_cached() {
    run(async {
        let server = Server::start_redis(&[]);
        let con = caching(&server, CacheConfig::new().set_mode(CacheMode::OptIn)).await;
        let () = con.set("k", 1).await.unwrap();
        let get = cmd("GET").arg("k").clone();
        for _ in 0..3 {
            get.exec_async(&con).await.unwrap();
        }
        assert_eq!(counts(&con), (0, 0));
        for _ in 0..3 {
            get.clone().cached(Duration::from_secs(1)).exec_async(&con).await.unwrap();
            get.clone().uncached().exec_async(&con.cached(Duration::from_secs(1))).await.unwrap();
        }
        assert_eq!(counts(&con), (2, 1));
        con.flush_cache();
        assert_eq!(con.cache_stats().unwrap().entries, 0);

        let mut all = caching(&server, CacheConfig::new()).await;
        for _ in 0..3 {
            redis::cmd("GET").arg("k").exec_async(&mut all).await.unwrap();
        }
        assert_eq!(counts(&all), (2, 1), "for the redis crate's commands too");

        let url = format!("redis://127.0.0.1:{}/?protocol=resp2", server.port());
        let config = ConnectionConfig::new().set_cache(CacheConfig::new());
        let error = Client::open(url).unwrap().connect_with(config.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidClientConfig, "{error}");
        let error = client(&server).connect_with(config.set_tracking(&["NOLOOP"])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidClientConfig, "{error}");
        assert!(client(&server).connect().await.unwrap().cache_stats().is_none());
    });
}

//! Several reads at once through the cache: keys of MGET, reads of a pipeline, and misses of the same key.

use std::sync::Arc;
use std::time::Duration;

use crate::fake::{Answer, Fake, oblige, polled, run};
use onrush::{
    AsyncCommands, CacheConfig, CacheMode, CacheStats, Client, Connection, ConnectionConfig, ErrorKind, RedisResult,
    cmd, pipe,
};
use onrush_tests::server::Server;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

const NEWS: &str = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
const READERS: usize = 20;

fn servers() -> Vec<(&'static str, Server)> {
    vec![("onrush", Server::start_onrush(&["--workers", "2"])), ("redis", Server::start_redis(&[]))]
}

fn modes() -> [CacheMode; 3] {
    [CacheMode::All, CacheMode::OptIn, CacheMode::Prefixes(vec![b"n:".to_vec()])]
}

async fn connect(port: u16, config: ConnectionConfig) -> Connection {
    let client = Client::open(format!("redis://127.0.0.1:{port}/")).unwrap();
    client.connect_with(config.set_client_info(false).set_ready_check(false)).await.unwrap()
}

async fn caching(port: u16, mode: CacheMode) -> Connection {
    connect(port, ConnectionConfig::new().set_cache(CacheConfig::new().set_mode(mode))).await
}

fn stats(con: &Connection) -> CacheStats {
    con.cache_stats().expect("a cache")
}

fn counts(con: &Connection) -> (u64, u64) {
    (stats(con).hits, stats(con).misses)
}

/// Polls `done` repeatedly, between other tasks' turns.
async fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        tokio::task::yield_now().await;
    }
}

/// Waits until all earlier reports have come.
async fn catch_up(con: &Connection) {
    cmd("PING").exec_async(con).await.unwrap();
}

/// Calls `test` for each server and each mode of the cache, with their names, a client that caches, and another one.
fn in_every_mode(test: impl AsyncFn(&str, &Connection, &Connection)) {
    run(async {
        for (name, server) in servers() {
            let other = connect(server.port(), ConnectionConfig::new()).await;
            for mode in modes() {
                let con = caching(server.port(), mode.clone()).await;
                let () = other.flushall().await.unwrap();
                test(&format!("{name} {mode:?}"), &con, &other).await;
            }
        }
    });
}

#[test]
fn each_key_of_mget_is_cached_by_itself() {
    in_every_mode(async |place, con, other| {
        let read = con.cached(Duration::from_secs(60));
        let () = other.mset(&[("n:1", 1), ("n:2", 2), ("n:3", 3)]).await.unwrap();
        let () = other.rpush("n:list", 1).await.unwrap();
        catch_up(con).await;
        assert_eq!(read.get::<_, i64>("n:2").await.unwrap(), 2);
        let keys = ["n:3", "n:2", "n:none", "n:list", "n:1", "n:1"];
        let want = [Some(3), Some(2), None, None, Some(1), Some(1)];
        for _ in 0..2 {
            let got: Vec<Option<i64>> = read.mget(&keys).await.unwrap();
            assert_eq!(got, want, "{place}");
        }
        // The list is nil to MGET and an error to GET, so its nil is not kept.
        assert_eq!(counts(con), (1 + 5, 1 + 5 + 1), "{place}");
        let error = read.get::<_, String>("n:list").await.unwrap_err();
        assert_eq!(error.code(), Some("WRONGTYPE"), "{place}");
        assert_eq!(read.get::<_, i64>("n:3").await.unwrap(), 3);
        assert_eq!(counts(con), (7, 8), "{place}");
        let () = other.mset(&[("n:3", 33), ("n:none", 0)]).await.unwrap();
        catch_up(con).await;
        let got: Vec<Option<i64>> = read.mget(&["n:1", "n:2", "n:3", "n:none"]).await.unwrap();
        assert_eq!(got, [Some(1), Some(2), Some(33), Some(0)], "{place}");
        assert_eq!(counts(con), (9, 10), "{place}");
        let gone: Vec<Option<i64>> = read.mget(&["elsewhere", "n:1"]).await.unwrap();
        assert_eq!(gone, [None, Some(1)], "{place}");
    });
}

#[test]
fn a_pipeline_of_reads_is_answered_from_the_cache() {
    in_every_mode(async |place, con, other| {
        let read = con.cached(Duration::from_secs(60));
        let () = other.mset(&[("n:1", 1), ("n:2", 2)]).await.unwrap();
        let () = other.hset("n:h", "f", 3).await.unwrap();
        catch_up(con).await;
        let mut reads = pipe();
        reads.get("n:1").hget("n:h", "f").get("n:h").get("n:2").get("n:1");
        for _ in 0..2 {
            let got: Vec<RedisResult<i64>> = reads.query_each(&read).await.unwrap();
            assert_eq!(got[2].as_ref().unwrap_err().code(), Some("WRONGTYPE"), "{place}");
            let got: Vec<i64> = got.into_iter().map(|one| one.unwrap_or(-1)).collect();
            assert_eq!(got, [1, 3, -1, 2, 1], "{place}");
        }
        assert_eq!(counts(con), (4, 6), "{place}");
        let () = other.set("n:2", 22).await.unwrap();
        catch_up(con).await;
        let got: (i64, i64) = pipe().get("n:2").get("n:1").query_async(&read).await.unwrap();
        assert_eq!((got, counts(con)), ((22, 1), (5, 7)), "{place}");
        // With a write among them, reads see what stands before them.
        let got: (i64, i64) = pipe().set("n:1", 5).ignore().get("n:1").get("n:2").query_async(&read).await.unwrap();
        assert_eq!((got, counts(con)), ((5, 22), (5, 7)), "{place}");
        let got: (i64, i64) = pipe().atomic().get("n:1").get("n:2").query_async(&read).await.unwrap();
        assert_eq!((got, counts(con)), ((5, 22), (5, 7)), "{place}");
        let mut uncached = pipe();
        uncached.add_command(cmd("GET").arg("n:2").uncached());
        assert_eq!(uncached.query_async::<(i64,)>(&read).await.unwrap(), (22,));
        assert_eq!(counts(con), (5, 7), "{place}");
    });
}

/// A server of RESP3 for which every key holds its name, and for which `k` takes its turns: what is said to the GETs of it, one
/// after the other, each text for a permit.
async fn fake(turns: &[&[&str]]) -> (Fake, Connection, Arc<Semaphore>) {
    let permits = Arc::new(Semaphore::new(0));
    let turns: Vec<Vec<String>> =
        turns.iter().rev().map(|texts| texts.iter().map(|text| text.to_string()).collect()).collect();
    let turns = std::sync::Mutex::new(turns);
    let said = permits.clone();
    let fake = Fake::start(move |_, line| {
        let words: Vec<&str> = line.split(' ').collect();
        let named = |key: &&str| format!("${}\r\n{key}\r\n", key.len());
        match words[0] {
            "HELLO" => Answer::Say("%0\r\n".into()),
            "PTTL" => Answer::Say(":-1\r\n".into()),
            "GET" if words[1] == "k" => match turns.lock().unwrap().pop() {
                Some(texts) if texts.is_empty() => Answer::HangUp,
                Some(texts) => Answer::Staged(said.clone(), texts),
                None => Answer::Say("+late\r\n".into()),
            },
            "GET" => Answer::Say(named(&words[1])),
            "MGET" => {
                Answer::Say(format!("*{}\r\n{}", words.len() - 1, words[1..].iter().map(named).collect::<String>()))
            }
            _ => oblige(line),
        }
    })
    .await;
    let con = caching(fake.port, CacheMode::All).await;
    (fake, con, permits)
}

fn reader(con: &Connection) -> JoinHandle<RedisResult<String>> {
    let con = con.clone();
    tokio::spawn(async move { con.get("k").await })
}

/// So many who want the same key, all of which wait for one request.
async fn readers(con: &Connection) -> Vec<JoinHandle<RedisResult<String>>> {
    let before = stats(con).merged;
    let readers: Vec<_> = (0..READERS).map(|_| reader(con)).collect();
    until(|| stats(con).merged == before + READERS as u64 - 1).await;
    readers
}

fn gets(fake: &Fake) -> usize {
    fake.seen().iter().filter(|came| came.line == "GET k").count()
}

#[test]
fn the_misses_of_an_mget_travel_as_one_command() {
    run(async {
        let (fake, con, _) = fake(&[]).await;
        assert_eq!(con.get::<_, String>("b").await.unwrap(), "b");
        let got: Vec<String> = con.mget(&["a", "b", "c"]).await.unwrap();
        assert_eq!(got, ["a", "b", "c"]);
        let lines = fake.lines(0);
        assert_eq!(lines[lines.len() - 3..], ["MGET a c", "PTTL a", "PTTL c"]);
        let got: (String, String) = pipe().get("c").get("d").query_async(&con).await.unwrap();
        assert_eq!(got, ("c".into(), "d".into()));
        let lines = fake.lines(0);
        assert_eq!(lines[lines.len() - 2..], ["PTTL d", "GET d"]);
    });
}

#[test]
fn of_concurrent_misses_one_is_sent() {
    run(async {
        let (fake, con, permits) = fake(&[&["+one\r\n"]]).await;
        let mut waiting = readers(&con).await;
        let mut gets_of_both = pipe();
        gets_of_both.get("k").get("y");
        let (single, many, piped) = tokio::join!(
            async {
                permits.add_permits(1);
                waiting.remove(0).await.unwrap()
            },
            con.mget::<_, Vec<String>>(&["x", "k"]),
            gets_of_both.query_async::<(String, String)>(&con),
        );
        assert_eq!(single.unwrap(), "one");
        assert_eq!(many.unwrap(), ["x", "one"]);
        assert_eq!(piped.unwrap(), ("one".into(), "y".into()));
        for one in waiting {
            assert_eq!(one.await.unwrap().unwrap(), "one");
        }
        assert_eq!(con.get::<_, String>("k").await.unwrap(), "one");
        assert_eq!(gets(&fake), 1);
    });
}

#[test]
fn nobody_waits_for_a_read_whose_key_has_changed() {
    run(async {
        let (fake, con, permits) = fake(&[&[NEWS, "+old\r\n"], &["+new\r\n"]]).await;
        let early = readers(&con).await;
        permits.add_permits(1);
        until(|| stats(&con).invalidations == 1).await;
        let late = readers(&con).await;
        permits.add_permits(2);
        for one in early {
            assert_eq!(one.await.unwrap().unwrap(), "old");
        }
        for one in late {
            assert_eq!(one.await.unwrap().unwrap(), "new");
        }
        assert_eq!(con.get::<_, String>("k").await.unwrap(), "new");
        assert_eq!(gets(&fake), 2);
        // What is written here counts as news.
        let () = con.set("k", 1).await.unwrap();
        assert_eq!(con.get::<_, String>("k").await.unwrap(), "late");
    });
}

#[test]
fn who_asks_may_give_up_while_others_wait() {
    run(async {
        let (fake, con, permits) = fake(&[&["+one\r\n"]]).await;
        let asking = reader(&con);
        until(|| gets(&fake) == 1).await;
        let waiting = reader(&con);
        until(|| stats(&con).merged == 1).await;
        asking.abort();
        assert!(asking.await.unwrap_err().is_cancelled());
        permits.add_permits(1);
        assert_eq!(waiting.await.unwrap().unwrap(), "one");
        assert_eq!(gets(&fake), 1, "the reply to what was sent is for all");
        // Given up at whatever moment.
        for times in 1..5 {
            con.flush_cache();
            let (_, value, many) = tokio::join!(
                polled(con.get::<_, String>("k"), times),
                con.get::<_, String>("k"),
                con.mget::<_, Vec<String>>(&["k", "k"])
            );
            assert_eq!(value.unwrap(), "late");
            // MGET may be the one that asks.
            assert!(many.unwrap().iter().all(|value| value == "late" || value == "k"));
        }
    });
}

#[test]
fn all_who_wait_are_told_of_an_error() {
    run(async {
        // The link breaks: what is read again is read once for all.
        let (fake, con, _) = fake(&[&[]]).await;
        let waiting: Vec<_> = (0..READERS).map(|_| reader(&con)).collect();
        for one in waiting {
            assert_eq!(one.await.unwrap().unwrap(), "late");
        }
        assert_eq!(con.get::<_, String>("k").await.unwrap(), "late");
        assert!(gets(&fake) <= 3, "{:?}", fake.seen());

        // An error reply is for all, and not kept.
        let (fake, con, permits) = self::fake(&[&["-WRONGTYPE no\r\n"]]).await;
        let waiting = readers(&con).await;
        permits.add_permits(1);
        for one in waiting {
            assert_eq!(one.await.unwrap().unwrap_err().code(), Some("WRONGTYPE"));
        }
        assert_eq!(con.get::<_, String>("k").await.unwrap(), "late");
        assert_eq!(gets(&fake), 2);

        // No other connection is made: nobody waits for ever.
        let (fake, _, _) = self::fake(&[&[]]).await;
        let config = ConnectionConfig::new().set_cache(CacheConfig::new()).set_backoff(None);
        let con = connect(fake.port, config).await;
        let waiting: Vec<_> = (0..READERS).map(|_| reader(&con)).collect();
        for one in waiting {
            let error = one.await.unwrap().unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::Closed), "{error}");
        }
    });
}

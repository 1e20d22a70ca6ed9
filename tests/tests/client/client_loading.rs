//! A server that loads its data while it is connected: what got LOADING was not executed, and is sent again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::fake::{Answer, Fake, oblige, run};
use onrush::{AsyncCommands, CacheConfig, Client, Connection, ConnectionConfig, Latencies, RedisResult, Script, pipe};
use redis::aio::ConnectionLike as _;

const LOADING: &str = "-LOADING Redis is loading the dataset in memory\r\n";

/// A server that answers the next commands with LOADING, as many as that number says; all others as `answer` does.
async fn loading(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> (Fake, Arc<AtomicUsize>) {
    let left = Arc::new(AtomicUsize::new(0));
    let loads = left.clone();
    let fake = Fake::start(move |_, line| match loads.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)) {
        Ok(_) => Answer::Say(LOADING.into()),
        Err(_) => answer(line),
    })
    .await;
    (fake, left)
}

async fn connect(fake: &Fake, config: ConnectionConfig) -> Connection {
    let client = Client::open(format!("redis://127.0.0.1:{}/", fake.port)).unwrap();
    client.connect_with(config.set_client_info(false)).await.unwrap()
}

#[test]
fn a_pipeline_of_cached_reads_waits_for_it() {
    run(async {
        let answer = |line: &str| match line {
            line if line.starts_with("PTTL") => Answer::Say(":-1\r\n".into()),
            line => oblige(line),
        };
        let (fake, left) = loading(answer).await;
        let con = connect(&fake, ConnectionConfig::new().set_cache(CacheConfig::new())).await;
        left.store(5, Relaxed);
        let (a, b): (String, String) = pipe().get("a").get("b").query_async(&con).await.unwrap();
        assert_eq!((a.as_str(), b.as_str()), ("OK", "OK"));
        con.flush_cache();
        left.store(5, Relaxed);
        let cached = con.cached(std::time::Duration::from_secs(1));
        pipe().get("a").get("b").query_async::<(String, String)>(&cached).await.unwrap();
        left.store(3, Relaxed);
        con.flush_cache();
        let _: String = con.get("a").await.unwrap();
        assert_eq!(left.load(Relaxed), 0);
    });
}

/// Knows the scripts that were loaded since it last began to load its data.
fn scripting() -> impl Fn(&str) -> Answer + Send + Sync {
    let loaded = AtomicUsize::new(0);
    move |line| {
        if line.starts_with("SCRIPT LOAD") {
            loaded.store(1, Relaxed);
        }
        if line.starts_with("EVALSHA") && loaded.load(Relaxed) == 0 {
            return Answer::Say("-NOSCRIPT No matching script. Please use EVAL.\r\n".into());
        }
        oblige(line)
    }
}

#[test]
fn a_script_whose_loading_was_refused_is_loaded_again() {
    run(async {
        for refused in [1, 2, 4] {
            let (fake, left) = loading(scripting()).await;
            let con = connect(&fake, ConnectionConfig::new()).await;
            let script = Script::new("return 1");
            left.store(refused, Relaxed);
            let mut pipeline = pipe();
            pipeline.invoke_script(&script.key("k"));
            let result: RedisResult<(String,)> = pipeline.query_async(&con).await;
            if refused == 1 {
                // The call came through, and found no script; the next one loads it.
                assert_eq!(result.unwrap_err().code(), Some("NOSCRIPT"));
            } else {
                result.unwrap();
            }
            pipeline.query_async::<(String,)>(&con).await.unwrap();
        }
    });
}

#[test]
fn a_transaction_that_was_queued_before_waits_for_it_too() {
    run(async {
        let left = AtomicUsize::new(2);
        let fake = Fake::start(move |_, line| match line {
            "INCRBY n 1" => Answer::Say("+QUEUED\r\n".into()),
            "EXEC" if left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() => {
                let why = "LOADING Redis is loading the dataset in memory";
                Answer::Say(format!("-EXECABORT Transaction discarded because of: {why}\r\n"))
            }
            "EXEC" => Answer::Say("*1\r\n:7\r\n".into()),
            line => oblige(line),
        })
        .await;
        let con = connect(&fake, ConnectionConfig::new()).await;
        let (n,): (i64,) = pipe().atomic().incr("n", 1).query_async(&con).await.unwrap();
        assert_eq!(n, 7);
        // Other reasons are told.
        let fake = Fake::start(|_, line| match line {
            "INCRBY n 1" => Answer::Say("+QUEUED\r\n".into()),
            "EXEC" => Answer::Say("-EXECABORT Transaction discarded because of: OOM command not allowed\r\n".into()),
            line => oblige(line),
        })
        .await;
        let con = connect(&fake, ConnectionConfig::new()).await;
        let error = pipe().atomic().incr("n", 1).exec_async(&con).await.unwrap_err();
        assert_eq!(error.code(), Some("EXECABORT"));
    });
}

#[test]
fn code_for_the_redis_crate_waits_for_it_and_is_observed() {
    run(async {
        let answer = |line: &str| match line {
            "EXEC" => Answer::Say("*2\r\n+OK\r\n-WRONGTYPE Operation\r\n".into()),
            "ECHO wrong" => Answer::Say("-ERR wrong number of arguments\r\n".into()),
            line => oblige(line),
        };
        let (fake, left) = loading(answer).await;
        let latencies = std::sync::Arc::new(Latencies::new());
        let mut con = connect(&fake, ConnectionConfig::new().set_observer(latencies.clone())).await;
        left.store(3, Relaxed);
        redis::cmd("SET").arg("k").arg(1).exec_async(&mut con).await.unwrap();
        left.store(6, Relaxed);
        redis::pipe().cmd("ECHO").arg("a").cmd("ECHO").arg("b").exec_async(&mut con).await.unwrap();
        assert_eq!(left.load(Relaxed), 0);
        // Errors of single commands stay in their places.
        let pipeline = redis::pipe().cmd("ECHO").arg("wrong").cmd("ECHO").arg("b").clone();
        let replies = con.req_packed_commands(&pipeline, 0, 2).await.unwrap();
        assert!(matches!(&replies[..], [redis::Value::ServerError(_), redis::Value::BulkString(b)] if b == b"b"));
        let mut atomic = redis::pipe();
        atomic.atomic().cmd("SET").arg("k").arg(1).cmd("INCR").arg("k");
        left.store(4, Relaxed);
        let replies = con.req_packed_commands(&atomic, 3, 1).await.unwrap();
        let [redis::Value::Array(parts)] = &replies[..] else { panic!("{replies:?}") };
        assert!(matches!(&parts[..], [redis::Value::Okay, redis::Value::ServerError(_)]), "{parts:?}");
        let mut names: Vec<String> = latencies.all().into_iter().map(|(name, _)| name).collect();
        names.sort();
        assert_eq!(names, ["PIPELINE", "SET", "TRANSACTION"]);
    });
}

#[test]
fn code_for_the_redis_crate_learns_why_a_transaction_was_refused() {
    run(async {
        let fake = Fake::start(|_, line| match line {
            "EXEC" => Answer::Say("-EXECABORT Transaction discarded because of previous errors.\r\n".into()),
            "SET k" => Answer::Say("-ERR wrong number of arguments for 'set' command\r\n".into()),
            "GET k" => Answer::Say("+QUEUED\r\n".into()),
            line => oblige(line),
        })
        .await;
        let mut con = connect(&fake, ConnectionConfig::new()).await;
        let mut pipeline = redis::pipe();
        let error = pipeline.atomic().cmd("GET").arg("k").cmd("SET").arg("k").exec_async(&mut con).await.unwrap_err();
        assert!(error.to_string().contains("wrong number of arguments for 'set'"), "{error}");
    });
}

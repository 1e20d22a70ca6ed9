//! What a program may believe: outcomes, its own writes, the age of what is cached, gaps, limits.

use crate::fake::{Answer, Fake, oblige, run};
use onrush::{ConnectionConfig, ErrorKind, Lease, Pipeline, RedisError, RedisResult, cmd};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
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
        let fake = Fake::start(|_, line| {
            let line = if line == "INCRBY n 1" { "INCR n" } else { line };
            transact(line, || Answer::HangUp)
        })
        .await;
        let con = fake.connect(ConnectionConfig::new()).await;
        for connection in 1..4 {
            assert_eq!(con.transaction("n", incr).await, Ok(7));
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

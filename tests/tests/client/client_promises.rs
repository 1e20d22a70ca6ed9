//! What a program may believe: outcomes, its own writes, the age of what is cached, gaps, limits.

use crate::fake::{Answer, Fake, oblige, run};
use onrush::{ConnectionConfig, ErrorKind, Lease, Pipeline, RedisError, RedisResult};

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

//! Leases: how long a call waits for one, and when they go back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::fake::{Answer, Fake, oblige, run};
use onrush::{
    Attempt, Backoff, Client, ConnectionConfig, Credentials, ErrorKind, Fate, Lease, Pipeline, RedisResult, cmd, pipe,
};
use tokio::sync::Semaphore;

/// Executes transactions, and answers each UNWATCH when the test permits it.
async fn executing(unwatch: Arc<Semaphore>) -> Fake {
    Fake::start(move |_, line| match line {
        "EXEC" => Answer::Say("*1\r\n:7\r\n".into()),
        "INCRBY n 1" => Answer::Say("+QUEUED\r\n".into()),
        "UNWATCH" => Answer::Staged(unwatch.clone(), vec!["+OK\r\n".into()]),
        line => oblige(line),
    })
    .await
}

async fn incr(lease: &Lease, pipeline: &mut Pipeline) -> RedisResult<Option<i64>> {
    let outcome: Option<(i64,)> = pipeline.incr("n", 1).query_async(lease).await?;
    Ok(outcome.map(|(n,)| n))
}

#[test]
fn a_transaction_is_told_before_its_lease_goes_back() {
    run(async {
        let unwatch = Arc::new(Semaphore::new(0));
        let mut fake = executing(unwatch.clone()).await;
        let con = fake.connect(ConnectionConfig::new().set_leases_max(1)).await;
        assert_eq!(con.transaction("n", incr).await, Ok(7));
        // The lease goes back when it is as new, and the next transaction gets the same.
        fake.wait_for(1, 5).await;
        unwatch.add_permits(1);
        let attempt = async |lease: Attempt| {
            let outcome: Option<(i64,)> = pipe().atomic().incr("n", 1).query_async(&lease).await?;
            Ok(outcome.map(|(n,)| n))
        };
        assert_eq!(con.transact("n", attempt).await, Ok(7));
        fake.wait_for(1, 10).await;
        assert!(fake.lines(2).is_empty());
    });
}

#[test]
fn a_lease_with_a_request_that_was_given_up_is_closed_behind_its_transaction() {
    run(async {
        let fake = Fake::start(|_, line| if line.starts_with("BLPOP") { Answer::Nothing } else { oblige(line) }).await;
        let con = fake.connect(ConnectionConfig::new().set_leases_max(1)).await;
        for _ in 0..3 {
            let attempt = async |lease: &Lease, _: &mut Pipeline| {
                let mut pop = cmd("BLPOP");
                let pop = pop.arg(("x", 0)).exec_async(lease);
                assert!(tokio::time::timeout(Duration::from_millis(20), pop).await.is_err());
                Ok(Some(()))
            };
            con.transaction("n", attempt).await.unwrap();
        }
    });
}

#[test]
fn all_waits_for_a_lease_together_have_one_limit() {
    run(async {
        // No lease is ready: its connection is never set up.
        let fake = Fake::start(|connection, line| if connection == 0 { oblige(line) } else { Answer::Nothing }).await;
        let config = ConnectionConfig::new()
            .set_response_timeout(Some(Duration::from_millis(400)))
            .set_connection_timeout(Some(Duration::from_millis(300)))
            .set_leases_max(1);
        let client = Client::open(format!("redis://127.0.0.1:{}/1?protocol=resp2", fake.port)).unwrap();
        let con = client.connect_with(config.set_client_info(false)).await.unwrap();
        let started = Instant::now();
        // Each waits for its turn, and then for its connection.
        let pop = |key: &'static str| {
            let con = con.clone();
            async move { cmd("BLPOP").arg((key, 0)).exec_async(&con).await.unwrap_err() }
        };
        let (one, two) = tokio::join!(pop("a"), pop("b"));
        let took = started.elapsed();
        assert!(took < Duration::from_millis(600), "{took:?}");
        for error in [one, two] {
            assert_eq!((error.kind(), error.fate()), (ErrorKind::Timeout, Fate::NotSent), "{error}");
        }
    });
}

#[test]
fn a_lease_that_cannot_be_made_tells_that_nothing_was_sent() {
    run(async {
        let nonsense = |connection: usize, line: &str| match connection {
            0 => oblige(line),
            _ => Answer::Say("?\r\n".into()),
        };
        for backoff in [None, Some(Backoff::new().set_attempts_max(Some(1)))] {
            let fake = Fake::start(nonsense).await;
            let client = Client::open(format!("redis://127.0.0.1:{}/1?protocol=resp2", fake.port)).unwrap();
            let config = ConnectionConfig::new().set_client_info(false).set_backoff(backoff);
            let con = client.connect_with(config).await.unwrap();
            let error = cmd("BLPOP").arg(("x", 0)).exec_async(&con).await.unwrap_err();
            assert_eq!((error.kind(), error.fate()), (ErrorKind::Parse, Fate::NotSent), "{error}");
        }
    });
}

#[test]
fn a_server_that_loads_while_a_lease_is_made_is_waited_for_and_told() {
    run(async {
        let loading = || Answer::Say("-LOADING Redis is loading the dataset in memory\r\n".into());
        let fake = Fake::start(move |connection, line| match (connection, line) {
            (1..=3, "PING") | (5.., _) => loading(),
            (_, line) => oblige(line),
        })
        .await;
        let client = Client::open(format!("redis://127.0.0.1:{}/?protocol=resp2", fake.port)).unwrap();
        let config =
            ConnectionConfig::new().set_client_info(false).set_response_timeout(Some(Duration::from_millis(300)));
        let con = client.connect_with(config).await.unwrap();
        let lease = con.lease().await.unwrap();
        let error = con.lease().await.unwrap_err();
        assert_eq!((error.code(), error.fate()), (Some("LOADING"), Fate::NotSent), "{error}");
        drop(lease);
    });
}

#[test]
fn a_blocking_transaction_counts_its_retries() {
    let (told, heard) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        run(async {
            let fake = Fake::start(|connection, line| match (connection, line) {
                (1 | 2, "WATCH n") => Answer::HangUp,
                (_, line) => oblige(line),
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
    con.transaction("n", |_, _| Ok(Some(()))).unwrap();
    assert_eq!(con.as_async().counters().retries, 2);
    drop(done);
    server.join().unwrap();
}

#[test]
fn a_lease_outlasts_the_runtime_that_takes_it_first() {
    run(async {
        let fake = Fake::obliging().await;
        let con = fake.connect(ConnectionConfig::new()).await;
        let elsewhere = con.clone();
        let ((done, first), (end, ended)) = (tokio::sync::oneshot::channel(), std::sync::mpsc::channel::<()>());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            done.send(runtime.block_on(cmd("BLPOP").arg(("x", 0)).exec_async(&elsewhere))).unwrap();
            // The runtime rests from now on, but goes on existing.
            ended.recv().unwrap_err();
        });
        first.await.unwrap().unwrap();
        let pop = cmd("BLPOP").arg(("y", 0)).to_owned();
        tokio::time::timeout(Duration::from_secs(10), pop.exec_async(&con)).await.expect("a reply").unwrap();
        assert_eq!(fake.lines(1), ["BLPOP x 0", "BLPOP y 0"]);
        drop(end);
    });
}

#[test]
fn a_lease_with_a_login_of_before_is_not_given_again() {
    run(async {
        let mut fake = Fake::obliging().await;
        let (asked, vault) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let (asking, provider) = (asked.clone(), {
            let vault = vault.clone();
            move || {
                let (nth, vault) = (asked.fetch_add(1, Ordering::SeqCst), vault.clone());
                async move {
                    // The lease asks second, and waits for the vault while the password changes.
                    if nth == 1 {
                        vault.acquire().await.expect("never closed").forget();
                    }
                    Ok(Credentials::password(if nth < 2 { "old" } else { "new" }))
                }
            }
        });
        let con = fake.connect(ConnectionConfig::new().set_credentials_provider(provider)).await;
        let lease = tokio::spawn({
            let con = con.clone();
            async move { con.lease().await.map(drop) }
        });
        while asking.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
        con.log_in_again().await.unwrap();
        vault.add_permits(1);
        lease.await.unwrap().unwrap();
        cmd("PING").exec_async(&con.lease().await.unwrap()).await.unwrap();
        fake.wait_for(2, 2).await;
        assert_eq!(fake.lines(0), ["AUTH old", "AUTH new"]);
        assert_eq!((fake.lines(1), fake.lines(2)), (vec!["AUTH old".into()], vec!["AUTH new".into(), "PING".into()]));
    });
}

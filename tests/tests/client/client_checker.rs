//! Tasks of every kind over connections that are cut and held up at random: what each was told is compared with what
//! the server has done. `CHECKER_SECONDS` is how long for each server, 3 if it is not set.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use onrush::{
    AsyncCommands, Attempt, Backoff, CacheConfig, Client, Connection, ConnectionConfig, Fate, Lease, Pipeline,
    RedisError, RedisResult, cmd, pipe,
};
use onrush_tests::rng::Rng;
use onrush_tests::server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

const TASKS: u64 = 60;

/// Passes connections on to a port, and cuts or holds up each after a random number of bytes.
async fn proxy(port: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let near = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        for seed in 0.. {
            let Ok((client, _)) = listener.accept().await else { return };
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
            tokio::spawn(async move {
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                // Both end with the first that does.
                tokio::select! {
                    () = pass(from_client, to_server, Rng::new(seed * 2)) => {}
                    () = pass(from_server, to_client, Rng::new(seed * 2 + 1)) => {}
                }
            });
        }
    });
    near
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut rng: Rng) {
    let mut left = 500 + rng.below(60_000);
    let mut buffer = vec![0; 4 << 10];
    loop {
        let n = from.read(&mut buffer).await.unwrap_or(0);
        let taken = n.min(left);
        if taken == 0 || to.write_all(&buffer[..taken]).await.is_err() {
            return;
        }
        left -= taken;
        if left == 0 {
            return;
        }
        if rng.below(50) == 0 {
            tokio::time::sleep(Duration::from_millis(rng.below(4) as u64)).await;
        }
    }
}

/// How often a task's key was certainly counted up, and how often perhaps.
#[derive(Debug, Default)]
struct Told {
    done: u64,
    unknown: u64,
}

impl Told {
    fn note<T>(&mut self, count: u64, result: &RedisResult<T>) {
        match result {
            Ok(_) => self.done += count,
            Err(error) => self.note_error(count, error),
        }
    }

    fn note_error(&mut self, count: u64, error: &RedisError) {
        assert_ne!(error.fate(), Fate::Replied, "{error}");
        self.unknown += if error.fate() == Fate::Unknown { count } else { 0 };
    }

    fn check(&self, what: &str, value: u64) {
        let most = self.done + self.unknown;
        assert!((self.done..=most).contains(&value), "{what}: {value}, but {self:?}");
    }
}

struct Worker {
    con: Connection,
    key: String,
    list: String,
    rng: Rng,
    counted: Told,
    pushed: Told,
    popped: Told,
}

impl Worker {
    fn incr(&self) -> onrush::Cmd {
        cmd("INCR").arg(&self.key).to_owned()
    }

    /// Does one thing of that kind; the kind's name.
    async fn step(&mut self, kind: usize) -> &'static str {
        let (con, key) = (self.con.clone(), self.key.clone());
        match kind {
            0 => {
                self.counted.note(1, &self.incr().exec_async(&con).await);
                "command"
            }
            1 => {
                let each: Vec<RedisResult<i64>> =
                    pipe().incr(&key, 1).incr(&key, 1).incr(&key, 1).query_each(&con).await.expect("results");
                each.iter().for_each(|result| self.counted.note(1, result));
                "pipeline"
            }
            2 => {
                let result = pipe().atomic().incr(&key, 1).incr(&key, 1).exec_async(&con).await;
                self.counted.note(2, &result);
                "atomic pipeline"
            }
            3 => {
                let own = key.clone();
                let attempt = async move |lease: &Lease, pipeline: &mut Pipeline| {
                    let old: Option<u64> = cmd("GET").arg(&own).query_async(lease).await?;
                    pipeline.set(&own, old.unwrap_or(0) + 1).query_async::<Option<((),)>>(lease).await
                };
                self.counted.note(1, &con.transaction(&key, attempt).await);
                "transaction"
            }
            4 => {
                let key = &key;
                let attempt = |lease: Attempt| async move {
                    let old: Option<u64> = cmd("GET").arg(key).query_async(&lease).await?;
                    pipe().atomic().set(key, old.unwrap_or(0) + 1).query_async::<Option<((),)>>(&lease).await
                };
                self.counted.note(1, &con.transact(key, attempt).await);
                "transact"
            }
            5 => {
                let count = 1 + self.rng.below(200);
                let summary = con.stream((0..count).map(|_| self.incr())).count().await;
                let unknown: u64 = summary.unknown.iter().map(|range| range.end - range.start).sum();
                let not_sent: u64 = summary.not_sent.iter().map(|range| range.end - range.start).sum();
                assert_eq!(summary.errors, unknown + not_sent, "{summary:?}");
                self.counted.done += summary.replies - summary.errors;
                self.counted.unknown += unknown;
                "stream"
            }
            6 => {
                if let Ok(lease) = con.lease().await {
                    self.counted.note(1, &self.incr().exec_async(&lease).await);
                }
                "lease"
            }
            7 => {
                let incr = self.incr();
                let wait = Duration::from_micros(self.rng.below(2_000) as u64);
                match tokio::time::timeout(wait, incr.exec_async(&con)).await {
                    Ok(result) => self.counted.note(1, &result),
                    Err(_) => self.counted.unknown += 1,
                }
                "dropped"
            }
            _ => {
                self.pushed.note(1, &con.rpush::<_, _, ()>(&self.list, 1).await);
                match con.blpop::<_, _, Option<(String, u64)>>(&self.list, 0.005).await {
                    Ok(popped) => self.popped.done += u64::from(popped.is_some()),
                    Err(error) => self.popped.note_error(1, &error),
                }
                "blpop"
            }
        }
    }

    /// Whether the cache shows all that this task has been told.
    async fn check_cached(&self, what: &str) {
        if let Ok(value) = self.con.get::<_, Option<u64>>(&self.key).await {
            self.counted.check(what, value.unwrap_or(0));
        }
    }

    /// Whether the server has done what this task has been told.
    async fn check_all(&self, server: &Connection) {
        let value: Option<u64> = server.get(&self.key).await.expect("a value");
        self.counted.check("at last", value.unwrap_or(0));
        let left: u64 = server.llen(&self.list).await.expect("a length");
        let (least, most) = (self.popped.done, self.popped.done + self.popped.unknown);
        assert!(left + least <= self.pushed.done + self.pushed.unknown, "{left} {:?} {:?}", self.pushed, self.popped);
        assert!(left + most >= self.pushed.done, "{left} {:?} {:?}", self.pushed, self.popped);
    }
}

#[test]
fn everything_that_callers_are_told_is_so() {
    let seconds = std::env::var("CHECKER_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for server in [Server::start_onrush(&["--workers", "2"]), Server::start_redis(&[])] {
            let direct = Client::open(format!("redis://127.0.0.1:{}/", server.port())).expect("a URL");
            let direct = direct.connect().await.expect("a connection");
            let client = Client::open(format!("redis://127.0.0.1:{}/", proxy(server.port()).await)).expect("a URL");
            let backoff = Backoff::new().set_first(Duration::from_millis(1)).set_max(Duration::from_millis(5));
            let config = ConnectionConfig::new().set_cache(CacheConfig::new()).set_backoff(Some(backoff));
            let con = client.connect_with(config).await.expect("a connection");
            let (is_over, steps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
            let work = |task: u64| {
                let (is_over, steps) = (is_over.clone(), steps.clone());
                let (key, list) = (format!("count:{task}"), format!("list:{task}"));
                let (counted, pushed, popped) = Default::default();
                let mut worker = Worker { con: con.clone(), key, list, rng: Rng::new(task), counted, pushed, popped };
                tokio::spawn(async move {
                    while !is_over.load(Relaxed) {
                        let kind = worker.rng.below(9);
                        let limit = Duration::from_secs(20);
                        let step = tokio::time::timeout(limit, worker.step(kind)).await;
                        let what = step.unwrap_or_else(|_| panic!("kind {kind} has no end"));
                        let check = tokio::time::timeout(limit, worker.check_cached(what)).await;
                        check.unwrap_or_else(|_| panic!("the check after {what} has no end"));
                        steps.fetch_add(1, Relaxed);
                    }
                    worker
                })
            };
            let workers: Vec<_> = (0..TASKS).map(work).collect();
            let started = Instant::now();
            while started.elapsed() < Duration::from_secs(seconds) && !workers.iter().any(|worker| worker.is_finished())
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            is_over.store(true, Relaxed);
            let mut ended = Vec::new();
            for worker in workers {
                ended.push(worker.await.expect("no panic"));
            }
            let counters = con.counters();
            drop(con);
            // What may still be on its way to the server was told to be unknown, so it changes no verdict.
            for worker in &ended {
                worker.check_all(&direct).await;
            }
            println!("{} steps, {counters:?}", steps.load(Relaxed));
            assert!(counters.reconnects > 0 && steps.load(Relaxed) > TASKS, "{counters:?}");
        }
    });
}

//! One measurement of one Rust client: `onrush-clients CLIENT CASE URL`. Prints commands a second and the process's CPU
//! time for each command in microseconds.

use std::pin::Pin;
use std::time::{Duration, Instant};

/// Commands of a pipeline, and pipelines one after the other.
const PIPELINE: usize = 1_000;
const PIPELINES: usize = 1_000;
const STREAM: usize = 1_000_000;
const TASKS: usize = 256;
const CALLS: usize = 4_000;

/// What all threads of this process have used.
fn cpu() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").expect("a /proc");
    let one = |path: std::path::PathBuf| -> Option<u64> {
        std::fs::read_to_string(path.join("schedstat")).ok()?.split_whitespace().next()?.parse().ok()
    };
    Duration::from_nanos(tasks.flatten().filter_map(|task| one(task.path())).sum())
}

async fn together(tasks: impl Iterator<Item = tokio::task::JoinHandle<()>>) {
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("no panic");
    }
}

/// The cases of a client; each returns how many commands it has sent.
trait Bench: Sync {
    fn pipelines(&self) -> Pin<Box<dyn Future<Output = usize> + '_>>;
    fn stream(&self) -> Pin<Box<dyn Future<Output = usize> + '_>>;
    fn tasks(&self) -> Pin<Box<dyn Future<Output = usize> + '_>>;
}

/// Pipelines over many keys, which a cluster has on several nodes: only our client is measured so.
async fn keys(con: &impl onrush::ConnectionLike) -> usize {
    for round in 0..PIPELINES {
        let mut pipeline = onrush::Pipeline::with_capacity(PIPELINE);
        (0..PIPELINE)
            .for_each(|n| _ = pipeline.cmd("SET").arg(format!("key:{}", round * PIPELINE + n)).arg(n).ignore());
        pipeline.exec_async(con).await.expect("no error");
    }
    PIPELINES * PIPELINE
}

struct Onrush(onrush::Connection);

impl Bench for Onrush {
    fn pipelines(&self) -> Pin<Box<dyn Future<Output = usize> + '_>> {
        Box::pin(async {
            for round in 0..PIPELINES {
                let mut pipeline = onrush::Pipeline::with_capacity(PIPELINE);
                (0..PIPELINE).for_each(|n| _ = pipeline.cmd("SET").arg("key").arg(round + n).ignore());
                pipeline.exec_async(&self.0).await.expect("no error");
            }
            PIPELINES * PIPELINE
        })
    }

    fn stream(&self) -> Pin<Box<dyn Future<Output = usize> + '_>> {
        Box::pin(async {
            let mut left = STREAM;
            let next = move |out: &mut onrush::Pipeline| {
                let goes_on = left > 0;
                if goes_on {
                    left -= 1;
                    out.cmd("INCR").arg("counter");
                }
                goes_on
            };
            self.0.stream_fn(next).count().await.into_result().expect("no error") as usize
        })
    }

    fn tasks(&self) -> Pin<Box<dyn Future<Output = usize> + '_>> {
        Box::pin(async {
            let task = |task: usize| {
                let con = self.0.clone();
                tokio::spawn(async move {
                    for n in 0..CALLS {
                        onrush::cmd("SET").arg(task).arg(n).exec_async(&con).await.expect("no error");
                    }
                })
            };
            together((0..TASKS).map(task)).await;
            TASKS * CALLS
        })
    }
}

struct RedisRs(redis::aio::MultiplexedConnection);

impl Bench for RedisRs {
    fn pipelines(&self) -> Pin<Box<dyn Future<Output = usize> + '_>> {
        Box::pin(async {
            let mut con = self.0.clone();
            for round in 0..PIPELINES {
                let mut pipeline = redis::Pipeline::with_capacity(PIPELINE);
                (0..PIPELINE).for_each(|n| _ = pipeline.cmd("SET").arg("key").arg(round + n).ignore());
                pipeline.exec_async(&mut con).await.expect("no error");
            }
            PIPELINES * PIPELINE
        })
    }

    /// It has no streams: pipelines, whose replies are read.
    fn stream(&self) -> Pin<Box<dyn Future<Output = usize> + '_>> {
        Box::pin(async {
            let mut con = self.0.clone();
            for _ in 0..STREAM / PIPELINE {
                let mut pipeline = redis::Pipeline::with_capacity(PIPELINE);
                (0..PIPELINE).for_each(|_| _ = pipeline.cmd("INCR").arg("counter"));
                let replies: Vec<i64> = pipeline.query_async(&mut con).await.expect("no error");
                assert_eq!(replies.len(), PIPELINE);
            }
            STREAM
        })
    }

    fn tasks(&self) -> Pin<Box<dyn Future<Output = usize> + '_>> {
        Box::pin(async {
            let task = |task: usize| {
                let mut con = self.0.clone();
                tokio::spawn(async move {
                    for n in 0..CALLS {
                        redis::cmd("SET").arg(task).arg(n).exec_async(&mut con).await.expect("no error");
                    }
                })
            };
            together((0..TASKS).map(task)).await;
            TASKS * CALLS
        })
    }
}

struct Fred(fred::clients::Client);

impl Bench for Fred {
    fn pipelines(&self) -> Pin<Box<dyn Future<Output = usize> + '_>> {
        use fred::interfaces::KeysInterface;
        Box::pin(async {
            for round in 0..PIPELINES {
                let pipeline = self.0.pipeline();
                for n in 0..PIPELINE {
                    let () = pipeline.set("key", (round + n) as i64, None, None, false).await.expect("queued");
                }
                let replies: Vec<fred::types::Value> = pipeline.all().await.expect("no error");
                assert_eq!(replies.len(), PIPELINE);
            }
            PIPELINES * PIPELINE
        })
    }

    /// It has no streams: pipelines, whose replies are read.
    fn stream(&self) -> Pin<Box<dyn Future<Output = usize> + '_>> {
        use fred::interfaces::KeysInterface;
        Box::pin(async {
            for _ in 0..STREAM / PIPELINE {
                let pipeline = self.0.pipeline();
                for _ in 0..PIPELINE {
                    let () = pipeline.incr("counter").await.expect("queued");
                }
                let replies: Vec<i64> = pipeline.all().await.expect("no error");
                assert_eq!(replies.len(), PIPELINE);
            }
            STREAM
        })
    }

    fn tasks(&self) -> Pin<Box<dyn Future<Output = usize> + '_>> {
        use fred::interfaces::KeysInterface;
        Box::pin(async {
            let task = |task: usize| {
                let con = self.0.clone();
                tokio::spawn(async move {
                    let key = task.to_string();
                    for n in 0..CALLS {
                        let () = con.set(key.as_str(), n as i64, None, None, false).await.expect("no error");
                    }
                })
            };
            together((0..TASKS).map(task)).await;
            TASKS * CALLS
        })
    }
}

async fn connect(client: &str, url: &str) -> Box<dyn Bench> {
    match client {
        "onrush" => Box::new(Onrush(onrush_client(url).await)),
        "redis-rs" => {
            // On a busy machine the default of half a second is too short.
            let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(60)));
            let client = redis::Client::open(url).expect("a URL");
            let con = client.get_multiplexed_async_connection_with_config(&config).await;
            Box::new(RedisRs(con.expect("a connection")))
        }
        "fred" => {
            use fred::interfaces::ClientLike;
            let config = fred::types::config::Config::from_url(url).expect("a URL");
            let client = fred::types::Builder::from_config(config).build().expect("a client");
            client.init().await.expect("a connection");
            Box::new(Fred(client))
        }
        other => panic!("no client is named {other}"),
    }
}

/// Runs a case, which returns how many commands it has sent, and prints what it has cost.
async fn measure(case: impl Future<Output = usize>) {
    let (before, started) = (cpu(), Instant::now());
    let count = case.await as f64;
    let micros = (cpu() - before).as_secs_f64() * 1e6 / count;
    println!("{:.0} {micros:.4}", count / started.elapsed().as_secs_f64());
}

async fn onrush_client(url: &str) -> onrush::Connection {
    onrush::Client::open(url).expect("a URL").connect().await.expect("a connection")
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [client, case, url] = &args[..] else { panic!("usage: onrush-clients CLIENT CASE URL") };
    match (client.as_str(), case.as_str()) {
        ("onrush", "keys") => measure(keys(&onrush_client(url).await)).await,
        ("onrush-cluster", "keys") => {
            let client = onrush::ClusterClient::open(url.as_str()).expect("a URL");
            measure(keys(&client.connect().await.expect("a connection"))).await;
        }
        (client, "pipelines") => measure(connect(client, url).await.pipelines()).await,
        (client, "stream") => measure(connect(client, url).await.stream()).await,
        (client, "tasks") => measure(connect(client, url).await.tasks()).await,
        (_, other) => panic!("no case is named {other}"),
    }
}

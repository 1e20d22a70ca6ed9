//! Measures what client-side caching saves: 100,000 reads of 1,000 hot keys with and without it, in turns, by GET, by
//! MGET, by pipelines of GETs; and by many tasks that all read a key that has just changed.
//!
//! `cargo run --release -p onrush --example client_cache -- redis://127.0.0.1:6379/`

use std::time::{Duration, Instant};

use onrush::{AsyncCommands, CacheConfig, Client, Connection, ConnectionConfig, cmd, pipe};

const ROUNDS: usize = 5;
const KEYS: usize = 1_000;
const GETS: usize = 100_000;
const TASKS: usize = 64;
/// Keys of an MGET, and GETs of a pipeline.
const TOGETHER: usize = 100;
/// How often the key that all tasks read changes.
const CHANGES: usize = 1_000;

/// How keys are read.
#[derive(Clone, Copy, Debug)]
enum Reads {
    Get,
    Mget,
    Pipeline,
}

impl Reads {
    /// Reads the keys of one call, beginning with `first`.
    async fn read(self, con: &Connection, first: usize) -> onrush::RedisResult<()> {
        let key = |n: usize| format!("hot:{}", (first + n * 7) % KEYS);
        match self {
            Reads::Get => con.get::<_, i64>(key(0)).await.map(drop),
            Reads::Mget => con.mget::<_, Vec<i64>>((0..TOGETHER).map(key).collect::<Vec<_>>()).await.map(drop),
            Reads::Pipeline => {
                let mut pipeline = pipe();
                (0..TOGETHER).for_each(|n| _ = pipeline.get(key(n)));
                pipeline.query_async::<Vec<i64>>(con).await.map(drop)
            }
        }
    }

    fn len(self) -> usize {
        if matches!(self, Reads::Get) { 1 } else { TOGETHER }
    }
}

/// The CPU time of this process.
fn client_cpu() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").expect("a /proc");
    let one = |path: std::path::PathBuf| -> Option<u64> {
        std::fs::read_to_string(path.join("schedstat")).ok()?.split_whitespace().next()?.parse().ok()
    };
    Duration::from_nanos(tasks.flatten().filter_map(|task| one(task.path())).sum())
}

/// The CPU time of the server, as it reports it.
async fn server_cpu(con: &Connection) -> Duration {
    let info: String = cmd("INFO").arg("cpu").query_async(con).await.expect("INFO");
    let of = |name: &str| -> f64 {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|seconds| seconds.trim().parse().ok()).unwrap_or(f64::NAN)
    };
    Duration::from_secs_f64(of("used_cpu_user") + of("used_cpu_sys"))
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Milliseconds of wall clock, of the client's CPU and of the server's.
async fn run(con: &Connection, reads: Reads, tasks: usize) -> [f64; 3] {
    let (client, server, started) = (client_cpu(), server_cpu(con).await, Instant::now());
    let readers: Vec<_> = (0..tasks)
        .map(|task| {
            let con = con.clone();
            tokio::spawn(async move {
                for n in 0..GETS / tasks / reads.len() {
                    reads.read(&con, n * 7 + task * 31).await.expect("values");
                }
            })
        })
        .collect();
    for reader in readers {
        reader.await.expect("done");
    }
    let wall = started.elapsed();
    [wall, client_cpu() - client, server_cpu(con).await - server].map(|time| time.as_secs_f64() * 1e3)
}

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() -> onrush::RedisResult<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379/".into());
    let client = Client::open(url)?;
    let plain = client.connect().await?;
    let values: Vec<(String, usize)> = (0..KEYS).map(|key| (format!("hot:{key}"), key)).collect();
    let () = plain.mset(&values).await?;
    for (reads, tasks) in [(Reads::Get, 1), (Reads::Get, TASKS), (Reads::Mget, 1), (Reads::Pipeline, 1)] {
        let mut figures: [[Vec<f64>; 3]; 2] = Default::default();
        let mut stats = Default::default();
        for _ in 0..ROUNDS {
            let cached = client.connect_with(ConnectionConfig::new().set_cache(CacheConfig::new())).await?;
            for (con, all) in [&plain, &cached].into_iter().zip(&mut figures) {
                for (figure, value) in all.iter_mut().zip(run(con, reads, tasks).await) {
                    figure.push(value);
                }
            }
            stats = cached.cache_stats().unwrap_or_default();
        }
        println!("{GETS} reads ({reads:?}) of {KEYS} keys by {tasks} tasks, median of {ROUNDS} rounds in turns:");
        for (name, [wall, client, server]) in ["without", "with"].into_iter().zip(&mut figures) {
            let (wall, client, server) = (median(wall), median(client), median(server));
            println!("{name:>8} cache: {wall:.0} ms, CPU of the client {client:.0} ms, of the server {server:.0} ms");
        }
        println!("{:>15} {stats:?}", "");
    }
    crowd(&client, &plain).await
}

/// Many tasks read one key each time it has changed.
async fn crowd(client: &Client, writer: &Connection) -> onrush::RedisResult<()> {
    let con = client.connect_with(ConnectionConfig::new().set_cache(CacheConfig::new())).await?;
    for n in 0..CHANGES {
        let () = writer.set("hot:0", n).await?;
        cmd("PING").exec_async(&con).await?;
        let readers: Vec<_> = (0..TASKS)
            .map(|_| {
                let con = con.clone();
                tokio::spawn(async move { con.get::<_, i64>("hot:0").await })
            })
            .collect();
        for reader in readers {
            reader.await.expect("done")?;
        }
    }
    let stats = con.cache_stats().unwrap_or_default();
    println!(
        "{TASKS} tasks read one key after each of {CHANGES} changes: {} GETs sent, {stats:?}",
        stats.misses - stats.merged
    );
    Ok(())
}

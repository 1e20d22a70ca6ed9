//! What client-side caching saves: 100,000 GETs of 1,000 hot keys with and without it, in turns.
//!
//! `cargo run --release -p onrush --example client_cache -- redis://127.0.0.1:6379/`

use std::time::{Duration, Instant};

use onrush::{AsyncCommands, CacheConfig, Client, Connection, ConnectionConfig, cmd};

const ROUNDS: usize = 5;
const KEYS: usize = 1_000;
const GETS: usize = 100_000;
const TASKS: usize = 64;

/// The CPU time of this process.
fn client_cpu() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").expect("a /proc");
    let one = |path: std::path::PathBuf| -> Option<u64> {
        std::fs::read_to_string(path.join("schedstat")).ok()?.split_whitespace().next()?.parse().ok()
    };
    Duration::from_nanos(tasks.flatten().filter_map(|task| one(task.path())).sum())
}

/// The CPU time of the server, as it tells itself.
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
async fn run(con: &Connection, tasks: usize) -> [f64; 3] {
    let (client, server, started) = (client_cpu(), server_cpu(con).await, Instant::now());
    let readers: Vec<_> = (0..tasks)
        .map(|task| {
            let con = con.clone();
            tokio::spawn(async move {
                for n in 0..GETS / tasks {
                    let key = (n * 7 + task * 31) % KEYS;
                    let _: i64 = con.get(format!("hot:{key}")).await.expect("a value");
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
    for tasks in [1, TASKS] {
        let mut figures: [[Vec<f64>; 3]; 2] = Default::default();
        let mut stats = Default::default();
        for _ in 0..ROUNDS {
            let cached = client.connect_with(ConnectionConfig::new().set_cache(CacheConfig::new())).await?;
            for (con, all) in [&plain, &cached].into_iter().zip(&mut figures) {
                for (figure, value) in all.iter_mut().zip(run(con, tasks).await) {
                    figure.push(value);
                }
            }
            stats = cached.cache_stats().unwrap_or_default();
        }
        println!("{GETS} GETs of {KEYS} keys by {tasks} tasks, median of {ROUNDS} rounds in turns:");
        for (name, [wall, client, server]) in ["without", "with"].into_iter().zip(&mut figures) {
            let (wall, client, server) = (median(wall), median(client), median(server));
            println!("{name:>8} cache: {wall:.0} ms, CPU of the client {client:.0} ms, of the server {server:.0} ms");
        }
        println!("{:>15} {stats:?}", "");
    }
    Ok(())
}

//! Measures where several connections behind one handle pay: commands a second of many tasks, by the number of
//! connections, tasks and bytes of each value.
//!
//! `cargo run --release -p onrush --example many_connections -- redis://127.0.0.1:6379/`

use std::time::{Duration, Instant};

use onrush::{Client, ConnectionConfig, cmd};

const ROUNDS: usize = 3;
const ROUND: Duration = Duration::from_millis(500);

/// Commands a second of so many tasks that each set and get a value of that size.
async fn rate(client: &Client, connections: usize, tasks: usize, len: usize) -> f64 {
    let handle = client.connect_many(connections, ConnectionConfig::new()).await.expect("connections");
    let started = Instant::now();
    let run = |task: usize| {
        let con = handle.clone();
        tokio::spawn(async move {
            let value = "x".repeat(len);
            let mut count = 0;
            while started.elapsed() < ROUND {
                cmd("SET").arg(task).arg(&value).exec_async(&con).await.expect("SET");
                cmd("GET").arg(task).exec_async(&con).await.expect("GET");
                count += 2;
            }
            count
        })
    };
    let running: Vec<_> = (0..tasks).map(run).collect();
    let mut count = 0;
    for task in running {
        count += task.await.expect("a task");
    }
    count as f64 / started.elapsed().as_secs_f64()
}

#[tokio::main]
async fn main() -> onrush::RedisResult<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379/".into());
    let client = Client::open(url)?;
    println!("| tasks | bytes | 1 connection | 2 | 4 |\n|---:|---:|---:|---:|---:|");
    for (tasks, len) in [(1, 10), (16, 10), (256, 10), (2_048, 10), (256, 1_000), (256, 16_000)] {
        let mut best = [0f64; 3];
        for _ in 0..ROUNDS {
            for (best, connections) in best.iter_mut().zip([1, 2, 4]) {
                *best = best.max(rate(&client, connections, tasks, len).await);
            }
        }
        let [one, two, four] = best;
        println!("| {tasks} | {len} | {one:.0}/s | {:.2} | {:.2} |", two / one, four / one);
    }
    Ok(())
}

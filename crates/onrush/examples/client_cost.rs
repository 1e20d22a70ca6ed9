//! Measures what a client costs: CPU per command of explicit pipelines and throughput of many tasks on one connection,
//! for this crate and the `redis` crate in turns; and the peak memory of a long stream.
//!
//! `cargo run --release -p onrush --example client_cost -- redis://127.0.0.1:6379/`

use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
const PIPELINE: usize = 1_000;
const PIPELINES: usize = 1_000;
const TASKS: usize = 256;
const CALLS: usize = 2_000;

fn cpu() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").expect("a /proc");
    let one = |path: std::path::PathBuf| -> Option<u64> {
        std::fs::read_to_string(path.join("schedstat")).ok()?.split_whitespace().next()?.parse().ok()
    };
    Duration::from_nanos(tasks.flatten().filter_map(|task| one(task.path())).sum())
}

fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1024.0
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn ours_pipelines(con: &onrush::Connection) -> f64 {
    let before = cpu();
    for round in 0..PIPELINES {
        let mut pipe = onrush::Pipeline::with_capacity(PIPELINE);
        for n in 0..PIPELINE {
            pipe.cmd("SET").arg("key").arg(round + n).ignore();
        }
        pipe.exec_async(con).await.expect("no error");
    }
    (cpu() - before).as_secs_f64() * 1e6 / (PIPELINE * PIPELINES) as f64
}

async fn theirs_pipelines(con: &mut redis::aio::MultiplexedConnection) -> f64 {
    let before = cpu();
    for round in 0..PIPELINES {
        let mut pipe = redis::Pipeline::with_capacity(PIPELINE);
        for n in 0..PIPELINE {
            pipe.cmd("SET").arg("key").arg(round + n).ignore();
        }
        pipe.exec_async(con).await.expect("no error");
    }
    (cpu() - before).as_secs_f64() * 1e6 / (PIPELINE * PIPELINES) as f64
}

/// Commands a second, and the client's CPU for each in microseconds.
async fn ours_tasks(con: &onrush::Connection) -> (f64, f64) {
    let (before, started) = (cpu(), Instant::now());
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let con = con.clone();
            tokio::spawn(async move {
                for n in 0..CALLS {
                    onrush::cmd("SET").arg(task).arg(n).exec_async(&con).await.expect("no error");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("done");
    }
    let (seconds, count) = (started.elapsed().as_secs_f64(), (TASKS * CALLS) as f64);
    (count / seconds, (cpu() - before).as_secs_f64() * 1e6 / count)
}

async fn theirs_tasks(con: &redis::aio::MultiplexedConnection) -> (f64, f64) {
    let (before, started) = (cpu(), Instant::now());
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let mut con = con.clone();
            tokio::spawn(async move {
                for n in 0..CALLS {
                    redis::cmd("SET").arg(task).arg(n).exec_async(&mut con).await.expect("no error");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("done");
    }
    let (seconds, count) = (started.elapsed().as_secs_f64(), (TASKS * CALLS) as f64);
    (count / seconds, (cpu() - before).as_secs_f64() * 1e6 / count)
}

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() -> onrush::RedisResult<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379/".into());
    let con = onrush::Client::open(url.as_str())?.connect().await?;
    let count: u64 = std::env::args().nth(2).and_then(|count| count.parse().ok()).unwrap_or(10_000_000);
    let before = peak_mb();
    let mut left = count;
    let (cpu_before, started) = (cpu(), Instant::now());
    let stream = con.stream_fn(move |out| {
        let goes_on = left > 0;
        if goes_on {
            left -= 1;
            out.cmd("INCR").arg("counter");
        }
        goes_on
    });
    assert_eq!(stream.count().await.into_result()?, count);
    let seconds = started.elapsed().as_secs_f64();
    let micros = (cpu() - cpu_before).as_secs_f64() * 1e6 / count as f64;
    println!(
        "stream of {count} INCRs: {seconds:.2} s, client CPU per INCR {micros:.3} us, peak memory {:.1} MB ({before:.1} MB before)",
        peak_mb()
    );

    let client = redis::Client::open(url.as_str()).expect("a URL");
    // On a busy machine the crate's default of half a second is too short.
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(60)));
    let mut other = client.get_multiplexed_async_connection_with_config(&config).await.expect("a connection");
    let (mut pipelines, mut tasks) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    for _ in 0..ROUNDS {
        pipelines.0.push(ours_pipelines(&con).await);
        pipelines.1.push(theirs_pipelines(&mut other).await);
        tasks.0.push(ours_tasks(&con).await);
        tasks.1.push(theirs_tasks(&other).await);
    }
    let (ours, theirs) = (median(pipelines.0), median(pipelines.1));
    println!(
        "client CPU per SET, pipelines of {PIPELINE}: {ours:.3} us, redis crate {theirs:.3} us, ratio {:.3}",
        ours / theirs
    );
    let (ours, ours_cpu): (Vec<f64>, Vec<f64>) = tasks.0.into_iter().unzip();
    let (theirs, theirs_cpu): (Vec<f64>, Vec<f64>) = tasks.1.into_iter().unzip();
    let (ours, theirs, ours_cpu, theirs_cpu) = (median(ours), median(theirs), median(ours_cpu), median(theirs_cpu));
    println!(
        "{TASKS} tasks on one connection: {ours:.0} commands/s, redis crate {theirs:.0}, ratio {:.2}",
        ours / theirs
    );
    println!("client CPU per command of them: {ours_cpu:.3} us, redis crate {theirs_cpu:.3} us");
    Ok(())
}

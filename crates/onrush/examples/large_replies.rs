//! Measures the memory of a stream of large replies whose reader is slow: the client's peak, and the most output that
//! the server keeps for it.
//!
//! `cargo run --release -p onrush --example large_replies -- redis://127.0.0.1:6379/ 20000 1000000`

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use onrush::{AsyncCommands, RedisResult, Value};

const KEYS: u64 = 100;
/// How the reader is slow: a short rest after so many bytes, and a long one a few times.
const BYTES_PER_REST: u64 = 2_000_000;
const REST: Duration = Duration::from_millis(1);
const LONG_RESTS: u64 = 4;
const LONG_REST: Duration = Duration::from_secs(2);
const WATCH_EVERY: Duration = Duration::from_millis(5);

fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1024.0
}

/// Replies that wait in the server for the client with this id, in bytes: now, or the most so far if the server says so.
async fn output_bytes(con: &onrush::Connection, id: i64) -> RedisResult<u64> {
    let line: String = onrush::cmd("CLIENT").arg("LIST").arg("ID").arg(id).query_async(con).await?;
    let field = |name: &str| line.trim_end().split(' ').find_map(|field| field.strip_prefix(name)?.parse::<u64>().ok());
    Ok(field("omem=").max(field("rbuf-max=")).unwrap_or(0))
}

async fn watch(con: onrush::Connection, id: i64, peak: Arc<AtomicU64>) -> RedisResult<()> {
    loop {
        peak.fetch_max(output_bytes(&con, id).await?, Ordering::Relaxed);
        tokio::time::sleep(WATCH_EVERY).await;
    }
}

async fn read_slowly(con: &onrush::Connection, value_bytes: u64, count: u64) -> RedisResult<()> {
    let mut asked = 0;
    let mut replies = con.stream_fn(move |out| {
        let goes_on = asked < count;
        if goes_on {
            out.cmd("GET").arg(asked % KEYS);
            asked += 1;
        }
        goes_on
    });
    let (mut taken, mut unrested) = (0, 0);
    while let Some(reply) = replies.next().await {
        assert!(matches!(reply?, Value::BulkString(bytes) if bytes.len() as u64 == value_bytes));
        taken += 1;
        unrested += value_bytes;
        if taken % (count / LONG_RESTS).max(1) == count / LONG_RESTS / 2 {
            tokio::time::sleep(LONG_REST).await;
        } else if unrested >= BYTES_PER_REST {
            unrested = 0;
            tokio::time::sleep(REST).await;
        }
    }
    assert_eq!(taken, count);
    Ok(())
}

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() -> RedisResult<()> {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or_else(|| "redis://127.0.0.1:6379/".into());
    let value_bytes: u64 = args.next().and_then(|bytes| bytes.parse().ok()).unwrap_or(20_000);
    let count: u64 = args.next().and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    let client = onrush::Client::open(url.as_str())?;
    let (con, watcher) = (client.connect().await?, client.connect().await?);
    for key in 0..KEYS {
        let command = onrush::cmd("EVAL").arg("return redis.call('SET', KEYS[1], string.rep('x', ARGV[1]))").to_owned();
        command.clone().arg(1).arg(key).arg(value_bytes).exec_async(&con).await?;
    }
    let id: i64 = onrush::cmd("CLIENT").arg("ID").query_async(&con).await?;
    let (peak, before, started) = (Arc::new(AtomicU64::new(0)), peak_mb(), Instant::now());
    let watching = tokio::spawn(watch(watcher, id, peak.clone()));
    read_slowly(&con, value_bytes, count).await?;
    assert!(!watching.is_finished(), "the watcher failed");
    peak.fetch_max(output_bytes(&con, id).await?, Ordering::Relaxed);
    println!(
        "{count} GETs of {value_bytes} bytes in {:.1} s: peak memory {:.1} MB ({before:.1} MB before), most output in the \
         server {:.1} MB",
        started.elapsed().as_secs_f64(),
        peak_mb(),
        peak.load(Ordering::Relaxed) as f64 / (1 << 20) as f64
    );
    let () = con.del((0..KEYS).collect::<Vec<_>>()).await?;
    Ok(())
}

//! Measures what a pipeline costs the client that goes to the nodes of a cluster: CPU time for each command of pipelines
//! of 1,000, for each of the URLs in turns: the least and the median of 41 rounds.
//!
//! `cargo run --release -p onrush --example cluster_cost -- redis://127.0.0.1:7000 redis-cluster://127.0.0.1:7000
//! redis-cluster://127.0.0.1:7001`: one server, a cluster of it alone, and one of three nodes.

use std::time::Duration;

use onrush::{AnyConnection, Client, ClusterClient, Pipeline};

const ROUNDS: usize = 41;
const PIPELINE: usize = 1_000;
const PIPELINES: usize = 60;

/// CPU time of all threads so far.
fn cpu() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").expect("a /proc");
    let one = |path: std::path::PathBuf| -> Option<u64> {
        std::fs::read_to_string(path.join("schedstat")).ok()?.split_whitespace().next()?.parse().ok()
    };
    Duration::from_nanos(tasks.flatten().filter_map(|task| one(task.path())).sum())
}

/// Microseconds of CPU for each command.
async fn measure(con: &AnyConnection, is_read: bool) -> f64 {
    let before = cpu();
    for round in 0..PIPELINES {
        let mut pipe = Pipeline::with_capacity(PIPELINE);
        for n in 0..PIPELINE {
            let key = (round * 7 + n) % 100_000 + 10_000_000;
            if is_read {
                pipe.cmd("GET").arg(key).ignore()
            } else {
                pipe.cmd("SET").arg(key).arg(n).ignore()
            };
        }
        pipe.exec_async(con).await.expect("no error");
    }
    (cpu() - before).as_secs_f64() * 1e6 / (PIPELINE * PIPELINES) as f64
}

async fn connect(url: &str) -> AnyConnection {
    if url.contains("cluster://") {
        AnyConnection::new(ClusterClient::open(url).expect("a URL").connect().await.expect("a cluster"))
    } else {
        AnyConnection::new(Client::open(url).expect("a URL").connect().await.expect("a server"))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let urls: Vec<String> = std::env::args().skip(1).collect();
    let mut connections = Vec::new();
    for url in &urls {
        connections.push(connect(url).await);
    }
    let mut all = vec![(Vec::new(), Vec::new()); urls.len()];
    for _ in 0..ROUNDS {
        for (con, (writes, reads)) in connections.iter().zip(&mut all) {
            writes.push(measure(con, false).await);
            reads.push(measure(con, true).await);
        }
    }
    for (url, (writes, reads)) in urls.iter().zip(&mut all) {
        // The least is what other programs on the machine have disturbed least.
        writes.sort_by(f64::total_cmp);
        reads.sort_by(f64::total_cmp);
        let (set, get) = ((writes[0], writes[ROUNDS / 2]), (reads[0], reads[ROUNDS / 2]));
        println!("{url}: SET {:.3} us (median {:.3}), GET {:.3} us (median {:.3})", set.0, set.1, get.0, get.1);
    }
}

//! A queue that loses no jobs: a stream with a consumer group. A worker acknowledges the jobs it has done; another
//! worker claims the jobs that a dead worker has left.
//!
//! `cargo run -p onrush --example queue -- redis://127.0.0.1:6379/`

use std::collections::BTreeSet;

use onrush::streams::{StreamAutoClaimReply, StreamId, StreamReadOptions, StreamReadReply};
use onrush::{AsyncCommands, Client, Connection, RedisResult, pipe};

const JOBS: u32 = 200;
const QUEUE: &str = "jobs";
const GROUP: &str = "workers";
/// A worker that is silent for this long counts as dead. In production: longer than the longest job.
const DEAD_MS: u64 = 0;

/// Does the jobs and acknowledges all of them in one pipeline.
async fn work(con: &Connection, jobs: Vec<StreamId>) -> RedisResult<Vec<u32>> {
    let mut done = Vec::new();
    let mut acks = pipe();
    for job in jobs {
        done.extend(job.get::<u32>("number"));
        acks.xack(QUEUE, GROUP, job.id).ignore();
    }
    acks.exec_async(con).await?;
    Ok(done)
}

/// Works until no job comes for a while.
async fn worker(con: Connection, name: &'static str) -> RedisResult<Vec<u32>> {
    let mut done = Vec::new();
    let options = StreamReadOptions::new().count(10).block(200);
    loop {
        let read: StreamReadReply = con.xreadgroup_options(GROUP, name, [QUEUE], [">"], options).await?;
        let Some(jobs) = read.keys.into_iter().next() else { return Ok(done) };
        done.extend(work(&con, jobs.ids).await?);
    }
}

/// Takes over jobs that other workers have left.
async fn sweep(con: &Connection) -> RedisResult<Vec<u32>> {
    let (mut done, mut start) = (Vec::new(), "0-0".to_owned());
    loop {
        let claimed: StreamAutoClaimReply = con.xautoclaim(QUEUE, GROUP, "sweeper", DEAD_MS, &start).await?;
        done.extend(work(con, claimed.claimed).await?);
        start = claimed.next_stream_id;
        if start == "0-0" {
            return Ok(done);
        }
    }
}

/// Fills the queue and starts workers, one of which dies.
pub async fn run(url: &str) -> RedisResult<()> {
    let con = Client::open(url)?.connect().await?;
    let () = con.del(QUEUE).await?;
    let () = con.xgroup_create_mkstream(QUEUE, GROUP, 0).await?;
    let mut jobs = pipe();
    (0..JOBS).for_each(|number| _ = jobs.xadd(QUEUE, "*", ("number", number)).ignore());
    jobs.exec_async(&con).await?;

    // This worker takes five jobs and dies.
    let five = StreamReadOptions::new().count(5);
    let _: StreamReadReply = con.xreadgroup_options(GROUP, "unlucky", [QUEUE], [">"], five).await?;

    let (one, two) = tokio::join!(worker(con.clone(), "one"), worker(con.clone(), "two"));
    let (one, two, swept) = (one?, two?, sweep(&con).await?);
    println!("one did {}, two did {}, {} were left by a dead worker", one.len(), two.len(), swept.len());
    let done: BTreeSet<u32> = one.into_iter().chain(two).chain(swept).collect();
    assert!(done.into_iter().eq(0..JOBS));
    Ok(())
}

#[tokio::main]
async fn main() -> RedisResult<()> {
    run(&std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379/".into())).await
}

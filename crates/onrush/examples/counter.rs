//! Counting visits: many tasks add to counters over one connection, which pipelines their commands automatically; a
//! transaction reads and clears the day's figures in one step.
//!
//! `cargo run -p onrush --example counter -- redis://127.0.0.1:6379/`

use std::collections::BTreeMap;

use onrush::{AsyncCommands, Client, RedisResult, pipe};

const PAGES: [&str; 3] = ["/", "/about", "/news"];
const VISITORS: usize = 3_000;

/// Counts the visits of many visitors at once, and reports.
pub async fn run(url: &str) -> RedisResult<()> {
    let con = Client::open(url)?.connect().await?;
    pipe().del("visits").del("visitors").exec_async(&con).await?;
    let visitors: Vec<_> = (0..VISITORS)
        .map(|visitor| {
            let con = con.clone();
            tokio::spawn(async move {
                // Neither command waits for the other, or for those of other visitors.
                let page = con.hincr::<_, _, _, i64>("visits", PAGES[visitor % PAGES.len()], 1);
                let someone = con.pfadd::<_, _, bool>("visitors", visitor % 1_000);
                let (page, someone) = tokio::join!(page, someone);
                page.and(someone.map(|_| 0))
            })
        })
        .collect();
    for visitor in visitors {
        visitor.await.expect("a task")?;
    }
    // One step: no visit between reading and clearing is lost.
    let (visits, people): (BTreeMap<String, usize>, usize) = pipe()
        .atomic()
        .hgetall("visits")
        .pfcount("visitors")
        .del(["visits", "visitors"])
        .ignore()
        .query_async(&con)
        .await?;
    let counters = con.counters();
    println!("{visits:?} by about {people} people; {} commands in {} writes", counters.commands, counters.batches);
    assert_eq!(visits.values().sum::<usize>(), VISITORS);
    assert!((950..=1_050).contains(&people), "{people}");
    Ok(())
}

#[tokio::main]
async fn main() -> RedisResult<()> {
    run(&std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379/".into())).await
}

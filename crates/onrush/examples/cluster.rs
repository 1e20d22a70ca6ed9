//! Works with a cluster: commands, a pipeline over all nodes, a transaction of one slot, a scan, a stream.
//!
//! `cargo run -p onrush --example cluster -- redis-cluster://127.0.0.1:7000,127.0.0.1:7001`

use onrush::{AsyncCommands, ClusterClient, ClusterConfig, ReadFrom, RedisResult, cmd, pipe};

#[tokio::main]
async fn main() -> RedisResult<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis-cluster://127.0.0.1:7000".to_owned());
    run(&url).await
}

/// Does everything but read the command line.
pub async fn run(url: &str) -> RedisResult<()> {
    let config = ClusterConfig::new().set_split(true).set_read_from(ReadFrom::Primary);
    let con = ClusterClient::open(url)?.connect_with(config).await?;
    println!("primaries: {}", con.primaries().join(", "));

    // Each command goes to the node of its key; the pipeline goes to all of them at once.
    let () = con.set("greeting", "hello").await?;
    let (greeting, visits): (String, i64) = pipe().get("greeting").incr("visits", 1).query_async(&con).await?;
    println!("{greeting}, visit {visits}");

    // What is in the braces decides where keys are: these two are together, so a transaction may have both.
    let (sent, received): (i64, i64) =
        pipe().atomic().decr("{account}:a", 5).incr("{account}:b", 5).query_async(&con).await?;
    println!("a {sent}, b {received}");

    // Split by slot, since that was asked for; not atomic.
    let values: Vec<Option<String>> = con.mget(["greeting", "visits", "none"]).await?;
    println!("{values:?}");

    let commands = (0..100_000).map(|n| cmd("SET").arg(format!("key:{n}")).arg(n).clone());
    println!("{} written", con.stream(commands).count().await.into_result()?);
    let keys: Vec<String> = con.scan_match("key:9999?").collect().await?;
    println!("{} keys found", keys.len());
    let removed: i64 = con.del(&keys).await?;
    println!("{removed} removed");
    con.close().await;
    Ok(())
}

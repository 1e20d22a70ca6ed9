//! Loading large data: an endless stream of commands in constant memory, with no batch size to choose. An error comes
//! with the number of its command.
//!
//! `cargo run --release -p onrush --example bulk_load -- redis://127.0.0.1:6379/ 10000000`

use std::time::Instant;

use onrush::{AsyncCommands, Client, RedisResult};

/// Writes `users` users, each a hash with an expiry, and reads some back.
pub async fn load(url: &str, users: u64) -> RedisResult<()> {
    let con = Client::open(url)?.connect().await?;
    let (started, mut next) = (Instant::now(), 0);
    // Called whenever there is room for more; the rows would come from a file or another database.
    let commands = con.stream_fn(move |out| {
        let goes_on = next < users;
        if goes_on {
            let key = format!("user:{next}");
            out.hset_multiple(&key, (("name", format!("name {next}")), ("visits", next % 100)));
            out.expire(&key, 3_600);
            next += 1;
        }
        goes_on
    });
    let summary = commands.count().await;
    if let Some((number, error)) = &summary.first_error {
        println!("{} errors, the first at command {number}: {error}", summary.errors);
    }
    let commands = summary.into_result()?;
    let seconds = started.elapsed().as_secs_f64();
    println!("{commands} commands in {seconds:.2} s, {:.0} a second", commands as f64 / seconds);
    let last: (String, u64) = con.hmget(format!("user:{}", users - 1), ["name", "visits"]).await?;
    assert_eq!(last, (format!("name {}", users - 1), (users - 1) % 100));
    Ok(())
}

/// Loads a hundred thousand users.
pub async fn run(url: &str) -> RedisResult<()> {
    load(url, 100_000).await
}

#[tokio::main]
async fn main() -> RedisResult<()> {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or_else(|| "redis://127.0.0.1:6379/".into());
    match args.next().and_then(|users| users.parse().ok()) {
        Some(users) => load(&url, users).await,
        None => run(&url).await,
    }
}

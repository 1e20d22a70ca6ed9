//! A rate limiter: allows a number of requests per user and second. A script decides in one round trip, correctly even
//! if many processes ask at the same time.
//!
//! `cargo run -p onrush --example rate_limiter -- redis://127.0.0.1:6379/`

use std::time::Duration;

use onrush::{AsyncCommands, Client, Connection, RedisResult, Script};

/// A token bucket: it holds a limited number of tokens and fills up at an even rate; a request takes one. It uses the
/// server's clock, so the clients' clocks do not matter.
const BUCKET: &str = "
local capacity, per_second = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = tonumber(bucket[1]) or capacity
tokens = math.min(capacity, tokens + (now - (tonumber(bucket[2]) or now)) * per_second)
local allowed = tokens >= 1
if allowed then tokens = tokens - 1 end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', string.format('%.6f', now))
redis.call('PEXPIRE', KEYS[1], math.ceil(capacity / per_second * 1000))
return allowed and 0 or math.ceil((1 - tokens) / per_second * 1000)
";

/// Limits the requests of each user.
#[derive(Clone)]
pub struct Limiter {
    con: Connection,
    script: Script,
    capacity: u32,
    per_second: u32,
}

impl Limiter {
    /// Allows `capacity` requests at once, and `per_second` in the long run.
    pub fn new(con: Connection, capacity: u32, per_second: u32) -> Limiter {
        Limiter { con, script: Script::new(BUCKET), capacity, per_second }
    }

    /// Whether a request may pass; if not, when to ask again.
    ///
    /// # Errors
    /// The server's, and those of the connection.
    pub async fn check(&self, user: &str) -> RedisResult<Result<(), Duration>> {
        let mut call = self.script.key(format!("bucket:{user}"));
        let wait_ms: u64 = call.arg(self.capacity).arg(self.per_second).invoke_async(&self.con).await?;
        Ok(if wait_ms == 0 { Ok(()) } else { Err(Duration::from_millis(wait_ms)) })
    }
}

/// Asks far too often, and then as often as allowed.
pub async fn run(url: &str) -> RedisResult<()> {
    let con = Client::open(url)?.connect().await?;
    let () = con.del("bucket:ada").await?;
    let limiter = Limiter::new(con, 10, 20);
    let requests: Vec<_> = (0..100)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.check("ada").await })
        })
        .collect();
    let (mut passed, mut wait) = (0, Duration::ZERO);
    for request in requests {
        match request.await.expect("a task")? {
            Ok(()) => passed += 1,
            Err(again) => wait = wait.max(again),
        }
    }
    println!("{passed} of 100 requests passed; ask again in {wait:?}");
    // Requests beyond the bucket's capacity pass only as time goes by.
    assert!((10..100).contains(&passed), "{passed}");
    while let Err(again) = limiter.check("ada").await? {
        tokio::time::sleep(again).await;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> RedisResult<()> {
    run(&std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379/".into())).await
}

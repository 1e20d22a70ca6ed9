//! A cache for slow work: a task looks an article up, or makes it and keeps it for a while. Old articles expire, and
//! tasks that miss the same article at the same time do the work once.
//!
//! `cargo run -p onrush --example cache -- redis://127.0.0.1:6379/`

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use onrush::{AsyncCommands, Client, Connection, ExistenceCheck, RedisResult, Script, SetExpiry, SetOptions};

/// How long an article is kept.
const KEPT_SECONDS: u64 = 60;
/// How long one process may take to make an article before another tries.
const MAKING_MS: u64 = 5_000;

/// How often the slow work was done.
static MADE: AtomicU32 = AtomicU32::new(0);

/// Frees a lock if it still is the caller's: when it has taken too long, another may hold the lock by now.
static UNLOCK: LazyLock<Script> = LazyLock::new(|| {
    Script::new("if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0")
});

/// A text that no other holder of a lock has.
fn token() -> String {
    // Each has random keys of its own.
    let random = || RandomState::new().hash_one(());
    format!("{:016x}{:016x}", random(), random())
}

/// The slow work.
async fn render(id: u32) -> String {
    MADE.fetch_add(1, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(50)).await;
    format!("<h1>article {id}</h1>")
}

/// Returns an article from the cache, or makes it and puts it there. Of tasks that miss at the same time only one makes
/// it; the others soon look again.
pub async fn article(con: &Connection, id: u32) -> RedisResult<String> {
    let (key, lock) = (format!("article:{id}"), format!("making:article:{id}"));
    let mine = SetOptions::new().conditional_set(ExistenceCheck::NX).with_expiration(SetExpiry::PX(MAKING_MS));
    let me = token();
    loop {
        if let Some(page) = con.get::<_, Option<String>>(&key).await? {
            return Ok(page);
        }
        if con.set_options::<_, _, _, bool>(&lock, &me, mine).await? {
            // Another task may have put it there since the look above.
            let found: Option<String> = con.get(&key).await?;
            let page = match found {
                Some(page) => page,
                None => {
                    let page = render(id).await;
                    let () = con.set_ex(&key, &page, KEPT_SECONDS).await?;
                    page
                }
            };
            let _: bool = UNLOCK.key(&lock).arg(&me).invoke_async(con).await?;
            return Ok(page);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Asks for one article in a hundred tasks.
pub async fn run(url: &str) -> RedisResult<()> {
    let con = Client::open(url)?.connect().await?;
    let () = con.del("article:7").await?;
    let readers: Vec<_> = (0..100)
        .map(|_| {
            let con = con.clone();
            tokio::spawn(async move { article(&con, 7).await })
        })
        .collect();
    for reader in readers {
        assert_eq!(reader.await.expect("a task")?, "<h1>article 7</h1>");
    }
    let seconds: i64 = con.ttl("article:7").await?;
    println!("100 readers, made {} time(s), kept for {seconds} s", MADE.load(Ordering::Relaxed));
    assert_eq!(MADE.load(Ordering::Relaxed), 1);
    Ok(())
}

#[tokio::main]
async fn main() -> RedisResult<()> {
    run(&std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379/".into())).await
}

//! The client library's examples run, against Onrush and redis-server.

// The tests call each example's `run`, which does everything but read the command line.
#![allow(dead_code)]

#[path = "../../../crates/onrush/examples/bulk_load.rs"]
mod bulk_load;
#[path = "../../../crates/onrush/examples/cache.rs"]
mod cache;
#[path = "../../../crates/onrush/examples/counter.rs"]
mod counter;
#[path = "../../../crates/onrush/examples/queue.rs"]
mod queue;
#[path = "../../../crates/onrush/examples/rate_limiter.rs"]
mod rate_limiter;

use std::time::Duration;

use onrush::{AsyncCommands, Client, RedisResult};
use onrush_tests::server::Server;

fn example(run: impl AsyncFn(&str) -> RedisResult<()>, server: Server) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let url = format!("redis://127.0.0.1:{}/", server.port());
    let done = async { tokio::time::timeout(Duration::from_secs(60), run(&url)).await };
    runtime.block_on(done).expect("the example ends").expect("no error");
}

fn onrush() -> Server {
    Server::start_onrush(&["--workers", "2"])
}

/// One test, since the example counts what the process makes.
#[test]
fn cache_makes_once_what_many_miss_and_frees_no_lock_of_another() {
    example(cache::run, onrush());
    let frees_none = async |url: &str| {
        let con = Client::open(url)?.connect().await?;
        let maker = con.clone();
        let made = tokio::spawn(async move { cache::article(&maker, 8).await });
        while !con.exists::<_, bool>("making:article:8").await? {
            tokio::task::yield_now().await;
        }
        // The maker takes longer than its lock lasts, and another has the lock by then.
        let () = con.set("making:article:8", "another").await?;
        made.await.expect("a task")?;
        assert_eq!(con.get::<_, Option<String>>("making:article:8").await?.as_deref(), Some("another"));
        Ok(())
    };
    example(frees_none, onrush());
}

#[test]
fn counter_loses_no_visit() {
    example(counter::run, onrush());
    example(counter::run, Server::start_redis(&[]));
}

#[test]
fn queue_loses_no_job() {
    example(queue::run, onrush());
    example(queue::run, Server::start_redis(&[]));
}

#[test]
fn rate_limiter_lets_through_what_the_bucket_holds() {
    example(rate_limiter::run, onrush());
    example(rate_limiter::run, Server::start_redis(&[]));
}

#[test]
fn bulk_load_writes_everything() {
    example(bulk_load::run, onrush());
    example(bulk_load::run, Server::start_redis(&[]));
}

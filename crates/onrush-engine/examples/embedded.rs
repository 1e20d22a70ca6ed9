//! The engine in another program: no socket, no file, two threads that execute pipelines on the same data.
//!
//! `cargo run --release -p onrush-engine --example embedded`

use std::time::Instant;

use onrush_engine::batch::runner::Runner;
use onrush_engine::clients::local::LocalClient;
use onrush_engine::command::CommandTable;
use onrush_engine::commands::FAMILIES;
use onrush_engine::ctx::Engine;
use onrush_engine::shared::Parts;

/// Counts what is in use, so that `maxmemory` means something. Without it the engine works, and evicts nothing.
#[global_allocator]
static ALLOCATOR: onrush_alloc::Counting = onrush_alloc::Counting::NEW;

const THREADS: usize = 2;
const BATCHES: usize = 1_000;
const BATCH_LEN: usize = 1_000;

fn main() {
    let parts = Parts { workers: THREADS, ..Parts::default() };
    let engine: &'static Engine = Box::leak(Box::new(Engine::new(&parts, CommandTable::new(FAMILIES))));
    let started = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || count(engine, thread));
        }
    });
    let (commands, elapsed) = (THREADS * BATCHES * BATCH_LEN, started.elapsed());
    println!(
        "{commands} commands in {elapsed:.2?}: {:.1} million a second",
        commands as f64 / elapsed.as_secs_f64() / 1e6
    );

    let mut client = LocalClient::new(engine);
    let replies = client.run(&mut Runner::new(engine, 0), "GET total\nDBSIZE\nOBJECT ENCODING total\n");
    println!("{}", String::from_utf8_lossy(&replies));
}

/// Sends batches of INCR, half of them to a key that both threads count in.
fn count(engine: &'static Engine, thread: usize) {
    let (mut client, mut runner) = (LocalClient::new(engine), Runner::new(engine, thread));
    let batch: String = (0..BATCH_LEN / 2).map(|n| format!("INCR total\nINCR thread:{thread}:{n}\n")).collect();
    for _ in 0..BATCHES {
        let replies = client.run(&mut runner, &batch);
        assert_eq!(replies.iter().filter(|byte| **byte == b':').count(), BATCH_LEN);
    }
}

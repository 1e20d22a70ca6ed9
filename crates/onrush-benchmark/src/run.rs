//! One run: a test, with some options, on one server.

use std::io::{IsTerminal, Write};
use std::sync::Barrier;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::args::{Options, Target};
use crate::cluster::TAG_WORD;
use crate::proxy::Proxy;
use crate::request::Random;
use crate::server::ServerCpu;
use crate::suite::Test;
use crate::worker::{Place, Shared, Worker, histogram};

/// How often progress is shown.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);
/// From this part of a thread's time on CPU the client, not the server, is taken to be the limit.
const BUSY: f64 = 0.95;

/// What a run measured.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub title: String,
    pub payload_len: usize,
    pub replies: u64,
    pub elapsed: Duration,
    /// Nanoseconds.
    pub latencies: Histogram<u64>,
    pub client_cpu: Duration,
    /// The part of the time that the busiest thread was on CPU.
    pub busiest: f64,
    /// CPU time of the server, where it can be told.
    pub server_cpu: Option<Duration>,
}

impl Outcome {
    /// Commands a second.
    pub fn rps(&self) -> f64 {
        self.replies as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// The latency, in milliseconds, that a part of all commands stays within.
    pub fn latency_ms(&self, quantile: f64) -> f64 {
        self.latencies.value_at_quantile(quantile) as f64 / 1e6
    }

    /// The mean latency in milliseconds.
    pub fn mean_ms(&self) -> f64 {
        self.latencies.mean() / 1e6
    }

    /// Microseconds of CPU for one command.
    pub fn per_command_us(&self, cpu: Duration) -> f64 {
        cpu.as_secs_f64() * 1e6 / self.replies.max(1) as f64
    }

    /// Whether the client was the limit.
    pub fn is_client_bound(&self) -> bool {
        self.busiest >= BUSY
    }
}

/// Runs a test.
///
/// # Errors
/// Those of connecting, and an error reply.
pub fn run(options: &Options, target: &Target, test: &Test, shows: bool) -> Result<Outcome, String> {
    let targets: Vec<Target> = if options.cluster {
        options.nodes.iter().map(|node| node.target.clone()).collect()
    } else {
        vec![target.clone()]
    };
    let threads = options.threads.unwrap_or(targets.len()).min(options.clients);
    let cpu = targets.iter().map(|target| ServerCpu::of(options, target)).collect::<Option<Vec<_>>>();
    let cpu_now = || cpu.as_ref()?.iter().map(ServerCpu::now).sum::<Option<Duration>>();
    let places = &places(options, &targets, test)?;
    let shared = &Shared::new();
    let mut before = None;
    let ready = &Barrier::new(threads + 1);
    let outcomes: Result<Vec<_>, String> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|index| {
                let clients = options.clients / threads + usize::from(index < options.clients % threads);
                let share = clients as f64 / options.clients as f64;
                let seed = options.seed.wrapping_add(index as u64 + 1);
                let first_place = index * (options.clients / threads) + index.min(options.clients % threads);
                scope.spawn(move || {
                    let worker = Worker { options, places, first_place, shared, clients, share, seed };
                    let sockets = worker.connect();
                    ready.wait();
                    ready.wait();
                    worker.run(sockets?)
                })
            })
            .collect();
        ready.wait();
        before = cpu_now();
        shared.elapsed();
        ready.wait();
        if shows {
            show_progress(&test.title, shared, || handles.iter().all(|handle| handle.is_finished()));
        }
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|_| Err("a thread of the load tool panicked".into())))
            .collect()
    });
    let measured = outcomes?;
    let spent = cpu_now().zip(before).map(|(after, before)| after.saturating_sub(before));
    let mut latencies = histogram();
    for thread in &measured {
        // The bounds of all are the same.
        _ = latencies.add(&thread.latencies);
    }
    let last = measured.iter().map(|thread| thread.last_ns).max().unwrap_or(0);
    let whole = Duration::from_nanos(last);
    let elapsed = whole.saturating_sub(options.warmup);
    let part = |cpu: Duration| cpu.as_secs_f64() / whole.as_secs_f64().max(1e-9);
    Ok(Outcome {
        title: test.title.clone(),
        payload_len: test.payload_len,
        replies: latencies.len(),
        elapsed,
        client_cpu: measured.iter().map(|thread| thread.cpu).sum(),
        busiest: measured.iter().map(|thread| part(thread.cpu)).fold(0.0, f64::max),
        server_cpu: spent.filter(|_| options.warmup.is_zero()),
        latencies,
    })
}

/// What connections are for: one place for all, or one for each where the load is shared by a cluster's nodes.
fn places(options: &Options, targets: &[Target], test: &Test) -> Result<Vec<Place>, String> {
    let reached = |target: &Target| -> Result<Target, String> {
        if options.rtt.is_zero() { Ok(target.clone()) } else { Ok(Proxy::start(target, options.rtt)?.target().clone()) }
    };
    let targets: Vec<Target> = targets.iter().map(reached).collect::<Result<_, _>>()?;
    if !options.cluster {
        return Ok(vec![Place { target: targets[0].clone(), request: test.request.clone() }]);
    }
    let mut random = Random::new(options.seed.wrapping_add(0x7461_6773));
    let place = |index: usize| {
        let node = index % targets.len();
        let tag = options.nodes[node].tag(&mut random).ok_or("a node serves no slot")?;
        Ok(Place { target: targets[node].clone(), request: test.request.with_tag(TAG_WORD, &tag) })
    };
    (0..options.clients).map(place).collect()
}

/// Shows how fast it goes, on one line of a terminal.
fn show_progress(title: &str, shared: &Shared, is_done: impl Fn() -> bool) {
    let mut out = std::io::stdout();
    if !out.is_terminal() {
        return;
    }
    let (mut last, mut before, mut width) = (Instant::now(), (0, 0), 0);
    while !is_done() {
        std::thread::sleep(Duration::from_millis(5));
        if last.elapsed() < PROGRESS_EVERY {
            continue;
        }
        let now = (shared.replies.load(Relaxed), shared.latency_us.load(Relaxed));
        let ms = |latency: u64, replies: u64| latency as f64 / 1_000.0 / replies.max(1) as f64;
        let line = format!(
            "{title}: rps={:.1} (overall: {:.1}) avg_msec={:.3} (overall: {:.3})",
            (now.0 - before.0) as f64 / last.elapsed().as_secs_f64(),
            now.0 as f64 / shared.elapsed().as_secs_f64(),
            ms(now.1 - before.1, now.0 - before.0),
            ms(now.1, now.0),
        );
        _ = write!(out, "{:width$}\r{line}\r", "");
        _ = out.flush();
        width = line.len();
        (last, before) = (Instant::now(), now);
    }
    _ = write!(out, "{:width$}\r", "");
}

//! One run: a test, with some options, on one server.

use std::io::{IsTerminal, Write};
use std::sync::Barrier;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::error::Error;
use crate::load::random::Random;
use crate::load::recorder;
use crate::load::routes::Topology;
use crate::load::suite::Test;
use crate::load::worker::{Measured, Place, Shared, Worker};
use crate::net::cluster::{self, TAG_WORD};
use crate::net::proxy;
use crate::net::target::Target;
use crate::options::Options;
use crate::outcome::{Incidents, Outcome, histogram};
use crate::server::ServerCpu;

/// How often progress is shown.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);
/// How often to check whether the warm-up, or the run, is over.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Runs a test.
///
/// # Errors
/// Those of connecting, an error reply, a broken connection that must not be made again.
pub fn run(options: &Options, target: &Target, test: &Test) -> Result<Outcome, Error> {
    let targets: Vec<Target> = if options.cluster {
        options.nodes.iter().map(|node| node.target.clone()).collect()
    } else {
        vec![target.clone()]
    };
    let threads = options.threads.unwrap_or(targets.len()).min(options.clients);
    let cpu = targets.iter().map(|target| ServerCpu::of(options, target)).collect::<Option<Vec<_>>>();
    let cpu_now = || cpu.as_ref()?.iter().map(ServerCpu::now).sum::<Option<Duration>>();
    let places = &places(options, &targets, test)?;
    let topology = &options.cluster.then(|| Topology::new(options));
    let shared = &Shared::default();
    let mut before = None;
    let ready = &Barrier::new(threads + 1);
    let measured: Result<Vec<Measured>, Error> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|index| {
                let clients = options.clients / threads + usize::from(index < options.clients % threads);
                let seed = options.seed.wrapping_add(index as u64 + 1);
                let first = index * (options.clients / threads) + index.min(options.clients % threads);
                scope.spawn(move || {
                    let worker = Worker { options, places, first, topology: topology.as_ref(), shared, clients, seed };
                    let sockets = worker.connect();
                    ready.wait();
                    ready.wait();
                    worker.run(sockets?)
                })
            })
            .collect();
        // Connecting and handshakes are over by now and are not measured; nor is the warm-up.
        ready.wait();
        let mut is_done = || handles.iter().all(|handle| handle.is_finished());
        if options.warmup.is_zero() {
            before = cpu_now();
        }
        shared.elapsed();
        ready.wait();
        if !options.warmup.is_zero() {
            while shared.elapsed() < options.warmup && !is_done() {
                std::thread::sleep(LOOK_EVERY.min(options.warmup.saturating_sub(shared.elapsed())));
            }
            before = cpu_now();
        }
        show_progress(&test.title, options, shared, &mut is_done);
        let died = || Err(Error::Options("a thread of this tool panicked".into()));
        handles.into_iter().map(|handle| handle.join().unwrap_or_else(|_| died())).collect()
    });
    let measured = measured?;
    let spent = cpu_now().zip(before).map(|(after, before)| after.saturating_sub(before));
    Ok(outcome(options, test, measured, spent, topology.as_ref()))
}

/// Latencies by name: those of all threads together.
fn together(
    names: impl IntoIterator<Item = String>,
    measured: &[Measured],
    of: fn(&Measured) -> &[Histogram<u64>],
) -> Vec<(String, Histogram<u64>)> {
    let all = |(number, name): (usize, String)| {
        let mut all = histogram();
        // The bounds of all are the same.
        measured.iter().filter_map(|thread| of(thread).get(number)).for_each(|own| _ = all.add(own));
        (name, all)
    };
    names.into_iter().enumerate().map(all).collect()
}

/// What the threads measured, together.
fn outcome(
    options: &Options,
    test: &Test,
    measured: Vec<Measured>,
    server_cpu: Option<Duration>,
    topology: Option<&Topology<'_>>,
) -> Outcome {
    let (mut latencies, mut incidents) = (histogram(), Incidents::default());
    for thread in &measured {
        // The bounds of all are the same.
        _ = latencies.add(&thread.latencies);
        incidents.add(&thread.incidents);
    }
    let last = measured.iter().map(|thread| thread.last_ns).max().unwrap_or(0);
    let elapsed = Duration::from_nanos(last).saturating_sub(options.warmup);
    Outcome {
        title: test.title.clone(),
        payload_len: test.payload_len,
        replies: latencies.len(),
        elapsed,
        kinds: together(test.kinds.clone(), &measured, |thread| &thread.kinds),
        nodes: together(topology.map(Topology::names).unwrap_or_default(), &measured, |thread| &thread.nodes),
        refreshes: topology.map_or(0, Topology::refreshes),
        client_cpu: measured.iter().map(|thread| thread.cpu).sum(),
        busiest: measured.iter().map(|thread| thread.busy).fold(0.0, f64::max),
        server_cpu,
        incidents,
        series: recorder::points(measured.into_iter().map(|thread| thread.pieces).collect(), elapsed.as_nanos() as u64),
        latencies,
    }
}

/// The places of connections: one for all, or, if a cluster's nodes share the load, one for each node.
fn places(options: &Options, targets: &[Target], test: &Test) -> Result<Vec<Place>, Error> {
    let targets: Vec<Target> =
        targets.iter().map(|target| proxy::reached(options, target)).collect::<Result<_, _>>()?;
    if !options.cluster {
        let (target, commands) = (targets[0].clone(), test.commands.clone());
        return Ok(vec![Place { target, commands, node: String::new(), tag: None }]);
    }
    let mut random = Random::new(options.seed.wrapping_add(0x7461_6773));
    let place = |index: usize| {
        let node = index % targets.len();
        let no_slot = || Error::Options("a node serves no slot".into());
        let tag = cluster::tag(&options.nodes[node], &mut random).ok_or_else(no_slot)?;
        let commands = test.commands.map(|request| request.with_tag(TAG_WORD, &tag));
        let name = options.nodes[node].target.to_string();
        Ok(Place { target: targets[node].clone(), commands, node: name, tag: Some(tag) })
    };
    (0..options.clients).map(place).collect()
}

/// Shows the throughput, on one line of a terminal, until all is done.
fn show_progress(title: &str, options: &Options, shared: &Shared, is_done: &mut impl FnMut() -> bool) {
    let mut out = std::io::stdout();
    if !out.is_terminal() {
        return;
    }
    let (mut last, mut before, mut width) = (Instant::now(), (0, 0), 0);
    while !is_done() {
        std::thread::sleep(LOOK_EVERY);
        if last.elapsed() < PROGRESS_EVERY {
            continue;
        }
        let now = (shared.replies.load(Relaxed), shared.latency_us.load(Relaxed));
        let ms = |latency: u64, replies: u64| latency as f64 / 1_000.0 / replies.max(1) as f64;
        let line = format!(
            "{title}: rps={:.1} (overall: {:.1}) avg_msec={:.3} (overall: {:.3})",
            (now.0 - before.0) as f64 / last.elapsed().as_secs_f64(),
            now.0 as f64 / shared.elapsed().saturating_sub(options.warmup).as_secs_f64().max(1e-3),
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

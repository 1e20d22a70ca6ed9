//! `onrush-sim`: runs simulations, and says which seed shows a fault.

mod cluster_runs;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use onrush_sim::simulation::{Failure, run};
use parking_lot::Mutex;

const USAGE: &str = "\
Runs the engine under one seeded scheduler and checks what its clients saw.

onrush-sim [--seed S] [--seeds N] [--commands N] [--seconds N] [--jobs N] [--history]

  --seed S      the first seed (default: drawn from the clock)
  --seeds N     ends after so many seeds (default: 1 with --seed alone)
  --commands N  ends after so many commands
  --seconds N   ends after so many seconds (default: 60 if no end is given)
  --jobs N      simulations at the same time (default: 1)
  --history     shows the whole history of a round that fails

onrush-sim cluster …: the same for the rules of the cluster bus";

/// How often progress is shown.
const SHOW_EVERY: Duration = Duration::from_secs(10);

/// What is to be done.
struct Options {
    first: u64,
    seeds: u64,
    commands: u64,
    time: Duration,
    jobs: usize,
    shows_history: bool,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut first, mut seeds, mut commands, mut seconds, mut jobs) = (None, None, None, None, 1);
        let mut shows_history = false;
        while let Some(arg) = args.next() {
            let mut number = || {
                let text = args.next().ok_or(format!("{arg} needs a number"))?;
                text.parse::<u64>().map_err(|_| format!("{arg} needs a number, not {text}"))
            };
            match arg.as_str() {
                "--seed" => first = Some(number()?),
                "--seeds" => seeds = Some(number()?),
                "--commands" => commands = Some(number()?),
                "--seconds" => seconds = Some(number()?),
                "--jobs" => jobs = number()?.max(1) as usize,
                "--history" => shows_history = true,
                _ => return Err(format!("unknown option {arg}\n\n{USAGE}")),
            }
        }
        let has_end = seeds.is_some() || commands.is_some() || seconds.is_some();
        if !has_end && first.is_some() {
            seeds = Some(1);
        } else if !has_end {
            seconds = Some(60);
        }
        let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs() * 1_000_000);
        Ok(Self {
            first: first.unwrap_or_else(clock),
            seeds: seeds.unwrap_or(u64::MAX),
            commands: commands.unwrap_or(u64::MAX),
            time: seconds.map_or(Duration::MAX, Duration::from_secs),
            jobs,
            shows_history,
        })
    }
}

/// What has been done.
struct Progress {
    started: Instant,
    shown: Mutex<Instant>,
    begun: AtomicU64,
    seeds: AtomicU64,
    commands: AtomicU64,
    undecided: AtomicU64,
    longest_wait: AtomicU64,
    full_syncs: AtomicU64,
    partial_syncs: AtomicU64,
    promotions: AtomicU64,
    has_failed: AtomicBool,
    failures: Mutex<Vec<Failure>>,
}

impl Progress {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            started: now,
            shown: Mutex::new(now),
            begun: AtomicU64::new(0),
            seeds: AtomicU64::new(0),
            commands: AtomicU64::new(0),
            undecided: AtomicU64::new(0),
            longest_wait: AtomicU64::new(0),
            full_syncs: AtomicU64::new(0),
            partial_syncs: AtomicU64::new(0),
            promotions: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
            failures: Mutex::default(),
        }
    }

    fn show(&self) {
        let (seeds, commands) = (self.seeds.load(Relaxed), self.commands.load(Relaxed));
        let seconds = self.started.elapsed().as_secs_f64();
        println!(
            "{seeds} seeds, {commands} commands in {seconds:.0} s: {:.0} commands a second; {} histories undecided; \
             threads waited for others for up to {} steps; replicas: {} full and {} partial synchronizations, {} promotions",
            commands as f64 / seconds,
            self.undecided.load(Relaxed),
            self.longest_wait.load(Relaxed),
            self.full_syncs.load(Relaxed),
            self.partial_syncs.load(Relaxed),
            self.promotions.load(Relaxed)
        );
    }

    /// Runs one seed after the other until it is time to end.
    fn work(&self, options: &Options) {
        loop {
            let nth = self.begun.fetch_add(1, Relaxed);
            let is_over = nth >= options.seeds
                || self.commands.load(Relaxed) >= options.commands
                || self.started.elapsed() >= options.time
                || self.has_failed.load(Relaxed);
            if is_over {
                return;
            }
            match run(options.first.wrapping_add(nth)) {
                Ok(outcome) => {
                    self.seeds.fetch_add(1, Relaxed);
                    self.commands.fetch_add(outcome.commands, Relaxed);
                    self.undecided.fetch_add(outcome.undecided, Relaxed);
                    self.longest_wait.fetch_max(outcome.longest_wait, Relaxed);
                    self.full_syncs.fetch_add(outcome.syncs[0], Relaxed);
                    self.partial_syncs.fetch_add(outcome.syncs[1], Relaxed);
                    self.promotions.fetch_add(outcome.promotions, Relaxed);
                }
                Err(failure) => {
                    self.has_failed.store(true, Relaxed);
                    self.failures.lock().push(*failure);
                }
            }
            let mut shown = self.shown.lock();
            if shown.elapsed() >= SHOW_EVERY {
                *shown = Instant::now();
                self.show();
            }
        }
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).peekable();
    if args.next_if_eq("cluster").is_some() {
        return cluster_runs::main(args);
    }
    let options = match Options::parse(args) {
        Ok(options) => options,
        Err(what) => {
            eprintln!("{what}");
            return ExitCode::from(2);
        }
    };
    let progress = Progress::new();
    println!("from seed {}", options.first);
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| progress.work(&options));
        }
    });
    progress.show();
    let failures = progress.failures.into_inner();
    for failure in &failures {
        if options.shows_history {
            println!("\n{}", failure.history);
        }
        println!(
            "\nSeed {} shows a fault.\n{}\n\nAgain: onrush-sim --seed {}",
            failure.seed, failure.what, failure.seed
        );
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

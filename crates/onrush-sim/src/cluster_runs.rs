//! `onrush-sim cluster`: runs simulations of clusters.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use onrush_sim::cluster::{Failure, Outcome, Plant, Settings, run};
use parking_lot::Mutex;

const USAGE: &str = "\
Runs the rules of the cluster bus on a virtual network, and checks that they hold.

onrush-sim cluster [--seed S] [--seeds N] [--seconds N] [--jobs N] [--nodes N] [--idle] [--force MS]
                   [--plant NAME] [--history]

  --seed S      the first seed (default: drawn from the clock)
  --seeds N     ends after so many seeds (default: 1 with --seed alone)
  --seconds N   ends after so many seconds (default: 60 if no end is given)
  --jobs N      simulations at the same time (default: 1)
  --nodes N     so many nodes, half of them primaries (default: drawn)
  --idle        nothing goes wrong for a minute, to measure what a cluster costs
  --force MS    tells a replica to take over within so many simulated milliseconds of the one before, for many elections
  --plant NAME  makes a fault that has to be found: vote-before-save
  --history     shows what happened before a fault";

/// How often progress is shown.
const SHOW_EVERY: Duration = Duration::from_secs(10);

struct Options {
    first: u64,
    seeds: u64,
    time: Duration,
    jobs: usize,
    settings: Settings,
    shows_history: bool,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut first, mut seeds, mut seconds, mut jobs, mut shows_history) = (None, None, None, 1, false);
        let mut settings = Settings::default();
        while let Some(arg) = args.next() {
            let mut word = || args.next().ok_or(format!("{arg} needs a value"));
            let number = |text: String| text.parse::<u64>().map_err(|_| format!("{arg} needs a number, not {text}"));
            match arg.as_str() {
                "--seed" => first = Some(number(word()?)?),
                "--seeds" => seeds = Some(number(word()?)?),
                "--seconds" => seconds = Some(number(word()?)?),
                "--jobs" => jobs = number(word()?)?.max(1) as usize,
                "--nodes" => settings.nodes = Some(number(word()?)?.max(6) as usize),
                "--idle" => settings.faults_ms = Some(0),
                "--force" => settings.forced_every_ms = Some(number(word()?)?.max(1)),
                "--plant" => settings.plant = Some(plant(&word()?)?),
                "--history" => shows_history = true,
                _ => return Err(format!("unknown option {arg}\n\n{USAGE}")),
            }
        }
        if seeds.is_none() && seconds.is_none() {
            (seeds, seconds) = if first.is_some() { (Some(1), None) } else { (None, Some(60)) };
        }
        let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs() * 1_000_000);
        Ok(Self {
            first: first.unwrap_or_else(clock),
            seeds: seeds.unwrap_or(u64::MAX),
            time: seconds.map_or(Duration::MAX, Duration::from_secs),
            jobs,
            settings,
            shows_history,
        })
    }
}

fn plant(name: &str) -> Result<Plant, String> {
    match name {
        "vote-before-save" => Ok(Plant::VoteBeforeSave),
        _ => Err(format!("unknown plant {name}\n\n{USAGE}")),
    }
}

/// What has been done.
struct Progress {
    started: Instant,
    shown: Mutex<Instant>,
    begun: AtomicU64,
    seeds: AtomicU64,
    total: Mutex<Outcome>,
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
            total: Mutex::default(),
            has_failed: AtomicBool::new(false),
            failures: Mutex::default(),
        }
    }

    fn show(&self) {
        let (seconds, total) = (self.started.elapsed().as_secs_f64(), self.total.lock());
        let simulated = total.simulated_ms as f64 / 1_000.0;
        println!(
            "{} seeds in {seconds:.0} s: {simulated:.0} simulated seconds, {:.2} ms for each; {} events, {} messages; \
             {} elections ({:.0} a second), {} won; {} restarts; {} hand-overs of slots, {} kept; \
             agreed at most {} s after the healing",
            self.seeds.load(Relaxed),
            seconds * 1_000.0 / simulated.max(0.001),
            total.events,
            total.messages,
            total.elections,
            total.elections as f64 / seconds,
            total.wins,
            total.restarts,
            total.hand_overs,
            total.kept,
            total.healed_ms / 1_000,
        );
    }

    fn add(&self, outcome: &Outcome) {
        self.seeds.fetch_add(1, Relaxed);
        let mut total = self.total.lock();
        total.events += outcome.events;
        total.messages += outcome.messages;
        total.simulated_ms += outcome.simulated_ms;
        total.elections += outcome.elections;
        total.wins += outcome.wins;
        total.restarts += outcome.restarts;
        total.hand_overs += outcome.hand_overs;
        total.kept += outcome.kept;
        total.healed_ms = total.healed_ms.max(outcome.healed_ms);
    }

    /// Runs one seed after the other until it is time to end.
    fn work(&self, options: &Options) {
        loop {
            let nth = self.begun.fetch_add(1, Relaxed);
            let is_over = nth >= options.seeds || self.started.elapsed() >= options.time;
            if is_over || self.has_failed.load(Relaxed) {
                return;
            }
            match run(options.first.wrapping_add(nth), &options.settings) {
                Ok(outcome) => self.add(&outcome),
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

/// Runs what the arguments ask for.
pub fn main(args: impl Iterator<Item = String>) -> ExitCode {
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
    for Failure { seed, what, history } in &failures {
        if options.shows_history {
            println!("\n{history}");
        }
        let forced = options.settings.forced_every_ms.map_or_else(String::new, |ms| format!(" --force {ms}"));
        let nodes = options.settings.nodes.map_or_else(String::new, |nodes| format!(" --nodes {nodes}"));
        println!("\nSeed {seed} shows a fault.\n{what}\n\nAgain: onrush-sim cluster --seed {seed}{nodes}{forced}");
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

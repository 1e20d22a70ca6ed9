//! One seed after the other, in several threads, until it is time to end.

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use onrush_sim::Failure;
use parking_lot::Mutex;

/// How often progress is shown.
const SHOW_EVERY: Duration = Duration::from_secs(10);

/// What all kinds of simulations are told: which seeds, and when to end.
#[derive(Default)]
pub struct Bounds {
    first: Option<u64>,
    seeds: Option<u64>,
    seconds: Option<u64>,
    jobs: u64,
    shows_history: bool,
    /// The simulations end by something else.
    pub has_other_end: bool,
}

impl Bounds {
    /// Takes an argument with its number. `false`: it is none of these.
    pub fn take(&mut self, arg: &str, mut number: impl FnMut() -> Result<u64, String>) -> Result<bool, String> {
        match arg {
            "--seed" => self.first = Some(number()?),
            "--seeds" => self.seeds = Some(number()?),
            "--seconds" => self.seconds = Some(number()?),
            "--jobs" => self.jobs = number()?,
            "--history" => self.shows_history = true,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// A kind of simulations.
pub trait Simulations: Sync {
    /// What one shows, and all of them together.
    type Outcome: Default + Send;

    /// Runs a seed.
    fn run(&self, seed: u64) -> Result<Self::Outcome, Box<Failure>>;
    /// Adds what one has shown.
    fn add(total: &mut Self::Outcome, one: &Self::Outcome);
    /// Whether that is enough.
    fn is_enough(&self, _total: &Self::Outcome) -> bool {
        false
    }
    /// Shows what so many seeds have shown in so many seconds.
    fn show(total: &Self::Outcome, seeds: u64, seconds: f64);
    /// The command that runs a seed again.
    fn again(&self, seed: u64) -> String;
}

/// What has been done.
struct Progress<O> {
    shown: Instant,
    begun: u64,
    seeds: u64,
    total: O,
    failures: Vec<Failure>,
}

/// Runs what the arguments ask for.
pub fn main<S: Simulations>(parsed: Result<(Bounds, S), String>) -> ExitCode {
    let (mut bounds, simulations) = match parsed {
        Ok(parsed) => parsed,
        Err(what) => {
            eprintln!("{what}");
            return ExitCode::from(2);
        }
    };
    if bounds.seeds.is_none() && bounds.seconds.is_none() && !bounds.has_other_end {
        (bounds.seeds, bounds.seconds) = if bounds.first.is_some() { (Some(1), None) } else { (None, Some(60)) };
    }
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs() * 1_000_000);
    let first = bounds.first.unwrap_or_else(clock);
    let (seeds, time) = (bounds.seeds.unwrap_or(u64::MAX), bounds.seconds.map_or(Duration::MAX, Duration::from_secs));
    let started = Instant::now();
    let total = S::Outcome::default();
    let progress = Mutex::new(Progress { shown: started, begun: 0, seeds: 0, total, failures: Vec::new() });
    let show = |progress: &Progress<_>| S::show(&progress.total, progress.seeds, started.elapsed().as_secs_f64());
    let begin = || {
        let progress = &mut *progress.lock();
        let is_over = progress.begun >= seeds
            || simulations.is_enough(&progress.total)
            || started.elapsed() >= time
            || !progress.failures.is_empty();
        progress.begun += 1;
        (!is_over).then(|| first.wrapping_add(progress.begun - 1))
    };
    let work = || {
        while let Some(seed) = begin() {
            let ran = simulations.run(seed);
            let progress = &mut *progress.lock();
            match ran {
                Ok(outcome) => {
                    progress.seeds += 1;
                    S::add(&mut progress.total, &outcome);
                }
                Err(failure) => progress.failures.push(*failure),
            }
            if progress.shown.elapsed() >= SHOW_EVERY {
                progress.shown = Instant::now();
                show(progress);
            }
        }
    };
    println!("from seed {first}");
    std::thread::scope(|scope| {
        for _ in 0..bounds.jobs.max(1) {
            scope.spawn(work);
        }
    });
    let progress = progress.lock();
    show(&progress);
    for Failure { seed, what, history } in &progress.failures {
        if bounds.shows_history {
            println!("\n{history}");
        }
        println!("\nSeed {seed} shows a fault.\n{what}\n\nAgain: {}", simulations.again(*seed));
    }
    if progress.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

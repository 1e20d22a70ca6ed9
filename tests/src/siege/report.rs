//! The findings of a siege: faults with the commands that led to them, counts of deeds, waits, memory.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::options::Bounds;
use super::waits::Waits;

/// Faults of one kind that are kept with all they tell; further ones are counted.
const EXAMPLES_MAX: usize = 2;

/// A broken promise of the server.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Who found it.
    pub scenario: &'static str,
    /// The expected behaviour; the same text for every fault of a kind.
    pub expected: String,
    /// The behaviour found.
    pub got: String,
    /// The last commands and replies of the client that found it.
    pub trail: Vec<String>,
}

/// A value, or what went wrong on the way to it.
pub type Checked<T> = Result<T, Fault>;

/// Characters of a line of a trail.
const LINE_MAX: usize = 240;

#[derive(Default)]
struct Kind {
    count: u64,
    examples: Vec<(String, Fault)>,
}

/// Collects what all threads find.
#[derive(Default)]
pub struct Report {
    setting: Mutex<String>,
    faults: Mutex<BTreeMap<(&'static str, String), Kind>>,
    deeds: Mutex<BTreeMap<&'static str, u64>>,
    waits: Mutex<Waits>,
    oversleeps: Mutex<Waits>,
    slowdown: Mutex<f64>,
    notes: Mutex<Vec<String>>,
    peak_rss: AtomicU64,
}

impl Report {
    /// The setting of the server that faults from now on belong to.
    pub fn enter(&self, setting: &str) {
        *lock(&self.setting) = setting.to_owned();
    }

    /// Takes a fault in.
    pub fn fail(&self, fault: Fault) {
        let setting = lock(&self.setting).clone();
        let mut faults = lock(&self.faults);
        let kind = faults.entry((fault.scenario, fault.expected.clone())).or_default();
        kind.count += 1;
        if kind.examples.len() < EXAMPLES_MAX {
            kind.examples.push((setting, fault));
        }
    }

    /// Takes in that a scenario came to an end, well or not.
    pub fn conclude(&self, outcome: Checked<()>) {
        if let Err(fault) = outcome {
            self.fail(fault);
        }
    }

    /// Counts `times` deeds.
    pub fn count(&self, deed: &'static str, times: u64) {
        *lock(&self.deeds).entry(deed).or_default() += times;
    }

    /// Takes in the waits of a polite client.
    pub fn waited(&self, waits: &Waits) {
        lock(&self.waits).merge(waits);
    }

    /// Takes in how much later than asked for the system woke a thread that did nothing but sleep.
    pub fn overslept(&self, waits: &Waits) {
        lock(&self.oversleeps).merge(waits);
    }

    /// Takes in how many times as long as alone on the machine the server's threads took.
    pub fn slowdown(&self, factor: f64) {
        let mut slowdown = lock(&self.slowdown);
        *slowdown = slowdown.max(factor);
    }

    /// Keeps a line for the summary.
    pub fn note(&self, line: String) {
        lock(&self.notes).push(line);
    }

    /// Takes in a reading of the server's resident memory.
    pub fn rss(&self, bytes: u64) {
        self.peak_rss.fetch_max(bytes, Relaxed);
    }

    /// The number of faults so far.
    pub fn faults_len(&self) -> u64 {
        lock(&self.faults).values().map(|kind| kind.count).sum()
    }

    /// Whether nothing is amiss.
    pub fn is_clean(&self) -> bool {
        self.faults_len() == 0
    }

    /// Prints a line of progress.
    pub fn progress(&self) -> String {
        let waits = lock(&self.waits).clone();
        let deeds: u64 = lock(&self.deeds).values().sum();
        format!("{deeds} deeds, {} faults, waits: {waits}", self.faults_len())
    }

    /// Compares waits and memory with the bounds. Other programs must not make a siege fail: the bounds are multiplied
    /// by the factor by which the lack of processors slowed the server down, and the time by which threads overslept is
    /// added.
    pub fn hold_against(&self, bounds: &Bounds) {
        let (waits, oversleeps) = (lock(&self.waits).clone(), lock(&self.oversleeps).clone());
        let slowdown = lock(&self.slowdown).max(1.0);
        let fail = |expected: &str, bound: Duration, got: String| {
            let (expected, got) = (expected.to_owned(), format!("{got}; the bound is {bound:.1?}"));
            self.fail(Fault { scenario: "bounds", expected, got, trail: Vec::new() });
        };
        let p999_max = bounds.p999_max.mul_f64(slowdown) + oversleeps.quantile(999);
        if waits.quantile(999) > p999_max {
            fail("p99.9 of waits within its bound", p999_max, waits.to_string());
        }
        let longest_max = bounds.longest_max.mul_f64(slowdown) + oversleeps.longest();
        if waits.longest() > longest_max {
            fail("every wait within its bound", longest_max, format!("{waits}, for {}", waits.longest_of()));
        }
        let peak = self.peak_rss.load(Relaxed);
        if peak > bounds.peak_rss_bytes_max {
            let expected = format!("resident memory below {} MB", bounds.peak_rss_bytes_max >> 20);
            self.fail(Fault { scenario: "bounds", expected, got: format!("{} MB", peak >> 20), trail: Vec::new() });
        }
    }
}

/// The lock; a thread that panicked while it held it has left nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waits = lock(&self.waits);
        writeln!(f, "waits of polite clients: {waits}")?;
        writeln!(f, "the longest was for: {}", waits.longest_of())?;
        let oversleeps = lock(&self.oversleeps);
        writeln!(f, "threads that only slept were late by: {oversleeps}")?;
        writeln!(
            f,
            "the lack of processors slowed the server down by a factor of {:.1}",
            lock(&self.slowdown).max(1.0)
        )?;
        writeln!(f, "peak of resident memory: {} MB", self.peak_rss.load(Relaxed) >> 20)?;
        lock(&self.notes).iter().try_for_each(|line| writeln!(f, "{line}"))?;
        let deeds: Vec<String> = lock(&self.deeds).iter().map(|(deed, count)| format!("{count} {deed}")).collect();
        writeln!(f, "done: {}", deeds.join(", "))?;
        for ((scenario, expected), kind) in lock(&self.faults).iter() {
            writeln!(f, "\nFAULT ({} times) in {scenario}: expected {expected}", kind.count)?;
            for (setting, fault) in &kind.examples {
                writeln!(f, "  with {setting} got: {}", fault.got)?;
                fault
                    .trail
                    .iter()
                    .try_for_each(|line| writeln!(f, "    {}", line.chars().take(LINE_MAX).collect::<String>()))?;
            }
        }
        Ok(())
    }
}

/// A sleeper that measures how late the system wakes threads: goes on while `go_on` holds.
pub fn metronome(report: &Report, go_on: impl Fn() -> bool) {
    const BEAT: Duration = Duration::from_millis(2);
    let mut waits = Waits::default();
    while go_on() {
        let started = std::time::Instant::now();
        std::thread::sleep(BEAT);
        waits.note(started.elapsed().saturating_sub(BEAT), String::new);
    }
    report.overslept(&waits);
}

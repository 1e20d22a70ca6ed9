//! What a chaos run found and did.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Examples of one kind of finding that are kept in full.
const EXAMPLES_MAX: usize = 3;

/// A broken promise.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The seed of the round, and how the server was set up.
    pub round: String,
    /// What was going on.
    pub act: String,
    /// What was found, with what helps to understand it.
    pub got: String,
}

/// Collects what all threads find.
#[derive(Default)]
pub struct Report {
    findings: Mutex<BTreeMap<&'static str, (u64, Vec<Finding>)>>,
    counts: Mutex<BTreeMap<String, u64>>,
}

impl Report {
    /// Takes in that something promised (the same text for all of a kind) did not hold.
    pub fn fail(&self, expected: &'static str, finding: Finding) {
        let mut findings = lock(&self.findings);
        let (count, examples) = findings.entry(expected).or_default();
        *count += 1;
        if examples.len() < EXAMPLES_MAX {
            examples.push(finding);
        }
    }

    /// Counts a deed.
    pub fn count(&self, deed: &str, times: u64) {
        if times > 0 {
            *lock(&self.counts).entry(deed.to_owned()).or_default() += times;
        }
    }

    /// How often a deed was counted.
    pub fn counted(&self, deed: &str) -> u64 {
        lock(&self.counts).get(deed).copied().unwrap_or(0)
    }

    /// What did not hold: the kinds of findings.
    pub fn broken(&self) -> Vec<&'static str> {
        lock(&self.findings).keys().copied().collect()
    }

    /// How many findings there are.
    pub fn findings_len(&self) -> u64 {
        lock(&self.findings).values().map(|(count, _)| count).sum()
    }

    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.findings_len() == 0
    }
}

/// The lock; a thread that panicked with it has left nothing half done.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done: Vec<String> = lock(&self.counts).iter().map(|(deed, count)| format!("{count} {deed}")).collect();
        writeln!(f, "done: {}", done.join(", "))?;
        for (expected, (count, examples)) in lock(&self.findings).iter() {
            writeln!(f, "\nFOUND ({count} times): not so: {expected}")?;
            for Finding { round, act, got } in examples {
                writeln!(f, "  {round}\n    while: {act}\n    {}", got.trim_end().replace('\n', "\n    "))?;
            }
        }
        Ok(())
    }
}

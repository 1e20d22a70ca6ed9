//! How long clients waited: counts by duration, at most 1/16 off, and the longest wait with its command.

use std::fmt;
use std::time::Duration;

/// Steps between a duration and its double.
const STEPS: usize = 16;
const BUCKETS: usize = 40 * STEPS;

/// Counted durations. Noting one takes constant time.
#[derive(Clone)]
pub struct Waits {
    counts: Vec<u64>,
    total: u64,
    longest: Duration,
    longest_of: String,
}

impl Default for Waits {
    fn default() -> Waits {
        Waits { counts: vec![0; BUCKETS], total: 0, longest: Duration::ZERO, longest_of: String::new() }
    }
}

impl Waits {
    /// Counts one wait; `what` is asked only when it is the longest so far.
    pub fn note(&mut self, wait: Duration, what: impl FnOnce() -> String) {
        self.counts[bucket(wait)] += 1;
        self.total += 1;
        if wait > self.longest {
            self.longest = wait;
            self.longest_of = what();
        }
    }

    /// Adds all of another's.
    pub fn merge(&mut self, other: &Waits) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.total += other.total;
        if other.longest > self.longest {
            self.longest = other.longest;
            self.longest_of = other.longest_of.clone();
        }
    }

    /// What `per_mille` of a thousand waits stay under; zero when there are none.
    pub fn quantile(&self, per_mille: u64) -> Duration {
        let wanted = (self.total * per_mille).div_ceil(1000);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && *count > 0 {
                return upper_bound(index).min(self.longest);
            }
        }
        Duration::ZERO
    }

    /// The longest wait.
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// What the longest wait was for.
    pub fn longest_of(&self) -> &str {
        &self.longest_of
    }

    /// The number of waits.
    pub fn count(&self) -> u64 {
        self.total
    }
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |per_mille| self.quantile(per_mille);
        let (p50, p99, p999) = (at(500), at(990), at(999));
        write!(f, "p50 {p50:.1?}, p99 {p99:.1?}, p99.9 {p999:.1?}, longest {:.1?} of {}", self.longest, self.total)
    }
}

fn bucket(wait: Duration) -> usize {
    let us = wait.as_micros().max(1) as u64;
    let octave = us.ilog2() as usize;
    let step = ((us << 4) >> octave) as usize - STEPS;
    (octave * STEPS + step).min(BUCKETS - 1)
}

fn upper_bound(bucket: usize) -> Duration {
    let (octave, step) = (bucket / STEPS, bucket % STEPS);
    Duration::from_micros(((1u64 << octave) * (STEPS + step + 1) as u64).div_ceil(STEPS as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_at_most_a_sixteenth_too_long() {
        let mut waits = Waits::default();
        for us in 1..=100_000u64 {
            waits.note(Duration::from_micros(us), String::new);
        }
        for per_mille in [500, 990, 999, 1000] {
            let (found, true_us) = (waits.quantile(per_mille).as_micros() as f64, per_mille as f64 * 100.0);
            assert!(found >= true_us && found <= true_us * 1.07, "{per_mille}: {found} for {true_us}");
        }
        assert_eq!(waits.longest(), Duration::from_micros(100_000));
    }
}

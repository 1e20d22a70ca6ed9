//! Times in buckets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets of each doubling: a time is told at most 1/16 too high.
const STEPS: u64 = 16;
/// The longest time that is told apart is 2^41 ns, half an hour.
const DOUBLINGS: u64 = 38;
const BUCKETS: usize = (STEPS * DOUBLINGS) as usize;

/// How often commands took how long. Times are told at most 1/16 too high; those beyond half an hour count as that.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Box<[u64]>,
    errors: u64,
    sum_ns: u64,
}

impl Histogram {
    /// How many there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How many of them failed.
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// All times together.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// The mean time; zero if there was none.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.sum_ns.checked_div(self.count()).unwrap_or(0))
    }

    /// The time that this part of the commands did not exceed: `quantile(0.99)`, at most 1 for the longest. Zero if
    /// there was none.
    pub fn quantile(&self, part: f64) -> Duration {
        let wanted = (self.count() as f64 * part.clamp(0.0, 1.0)).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (time, count) in self.buckets() {
            seen += count;
            if seen >= wanted {
                return time;
            }
        }
        Duration::ZERO
    }

    /// The buckets that hold any, each with its longest time and its count, the shortest first.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let counted = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(index, count)| (Duration::from_nanos(end_of(index)), *count))
    }
}

/// The same while it grows.
#[derive(Debug)]
pub(super) struct Growing {
    counts: Box<[AtomicU64]>,
    errors: AtomicU64,
    sum_ns: AtomicU64,
}

impl Growing {
    pub(super) fn new() -> Growing {
        let counts = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Growing { counts, errors: AtomicU64::new(0), sum_ns: AtomicU64::new(0) }
    }

    pub(super) fn add(&self, took: Duration, failed: bool) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket_of(ns)].fetch_add(1, Ordering::Relaxed);
        self.errors.fetch_add(u64::from(failed), Ordering::Relaxed);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Histogram {
        Histogram {
            counts: self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            errors: self.errors.load(Ordering::Relaxed),
            sum_ns: self.sum_ns.load(Ordering::Relaxed),
        }
    }
}

/// The bucket of a time. The first 32 have one nanosecond each; then each doubling has 16.
fn bucket_of(ns: u64) -> usize {
    if ns < 2 * STEPS {
        return ns as usize;
    }
    let shift = ns.ilog2() - STEPS.ilog2();
    ((u64::from(shift) * STEPS + (ns >> shift)) as usize).min(BUCKETS - 1)
}

/// The longest time of a bucket.
fn end_of(index: usize) -> u64 {
    let index = index as u64;
    if index < 2 * STEPS {
        return index;
    }
    let shift = index / STEPS - 1;
    ((index - shift * STEPS + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_at_most_a_sixteenth_too_high() {
        for ns in (0..100).chain((5..40).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 12_345])) {
            let told = end_of(bucket_of(ns));
            assert!(told >= ns && told <= ns + ns / STEPS, "{ns} {told}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert!((0..BUCKETS).all(|index| bucket_of(end_of(index)) == index));
    }

    #[test]
    fn quantiles_follow_the_counts() {
        let growing = Growing::new();
        assert_eq!((growing.read().quantile(0.5), growing.read().mean()), (Duration::ZERO, Duration::ZERO));
        (1..=1_000).for_each(|us| growing.add(Duration::from_micros(us), us > 990));
        let told = growing.read();
        assert_eq!((told.count(), told.errors()), (1_000, 10));
        for (part, us) in [(0.0, 1), (0.5, 500), (0.99, 990), (1.0, 1_000), (7.0, 1_000)] {
            let (time, exact) = (told.quantile(part), Duration::from_micros(us));
            assert!(time >= exact && time <= exact + exact / 16, "{part} {time:?}");
        }
        assert_eq!(told.mean(), Duration::from_nanos(500_500));
    }
}

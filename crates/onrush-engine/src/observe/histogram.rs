//! A histogram of times with one writer: it shows where a command's latencies lie, in bounded memory.
//!
//! Each power of two is divided into 32 buckets, so times are exact to 3 %. Other threads may see an addition late.

use crate::observe::stats::Counter;

/// Buckets of each power of two are two to the power of this.
const STEP_BITS: u32 = 5;
const STEPS: usize = 1 << STEP_BITS;

/// Longer times than two to this power in nanoseconds (34 s) count as a little less.
const END_BITS: u32 = 35;
const NANOS_MAX: u64 = (1 << END_BITS) - 1;

const LEN: usize = STEPS * (END_BITS - STEP_BITS + 1) as usize;

/// The bucket of a time.
#[inline]
fn bucket_of(nanos: u64) -> usize {
    let nanos = nanos.min(NANOS_MAX);
    // Below the first power of two that is divided, each nanosecond has its bucket.
    let shift = (nanos | (STEPS as u64 - 1)).ilog2() + 1 - STEP_BITS;
    match shift {
        0 => nanos as usize,
        _ => shift as usize * STEPS + ((nanos >> (shift - 1)) as usize & (STEPS - 1)),
    }
}

/// The longest time in a bucket.
fn end_of(bucket: usize) -> u64 {
    match (bucket / STEPS, (bucket % STEPS) as u64) {
        (0, nanos) => nanos,
        (shift, step) => ((STEPS as u64 + step + 1) << (shift - 1)) - 1,
    }
}

/// How often each time was measured, by one thread.
pub struct Histogram([Counter; LEN]);

impl Histogram {
    /// An empty one.
    pub fn new() -> Box<Self> {
        Box::new(Self([const { Counter::new() }; LEN]))
    }

    /// Counts a time `times` times. Only the owning thread may call this. O(1).
    #[inline]
    pub fn add(&self, nanos: u64, times: u64) {
        self.0[bucket_of(nanos)].add(times);
    }

    /// Resets all counts; a concurrent addition may undo this for its count.
    pub fn reset(&self) {
        self.0.iter().for_each(Counter::reset);
    }
}

/// Histograms of several threads, added up.
pub struct Distribution {
    counts: Vec<u64>,
    /// Times measured.
    pub total: u64,
}

/// How many of the measured times are below a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CountBelow {
    /// The limit, in microseconds.
    pub micros: u64,
    /// How many times are below it.
    pub times: u64,
}

impl Distribution {
    /// The sum of histograms. O(their number).
    pub fn of<'h>(histograms: impl Iterator<Item = &'h Histogram>) -> Self {
        let mut counts = Vec::new();
        for histogram in histograms {
            counts.resize(LEN, 0);
            for (sum, count) in counts.iter_mut().zip(&histogram.0) {
                *sum += count.get();
            }
        }
        Self { total: counts.iter().sum(), counts }
    }

    /// The time that `percent` of the measured times do not exceed, in nanoseconds; 0 if none was measured.
    pub fn percentile(&self, percent: f64) -> u64 {
        let wanted = ((self.total as f64 * percent / 100.0).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map_or(0, end_of)
    }

    /// How many times are below each power of two, from 1,024 ns on; powers at which the count does not grow are left out. The
    /// microseconds are those of the histograms that Redis keeps, which round 32,768 ns up to 33.
    pub(crate) fn by_powers(&self) -> Vec<CountBelow> {
        const FIRST_BITS: u32 = 10;
        /// Redis's buckets are 128 to a power.
        const THEIR_STEP_BITS: u32 = 7;
        let (mut below, mut bucket) = (0, 0);
        let mut powers = Vec::new();
        for bits in FIRST_BITS..=END_BITS {
            let end = (bits + 1 - STEP_BITS) as usize * STEPS;
            let more: u64 = self.counts.get(bucket..end).unwrap_or_default().iter().sum();
            bucket = end;
            if more > 0 {
                below += more;
                let told = (1u64 << bits) + (1 << (bits - THEIR_STEP_BITS)) - 1;
                powers.push(CountBelow { micros: told / 1000, times: below });
            }
        }
        powers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_the_bucket_that_ends_behind_it() {
        let times = (0..5_000).chain((5..=END_BITS).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1]));
        for nanos in times.filter(|&nanos| nanos <= NANOS_MAX) {
            let bucket = bucket_of(nanos);
            assert!(end_of(bucket) >= nanos, "{nanos}");
            assert!(bucket == 0 || end_of(bucket - 1) < nanos, "{nanos}");
            assert!(end_of(bucket) - nanos <= nanos / STEPS as u64, "{nanos}");
        }
        assert_eq!(bucket_of(u64::MAX), LEN - 1);
        assert_eq!(end_of(LEN - 1), NANOS_MAX);
    }

    #[test]
    fn percentiles_are_those_of_all_threads() {
        let (one, other) = (Histogram::new(), Histogram::new());
        one.add(100, 50);
        other.add(1_000, 49);
        other.add(1_000_000, 1);
        let sum = Distribution::of([&*one, &*other].into_iter());
        assert_eq!(sum.total, 100);
        let near = |percent: f64, nanos: u64| {
            let told = sum.percentile(percent);
            assert!((nanos..=nanos + nanos / 31).contains(&told), "p{percent}: {told}");
        };
        near(0.0, 100);
        near(50.0, 100);
        near(50.1, 1_000);
        near(99.0, 1_000);
        near(99.9, 1_000_000);
        near(100.0, 1_000_000);
        one.reset();
        assert_eq!(Distribution::of([&*one].into_iter()).percentile(50.0), 0);
    }

    #[test]
    fn powers_are_told_where_the_count_grows() {
        let histogram = Histogram::new();
        for (nanos, times) in [(5, 2), (1_500, 3), (30_000, 4), (32_768, 1), (u64::MAX, 1)] {
            histogram.add(nanos, times);
        }
        let powers = Distribution::of([&*histogram].into_iter()).by_powers();
        let expected = [(1, 2), (2, 5), (33, 9), (66, 10), (34_628_173, 11)];
        assert_eq!(powers, expected.map(|(micros, times)| CountBelow { micros, times }));
    }
}

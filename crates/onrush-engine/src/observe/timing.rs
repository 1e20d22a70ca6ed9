//! What is timed, and the thresholds for noting it.
//!
//! Commands that are not short are timed one by one. Short ones are timed as a chunk, which takes far less than a millisecond. So
//! with a threshold of a millisecond or more a chunk that took longer holds a slow command, and its entry names all suspects; with
//! a lower threshold short commands are executed and timed one by one as well ([`Timing::times_each`]).

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// A chunk of short commands takes this long only if something is wrong.
const CHUNK_NANOS_MAX: u64 = 1_000_000;

/// What is timed and noted. The defaults are Redis's.
#[derive(Clone, Copy, Debug)]
pub struct TimingOptions {
    /// Microseconds from which a command counts as slow; negative is never (`slowlog-log-slower-than`).
    pub slow_us: i64,
    /// Entries that the slow log keeps (`slowlog-max-len`).
    pub slowlog_len_max: usize,
    /// Milliseconds from which the latency monitor takes note of an event; 0 is never (`latency-monitor-threshold`).
    pub latency_ms: u64,
    /// Whether each command has a histogram of its times (`latency-tracking`).
    pub tracks: bool,
}

impl Default for TimingOptions {
    fn default() -> Self {
        Self { slow_us: 10_000, slowlog_len_max: 128, latency_ms: 0, tracks: true }
    }
}

/// [`TimingOptions`] as atomics.
#[derive(Default)]
pub struct Timing {
    /// The least of all thresholds, in nanoseconds.
    least_nanos: AtomicU64,
    times_each: AtomicBool,
    /// One of this many chunks is sampled for hot keys; 0 is none.
    hot_keys_sample: AtomicU32,
    tracks: AtomicBool,
    slow_us: AtomicI64,
    slowlog_len_max: AtomicUsize,
    latency_ms: AtomicU64,
}

impl Timing {
    /// Takes over changed options.
    pub(crate) fn store(&self, options: &TimingOptions) {
        let slow_ns = u64::try_from(options.slow_us).map_or(u64::MAX, |us| us.saturating_mul(1000));
        let latency_ns = match options.latency_ms {
            0 => u64::MAX,
            ms => ms.saturating_mul(1_000_000),
        };
        self.slow_us.store(options.slow_us, Relaxed);
        self.slowlog_len_max.store(options.slowlog_len_max, Relaxed);
        self.latency_ms.store(options.latency_ms, Relaxed);
        self.tracks.store(options.tracks, Relaxed);
        self.least_nanos.store(slow_ns.min(latency_ns), Relaxed);
        self.settle_times_each();
    }

    /// From now on samples one of this many chunks for hot keys; 0 is none.
    pub(crate) fn sample_hot_keys(&self, ratio: u32) {
        self.hot_keys_sample.store(ratio, Relaxed);
        self.settle_times_each();
    }

    fn settle_times_each(&self) {
        self.times_each.store(self.all_are_timed() || self.hot_keys_sample.load(Relaxed) > 0, Relaxed);
    }

    /// Whether the slow log needs the time of each command.
    fn all_are_timed(&self) -> bool {
        u64::try_from(self.slow_us.load(Relaxed)).is_ok_and(|us| us < CHUNK_NANOS_MAX / 1000)
    }

    /// Whether hot keys are looked for.
    #[inline]
    pub(crate) fn looks_for_hot_keys(&self) -> bool {
        self.hot_keys_sample.load(Relaxed) > 0
    }

    /// Whether something that took this long must be noted.
    #[inline]
    pub(crate) fn is_long(&self, nanos: u64) -> bool {
        nanos >= self.least_nanos.load(Relaxed)
    }

    /// Whether a chunk whose short commands took this long in total must be noted.
    pub(crate) fn is_long_for_chunk(&self, nanos: u64) -> bool {
        // With a lower threshold commands are timed one by one, except those before it was set.
        nanos >= CHUNK_NANOS_MAX && self.is_long(nanos)
    }

    /// Whether the short commands of a chunk are executed and timed one by one. `random` draws a number.
    #[inline]
    pub(crate) fn times_each(&self, random: impl FnOnce() -> u64) -> bool {
        self.times_each.load(Relaxed) && self.times_this(random)
    }

    /// Whether commands may have to be timed one by one.
    #[inline]
    pub(crate) fn may_time_each(&self) -> bool {
        self.times_each.load(Relaxed)
    }

    #[cold]
    fn times_this(&self, random: impl FnOnce() -> u64) -> bool {
        let ratio = u64::from(self.hot_keys_sample.load(Relaxed));
        self.all_are_timed() || (ratio > 0 && random().is_multiple_of(ratio))
    }

    /// Whether commands have histograms.
    #[inline]
    pub(crate) fn tracks(&self) -> bool {
        self.tracks.load(Relaxed)
    }

    pub(crate) fn is_slow(&self, nanos: u64) -> bool {
        u64::try_from(self.slow_us.load(Relaxed)).is_ok_and(|slow_us| nanos / 1000 >= slow_us)
    }

    /// Entries that each slow log keeps.
    pub(crate) fn slowlog_len_max(&self) -> usize {
        self.slowlog_len_max.load(Relaxed)
    }

    /// Milliseconds from which an event is noted; `None` if none ever is.
    pub(crate) fn latency_threshold_ms(&self) -> Option<u64> {
        Some(self.latency_ms.load(Relaxed)).filter(|&ms| ms > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_threshold_says_what_is_long() {
        let timing = Timing::default();
        let check = |slow_us, latency_ms, least_nanos: u64, times_each| {
            timing.store(&TimingOptions { slow_us, latency_ms, ..TimingOptions::default() });
            assert_eq!(timing.least_nanos.load(Relaxed), least_nanos);
            assert_eq!(timing.times_each(|| 1), times_each);
        };
        check(10_000, 0, 10_000_000, false);
        check(10_000, 2, 2_000_000, false);
        check(-1, 0, u64::MAX, false);
        check(0, 5, 0, true);
        check(999, 5, 999_000, true);
        check(1_000, 5, 1_000_000, false);
        check(i64::MAX, 0, u64::MAX, false);
        timing.sample_hot_keys(3);
        assert_eq!([6, 7].map(|random| timing.times_each(|| random)), [true, false]);
        timing.sample_hot_keys(0);
        assert!(!timing.times_each(|| 6));
    }
}

//! Time, as the process passes it in.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where the engine gets the time from.
#[derive(Clone, Copy)]
pub struct TimeSource {
    /// The present moment, which never goes back.
    pub now: fn() -> Instant,
    /// The present Unix time in microseconds, which may be set.
    pub unix_us: fn() -> i64,
}

impl TimeSource {
    /// The clocks of the system.
    pub const SYSTEM: Self = Self { now: Instant::now, unix_us: system_unix_us };
}

fn system_unix_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}

/// How long it may take to read both clocks, and how often that is tried.
const READING_TAKES_MAX: Duration = Duration::from_micros(20);
const READINGS_MAX: u32 = 10;

/// Unix time derived from the clock that never goes back, so that a chunk needs only one reading of one clock.
pub struct Clock {
    source: TimeSource,
    base: Instant,
    offset_us: AtomicI64,
}

impl Clock {
    /// A clock that reads `source`.
    pub fn new(source: TimeSource) -> Self {
        let clock = Self { source, base: (source.now)(), offset_us: AtomicI64::new(0) };
        clock.synchronize();
        clock
    }

    /// Takes over the source's present Unix time. Call this regularly, since the system's time may be set.
    pub fn synchronize(&self) {
        // A thread that does not run for a while between the two readings would set the time ahead.
        let mut best = (Duration::MAX, 0);
        for _ in 0..READINGS_MAX {
            let before = self.now();
            let unix_us = self.unix_us();
            let took = self.now().saturating_duration_since(before);
            if took < best.0 {
                let since_base = before.saturating_duration_since(self.base);
                best = (took, unix_us - since_base.as_micros() as i64);
            }
            if took <= READING_TAKES_MAX {
                break;
            }
        }
        self.offset_us.store(best.1, Relaxed);
    }

    /// The present moment.
    #[inline]
    pub fn now(&self) -> Instant {
        (self.source.now)()
    }

    /// Unix time in milliseconds at `instant`.
    #[inline]
    pub fn unix_ms_at(&self, instant: Instant) -> i64 {
        self.unix_us_at(instant) / 1000
    }

    /// Unix time in microseconds at `instant`.
    #[inline]
    pub(crate) fn unix_us_at(&self, instant: Instant) -> i64 {
        let since = instant - self.base;
        let since_us = since.as_secs() as i64 * 1_000_000 + i64::from(since.subsec_micros());
        since_us + self.offset_us.load(Relaxed)
    }

    /// The present Unix time in milliseconds, from the source.
    pub fn unix_ms(&self) -> i64 {
        self.unix_us() / 1000
    }

    /// The present Unix time in microseconds, from the source.
    pub fn unix_us(&self) -> i64 {
        (self.source.unix_us)()
    }
}

//! The time of an input: it passes when the input says so.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use onrush_engine::clock::TimeSource;

/// Unix time when each input begins, in milliseconds.
const BEGIN_MS: i64 = 1_700_000_000_000;

static NOW_MS: AtomicI64 = AtomicI64::new(BEGIN_MS);

/// The clocks of the engines.
pub const SOURCE: TimeSource = TimeSource { now, unix_us };

fn now() -> Instant {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    *BEGIN.get_or_init(Instant::now) + Duration::from_millis((now_ms() - BEGIN_MS) as u64)
}

fn unix_us() -> i64 {
    now_ms() * 1000
}

/// The present Unix time in milliseconds.
pub fn now_ms() -> i64 {
    NOW_MS.load(Relaxed)
}

/// Lets time pass.
pub fn pass(ms: i64) {
    NOW_MS.fetch_add(ms, Relaxed);
}

/// It is the time when inputs begin.
pub fn reset() {
    NOW_MS.store(BEGIN_MS, Relaxed);
}

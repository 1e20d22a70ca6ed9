//! Virtual time: it passes when the simulation says so.

use std::cell::RefCell;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use onrush_engine::clock::TimeSource;

/// Unix time when a simulation begins.
const BEGIN_MS: i64 = 1_700_000_000_000;

/// The time of one simulation: Unix time in milliseconds.
pub type Time = Arc<AtomicI64>;

thread_local! {
    static TIME: RefCell<Option<Time>> = const { RefCell::new(None) };
}

/// Sets the time that the calling thread sees; `None` is the usual time.
pub fn set(time: Option<Time>) {
    TIME.set(time);
}

/// The time when a simulation begins.
pub fn new() -> Time {
    Arc::new(AtomicI64::new(BEGIN_MS))
}

/// The virtual clocks.
pub const SOURCE: TimeSource = TimeSource { now, unix_us };

fn now_ms() -> i64 {
    TIME.with_borrow(|time| time.as_ref().map_or(BEGIN_MS, |time| time.load(Relaxed)))
}

fn now() -> Instant {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    *BEGIN.get_or_init(Instant::now) + Duration::from_millis((now_ms() - BEGIN_MS) as u64)
}

fn unix_us() -> i64 {
    now_ms() * 1000
}

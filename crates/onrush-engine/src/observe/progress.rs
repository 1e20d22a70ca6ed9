//! Logging from time to time how far long work has come.

use std::time::{Duration, Instant};

/// The time between two reports.
const PERIOD: Duration = Duration::from_secs(5);

/// Decides when the next report is due, and computes the rate since the last one.
#[derive(Debug)]
pub struct Report {
    last: Instant,
    done: u64,
}

impl Report {
    /// For work that begins now.
    #[expect(clippy::new_without_default, reason = "two of them differ by the time")]
    pub fn new() -> Self {
        Self { last: Instant::now(), done: 0 }
    }

    /// If a report is due, calls `tell` with the work done per second since the last report and the seconds that the rest of
    /// `total` takes at that rate.
    pub fn tell(&mut self, done: u64, total: u64, tell: impl FnOnce(f64, f64)) {
        let took = self.last.elapsed();
        if took < PERIOD {
            return;
        }
        let rate = done.saturating_sub(self.done) as f64 / took.as_secs_f64();
        tell(rate, total.saturating_sub(done) as f64 / rate.max(1.0));
        (self.last, self.done) = (Instant::now(), done);
    }
}

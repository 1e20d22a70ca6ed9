//! When to try again what the disk has refused.

use std::time::{Duration, Instant};

/// The delay after a first failure, and the longest one.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// After each failure in a row it waits twice as long.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    failures: u32,
    failed_at: Option<Instant>,
}

impl Backoff {
    /// Whether it is time for another try.
    pub fn may_try(&self) -> bool {
        self.failed_at.is_none_or(|at| at.elapsed() >= self.delay())
    }

    /// How long it waits after the last failure.
    pub fn delay(&self) -> Duration {
        let doublings = self.failures.saturating_sub(1).min(LONGEST.as_secs().ilog2() + 1);
        (FIRST * 2u32.pow(doublings)).min(LONGEST)
    }

    /// Notes how a try has ended.
    pub fn note(&mut self, is_done: bool) {
        *self = match is_done {
            true => Self::default(),
            false => Self { failures: self.failures.saturating_add(1), failed_at: Some(Instant::now()) },
        };
    }

    /// Failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_in_a_row_doubles_the_delay_up_to_a_bound() {
        let mut backoff = Backoff::default();
        assert!(backoff.may_try());
        let delays = [1, 2, 4, 8, 16, 30, 30, 30];
        for delay in delays {
            backoff.note(false);
            assert_eq!(backoff.delay(), Duration::from_secs(delay));
            assert!(!backoff.may_try());
        }
        backoff.failed_at = Instant::now().checked_sub(LONGEST);
        assert!(backoff.may_try());
        backoff.note(true);
        assert!(backoff.may_try() && backoff.failures() == 0);
    }
}

//! How long to wait before the next attempt to connect.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::builder::builder;

/// No wait is longer, whatever was set: times far ahead cannot be counted with.
const WAIT_MAX: Duration = Duration::from_secs(365 * 86_400);

/// Waits that double from attempt to attempt up to a limit. Each is shortened by a random part of at most a half, so
/// that many clients of one server do not all come back at once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backoff {
    /// The wait before the second attempt; the first is made at once.
    pub first: Duration,
    /// The longest wait.
    pub max: Duration,
    /// Number of attempts before the connection is given up; `None` for no limit.
    pub attempts_max: Option<u32>,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { first: Duration::from_millis(10), max: Duration::from_secs(2), attempts_max: None }
    }
}

builder! {
    Backoff, new: "10 ms, at most 2 s, no limit on attempts.";
    /// The wait before the second attempt.
    set_first(wait: Duration) => first = wait;
    /// The longest wait.
    set_max(wait: Duration) => max = wait;
    /// Number of attempts before the connection is given up; `None` for no limit.
    set_attempts_max(attempts: Option<u32>) => attempts_max = attempts;
}

impl Backoff {
    /// The wait before an attempt, counted from 0.
    pub(crate) fn wait(&self, attempt: u32) -> Duration {
        if attempt == 0 {
            return Duration::ZERO;
        }
        let doubled = self.first.saturating_mul(1u32.checked_shl(attempt - 1).unwrap_or(u32::MAX));
        // Each RandomState has its own keys: that is enough randomness here.
        let chance = RandomState::new().hash_one(attempt) >> 32;
        doubled.min(self.max).min(WAIT_MAX).mul_f64(0.5 + 0.5 * chance as f64 / f64::from(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_waits_can_be_counted_with() {
        let backoff = Backoff { first: Duration::MAX, max: Duration::MAX, ..Backoff::default() };
        assert!((0..100).all(|attempt| backoff.wait(attempt) <= WAIT_MAX));
    }

    #[test]
    fn waits_double_up_to_the_limit_and_lose_at_most_half() {
        let backoff = Backoff { first: Duration::from_millis(10), max: Duration::from_millis(100), attempts_max: None };
        assert_eq!(backoff.wait(0), Duration::ZERO);
        for (attempt, full_ms) in [(1, 10), (2, 20), (3, 40), (4, 80), (5, 100), (40, 100), (4000, 100)] {
            let wait = backoff.wait(attempt);
            assert!(wait <= Duration::from_millis(full_ms) && wait >= Duration::from_millis(full_ms) / 2, "{wait:?}");
        }
    }
}

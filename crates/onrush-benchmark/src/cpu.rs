//! CPU time, as Linux reports it.

use std::path::Path;
use std::time::Duration;

/// CPU time of this thread so far; zero if the system does not report it.
pub fn of_this_thread() -> Duration {
    of("/proc/thread-self/schedstat").unwrap_or_default()
}

/// The CPU time in a `schedstat` file: its first number, in nanoseconds.
pub fn of(path: impl AsRef<Path>) -> Option<Duration> {
    let text = std::fs::read_to_string(path).ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

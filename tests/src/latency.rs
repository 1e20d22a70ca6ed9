//! Round-trip times of one client while others work.

use std::time::{Duration, Instant};

use crate::argv::Argv;
use crate::client::Conn;

/// Sorted round-trip times.
pub struct Latencies(Vec<Duration>);

impl Latencies {
    /// Calls `argv` once after the other while `go_on` holds (it gets the number of calls so far).
    pub fn measure(conn: &mut Conn, argv: &Argv, mut go_on: impl FnMut(usize) -> bool) -> Latencies {
        let mut times = Vec::new();
        while go_on(times.len()) {
            let started = Instant::now();
            conn.call(argv);
            times.push(started.elapsed());
        }
        times.sort();
        Latencies(times)
    }

    /// The time that `per_mille` of a thousand calls stay under.
    pub fn quantile(&self, per_mille: usize) -> Duration {
        assert!(!self.0.is_empty(), "nothing was measured");
        self.0[(self.0.len() * per_mille / 1000).min(self.0.len() - 1)]
    }

    /// The number of calls.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl std::fmt::Display for Latencies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = |per_mille| self.quantile(per_mille);
        let count = self.count();
        write!(f, "p50 {:?}, p99 {:?}, p99.9 {:?}, max {:?} of {count}", at(500), at(990), at(999), at(1000))
    }
}

/// For limits of time: other programs can only make them harder to keep, so one success in three tries is enough.
pub fn holds_once(mut check: impl FnMut() -> Result<(), String>) {
    let failures: Vec<String> = (0..3).map_while(|_| check().err()).collect();
    assert!(failures.len() < 3, "{}", failures.join("\n"));
}

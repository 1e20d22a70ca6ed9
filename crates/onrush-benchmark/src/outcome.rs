//! What was measured: plain data, for every form of report.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::load::checker::Checked;

/// The longest latency that histograms distinguish, in nanoseconds: an hour.
const LATENCY_MAX: u64 = 3_600_000_000_000;
/// If a thread is on CPU for at least this part of its time, the client counts as the limit, not the server.
const BUSY: f64 = 0.95;

/// An empty histogram of nanoseconds with three significant digits.
pub fn histogram() -> Histogram<u64> {
    let bounded = Histogram::new_with_bounds(1, LATENCY_MAX, 3);
    bounded.unwrap_or_else(|_| unreachable!("the bounds are in order"))
}

/// What a run measured.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub title: String,
    pub payload_len: usize,
    pub replies: u64,
    pub elapsed: Duration,
    /// Nanoseconds.
    pub latencies: Histogram<u64>,
    /// Of a mix, each command's name and latencies; else empty.
    pub kinds: Vec<(String, Histogram<u64>)>,
    /// Of a cluster, each node's place and latencies; else empty.
    pub nodes: Vec<(String, Histogram<u64>)>,
    /// How often the cluster's nodes were asked anew.
    pub refreshes: u64,
    /// The run piece by piece.
    pub series: Vec<Point>,
    pub client_cpu: Duration,
    /// The part of the time that the busiest thread was on CPU.
    pub busiest: f64,
    /// CPU time of the server, if it can be measured.
    pub server_cpu: Option<Duration>,
    pub incidents: Incidents,
}

/// What did not go as usual.
#[derive(Clone, Debug, Default)]
pub struct Incidents {
    /// Replies that sent a connection to another node.
    pub redirects: u64,
    /// Connections that broke and were made again.
    pub broken: u64,
    /// Commands whose replies were lost with them.
    pub lost: u64,
    /// Commands of an open loop that were due before its end but could not be sent.
    pub unsent: u64,
    /// Of `--data-verify`.
    pub checked: Checked,
}

impl Incidents {
    /// Adds those of another thread.
    pub fn add(&mut self, other: &Incidents) {
        self.redirects += other.redirects;
        self.broken += other.broken;
        self.lost += other.lost;
        self.unsent += other.unsent;
        self.checked.add(&other.checked);
    }
}

/// A piece of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// When it began.
    pub at_s: f64,
    #[serde(rename = "seconds")]
    pub len_s: f64,
    pub replies: u64,
    /// Latencies of the replies that came in it, in milliseconds; 0 without any.
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

impl Outcome {
    /// Commands a second.
    pub fn rps(&self) -> f64 {
        self.replies as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// The latency, in milliseconds, within which a part of all commands stays.
    pub fn latency_ms(&self, quantile: f64) -> f64 {
        self.latencies.value_at_quantile(quantile) as f64 / 1e6
    }

    /// The mean latency in milliseconds.
    pub fn mean_ms(&self) -> f64 {
        self.latencies.mean() / 1e6
    }

    /// Microseconds of CPU for one command.
    pub fn per_command_us(&self, cpu: Duration) -> f64 {
        cpu.as_secs_f64() * 1e6 / self.replies.max(1) as f64
    }

    /// Whether the client was the limit.
    pub fn is_client_bound(&self) -> bool {
        self.busiest >= BUSY
    }
}

/// The results of several rounds of one test with one value on one server.
#[derive(Clone, Debug)]
pub struct Cell {
    pub test: String,
    pub server: String,
    /// The value of the sweep, empty without one, and its place on an axis.
    pub value: String,
    pub number: Option<f64>,
    /// In the order in which they ran; at least one.
    rounds: Vec<Outcome>,
    /// The round with the median throughput.
    median: usize,
}

impl Cell {
    /// From at least one round.
    pub fn new(test: String, server: String, value: String, number: Option<f64>, rounds: Vec<Outcome>) -> Cell {
        let mut order: Vec<usize> = (0..rounds.len()).collect();
        order.sort_by(|&one, &other| rounds[one].rps().total_cmp(&rounds[other].rps()));
        let median = order[order.len() / 2];
        Cell { test, server, value, number, rounds, median }
    }

    /// The round that counts.
    pub fn median(&self) -> &Outcome {
        &self.rounds[self.median]
    }

    /// All rounds, in the order in which they ran.
    pub fn rounds(&self) -> &[Outcome] {
        &self.rounds
    }

    /// Commands a second of the median round.
    pub fn rps(&self) -> f64 {
        self.median().rps()
    }
}

/// The same value on two servers: how much faster the first is.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    pub test: String,
    pub value: String,
    /// Throughput of the first server divided by that of the second: the geometric mean over rounds.
    pub ratio: f64,
    /// The 95 % confidence interval, with three rounds or more.
    pub interval: Option<(f64, f64)>,
}

/// The outcome of a run that measured `replies` commands in a second, for tests.
#[cfg(test)]
pub fn example(replies: u64) -> Outcome {
    let mut latencies = histogram();
    latencies.record_n(1_000_000, replies).unwrap();
    let point = Point { at_s: 0.0, len_s: 1.0, replies, p50_ms: 1.0, p99_ms: 1.0, max_ms: 1.0 };
    Outcome {
        title: "SET".into(),
        payload_len: 3,
        replies,
        elapsed: Duration::from_secs(1),
        latencies,
        kinds: Vec::new(),
        nodes: Vec::new(),
        refreshes: 0,
        series: vec![point, Point { at_s: 1.0, ..point }],
        client_cpu: Duration::from_millis(100),
        busiest: 0.1,
        server_cpu: None,
        incidents: Incidents::default(),
    }
}

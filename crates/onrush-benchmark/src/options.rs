//! The task: plain data, made from the command line.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::load::items::Items;
use crate::load::random::KeyPatterns;
use crate::net::target::{Node, Target};

/// The task.
#[derive(Clone, Debug)]
pub struct Options {
    pub target: Target,
    pub clients: usize,
    pub requests: u64,
    /// The least and the greatest length of values.
    pub data_len: (usize, usize),
    pub is_data_random: bool,
    /// The least and the greatest time to live of what SET writes.
    pub ttl: Option<(Duration, Duration)>,
    pub db: u32,
    pub resp3: bool,
    pub threads: Option<usize>,
    pub tracking: bool,
    pub keep_alive: bool,
    pub keyspace: Option<u64>,
    pub keys: KeyPatterns,
    /// Keys and values in place of made-up ones.
    pub items: Option<Arc<Items>>,
    /// Whether replies to GET are compared with them.
    pub verify: bool,
    pub pipeline: usize,
    pub quiet: bool,
    pub precision: usize,
    pub csv: bool,
    pub endless: bool,
    pub tests: Option<Vec<String>>,
    /// Tests by name that are mixed into one, each with its weight; empty for none.
    pub mix: Vec<(String, u32)>,
    pub idle: bool,
    pub seed: u64,
    /// Commands a second, over all connections; latencies count from when each was due.
    pub rate: Option<f64>,
    pub arrivals: Arrivals,
    /// Commands in flight on each connection, refilled as replies come; instead of batches.
    pub window: Option<usize>,
    pub warmup: Duration,
    pub duration: Option<Duration>,
    /// How long to try to remake a broken connection; without it, a broken connection ends the run.
    pub reconnect: Option<Duration>,
    pub rtt: Duration,
    pub sweep: Option<Sweep>,
    pub versus: Option<Target>,
    /// The target is a node of a cluster, whose masters share the load.
    pub cluster: bool,
    /// Those masters, once they are known.
    pub nodes: Vec<Node>,
    pub rounds: usize,
    pub files: Files,
    /// A command instead of the tests.
    pub command: Vec<Vec<u8>>,
}

/// Files for results beside standard output.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Files {
    /// All rounds with latencies and time series, as JSON
    #[arg(long, value_name = "file", help_heading = "Results")]
    pub json: Option<PathBuf>,
    /// The medians, as CSV
    #[arg(long = "csv-file", value_name = "file", help_heading = "Results")]
    pub csv_file: Option<PathBuf>,
    /// Throughput over the values of a sweep, else latency by percentile; .svg or .png
    #[arg(long, value_name = "file", help_heading = "Results")]
    pub plot: Option<PathBuf>,
    /// p50, p99 and p99.9 over the values of a sweep; .svg or .png
    #[arg(long = "latency-plot", value_name = "file", help_heading = "Results", requires = "sweep")]
    pub latency_plot: Option<PathBuf>,
    /// All plots, time series and figures as one HTML page
    #[arg(long, value_name = "file", help_heading = "Results")]
    pub report: Option<PathBuf>,
    /// Latencies of the last test in HdrHistogram's text format
    #[arg(long, value_name = "file", help_heading = "Results")]
    pub hdr: Option<PathBuf>,
    // Not a result: lines to draw instead of a run.
    /// Only draws the lines of a JSON file, {"x": title, "y": title, "lines": {name: [[x, y], ...]}}, into the file of --plot
    #[arg(long, value_name = "file", help_heading = "Results", requires = "plot")]
    pub draw: Option<PathBuf>,
}

/// How the commands of an open loop follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Arrivals {
    /// At equal distances, the connections in turns.
    #[default]
    Even,
    /// At random times, as from many independent clients.
    Poisson,
}

impl Options {
    /// Where the load goes: the server, or a cluster's masters.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        let single = (!self.cluster).then_some(&self.target);
        single.into_iter().chain(self.nodes.iter().map(|node| &node.target))
    }

    /// Commands of one batch, or in flight.
    pub fn depth(&self) -> usize {
        self.window.unwrap_or(self.pipeline)
    }

    /// The same options with one value of a sweep.
    pub fn at(&self, value: SweptValue) -> Options {
        let mut options = self.clone();
        match value {
            SweptValue::Depth(depth) => options.pipeline = depth,
            SweptValue::Window(window) => options.window = Some(window),
            SweptValue::Clients(clients) => options.clients = clients,
            SweptValue::Size(len) => options.data_len = (len, len),
            SweptValue::Rtt(rtt) => options.rtt = rtt,
            SweptValue::Rate(rate) => options.rate = Some(rate),
        }
        options
    }
}

/// One value of what a sweep varies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SweptValue {
    Depth(usize),
    Window(usize),
    Clients(usize),
    Size(usize),
    Rtt(Duration),
    Rate(f64),
}

impl SweptValue {
    /// Its place on the axis of a plot; times in milliseconds.
    pub fn number(self) -> f64 {
        match self {
            SweptValue::Depth(n) | SweptValue::Window(n) | SweptValue::Clients(n) | SweptValue::Size(n) => n as f64,
            SweptValue::Rtt(rtt) => rtt.as_secs_f64() * 1e3,
            SweptValue::Rate(rate) => rate,
        }
    }
}

/// Values for an option, each as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// What it varies, as tables and plots call it.
    pub title: &'static str,
    /// At least one.
    pub values: Vec<(String, SweptValue)>,
}

//! The server over time: memory, clients, keys.

use std::fmt::{self, Display};
use std::time::Duration;

use crate::client::Conn;
use crate::resp::Value;
use crate::server::Server;

const MIB: f64 = 1_048_576.0;

/// The part by which the means of resident memory may differ over the last half of a soak.
pub const RSS_DIFFERENCE_MAX: f64 = 0.05;

/// The server at one moment.
#[derive(Clone, Debug)]
pub struct Sample {
    at: Duration,
    rss: u64,
    used: i64,
    clients: i64,
    client_memory: i64,
    keys: i64,
    evicted: i64,
    log: i64,
}

impl Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minutes = self.at.as_secs_f64() / 60.0;
        write!(f, "{minutes:.0} min: RSS {:.1} MiB, used {:.1} MiB, ", self.rss as f64 / MIB, self.used as f64 / MIB)?;
        write!(f, "{} keys, {} clients", self.keys, self.clients)
    }
}

/// All samples.
#[derive(Debug, Default)]
pub struct Samples(Vec<Sample>);

impl Samples {
    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes one more.
    pub fn take(&mut self, at: Duration, server: &Server, conn: &mut Conn) -> &Sample {
        let mut number = |name: &str| conn.info_number(name).unwrap_or(-1);
        self.0.push(Sample {
            at,
            used: number("used_memory"),
            clients: number("connected_clients"),
            client_memory: number("mem_clients_normal"),
            evicted: number("evicted_keys"),
            log: number("aof_current_size"),
            keys: match conn.run("DBSIZE") {
                Value::Int(keys) => keys,
                _ => -1,
            },
            rss: server.rss_kb() * 1024,
        });
        self.0.last().expect("a sample")
    }

    /// The least, mean and most resident memory of the last half, in bytes.
    pub fn rss_of_last_half(&self) -> Option<(u64, f64, u64)> {
        let half = &self.0[self.0.len() / 2..];
        let (least, most) = (half.iter().map(|one| one.rss).min()?, half.iter().map(|one| one.rss).max()?);
        Some((least, half.iter().map(|one| one.rss as f64).sum::<f64>() / half.len() as f64, most))
    }

    /// How far the means of resident memory in nine parts of the last half are from each other, as a part of the mean: what
    /// comes and goes within minutes (a rewrite, clients that do not read) is no growth.
    pub fn rss_difference(&self) -> f64 {
        let half = &self.0[self.0.len() / 2..];
        let mean = |part: &[Sample]| part.iter().map(|one| one.rss as f64).sum::<f64>() / part.len() as f64;
        let means: Vec<f64> = half.chunks(half.len().div_ceil(9).max(1)).map(mean).collect();
        let (least, most) =
            means.iter().fold((f64::MAX, 0_f64), |(least, most), one| (least.min(*one), most.max(*one)));
        if means.is_empty() { 0.0 } else { (most - least) / mean(half) }
    }

    /// A table of Markdown with a row for each part of the time.
    pub fn table(&self, rows: usize) -> String {
        let mut text = String::from(
            "| minutes | RSS least | mean | most, MiB | used, MiB | clients | theirs, MiB | keys | evicted | log, MiB |\n\
             |---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        );
        for part in self.0.chunks(self.0.len().div_ceil(rows).max(1)) {
            let mean = |of: fn(&Sample) -> f64| part.iter().map(of).sum::<f64>() / part.len() as f64;
            let (Some(last), rss) = (part.last(), |one: &Sample| one.rss) else { continue };
            text += &format!(
                "| {:.0} | {:.1} | {:.1} | {:.1} | {:.1} | {:.0} | {:.2} | {:.0} | {} | {:.0} |\n",
                last.at.as_secs_f64() / 60.0,
                part.iter().map(rss).min().unwrap_or(0) as f64 / MIB,
                mean(|one| one.rss as f64 / MIB),
                part.iter().map(rss).max().unwrap_or(0) as f64 / MIB,
                mean(|one| one.used as f64 / MIB),
                mean(|one| one.clients as f64),
                mean(|one| one.client_memory as f64 / MIB),
                mean(|one| one.keys as f64),
                last.evicted,
                mean(|one| one.log as f64 / MIB),
            );
        }
        text
    }
}

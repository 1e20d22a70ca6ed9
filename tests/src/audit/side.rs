//! One of the two servers: its runs of a scenario, and the least that each line cost.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::bench::{Bench, Cost, Memory, Stop, forget_peak, peak};
use super::script::{Line, Scenario};
use super::wire::Wire;
use crate::server::{Launch, Server};

/// Memory counts as returned when at most this much is left: bytes in use, and resident.
pub const USED_ALLOWANCE: u64 = 4 << 20;
/// See [`USED_ALLOWANCE`]. Allocators keep some pages.
pub const RSS_ALLOWANCE: u64 = 24 << 20;

/// Memory of a run, in bytes beyond the state before it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taken {
    /// At the end of the script, or at a pause if it was more then.
    pub full: Memory,
    /// The most that was resident.
    pub peak: u64,
    /// What is left after FLUSHALL.
    pub left_by_flush: Option<Memory>,
    /// What is left after DEL of all keys.
    pub left_by_del: Option<Memory>,
}

/// How a run cleans up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cleanup {
    /// By FLUSHALL.
    Flush,
    /// By DEL of every key.
    Del,
}

/// A server with what was measured on it.
pub struct Side {
    bin: PathBuf,
    is_onrush: bool,
    args: &'static [&'static str],
    server: Option<Server>,
    /// Least costs by line and size.
    pub costs: BTreeMap<(usize, usize), Cost>,
    /// Memory by size.
    pub memory: BTreeMap<usize, Taken>,
    /// Lines that stopped a run, with the size and the reason; they are left out from then on.
    pub stopped: BTreeMap<usize, (usize, String)>,
}

/// How a turn is made.
#[derive(Clone, Copy)]
pub struct Turn {
    /// The size.
    pub n: usize,
    /// How it cleans up.
    pub cleanup: Cleanup,
    /// Whether another client watches how long it waits.
    pub probed: bool,
    /// How long a line may take.
    pub patience: Duration,
    /// How long memory may take to come back.
    pub settling: Duration,
}

impl Side {
    /// The server of a binary with the scenario's arguments; it starts with the first turn.
    pub fn new(bin: PathBuf, is_onrush: bool, scenario: &Scenario) -> Side {
        Side {
            bin,
            is_onrush,
            args: scenario.args,
            server: None,
            costs: BTreeMap::new(),
            memory: BTreeMap::new(),
            stopped: BTreeMap::new(),
        }
    }

    /// One run of the lines that have not stopped a run before; `skipped` are left out as well.
    pub fn turn(&mut self, lines: &[Line], turn: Turn, skipped: &BTreeSet<usize>) {
        let server = self.server.take().unwrap_or_else(|| self.start());
        let left_out: BTreeSet<usize> = skipped.iter().chain(self.stopped.keys()).copied().collect();
        match self.run(&server, lines, turn, &left_out) {
            Ok(()) => self.server = Some(server),
            // The server may be in an endless loop: the next turn starts another.
            Err((line, stop)) => {
                let reason = match stop {
                    Stop::Silent => format!("no reply within {:?}", turn.patience),
                    Stop::Failed(reason) => reason,
                };
                self.stopped.insert(line, (turn.n, reason));
            }
        }
    }

    /// Ends the server, so that the next turn starts with a fresh one: memory that a name takes once is taken only once
    /// per server.
    pub fn end(&mut self) {
        self.server = None;
    }

    /// Lines that stopped a run.
    pub fn stopped_lines(&self) -> BTreeSet<usize> {
        self.stopped.keys().copied().collect()
    }

    /// The most CPU time that a line took at a size.
    pub fn longest(&self, n: usize) -> Duration {
        let at_size = self.costs.iter().filter(|((_, size), _)| *size == n);
        at_size.map(|(_, cost)| cost.cpu).max().unwrap_or_default()
    }

    fn start(&self) -> Server {
        let launch = if self.is_onrush { Launch::onrush_without_polls() } else { Launch::redis_of(self.bin.clone()) };
        launch.args(&["--enable-debug-command", "yes"]).args(self.args).start()
    }

    fn run(
        &mut self,
        server: &Server,
        lines: &[Line],
        turn: Turn,
        left_out: &BTreeSet<usize>,
    ) -> Result<(), (usize, Stop)> {
        let last = lines.len().saturating_sub(1);
        let at_end = |error: std::io::Error| (last, Stop::from(error));
        let before = Memory::of(server, turn.patience).map_err(at_end)?;
        forget_peak(server.pid());
        let mut bench = Bench::new(server, turn.n, turn.patience).map_err(at_end)?;
        let costs = &mut self.costs;
        bench.run(lines, left_out, turn.probed, |line, cost| {
            costs.entry((line, turn.n)).and_modify(|least| *least = least.min(cost)).or_insert(cost);
        })?;
        let full = beyond(bench.high_memory().map_err(at_end)?, before);
        let peak = peak(server.pid()).saturating_sub(before.rss);
        drop(bench);
        clean_up(server, turn).map_err(at_end)?;
        let left = settle(server, before, turn).map_err(at_end)?;
        self.note_memory(turn, full, peak, left);
        Ok(())
    }

    fn note_memory(&mut self, turn: Turn, full: Memory, peak: u64, left: Memory) {
        let taken = self.memory.entry(turn.n).or_insert(Taken { full, peak, ..Taken::default() });
        taken.full = least(taken.full, full);
        taken.peak = taken.peak.min(peak);
        let slot = match turn.cleanup {
            Cleanup::Flush => &mut taken.left_by_flush,
            Cleanup::Del => &mut taken.left_by_del,
        };
        *slot = Some(slot.map_or(left, |known| least(known, left)));
    }
}

fn least(a: Memory, b: Memory) -> Memory {
    Memory { used: a.used.min(b.used), rss: a.rss.min(b.rss) }
}

fn beyond(now: Memory, before: Memory) -> Memory {
    Memory { used: now.used.saturating_sub(before.used), rss: now.rss.saturating_sub(before.rss) }
}

fn clean_up(server: &Server, turn: Turn) -> std::io::Result<()> {
    let deadline = Instant::now() + turn.patience;
    let mut wire = Wire::connect(server.port())?;
    if turn.cleanup == Cleanup::Del {
        wire.send(b"*2\r\n$4\r\nINFO\r\n$8\r\nkeyspace\r\n", deadline)?;
        let text = wire.read_items(deadline)?.pop().unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        for line in text.lines().filter_map(|line| line.strip_prefix("db")) {
            let number = line.split(':').next().unwrap_or_default();
            wire.send(format!("*2\r\n$6\r\nSELECT\r\n${}\r\n{number}\r\n", number.len()).as_bytes(), deadline)?;
            wire.skip_reply(deadline)?;
            delete_all(&mut wire, deadline)?;
        }
    }
    wire.send(b"*1\r\n$8\r\nFLUSHALL\r\n", deadline)?;
    wire.skip_reply(deadline)?;
    Ok(())
}

fn delete_all(wire: &mut Wire, deadline: Instant) -> std::io::Result<()> {
    wire.send(b"*2\r\n$4\r\nKEYS\r\n$1\r\n*\r\n", deadline)?;
    let keys = wire.read_items(deadline)?;
    for some in keys.chunks(1000) {
        let mut bytes = format!("*{}\r\n$3\r\nDEL\r\n", some.len() + 1).into_bytes();
        for key in some {
            bytes.extend_from_slice(format!("${}\r\n", key.len()).as_bytes());
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(b"\r\n");
        }
        wire.send(&bytes, deadline)?;
        wire.skip_reply(deadline)?;
    }
    Ok(())
}

/// Waits until the memory is back, at most `settling`; returns what is left.
fn settle(server: &Server, before: Memory, turn: Turn) -> std::io::Result<Memory> {
    let until = Instant::now() + turn.settling;
    loop {
        let left = beyond(Memory::of(server, turn.patience)?, before);
        if (left.used <= USED_ALLOWANCE && left.rss <= RSS_ALLOWANCE) || Instant::now() >= until {
            return Ok(left);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

//! Runs a scenario at one size on one server and measures its lines.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::script::{Act, Line};
use super::template::{Scope, Template};
use super::wire::Wire;
use crate::process;
use crate::server::Server;

/// Most bytes and commands in a batch of requests; after each batch its replies are read.
const BATCH_BYTES_MAX: usize = 64 * 1024;
const BATCH_COMMANDS_MAX: usize = 500;

/// How long `rest` lasts.
const REST: Duration = Duration::from_millis(200);

/// The cost of a line on a server.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// CPU time of all threads of the server.
    pub cpu: Duration,
    /// Time to the last reply.
    pub wall: Duration,
    /// The longest time that another client, if there was one, waited for replies to PING and GETs meanwhile.
    pub longest_wait: Option<Duration>,
}

impl Cost {
    /// The lower of each.
    pub fn min(self, other: Cost) -> Cost {
        let waits = [self.longest_wait, other.longest_wait];
        Cost {
            cpu: self.cpu.min(other.cpu),
            wall: self.wall.min(other.wall),
            longest_wait: waits.into_iter().flatten().min(),
        }
    }
}

/// Why a run ended early.
#[derive(Debug)]
pub enum Stop {
    /// No reply within the time allowed.
    Silent,
    /// The server closed the connection, or answered with an error that the line does not allow.
    Failed(String),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        if error.kind() == ErrorKind::TimedOut { Stop::Silent } else { Stop::Failed(error.to_string()) }
    }
}

/// A run of a script on a server, with its connections.
pub struct Bench<'a> {
    server: &'a Server,
    n: usize,
    patience: Duration,
    wire: Wire,
    others: Vec<Wire>,
    order: Vec<Vec<u8>>,
    /// The most memory there was at a `rest` or before a `vanish`.
    high: Memory,
}

impl<'a> Bench<'a> {
    /// A run at size `n`. No line may take longer than `patience`.
    pub fn new(server: &'a Server, n: usize, patience: Duration) -> io::Result<Bench<'a>> {
        let wire = Wire::connect(server.port())?;
        Ok(Bench { server, n, patience, wire, others: Vec::new(), order: Vec::new(), high: Memory::default() })
    }

    /// Runs the lines, except those in `skipped`, and passes the cost of each measured one to `on_cost`. With `probed`,
    /// another client measures how long it must wait. Errors: the line at which the run stopped, and why.
    pub fn run(
        &mut self,
        lines: &[Line],
        skipped: &BTreeSet<usize>,
        probed: bool,
        mut on_cost: impl FnMut(usize, Cost),
    ) -> Result<(), (usize, Stop)> {
        for (index, line) in lines.iter().enumerate() {
            if skipped.contains(&index) {
                continue;
            }
            let done = match (line.measured, probed) {
                (false, _) => self.act(line).map(|_| None),
                (true, false) => self.measure(line).map(Some),
                (true, true) => self.measure_probed(line).map(Some),
            };
            match done {
                Ok(Some(cost)) => on_cost(index, cost),
                Ok(None) => {}
                Err(stop) => return Err((index, stop)),
            }
        }
        Ok(())
    }

    fn measure(&mut self, line: &Line) -> Result<Cost, Stop> {
        let before = quiet_cpu_time(self.server.pid(), self.patience);
        let wall = self.act(line)?;
        let cpu = quiet_cpu_time(self.server.pid(), self.patience).saturating_sub(before);
        Ok(Cost { cpu, wall, longest_wait: None })
    }

    fn measure_probed(&mut self, line: &Line) -> Result<Cost, Stop> {
        let done = AtomicBool::new(false);
        let mut probe = Wire::connect(self.server.port())?;
        let patience = self.patience;
        std::thread::scope(|scope| {
            let done = &done;
            let waits = scope.spawn(move || longest_wait(&mut probe, done, patience));
            let cost = self.measure(line);
            done.store(true, Ordering::Relaxed);
            let longest_wait = waits.join().expect("the probe ends");
            cost.map(|cost| Cost { longest_wait: Some(longest_wait), ..cost })
        })
    }

    /// Runs the line; returns the time from the first byte to the last reply.
    fn act(&mut self, line: &Line) -> Result<Duration, Stop> {
        let deadline = Instant::now() + self.patience;
        match &line.act {
            Act::Send { commands, times, groups, groups_per_command } => {
                let batches = self.batches(commands, times.at(self.n), groups.at(self.n), *groups_per_command);
                self.send(&batches, line.may_fail)
            }
            Act::Order(template) => {
                let started = Instant::now();
                let mut bytes = Vec::new();
                template.encode(&Scope { n: self.n, i: 0, count: 1, order: &[] }, 0..0, &mut bytes);
                self.wire.send(&bytes, deadline)?;
                self.order = self.wire.read_items(deadline)?;
                Ok(started.elapsed())
            }
            Act::Connect { command, times, waits } => self.connect(command, times.at(self.n), *waits, deadline),
            Act::Raw(bytes, times) => {
                let started = Instant::now();
                for _ in 0..times.at(self.n) {
                    let mut wire = Wire::connect(self.server.port())?;
                    wire.send(bytes, deadline)?;
                    self.others.push(wire);
                }
                quiet_cpu_time(self.server.pid(), self.patience);
                Ok(started.elapsed())
            }
            Act::Wake => {
                let started = Instant::now();
                for wire in &mut self.others {
                    wire.skip_reply(deadline)?;
                }
                Ok(started.elapsed())
            }
            Act::Vanish => {
                self.note_memory()?;
                let started = Instant::now();
                self.others.drain(..).for_each(Wire::close);
                self.wait_info("connected_clients", deadline, |clients| clients <= 2)?;
                Ok(started.elapsed())
            }
            Act::Gone => {
                let started = Instant::now();
                while self.ask(b"*1\r\n$6\r\nDBSIZE\r\n", deadline)? != b":0 " {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Ok(started.elapsed())
            }
            Act::Rest => {
                std::thread::sleep(REST);
                self.note_memory()?;
                Ok(REST)
            }
        }
    }

    /// Bytes that are sent at once, and the number of their replies.
    fn batches(
        &self,
        commands: &[Template],
        times: usize,
        groups: usize,
        groups_per_command: usize,
    ) -> Vec<(Vec<u8>, usize)> {
        let mut batches = vec![(Vec::new(), 0)];
        let mut add = |command: &Template, i, range: std::ops::Range<usize>| {
            let (bytes, replies) = batches.last_mut().expect("one is there");
            let scope = Scope { n: self.n, i, count: times.max(groups), order: &self.order };
            command.encode(&scope, range, bytes);
            *replies += 1;
            if bytes.len() >= BATCH_BYTES_MAX || *replies >= BATCH_COMMANDS_MAX {
                batches.push((Vec::new(), 0));
            }
        };
        for i in 0..times {
            for command in commands {
                if !command.has_group() {
                    add(command, i, 0..0);
                    continue;
                }
                let mut first = 0;
                while first < groups {
                    let end = first.saturating_add(groups_per_command).min(groups);
                    add(command, i, first..end);
                    first = end;
                }
            }
        }
        batches
    }

    fn send(&mut self, batches: &[(Vec<u8>, usize)], may_fail: bool) -> Result<Duration, Stop> {
        let started = Instant::now();
        let deadline = started + self.patience;
        for (bytes, replies) in batches {
            self.wire.send(bytes, deadline)?;
            for _ in 0..*replies {
                let head = self.wire.skip_reply(deadline)?;
                if head.starts_with(b"-") && !may_fail {
                    return Err(Stop::Failed(String::from_utf8_lossy(&head).into_owned()));
                }
            }
        }
        Ok(started.elapsed())
    }

    fn connect(&mut self, command: &Template, count: usize, waits: bool, deadline: Instant) -> Result<Duration, Stop> {
        let started = Instant::now();
        let first = self.others.len();
        let blocked_before = self.info("blocked_clients", deadline)?;
        for i in 0..count {
            let mut wire = Wire::connect(self.server.port())?;
            let mut bytes = Vec::new();
            command.encode(&Scope { n: self.n, i, count, order: &self.order }, 0..0, &mut bytes);
            wire.send(&bytes, deadline)?;
            self.others.push(wire);
        }
        if waits {
            let blocked = blocked_before + count as i64;
            self.wait_info("blocked_clients", deadline, |now| now >= blocked)?;
        } else {
            for wire in &mut self.others[first..] {
                wire.skip_reply(deadline)?;
            }
        }
        Ok(started.elapsed())
    }

    fn wait_info(&mut self, field: &str, deadline: Instant, holds: impl Fn(i64) -> bool) -> Result<(), Stop> {
        while !holds(self.info(field, deadline)?) {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn info(&mut self, field: &str, deadline: Instant) -> Result<i64, Stop> {
        self.wire.send(b"*2\r\n$4\r\nINFO\r\n$7\r\nclients\r\n", deadline)?;
        let items = self.wire.read_items(deadline)?;
        let number = items.first().and_then(|text| info_number(text, field));
        number.ok_or_else(|| Stop::Failed(format!("INFO clients says nothing of {field}")))
    }

    /// The most memory there was whenever the script paused, and now.
    pub fn high_memory(&mut self) -> io::Result<Memory> {
        self.note_memory()?;
        Ok(self.high)
    }

    fn note_memory(&mut self) -> io::Result<()> {
        let now = Memory::of(self.server, self.patience)?;
        self.high = Memory { used: self.high.used.max(now.used), rss: self.high.rss.max(now.rss) };
        Ok(())
    }

    fn ask(&mut self, command: &[u8], deadline: Instant) -> io::Result<Vec<u8>> {
        self.wire.send(command, deadline)?;
        self.wire.skip_reply(deadline)
    }
}

/// A number of INFO's text.
pub fn info_number(text: &[u8], field: &str) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    line.trim().parse().ok()
}

/// Sends PING and GETs of sixteen keys over and over until `done`; returns the longest time to their replies.
fn longest_wait(probe: &mut Wire, done: &AtomicBool, patience: Duration) -> Duration {
    let mut bytes = b"*1\r\n$4\r\nPING\r\n".to_vec();
    for i in 0..16 {
        bytes.extend_from_slice(format!("*2\r\n$3\r\nGET\r\n$8\r\nprobe:{i:02}\r\n").as_bytes());
    }
    let mut longest = Duration::ZERO;
    while !done.load(Ordering::Relaxed) {
        let started = Instant::now();
        let deadline = started + patience;
        let replied =
            probe.send(&bytes, deadline).and_then(|()| (0..17).try_for_each(|_| probe.skip_reply(deadline).map(drop)));
        longest = longest.max(started.elapsed());
        if replied.is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    longest
}

/// CPU time of all threads of a process, read while none of them runs, or when `patience` is over.
///
/// The kernel brings a thread's time up to date when it stops running.
fn quiet_cpu_time(pid: u32, patience: Duration) -> Duration {
    let deadline = Instant::now() + patience;
    while process::runs(pid) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_micros(100));
    }
    process::exact_cpu_time(pid)
}

/// Memory of a server in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Memory in use by INFO.
    pub used: u64,
    /// Resident memory by the kernel.
    pub rss: u64,
}

impl Memory {
    /// The server's memory now.
    pub fn of(server: &Server, patience: Duration) -> io::Result<Memory> {
        let mut wire = Wire::connect(server.port())?;
        let deadline = Instant::now() + patience;
        wire.send(b"*2\r\n$4\r\nINFO\r\n$6\r\nmemory\r\n", deadline)?;
        let items = wire.read_items(deadline)?;
        let used = items.first().and_then(|text| info_number(text, "used_memory")).unwrap_or(0);
        Ok(Memory { used: used as u64, rss: process::rss_kb(server.pid()) * 1024 })
    }
}

/// The most memory that was ever resident since [`forget_peak`], in bytes.
pub fn peak(pid: u32) -> u64 {
    process::peak_rss_kb(pid) * 1024
}

/// Resets the kernel's peak of resident memory.
pub fn forget_peak(pid: u32) {
    // Without the permission, peaks include earlier runs: this can only hide faults, never cause one.
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
}

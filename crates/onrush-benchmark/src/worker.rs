//! A thread of load: some connections, kept busy from one poll.

use std::collections::VecDeque;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use mio::{Events, Poll, Token};

use crate::args::{Options, Target};
use crate::net::{self, Socket};
use crate::request::{Random, Request};
use crate::scanner::Scanner;

/// What one read may bring.
const READ_LEN: usize = 64 << 10;
/// The longest latency that is told apart, in nanoseconds: an hour.
const LATENCY_MAX: u64 = 3_600_000_000_000;
/// A thread sleeps in its poll only if the next command is due later than this; polls count in milliseconds.
const SPIN: Duration = Duration::from_millis(2);

/// What the threads of one run share.
#[derive(Debug)]
pub struct Shared {
    started: OnceLock<Instant>,
    /// Commands that were claimed to be sent.
    pub claimed: AtomicU64,
    /// Replies that came.
    pub replies: AtomicU64,
    /// Their latencies summed up, in microseconds.
    pub latency_us: AtomicU64,
    pub stop: AtomicBool,
}

impl Shared {
    /// Nothing sent yet.
    pub fn new() -> Shared {
        let zero = AtomicU64::default;
        Shared {
            started: OnceLock::new(),
            claimed: zero(),
            replies: zero(),
            latency_us: zero(),
            stop: AtomicBool::new(false),
        }
    }

    /// The time since this was first asked.
    pub fn elapsed(&self) -> Duration {
        self.started.get_or_init(Instant::now).elapsed()
    }

    fn elapsed_ns(&self) -> u64 {
        self.elapsed().as_nanos() as u64
    }
}

impl Default for Shared {
    fn default() -> Shared {
        Shared::new()
    }
}

/// What a thread measured.
#[derive(Debug)]
pub struct Measured {
    /// Nanoseconds.
    pub latencies: Histogram<u64>,
    /// When the last reply came that counts.
    pub last_ns: u64,
    /// CPU time of the thread.
    pub cpu: Duration,
}

/// An empty histogram of nanoseconds with three significant digits.
pub fn histogram() -> Histogram<u64> {
    let bounded = Histogram::new_with_bounds(1, LATENCY_MAX, 3);
    bounded.unwrap_or_else(|_| unreachable!("the bounds are in order"))
}

struct Conn {
    socket: Socket,
    out: Vec<u8>,
    out_at: usize,
    input: Vec<u8>,
    scanner: Scanner,
    /// When commands were sent, or due, and how many.
    inflight: VecDeque<(u64, u64)>,
    pending: u64,
}

/// Where a connection goes, and what it sends.
#[derive(Clone, Debug)]
pub struct Place {
    pub target: Target,
    pub request: Request,
}

/// The load of one thread.
pub struct Worker<'a> {
    pub options: &'a Options,
    /// What its connections are for, in turns from this one on.
    pub places: &'a [Place],
    pub first_place: usize,
    pub shared: &'a Shared,
    /// Connections of this thread, and the part of all that they are.
    pub clients: usize,
    pub share: f64,
    pub seed: u64,
}

impl Worker<'_> {
    /// Opens the connections; what it returns does the work.
    ///
    /// # Errors
    /// Those of connecting.
    pub fn connect(&self) -> Result<Vec<Socket>, String> {
        (0..self.clients).map(|index| self.connect_one(index)).collect()
    }

    fn place(&self, index: usize) -> &Place {
        &self.places[(self.first_place + index) % self.places.len()]
    }

    fn connect_one(&self, index: usize) -> Result<Socket, String> {
        let stream = net::connect(self.options, &self.place(index).target).map_err(|error| error.to_string())?;
        stream.into_socket().map_err(|error| error.to_string())
    }

    /// Sends and reads until all is done.
    ///
    /// # Errors
    /// An error reply, a broken connection.
    pub fn run(&self, sockets: Vec<Socket>) -> Result<Measured, String> {
        let outcome = self.drive(sockets);
        if outcome.is_err() {
            self.shared.stop.store(true, Relaxed);
        }
        outcome
    }

    fn drive(&self, sockets: Vec<Socket>) -> Result<Measured, String> {
        let text = |error: io::Error| error.to_string();
        let mut poll = Poll::new().map_err(text)?;
        let mut events = Events::with_capacity(1_024);
        let mut conns = Vec::with_capacity(sockets.len());
        for (index, mut socket) in sockets.into_iter().enumerate() {
            socket.register(poll.registry(), Token(index)).map_err(text)?;
            conns.push(Conn::new(socket));
        }
        let mut random = Random::new(self.seed);
        let mut measured = Measured { latencies: histogram(), last_ns: 0, cpu: Duration::ZERO };
        let warm_ns = self.options.warmup.as_nanos() as u64;
        let depth = self.options.depth() as u64;
        let mut sent = 0_u64;
        let mut turn = 0;
        if self.options.rate.is_none() {
            for (index, conn) in conns.iter_mut().enumerate() {
                self.send(conn, index, depth, &mut random)?;
            }
        }
        loop {
            let timeout = match self.options.rate {
                Some(rate) => {
                    let rate = rate * self.share;
                    let now = self.shared.elapsed_ns();
                    let due = (now as f64 * rate / 1e9) as u64;
                    while sent < due && self.claim(1) == 1 {
                        let due_ns = (sent as f64 / rate * 1e9) as u64;
                        let (conn, place) = (&mut conns[turn], self.place(turn));
                        turn = (turn + 1) % self.clients;
                        place.request.append(1, &mut random, &mut conn.out);
                        conn.expect(due_ns, 1);
                        sent += 1;
                    }
                    for conn in conns.iter_mut().filter(|conn| !conn.out.is_empty()) {
                        conn.flush().map_err(text)?;
                    }
                    let next = Duration::from_nanos(((sent + 1) as f64 / rate * 1e9) as u64);
                    let wait = next.saturating_sub(self.shared.elapsed());
                    Some(if self.is_over() { SPIN } else { wait.saturating_sub(SPIN) })
                }
                None => Some(Duration::from_millis(100)),
            };
            if conns.iter().all(|conn| conn.pending == 0) && self.is_over() || self.shared.stop.load(Relaxed) {
                break;
            }
            match poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error.to_string()),
                _ => {}
            }
            for event in &events {
                let Token(index) = event.token();
                let conn = &mut conns[index];
                if event.is_writable() && (!conn.out.is_empty() || conn.socket.holds_output()) {
                    conn.flush().map_err(text)?;
                }
                if !event.is_readable() {
                    continue;
                }
                loop {
                    let (replies, is_all) = conn.read().map_err(|error| self.explain(error, index))?;
                    if replies > 0 {
                        let now = self.shared.elapsed_ns();
                        let counts = now >= warm_ns;
                        let latency_us = conn.settle(replies, now, counts.then_some(&mut measured.latencies))?;
                        if counts {
                            measured.last_ns = now;
                            self.shared.replies.fetch_add(replies, Relaxed);
                            self.shared.latency_us.fetch_add(latency_us, Relaxed);
                        }
                        self.go_on(conn, index, replies, depth, &poll, &mut random)?;
                    }
                    if is_all {
                        break;
                    }
                }
            }
        }
        measured.cpu = thread_cpu();
        Ok(measured)
    }

    /// Sends what replies have made room for.
    fn go_on(
        &self,
        conn: &mut Conn,
        index: usize,
        replies: u64,
        depth: u64,
        poll: &Poll,
        random: &mut Random,
    ) -> Result<(), String> {
        if self.options.rate.is_some() {
            return Ok(());
        }
        if self.options.window.is_some() {
            return self.send(conn, index, replies, random);
        }
        if conn.pending > 0 {
            return Ok(());
        }
        if !self.options.keep_alive && !self.is_over() {
            let mut socket = self.connect_one(index)?;
            socket.register(poll.registry(), Token(index)).map_err(|error| error.to_string())?;
            *conn = Conn::new(socket);
        }
        self.send(conn, index, depth, random)
    }

    fn send(&self, conn: &mut Conn, index: usize, count: u64, random: &mut Random) -> Result<(), String> {
        let count = self.claim(count);
        if count == 0 {
            return Ok(());
        }
        self.place(index).request.append(count as usize, random, &mut conn.out);
        conn.expect(self.shared.elapsed_ns(), count);
        conn.flush().map_err(|error| error.to_string())
    }

    /// In a cluster it matters which node an error comes from.
    fn explain(&self, error: String, index: usize) -> String {
        match error.strip_prefix("Error from server: ") {
            Some(text) if self.options.cluster => format!("Error from server {}: {text}", self.place(index).target),
            _ => error,
        }
    }

    /// How many of so many commands may still be sent.
    fn claim(&self, count: u64) -> u64 {
        if self.options.duration.is_some() {
            return if self.is_over() { 0 } else { count };
        }
        let before = self.shared.claimed.fetch_add(count, Relaxed);
        count.min(self.options.requests.saturating_sub(before))
    }

    /// Whether nothing more is to be sent.
    fn is_over(&self) -> bool {
        match self.options.duration {
            Some(duration) => self.shared.elapsed() >= self.options.warmup + duration,
            None => self.shared.claimed.load(Relaxed) >= self.options.requests,
        }
    }
}

impl Conn {
    fn new(socket: Socket) -> Conn {
        Conn {
            socket,
            out: Vec::new(),
            out_at: 0,
            input: vec![0; READ_LEN],
            scanner: Scanner::default(),
            inflight: VecDeque::new(),
            pending: 0,
        }
    }

    fn expect(&mut self, at_ns: u64, count: u64) {
        self.inflight.push_back((at_ns, count));
        self.pending += count;
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.out_at < self.out.len() {
            match self.socket.write(&self.out[self.out_at..]) {
                Ok(len) => self.out_at += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.out_at = 0;
        match self.socket.push() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    /// Reads once; says how many replies ended, and whether that was all there is for now.
    fn read(&mut self) -> Result<(u64, bool), String> {
        let len = match self.socket.read(&mut self.input) {
            Ok(0) => return Err("Server closed the connection".into()),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok((0, true)),
            Err(error) => return Err(error.to_string()),
        };
        let is_all = len < self.input.len() && self.socket.reads_all();
        let scanned = self.scanner.scan(&self.input[..len]);
        let scanned = scanned.map_err(|error| format!("the server's reply is no RESP: {error}"))?;
        if let Some(error) = scanned.error {
            return Err(format!("Error from server: {error}"));
        }
        Ok((scanned.replies, is_all))
    }

    /// Notes that so many commands are answered; returns the sum of their latencies in microseconds.
    fn settle(
        &mut self,
        mut replies: u64,
        now: u64,
        mut latencies: Option<&mut Histogram<u64>>,
    ) -> Result<u64, String> {
        self.pending = self.pending.checked_sub(replies).ok_or("the server sent more replies than it got commands")?;
        let mut sum = 0;
        while replies > 0 {
            let Some((at, count)) = self.inflight.front_mut() else { break };
            let some = replies.min(*count);
            let latency = now.saturating_sub(*at).max(1);
            if let Some(latencies) = latencies.as_deref_mut() {
                latencies.saturating_record_n(latency, some);
            }
            sum += latency * some / 1_000;
            replies -= some;
            *count -= some;
            if *count == 0 {
                self.inflight.pop_front();
            }
        }
        Ok(sum)
    }
}

/// CPU time of this thread so far, if the system tells.
fn thread_cpu() -> Duration {
    cpu_of("/proc/thread-self/schedstat").unwrap_or_default()
}

/// The CPU time in a `schedstat` file: its first number, in nanoseconds.
pub fn cpu_of(path: impl AsRef<std::path::Path>) -> Option<Duration> {
    let text = std::fs::read_to_string(path).ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

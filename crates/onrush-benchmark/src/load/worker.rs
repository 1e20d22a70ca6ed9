//! A thread of load: some connections, kept busy from one poll.

mod reconnect;

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use mio::event::Event;
use mio::{Events, Poll, Token};

use crate::cpu;
use crate::error::Error;
use crate::load::checker::Checker;
use crate::load::conn::{Conn, Left, Stage};
use crate::load::random::Random;
use crate::load::recorder::{Pieces, Recorder};
use crate::load::request::Commands;
use crate::load::routes::{Next, Routes, Topology};
use crate::load::schedule::Schedule;
use crate::load::timer::Timer;
use crate::net::cluster::Tag;
use crate::net::target::Target;
use crate::net::{self, Socket};
use crate::options::Options;
use crate::outcome::{Incidents, histogram};

/// Longest time after which a thread checks whether the run is over.
const LOOK_EVERY_NS: u64 = 100_000_000;
/// A connection of an open loop takes no more commands while this many bytes wait for its socket.
const OUT_LEN_MAX: usize = 64 << 10;
/// The token of the timer; connections count from 0.
const TIMER: Token = Token(usize::MAX);

/// What the threads of one run share.
#[derive(Debug, Default)]
pub struct Shared {
    started: OnceLock<Instant>,
    /// Commands that were claimed to be sent, warm-up apart.
    claimed: AtomicU64,
    /// Replies that came, warm-up apart.
    pub replies: AtomicU64,
    /// Their latencies summed up, in microseconds.
    pub latency_us: AtomicU64,
    pub stop: AtomicBool,
}

impl Shared {
    /// The time since this was first asked.
    pub fn elapsed(&self) -> Duration {
        self.started.get_or_init(Instant::now).elapsed()
    }

    fn elapsed_ns(&self) -> u64 {
        self.elapsed().as_nanos() as u64
    }
}

/// What a thread measured.
#[derive(Debug)]
pub struct Measured {
    /// Nanoseconds.
    pub latencies: Histogram<u64>,
    /// By kind of command, if there are several.
    pub kinds: Vec<Histogram<u64>>,
    pub pieces: Pieces,
    /// When the last reply came that counts.
    pub last_ns: u64,
    /// CPU time of the thread after the warm-up, and which part of that time it was.
    pub cpu: Duration,
    pub busy: f64,
    /// By node of a cluster, in the order of [`Topology::names`].
    pub nodes: Vec<Histogram<u64>>,
    pub incidents: Incidents,
}

/// Where a connection goes, and what it sends.
#[derive(Clone, Debug)]
pub struct Place {
    pub target: Target,
    pub commands: Commands,
    /// In a cluster, the node that serves it, and the tag of its keys.
    pub node: String,
    pub tag: Option<Tag>,
}

/// The load of one thread.
pub struct Worker<'a> {
    pub options: &'a Options,
    /// The places of its connections, in turns from `first` on.
    pub places: &'a [Place],
    pub first: usize,
    /// Of a cluster.
    pub topology: Option<&'a Topology<'a>>,
    pub shared: &'a Shared,
    /// Connections of this thread.
    pub clients: usize,
    pub seed: u64,
}

impl Worker<'_> {
    /// Opens the connections.
    ///
    /// # Errors
    /// Those of connecting.
    pub fn connect(&self) -> Result<Vec<Socket>, Error> {
        let open = |index: usize| Ok(net::connect(self.options, &self.place(index).target)?.into_socket()?);
        (0..self.clients).map(open).collect()
    }

    fn place(&self, index: usize) -> &Place {
        &self.places[(self.first + index) % self.places.len()]
    }

    /// Sends and reads until all is done.
    ///
    /// # Errors
    /// An error reply, a broken connection that is not to be made again.
    pub fn run(&self, sockets: Vec<Socket>) -> Result<Measured, Error> {
        let outcome = Thread::new(self, sockets).and_then(Thread::drive);
        if outcome.is_err() {
            self.shared.stop.store(true, Relaxed);
        }
        outcome
    }
}

struct Thread<'a> {
    worker: &'a Worker<'a>,
    options: &'a Options,
    shared: &'a Shared,
    poll: Poll,
    timer: Timer,
    /// When the timer fires, if it is set.
    timer_ns: u64,
    conns: Vec<Conn>,
    /// How many of them are [`Stage::Broken`].
    broken_len: usize,
    random: Random,
    recorder: Recorder,
    kinds: Vec<Histogram<u64>>,
    /// Of a cluster.
    routes: Option<Routes<'a>>,
    nodes: Vec<Histogram<u64>>,
    last_ns: u64,
    /// Of an open loop.
    schedule: Option<Schedule>,
    warm_ns: u64,
    /// When the last command is due, if the run has a time limit.
    end_ns: Option<u64>,
    /// When the warm-up was over, and the CPU time of the thread by then.
    warm: Option<(u64, Duration)>,
    incidents: Incidents,
}

impl<'a> Thread<'a> {
    fn new(worker: &'a Worker<'a>, sockets: Vec<Socket>) -> Result<Thread<'a>, Error> {
        let options = worker.options;
        let poll = Poll::new()?;
        let checker = || options.items.clone().filter(|_| options.verify).map(Checker::new);
        let conn = |(index, socket)| Conn::new(socket, poll.registry(), Token(index), checker());
        let conns = sockets.into_iter().enumerate().map(conn).collect::<io::Result<Vec<_>>>()?;
        let mut random = Random::new(worker.seed);
        let schedule = options
            .rate
            .map(|rate| Schedule::new(rate, options.clients, worker.first, conns.len(), options.arrivals, &mut random));
        let kinds = worker.places[0].commands.len();
        let places = (0..conns.len()).map(|index| worker.place(index).clone());
        let routes = worker.topology.map(|topology| Routes::new(topology, places));
        let warm_ns = options.warmup.as_nanos() as u64;
        Ok(Thread {
            worker,
            options,
            shared: worker.shared,
            timer: Timer::new(&poll, TIMER)?,
            timer_ns: 0,
            poll,
            conns,
            broken_len: 0,
            random,
            recorder: Recorder::new(warm_ns),
            kinds: if kinds > 1 { vec![histogram(); kinds] } else { Vec::new() },
            routes,
            nodes: Vec::new(),
            last_ns: warm_ns,
            schedule,
            warm_ns,
            end_ns: options.duration.map(|duration| warm_ns + duration.as_nanos() as u64),
            warm: None,
            incidents: Incidents::default(),
        })
    }

    fn drive(mut self) -> Result<Measured, Error> {
        let mut events = Events::with_capacity(1_024);
        if self.schedule.is_none() {
            for index in 0..self.conns.len() {
                let sent = self.send(index, self.options.depth() as u64);
                self.survive(index, sent)?;
            }
        }
        loop {
            let now = self.shared.elapsed_ns();
            if self.warm.is_none() && now >= self.warm_ns {
                self.warm = Some((now, cpu::of_this_thread()));
            }
            if self.schedule.is_some() {
                self.offer(now)?;
            }
            if self.broken_len > 0 {
                self.retry(now)?;
            }
            let is_over = self.is_over(now);
            if is_over && self.conns.iter().all(|conn| conn.pending == 0) || self.shared.stop.load(Relaxed) {
                break;
            }
            self.wait(now, is_over, &mut events)?;
            for event in &events {
                if event.token() != TIMER {
                    self.serve(event.token().0, event)?;
                }
            }
        }
        Ok(self.measured())
    }

    fn measured(mut self) -> Measured {
        let now = self.shared.elapsed_ns();
        let (since, before) = self.warm.unwrap_or((now, Duration::ZERO));
        let cpu = if self.warm.is_some() { cpu::of_this_thread().saturating_sub(before) } else { Duration::ZERO };
        for conn in &self.conns {
            self.incidents.redirects += conn.redirects;
            conn.checked().into_iter().for_each(|checked| self.incidents.checked.add(checked));
        }
        let (latencies, pieces) = self.recorder.finish();
        Measured {
            latencies,
            kinds: self.kinds,
            pieces,
            last_ns: self.last_ns,
            cpu,
            busy: cpu.as_nanos() as f64 / (now - since).max(1) as f64,
            nodes: self.nodes,
            incidents: self.incidents,
        }
    }

    fn place(&self, index: usize) -> &Place {
        self.routes.as_ref().map_or_else(|| self.worker.place(index), |routes| routes.place(index))
    }

    /// Sleeps until there is something to do.
    fn wait(&mut self, now: u64, is_over: bool, events: &mut Events) -> Result<(), Error> {
        let mut wake = now + LOOK_EVERY_NS;
        if self.warm.is_none() {
            wake = wake.min(self.warm_ns);
        }
        if self.broken_len > 0 {
            let retries = self.conns.iter().filter_map(|conn| match conn.stage {
                Stage::Broken { retry_at_ns } => Some(retry_at_ns),
                _ => None,
            });
            wake = retries.fold(wake, u64::min);
        }
        if let Some(schedule) = self.schedule.as_ref().filter(|_| !is_over) {
            let next = schedule.next_ns().unwrap_or(wake).min(self.end_ns.unwrap_or(wake));
            wake = wake.min(next);
            // Polls count in milliseconds: too coarse for commands due in between.
            if next > now && next == wake && next != self.timer_ns {
                self.timer.set(next - now)?;
                self.timer_ns = next;
            }
        }
        match self.poll.poll(events, Some(Duration::from_nanos(wake.saturating_sub(now)))) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Sends what is due in an open loop.
    fn offer(&mut self, now: u64) -> Result<(), Error> {
        let Some(mut schedule) = self.schedule.take() else { return Ok(()) };
        let mut touched = Vec::new();
        while let Some((due, index)) = schedule.take(now) {
            if self.end_ns.is_some_and(|end| due >= end) {
                continue;
            }
            let conn = &mut self.conns[index];
            if conn.stage != Stage::Ready || conn.unsent_len() > OUT_LEN_MAX {
                schedule.hold(index);
                continue;
            }
            if self.claim(1, due) == 0 {
                continue;
            }
            let conn = &mut self.conns[index];
            if conn.unsent_len() == 0 {
                touched.push(index);
            }
            let routed = self.routes.as_ref().map(|routes| routes.place(index));
            conn.push(&routed.unwrap_or_else(|| self.worker.place(index)).commands, 1, due, &mut self.random);
            schedule.sent(index, &mut self.random);
        }
        if let Some(end) = self.end_ns.filter(|end| now >= *end) {
            // Commands that a connection could not take by the end are not sent, but reported.
            self.incidents.unsent += schedule.held_between(self.warm_ns, end);
            schedule.end();
        }
        self.schedule = Some(schedule);
        for index in touched {
            let flushed = self.flush(index);
            self.survive(index, flushed)?;
        }
        Ok(())
    }

    fn flush(&mut self, index: usize) -> Result<(), Error> {
        let conn = &mut self.conns[index];
        conn.flush()?;
        if conn.stage == Stage::Ready
            && conn.unsent_len() == 0
            && let Some(schedule) = &mut self.schedule
        {
            schedule.release(index);
        }
        Ok(())
    }

    fn serve(&mut self, index: usize, event: &Event) -> Result<(), Error> {
        if matches!(self.conns[index].stage, Stage::Broken { .. }) {
            return Ok(());
        }
        let done = self.exchange(index, event);
        self.survive(index, done)
    }

    /// Writes and reads as much as possible.
    fn exchange(&mut self, index: usize, event: &Event) -> Result<(), Error> {
        let is_opening = self.conns[index].stage != Stage::Ready;
        if event.is_writable() && (is_opening || self.conns[index].holds_output()) {
            self.flush(index)?;
        }
        if event.is_readable() {
            loop {
                let (replies, left) = self.conns[index].read().map_err(|error| self.explain(error, index))?;
                if replies > 0 {
                    self.conns[index].down_since_ns = None;
                    self.settle(index, replies)?;
                    if self.conns[index].redirect.is_some() && self.follow(index)? == Next::Reconnect {
                        return self.reopen(index);
                    }
                    self.go_on(index, replies)?;
                }
                // No other event comes for an end that came together with the last reply.
                if left == Left::Nothing || left == Left::End && !event.is_read_closed() {
                    break;
                }
            }
        }
        if is_opening && self.conns[index].stage != Stage::Ready {
            // A handshake writes answers to what was read.
            self.conns[index].flush()?;
            if self.conns[index].opens()? {
                return self.begin(index);
            }
        }
        Ok(())
    }

    /// Sends the first commands of a connection that was made again.
    fn begin(&mut self, index: usize) -> Result<(), Error> {
        if let Some(schedule) = &mut self.schedule {
            schedule.release(index);
            return Ok(());
        }
        self.send(index, self.options.depth() as u64)
    }

    fn settle(&mut self, index: usize, replies: u64) -> Result<(), Error> {
        let now = self.shared.elapsed_ns();
        let (mut counted, mut latency_us) = (0, 0);
        let (warm_ns, recorder, kinds) = (self.warm_ns, &mut self.recorder, &mut self.kinds);
        let node = self.routes.as_ref().map(|routes| routes.node(index));
        if let Some(node) = node.filter(|node| *node >= self.nodes.len()) {
            self.nodes.resize_with(node + 1, histogram);
        }
        let mut of_node = node.and_then(|node| self.nodes.get_mut(node));
        self.conns[index].settle(replies, |at_ns, count, kind| {
            if at_ns < warm_ns {
                return;
            }
            let latency = now.saturating_sub(at_ns).max(1);
            recorder.record(latency, count, now);
            if let Some(latencies) = kinds.get_mut(kind) {
                latencies.saturating_record_n(latency, count);
            }
            if let Some(latencies) = &mut of_node {
                latencies.saturating_record_n(latency, count);
            }
            counted += count;
            latency_us += latency * count / 1_000;
        })?;
        if counted > 0 {
            self.last_ns = now;
            self.shared.replies.fetch_add(counted, Relaxed);
            self.shared.latency_us.fetch_add(latency_us, Relaxed);
        }
        Ok(())
    }

    /// Sends as many commands as replies have made room for.
    #[inline]
    fn go_on(&mut self, index: usize, replies: u64) -> Result<(), Error> {
        if self.schedule.is_some() {
            return Ok(());
        }
        if self.options.window.is_some() {
            return self.send(index, replies);
        }
        if self.conns[index].pending > 0 {
            return Ok(());
        }
        if !self.options.keep_alive {
            let now = self.shared.elapsed_ns();
            return if self.is_over(now) { Ok(()) } else { self.reopen(index) };
        }
        self.send(index, self.options.depth() as u64)
    }

    fn send(&mut self, index: usize, count: u64) -> Result<(), Error> {
        let now = self.shared.elapsed_ns();
        let count = self.claim(count, now);
        if count == 0 {
            return Ok(());
        }
        let conn = &mut self.conns[index];
        let routed = self.routes.as_ref().map(|routes| routes.place(index));
        conn.push(&routed.unwrap_or_else(|| self.worker.place(index)).commands, count, now, &mut self.random);
        Ok(conn.flush()?)
    }

    /// In a cluster it matters which node an error comes from.
    fn explain(&self, error: Error, index: usize) -> Error {
        match error {
            Error::Reply { text, .. } if self.options.cluster => {
                Error::Reply { at: format!(" {}", self.place(index).node), text }
            }
            error => error,
        }
    }

    /// How many of `count` commands, sent or due at `at_ns`, may still be sent.
    #[inline]
    fn claim(&self, count: u64, at_ns: u64) -> u64 {
        if at_ns < self.warm_ns {
            return count;
        }
        if let Some(end) = self.end_ns {
            return if at_ns >= end { 0 } else { count };
        }
        let before = self.shared.claimed.fetch_add(count, Relaxed);
        count.min(self.options.requests.saturating_sub(before))
    }

    /// Whether nothing more is to be sent.
    #[inline]
    fn is_over(&self, now: u64) -> bool {
        match self.end_ns {
            Some(end) => now >= end,
            None => now >= self.warm_ns && self.shared.claimed.load(Relaxed) >= self.options.requests,
        }
    }
}

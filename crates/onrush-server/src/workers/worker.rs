//! Worker threads: each runs its connections by turns, in rounds.
//!
//! A round asks the system which sockets are ready and serves their connections: first, together, those that have only
//! sent commands, then the others in turns of their own. Connections that have more to do get another turn in the next
//! round, which does not sleep then.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use onrush_alloc as alloc;
use onrush_engine::batch::runner::caught;
use onrush_engine::clients::client::ClientHandle;
use onrush_engine::eviction::state::Memory;
use onrush_persist::threads;
use slab::Slab;

use crate::net::connection::{After, Connection};
use crate::net::socket::Socket;
use crate::process::os;
use crate::process::server::Server;
use crate::workers::busy_poll::BusyPoll;
use crate::workers::mailbox::{Mailbox, Order};
use crate::workers::place::Place;
use crate::workers::round::{Lists, Round};
use crate::workers::scratch::{CARRY_LEN_MAX, READ_LEN_MAX, Scratch};

/// How often a worker that is awake looks for upkeep to do.
const TEND_PERIOD: Duration = Duration::from_millis(100);

/// A database's tables are levelled when the number of its keys has changed by more than this part of them.
const LEVELLING_RATIO: usize = 128;

/// From this many keys in a database on, huge pages pay, whatever memory is in use.
const HUGE_PAGES_KEYS_MIN: usize = 16 * 1024;

/// The list of places shrinks when it has this many times as many places as connections.
const PLACES_RATIO_MAX: usize = 4;

/// Events that one call takes from the system.
const EVENTS_MAX: usize = 1024;

const BELL: Token = Token(usize::MAX);

/// Starts worker `thread`; returns the way to hand connections to it.
///
/// # Errors
/// The system cannot create a thread or an event queue.
pub fn start(server: &'static Server, thread: usize) -> io::Result<Arc<Mailbox>> {
    let poll = Poll::new()?;
    let mailbox = Arc::new(Mailbox::new(&poll, BELL)?);
    let inbox = Arc::clone(&mailbox);
    threads::start(format!("worker-{thread}"), move || {
        let worker = Worker {
            server,
            thread,
            poll,
            mailbox,
            places: Slab::new(),
            ready: Vec::new(),
            again: VecDeque::new(),
            heavy: Vec::new(),
            ended: Vec::new(),
            alarms: BTreeSet::new(),
            busy_poll: BusyPoll::new(available_parallelism().map_or(1, NonZero::get)),
            is_evicting: false,
            adopted: 0,
            scratch: Scratch::new(server, thread),
            lists: Lists::default(),
            tending: Tending { next: Instant::now() + TEND_PERIOD, ebbs: alloc::Ebbs::default(), levelled: Vec::new() },
        };
        worker.run();
    })?;
    Ok(inbox)
}

/// A connection that is to have a turn of its own, unless it has ended meanwhile.
struct Turn {
    place: usize,
    number: u64,
}

struct Worker {
    server: &'static Server,
    thread: usize,
    poll: Poll,
    mailbox: Arc<Mailbox>,
    places: Slab<Place>,
    /// Connections that have a turn in this round.
    ready: Vec<usize>,
    /// Connections that need a turn of their own, in order; those that had one in this round come last.
    again: VecDeque<Turn>,
    /// Connections found in this round to need one.
    heavy: Vec<usize>,
    /// Connections that have ended.
    ended: Vec<usize>,
    alarms: BTreeSet<(Instant, usize)>,
    busy_poll: BusyPoll,
    /// Whether there are keys left to evict.
    is_evicting: bool,
    /// Connections there have been.
    adopted: u64,
    scratch: Scratch,
    lists: Lists,
    tending: Tending,
}

impl Worker {
    fn run(mut self) {
        os::run_in_short_turns();
        self.server.stats.threads[self.thread].show_cpu_clock(os::thread_cpu_clock());
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut now = Instant::now();
        loop {
            self.wait(&mut events, now);
            self.list_ready(&events);
            let (served, commands) = (self.ready.len() as u64, self.commands());
            // The round's last reading of the clock is exact enough for what is due in milliseconds.
            now = self.round().unwrap_or_else(Instant::now);
            // CONFIG RESETSTAT may have been among them.
            self.busy_poll.note_round(served, self.commands().saturating_sub(commands));
            self.is_evicting = self.server.eviction.maxmemory() > 0 && self.evict(now);
            let stats = &self.server.stats.threads[self.thread];
            stats.rounds.add(1);
            if self.mailbox.takes_back() {
                alloc::take_back();
                self.mailbox.note_taken_back();
            }
            if now >= self.tending.next {
                self.tending.next = now + TEND_PERIOD;
                self.tending.tend(self.server, self.thread);
                self.scratch.tend();
                if self.places.len() < self.places.capacity() / PLACES_RATIO_MAX {
                    self.places.shrink_to_fit();
                }
                stats.note_cpu_time(os::thread_cpu_nanos());
            }
        }
    }

    /// Commands executed so far.
    #[inline]
    fn commands(&self) -> u64 {
        self.server.stats.threads[self.thread].commands_processed.get()
    }

    /// Asks the system for events; sleeps if there is nothing else to do. A sleep has no timeout unless there are
    /// alarms: a timer costs more than the rest of it. The maintenance thread wakes sleeping workers that have upkeep
    /// to do ([`crate::workers::cron`]).
    fn wait(&mut self, events: &mut Events, now: Instant) {
        let timeout = if self.again.is_empty() && !self.is_evicting && self.mailbox.may_sleep() {
            self.alarms.first().map(|(at, _)| at.saturating_duration_since(now))
        } else {
            Some(Duration::ZERO)
        };
        if timeout != Some(Duration::ZERO) && self.poll_for_a_moment(events, now) {
            return;
        }
        if let Err(error) = self.poll.poll(events, timeout)
            && error.kind() != io::ErrorKind::Interrupted
        {
            tracing::warn!("Can't wait for sockets: {error}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Asks the system for events a few times, if that is worth it before a sleep; returns whether there are any.
    #[inline]
    fn poll_for_a_moment(&mut self, events: &mut Events, now: Instant) -> bool {
        let most = self.busy_poll.time(self.server.host.busy_poll_us.load(Relaxed));
        if most.is_zero() || !self.busy_poll.should_try() {
            return false;
        }
        if self.poll.poll(events, Some(Duration::ZERO)).is_ok() && !events.is_empty() {
            self.busy_poll.note(true);
            return true;
        }
        let (came, polled) = loop {
            let came = self.poll.poll(events, Some(Duration::ZERO)).is_ok() && !events.is_empty();
            let polled = now.elapsed();
            if came || polled >= most {
                break (came, polled);
            }
        };
        // Events that came later came because others got this processor in between.
        self.busy_poll.note(came && polled < most);
        self.mailbox.note_polled(polled);
        came
    }

    /// Evicts for a moment if too much memory is in use, so that an idle server also comes down to its limit; returns
    /// whether there is more to evict.
    #[cold]
    fn evict(&mut self, now: Instant) -> bool {
        let Self { server, scratch, .. } = self;
        if !server.eviction.is_due() {
            return false;
        }
        let running = caught(|| {
            let commit = scratch.runner.commit();
            if !commit.enter_unless_busy() {
                return false;
            }
            commit.begin_chunk(server.clock.unix_ms_at(now));
            let memory = commit.keep_within_memory();
            commit.leave();
            memory == Memory::Running
        });
        running.unwrap_or_else(|| {
            scratch.runner.reset();
            false
        })
    }

    /// Lists the connections that have a turn: those that asked for one, whose socket is ready, that were woken, or
    /// whose alarm went off.
    fn list_ready(&mut self, events: &Events) {
        for event in events {
            let index = event.token().0;
            if let Some(place) = self.places.get_mut(index) {
                place.connection.note(event);
                if !std::mem::replace(&mut place.is_ready, true) {
                    self.ready.push(index);
                }
            }
        }
        if let Some(post) = self.mailbox.take() {
            for (socket, handle) in post.accepted {
                self.adopt(socket, handle);
            }
            for index in post.woken {
                if self.places.get(index).is_some_and(|place| place.connection.is_killed()) {
                    // Others may be many and have much to read: what it holds goes before them.
                    self.ended.push(index);
                } else {
                    self.get_ready(index);
                }
            }
            for connection in post.moved {
                self.receive(connection);
            }
            for order in post.orders {
                self.give_away(&order);
            }
        }
        if !self.alarms.is_empty() {
            self.list_alarmed(Instant::now());
        }
    }

    #[cold]
    fn list_alarmed(&mut self, now: Instant) {
        while let Some(&(_, index)) = self.alarms.first().filter(|(at, _)| *at <= now) {
            self.alarms.pop_first();
            self.places[index].alarm = None;
            self.get_ready(index);
        }
    }

    fn get_ready(&mut self, index: usize) {
        if let Some(place) = self.places.get_mut(index)
            && !std::mem::replace(&mut place.is_ready, true)
        {
            self.ready.push(index);
        }
    }

    /// Takes a connection in.
    fn adopt(&mut self, mut socket: Socket, handle: Arc<ClientHandle>) {
        let vacant = self.places.vacant_entry();
        let index = vacant.key();
        if let Err(error) = socket.register(self.poll.registry(), Token(index)) {
            tracing::warn!("Cannot serve client {}: {error}", handle.addr);
            self.server.clients.remove(handle.id);
            self.server.host.connected.fetch_sub(1, Relaxed);
            return;
        }
        let connection = Connection::new(socket, self.server, self.thread, handle, &self.mailbox.waker(index));
        self.adopted += 1;
        vacant.insert(Place { connection, is_ready: true, number: self.adopted, alarm: None });
        self.ready.push(index);
    }

    /// Takes over a connection of another worker.
    #[cold]
    fn receive(&mut self, mut connection: Connection) {
        let vacant = self.places.vacant_entry();
        let index = vacant.key();
        let waker = self.mailbox.waker(index);
        if let Err(error) = connection.arrive(self.thread, self.poll.registry(), Token(index), &waker) {
            tracing::warn!("Lost a connection because its worker cannot watch it: {error}");
            return;
        }
        self.adopted += 1;
        vacant.insert(Place { connection, is_ready: true, number: self.adopted, alarm: None });
        self.ready.push(index);
    }

    /// Hands a part of the connections with nothing under way over to another worker. That worker executes commands
    /// that a moved connection has sent.
    #[cold]
    fn give_away(&mut self, order: &Order) {
        let movable =
            |(index, place): (usize, &Place)| (place.connection.may_move() && !place.is_ready).then_some(index);
        let movable: Vec<usize> = self.places.iter().filter_map(movable).collect();
        for index in movable.into_iter().step_by(order.share.max(1)) {
            let mut place = self.places.remove(index);
            match place.connection.leave(self.poll.registry()) {
                Ok(()) => order.to.give(place.connection),
                Err(error) => tracing::warn!("Lost a connection because it cannot leave its worker: {error}"),
            }
        }
    }

    /// Serves all ready connections: first, together, those that have only sent commands, then the others one by one.
    /// Returns the time if it was read near the end.
    fn round(&mut self) -> Option<Instant> {
        let mut last = None;
        self.end_all();
        if !self.ready.is_empty() {
            let slice = Duration::from_micros(self.server.settings.slice_us.load(Relaxed));
            let Self { places, scratch, heavy, ended, ready, lists, .. } = self;
            let Scratch { runner, replies, read } = scratch;
            // A panic in a turn may have removed it.
            read.resize(READ_LEN_MAX + CARRY_LEN_MAX, 0);
            let mut round = Round { places, runner, replies, heavy, ended, slice };
            last = round.run(ready, read, lists);
        }
        self.ready.clear();
        if !(self.heavy.is_empty() && self.again.is_empty()) {
            self.turns();
            last = None;
        }
        self.end_all();
        last
    }

    /// Lets go of the connections that have ended.
    #[inline]
    fn end_all(&mut self) {
        while let Some(index) = self.ended.pop() {
            self.end(index);
        }
    }

    /// Gives turns to connections that need one of their own, for about a slice; then the worker looks at all
    /// connections again.
    #[inline(never)]
    fn turns(&mut self) {
        for place in self.heavy.drain(..) {
            let Some(Place { is_ready, number, .. }) = self.places.get_mut(place) else { continue };
            *is_ready = true;
            self.again.push_back(Turn { place, number: *number });
        }
        let started = Instant::now();
        let slice = Duration::from_micros(self.server.settings.slice_us.load(Relaxed));
        for _ in 0..self.again.len() {
            let Some(Turn { place, number }) = self.again.pop_front() else { return };
            if self.places.get(place).is_some_and(|at| at.number == number) {
                self.turn(place);
                if started.elapsed() >= slice {
                    return;
                }
            }
        }
    }

    /// Gives a connection a turn of its own. A panic ends only this connection.
    fn turn(&mut self, index: usize) {
        let Self { places, scratch, .. } = self;
        let Some(place) = places.get_mut(index) else { return };
        place.is_ready = false;
        let after = caught(|| place.connection.turn(scratch)).unwrap_or(After::End);
        if place.connection.alarm() != place.alarm {
            self.set_alarm(index);
        }
        match after {
            After::Wait => {}
            After::Again => {
                let place = &mut self.places[index];
                place.is_ready = true;
                self.again.push_back(Turn { place: index, number: place.number });
            }
            After::End => self.ended.push(index),
        }
    }

    #[cold]
    fn set_alarm(&mut self, index: usize) {
        let place = &mut self.places[index];
        if let Some(at) = place.alarm.take() {
            self.alarms.remove(&(at, index));
        }
        place.alarm = place.connection.alarm();
        if let Some(at) = place.alarm {
            self.alarms.insert((at, index));
        }
    }

    #[cold]
    fn end(&mut self, index: usize) {
        let Some(mut place) = self.places.try_remove(index) else { return };
        if let Some(at) = place.alarm {
            self.alarms.remove(&(at, index));
        }
        if place.connection.is_of_replica() && place.connection.leave(self.poll.registry()).is_ok() {
            self.server.host.replicas.take(place.connection);
            return;
        }
        caught(|| drop(place));
    }
}

/// Gives memory back to the system after much was freed; each thread must do this for its own memory. Also levels this
/// thread's share of the tables of databases that have grown or shrunk.
struct Tending {
    next: Instant,
    ebbs: alloc::Ebbs,
    /// Keys of each database when it was levelled.
    levelled: Vec<usize>,
}

impl Tending {
    fn tend(&mut self, server: &'static Server, thread: usize) {
        self.ebbs.follow();
        self.levelled.resize(server.keyspace.databases(), 0);
        for (index, levelled) in self.levelled.iter_mut().enumerate() {
            let Some(db) = server.keyspace.db(index) else { continue };
            let len = db.len();
            if len >= HUGE_PAGES_KEYS_MIN {
                alloc::use_huge_pages();
            }
            if len.abs_diff(*levelled) > len / LEVELLING_RATIO {
                *levelled = len;
                let Some(_entered) = server.enter_unless_busy(thread) else { return };
                let enlarged = db.level(thread, server.workers);
                tracing::debug!("Levelled database {index}: {enlarged} tables enlarged");
            }
        }
    }
}

//! The thread that serves replicas: its regular work, and who gets what.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use onrush_engine::process::{NotBegun, Process};
use onrush_engine::replication::attached::{Phase, Replica};
use onrush_engine::replication::history::{Asked, Epoch, Position};
use onrush_engine::replication::introduction::SyncRequest;
use onrush_engine::replication::reached::end_waits;
use onrush_engine::replication::role::LinkState;
use onrush_engine::snapshot::output::Purpose;
use onrush_persist::threads;
use slab::Slab;

use super::files::{Answer, Files};
use super::link::{After, Link};
use super::payload::{Payload, State};
use super::service::Bell;
use super::spool::Spool;
use crate::data::backoff::Backoff;
use crate::net::connection::Connection;
use crate::process::server::Server;
use crate::replica::Request;

const EVENTS_MAX: usize = 256;
const BELL: Token = Token(usize::MAX);

/// How often the thread looks at times.
const TICK: Duration = Duration::from_secs(1);

/// How soon a snapshot that could not begin is tried again.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// `PING` as it stands in the stream.
const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
/// The question how far replicas are.
pub const GETACK: &[u8] = b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n";

/// Starts the thread, which ends with the process.
///
/// # Errors
/// The system cannot create it.
pub fn start(server: &'static Server) -> io::Result<()> {
    let poll = Poll::new()?;
    let bell = Bell::new(mio::Waker::new(poll.registry(), BELL)?);
    server.host.replicas.set_bell(Arc::clone(&bell));
    server.replication.set_waker(Box::new(|| server.host.replicas.ring()));
    let now = Instant::now();
    let files = Files::start(|| server.host.replicas.ring())?;
    let thread = Thread {
        server,
        poll,
        bell,
        links: Slab::new(),
        again: Vec::new(),
        payload: None,
        making: None,
        begin_at: now,
        spool: Spool::start(server, &files)?,
        files,
        ticked: now,
        pinged: now,
        handing_over: Vec::new(),
        alone_since: None,
        backoff: Backoff::default(),
        online: 0,
        ebbs: onrush_alloc::Ebbs::default(),
    };
    threads::start("replicas", move || thread.run()).map(drop)
}

struct Thread {
    server: &'static Server,
    poll: Poll,
    bell: Arc<Bell>,
    links: Slab<Link>,
    /// Those that have more to do.
    again: Vec<usize>,
    /// What replicas that wait for data get.
    payload: Option<Arc<Payload>>,
    /// The next one, whose file is being made.
    making: Option<Answer<io::Result<Arc<Payload>>>>,
    /// When a snapshot may be begun.
    begin_at: Instant,
    spool: Arc<Spool>,
    files: Files,
    ticked: Instant,
    /// Connections of primaries that hand over to this server, and whether it is a primary.
    handing_over: Vec<(Connection, SyncRequest, Arc<AtomicBool>)>,
    /// When the stream got its last PING.
    pinged: Instant,
    /// Since when there has been no replica although the stream is kept.
    alone_since: Option<Instant>,
    /// When the data is written again after the disk has not taken it.
    backoff: Backoff,
    /// Replicas that are online, as of the last turns.
    online: usize,
    ebbs: onrush_alloc::Ebbs,
}

impl Thread {
    fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        loop {
            self.wait(&mut events);
            self.bell.is_heard();
            for event in &events {
                if let Some(link) = self.links.get_mut(event.token().0) {
                    link.connection.note(event);
                }
            }
            for connection in self.server.host.replicas.arrived() {
                self.greet(connection);
            }
            self.adopt_old_primaries();
            self.look_at_failover();
            self.again.clear();
            if self.ticked.elapsed() >= TICK {
                self.ticked = Instant::now();
                self.tick();
            }
            self.ask();
            self.spill();
            self.serve_waiting();
            self.turns();
            end_waits(self.server.engine());
            self.server.replication.held.look(&self.server.replication);
            self.server.replication.held.give_up(Instant::now());
            if self.server.replication.must_send() {
                // The thread `log` would do it as well, for one more change of threads. What comes of it rings the bell.
                self.server.log.flush();
            }
            self.note_lacked();
        }
    }

    fn wait(&mut self, events: &mut Events) {
        let waits = self.payload.is_none() && self.making.is_none();
        let is_retrying = self.links.iter().any(|(_, link)| waits && link.waits() || link.is_dry());
        let failover = self.server.replication.failover.waits();
        let timeout = if !self.again.is_empty() {
            Some(Duration::ZERO)
        } else if is_retrying {
            Some(RETRY_AFTER)
        } else if let Some(plan) = failover {
            let left = plan.until.map(|until| until.saturating_duration_since(Instant::now()));
            Some(left.unwrap_or(RETRY_AFTER).min(RETRY_AFTER))
        } else if self.links.is_empty()
            && !self.server.replication.history.is_kept()
            && self.server.replication.held.is_empty()
        {
            None
        } else if !self.server.replication.held.is_empty() {
            // Replies wait for a time that is told in milliseconds.
            Some(RETRY_AFTER)
        } else {
            Some(TICK.saturating_sub(self.ticked.elapsed()))
        };
        if let Err(error) = self.poll.poll(events, timeout)
            && error.kind() != io::ErrorKind::Interrupted
        {
            tracing::warn!("Can't wait for replicas: {error}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Takes over a connection that has sent PSYNC. That of a primary which hands over waits until this server is one.
    fn greet(&mut self, mut connection: Connection) {
        let Some(request) = connection.take_sync_request() else { return };
        if !request.hands_over {
            return self.adopt(connection, *request);
        }
        tracing::info!("The primary hands over to this replica ({})", connection.handle().addr);
        let is_done = Arc::new(AtomicBool::new(false));
        self.handing_over.push((connection, *request, Arc::clone(&is_done)));
        let server = self.server;
        let done = move |_| {
            is_done.store(true, Release);
            server.host.replicas.ring();
        };
        server.host.replica.ask(Request::default(), Box::new(done));
    }

    fn adopt_old_primaries(&mut self) {
        for (connection, request, _) in
            self.handing_over.extract_if(.., |(_, _, is_done)| is_done.load(Acquire)).collect::<Vec<_>>()
        {
            self.adopt(connection, request);
        }
    }

    /// Lets the replica take over that FAILOVER waits for, once it has all.
    fn look_at_failover(&self) {
        let replication = &self.server.replication;
        let Some(plan) = replication.failover.waits() else { return };
        // What was written before writes were held back is in the stream then.
        self.server.log.flush();
        let offset = replication.history.position().offset;
        let has_all = |replica: &Arc<Replica>| {
            replica.phase() == Phase::Online
                && replica.acknowledged() >= offset
                && plan.target.as_ref().is_none_or(|target| *target == replica.address())
        };
        let chosen =
            replication.attached.all().iter().find(|replica| has_all(replica)).map(|replica| replica.address());
        let is_late = plan.until.is_some_and(|until| until <= Instant::now());
        let (target, lacks_some) = match (chosen, plan.target) {
            (Some(target), _) => (target, false),
            (None, Some(target)) if is_late && plan.is_forced => (target, true),
            (None, _) if is_late => {
                tracing::warn!("The planned fail-over ends: no replica has all within its time");
                self.server.end_failover();
                return;
            }
            (None, _) => return,
        };
        // Who waits for it gets replies, not errors.
        end_waits(self.server.engine());
        replication.held.look(replication);
        tracing::info!("{target} takes over from this server");
        if replication.failover.choose(target.clone(), lacks_some) {
            let request = Request { primary: Some(target), takes_over: true, is_same: false };
            self.server.host.replica.ask(request, Box::new(|_| {}));
        }
    }

    /// Takes over a connection that has sent PSYNC.
    fn adopt(&mut self, mut connection: Connection, request: SyncRequest) {
        let Some(waker) = self.server.host.replicas.waker() else { return };
        let handle = Arc::clone(connection.handle());
        let key = self.links.vacant_key();
        if let Err(error) = connection.watch(self.poll.registry(), Token(key), &waker) {
            tracing::warn!("Can't serve the replica {}: {error}", handle.addr);
            return;
        }
        let introduction = handle.introduction.lock().as_deref().cloned().unwrap_or_default();
        let replica = Arc::new(Replica::new(handle, introduction, self.server.clock.unix_ms()));
        tracing::info!("The replica {} asks for synchronization", replica.client.addr);
        self.server.replication.attached.add(&replica);
        let only = replica.introduction.only.filter(|_| replica.introduction.wants_data_only);
        let mut link = Link::new(connection, replica, request);
        match only {
            Some(only) => {
                self.server.replication.syncs.full.fetch_add(1, Relaxed);
                link.get_part(self.server, only);
            }
            None => self.decide(&mut link),
        }
        self.links.insert(link);
    }

    /// Lets a replica go on where it was, if that is possible. Otherwise it waits for data.
    fn decide(&self, link: &mut Link) {
        let history = &self.server.replication.history;
        let Some((id, from)) = &link.request.from else { return };
        let asked = history.ask(id, *from);
        let first = self.first_kept(asked.epoch);
        if asked.is_known && asked.next < first {
            return link.look_in_log(self.server, &self.files, asked);
        }
        settle(self.server, link, asked, true);
    }

    /// The first byte that the spool or memory has, as long as the history has this epoch.
    fn first_kept(&self, epoch: Epoch) -> u64 {
        let history = &self.server.replication.history;
        loop {
            let (before, spooled) = (history.kept().0, self.spool.first(epoch.lineage));
            // Bytes may have gone from one to the other meanwhile.
            if history.kept().0 == before {
                return spooled.unwrap_or(before);
            }
        }
    }

    /// Gives replicas that wait the data of the payload, or has one made.
    fn serve_waiting(&mut self) {
        if !self.links.iter().any(|(_, link)| link.waits()) {
            return;
        }
        if let Some(payload) = &self.payload
            && !self.may_join(payload)
        {
            let (state, has_begun) = (payload.state(), payload.cut().is_some());
            self.payload = None;
            match state {
                State::IsWhole => self.backoff.note(true),
                State::HasFailed if has_begun => self.put_off(),
                _ => {}
            }
        }
        match &self.payload {
            Some(payload) if payload.cut().is_some() => {
                for (_, link) in self.links.iter_mut().filter(|(_, link)| link.waits()) {
                    self.server.replication.syncs.full.fetch_add(1, Relaxed);
                    link.get(payload);
                }
            }
            // Its snapshot is about to begin.
            Some(_) => {}
            None if self.making.is_some() || Instant::now() >= self.begin_at => self.begin_payload(),
            None => {}
        }
    }

    /// The disk does not take the data of replicas: whoever comes waits, longer after each failure in a row.
    fn put_off(&mut self) {
        self.backoff.note(false);
        self.begin_at = Instant::now() + self.backoff.delay();
    }

    /// Whether a replica that comes now can get this payload: it has not failed, and the stream behind it is kept.
    fn may_join(&self, payload: &Payload) -> bool {
        let history = &self.server.replication.history;
        let is_kept =
            |(cut, epoch): (Position, Epoch)| epoch == history.epoch() && cut.offset >= self.first_kept(epoch);
        payload.state() != State::HasFailed && payload.cut().is_none_or(is_kept)
    }

    /// Has a snapshot for the replicas that wait begun.
    fn begin_payload(&mut self) {
        let server = self.server;
        self.begin_at = Instant::now() + RETRY_AFTER;
        let role = &server.replication.role;
        if server.loading.is_on() || role.is_replica() && role.link().state != LinkState::Connected {
            return;
        }
        let Some(making) = self.making.take() else {
            let (dir, id, files) =
                (PathBuf::from(&server.host.config.read().dir), server.new_replid(), self.files.clone());
            self.making = Some(self.files.ask(move || Payload::new(&dir, id, &files)));
            return;
        };
        let payload = match making.take() {
            None => {
                self.making = Some(making);
                return;
            }
            Some(Ok(payload)) => payload,
            Some(Err(error)) => {
                tracing::error!("Can't make a file for the data of replicas: {error}");
                self.put_off();
                return;
            }
        };
        server.host.replicas.want(&payload);
        self.payload = Some(Arc::clone(&payload));
        let done = move |begun: Result<(), NotBegun>| {
            if let Err(why) = begun {
                tracing::debug!("The data for replicas is not begun yet: {why:?}");
                payload.set_state(State::HasFailed);
                server.host.replicas.ring();
            }
        };
        server.host.begin_snapshot(Purpose::Replicas, Box::new(done));
    }

    fn turns(&mut self) {
        let mut ended = Vec::new();
        let end = self.end_for_replicas();
        for (index, link) in &mut self.links {
            if let Some((asked, is_kept)) = link.found_in_log() {
                settle(self.server, link, asked, is_kept);
            }
            match link.turn(self.server, &self.spool, &self.files, end) {
                After::Wait => {}
                After::Again => self.again.push(index),
                After::End(why) => ended.push((index, why)),
            }
        }
        for (index, why) in ended {
            self.end(index, &why);
        }
        let online = self.links.iter().filter(|(_, link)| link.replica.phase() == Phase::Online).count();
        if std::mem::replace(&mut self.online, online) != online {
            count_good(self.server);
        }
        // Nobody reads it any more.
        let is_read = |payload: &Arc<Payload>| {
            self.links.iter().any(|(_, link)| link.payload().is_some_and(|read| Arc::ptr_eq(read, payload)))
        };
        if self.payload.as_ref().is_some_and(|payload| payload.state() == State::IsWhole && !is_read(payload)) {
            self.payload = None;
            self.backoff.note(true);
        }
    }

    /// Up to where replicas get the stream. If replies wait for the disk, replicas do so too: a primary that is killed then
    /// knows all that they have.
    fn end_for_replicas(&self) -> u64 {
        let (durability, history) = (&self.server.durability, &self.server.replication.history);
        let waits = durability.is_always() && self.server.replication.is_streaming();
        if waits { history.end_before(durability.durable_lsn()) } else { u64::MAX }
    }

    fn end(&mut self, index: usize, why: &str) {
        let Some(link) = self.links.try_remove(index) else { return };
        tracing::info!("The replica {} is gone: {why}", link.replica.client.addr);
        self.server.replication.attached.remove(&link.replica);
        count_good(self.server);
        if self.links.is_empty() {
            self.alone_since = Some(Instant::now());
        }
    }

    /// Asks replicas how far they are, once for all clients that wait.
    fn ask(&mut self) {
        let replication = &self.server.replication;
        let is_online = |(_, link): (usize, &Link)| link.replica.phase() == Phase::Online;
        if !replication.role.is_replica()
            && !self.server.settings.are_writes_held()
            && replication.waits.take_asks(&replication.history)
            && self.links.iter().any(is_online)
            && !replication.attached.all_tell()
        {
            replication.tell_replicas(self.server.engine(), GETACK);
        }
    }

    /// What is due once a second.
    fn tick(&mut self) {
        let (timeout, ping_every, ttl) = {
            let config = self.server.host.config.read();
            (
                Duration::from_secs(config.repl_timeout),
                Duration::from_secs(config.repl_ping_replica_period),
                Duration::from_secs(config.repl_backlog_ttl),
            )
        };
        let mut late = Vec::new();
        for (index, link) in &mut self.links {
            if link.is_kept_waiting() {
                link.keep_alive();
            }
            if link.silence() > timeout {
                late.push(index);
            }
        }
        for index in late {
            self.end(index, "it is silent for repl-timeout");
        }
        if self.pinged.elapsed() >= ping_every {
            self.pinged = Instant::now();
            let replication = &self.server.replication;
            let says_nothing = replication.role.is_replica() || self.server.settings.are_writes_held();
            if !self.links.is_empty() && !says_nothing && replication.history.is_kept() {
                replication.tell_replicas(self.server.engine(), PING);
            }
        }
        count_good(self.server);
        self.ebbs.follow();
        // What is on the disk takes no memory.
        let is_on_disk = || self.server.host.append_only.aof().is_some_and(|aof| aof.stream_start().is_some());
        // A replica that becomes the primary gives those of the one before time to come.
        if self.server.replication.role.is_replica() {
            self.alone_since = Some(Instant::now());
        }
        let has_ended = ttl > Duration::ZERO && self.alone_since.is_some_and(|since| since.elapsed() > ttl);
        if has_ended && self.links.is_empty() && !is_on_disk() {
            self.end_stream();
        }
    }

    /// No replica has come for `repl-backlog-ttl`: nothing is kept any more, and none can go on where it was.
    fn end_stream(&mut self) {
        let server = self.server;
        if server.replication.role.is_replica() || server.durability.may_wait_for_replicas() {
            return;
        }
        let Some(alone) = server.alone_unless_busy() else { return };
        // The role may have changed until now.
        if server.replication.role.is_replica() {
            return;
        }
        server.replication.end_stream(server.engine());
        server.replication.history.keep(false);
        let offset = server.replication.history.position().offset;
        let position = Position { id: server.new_replid(), offset };
        server.replication.take_over(position);
        drop(alone);
        self.alone_since = None;
        tracing::info!("The stream for replicas is not kept any more: none has come for repl-backlog-ttl");
    }

    /// Has what memory has no room for written.
    fn spill(&self) {
        if self.server.replication.history.is_too_long() {
            self.spool.ring();
        }
    }

    /// Tells the history what must be kept.
    fn note_lacked(&mut self) {
        let lacked = self.links.iter().filter_map(|(_, link)| link.lacks()).min();
        let cuts = self.payload.as_ref().map(|payload| payload.cut());
        let awaits_cut = cuts.as_ref().is_some_and(Option::is_none);
        let cut = cuts.flatten().map(|(cut, _)| cut.offset);
        let lacked = lacked.into_iter().chain(cut).min();
        self.server.replication.history.set_lacked(lacked, awaits_cut);
        self.spool.forget_before(lacked);
    }
}

/// Lets a replica go on where it was, if this is its history and the part that it lacks is kept. Otherwise it waits for data.
fn settle(server: &Server, link: &mut Link, asked: Asked, is_kept: bool) {
    let replication = &server.replication;
    if asked.is_known && is_kept {
        replication.syncs.partial_ok.fetch_add(1, Relaxed);
        let len = asked.end - asked.next;
        tracing::info!("The replica {} goes on where it was, {len} bytes ago", link.replica.client.addr);
        link.go_on(server, asked.next, asked.epoch);
    } else {
        replication.syncs.partial_err.fetch_add(1, Relaxed);
        let why = if asked.is_known { "a part that it lacks is not kept any more" } else { "it has another history" };
        tracing::info!("The replica {} gets all data: {why}", link.replica.client.addr);
    }
}

/// Counts the replicas that are online and not silent for long, and notes whether there are fewer than writes need
/// (`min-replicas-to-write`).
pub fn count_good(server: &Server) {
    let (wanted, lag_max_s) = {
        let config = server.host.config.read();
        (config.min_replicas_to_write, config.min_replicas_max_lag)
    };
    let replication = &server.replication;
    let good = replication.attached.count_good(lag_max_s, server.clock.unix_ms());
    let lacks = wanted > 0 && lag_max_s > 0 && u64::from(good) < wanted && !replication.role.is_replica();
    replication.role.set_lacks_replicas(lacks);
}

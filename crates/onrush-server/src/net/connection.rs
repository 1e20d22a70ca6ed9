//! One connection: a byte stream, its buffers, and the turn-taking between reading, executing and writing.
//!
//! A connection never waits for one direction only. While a client does not read its replies, the server keeps reading
//! its commands but does not execute them. A slice of execution ends after a bounded time. A write that the kernel does
//! not take yet stops nothing else.

mod batch;
mod big_bulk;
mod executing;
mod held;
mod query;
mod reading;
mod writing;

use std::hint::cold_path;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Registry, Token};
use onrush_alloc::huge;
use onrush_engine::batch::slice::{SliceEnd, SliceResult};
use onrush_engine::blocking::waiter::Outcome;
use onrush_engine::clients::client::ClientHandle;
use onrush_engine::clients::session::{Session, States};
use onrush_engine::observe::slow_batch::BatchTimes;
use onrush_engine::observe::stats::ThreadStats;
use onrush_engine::replication::introduction::SyncRequest;
use onrush_engine::settings::Pause;
use onrush_resp::{Decoder, Reply};

use crate::net::socket::Socket;
use crate::process::server::Server;
use crate::workers::scratch::{ReplyBuffers, Scratch};
use batch::Batch;
use held::Held;
use query::Query;

/// Most reads in one turn; then other connections have their turns.
const TURN_READS_MAX: usize = 8;

/// The longest wait that is timed; a longer one is without end.
const WAIT_MS_MAX: i64 = 365 * 86_400_000;

/// What [`Connection::receive`] has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// So many bytes, with those that were carried over.
    Bytes(usize),
    /// No byte is there yet.
    Nothing,
    /// It needs a turn of its own.
    NeedsTurn,
    /// The connection is broken.
    Failed,
}

/// What a connection wants after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// To wait for events.
    Wait,
    /// Another turn, after the other ready connections and a look at the sockets.
    Again,
    /// To be dropped.
    End,
}

/// How long the present turn of a connection has lasted.
struct Turn {
    reads: usize,
    started: Option<Instant>,
}

impl Turn {
    /// Begins a turn. Reads the clock only if there is work to do before the first read.
    fn begin(has_work: bool) -> Self {
        Self { reads: 0, started: has_work.then(Instant::now) }
    }

    /// Whether the turn is over; called before each read. Many turns have only one read, and the clock is not read for
    /// those.
    fn is_over(&mut self, server: &Server) -> bool {
        self.reads += 1;
        match self.started {
            None if self.reads == 1 => false,
            None => {
                self.started = Some(Instant::now());
                false
            }
            Some(started) => {
                self.reads > TURN_READS_MAX
                    || started.elapsed() >= Duration::from_micros(server.settings.slice_us.load(Relaxed))
            }
        }
    }
}

/// What the last slice of work left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Input {
    /// No complete command is buffered.
    UsedUp,
    /// There may be complete commands.
    Pending,
    /// There are complete commands, but CLIENT PAUSE holds them back.
    Paused,
    /// There are complete commands, and the next one needs a shard that another thread holds for long.
    HeldLong,
    /// There may be complete commands, after one that waits for keys or is executed on another thread.
    Blocked,
}

/// A client's connection.
pub struct Connection {
    socket: Socket,
    server: &'static Server,
    thread: usize,
    stats: &'static ThreadStats,
    session: Session,
    query: Query,
    reply: Reply,
    input: Input,
    eof: bool,
    closing: bool,
    /// Whether the published state shows empty buffers.
    is_published_idle: bool,
    alarm: Option<Instant>,
    batch: Batch,
    /// Replies that wait for the disk.
    held: Option<Box<Held>>,
    /// The last change whose replies were given a mark for replicas.
    marked_lsn: u64,
}

impl Connection {
    /// A connection over `socket`, served by worker `thread` from now on. Waking `waker` gives it a turn.
    pub fn new(
        socket: Socket,
        server: &'static Server,
        thread: usize,
        handle: Arc<ClientHandle>,
        waker: &Waker,
    ) -> Self {
        let authenticated = !server.users.needs_login();
        handle.set_waker(waker);
        handle.tls_bytes.store(socket.tls_bytes() as u64, Relaxed);
        Self {
            socket,
            server,
            thread,
            stats: &server.stats.threads[thread],
            session: Session::new(handle, authenticated),
            query: Query::new(),
            reply: Reply::new(),
            input: Input::UsedUp,
            eof: false,
            closing: false,
            is_published_idle: true,
            alarm: None,
            batch: Batch::default(),
            held: None,
            marked_lsn: 0,
        }
    }

    /// Whether it can move to another worker now: nothing of it is under way.
    pub fn may_move(&self) -> bool {
        self.input == Input::UsedUp
            && self.reply.is_empty()
            && !self.query.has_big()
            && self.session.waiter.is_none()
            && self.alarm.is_none()
            && !(self.eof || self.closing || self.session.handle.is_killed())
    }

    /// Whether it is the connection of a replica from now on: it has sent PSYNC, and all replies are written.
    pub fn is_of_replica(&self) -> bool {
        self.session.sync_request.is_some() && self.reply.is_empty() && !self.is_killed()
    }

    /// What it has asked for as a replica.
    pub fn take_sync_request(&mut self) -> Option<Box<SyncRequest>> {
        self.session.sync_request.take()
    }

    /// Its client, as others see it.
    pub fn handle(&self) -> &Arc<ClientHandle> {
        &self.session.handle
    }

    /// Its socket, once it has left its worker.
    pub fn socket(&mut self) -> &mut Socket {
        &mut self.socket
    }

    /// The thread that serves replicas watches the socket from now on; waking `waker` has it look at its client.
    ///
    /// # Errors
    /// The system cannot watch the socket.
    pub fn watch(&mut self, registry: &Registry, token: Token, waker: &Waker) -> io::Result<()> {
        self.session.handle.set_waker(waker);
        self.socket.register(registry, token)?;
        self.socket.look();
        Ok(())
    }

    /// Leaves its worker, whose `registry` watched the socket.
    ///
    /// # Errors
    /// The system cannot stop watching.
    pub fn leave(&mut self, registry: &Registry) -> io::Result<()> {
        self.socket.deregister(registry)
    }

    /// Moves to worker `thread`, whose `registry` watches the socket under `token` from now on. Waking `waker` gives it
    /// a turn; the caller must give it one at once.
    ///
    /// # Errors
    /// The system cannot watch the socket.
    pub fn arrive(&mut self, thread: usize, registry: &Registry, token: Token, waker: &Waker) -> io::Result<()> {
        (self.thread, self.stats) = (thread, &self.server.stats.threads[thread]);
        self.session.handle.set_waker(waker);
        self.socket.register(registry, token)
    }

    /// Notes an event of the socket; a turn must follow.
    #[inline]
    pub fn note(&mut self, event: &Event) {
        self.socket.note(event);
    }

    /// When it needs a turn even if nothing happens.
    #[inline]
    pub fn alarm(&self) -> Option<Instant> {
        self.alarm
    }

    /// If it only has to read new commands and execute them: puts the rest of an unfinished command into `space` and reads up
    /// to `len_max` bytes after it. Such connections share a round; all others have turns of their own.
    pub fn receive(&mut self, space: &mut [u8], len_max: usize) -> Received {
        let is_light = self.socket.is_readable()
            && self.input == Input::UsedUp
            && self.reply.is_empty()
            && self.query.can_be_carried()
            && !self.query.has_big()
            && !self.eof
            && !self.closing
            && !self.session.handle.is_called();
        if !is_light {
            cold_path();
            return Received::NeedsTurn;
        }
        let carried = self.query.carried().len();
        if carried > 0 {
            cold_path();
            space[..carried].copy_from_slice(self.query.carried());
        }
        let end = space.len().min(carried.saturating_add(len_max));
        match self.socket.read(&mut space[carried..end]) {
            Ok(0) => {
                cold_path();
                // Its own turn sees the end of the stream.
                self.eof = true;
                Received::NeedsTurn
            }
            Ok(len) => {
                self.stats.net_input_bytes.add(len as u64);
                self.stats.reads_processed.add(1);
                Received::Bytes(carried + len)
            }
            Err(error) => {
                self.note_kept();
                if error.kind() == ErrorKind::WouldBlock { Received::Nothing } else { Received::Failed }
            }
        }
    }

    /// Whether it was told to close by another thread or a command.
    #[inline]
    pub fn is_killed(&self) -> bool {
        self.session.handle.is_killed()
    }

    /// Closes it without the replies that are still to come.
    #[cold]
    pub fn kill(&self) {
        self.session.handle.kill();
    }

    /// What decoding needs of the connection.
    #[inline]
    pub fn decoding(&mut self) -> (&mut Decoder, &mut Session) {
        (&mut self.query.decoder, &mut self.session)
    }

    /// Notes how its slice of work on `input` ended, and writes the replies. `input` is what [`Connection::receive`]
    /// has read.
    pub fn settle(&mut self, input: &[u8], result: &mut SliceResult, replies: &mut ReplyBuffers) -> After {
        let queues = self.session.states.contains(States::QUEUES);
        if result.end == SliceEnd::InputUsedUp && result.consumed == input.len() && !queues {
            match self.write_all(replies, result.commands) {
                Ok(true) => {
                    self.query.end_carried();
                    self.publish(result.ended_ms, result.commands);
                    self.end_batch(Some(result));
                    return if self.socket.is_readable() { After::Again } else { After::Wait };
                }
                Ok(false) => {}
                Err(_) => return After::End,
            }
        }
        self.note_end(result, input);
        self.query.keep_rest(input, result);
        if self.is_over_query_limit() {
            self.over_query_limit();
            return After::End;
        }
        if self.write_and_publish(replies) == After::End {
            return After::End;
        }
        let goes_on = self.socket.is_readable() || self.input != Input::UsedUp;
        if goes_on && !self.closing { After::Again } else { self.after_writing() }
    }

    /// Notes that its batch took long to execute; the caller calls [`Connection::settle`] next.
    #[cold]
    pub fn note_slow(&mut self, times: BatchTimes) {
        self.batch.note_slow(&times);
    }

    /// Reads and executes for a bounded time.
    pub fn turn(&mut self, scratch: &mut Scratch) -> After {
        let handle = &self.session.handle;
        let mut turn = Turn::begin(self.input != Input::UsedUp || !self.reply.is_empty() || handle.has_mail());
        if handle.closes_if_idle() {
            cold_path();
            // First executes input that has arrived without an event.
            self.socket.look();
        }
        loop {
            if self.is_killed() {
                return After::End;
            }
            self.take_mail(&mut scratch.replies);
            let time_up = self.may_execute() && self.execute_query(scratch);
            if self.write_and_publish(&mut scratch.replies) == After::End {
                return After::End;
            }
            if self.closing {
                return self.after_writing();
            }
            if time_up {
                return After::Again;
            }
            if turn.is_over(self.server) {
                self.note_deferral();
                return After::Again;
            }
            // For a pause, this also sets the alarm.
            if self.input != Input::UsedUp && self.may_execute() {
                continue;
            }
            // What the client sends is not behind messages without end.
            if !self.socket.is_readable() && self.may_take_mail() {
                continue;
            }
            if self.eof {
                let waits = self.waits_for_keys() || self.waits_for_pause();
                return if waits { After::End } else { self.after_writing() };
            }
            match self.read(scratch) {
                Ok(0) => self.eof = true,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.note_kept();
                    if self.may_take_mail() {
                        continue;
                    }
                    return if self.ends_as_idle() { After::End } else { self.after_writing() };
                }
                Err(_) => return After::End,
            }
            if self.is_over_query_limit() {
                self.over_query_limit();
                return After::End;
            }
        }
    }

    /// Whether there are messages that can be written now.
    #[inline]
    fn may_take_mail(&self) -> bool {
        self.reply.is_empty() && self.session.handle.has_mail() && !self.session.holds_mail_back()
    }

    /// Whether it must close because its client is idle. All input that has arrived must have been read.
    #[inline]
    fn ends_as_idle(&self) -> bool {
        self.session.handle.closes_if_idle() && self.is_idle()
    }

    #[cold]
    fn is_idle(&self) -> bool {
        let handle = &self.session.handle;
        let timeout_ms = self.server.host.config.read().timeout as i64 * 1000;
        let waits = self.input == Input::Paused || self.session.waiter.is_some() || self.is_held();
        if timeout_ms == 0 || waits || !handle.is_idle(self.server.clock.unix_ms(), timeout_ms) {
            handle.stay();
            return false;
        }
        tracing::debug!("Closing idle client id={} addr={}", handle.id, handle.addr);
        true
    }

    fn reply_limit(&self) -> usize {
        self.server.settings.reply_limit_bytes.load(Relaxed)
    }

    #[inline]
    fn may_execute(&mut self) -> bool {
        let may_go_on = match self.input {
            Input::UsedUp => false,
            Input::Pending => true,
            Input::Blocked => self.is_unblocked(),
            Input::Paused => self.is_unpaused(),
            Input::HeldLong => !self.session.handle.is_aside(),
        };
        may_go_on && !self.closing && self.reply.len() < self.reply_limit()
    }

    /// Whether its client waits for keys, which may take for ever.
    fn waits_for_keys(&self) -> bool {
        self.input == Input::Blocked && self.session.waiter.as_ref().is_some_and(|waiter| !waiter.is_certain())
    }

    /// Whether CLIENT PAUSE holds its commands back, and it has all replies: if it goes away, they are not executed.
    fn waits_for_pause(&self) -> bool {
        let settings = &self.server.settings;
        self.input == Input::Paused
            && self.reply.is_empty()
            && settings.command_pause(self.server.clock.unix_ms()) != Pause::None
    }

    /// Whether its alarm has gone off.
    fn is_alarmed(&self) -> bool {
        self.alarm.is_some_and(|alarm| alarm <= Instant::now())
    }

    /// Whether CLIENT PAUSE is over.
    #[cold]
    fn is_unpaused(&mut self) -> bool {
        if !self.is_alarmed() && self.server.holds_back(self.server.clock.unix_ms()) != Pause::None {
            return false;
        }
        self.alarm = None;
        self.input = Input::Pending;
        true
    }

    /// Whether the command that waits for keys has its reply, which is then in the reply buffer.
    #[cold]
    fn is_unblocked(&mut self) -> bool {
        let Some(waiter) = &self.session.waiter else { return true };
        if self.is_alarmed() {
            self.alarm = None;
            waiter.time_out(self.server);
        }
        let may_change_data = waiter.may_change_data();
        let reply = match self.session.take_outcome(&mut self.reply) {
            None => return false,
            Some(Outcome::Reply(reply)) => reply,
            Some(Outcome::Waits(waiter)) => {
                self.session.handle.set_aside(false);
                if let Some(deadline_ms) = waiter.deadline_ms() {
                    self.set_alarm(deadline_ms);
                }
                self.publish_buffers();
                return self.is_unblocked();
            }
        };
        if !std::mem::take(&mut self.session.waits_silently) {
            if self.reply.capacity() == 0 {
                self.reply.put_buffer(Vec::with_capacity(reply.len()));
            }
            self.reply.raw(&reply);
        }
        if may_change_data {
            // Another thread has executed the command.
            self.session.owed.changed_lsn = self.server.log.last_lsn();
        }
        self.session.handle.set_aside(false);
        self.alarm = None;
        self.closing |= self.session.states.contains(States::CLOSES);
        self.input = if self.closing { Input::UsedUp } else { Input::Pending };
        true
    }

    #[cold]
    fn is_over_query_limit(&self) -> bool {
        self.query.len() + self.queued_len() > self.server.host.query_limit_bytes.load(Relaxed)
    }

    /// Bytes that were queued since MULTI, and of a command that waits or that another thread executes.
    fn queued_len(&self) -> usize {
        let queued = self.session.transaction.as_ref().map_or(0, |transaction| transaction.args_bytes());
        queued + self.session.waiter.as_ref().map_or(0, |waiter| waiter.held_bytes)
    }

    fn over_query_limit(&self) {
        let handle = &self.session.handle;
        self.stats.query_buffer_limit_disconnections.add(1);
        tracing::warn!(
            "Closing client id={} addr={}: its query buffer of {} bytes, with {} bytes queued since MULTI or under way, passed \
             client-query-buffer-limit ({} bytes of its replies are unread)",
            handle.id,
            handle.addr,
            self.query.len(),
            self.queued_len(),
            self.reply.len()
        );
    }

    /// Notes that the client has sent or read something: without a slice, this counts as the time of the last slice.
    fn note_time(&mut self) {
        self.batch.unpublished_ms.get_or_insert_with(|| self.server.clock.unix_ms());
    }

    /// Sets the alarm. Both times are cut to milliseconds; one millisecond more keeps it from going off early.
    fn set_alarm(&mut self, at_unix_ms: i64) {
        let left_ms = at_unix_ms.saturating_sub(self.server.clock.unix_ms()).clamp(0, WAIT_MS_MAX) + 1;
        self.alarm = Some(Instant::now() + Duration::from_millis(left_ms as u64));
    }

    /// Notes that the connection gives way to others.
    #[cold]
    fn note_deferral(&self) {
        self.stats.pipeline.gave_way.add(1);
        self.session.handle.gave_way.fetch_add(1, Relaxed);
    }

    /// Publishes the state of this connection, which has executed `commands` commands since the last time.
    #[inline]
    fn publish(&mut self, now_ms: i64, commands: u32) {
        let activity = &self.session.handle.activity;
        activity.note_batch(now_ms, commands);
        activity.db.store(self.session.db, Relaxed);
        let is_idle = self.reply.capacity() == 0
            && self.query.is_unallocated()
            && self.input == Input::UsedUp
            && self.socket.input_bytes() == 0;
        if !(is_idle && self.is_published_idle) {
            cold_path();
            self.publish_buffers();
            self.is_published_idle = is_idle;
        }
    }

    /// A read has brought nothing; what the socket keeps of it counts as the client's.
    #[cold]
    fn note_kept(&mut self) {
        if self.socket.input_bytes() > 0 {
            self.publish_buffers();
            self.is_published_idle = false;
        }
    }

    #[inline(never)]
    fn publish_buffers(&self) {
        let handle = &self.session.handle;
        let (reply_bytes, query_bytes) = (self.reply.len() as u64, self.query.len() as u64);
        handle.reply_bytes.store(reply_bytes, Relaxed);
        handle.reply_capacity_bytes.store(self.reply.capacity() as u64, Relaxed);
        handle.query_bytes.store(query_bytes, Relaxed);
        handle.reply_bytes_max.fetch_max(reply_bytes, Relaxed);
        handle.query_bytes_max.fetch_max(query_bytes, Relaxed);
        self.stats.pipeline.note_reply_bytes(reply_bytes);
        self.stats.pipeline.note_query_bytes(query_bytes);
        handle.query_free_bytes.store(self.query.free_len() as u64, Relaxed);
        handle.tls_bytes.store(self.socket.tls_bytes() as u64, Relaxed);
        let waiting = self.session.waiter.as_ref().map_or(0, |waiter| waiter.memory_bytes());
        handle.waiting_command_bytes.store(waiting as u64, Relaxed);
        self.server.count_client(handle);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.session.end(self.server);
        if let Some(big) = self.query.take_big().filter(|big| big.capacity() >= huge::BYTES_MIN) {
            let bytes = big.capacity();
            self.server.lazyfree.free_later(Box::new(big), 0, bytes);
        }
        self.server.clients.remove(self.session.handle.id);
        self.server.host.connected.fetch_sub(1, Relaxed);
    }
}

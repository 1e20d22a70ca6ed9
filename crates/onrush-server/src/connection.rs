//! One connection: a byte stream, its buffers, and the turn-taking between reading, executing and writing.
//!
//! A connection never waits for one direction only. While replies wait for a client that does not read them, its
//! commands are read on but not executed; a slice of execution ends after a bounded time; a write that the kernel
//! does not take yet keeps nothing else from going on.

mod held;
mod writing;

use std::collections::VecDeque;
use std::hint::cold_path;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Registry, Token};
use onrush_alloc::huge;
use onrush_engine::batch::Lane;
use onrush_engine::blocking::waiter::Outcome;
use onrush_engine::client::ClientHandle;
use onrush_engine::runner::{Input as Bytes, Lanes};
use onrush_engine::session::{Session, States};
use onrush_engine::settings::Pause;
use onrush_engine::slice::{SliceEnd, SliceResult};
use onrush_engine::slow::note_batch;
use onrush_engine::slow_batch::BatchTimes;
use onrush_engine::stats::ThreadStats;
use onrush_resp::{Decoder, Reply};

use crate::scratch::{CARRY_LEN_MAX, READ_LEN_MAX, ReplyBuffers, Scratch};
use crate::server::Server;
use crate::socket::Socket;
use crate::underway::{Then, Underway};
use held::Held;

/// Commands that have to wait are kept in segments, so that nothing is moved as they pile up: each has as many bytes as wait
/// already, within these bounds.
const SEGMENT_LEN_MIN: usize = 16 * 1024;
const SEGMENT_LEN_MAX: usize = 1024 * 1024;

/// A query buffer of up to this many bytes is kept while there is anything in it; a larger one is cut to size when most of
/// it is unused.
const QUERY_KEPT_MAX: usize = 2 * READ_LEN_MAX;

/// What a large argument is given room for at first, in bytes, whatever length was announced.
const BIG_BULK_START: usize = 64 * 1024;

/// The room of a large argument grows by this factor while growing means copying, by two when it does not.
const BIG_BULK_GROWTH: usize = 4;

/// Reads of one turn; then others get theirs.
const TURN_READS_MAX: usize = 8;

/// The longest wait that is timed; a longer one has no end.
const WAIT_MS_MAX: i64 = 365 * 86_400_000;

/// What a connection wants after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// To be told of events.
    Wait,
    /// Another turn, after the others that are ready and a look at the sockets.
    Again,
    /// To be dropped.
    End,
}

/// An argument that is read straight into the buffer that will hold the value.
struct BigBulk {
    buf: Vec<u8>,
    len: usize,
}

impl BigBulk {
    /// Bytes it has in the end: the argument and the end of its line.
    fn total(&self) -> usize {
        self.len + 2
    }

    /// Makes room when there is none: memory is taken as bytes come.
    fn make_room(&mut self) -> io::Result<()> {
        let capacity = self.buf.capacity();
        if self.buf.len() < capacity {
            return Ok(());
        }
        let grown =
            if capacity < huge::BYTES_MIN { (capacity * BIG_BULK_GROWTH).min(huge::BYTES_MIN) } else { capacity * 2 };
        let more = grown.min(self.total()) - self.buf.len();
        self.buf.try_reserve_exact(more).map_err(|_| {
            tracing::warn!("Closing a client: no memory for its argument of {} bytes", self.len);
            ErrorKind::OutOfMemory.into()
        })
    }
}

/// How long a connection has been at work since others had their turn.
struct Turn {
    reads: usize,
    started: Option<Instant>,
}

impl Turn {
    /// Begins. The clock is looked at if there is work to do before the first read.
    fn begin(has_work: bool) -> Self {
        Self { reads: 0, started: has_work.then(Instant::now) }
    }

    /// Asked before each read. A turn may have only one: the clock is not looked at for those.
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
    /// There are, but CLIENT PAUSE holds them back.
    Paused,
    /// There are, and the next one wants a shard that somebody holds for long.
    HeldLong,
    /// There may be, behind one that waits for keys, or is executed elsewhere.
    Blocked,
}

/// A client's connection.
pub struct Connection {
    socket: Socket,
    server: &'static Server,
    thread: usize,
    stats: &'static ThreadStats,
    session: Session,
    decoder: Decoder,
    reply: Reply,
    /// Commands to be executed next, from `query_pos` on.
    query: Vec<u8>,
    query_pos: usize,
    /// What was read while those wait, in order.
    later: VecDeque<Vec<u8>>,
    later_len: usize,
    big: Option<BigBulk>,
    spilled: bool,
    input: Input,
    eof: bool,
    closing: bool,
    /// Time of the last slice in Unix milliseconds, until it is published.
    unpublished_ms: Option<i64>,
    /// Commands executed in a batch that is not done with.
    batch_commands: u32,
    /// Commands of batches that are not published, and replies that are not all written.
    unpublished_commands: u32,
    unwritten_replies: u32,
    /// Whether others see empty buffers.
    is_published_idle: bool,
    alarm: Option<Instant>,
    /// The present batch, if it takes more than a slice or than a write.
    underway: Option<Box<Underway>>,
    /// Commands and bytes of the last slice.
    slice: (u32, usize),
    /// Replies that wait for the disk.
    held: Option<Box<Held>>,
}

impl Connection {
    /// A connection over `socket`, which lives on worker `thread` from now on and has a turn when `waker` is woken.
    pub fn new(
        socket: Socket,
        server: &'static Server,
        thread: usize,
        handle: Arc<ClientHandle>,
        waker: &Waker,
    ) -> Self {
        let authenticated = !server.settings.password_set.load(Relaxed);
        handle.set_waker(waker);
        Self {
            socket,
            server,
            thread,
            stats: &server.stats.threads[thread],
            session: Session::new(handle, authenticated),
            decoder: Decoder::new(),
            reply: Reply::new(),
            query: Vec::new(),
            query_pos: 0,
            later: VecDeque::new(),
            later_len: 0,
            big: None,
            spilled: false,
            input: Input::UsedUp,
            eof: false,
            closing: false,
            unpublished_ms: None,
            batch_commands: 0,
            unpublished_commands: 0,
            unwritten_replies: 0,
            is_published_idle: true,
            alarm: None,
            underway: None,
            slice: (0, 0),
            held: None,
        }
    }

    /// Whether another worker may have it now: nothing of it is under way.
    pub fn may_move(&self) -> bool {
        self.input == Input::UsedUp
            && self.reply.is_empty()
            && self.big.is_none()
            && self.session.waiter.is_none()
            && self.alarm.is_none()
            && !(self.eof || self.closing || self.session.handle.is_killed())
    }

    /// Leaves its worker, whose `registry` watched the socket.
    ///
    /// # Errors
    /// The system cannot stop watching.
    pub fn leave(&mut self, registry: &Registry) -> io::Result<()> {
        self.socket.deregister(registry)
    }

    /// Comes to worker `thread`, whose `registry` watches the socket by `token` from now on; it has a turn when `waker` is woken,
    /// and needs one at once.
    ///
    /// # Errors
    /// The system cannot watch the socket.
    pub fn arrive(&mut self, thread: usize, registry: &Registry, token: Token, waker: &Waker) -> io::Result<()> {
        (self.thread, self.stats) = (thread, &self.server.stats.threads[thread]);
        self.session.handle.set_waker(waker);
        self.socket.register(registry, token)
    }

    /// Notes what an event tells about the socket; a turn has to follow.
    #[inline]
    pub fn note(&mut self, event: &Event) {
        self.socket.note(event);
    }

    /// When it wants a turn even if nothing happens.
    #[inline]
    pub fn alarm(&self) -> Option<Instant> {
        self.alarm
    }

    /// Whether all there is to do is to read new commands and execute them: such a connection takes part in a round with
    /// others. The rest have turns of their own.
    #[inline]
    pub fn is_light(&self) -> bool {
        self.socket.is_readable()
            && self.input == Input::UsedUp
            && self.reply.is_empty()
            && self.query_pos == 0
            && self.query.len() <= CARRY_LEN_MAX
            && self.big.is_none()
            && !self.eof
            && !self.closing
            && !self.session.handle.is_called()
    }

    /// Reads up to `len_max` bytes behind what is left of an unfinished command, all of it into `space`; returns the bytes that
    /// are there then, or 0 at the end of the stream. Only for a light connection.
    ///
    /// # Errors
    /// As [`Socket::read`].
    pub fn receive(&mut self, space: &mut [u8], len_max: usize) -> io::Result<usize> {
        let carried = self.query.len();
        if carried > 0 {
            cold_path();
            space[..carried].copy_from_slice(&self.query);
        }
        let end = space.len().min(carried.saturating_add(len_max));
        let len = self.socket.read(&mut space[carried..end])?;
        if len == 0 {
            cold_path();
            self.eof = true;
            return Ok(0);
        }
        let stats = self.stats;
        stats.net_input_bytes.add(len as u64);
        stats.reads_processed.add(1);
        Ok(carried + len)
    }

    /// Whether somebody asked it to close.
    #[inline]
    pub fn is_killed(&self) -> bool {
        self.session.handle.is_killed()
    }

    /// Has it end without the replies that are still to come.
    #[cold]
    pub fn kill(&self) {
        self.session.handle.kill();
    }

    /// What decoding needs of the connection.
    #[inline]
    pub fn decoding(&mut self) -> (&mut Decoder, &mut Session) {
        (&mut self.decoder, &mut self.session)
    }

    /// Takes note of how its slice of work on `input`, which [`Connection::receive`] has read, ended; writes the replies.
    pub fn settle(&mut self, input: &[u8], result: &mut SliceResult, replies: &mut ReplyBuffers) -> After {
        let queues = self.session.states.contains(States::QUEUES);
        if result.end == SliceEnd::InputUsedUp && result.consumed == input.len() && !queues {
            match self.write_all(replies, result.commands) {
                Ok(true) => {
                    if !self.query.is_empty() {
                        cold_path();
                        self.query = Vec::new();
                    }
                    self.publish(result.ended_ms, result.commands);
                    if let Some(mut batch) = self.underway.take() {
                        cold_path();
                        batch.add(result.commands, result.consumed, Then::IsExecuted);
                        note_batch(self.server, &self.session.handle, batch.end());
                    }
                    return if self.socket.is_readable() { After::Again } else { After::Wait };
                }
                Ok(false) => {}
                Err(_) => return After::End,
            }
        }
        self.note_end(result);
        self.keep_rest(input, result);
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

    /// Its batch has taken long to be executed; [`Connection::settle`] comes next.
    #[cold]
    pub fn note_slow(&mut self, times: BatchTimes) {
        if self.underway.is_some() {
            return;
        }
        let since = times.waiting + times.executing;
        let started = Instant::now().checked_sub(since).unwrap_or_else(Instant::now);
        self.underway = Some(Box::new(Underway::new(started, times.executing)));
    }

    /// Takes note of another slice of a batch.
    fn note_underway(&mut self, result: &SliceResult) {
        if matches!(self.input, Input::Blocked | Input::Paused) {
            // It waits because it was told to.
            self.underway = None;
            return;
        }
        self.slice = (result.commands, result.consumed);
        if result.end == SliceEnd::ReplyLimit && self.underway.is_none() {
            // It goes on when these replies are written, also if that is at once.
            self.underway = Some(Box::new(Underway::new(Instant::now(), Duration::ZERO)));
        }
        // What is executed at once, and written at once, is not worth to look at the clock.
        let Some(batch) = &mut self.underway else { return };
        let then = match result.end {
            SliceEnd::ReplyLimit => Then::HasToBeRead,
            _ if self.input == Input::UsedUp => Then::IsExecuted,
            _ => Then::GoesOn,
        };
        batch.add(result.commands, result.consumed, then);
    }

    /// Reads and executes for a bounded time.
    pub fn turn(&mut self, scratch: &mut Scratch) -> After {
        let handle = &self.session.handle;
        let mut turn = Turn::begin(self.input != Input::UsedUp || !self.reply.is_empty() || handle.has_mail());
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
            // Of a pause this also sets the alarm.
            if self.input != Input::UsedUp && self.may_execute() {
                continue;
            }
            if self.reply.is_empty() && self.session.handle.has_mail() && !self.session.holds_mail_back() {
                continue;
            }
            if self.eof {
                return if self.waits_for_keys() { After::End } else { self.after_writing() };
            }
            match self.read(scratch) {
                Ok(0) => self.eof = true,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return self.after_writing(),
                Err(_) => return After::End,
            }
            if self.is_over_query_limit() {
                self.over_query_limit();
                return After::End;
            }
        }
    }

    fn reply_limit(&self) -> usize {
        self.server.settings.reply_limit_bytes.load(Relaxed)
    }

    /// Bytes of commands that were read and not executed.
    fn query_len(&self) -> usize {
        let big = self.big.as_ref().map_or(0, |big| big.buf.len());
        self.query.len() - self.query_pos + self.later_len + big + self.decoder.held_bytes()
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

    /// Whether it may wait for ever.
    fn waits_for_keys(&self) -> bool {
        self.input == Input::Blocked && self.session.waiter.as_ref().is_some_and(|waiter| !waiter.is_offloaded)
    }

    /// Whether its alarm has gone off.
    fn is_alarmed(&self) -> bool {
        self.alarm.is_some_and(|alarm| alarm <= Instant::now())
    }

    /// Whether CLIENT PAUSE is over.
    #[cold]
    fn is_unpaused(&mut self) -> bool {
        if !self.is_alarmed() && self.server.settings.pause(self.server.clock.unix_ms()) != Pause::None {
            return false;
        }
        self.alarm = None;
        self.input = Input::Pending;
        true
    }

    /// Whether the command that waits for keys has got its reply, which is then in the reply buffer.
    #[cold]
    fn is_unblocked(&mut self) -> bool {
        let Some(waiter) = &self.session.waiter else { return true };
        if self.is_alarmed() {
            self.alarm = None;
            waiter.time_out(self.server);
        }
        let reply = match waiter.take_outcome() {
            None => return false,
            Some(Outcome::Reply(reply)) => reply,
            Some(Outcome::Waits(waiter)) => {
                self.session.handle.set_aside(false);
                if let Some(deadline_ms) = waiter.deadline_ms {
                    self.set_alarm(deadline_ms);
                }
                self.session.waiter = Some(waiter);
                return self.is_unblocked();
            }
        };
        if !std::mem::take(&mut self.session.waits_silently) {
            if self.reply.capacity() == 0 {
                self.reply.put_buffer(Vec::with_capacity(reply.len()));
            }
            self.reply.raw(&reply);
        }
        self.session.handle.set_aside(false);
        self.session.waiter = None;
        self.alarm = None;
        self.input = Input::Pending;
        true
    }

    #[cold]
    fn is_over_query_limit(&self) -> bool {
        let queued = self.session.transaction.as_ref().map_or(0, |transaction| transaction.args_bytes());
        self.query_len() + queued > self.server.host.query_limit_bytes.load(Relaxed)
    }

    fn over_query_limit(&self) {
        let handle = &self.session.handle;
        self.stats.query_buffer_limit_disconnections.add(1);
        tracing::warn!(
            "Closing client id={} addr={}: its query buffer of {} bytes, with {} bytes queued since MULTI, passed \
             client-query-buffer-limit ({} bytes of its replies are unread)",
            handle.id,
            handle.addr,
            self.query_len(),
            handle.transaction_args_bytes.load(Relaxed),
            self.reply.len()
        );
    }

    /// Executes from the connection's own query buffer; says whether the slice's time ran out.
    fn execute_query(&mut self, scratch: &mut Scratch) -> bool {
        let query = std::mem::take(&mut self.query);
        let result = self.run_slice(&query[self.query_pos..], scratch);
        self.query = query;
        self.query_pos += result.consumed;
        if let Some(requeued) = result.requeue {
            let mut requeued = requeued.into_vec();
            requeued.extend_from_slice(&self.query[self.query_pos..]);
            self.query = requeued;
            self.query_pos = 0;
        }
        if self.input == Input::UsedUp
            && !self.closing
            && let Some(segment) = self.later.pop_front()
        {
            self.append_segment(segment);
        } else if let SliceEnd::NeedBulk { at, len } = result.end {
            self.start_big_bulk(self.query_pos + at, len);
        }
        let rest = self.query.len() - self.query_pos;
        if rest == 0 {
            self.query = Vec::new();
            self.query_pos = 0;
        } else if self.query.capacity() > QUERY_KEPT_MAX && rest < self.query.capacity() / 4 {
            self.query = self.query[self.query_pos..].to_vec();
            self.query_pos = 0;
        }
        result.end == SliceEnd::TimeUp
    }

    /// Goes on with what was read while commands waited.
    fn append_segment(&mut self, segment: Vec<u8>) {
        self.later_len -= segment.len();
        self.input = Input::Pending;
        if self.query_pos == self.query.len() {
            self.query = segment;
        } else {
            self.query.drain(..self.query_pos);
            self.query.extend_from_slice(&segment);
        }
        self.query_pos = 0;
    }

    /// Executes from the thread's read buffer, which starts with what the query buffer held.
    fn execute_read(&mut self, input: &[u8], scratch: &mut Scratch) {
        let mut result = self.run_slice(input, scratch);
        self.keep_rest(input, &mut result);
    }

    /// Keeps what a slice of work has left of the thread's read buffer.
    #[inline]
    fn keep_rest(&mut self, input: &[u8], result: &mut SliceResult) {
        debug_assert_eq!(self.query_pos, 0);
        self.query.clear();
        if let Some(requeued) = result.requeue.take() {
            self.query = requeued.into_vec();
        }
        if result.consumed < input.len() {
            self.query.extend_from_slice(&input[result.consumed..]);
        }
        if let SliceEnd::NeedBulk { at, len } = result.end {
            self.start_big_bulk(at, len);
        }
        if self.query.is_empty() {
            self.query = Vec::new();
        }
    }

    fn run_slice(&mut self, input: &[u8], scratch: &mut Scratch) -> SliceResult {
        let Scratch { runner, replies, .. } = scratch;
        let is_underway = self.underway.is_some();
        let mut alone = Alone { connection: self, replies, result: SliceResult::default() };
        let span = runner.run(input, &mut [Bytes::new(0, input.len())], &mut alone);
        let result = alone.result;
        if let Some(span) = span {
            if let Some(batch) = &mut self.underway {
                if is_underway {
                    batch.add_slice(span.first, span.last);
                }
            } else if result.end != SliceEnd::InputUsedUp {
                self.underway = Some(Box::new(Underway::new(span.first, span.last - span.first)));
            }
        }
        self.note_end(&result);
        result
    }

    /// What a slice of work needs of the connection.
    #[inline]
    pub fn lane(&mut self, replies: &mut ReplyBuffers) -> Lane<'_> {
        if self.reply.capacity() == 0 {
            self.reply.put_buffer(replies.take());
        }
        Lane {
            decoder: &mut self.decoder,
            session: &mut self.session,
            reply: &mut self.reply,
            spilled: &mut self.spilled,
        }
    }

    /// What is shown as the time of the last slice when there was none: the client has sent or read something.
    fn note_time(&mut self) {
        self.unpublished_ms.get_or_insert_with(|| self.server.clock.unix_ms());
    }

    #[inline]
    fn note_end(&mut self, result: &SliceResult) {
        self.input = match result.end {
            SliceEnd::InputUsedUp | SliceEnd::NeedBulk { .. } => Input::UsedUp,
            SliceEnd::ReplyLimit | SliceEnd::TimeUp | SliceEnd::ChunkFull => Input::Pending,
            SliceEnd::Paused => {
                self.set_alarm(self.server.settings.pause_until_ms.load(Relaxed));
                Input::Paused
            }
            SliceEnd::HeldLong => match self.server.offload.set_aside(&self.session.handle) {
                true => Input::HeldLong,
                false => Input::Pending,
            },
            SliceEnd::Blocked => {
                if let Some(deadline_ms) = self.session.waiter.as_ref().and_then(|waiter| waiter.deadline_ms) {
                    self.set_alarm(deadline_ms);
                }
                Input::Blocked
            }
            SliceEnd::Close | SliceEnd::Malformed(_) => {
                self.closing = true;
                Input::UsedUp
            }
        };
        match result.end {
            SliceEnd::ReplyLimit => _ = self.session.handle.over_reply_limit.fetch_add(1, Relaxed),
            SliceEnd::HeldLong => self.stats.pipeline.held_back.add(1),
            SliceEnd::TimeUp => self.note_deferral(),
            _ => {}
        }
        self.note_underway(result);
        self.batch_commands += result.commands;
        self.unwritten_replies += result.commands;
        if self.input == Input::UsedUp && self.batch_commands > 0 {
            self.stats.pipeline.note_read(self.batch_commands);
            self.unpublished_commands += std::mem::take(&mut self.batch_commands);
        }
        self.unpublished_ms = Some(result.ended_ms);
    }

    /// Sets the alarm. Both times are cut to milliseconds: with one more it never goes off early.
    fn set_alarm(&mut self, at_unix_ms: i64) {
        let left_ms = at_unix_ms.saturating_sub(self.server.clock.unix_ms()).clamp(0, WAIT_MS_MAX) + 1;
        self.alarm = Some(Instant::now() + Duration::from_millis(left_ms as u64));
    }

    /// The connection gives way to others.
    #[cold]
    fn note_deferral(&self) {
        self.stats.pipeline.gave_way.add(1);
        self.session.handle.gave_way.fetch_add(1, Relaxed);
    }

    /// Lets others see how this connection is, which has executed so many commands since the last time.
    #[inline]
    fn publish(&mut self, now_ms: i64, commands: u32) {
        let activity = &self.session.handle.activity;
        activity.note_batch(now_ms, commands);
        activity.db.store(self.session.db, Relaxed);
        let is_idle = self.reply.capacity() == 0 && self.query.capacity() == 0 && self.input == Input::UsedUp;
        if !(is_idle && self.is_published_idle) {
            cold_path();
            self.publish_buffers();
            self.is_published_idle = is_idle;
        }
    }

    #[inline(never)]
    fn publish_buffers(&self) {
        let handle = &self.session.handle;
        let (reply_bytes, query_bytes) = (self.reply.len() as u64, self.query_len() as u64);
        handle.reply_bytes.store(reply_bytes, Relaxed);
        handle.reply_capacity_bytes.store(self.reply.capacity() as u64, Relaxed);
        handle.query_bytes.store(query_bytes, Relaxed);
        handle.reply_bytes_max.fetch_max(reply_bytes, Relaxed);
        handle.query_bytes_max.fetch_max(query_bytes, Relaxed);
        self.stats.pipeline.note_reply_bytes(reply_bytes);
        self.stats.pipeline.note_query_bytes(query_bytes);
        handle.query_free_bytes.store((self.query.capacity() - self.query.len()) as u64, Relaxed);
    }

    /// Moves what is there of a large argument, from `at` in the query buffer on, into a buffer of its own.
    fn start_big_bulk(&mut self, at: usize, len: usize) {
        let mut buf = Vec::with_capacity((self.query.len() - at).max(BIG_BULK_START).min(len + 2));
        buf.extend_from_slice(&self.query[at..]);
        self.query.truncate(at);
        self.big = Some(BigBulk { buf, len });
    }

    /// Reads, into the buffer that the moment asks for; 0 is the end of the stream.
    fn read(&mut self, scratch: &mut Scratch) -> io::Result<usize> {
        let stats = self.stats;
        let len = if self.big.is_some() {
            self.read_big()?
        } else if self.input == Input::UsedUp && self.query.len() <= CARRY_LEN_MAX && self.query_pos == 0 {
            return self.read_and_execute(scratch);
        } else if self.input == Input::UsedUp {
            self.query.drain(..std::mem::take(&mut self.query_pos));
            self.query.reserve(READ_LEN_MAX);
            let len = self.socket.read_behind(&mut self.query, READ_LEN_MAX)?;
            self.input = Input::Pending;
            len
        } else {
            self.read_later()?
        };
        stats.net_input_bytes.add(len as u64);
        stats.reads_processed.add(1);
        // Who sends is not idle, though nothing is executed yet.
        self.note_time();
        Ok(len)
    }

    /// Reads behind what the query buffer holds, in the thread's read buffer, and executes from there.
    fn read_and_execute(&mut self, scratch: &mut Scratch) -> io::Result<usize> {
        let stats = self.stats;
        let mut space = std::mem::take(&mut scratch.read);
        // A panic in the middle of a slice may have lost it.
        space.resize(READ_LEN_MAX + CARRY_LEN_MAX, 0);
        let carried = self.query.len();
        space[..carried].copy_from_slice(&self.query);
        let read = self.socket.read(&mut space[carried..]);
        if let Ok(len @ 1..) = read {
            stats.net_input_bytes.add(len as u64);
            stats.reads_processed.add(1);
            self.execute_read(&space[..carried + len], scratch);
        }
        scratch.read = space;
        read
    }

    /// Reads behind commands that wait.
    fn read_later(&mut self) -> io::Result<usize> {
        if !self.socket.is_readable() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let mut segment = match self.later.pop_back() {
            Some(segment) if segment.len() < segment.capacity() => segment,
            full => {
                self.later.extend(full);
                Vec::with_capacity(self.later_len.clamp(SEGMENT_LEN_MIN, SEGMENT_LEN_MAX))
            }
        };
        let free = segment.capacity() - segment.len();
        let read = self.socket.read_behind(&mut segment, free);
        if !segment.is_empty() {
            self.later.push_back(segment);
        }
        self.later_len += *read.as_ref().unwrap_or(&0);
        read
    }

    fn read_big(&mut self) -> io::Result<usize> {
        let Some(big) = &mut self.big else { return Ok(0) };
        if !self.socket.is_readable() {
            return Err(ErrorKind::WouldBlock.into());
        }
        big.make_room()?;
        let room = big.buf.capacity().min(big.total()) - big.buf.len();
        let len = self.socket.read_behind(&mut big.buf, room)?;
        if big.buf.len() == big.total()
            && let Some(mut big) = self.big.take()
        {
            big.buf.truncate(big.len);
            self.decoder.supply_owned(big.buf);
            self.spilled = true;
            self.input = Input::Pending;
        }
        Ok(len)
    }
}

/// A connection that is executed by itself.
struct Alone<'a> {
    connection: &'a mut Connection,
    replies: &'a mut ReplyBuffers,
    result: SliceResult,
}

impl Lanes for Alone<'_> {
    fn decoding(&mut self, _: usize) -> (&mut Decoder, &mut Session) {
        self.connection.decoding()
    }

    fn lane(&mut self, _: usize) -> Lane<'_> {
        self.connection.lane(self.replies)
    }

    fn note_slow(&mut self, _: usize, times: BatchTimes) {
        self.connection.note_slow(times);
    }

    fn settle(&mut self, _: usize, _: &Bytes, result: &mut SliceResult) {
        self.result = std::mem::take(result);
    }

    fn give_up(&mut self, _: usize) {
        self.connection.kill();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.session.end(self.server);
        if let Some(big) = self.big.take().filter(|big| big.buf.capacity() >= huge::BYTES_MIN) {
            self.server.lazyfree.free_later(Box::new(big.buf), 0);
        }
        self.server.clients.remove(self.session.handle.id);
        self.server.host.connected.fetch_sub(1, Relaxed);
    }
}

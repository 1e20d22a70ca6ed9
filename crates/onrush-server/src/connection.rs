//! One connection: a byte stream, its buffers, and the turn-taking between reading, executing and writing.
//!
//! The task never waits for one direction only. While replies wait for a client that does not read them, its
//! commands are read on but not executed; a slice of execution ends after a bounded time; a write that the kernel
//! does not take yet keeps nothing else from going on.

use std::collections::VecDeque;
use std::future::Future;
use std::io::IoSlice;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::BufMut;
use onrush_resp::{Decoder, Reply};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::batch::{READ_LEN_MAX, Slice, SliceEnd, SliceResult};
use crate::client::ClientHandle;
use crate::scratch::{SCRATCH, Scratch};
use crate::server::{Server, unix_ms};
use crate::session::Session;

/// An unfinished command of up to this many bytes is moved to the thread's read buffer for the next read; a longer
/// one stays in the connection's query buffer.
pub(crate) const CARRY_LEN_MAX: usize = 16 * 1024;

/// Commands that have to wait are kept in segments of this many bytes, so that nothing is moved as they pile up.
const SEGMENT_LEN: usize = 1024 * 1024;

/// Reads of one turn; then others get theirs.
const TURN_READS_MAX: usize = 8;

/// Unread replies a client may cause before it has authenticated, in bytes (as in Redis).
const UNAUTHENTICATED_REPLY_BYTES_MAX: usize = 1024;

/// The longest wait that is timed; a longer one has no end.
const WAIT_MS_MAX: i64 = 365 * 86_400_000;

/// Slices of one vectored write.
const WRITE_SLICES_MAX: usize = 64;

/// An argument that is read straight into the buffer that will hold the value.
struct BigBulk {
    buf: Vec<u8>,
    len: usize,
}

/// How long a connection has been at work since others had their turn.
#[derive(Default)]
struct Turn {
    reads: usize,
    started: Option<Instant>,
}

impl Turn {
    /// Asked before each read. Most turns have one read and one that finds nothing: the clock is not read for those.
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
                    || started.elapsed() >= Duration::from_micros(server.hot.slice_us.load(Relaxed))
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
    /// There may be, behind one that waits for keys.
    Blocked,
}

/// A client's connection; as a future it ends when the connection does.
pub struct Connection<S> {
    stream: S,
    server: &'static Server,
    thread: usize,
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
    woken: bool,
    /// Time of the last slice in Unix milliseconds, until it is published.
    unpublished_ms: Option<i64>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// A connection over `stream`, which lives on worker `thread` from now on. It is registered already.
    pub fn new(stream: S, server: &'static Server, thread: usize, handle: Arc<ClientHandle>) -> Self {
        let authenticated = !server.hot.password_set.load(Relaxed);
        Self {
            stream,
            server,
            thread,
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
            woken: false,
            unpublished_ms: None,
            pause: None,
        }
    }

    fn drive(&mut self, cx: &mut Context<'_>, scratch: &mut Scratch) -> Poll<()> {
        if !self.woken {
            self.session.handle.set_waker(cx.waker());
            self.woken = true;
        }
        let mut turn = Turn::default();
        loop {
            if self.session.handle.is_killed() {
                return Poll::Ready(());
            }
            let mut time_up = false;
            if self.may_execute(cx) {
                time_up = self.execute_query(scratch);
            }
            if !self.reply.is_empty() && self.write(cx).is_err() {
                return Poll::Ready(());
            }
            if !self.session.authenticated && self.reply.len() > UNAUTHENTICATED_REPLY_BYTES_MAX {
                tracing::warn!("Closing client {}: too many replies before it authenticated", self.session.handle.addr);
                return Poll::Ready(());
            }
            if let Some(now_ms) = self.unpublished_ms.take() {
                self.publish(now_ms);
            }
            if self.reply.is_empty() {
                scratch.give_reply_buffer(self.reply.take_buffer());
                if self.closing || (self.eof && self.input == Input::UsedUp) {
                    return Pin::new(&mut self.stream).poll_shutdown(cx).map(drop);
                }
            }
            if self.closing {
                return Poll::Pending;
            }
            if time_up || turn.is_over(self.server) {
                // Wakes this task after the others that are ready and after a look at the sockets.
                let _ = pin!(tokio::task::yield_now()).poll(cx);
                return Poll::Pending;
            }
            // Of a pause this also sets the alarm.
            if self.input != Input::UsedUp && self.may_execute(cx) {
                continue;
            }
            if self.eof {
                if self.input == Input::Blocked {
                    return Poll::Ready(());
                }
                return Poll::Pending;
            }
            match ready!(self.read(cx, scratch)) {
                Ok(0) => self.eof = true,
                Ok(_) => {}
                Err(_) => return Poll::Ready(()),
            }
            if self.query_len() > self.server.hot.query_limit_bytes.load(Relaxed) {
                self.over_query_limit();
                return Poll::Ready(());
            }
        }
    }

    fn reply_limit(&self) -> usize {
        self.server.hot.reply_limit_bytes.load(Relaxed)
    }

    /// Bytes of commands that were read and not executed.
    fn query_len(&self) -> usize {
        let big = self.big.as_ref().map_or(0, |big| big.buf.len());
        self.query.len() - self.query_pos + self.later_len + big + self.decoder.held_bytes()
    }

    fn may_execute(&mut self, cx: &mut Context<'_>) -> bool {
        if self.input == Input::Blocked && !self.is_unblocked(cx) {
            return false;
        }
        if self.input == Input::Paused {
            if let Some(pause) = &mut self.pause
                && pause.as_mut().poll(cx).is_pending()
                && self.server.pause(unix_ms()) != crate::server::Pause::None
            {
                return false;
            }
            self.pause = None;
            self.input = Input::Pending;
        }
        self.input == Input::Pending && !self.closing && self.reply.len() < self.reply_limit()
    }

    /// Whether the command that waits for keys has got its reply, which is then in the reply buffer.
    #[cold]
    fn is_unblocked(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(waiter) = &self.session.waiter else { return true };
        if let Some(alarm) = &mut self.pause
            && alarm.as_mut().poll(cx).is_ready()
        {
            self.pause = None;
            waiter.time_out(&self.server.waiters);
        }
        let Some(reply) = waiter.take_reply() else { return false };
        if !std::mem::take(&mut self.session.waits_silently) {
            if self.reply.capacity() == 0 {
                self.reply.put_buffer(Vec::with_capacity(reply.len()));
            }
            self.reply.raw(&reply);
        }
        self.session.waiter = None;
        self.pause = None;
        self.input = Input::Pending;
        true
    }

    #[cold]
    fn over_query_limit(&self) {
        let handle = &self.session.handle;
        self.server.stats.threads[self.thread].query_buffer_limit_disconnections.add(1);
        tracing::warn!(
            "Closing client id={} addr={}: its query buffer of {} bytes passed client-query-buffer-limit \
             ({} bytes of its replies are unread)",
            handle.id,
            handle.addr,
            self.query_len(),
            self.reply.len()
        );
    }

    /// Executes from the connection's own query buffer; says whether the slice's time ran out.
    fn execute_query(&mut self, scratch: &mut Scratch) -> bool {
        let query = std::mem::take(&mut self.query);
        let result = self.run_slice(&query[self.query_pos..], scratch);
        self.query = query;
        self.query_pos += result.consumed;
        if let Some(mut requeued) = result.requeue {
            requeued.extend_from_slice(&self.query[self.query_pos..]);
            self.query = requeued;
            self.query_pos = 0;
        }
        if self.later_len == 0 {
            // A segment that was made to read into, and nothing came.
            self.later.clear();
        }
        if self.input == Input::UsedUp
            && !self.closing
            && let Some(segment) = self.later.pop_front()
        {
            self.append_segment(segment);
        } else if let SliceEnd::NeedBulk { at, len } = result.end {
            self.start_big_bulk(self.query_pos + at, len);
        }
        if self.query_pos == self.query.len() {
            self.query = Vec::new();
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
        debug_assert_eq!(self.query_pos, 0);
        self.query.clear();
        let result = self.run_slice(input, scratch);
        if let Some(requeued) = result.requeue {
            self.query = requeued;
        }
        self.query.extend_from_slice(&input[result.consumed..]);
        if let SliceEnd::NeedBulk { at, len } = result.end {
            self.start_big_bulk(at, len);
        }
        if self.query.is_empty() {
            self.query = Vec::new();
        }
    }

    fn run_slice(&mut self, input: &[u8], scratch: &mut Scratch) -> SliceResult {
        if self.reply.capacity() == 0 {
            self.reply.put_buffer(scratch.take_reply_buffer());
        }
        let slice = Slice {
            server: self.server,
            thread: self.thread,
            decoder: &mut self.decoder,
            session: &mut self.session,
            reply: &mut self.reply,
            spilled: &mut self.spilled,
        };
        let result = slice.run(input, scratch);
        self.input = match result.end {
            SliceEnd::InputUsedUp | SliceEnd::NeedBulk { .. } => Input::UsedUp,
            SliceEnd::ReplyLimit | SliceEnd::TimeUp => Input::Pending,
            SliceEnd::Paused => {
                let until_ms = self.server.hot.pause_until_ms.load(Relaxed);
                let left = Duration::from_millis(until_ms.saturating_sub(unix_ms()).clamp(0, 86_400_000) as u64);
                self.pause = Some(Box::pin(tokio::time::sleep(left)));
                Input::Paused
            }
            SliceEnd::Blocked => {
                let deadline_ms = self.session.waiter.as_ref().and_then(|waiter| waiter.deadline_ms);
                self.pause = deadline_ms.map(|at_ms| {
                    let left_ms = at_ms.saturating_sub(unix_ms()).clamp(0, WAIT_MS_MAX);
                    Box::pin(tokio::time::sleep(Duration::from_millis(left_ms as u64)))
                });
                Input::Blocked
            }
            SliceEnd::Close => {
                self.closing = true;
                Input::UsedUp
            }
        };
        self.unpublished_ms = Some(result.ended_ms);
        result
    }

    /// Lets others see how this connection is.
    fn publish(&self, now_ms: i64) {
        let handle = &self.session.handle;
        handle.last_interaction_ms.store(now_ms, Relaxed);
        handle.reply_bytes.store(self.reply.len() as u64, Relaxed);
        handle.reply_capacity_bytes.store(self.reply.capacity() as u64, Relaxed);
        handle.query_bytes.store(self.query_len() as u64, Relaxed);
        handle.query_free_bytes.store((self.query.capacity() - self.query.len()) as u64, Relaxed);
        handle.db.store(self.session.db, Relaxed);
    }

    /// Moves what is there of a large argument, from `at` in the query buffer on, into a buffer of its own.
    fn start_big_bulk(&mut self, at: usize, len: usize) {
        let mut buf = Vec::with_capacity(len + 2);
        buf.extend_from_slice(&self.query[at..]);
        self.query.truncate(at);
        self.big = Some(BigBulk { buf, len });
    }

    fn read(&mut self, cx: &mut Context<'_>, scratch: &mut Scratch) -> Poll<std::io::Result<usize>> {
        let stats = &self.server.stats.threads[self.thread];
        let len = if self.big.is_some() {
            ready!(self.read_big(cx))?
        } else if self.input == Input::UsedUp && self.query.len() <= CARRY_LEN_MAX && self.query_pos == 0 {
            return self.read_and_execute(cx, scratch);
        } else if self.input == Input::UsedUp {
            self.query.drain(..std::mem::take(&mut self.query_pos));
            self.query.reserve(READ_LEN_MAX);
            let read = pin!(self.stream.read_buf(&mut self.query));
            let len = ready!(read.poll(cx))?;
            self.input = Input::Pending;
            len
        } else {
            ready!(self.read_later(cx))?
        };
        stats.net_input_bytes.add(len as u64);
        stats.reads_processed.add(1);
        Poll::Ready(Ok(len))
    }

    /// Reads behind what the query buffer holds, in the thread's read buffer, and executes from there.
    fn read_and_execute(&mut self, cx: &mut Context<'_>, scratch: &mut Scratch) -> Poll<std::io::Result<usize>> {
        let stats = &self.server.stats.threads[self.thread];
        let mut space = std::mem::take(&mut scratch.read);
        // A panic in the middle of a slice may have lost it.
        space.resize(READ_LEN_MAX + CARRY_LEN_MAX, 0);
        let carried = self.query.len();
        space[..carried].copy_from_slice(&self.query);
        let mut free = ReadBuf::new(&mut space[carried..]);
        let read = Pin::new(&mut self.stream).poll_read(cx, &mut free).map_ok(|()| free.filled().len());
        if let Poll::Ready(Ok(len @ 1..)) = read {
            stats.net_input_bytes.add(len as u64);
            stats.reads_processed.add(1);
            self.execute_read(&space[..carried + len], scratch);
        }
        scratch.read = space;
        read
    }

    /// Reads behind commands that wait.
    fn read_later(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        if self.later.back().is_none_or(|segment| segment.len() == segment.capacity()) {
            self.later.push_back(Vec::with_capacity(SEGMENT_LEN));
        }
        let Some(segment) = self.later.back_mut() else { return Poll::Ready(Ok(0)) };
        let free = segment.capacity() - segment.len();
        let mut space = segment.limit(free);
        let read = pin!(self.stream.read_buf(&mut space));
        let len = ready!(read.poll(cx))?;
        self.later_len += len;
        Poll::Ready(Ok(len))
    }

    fn read_big(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        let Some(big) = &mut self.big else { return Poll::Ready(Ok(0)) };
        let missing = big.len + 2 - big.buf.len();
        let mut space = (&mut big.buf).limit(missing);
        let read = pin!(self.stream.read_buf(&mut space));
        let len = ready!(read.poll(cx))?;
        if len == missing
            && let Some(mut big) = self.big.take()
        {
            big.buf.truncate(big.len);
            self.decoder.supply_owned(big.buf);
            self.spilled = true;
            self.input = Input::Pending;
        }
        Poll::Ready(Ok(len))
    }

    /// Writes what the kernel takes.
    fn write(&mut self, cx: &mut Context<'_>) -> std::io::Result<()> {
        let stats = &self.server.stats.threads[self.thread];
        while !self.reply.is_empty() {
            let stream = Pin::new(&mut self.stream);
            let written = match self.reply.as_single_slice() {
                Some(bytes) => stream.poll_write(cx, bytes),
                None => {
                    let mut slices = [IoSlice::new(&[]); WRITE_SLICES_MAX];
                    let count = self.reply.slices(&mut slices);
                    stream.poll_write_vectored(cx, &slices[..count])
                }
            };
            match written {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(0)) => return Err(std::io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(len)) => {
                    stats.net_output_bytes.add(len as u64);
                    stats.writes_processed.add(1);
                    self.reply.advance(len);
                }
                Poll::Ready(Err(error)) => return Err(error),
            }
        }
        Ok(())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Future for Connection<S> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        SCRATCH.with_borrow_mut(|scratch| this.drive(cx, scratch))
    }
}

impl<S> Drop for Connection<S> {
    fn drop(&mut self) {
        if let Some(waiter) = self.session.waiter.take() {
            waiter.forget(&self.server.waiters);
        }
        self.server.clients.remove(self.session.handle.id);
        self.server.connected.fetch_sub(1, Relaxed);
    }
}

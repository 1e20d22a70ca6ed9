//! Endless pipelines: commands in, replies out, in order and in constant memory.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_core::Stream;
use parking_lot::Mutex;

use crate::connection::Connection;
use crate::error::{ErrorKind, Fate, RedisError, RedisResult};
use crate::values::cmd::Cmd;

use crate::connection::queue::{Refused, Shared};
use crate::connection::sink::{Again, Part, Sink};
use crate::values::pipeline::Pipeline;
use crate::values::value::Value;

/// Most commands passed to the connection at once. They go out together anyway; this only bounds the bookkeeping.
const PART_COMMANDS_MAX: usize = 1_024;
const PART_BYTES_MAX: usize = 64 << 10;

/// The size that a reply is expected to have before the first has come.
const FIRST_REPLY_BYTES: usize = 256 << 10;
/// Commands sent before the first reply has come; and how many more may be under way for each reply that has been
/// measured. So a stream of small replies soon fills its window, and one of large replies is not surprised by them.
const TRUSTED_COMMANDS: u64 = 16;
/// The mean size of replies is that of about so many: it follows growth at once, and shrinks slowly.
const GROWING_OVER: usize = 16;
const SHRINKING_OVER: usize = 256;

/// Parts passed on before other tasks have a turn: the driver can write while the next parts are made.
const PARTS_PER_TURN: usize = 2;

/// How much of a stream may be under way at a time.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct WindowSize {
    /// Bytes of commands that are sent, or about to be, and not answered.
    pub bytes: usize,
    /// Commands that are not answered, and replies that are not taken.
    pub commands: usize,
    /// Memory of replies that are not taken, and of those that commands under way will bring, in bytes. What these will
    /// bring is known only by the mean of what has come; one command is always sent.
    pub reply_bytes: usize,
}

impl WindowSize {
    /// 1 MB and 16,384 commands, 4 MB of replies.
    pub fn new() -> WindowSize {
        WindowSize::default()
    }

    /// Bytes of commands that are sent, or about to be, and not answered.
    pub fn set_bytes(mut self, bytes: usize) -> WindowSize {
        self.bytes = bytes;
        self
    }

    /// Commands that are not answered, and replies that are not taken.
    pub fn set_commands(mut self, commands: usize) -> WindowSize {
        self.commands = commands;
        self
    }

    /// Memory of replies that are not taken, or still to come, in bytes.
    pub fn set_reply_bytes(mut self, bytes: usize) -> WindowSize {
        self.reply_bytes = bytes;
        self
    }

    /// A window that keeps a line with this round trip busy: 400 MB of commands, as much of replies, and ten million
    /// commands for each second of it, at least the default, at most 64 MB and two million commands.
    pub fn for_round_trip(round_trip: Duration) -> WindowSize {
        let near = WindowSize::default();
        // Bytes and commands for each microsecond.
        let micros = usize::try_from(round_trip.as_micros()).unwrap_or(usize::MAX);
        WindowSize {
            bytes: micros.saturating_mul(400).clamp(near.bytes, 64 << 20),
            commands: micros.saturating_mul(10).clamp(near.commands, 2 << 20),
            reply_bytes: micros.saturating_mul(400).clamp(near.reply_bytes, 64 << 20),
        }
    }
}

impl Default for WindowSize {
    /// 1 MB and 16,384 commands, 4 MB of replies: on a local network a larger window is not faster.
    fn default() -> WindowSize {
        WindowSize { bytes: 1 << 20, commands: 16 << 10, reply_bytes: 4 << 20 }
    }
}

/// State shared by a stream and its parts under way.
#[derive(Debug)]
pub(crate) struct Window {
    /// Whether replies are kept to be taken, or only counted.
    keeps: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Of commands in parts that are under way.
    bytes: usize,
    /// Commands that are not answered.
    commands: usize,
    replies: VecDeque<RedisResult<Value>>,
    /// The memory that `replies` take.
    reply_bytes: usize,
    sizes: ReplySizes,
    summary: Summary,
    waker: Option<Waker>,
}

/// What is known of the sizes of a stream's replies.
#[derive(Debug)]
struct ReplySizes {
    measured: u64,
    /// Never 0.
    mean_bytes: usize,
}

impl Default for ReplySizes {
    fn default() -> ReplySizes {
        ReplySizes { measured: 0, mean_bytes: FIRST_REPLY_BYTES }
    }
}

impl ReplySizes {
    fn add(&mut self, replies: usize, bytes: usize) {
        if replies == 0 {
            return;
        }
        let mean = bytes / replies;
        let over = if mean > self.mean_bytes { GROWING_OVER } else { SHRINKING_OVER };
        self.mean_bytes = if self.measured == 0 || replies >= over {
            mean
        } else {
            // Both are far below the limits of the type.
            (self.mean_bytes * (over - replies) + mean * replies) / over
        }
        .max(1);
        self.measured += replies as u64;
    }

    /// How many commands may be under way.
    fn trusted(&self) -> usize {
        usize::try_from(self.measured.saturating_add(1).saturating_mul(TRUSTED_COMMANDS)).unwrap_or(usize::MAX)
    }
}

/// The memory that a reply takes, in bytes.
#[inline]
pub(crate) fn reply_len(reply: &RedisResult<Value>) -> usize {
    const ERROR_BYTES: usize = 128;
    match reply {
        Ok(value) => value.memory_len(),
        Err(_) => ERROR_BYTES,
    }
}

/// Answers of a part that are handed over together.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// How many commands have got theirs.
    pub answered: usize,
    /// How many of these are replies of the server, and the memory that they take.
    pub measured: usize,
    pub bytes: usize,
}

/// The result of a stream whose replies are only counted. Commands are named by their index in the stream, counted from
/// 0.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// Commands that were answered, with errors too.
    pub replies: u64,
    /// Commands that failed.
    pub errors: u64,
    /// The first of them and its error.
    pub first_error: Option<(u64, RedisError)>,
    /// All commands that were sent and may have been executed or not ([`Fate::Unknown`]), in ascending order: a range
    /// or a few for each disconnect. At most [`RANGES_MAX`](Self::RANGES_MAX); beyond that, the last range also holds
    /// what lies between.
    pub unknown: Vec<Range<u64>>,
    /// All commands that were given up and not sent ([`Fate::NotSent`]), in the same way.
    pub not_sent: Vec<Range<u64>>,
}

impl Summary {
    /// Most ranges of [`unknown`](Self::unknown) and of [`not_sent`](Self::not_sent).
    pub const RANGES_MAX: usize = 1_024;

    fn add_error(&mut self, index: u64, error: RedisError) {
        self.errors += 1;
        match error.fate() {
            Fate::Unknown => add_to_ranges(&mut self.unknown, index),
            Fate::NotSent => add_to_ranges(&mut self.not_sent, index),
            Fate::Replied => {}
        }
        if self.first_error.as_ref().is_none_or(|(first, _)| index < *first) {
            self.first_error = Some((index, error));
        }
    }

    /// The number of replies, if none was an error.
    ///
    /// # Errors
    /// The first error.
    pub fn into_result(self) -> RedisResult<u64> {
        match self.first_error {
            Some((_, error)) => Err(error),
            None => Ok(self.replies),
        }
    }
}

/// Adds a number to ranges that are in ascending order and do not touch. O(log n) for a number behind or beside the last.
fn add_to_ranges(ranges: &mut Vec<Range<u64>>, number: u64) {
    let at = ranges.partition_point(|range| range.end < number);
    match ranges.get_mut(at) {
        Some(range) if range.start <= number + 1 => {
            *range = range.start.min(number)..range.end.max(number + 1);
        }
        _ => ranges.insert(at, number..number + 1),
    }
    let end = ranges[at].end;
    if let Some(next) = ranges.get(at + 1).filter(|next| next.start <= end).cloned() {
        ranges[at].end = next.end;
        ranges.remove(at + 1);
    }
    if ranges.len() > Summary::RANGES_MAX {
        if let (Some(last), Some(before)) = (ranges.pop(), ranges.last_mut()) {
            before.end = last.end;
        }
    }
}

impl Window {
    fn new(keeps: bool) -> Window {
        Window { keeps, state: Mutex::default() }
    }

    /// Takes the reply to command `index` of the stream; replies to keep gather in `replies` until they are published.
    #[inline]
    pub(crate) fn add(&self, reply: RedisResult<Value>, index: u64, replies: &mut Vec<RedisResult<Value>>) {
        if self.keeps {
            replies.push(reply);
        } else if let Err(error) = reply {
            self.state.lock().summary.add_error(index, error);
        }
    }

    /// Hands over the replies that have gathered, if they are kept, and what they tell of the window.
    pub(crate) fn publish(&self, replies: &mut Vec<RedisResult<Value>>, news: News) {
        if news.answered == 0 {
            return;
        }
        let mut state = self.state.lock();
        state.commands -= news.answered;
        state.summary.replies += news.answered as u64;
        state.sizes.add(news.measured, news.bytes);
        if self.keeps {
            state.reply_bytes += news.bytes;
            state.replies.extend(replies.drain(..));
            state.wake();
        }
    }

    /// Notes that so many bytes of commands are no longer under way.
    pub(crate) fn finish_part(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.bytes -= bytes;
        state.wake();
    }
}

/// How much more may be sent.
struct Room {
    bytes: usize,
    commands: usize,
}

impl State {
    /// What the window has room for; `None` until half of it is free, so that parts do not become tiny.
    fn room(&self, size: WindowSize) -> Option<Room> {
        let (under_way, trusted) = (self.commands + self.replies.len(), self.sizes.trusted());
        let expected_bytes = self.reply_bytes.saturating_add(self.commands.saturating_mul(self.sizes.mean_bytes));
        let is_full = under_way > size.commands / 2
            || self.bytes > size.bytes / 2
            || self.commands > trusted / 2
            || expected_bytes > size.reply_bytes / 2;
        if is_full {
            return None;
        }
        let expected = (size.reply_bytes - expected_bytes) / self.sizes.mean_bytes;
        let commands = (size.commands - under_way).min(trusted - self.commands).min(expected.max(1));
        Some(Room { bytes: size.bytes - self.bytes, commands })
    }

    fn take_reply(&mut self) -> Option<RedisResult<Value>> {
        let reply = self.replies.pop_front()?;
        // Counted as it was when it came; the sum begins anew whenever all are taken.
        let left = self.reply_bytes.saturating_sub(reply_len(&reply));
        self.reply_bytes = if self.replies.is_empty() { 0 } else { left };
        Some(reply)
    }

    /// Registers the task to be woken when replies come or parts are done. Must be called under the same lock as the
    /// check that found nothing to do: otherwise events in between would be missed.
    fn sleep(&mut self, cx: &Context<'_>) {
        if !self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            self.waker = Some(cx.waker().clone());
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Where the commands of a stream come from.
trait Source {
    /// Adds the next command to the pipeline. `false`: there is none.
    fn poll_next(&mut self, cx: &mut Context<'_>, out: &mut Pipeline) -> Poll<bool>;
}

struct FromIter<I>(I);

impl<I: Iterator<Item = C>, C: AsRef<Cmd>> Source for FromIter<I> {
    fn poll_next(&mut self, _: &mut Context<'_>, out: &mut Pipeline) -> Poll<bool> {
        let next = self.0.next();
        if let Some(command) = &next {
            out.add_command(command.as_ref());
        }
        Poll::Ready(next.is_some())
    }
}

struct FromFn<F>(F);

impl<F: FnMut(&mut Pipeline) -> bool> Source for FromFn<F> {
    #[inline]
    fn poll_next(&mut self, _: &mut Context<'_>, out: &mut Pipeline) -> Poll<bool> {
        Poll::Ready((self.0)(out))
    }
}

struct FromStream<S>(Pin<Box<S>>);

impl<S: Stream<Item = C>, C: AsRef<Cmd>> Source for FromStream<S> {
    fn poll_next(&mut self, cx: &mut Context<'_>, out: &mut Pipeline) -> Poll<bool> {
        let next = std::task::ready!(self.0.as_mut().poll_next(cx));
        if let Some(command) = &next {
            out.add_command(command.as_ref());
        }
        Poll::Ready(next.is_some())
    }
}

/// A pipeline of any length, from [`Connection::stream`] and its relatives: a [`Stream`] of replies in the order of the
/// commands.
///
/// Commands are read, sent and answered at the same time, so there is no batch size to choose; a [`WindowSize`] bounds
/// the commands under way, and the memory of their replies here and in the server. The size of replies to come is
/// guessed from those that have come: where small replies are followed by large ones, more may come once. After a
/// disconnect, commands that were not sent go over the next connection, and so do those that are marked as
/// [`idempotent`](Cmd::idempotent), unless others behind them may have been executed; the rest fail. Nothing happens unless it is polled. After a drop no more commands are sent; those already
/// passed to the connection are executed, and their replies dropped.
pub struct Replies<'a> {
    shared: Arc<Shared>,
    /// Keeps the connection open, and shows a lease that it is still in use.
    _connection: Option<Connection>,
    source: Option<Box<dyn Source + Send + 'a>>,
    size: WindowSize,
    /// How often a command is sent again, if it may be.
    retries_max: u32,
    window: Arc<Window>,
    /// Commands gathered for the next part.
    pending: Pipeline,
    /// The index in the stream of the first of them.
    index: u64,
    /// Waits until the connection's queue, which is shared, has room.
    room: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// The error that ends the stream early.
    failed: Option<RedisError>,
}

impl fmt::Debug for Replies<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replies").field("size", &self.size).field("index", &self.index).finish_non_exhaustive()
    }
}

impl Connection {
    /// Streams the commands of an iterator.
    ///
    /// ```no_run
    /// # async fn example() -> onrush::RedisResult<()> {
    /// let con = onrush::Client::open("redis://127.0.0.1/")?.connect().await?;
    /// let commands = (0..1_000_000).map(|n| onrush::cmd("SET").arg(format!("key:{n}")).arg(n).clone());
    /// let summary = con.stream(commands).count().await;
    /// assert_eq!(summary.into_result()?, 1_000_000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream<'a, C: AsRef<Cmd>>(&self, commands: impl IntoIterator<Item = C, IntoIter: Send + 'a>) -> Replies<'a> {
        Replies::new(self, Box::new(FromIter(commands.into_iter())))
    }

    /// Streams the commands of a function: it adds one command to the pipeline it gets and returns `true`, or `false`
    /// at the end. No command needs memory of its own.
    ///
    /// ```no_run
    /// # async fn example() -> onrush::RedisResult<()> {
    /// let con = onrush::Client::open("redis://127.0.0.1/")?.connect().await?;
    /// let mut left = 10_000_000;
    /// let summary = con
    ///     .stream_fn(move |out| {
    ///         left -= 1;
    ///         out.cmd("INCR").arg("counter");
    ///         left > 0
    ///     })
    ///     .count()
    ///     .await;
    /// # let _ = summary;
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream_fn<'a>(&self, write_next: impl FnMut(&mut Pipeline) -> bool + Send + 'a) -> Replies<'a> {
        Replies::new(self, Box::new(FromFn(write_next)))
    }

    /// Streams the commands of a [`Stream`]. Commands that have come are sent as soon as the next one has to be waited
    /// for.
    pub fn stream_from<'a, C: AsRef<Cmd>>(&self, commands: impl Stream<Item = C> + Send + 'a) -> Replies<'a> {
        Replies::new(self, Box::new(FromStream(Box::pin(commands))))
    }
}

impl<'a> Replies<'a> {
    fn new(connection: &Connection, source: Box<dyn Source + Send + 'a>) -> Replies<'a> {
        Replies {
            shared: connection.inner.shared.clone(),
            _connection: Some(connection.clone()),
            source: Some(source),
            size: WindowSize::for_round_trip(connection.inner.shared.round_trip()),
            retries_max: connection.inner.connector.config.retries_max,
            window: Arc::new(Window::new(true)),
            pending: Pipeline::new(),
            index: 0,
            room: None,
            failed: None,
        }
    }

    /// Sets how much may be under way. The default is [`WindowSize::for_round_trip`] with the round trip measured when
    /// the connection was made.
    pub fn window(mut self, size: WindowSize) -> Replies<'a> {
        self.size = WindowSize {
            bytes: size.bytes.max(1),
            commands: size.commands.max(1),
            reply_bytes: size.reply_bytes.max(1),
        };
        self
    }

    /// The next reply, or `None` at the end.
    pub async fn next(&mut self) -> Option<RedisResult<Value>> {
        std::future::poll_fn(|cx| self.poll_reply(cx)).await
    }

    /// Sends everything and counts the replies without keeping them.
    pub async fn count(mut self) -> Summary {
        self.window = Arc::new(Window::new(false));
        std::future::poll_fn(|cx| self.poll_reply(cx).map(drop)).await;
        let mut summary = self.window.state.lock().summary.clone();
        if let Some(error) = self.failed {
            summary.add_error(self.index, error);
        }
        summary
    }

    /// Sends everything and drops the replies.
    ///
    /// # Errors
    /// The first error, after everything was sent.
    pub async fn drain(self) -> RedisResult<()> {
        self.count().await.into_result().map(drop)
    }

    /// Sends everything and folds the replies into one value.
    pub async fn fold<T>(mut self, mut value: T, mut add: impl FnMut(T, RedisResult<Value>) -> T) -> T {
        while let Some(reply) = self.next().await {
            value = add(value, reply);
        }
        value
    }

    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<RedisResult<Value>>> {
        let mut parts = 0;
        loop {
            let has_sent = self.poll_send(cx);
            let mut state = self.window.state.lock();
            if let Some(reply) = state.take_reply() {
                return Poll::Ready(Some(reply));
            }
            if self.source.is_none() && self.pending.is_empty() && state.commands == 0 {
                drop(state);
                let failed = if self.window.keeps { self.failed.take() } else { None };
                return Poll::Ready(failed.map(Err));
            }
            if !has_sent {
                state.sleep(cx);
                return Poll::Pending;
            }
            parts += 1;
            if parts == PARTS_PER_TURN {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }

    /// Passes one part on if there is something to send and room for it; returns whether it did.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(room) = &mut self.room {
            if room.as_mut().poll(cx).is_pending() {
                return false;
            }
            self.room = None;
        }
        if !self.fill(cx) || self.pending.is_empty() {
            return false;
        }
        match self.hand_over() {
            Ok(()) => true,
            Err(Refused::Full) => {
                let (shared, len) = (self.shared.clone(), self.pending.bytes_len());
                self.room = Some(Box::pin(async move { shared.room(len).await }));
                // Polled once more, to register this task for the room.
                true
            }
            Err(Refused::Never(error)) => {
                self.fail(error);
                true
            }
        }
    }

    /// Gathers commands for a part. `false`: the window is full, and the task is woken when that changes.
    fn fill(&mut self, cx: &mut Context<'_>) -> bool {
        let room = {
            let mut state = self.window.state.lock();
            let Some(room) = state.room(self.size) else {
                state.sleep(cx);
                return false;
            };
            room
        };
        let (bytes, commands) = (room.bytes.min(PART_BYTES_MAX), room.commands.min(PART_COMMANDS_MAX));
        while self.pending.len() < commands && self.pending.bytes_len() < bytes {
            let Some(source) = &mut self.source else { break };
            match source.poll_next(cx, &mut self.pending) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => self.source = None,
                Poll::Pending => break,
            }
        }
        true
    }

    fn hand_over(&mut self) -> Result<(), Refused> {
        let packed = self.pending.packed();
        if packed.class().is_own_business() {
            let text = "a stream takes no commands that block, or depend on or change the state of the connection";
            self.fail(RedisError::new(ErrorKind::Client, text));
            return Ok(());
        }
        let (len, count) = (packed.bytes().len(), packed.count());
        {
            let mut state = self.window.state.lock();
            state.bytes += len;
            state.commands += count;
        }
        let part = Part {
            ends: (1..=count).map(|next| self.pending.start_of(next) as u32).collect(),
            first: self.index,
            answered: 0,
            news: News::default(),
            doubtful: 0,
            again: self.pending.has_idempotent().then(|| {
                let idempotent = (0..count).map(|index| self.pending.is_idempotent(index)).collect();
                Box::new(Again { bytes: packed.bytes().to_vec(), idempotent, retries_left: self.retries_max })
            }),
            replies: Vec::with_capacity(if self.window.keeps { count } else { 0 }),
            window: self.window.clone(),
        };
        let pushed = self.shared.push(packed, false, self.pending.scripts(), Sink::Part(Box::new(part)));
        if pushed.is_err() {
            let mut state = self.window.state.lock();
            state.bytes -= len;
            state.commands -= count;
        } else {
            self.index += count as u64;
            self.pending.clear();
        }
        pushed
    }

    fn fail(&mut self, error: RedisError) {
        self.failed = Some(error);
        self.source = None;
        self.pending.clear();
    }
}

impl Stream for Replies<'_> {
    type Item = RedisResult<Value>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<RedisResult<Value>>> {
        self.get_mut().poll_reply(cx)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::connection::queue::Taken;
    use crate::link::push::Outlet;

    /// A driver that answers at once and never sleeps: replies come at every step of the stream's own.
    fn answer_all(shared: &Shared, count: usize) {
        let cx = Context::from_waker(Waker::noop());
        let (mut bytes, mut entries, mut answered) = (Vec::new(), VecDeque::new(), 0);
        while answered < count {
            bytes.clear();
            if shared.take(&mut bytes, &mut entries, &cx) == Taken::Some {
                answered += entries.drain(..).map(|mut entry| entry.reply(Value::Okay)).count();
            } else {
                // Otherwise, with more threads than cores, the stream's thread would wait for the end of this one's
                // time slice.
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn no_reply_is_missed_by_a_stream_about_to_sleep() {
        const COMMANDS: usize = 50_000;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        for keeps in [true, false] {
            let shared = Arc::new(Shared::new(1 << 20, Outlet::broadcast(), false));
            let replies = Replies {
                shared: shared.clone(),
                _connection: None,
                source: Some(Box::new(FromIter((0..COMMANDS).map(|_| crate::cmd("PING"))))),
                size: WindowSize { bytes: 1, commands: 1, reply_bytes: 1 },
                retries_max: 3,
                window: Arc::new(Window::new(true)),
                pending: Pipeline::new(),
                index: 0,
                room: None,
                failed: None,
            };
            let all = async {
                if keeps { replies.fold(0, |count, _| count + 1).await } else { replies.count().await.replies }
            };
            let driver = std::thread::spawn(move || answer_all(&shared, COMMANDS));
            let all = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), all).await });
            assert_eq!(all.expect("it ends"), COMMANDS as u64);
            driver.join().unwrap();
        }
    }

    /// The window of a server that answers each command with so many bytes: commands under way after each of the rounds.
    fn rounds(state: &mut State, size: WindowSize, reply_bytes: usize, rounds: usize) -> Vec<usize> {
        let round = |_| {
            while let Some(room) = state.room(size) {
                state.commands += room.commands;
            }
            state.sizes.add(state.commands, state.commands * reply_bytes);
            std::mem::take(&mut state.commands)
        };
        (0..rounds).map(round).collect()
    }

    #[test]
    fn the_commands_under_way_follow_the_size_of_their_replies() {
        let size = WindowSize::default();
        let mut state = State::default();
        assert_eq!(rounds(&mut state, size, 32, 5), [16, 272, 4624, 16384, 16384]);
        assert_eq!(rounds(&mut State::default(), size, 20 << 10, 3), [16, 204, 204]);
        assert_eq!(rounds(&mut State::default(), size, 1 << 20, 3), [16, 4, 4]);
        assert_eq!(rounds(&mut State::default(), size, 100 << 20, 3), [16, 1, 1]);
        // A mean that has grown stays for a while: the next reply may be large again.
        let mut state = State::default();
        rounds(&mut state, size, 1 << 20, 1);
        assert_eq!(rounds(&mut state, size, 32, 8)[..3], [4, 4, 4]);
        assert!(*rounds(&mut state, size, 32, 1_000).last().unwrap() >= 8192);
        let far = WindowSize::for_round_trip(Duration::from_millis(43));
        assert_eq!(*rounds(&mut State::default(), far, 32, 6).last().unwrap(), 430_000);
    }

    #[test]
    fn replies_that_are_not_taken_leave_room_for_one_command_at_most() {
        let mut state = State { reply_bytes: 3 << 20, ..State::default() };
        state.sizes.add(100, 100 << 10);
        assert!(state.room(WindowSize::default()).is_none());
        state.replies.push_back(Ok(Value::BulkString(vec![0; 3 << 20])));
        assert!(state.take_reply().is_some());
        assert_eq!((state.reply_bytes, state.room(WindowSize::default()).map(|room| room.commands)), (0, Some(1616)));
    }

    proptest! {
        #[test]
        fn ranges_hold_the_numbers_that_were_added(numbers in proptest::collection::btree_set(0..300u64, 0..200), seed: u64) {
            let mut mixed: Vec<u64> = numbers.iter().copied().collect();
            mixed.sort_by_key(|number| number.wrapping_mul(seed | 1).rotate_left(7));
            let mut ranges = Vec::new();
            mixed.iter().for_each(|number| add_to_ranges(&mut ranges, *number));
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
            prop_assert!(ranges.into_iter().flatten().eq(numbers));
        }
    }

    #[test]
    fn the_number_of_ranges_is_limited() {
        let mut ranges = Vec::new();
        (0..9_000).step_by(2).for_each(|number| add_to_ranges(&mut ranges, number));
        assert_eq!((ranges.len(), &ranges[1022..]), (Summary::RANGES_MAX, &[2044..2045, 2046..8999][..]));
        (0..9_000).rev().for_each(|number| add_to_ranges(&mut ranges, number));
        assert_eq!((ranges.len(), &ranges[0]), (1, &(0..9_000)));
    }

    #[test]
    fn a_window_grows_with_the_distance_within_bounds() {
        let near = WindowSize::default();
        let at = |ms| WindowSize::for_round_trip(Duration::from_millis(ms));
        assert_eq!((at(0).bytes, at(0).commands), (near.bytes, near.commands));
        assert_eq!((at(43).bytes, at(43).commands, at(43).reply_bytes), (17_200_000, 430_000, 17_200_000));
        assert_eq!((at(10_000).bytes, at(10_000).commands, at(10_000).reply_bytes), (64 << 20, 2 << 20, 64 << 20));
        assert_eq!(WindowSize::for_round_trip(Duration::MAX).commands, 2 << 20);
    }
}

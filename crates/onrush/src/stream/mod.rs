//! Endless pipelines: commands in, replies out, in order and in constant memory.

pub(crate) mod cluster;
pub(crate) mod summary;
pub(crate) mod window;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use crate::connection::Connection;
use crate::connection::queue::{Refused, Shared};
use crate::connection::sink::{Again, Part, Sink};
use crate::error::{ErrorKind, RedisError, RedisResult};
use crate::stream::summary::Summary;
use crate::stream::window::{News, Room, Window, WindowSize};
use crate::values::cmd::Cmd;
use crate::values::pipeline::Pipeline;
use crate::values::value::Value;

/// Most commands passed to the connection at once. They go out together anyway; this only bounds the bookkeeping.
const PART_COMMANDS_MAX: usize = 1_024;
const PART_BYTES_MAX: usize = 64 << 10;

/// Parts passed on before other tasks have a turn: the driver can write while the next parts are made.
const PARTS_PER_TURN: usize = 2;

/// Where the commands of a stream come from.
trait Source {
    /// Adds the next command to the pipeline. `false`: there is none.
    fn poll_next(&mut self, cx: &mut Context<'_>, out: &mut Pipeline) -> Poll<bool>;
}

struct FromIter<I>(I);

impl<I: Iterator<Item = C>, C: AsRef<Cmd>> Source for FromIter<I> {
    fn poll_next(&mut self, _: &mut Context<'_>, out: &mut Pipeline) -> Poll<bool> {
        Poll::Ready(add(self.0.next(), out))
    }
}

/// Adds the next command; whether there is one.
fn add(next: Option<impl AsRef<Cmd>>, out: &mut Pipeline) -> bool {
    if let Some(command) = &next {
        out.add_command(command.as_ref());
    }
    next.is_some()
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
        self.0.as_mut().poll_next(cx).map(|next| add(next, out))
    }
}

/// Gathers the commands of a part, as many as there is room for. A source that has ended goes.
fn gather(source: &mut Option<Box<dyn Source + Send + '_>>, room: Room, cx: &mut Context<'_>, pending: &mut Pipeline) {
    let (bytes, commands) = (room.bytes.min(PART_BYTES_MAX), room.commands.min(PART_COMMANDS_MAX));
    while pending.len() < commands && pending.bytes_len() < bytes {
        let Some(next) = source else { break };
        match next.poll_next(cx, pending) {
            Poll::Ready(true) => {}
            Poll::Ready(false) => *source = None,
            Poll::Pending => break,
        }
    }
}

/// The error for commands that no stream takes.
fn own_business() -> RedisError {
    let text = "a stream takes no commands that block, or depend on or change the state of the connection";
    RedisError::new(ErrorKind::Client, text)
}

/// A pipeline of any length, from [`Connection::stream`] and its relatives: a [`Stream`] of replies in the order of the
/// commands.
///
/// Commands are read, sent and answered at the same time, so there is no batch size to choose; a [`WindowSize`] bounds
/// the commands under way, and the memory of their replies here and in the server. The size of replies to come is
/// guessed from those that have come: where small replies are followed by large ones, more may come once. After a
/// disconnect, commands that were not sent go over the next connection, and so do those that are marked as
/// [`idempotent`](Cmd::idempotent), unless others behind them may have been executed; the rest fail. Nothing happens
/// unless it is polled. After a drop no more commands are sent; those already passed to the connection are executed,
/// and their replies dropped.
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
    /// How many replies were taken.
    taken: u64,
    /// Waits until the connection's queue, which is shared, has room.
    room: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// The error that ends the stream early.
    failed: Option<RedisError>,
    /// Commands that were taken from the source and fail with it.
    dropped: u64,
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
            taken: 0,
            room: None,
            failed: None,
            dropped: 0,
        }
    }

    /// Sets how much may be under way. The default is [`WindowSize::for_round_trip`] with the round trip measured when
    /// the connection was made.
    pub fn window(mut self, size: WindowSize) -> Replies<'a> {
        self.size = size.at_least_one();
        self
    }

    /// The next reply, or `None` at the end.
    pub async fn next(&mut self) -> Option<RedisResult<Value>> {
        std::future::poll_fn(|cx| self.poll_reply(cx)).await
    }

    /// Sends everything and counts the replies that were not taken before, without keeping them.
    pub async fn count(mut self) -> Summary {
        let has_begun = self.index > 0;
        let mut summary = Summary::default();
        if has_begun {
            // Parts under way keep theirs, so all of them are taken.
            while let Some(reply) = std::future::poll_fn(|cx| self.poll_answer(cx)).await {
                summary.replies += 1;
                if let Err(error) = reply {
                    summary.add_error(self.taken - 1, error);
                }
            }
        } else {
            self.window = Arc::new(Window::new(false));
            std::future::poll_fn(|cx| self.poll_answer(cx).map(drop)).await;
            summary = self.window.state.lock().summary.clone();
        }
        if let Some(error) = self.failed.take() {
            summary.replies += self.dropped;
            (0..self.dropped).for_each(|nth| summary.add_error(self.index + nth, error.clone()));
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

    /// The next reply, and at last the error that ended the stream early.
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<RedisResult<Value>>> {
        self.poll_answer(cx).map(|reply| reply.or_else(|| self.failed.take().map(Err)))
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Option<RedisResult<Value>>> {
        let mut parts = 0;
        loop {
            let has_sent = self.poll_send(cx);
            let mut state = self.window.state.lock();
            if let Some(reply) = state.take_reply() {
                self.taken += 1;
                return Poll::Ready(Some(reply));
            }
            if self.source.is_none() && self.pending.is_empty() && state.commands == 0 {
                return Poll::Ready(None);
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
        gather(&mut self.source, room, cx, &mut self.pending);
        true
    }

    fn hand_over(&mut self) -> Result<(), Refused> {
        let packed = self.pending.packed();
        if packed.class.is_own_business() {
            self.fail(own_business());
            return Ok(());
        }
        let (len, count) = (packed.bytes.len(), packed.count);
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
            again: self.pending.some_idempotent.then(|| {
                let idempotent = (0..count).map(|index| self.pending.is_idempotent(index)).collect();
                Box::new(Again { bytes: packed.bytes.to_vec(), idempotent, retries_left: self.retries_max })
            }),
            scripts: self.pending.scripts.clone(),
            replies: Vec::with_capacity(if self.window.keeps() { count } else { 0 }),
            window: self.window.clone(),
        };
        let pushed = self.shared.push(packed, false, &self.pending.scripts, Sink::Part(Box::new(part)));
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
        self.dropped = self.pending.len() as u64;
        self.pending.clear();
    }
}

impl Drop for Replies<'_> {
    fn drop(&mut self) {
        self.window.abandon();
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
    use std::collections::VecDeque;
    use std::task::Waker;
    use std::time::Duration;

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
            let shared = Arc::new(Shared::new(1 << 20, Outlet::default(), false));
            let replies = Replies {
                shared: shared.clone(),
                _connection: None,
                source: Some(Box::new(FromIter((0..COMMANDS).map(|_| crate::cmd("PING"))))),
                size: WindowSize { bytes: 1, commands: 1, reply_bytes: 1 },
                retries_max: 3,
                window: Arc::new(Window::new(true)),
                pending: Pipeline::new(),
                index: 0,
                taken: 0,
                room: None,
                failed: None,
                dropped: 0,
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
}

//! Endless pipelines to a cluster: parts go to all nodes, and the replies come back in order.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_core::Stream;

use crate::cluster::{ClusterConnection, Inner};
use crate::error::{RedisError, RedisResult};
use crate::stream::summary::Summary;
use crate::stream::window::{State, WindowSize};
use crate::stream::{FromFn, FromIter, FromStream, PARTS_PER_TURN, Source, gather, own_business};
use crate::values::cmd::Cmd;
use crate::values::pipeline::Pipeline;
use crate::values::value::Value;

type Results = Vec<RedisResult<Value>>;

/// A pipeline of any length to a cluster, from [`ClusterConnection::stream`] and its relatives: a [`Stream`] of replies in
/// the order of the commands, as [`Replies`](crate::Replies) are for one server.
///
/// The order of commands of the same key is kept, also while slots move. After a disconnect, commands that were not sent
/// go to the node that has their slot then; those that are [`idempotent`](Cmd::idempotent) are sent again only if all
/// commands of the stream so far are. Nothing happens unless it is polled: a caller that stops reading in the middle
/// may delay others' commands of slots that move just then, at most for the response timeout. After a drop no more
/// commands are sent; those already passed on are executed unless their node refuses them, and their replies dropped.
pub struct ClusterReplies<'a> {
    inner: Arc<Inner>,
    source: Option<Box<dyn Source + Send + 'a>>,
    size: WindowSize,
    state: State,
    /// Whether replies are kept to be taken, or only counted.
    keeps: bool,
    /// Parts under way, and answered ones that wait for those before them.
    parts: VecDeque<Part>,
    /// Commands gathered for the next part.
    pending: Pipeline,
    /// The index in the stream of the first command that has no outcome yet.
    index: u64,
    /// Whether all commands so far may be executed twice.
    repeats: Arc<AtomicBool>,
}

struct Part {
    bytes: usize,
    count: usize,
    running: Option<Pin<Box<dyn Future<Output = Results> + Send>>>,
    results: Results,
}

impl fmt::Debug for ClusterReplies<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterReplies").field("size", &self.size).field("index", &self.index).finish_non_exhaustive()
    }
}

impl ClusterConnection {
    /// Streams the commands of an iterator; see [`Connection::stream`](crate::Connection::stream).
    pub fn stream<'a, C: AsRef<Cmd>>(
        &self,
        commands: impl IntoIterator<Item = C, IntoIter: Send + 'a>,
    ) -> ClusterReplies<'a> {
        ClusterReplies::new(self, Box::new(FromIter(commands.into_iter())))
    }

    /// Streams the commands of a function: it adds one command to the pipeline it gets and returns `true`, or `false`
    /// at the end.
    pub fn stream_fn<'a>(&self, write_next: impl FnMut(&mut Pipeline) -> bool + Send + 'a) -> ClusterReplies<'a> {
        ClusterReplies::new(self, Box::new(FromFn(write_next)))
    }

    /// Streams the commands of a [`Stream`].
    pub fn stream_from<'a, C: AsRef<Cmd>>(&self, commands: impl Stream<Item = C> + Send + 'a) -> ClusterReplies<'a> {
        ClusterReplies::new(self, Box::new(FromStream(Box::pin(commands))))
    }
}

impl<'a> ClusterReplies<'a> {
    fn new(connection: &ClusterConnection, source: Box<dyn Source + Send + 'a>) -> ClusterReplies<'a> {
        ClusterReplies {
            inner: connection.inner.clone(),
            source: Some(source),
            size: WindowSize::for_round_trip(connection.inner.round_trip()),
            state: State::default(),
            keeps: true,
            parts: VecDeque::new(),
            pending: Pipeline::new(),
            index: 0,
            repeats: Arc::new(AtomicBool::new(true)),
        }
    }

    /// Sets how much may be under way to all nodes together.
    pub fn window(mut self, size: WindowSize) -> ClusterReplies<'a> {
        self.size = size.at_least_one();
        self
    }

    /// The next reply, or `None` at the end.
    pub async fn next(&mut self) -> Option<RedisResult<Value>> {
        std::future::poll_fn(|cx| self.poll_reply(cx)).await
    }

    /// Sends everything and counts the replies that were not taken before, without keeping them.
    pub async fn count(mut self) -> Summary {
        self.keeps = false;
        self.state.count_waiting(self.index);
        std::future::poll_fn(|cx| self.poll_reply(cx).map(drop)).await;
        self.state.summary.clone()
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
        if let Some(reply) = self.state.take_reply() {
            return Poll::Ready(Some(reply));
        }
        let mut begun = 0;
        self.poll_parts(cx);
        loop {
            let has_begun = self.poll_begin(cx);
            self.land();
            if let Some(reply) = self.state.take_reply() {
                return Poll::Ready(Some(reply));
            }
            if self.source.is_none() && self.pending.is_empty() && self.parts.is_empty() {
                return Poll::Ready(None);
            }
            if !has_begun {
                return Poll::Pending;
            }
            begun += 1;
            if begun == PARTS_PER_TURN {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }

    fn poll_parts(&mut self, cx: &mut Context<'_>) {
        self.parts.iter_mut().for_each(|part| part.poll(cx));
        self.land();
    }

    /// Hands over the replies of the parts that come next.
    fn land(&mut self) {
        while self.parts.front().is_some_and(|part| part.running.is_none()) {
            let Some(part) = self.parts.pop_front() else { return };
            self.state.bytes -= part.bytes;
            self.state.land(part.results, self.index, self.keeps);
            self.index += part.count as u64;
        }
    }

    /// Gathers commands for a part and sends it, if there is room; returns whether it did.
    fn poll_begin(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(room) = self.state.room(self.size) else { return false };
        gather(&mut self.source, room, cx, &mut self.pending);
        if self.pending.is_empty() {
            return false;
        }
        if self.pending.class().is_own_business() {
            self.fail(own_business());
            return true;
        }
        self.begin(cx);
        true
    }

    fn begin(&mut self, cx: &mut Context<'_>) {
        let pipeline = std::mem::take(&mut self.pending);
        if !pipeline.is_all_idempotent() {
            self.repeats.store(false, Ordering::Relaxed);
        }
        let (bytes, count) = (pipeline.bytes_len(), pipeline.len());
        self.state.bytes += bytes;
        self.state.commands += count;
        let running = send(self.inner.clone(), pipeline, self.repeats.clone());
        let mut part = Part { bytes, count, running: Some(Box::pin(running)), results: Vec::new() };
        // Polled at once, so that parts are sent in their order.
        part.poll(cx);
        self.parts.push_back(part);
    }

    /// Ends the stream with an error for the commands that are gathered.
    fn fail(&mut self, error: RedisError) {
        let (bytes, count) = (0, if self.keeps { 1 } else { self.pending.len() });
        self.state.commands += count;
        self.parts.push_back(Part { bytes, count, running: None, results: vec![Err(error); count] });
        self.source = None;
        self.pending.clear();
    }
}

impl Part {
    fn poll(&mut self, cx: &mut Context<'_>) {
        let Some(running) = &mut self.running else { return };
        if let Poll::Ready(results) = running.as_mut().poll(cx) {
            self.results = results;
            self.running = None;
        }
    }
}

async fn send(inner: Arc<Inner>, pipeline: Pipeline, repeats: Arc<AtomicBool>) -> Results {
    match inner.send_part(&pipeline, &repeats).await {
        Ok(results) => results,
        Err(error) => vec![Err(error); pipeline.len()],
    }
}

impl Stream for ClusterReplies<'_> {
    type Item = RedisResult<Value>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<RedisResult<Value>>> {
        self.get_mut().poll_reply(cx)
    }
}

//! One live connection to a server: its socket, its buffers, and what is in flight on it.

pub(crate) mod again;
pub(crate) mod backoff;
pub(crate) mod connector;
pub(crate) mod credentials;
pub(crate) mod driver;
mod feed;
pub(crate) mod net;
pub(crate) mod parse;
pub(crate) mod push;
pub(crate) mod resolver;
pub(crate) mod sentinel;
pub(crate) mod telemetry;
pub(crate) mod tls;
pub(crate) mod url;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::connection::queue::{KEPT_ENTRIES_MAX, Shared, Taken};
use crate::connection::sink::{Entry, Manner, Progress, Rest, Sink};
use crate::connection::subscriptions::Resubscription;
use crate::error::{ErrorKind, RedisError, RedisResult, ServerErrorKind};
use crate::link::again::Unsettled;
use crate::link::backoff::Backoff;
use crate::link::net::{Failed, Stream};
use crate::link::parse::Parser;
use crate::link::sentinel::no_primary;
use crate::stream::window::Window;
use crate::values::value::{PushInfo, PushKind, Value};

/// Most bytes of one read.
const READ_LEN: usize = 64 << 10;
/// A buffer that has grown beyond this many bytes is freed.
const KEPT_LEN_MAX: usize = 1 << 20;

/// How often a write lets tasks run first that replies have woken. Each time it gathers their commands too, at the cost
/// of one turn of the runtime.
const YIELDS_MAX: u32 = 4;

/// A live connection. Reading and writing are independent: neither ever waits for the other.
#[derive(Debug)]
pub(crate) struct Link {
    stream: Stream,
    parser: Parser,
    /// Bytes read are `input[input_at..input_end]`.
    input: Vec<u8>,
    input_at: usize,
    input_end: usize,
    /// Bytes still to write are `output[output_at..]`.
    output: Vec<u8>,
    output_at: usize,
    unflushed: bool,
    inflight: VecDeque<Entry>,
    /// How many bytes of entries are written, and how many belong to entries that have left `inflight`.
    written: u64,
    settled: u64,
    unsettled: Unsettled,
    /// Whether replies have woken tasks that have not run yet: it pays to let them queue commands first.
    woken: bool,
    /// How often that was done for the next write.
    yields: u32,
    /// What has come since the driver last took it.
    heard: Heard,
    /// How the value begins of which a part has come.
    unfinished: Option<u8>,
    /// How many replies have come since the link is driven.
    replies: u64,
    /// Whether the link belongs to a lease, which needs that number.
    leased: bool,
    /// Whether the server must be a primary, and has said READONLY.
    must_lead: bool,
    is_demoted: bool,
    /// Whether the driver's task is known to be woken.
    registered: bool,
    /// The shortest time from a request to its replies, before the link was driven; `MAX` before the first.
    round_trip: Duration,
}

/// Why a link ends.
#[derive(Debug)]
pub(crate) enum End {
    /// All is done and no user is left.
    Deserted,
    Broken(RedisError),
}

impl Link {
    pub(crate) fn new(stream: Stream, leased: bool) -> Link {
        Link {
            stream,
            parser: Parser::new(),
            input: vec![0; READ_LEN],
            input_at: 0,
            input_end: 0,
            output: Vec::new(),
            output_at: 0,
            unflushed: false,
            inflight: VecDeque::new(),
            written: 0,
            settled: 0,
            unsettled: Unsettled::default(),
            woken: false,
            yields: 0,
            heard: Heard::default(),
            unfinished: None,
            replies: 0,
            leased,
            must_lead: false,
            is_demoted: false,
            registered: false,
            round_trip: Duration::MAX,
        }
    }

    /// Sends commands and waits for that many replies, before the link is driven. Pushes are dropped.
    pub(crate) async fn exchange(&mut self, commands: &[u8], replies: usize) -> RedisResult<Vec<Value>> {
        let started = Instant::now();
        self.stream.write_all(commands).await?;
        self.stream.flush().await?;
        let mut got = Vec::with_capacity(replies);
        while got.len() < replies {
            match self.parser.next(&self.input[..self.input_end], &mut self.input_at)? {
                Some(Value::Push(_)) => {}
                Some(value) => got.push(value),
                None => {
                    self.make_input_room();
                    let n = self.stream.read(&mut self.input[self.input_end..]).await?;
                    if n == 0 {
                        return Err(closed_by_server());
                    }
                    self.input_end += n;
                }
            }
        }
        if replies > 0 {
            self.round_trip = self.round_trip.min(started.elapsed());
        }
        Ok(got)
    }

    /// Sends one command and waits for its reply, before the link is driven.
    pub(crate) async fn ask(&mut self, command: &[u8]) -> RedisResult<Value> {
        Ok(self.exchange(command, 1).await?.pop().unwrap_or(Value::Nil))
    }

    /// Whether the command of the next reply may take any time.
    pub(crate) fn is_patient(&self) -> bool {
        self.inflight.front().is_some_and(|entry| entry.manner.patient)
    }

    /// Puts commands of the library before everything queued.
    pub(crate) fn send_first(&mut self, commands: &[u8], sink: Sink) {
        self.output.extend_from_slice(commands);
        self.inflight.push_back(Entry { len: commands.len(), tick: 0, manner: Manner::ONE, sink });
    }

    /// Makes the subscriptions of earlier links again, before everything queued.
    pub(crate) fn begin_again(&mut self, shared: &Shared, all: Vec<Resubscription>) {
        self.unsettled.count += all.len();
        self.subscribe_again(shared, all);
    }

    fn subscribe_again(&mut self, shared: &Shared, all: Vec<Resubscription>) {
        for Resubscription { bytes, kind, name } in all {
            shared.note_due(1);
            self.send_first(&bytes, Sink::Again { kind, name });
        }
    }

    /// Asks again for subscriptions that the server has refused for now; whether it did.
    pub(crate) fn poll_again(&mut self, shared: &Shared, backoff: &Backoff, cx: &mut Context<'_>) -> bool {
        let Poll::Ready(wanted) = self.unsettled.poll_again(shared, backoff, cx) else { return false };
        self.subscribe_again(shared, wanted);
        true
    }

    /// Writes and reads as far as possible.
    pub(crate) fn poll(&mut self, shared: &Shared, cx: &mut Context<'_>) -> Poll<End> {
        if !self.registered {
            shared.register_driver(cx);
            self.registered = true;
        }
        if shared.is_abandoned() {
            return Poll::Ready(End::Deserted);
        }
        loop {
            let read_more = match self.poll_read(shared, cx) {
                Ok(more) => more,
                Err(error) => return Poll::Ready(End::Broken(error)),
            };
            let write_more = match self.poll_write(shared, cx) {
                Ok(WriteTurn::More) => true,
                Ok(WriteTurn::Blocked) => false,
                Ok(WriteTurn::Deserted) => return Poll::Ready(End::Deserted),
                Err(error) => return Poll::Ready(End::Broken(error)),
            };
            if !read_more && !write_more {
                return Poll::Pending;
            }
        }
    }

    fn poll_write(&mut self, shared: &Shared, cx: &mut Context<'_>) -> RedisResult<WriteTurn> {
        if self.output_at == self.output.len() {
            if self.woken && self.yields < YIELDS_MAX && shared.has_some() {
                // Runs after the tasks just woken, so that their commands go out with this write.
                self.woken = false;
                self.yields += 1;
                cx.waker().wake_by_ref();
                return Ok(WriteTurn::Blocked);
            }
            self.output_at = 0;
            self.output.clear();
            if self.output.capacity() > KEPT_LEN_MAX {
                self.output = Vec::new();
            }
            if self.inflight.is_empty() && self.inflight.capacity() > KEPT_ENTRIES_MAX {
                self.inflight = VecDeque::new();
            }
            match shared.take(&mut self.output, &mut self.inflight, cx) {
                Taken::Some => {
                    (self.woken, self.yields) = (false, 0);
                    shared.tally.batch();
                }
                Taken::Deserted if self.inflight.iter().all(|entry| entry.manner.own) => {
                    return Ok(WriteTurn::Deserted);
                }
                Taken::Empty | Taken::Deserted => return self.poll_flush(cx),
            }
        }
        match self.stream.poll_send(cx, &self.output[self.output_at..]) {
            Poll::Ready(Ok(0)) => Err(RedisError::from(io::Error::from(io::ErrorKind::WriteZero))),
            Poll::Ready(Ok(n)) => {
                // While the command of the next reply is being written, bytes taken by the peer are the only possible
                // progress.
                let is_due = self.inflight.front().is_some_and(|next| self.written < self.settled + next.len as u64);
                self.heard = Heard { any: self.heard.any || is_due, reply: self.heard.reply || is_due };
                self.output_at += n;
                self.written += n as u64;
                self.unflushed = true;
                shared.tally.sent(n);
                Ok(WriteTurn::More)
            }
            Poll::Ready(Err(Failed { error, taken })) => {
                self.output_at += taken;
                shared.tally.sent(taken);
                Err(error.into())
            }
            Poll::Pending => Ok(WriteTurn::Blocked),
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> RedisResult<WriteTurn> {
        if self.unflushed {
            if let Poll::Ready(flushed) = Pin::new(&mut self.stream).poll_flush(cx) {
                flushed?;
                self.unflushed = false;
            }
        }
        Ok(WriteTurn::Blocked)
    }

    /// Whether the socket is left unread until the pushes have been read. Never while a reply is due: the task that
    /// waits for it may be the reader of the pushes.
    pub(crate) fn poll_paused(&self, shared: &Shared, cx: &Context<'_>) -> bool {
        self.inflight.is_empty() && shared.outlet.poll_ready(cx).is_pending()
    }

    /// Reads once and passes on what came. `false`: the reader will be woken.
    fn poll_read(&mut self, shared: &Shared, cx: &mut Context<'_>) -> RedisResult<bool> {
        if self.poll_paused(shared, cx) {
            return Ok(false);
        }
        self.make_input_room();
        let mut room = ReadBuf::new(&mut self.input[self.input_end..]);
        match Pin::new(&mut self.stream).poll_read(cx, &mut room) {
            Poll::Pending => return Ok(false),
            Poll::Ready(read) => read?,
        }
        let n = room.filled().len();
        if n == 0 {
            return Err(closed_by_server());
        }
        self.input_end += n;
        let before = self.replies;
        let dispatched = self.dispatch(shared);
        shared.tally.received(n, self.replies - before);
        self.heard.any = true;
        // A part of a reply counts, messages that come meanwhile do not.
        self.heard.reply |= self.replies > before || self.unfinished.is_some_and(|kind| kind != b'>');
        dispatched?;
        if self.is_demoted {
            return Err(no_primary("the server is no primary any more"));
        }
        Ok(true)
    }

    /// Passes on all complete replies.
    fn dispatch(&mut self, shared: &Shared) -> RedisResult<()> {
        loop {
            self.take_small(shared);
            let start = self.input_at;
            let Some(value) = self.parser.next(&self.input[..self.input_end], &mut self.input_at)? else {
                self.unfinished = self.unfinished.or_else(|| self.input[start..self.input_end].first().copied());
                break;
            };
            self.unfinished = None;
            match value {
                Value::Push(push) => self.push(shared, *push),
                Value::Array(parts) if shared.outlet.is_lossless() && is_resp2_push(&parts) => {
                    self.push(shared, PushInfo::from_parts(parts));
                }
                value => self.reply(shared, value)?,
            }
        }
        if let Some(front) = self.inflight.front_mut() {
            front.publish();
        }
        Ok(())
    }

    /// Passes on the small replies that come next, but for an entry's last one: the statuses `OK` of a batch, which are
    /// most replies of most batches, and those that a stream only counts.
    #[inline]
    fn take_small(&mut self, shared: &Shared) {
        let Some(front) = self.inflight.front_mut() else { return };
        let (input, at) = (&self.input[..self.input_end], &mut self.input_at);
        let taken = match &mut front.sink {
            Sink::Batch(batch) => batch.take(|max| self.parser.okays(input, at, max)),
            Sink::Part(part) if !part.window.keeps() => part.take(|max| self.parser.small(input, at, max)),
            _ => return,
        };
        if taken > 0 {
            self.replies += taken as u64;
            if self.leased {
                shared.note_replies(self.replies);
            }
        }
    }

    #[inline]
    fn reply(&mut self, shared: &Shared, value: Value) -> RedisResult<()> {
        let Some(front) = self.inflight.front_mut() else {
            let text = match &value {
                Value::ServerError(error) => format!("the server said: {error}"),
                other => format!("the server sent {} that nobody asked for", other.kind_name()),
            };
            return Err(RedisError::new(ErrorKind::Parse, text));
        };
        self.replies += 1;
        if self.leased {
            shared.note_replies(self.replies);
        }
        if let Value::ServerError(error) = &value {
            match &mut front.sink {
                Sink::Again { kind, name } => self.unsettled.refuse(shared, kind, std::mem::take(name), error),
                Sink::Load(script) => shared.forget_script(script),
                Sink::Part(part) if value.tells_unknown_script() => {
                    part.scripts.iter().for_each(|script| shared.forget_script(script));
                }
                _ => {}
            }
            self.is_demoted |= self.must_lead && error.kind() == ServerErrorKind::ReadOnly;
        }
        let progress = front.reply(value);
        self.settle(progress);
        Ok(())
    }

    fn push(&mut self, shared: &Shared, push: PushInfo) {
        if let Some(cache) = shared.cache.as_ref().filter(|_| push.kind == PushKind::Invalidate) {
            cache.note_news(&push);
        }
        shared.note_confirmation(&push);
        match self.inflight.front_mut() {
            Some(front) if front.sink.awaits(&push.kind) => {
                // Sent before the caller's reply, so that the caller's own reader finds it.
                shared.outlet.send_awaited(push);
                self.replies += 1;
                if matches!(front.sink, Sink::Again { .. }) {
                    self.unsettled.settle(shared);
                }
                let progress = front.confirmed();
                self.settle(progress);
            }
            _ => shared.outlet.send(push),
        }
    }

    #[inline]
    fn settle(&mut self, progress: Progress) {
        match progress {
            Progress::More => return,
            Progress::Done => self.woken = true,
            Progress::Silent => {}
        }
        self.settled += self.inflight.pop_front().map_or(0, |entry| entry.len as u64);
    }

    /// Room to read into. What has been read but not parsed, behind the replies to an exchange, moves to the front.
    fn make_input_room(&mut self) {
        self.input.copy_within(self.input_at..self.input_end, 0);
        self.input_end -= self.input_at;
        self.input_at = 0;
    }

    /// When the oldest command in flight was queued; `None` if it may take any time.
    pub(crate) fn oldest_tick(&self) -> Option<u32> {
        self.inflight.front().filter(|entry| !entry.manner.patient).map(|entry| entry.tick)
    }

    /// Fails the commands that were sent, and returns the others to the queue.
    ///
    /// A server cannot execute a command before it has its last byte. So single commands and transactions count as not
    /// sent until then; a batch gets the number of bytes written. Commands of streams that may be executed twice are
    /// returned too.
    pub(crate) fn salvage(&mut self, shared: &Shared, error: &RedisError, keep: bool) {
        let mut unwritten = self.output.len() - self.output_at;
        let mut end = self.output.len();
        let (mut kept, mut lost) = (Vec::new(), Vec::new());
        // The bytes of what is kept; the newest first.
        let mut bytes: Vec<Cow<'_, [u8]>> = Vec::new();
        let mut barred = Vec::new();
        while let Some(mut entry) = self.inflight.pop_back() {
            let missing = unwritten.min(entry.len);
            unwritten -= missing;
            let written = entry.len - missing;
            let start = end.saturating_sub(entry.len);
            let own = start..end;
            end = start;
            // The next link makes the subscriptions again itself, and asks for a sign of life when it has to.
            let is_of_this_link = matches!(entry.sink, Sink::Again { .. } | Sink::Discard);
            if !keep || is_of_this_link {
                lost.push((entry, written));
            } else if written == 0 || missing > 0 && entry.manner.whole {
                bytes.push(Cow::Borrowed(&self.output[own]));
                kept.push(entry);
            } else if let Some(rest) = cut(shared, &mut entry, written, error, &mut barred) {
                if rest.again > 0 {
                    entry.tick = shared.now();
                    bytes.push(Cow::Owned(entry.bytes_again().to_vec()));
                } else {
                    bytes.push(Cow::Borrowed(&self.output[own.end - rest.len..own.end]));
                }
                kept.push(entry);
            } else {
                lost.push((entry, written));
            }
        }
        kept.reverse();
        bytes.reverse();
        shared.put_back(&bytes.concat(), kept);
        lost.into_iter().rev().for_each(|(entry, written)| shared.lose(entry, error, written));
    }
}

/// Cuts a part of a stream in two, and counts the commands that are lost or sent again with that.
fn cut(
    shared: &Shared,
    entry: &mut Entry,
    written: usize,
    error: &RedisError,
    barred: &mut Vec<Arc<Window>>,
) -> Option<Rest> {
    let due = entry.sink.due();
    let rest = entry.cut(written, error, barred);
    let again = rest.as_ref().map_or(0, |rest| rest.again);
    shared.tally.lost(due - entry.sink.due() + again);
    if again > 0 {
        shared.note_due(again);
        shared.tally.retry(again);
    }
    rest
}

impl Drop for Link {
    /// Fails everything, so that no task waits for ever for a link that was dropped, with its runtime for example.
    fn drop(&mut self) {
        let error = RedisError::closed();
        self.inflight.drain(..).for_each(|entry| entry.fail(&error, usize::MAX));
    }
}

/// What has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heard {
    /// Any bytes.
    pub any: bool,
    /// A reply or a part of one.
    pub reply: bool,
}

/// The result of trying to write.
enum WriteTurn {
    /// There may be more to write.
    More,
    /// The writer will be woken.
    Blocked,
    /// Nothing is left to write, to read, or to come.
    Deserted,
}

fn closed_by_server() -> RedisError {
    RedisError::from(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"))
}

/// RESP2 sends messages and confirmations as arrays.
fn is_resp2_push(parts: &[Value]) -> bool {
    parts.len() >= 3
        && matches!(&parts[0], Value::BulkString(kind) if !matches!(PushKind::from_name(kind), PushKind::Other(_)))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::connection::gate::{Class, Packed};
    use crate::link::push::Outlet;

    const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

    #[tokio::test]
    async fn room_for_very_many_commands_is_freed_when_they_are_answered() {
        const COMMANDS: usize = 2 * KEPT_ENTRIES_MAX;
        let (near, mut far) = tokio::net::UnixStream::pair().unwrap();
        let shared = Shared::new(64 << 20, Outlet::default(), false);
        let mut link = Link::new(Stream::Unix(near), false);
        let push = |_| shared.push(Packed::new(PING, 1, Class::PLAIN), true, &[], Sink::Discard).unwrap();
        (0..COMMANDS).for_each(push);
        let answer = async {
            far.read_exact(&mut vec![0; COMMANDS * PING.len()]).await.unwrap();
            far.write_all(&b"+PONG\r\n".repeat(COMMANDS)).await.unwrap();
        };
        let mut most = 0;
        let drive = std::future::poll_fn(|cx| {
            assert!(link.poll(&shared, cx).is_pending());
            most = most.max(link.inflight.capacity());
            if link.replies == COMMANDS as u64 { Poll::Ready(()) } else { Poll::Pending }
        });
        tokio::join!(answer, drive);
        assert!(most >= COMMANDS && link.inflight.capacity() <= KEPT_ENTRIES_MAX);
        assert!(shared.entries_capacity() <= KEPT_ENTRIES_MAX);
    }
}

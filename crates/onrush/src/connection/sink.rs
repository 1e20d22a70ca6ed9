//! Where replies go: the waiting side of each command in flight.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::cache::Ticket;
use crate::cache::flight::Flight;
use crate::cache::gather::Gather;
use crate::commands::script::Script;
use crate::error::{ErrorKind, Fate, RedisError, RedisResult};
use crate::stream::window::{News, Window, reply_len};
use crate::values::value::{PushKind, Value};

/// Why no more replies come, and how many of the entry's bytes the operating system has taken.
#[derive(Debug, Clone)]
pub(crate) struct Broken {
    pub error: RedisError,
    pub written: usize,
}

impl Broken {
    /// The error for a command that ends at this offset of the entry.
    pub(crate) fn error_at(&self, end: usize) -> RedisError {
        self.error.clone().with_fate(if end <= self.written { Fate::Unknown } else { Fate::NotSent })
    }

    /// Whether sending again makes sense, since the connection may come back. Not for commands that have waited in the
    /// queue for the whole timeout.
    pub(crate) fn may_retry(&self) -> bool {
        is_of_lost_link(&self.error, self.written > 0)
    }
}

/// Whether the error is that of a lost connection, which may come back. `was_sent`: whether any of the command was written.
pub(crate) fn is_of_lost_link(error: &RedisError, was_sent: bool) -> bool {
    match error.kind() {
        ErrorKind::Io | ErrorKind::Parse | ErrorKind::NoPrimary => true,
        ErrorKind::Timeout => was_sent,
        _ => false,
    }
}

/// How the task that has sent a command learns its reply.
pub(crate) type Waiting = oneshot::Receiver<Result<Value, Broken>>;

/// A reply of so many bytes is large.
const LARGE: usize = 4096;

/// The result of a batch: its replies, and the reason if some are missing.
#[derive(Debug)]
pub(crate) struct BatchOutcome {
    pub replies: Vec<Value>,
    pub broken: Option<Broken>,
}

/// The replies of a batch as they come in.
#[derive(Debug)]
pub(crate) struct Batch {
    left: usize,
    replies: Vec<Value>,
    done: oneshot::Sender<BatchOutcome>,
}

impl Batch {
    /// Takes as many statuses `OK` as `skip` finds, which gets the number of replies that may come before the last one.
    #[inline]
    pub(crate) fn take(&mut self, skip: impl FnOnce(usize) -> usize) -> usize {
        let okays = skip(self.left.saturating_sub(1));
        self.left -= okays;
        self.replies.resize_with(self.replies.len() + okays, || Value::Okay);
        okays
    }
}

/// A part of a stream.
#[derive(Debug)]
pub(crate) struct Part {
    /// Where each command ends, counted from the first byte of the part.
    pub ends: Vec<u32>,
    /// The index of the first command in the stream.
    pub first: u64,
    /// How many commands are answered.
    pub answered: usize,
    /// Answers that are not handed over, and what they tell.
    pub replies: Vec<RedisResult<Value>>,
    pub news: News,
    /// How many of the first commands may have been executed already, by an earlier link.
    pub doubtful: usize,
    /// `None` if no command may be executed twice.
    pub again: Option<Box<Again>>,
    /// The scripts that they call.
    pub scripts: Vec<Script>,
    pub window: Arc<Window>,
}

/// What it takes to send commands of a part again.
#[derive(Debug)]
pub(crate) struct Again {
    /// All commands of the part.
    pub bytes: Vec<u8>,
    /// Whether each may be executed twice.
    pub idempotent: Vec<bool>,
    pub retries_left: u32,
}

/// The commands of a part that go over the next link.
#[derive(Debug)]
pub(crate) struct Rest {
    /// Their bytes.
    pub len: usize,
    /// How many of them were sent already. If any, the part has the bytes of all.
    pub again: usize,
}

impl Part {
    #[inline]
    fn reply(&mut self, value: Value) {
        let reply = value.into_result();
        self.news.measured += 1;
        self.news.bytes += reply_len(&reply);
        self.answer(reply);
    }

    /// Counts as many replies without parts as `skip` finds, which gets the number of replies that may come before the
    /// last one.
    #[inline]
    pub(crate) fn take(&mut self, skip: impl FnOnce(usize) -> usize) -> usize {
        let found = skip((self.ends.len() - self.answered).saturating_sub(1));
        self.answered += found;
        self.news.answered += found;
        self.news.measured += found;
        self.news.bytes += found * size_of::<Value>();
        found
    }

    #[inline]
    fn answer(&mut self, reply: RedisResult<Value>) {
        let index = self.first + self.answered as u64;
        self.answered += 1;
        self.news.answered += 1;
        self.window.add(reply, index, &mut self.replies);
    }

    /// Hands over the answers so far.
    fn publish(&mut self) {
        self.window.publish(&mut self.replies, std::mem::take(&mut self.news));
    }

    /// Answers with an error all commands that end within the given length and have no answer yet.
    fn fail_to(&mut self, len: usize, broken: &Broken) {
        while let Some(&end) = self.ends.get(self.answered).filter(|&&end| end as usize <= len) {
            let earlier = if self.answered < self.doubtful { Fate::Unknown } else { Fate::NotSent };
            self.answer(Err(broken.error_at(end as usize).after(earlier)));
        }
    }

    /// The first command that may go over the next link when `sent` of them have been written. What is sent again must
    /// not run after later commands that may have been executed already: `barred` if there are such behind the part.
    fn first_again(&self, sent: usize, barred: bool) -> usize {
        let sent = sent.max(self.answered);
        let Some(again) = self.again.as_ref().filter(|again| !barred && again.retries_left > 0) else { return sent };
        let last = again.idempotent[self.answered..sent].iter().rposition(|idempotent| !idempotent);
        last.map_or(self.answered, |last| self.answered + last + 1)
    }

    /// Removes commands from the front, which take so many bytes.
    fn remove_first(&mut self, count: usize, len: usize) {
        self.ends.drain(..count);
        self.ends.iter_mut().for_each(|end| *end -= len as u32);
        self.first += count as u64;
        self.doubtful = self.doubtful.saturating_sub(count);
        if let Some(again) = &mut self.again {
            again.bytes.drain(..len);
            again.idempotent.drain(..count);
        }
        self.answered = 0;
        self.window.finish_part(len);
    }
}

/// The waiting side of an entry.
#[derive(Debug)]
pub(crate) enum Sink {
    One(oneshot::Sender<Result<Value, Broken>>),
    Batch(Box<Batch>),
    Part(Box<Part>),
    /// A (un)subscribe command: answered by that many confirmations, which are pushes, or by one error.
    Confirm {
        kind: PushKind,
        left: usize,
        done: oneshot::Sender<Result<Value, Broken>>,
    },
    /// A subscription made again after a reconnect: answered by a confirmation, or by an error.
    Again {
        kind: PushKind,
        name: Box<[u8]>,
    },
    /// A read whose reply the cache may keep.
    Read(Box<CachedRead>),
    /// The misses of an MGET.
    Gather(Box<Gather>),
    /// A script that is loaded before its first use: forgotten if that fails.
    Load(Script),
    /// No task waits for that reply.
    Discard,
}

/// The replies of a read for the cache: one to CLIENT CACHING if that is needed, the key's time to live, and the read's.
#[derive(Debug)]
pub(crate) struct CachedRead {
    left: usize,
    ttl: Option<Value>,
    ticket: Ticket,
    flight: Arc<Flight>,
    done: oneshot::Sender<Result<Value, Broken>>,
}

impl CachedRead {
    /// Takes a reply; returns it if it is the read's.
    fn reply(&mut self, value: Value) -> Option<Value> {
        self.left -= 1;
        match (self.left, value) {
            (0, value) => {
                self.ticket.keep(&value, self.ttl.as_ref());
                self.flight.land(&value);
                return Some(value);
            }
            (1, ttl) => self.ttl = Some(ttl),
            (_, Value::ServerError(_)) => self.ticket.void(),
            _ => {}
        }
        None
    }
}

/// The state of a sink after a reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More replies are due.
    More,
    /// It was the last; a task was woken.
    Done,
    /// It was the last; no task was waiting.
    Silent,
}

impl Sink {
    pub(crate) fn one() -> (Sink, Waiting) {
        let (done, waiting) = oneshot::channel();
        (Sink::One(done), waiting)
    }

    pub(crate) fn batch(count: usize) -> (Sink, oneshot::Receiver<BatchOutcome>) {
        let (done, waiting) = oneshot::channel();
        (Sink::Batch(Box::new(Batch { left: count, replies: Vec::with_capacity(count), done })), waiting)
    }

    pub(crate) fn read(ticket: Ticket, flight: Arc<Flight>, replies: usize) -> (Sink, Waiting) {
        let (done, waiting) = oneshot::channel();
        (Sink::Read(Box::new(CachedRead { left: replies, ttl: None, ticket, flight, done })), waiting)
    }

    pub(crate) fn gather(keys: Vec<(Ticket, Arc<Flight>)>, replies: usize) -> (Sink, Waiting) {
        let (done, waiting) = oneshot::channel();
        (Sink::Gather(Box::new(Gather { left: replies, keys, values: Value::Nil, done })), waiting)
    }

    pub(crate) fn confirm(kind: PushKind, count: usize) -> (Sink, Waiting) {
        let (done, waiting) = oneshot::channel();
        (Sink::Confirm { kind, left: count, done }, waiting)
    }

    /// How many replies it still waits for.
    pub(crate) fn due(&self) -> usize {
        match self {
            Sink::Batch(batch) => batch.left,
            Sink::Part(part) => part.ends.len() - part.answered,
            Sink::Confirm { left, .. } => *left,
            Sink::Read(read) => read.left,
            Sink::Gather(gather) => gather.left,
            Sink::One(_) | Sink::Again { .. } | Sink::Load(_) | Sink::Discard => 1,
        }
    }

    /// Whether it waits for a confirmation of that kind.
    pub(crate) fn awaits(&self, push: &PushKind) -> bool {
        matches!(self, Sink::Confirm { kind, .. } | Sink::Again { kind, .. } if kind == push)
    }
}

/// How to treat an entry.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manner {
    /// If cut off before its end, it has no effect at all, so it may be sent again as a whole: a single command, a
    /// transaction.
    pub whole: bool,
    /// It may take any time: a blocking command.
    pub patient: bool,
    /// It is the library's own: it does not keep open a connection that no user is left of.
    pub own: bool,
}

impl Manner {
    pub(crate) const ONE: Manner = Manner { whole: true, patient: false, own: false };
    pub(crate) const OWN: Manner = Manner { own: true, ..Manner::ONE };
}

/// Commands handed over together, with the bytes they take.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Bytes on the wire.
    pub len: usize,
    /// The connection's clock when it was queued.
    pub tick: u32,
    pub manner: Manner,
    pub sink: Sink,
}

impl Entry {
    /// Passes on the next reply. Only the last reply of an entry consumes the sink.
    #[inline]
    pub(crate) fn reply(&mut self, value: Value) -> Progress {
        match &mut self.sink {
            Sink::Batch(batch) => {
                // Large ones that nobody waits for any more are not gathered.
                let is_unwanted =
                    matches!(&value, Value::BulkString(bytes) if bytes.len() >= LARGE) && batch.done.is_closed();
                batch.replies.push(if is_unwanted { Value::Nil } else { value });
                batch.left -= 1;
                if batch.left > 0 {
                    return Progress::More;
                }
            }
            Sink::Part(part) => {
                part.reply(value);
                if part.answered < part.ends.len() {
                    return Progress::More;
                }
            }
            Sink::One(_) | Sink::Confirm { .. } => return self.last(Ok(value)),
            Sink::Read(read) => return read.reply(value).map_or(Progress::More, |value| self.last(Ok(value))),
            Sink::Gather(gather) => return gather.reply(value).map_or(Progress::More, |value| self.last(Ok(value))),
            Sink::Again { .. } | Sink::Load(_) | Sink::Discard => return Progress::Silent,
        }
        self.complete(None)
    }

    /// Counts a confirmation of a (un)subscribe command.
    pub(crate) fn confirmed(&mut self) -> Progress {
        match &mut self.sink {
            Sink::Confirm { left, .. } if *left > 1 => {
                *left -= 1;
                Progress::More
            }
            _ => self.last(Ok(Value::Okay)),
        }
    }

    /// Reports that no more replies come.
    pub(crate) fn fail(mut self, error: &RedisError, written: usize) {
        let broken = Broken { error: error.clone(), written };
        match &self.sink {
            Sink::Read(read) => read.flight.fail(&broken.error_at(self.len)),
            Sink::Gather(gather) => gather.fail(&broken.error_at(self.len)),
            _ => {}
        }
        match self.sink {
            Sink::One(_) | Sink::Confirm { .. } | Sink::Read(_) | Sink::Gather(_) => self.last(Err(broken)),
            _ => self.complete(Some(broken)),
        };
    }

    /// Publishes the replies a stream has so far, so that none waits for later ones.
    pub(crate) fn publish(&mut self) {
        if let Sink::Part(part) = &mut self.sink {
            part.publish();
        }
    }

    /// Cuts a part of a stream in two at a disconnect: commands that were sent fail, unless they may be sent again; the
    /// rest goes over the next link. `None` if nothing is left, and for other entries. `barred`: windows with later
    /// commands that may have been executed.
    pub(crate) fn cut(&mut self, written: usize, error: &RedisError, barred: &mut Vec<Arc<Window>>) -> Option<Rest> {
        let Sink::Part(part) = &mut self.sink else { return None };
        let sent = part.ends.partition_point(|&end| end as usize <= written);
        let is_barred = barred.iter().any(|window| Arc::ptr_eq(window, &part.window));
        let first = part.first_again(sent, is_barred);
        if first > part.answered && !is_barred {
            barred.push(part.window.clone());
        }
        if first == part.ends.len() {
            return None;
        }
        let cut = first.checked_sub(1).map_or(0, |last| part.ends[last]) as usize;
        part.fail_to(cut, &Broken { error: error.clone(), written });
        part.publish();
        part.remove_first(first, cut);
        let again = sent.saturating_sub(first);
        part.doubtful = part.doubtful.max(again);
        if let Some(sent_again) = part.again.as_mut().filter(|_| again > 0) {
            sent_again.retries_left -= 1;
        }
        self.len -= cut;
        Some(Rest { len: self.len, again })
    }

    /// The bytes of a part that is sent again.
    pub(crate) fn bytes_again(&self) -> &[u8] {
        match &self.sink {
            Sink::Part(part) => part.again.as_ref().map_or(&[], |again| &again.bytes),
            _ => &[],
        }
    }

    fn last(&mut self, outcome: Result<Value, Broken>) -> Progress {
        let done = match std::mem::replace(&mut self.sink, Sink::Discard) {
            Sink::One(done) | Sink::Confirm { done, .. } => Some(done),
            Sink::Read(read) => Some(read.done),
            Sink::Gather(gather) => Some(gather.done),
            _ => None,
        };
        match done.map(|done| done.send(outcome)) {
            Some(Ok(())) => Progress::Done,
            _ => Progress::Silent,
        }
    }

    fn complete(&mut self, broken: Option<Broken>) -> Progress {
        match std::mem::replace(&mut self.sink, Sink::Discard) {
            Sink::Batch(batch) => {
                let outcome = BatchOutcome { replies: batch.replies, broken };
                if batch.done.send(outcome).is_ok() { Progress::Done } else { Progress::Silent }
            }
            Sink::Part(mut part) => {
                if let Some(broken) = broken {
                    part.fail_to(usize::MAX, &broken);
                }
                part.publish();
                part.window.finish_part(self.len);
                Progress::Done
            }
            _ => Progress::Silent,
        }
    }
}

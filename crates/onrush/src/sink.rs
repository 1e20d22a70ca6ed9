//! Where replies go: the waiting side of each command in flight.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::cache::Ticket;
use crate::error::{ErrorKind, Fate, RedisError, RedisResult};
use crate::stream::Window;
use crate::value::{PushKind, Value};

/// Why no more replies come, and how many of the entry's bytes had been handed to the operating system.
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

    /// Whether the connection may come back, so that sending again makes sense. What has waited in the queue for the
    /// whole timeout has had its time.
    pub(crate) fn may_retry(&self) -> bool {
        match self.error.kind() {
            ErrorKind::Io | ErrorKind::Parse => true,
            ErrorKind::Timeout => self.written > 0,
            _ => false,
        }
    }
}

/// What a batch comes back with: its replies, and why they are not all, if they are not.
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

/// A part of a stream.
#[derive(Debug)]
pub(crate) struct Part {
    /// Where each command ends, counted from the first byte of the part.
    pub ends: Vec<u32>,
    /// The index of the first command in the stream.
    pub first: u64,
    /// How many commands are answered.
    pub answered: usize,
    pub replies: Vec<RedisResult<Value>>,
    pub window: Arc<Window>,
}

impl Part {
    /// Answers with an error all commands that end within the given length and have no answer yet.
    fn fail_to(&mut self, len: usize, broken: &Broken) {
        while let Some(&end) = self.ends.get(self.answered).filter(|&&end| end as usize <= len) {
            let index = self.first + self.answered as u64;
            self.answered += 1;
            self.window.add(Err(broken.error_at(end as usize)), index, &mut self.replies);
        }
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
    /// Nobody waits for that reply.
    Discard,
}

/// The replies of a read for the cache: one to CLIENT CACHING if that is needed, the key's time to live, and the read's.
#[derive(Debug)]
pub(crate) struct CachedRead {
    left: usize,
    ttl: Option<Value>,
    ticket: Ticket,
    done: oneshot::Sender<Result<Value, Broken>>,
}

impl CachedRead {
    /// Takes a reply; gives it back if it is the read's.
    fn reply(&mut self, value: Value) -> Option<Value> {
        self.left -= 1;
        match (self.left, value) {
            (0, value) => {
                self.ticket.keep(&value, self.ttl.as_ref());
                return Some(value);
            }
            (1, ttl) => self.ttl = Some(ttl),
            (_, Value::ServerError(_)) => self.ticket.void(),
            _ => {}
        }
        None
    }
}

/// What a reply has done to its sink.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More replies are due.
    More,
    /// It was the last; somebody was woken.
    Done,
    /// It was the last; nobody was waiting.
    Silent,
}

impl Sink {
    pub(crate) fn one() -> (Sink, oneshot::Receiver<Result<Value, Broken>>) {
        let (done, waiting) = oneshot::channel();
        (Sink::One(done), waiting)
    }

    pub(crate) fn batch(count: usize) -> (Sink, oneshot::Receiver<BatchOutcome>) {
        let (done, waiting) = oneshot::channel();
        (Sink::Batch(Box::new(Batch { left: count, replies: Vec::with_capacity(count), done })), waiting)
    }

    pub(crate) fn read(ticket: Ticket, replies: usize) -> (Sink, oneshot::Receiver<Result<Value, Broken>>) {
        let (done, waiting) = oneshot::channel();
        (Sink::Read(Box::new(CachedRead { left: replies, ttl: None, ticket, done })), waiting)
    }

    pub(crate) fn confirm(kind: PushKind, count: usize) -> (Sink, oneshot::Receiver<Result<Value, Broken>>) {
        let (done, waiting) = oneshot::channel();
        (Sink::Confirm { kind, left: count, done }, waiting)
    }

    /// How many replies it takes.
    pub(crate) fn replies(&self) -> usize {
        match self {
            Sink::Batch(batch) => batch.left,
            Sink::Part(part) => part.ends.len(),
            Sink::Read(read) => read.left,
            Sink::One(_) | Sink::Confirm { .. } | Sink::Again { .. } | Sink::Discard => 1,
        }
    }

    /// Whether it waits for a confirmation of that kind.
    pub(crate) fn awaits(&self, push: &PushKind) -> bool {
        matches!(self, Sink::Confirm { kind, .. } | Sink::Again { kind, .. } if kind == push)
    }
}

/// How an entry is to be treated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manner {
    /// Cut off before its end it has no effect at all, so it may be sent again as a whole: a single command, a
    /// transaction.
    pub whole: bool,
    /// It may take as long as it likes: a blocking command.
    pub patient: bool,
}

impl Manner {
    pub(crate) const ONE: Manner = Manner { whole: true, patient: false };
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
    /// Hands on the next reply. Only the last reply of an entry consumes the sink.
    #[inline]
    pub(crate) fn reply(&mut self, value: Value) -> Progress {
        match &mut self.sink {
            Sink::Batch(batch) => {
                batch.replies.push(value);
                batch.left -= 1;
                if batch.left > 0 {
                    return Progress::More;
                }
            }
            Sink::Part(part) => {
                let index = part.first + part.answered as u64;
                part.answered += 1;
                part.window.add(value.into_result(), index, &mut part.replies);
                if part.answered < part.ends.len() {
                    return Progress::More;
                }
            }
            Sink::One(_) | Sink::Confirm { .. } => return self.last(Ok(value)),
            Sink::Read(read) => {
                return match read.reply(value) {
                    Some(value) => self.last(Ok(value)),
                    None => Progress::More,
                };
            }
            Sink::Again { .. } | Sink::Discard => return Progress::Silent,
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

    /// How many replies it still waits for.
    pub(crate) fn due(&self) -> usize {
        match &self.sink {
            Sink::Batch(batch) => batch.left,
            Sink::Part(part) => part.ends.len() - part.answered,
            Sink::Confirm { left, .. } => *left,
            Sink::Read(read) => read.left,
            Sink::One(_) | Sink::Again { .. } | Sink::Discard => 1,
        }
    }

    /// Tells that no more replies come.
    pub(crate) fn fail(mut self, error: &RedisError, written: usize) {
        let broken = Broken { error: error.clone(), written };
        match self.sink {
            Sink::One(_) | Sink::Confirm { .. } | Sink::Read(_) => self.last(Err(broken)),
            _ => self.complete(Some(broken)),
        };
    }

    /// Publishes the replies a stream has so far, so that none waits for its neighbours.
    pub(crate) fn publish(&mut self) {
        if let Sink::Part(part) = &mut self.sink {
            part.window.publish(&mut part.replies);
        }
    }

    /// Cuts a part of a stream in two at a disconnect: the commands that were sent fail, the rest is to be sent again.
    /// Gives the length of the rest, or `None` for what is no such part.
    pub(crate) fn cut(&mut self, written: usize, error: &RedisError) -> Option<usize> {
        let Sink::Part(part) = &mut self.sink else { return None };
        part.fail_to(written, &Broken { error: error.clone(), written });
        part.window.publish(&mut part.replies);
        let cut = part.answered.checked_sub(1).map_or(0, |last| part.ends[last]);
        part.ends.drain(..part.answered);
        part.first += part.answered as u64;
        part.ends.iter_mut().for_each(|end| *end -= cut);
        part.window.finish_part(cut as usize, std::mem::take(&mut part.answered));
        self.len -= cut as usize;
        Some(self.len)
    }

    fn last(&mut self, outcome: Result<Value, Broken>) -> Progress {
        let done = match std::mem::replace(&mut self.sink, Sink::Discard) {
            Sink::One(done) => Some(done),
            Sink::Confirm { done, .. } => Some(done),
            Sink::Read(read) => Some(read.done),
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
                part.window.publish(&mut part.replies);
                part.window.finish_part(self.len, part.ends.len());
                Progress::Done
            }
            _ => Progress::Silent,
        }
    }
}

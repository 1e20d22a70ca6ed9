//! Where push messages go.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::error::{ErrorKind, RedisError, RedisResult};
use crate::link::feed::{Feed, Received, Receiver};
use crate::values::value::{PushInfo, PushKind, Value};

/// How many messages may wait for a slow reader. On a connection for subscriptions, the socket is then left unread,
/// unless a command is in flight, and the server keeps what is to come, up to its own limit; on a shared connection,
/// the oldest messages are dropped.
pub const PUSHES_MAX: usize = 1024;

/// How many bytes of messages may wait: as [`PUSHES_MAX`], but for one message that is larger.
pub const PUSHES_BYTES_MAX: usize = 16 << 20;

/// While a command is in flight the socket is read on, whoever reads the messages. From so many times the two limits on,
/// messages are dropped, and the reader is told of the gap.
const DROPPED_FROM: usize = 4;

/// Where a connection's push messages go.
#[derive(Debug)]
pub(crate) enum Outlet {
    /// To all listeners. One that falls behind loses the oldest messages and gets [`PushKind::Lagged`]; no reply waits
    /// for it.
    Broadcast(Arc<Feed>),
    /// To one reader, which gets all messages: while it is behind, the connection is not read, unless a reply is due.
    Lossless(Mutex<Channel>),
}

/// The messages of a lossless outlet.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    messages: VecDeque<PushInfo>,
    /// The memory that they take.
    bytes: usize,
    reader: Option<Waker>,
    driver: Option<Waker>,
    closed: bool,
}

impl Default for Outlet {
    fn default() -> Outlet {
        Outlet::Broadcast(Arc::default())
    }
}

impl Outlet {
    pub(crate) fn lossless() -> Outlet {
        Outlet::Lossless(Mutex::default())
    }

    /// Whether to expect arrays that RESP2 sends in place of pushes.
    pub(crate) fn is_lossless(&self) -> bool {
        matches!(self, Outlet::Lossless(_))
    }

    pub(crate) fn send(&self, push: PushInfo) {
        match self {
            Outlet::Broadcast(feed) => feed.send(push),
            Outlet::Lossless(channel) => channel.lock().add(push),
        }
    }

    /// Sends the confirmation of a command whose caller waits for it. A reader that is far behind does not get it: the
    /// caller gets the result anyway, and may subscribe to any number of channels before the reader reads.
    pub(crate) fn send_awaited(&self, push: PushInfo) {
        match self {
            Outlet::Lossless(channel) => {
                let mut channel = channel.lock();
                if channel.has_room(1) {
                    channel.add(push);
                }
            }
            Outlet::Broadcast(_) => self.send(push),
        }
    }

    /// Whether somebody listens to the pushes of a connection that others use for their replies.
    pub(crate) fn has_listeners(&self) -> bool {
        match self {
            Outlet::Broadcast(feed) => feed.has_receivers(),
            Outlet::Lossless(_) => true,
        }
    }

    /// Ready when the driver may read on.
    pub(crate) fn poll_ready(&self, cx: &Context<'_>) -> Poll<()> {
        let Outlet::Lossless(channel) = self else { return Poll::Ready(()) };
        let mut channel = channel.lock();
        if channel.has_room(1) {
            return Poll::Ready(());
        }
        channel.driver = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The next message of a lossless outlet; `None` at the end.
    pub(crate) fn poll_next(&self, cx: &Context<'_>) -> Poll<Option<PushInfo>> {
        let Outlet::Lossless(channel) = self else { return Poll::Ready(None) };
        let mut channel = channel.lock();
        if let Some(push) = channel.messages.pop_front() {
            channel.bytes -= memory_len(&push);
            // Only when half empty, so that reader and driver do not wake each other for every message.
            if channel.messages.len() <= PUSHES_MAX / 2 && channel.bytes <= PUSHES_BYTES_MAX / 2 {
                if let Some(driver) = channel.driver.take() {
                    driver.wake();
                }
            }
            return Poll::Ready(Some(push));
        }
        if channel.closed {
            return Poll::Ready(None);
        }
        channel.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Ends every receiver after its unread messages.
    pub(crate) fn close(&self) {
        match self {
            Outlet::Broadcast(feed) => feed.close(),
            Outlet::Lossless(channel) => {
                let mut channel = channel.lock();
                channel.closed = true;
                channel.wake_reader();
            }
        }
    }
}

impl Channel {
    fn add(&mut self, push: PushInfo) {
        // Repeated disconnects while the reader does not read are reported once.
        if push.kind == PushKind::Disconnection {
            let last = self.messages.iter().rev().map(|message| &message.kind);
            let mut last = last.peekable();
            let ended = last.next_if_eq(&&PushKind::Resubscribed).is_some();
            if last.next() == Some(&push.kind) {
                if ended {
                    let end = self.messages.pop_back();
                    self.bytes -= end.as_ref().map_or(0, memory_len);
                }
                return;
            }
        }
        if push.kind.is_news() && !self.has_room(DROPPED_FROM) {
            match self.messages.back_mut() {
                Some(PushInfo { kind: PushKind::Lagged(missed), .. }) => *missed += 1,
                _ => self.keep(lagged(1)),
            }
            return;
        }
        self.keep(push);
        self.wake_reader();
    }

    /// Whether less waits than so many times the limits allow.
    fn has_room(&self, times: usize) -> bool {
        self.messages.len() < times * PUSHES_MAX && self.bytes < times * PUSHES_BYTES_MAX
    }

    fn keep(&mut self, push: PushInfo) {
        self.bytes += memory_len(&push);
        self.messages.push_back(push);
    }

    fn wake_reader(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

/// The push messages of a shared connection: invalidations of cached keys, messages of subscribed channels, and all
/// other pushes of the server. RESP3 only.
#[derive(Debug)]
pub struct Pushes {
    receiver: Receiver,
}

impl Pushes {
    pub(crate) fn new(outlet: &Outlet) -> RedisResult<Pushes> {
        match outlet {
            Outlet::Broadcast(feed) => match feed.subscribe() {
                Some(receiver) => Ok(Pushes { receiver }),
                None => Err(RedisError::closed()),
            },
            Outlet::Lossless(_) => {
                Err(RedisError::new(ErrorKind::Client, "the pushes of a pub/sub connection are read from it itself"))
            }
        }
    }

    /// The next message, or `None` at the end, when the connection is closed for good. A reader more than
    /// [`PUSHES_MAX`] messages or [`PUSHES_BYTES_MAX`] behind gets [`PushKind::Lagged`] with the number of missed messages: a cache must then
    /// be dropped as a whole.
    pub async fn recv(&mut self) -> Option<PushInfo> {
        passed(self.receiver.recv().await)
    }

    /// The next message if one is there already.
    pub fn try_recv(&mut self) -> Option<PushInfo> {
        passed(self.receiver.try_recv())
    }
}

fn passed(received: Received) -> Option<PushInfo> {
    match received {
        Received::Message(push) => Some(push),
        Received::Lagged(missed) => Some(lagged(missed)),
        Received::Empty | Received::Closed => None,
    }
}

/// The memory that a message takes, in bytes.
pub(crate) fn memory_len(push: &PushInfo) -> usize {
    size_of::<PushInfo>() + push.data.iter().map(Value::memory_len).sum::<usize>()
}

fn lagged(missed: u64) -> PushInfo {
    PushInfo { kind: PushKind::Lagged(missed), data: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(len: usize) -> PushInfo {
        let data = vec![Value::BulkString(b"c".to_vec()), Value::BulkString(vec![0; len])];
        PushInfo { kind: PushKind::Message, data }
    }

    fn next(outlet: &Outlet) -> PushInfo {
        match outlet.poll_next(&Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(push)) => push,
            other => panic!("{other:?}"),
        }
    }

    /// As while a reply is due, when the socket is read whatever waits.
    #[test]
    fn what_a_resting_reader_is_owed_is_bounded_and_the_gap_is_told() {
        let waker = Context::from_waker(Waker::noop());
        for len in [10, 1 << 20] {
            let outlet = Outlet::lossless();
            let sent = 6 * PUSHES_MAX;
            let mut unread_from = None;
            for index in 0..sent {
                if outlet.poll_ready(&waker).is_pending() {
                    unread_from.get_or_insert(index);
                }
                outlet.send(message(len));
            }
            outlet.send(PushInfo { kind: PushKind::Unsubscribe, data: Vec::new() });
            let kept = PUSHES_MAX.min(PUSHES_BYTES_MAX.div_ceil(memory_len(&message(len))));
            assert_eq!(unread_from, Some(kept));
            let (mut messages, mut gaps, mut missed) = (0, 0, 0);
            let end = loop {
                match next(&outlet) {
                    PushInfo { kind: PushKind::Message, .. } => messages += 1,
                    PushInfo { kind: PushKind::Lagged(dropped), .. } => (gaps, missed) = (gaps + 1, missed + dropped),
                    other => break other,
                }
            };
            assert_eq!((end.kind, messages + missed as usize, gaps), (PushKind::Unsubscribe, sent, 1));
            assert!((DROPPED_FROM * kept - 4..=DROPPED_FROM * kept).contains(&messages), "{messages}");
            assert!(outlet.poll_ready(&waker).is_ready());
            outlet.send(message(len));
            assert_eq!(next(&outlet), message(len));
        }
    }
}

//! Messages for any number of receivers, in bounded memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::link::push::{PUSHES_BYTES_MAX, PUSHES_MAX, memory_len};
use crate::values::value::PushInfo;

/// Passes messages to all receivers. One that is too far behind loses the oldest messages, and no sender waits.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    state: Mutex<State>,
    news: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The messages that a receiver lacks, and the number of the first of them.
    messages: VecDeque<PushInfo>,
    first: u64,
    /// The memory that they take.
    bytes: usize,
    /// The number of the next message for each receiver.
    receivers: BTreeMap<u64, u64>,
    next_receiver: u64,
    closed: bool,
}

/// What a receiver gets.
#[derive(Debug, PartialEq)]
pub(crate) enum Received {
    Message(PushInfo),
    /// So many messages were dropped before it read them.
    Lagged(u64),
    /// There is none now.
    Empty,
    /// There will be none.
    Closed,
}

/// Receives all messages from its making on.
#[derive(Debug)]
pub(crate) struct Receiver {
    feed: Arc<Feed>,
    number: u64,
}

impl Feed {
    /// `None` when it is closed.
    pub(crate) fn subscribe(self: &Arc<Feed>) -> Option<Receiver> {
        let mut state = self.state.lock();
        if state.closed {
            return None;
        }
        let (number, end) = (state.next_receiver, state.end());
        state.next_receiver += 1;
        state.receivers.insert(number, end);
        Some(Receiver { feed: self.clone(), number })
    }

    pub(crate) fn has_receivers(&self) -> bool {
        !self.state.lock().receivers.is_empty()
    }

    pub(crate) fn send(&self, message: PushInfo) {
        let mut state = self.state.lock();
        if state.closed || state.receivers.is_empty() {
            return;
        }
        state.bytes += memory_len(&message);
        state.messages.push_back(message);
        while state.messages.len() > PUSHES_MAX || state.bytes > PUSHES_BYTES_MAX && state.messages.len() > 1 {
            state.drop_first();
        }
        drop(state);
        self.news.notify_waiters();
    }

    /// Receivers get what is there, and then the end.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.news.notify_waiters();
    }
}

impl State {
    /// The number of the next message.
    fn end(&self) -> u64 {
        self.first + self.messages.len() as u64
    }

    fn drop_first(&mut self) {
        if let Some(message) = self.messages.pop_front() {
            self.bytes -= memory_len(&message);
            self.first += 1;
        }
    }

    /// Drops what every receiver has.
    fn drop_received(&mut self) {
        let lacking = self.receivers.values().copied().min().unwrap_or_else(|| self.end());
        while self.first < lacking {
            self.drop_first();
        }
    }
}

impl Receiver {
    /// The next message if there is one. O(receivers).
    pub(crate) fn try_recv(&mut self) -> Received {
        let mut state = self.feed.state.lock();
        let (first, end, closed) = (state.first, state.end(), state.closed);
        let Some(next) = state.receivers.get_mut(&self.number) else { return Received::Closed };
        if *next < first {
            let missed = first - std::mem::replace(next, first);
            return Received::Lagged(missed);
        }
        if *next == end {
            return if closed { Received::Closed } else { Received::Empty };
        }
        let at = (*next - first) as usize;
        *next += 1;
        let is_last = state.receivers.len() == 1 && at == 0;
        if is_last {
            // Nobody else wants it, so it is not copied.
            if let Some(message) = state.messages.pop_front() {
                state.bytes -= memory_len(&message);
                state.first += 1;
                return Received::Message(message);
            }
        }
        let message = state.messages[at].clone();
        state.drop_received();
        Received::Message(message)
    }

    /// The next message, or the end. What it waits for may be dropped: no message is lost by that.
    pub(crate) async fn recv(&mut self) -> Received {
        loop {
            let feed = self.feed.clone();
            let news = feed.news.notified();
            tokio::pin!(news);
            // From here on it hears of each message.
            news.as_mut().enable();
            match self.try_recv() {
                Received::Empty => news.await,
                received => return received,
            }
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut state = self.feed.state.lock();
        state.receivers.remove(&self.number);
        state.drop_received();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::value::{PushKind, Value};

    fn message(number: i64, len: usize) -> PushInfo {
        PushInfo { kind: PushKind::Invalidate, data: vec![Value::Int(number), Value::BulkString(vec![0; len])] }
    }

    /// How many messages it has, and their bytes.
    fn held(feed: &Feed) -> (usize, usize) {
        let state = feed.state.lock();
        (state.messages.len(), state.bytes)
    }

    #[test]
    fn all_get_all_and_who_is_behind_learns_what_it_has_missed() {
        let feed = Arc::new(Feed::default());
        feed.send(message(0, 1));
        let (mut one, mut other) = (feed.subscribe().unwrap(), feed.subscribe().unwrap());
        for number in 0..3 {
            feed.send(message(number, 1));
            assert_eq!(one.try_recv(), Received::Message(message(number, 1)));
        }
        assert_eq!(one.try_recv(), Received::Empty);
        assert_eq!(held(&feed).0, 3);
        (0..3).for_each(|number| assert_eq!(other.try_recv(), Received::Message(message(number, 1))));
        assert_eq!(held(&feed), (0, 0));
        let sent = PUSHES_MAX as i64 + 10;
        (0..sent).for_each(|number| feed.send(message(number, 1)));
        assert_eq!((one.try_recv(), one.try_recv()), (Received::Lagged(10), Received::Message(message(10, 1))));
        drop(other);
        drop(one);
        assert!(!feed.has_receivers());
        assert_eq!(held(&feed), (0, 0));
    }

    #[test]
    fn few_large_messages_are_kept() {
        let feed = Arc::new(Feed::default());
        let mut receiver = feed.subscribe().unwrap();
        (0..100).for_each(|number| feed.send(message(number, 1 << 20)));
        assert!(held(&feed).1 <= PUSHES_BYTES_MAX);
        assert_eq!(receiver.try_recv(), Received::Lagged(85));
        feed.send(message(100, 2 * PUSHES_BYTES_MAX));
        assert_eq!(receiver.try_recv(), Received::Lagged(15));
        assert!(matches!(receiver.try_recv(), Received::Message(_)));
        feed.close();
        assert_eq!((receiver.try_recv(), feed.subscribe().is_none()), (Received::Closed, true));
    }

    #[tokio::test]
    async fn no_message_is_missed_by_who_waits() {
        let feed = Arc::new(Feed::default());
        let mut receiver = feed.subscribe().unwrap();
        let sender = tokio::spawn(async move {
            for number in 0..500 {
                feed.send(message(number, 1));
                tokio::task::yield_now().await;
            }
            feed.close();
        });
        for number in 0..500 {
            assert_eq!(receiver.recv().await, Received::Message(message(number, 1)));
        }
        assert_eq!(receiver.recv().await, Received::Closed);
        sender.await.unwrap();
    }
}

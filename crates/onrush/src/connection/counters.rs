//! Counters of what went over a connection.

use std::sync::atomic::{AtomicU64, Ordering};

/// What went over a connection since it was opened, by [`Connection::counters`](crate::Connection::counters).
///
/// The driver counts once for each read and write, not for each command: a reply that a task has already may be counted
/// a moment later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Commands given to the connection; a command that is sent again counts again.
    pub commands: u64,
    /// Replies that have come.
    pub replies: u64,
    /// Commands whose replies did not come: lost with a connection, or given up before they were sent.
    pub lost: u64,
    /// Commands that are queued or sent and have no reply yet.
    pub in_flight: u64,
    /// Bytes of commands that wait to be written.
    pub queued_bytes: u64,
    /// How often gathered commands were taken to be written. `commands` divided by `batches` shows how well they are
    /// pipelined.
    pub batches: u64,
    /// Bytes written.
    pub sent_bytes: u64,
    /// Bytes read.
    pub received_bytes: u64,
    /// Connections made in place of broken ones.
    pub reconnects: u64,
    /// Commands that were sent again.
    pub retries: u64,
}

impl Counters {
    /// The sums of those of two connections.
    pub(crate) fn plus(self, other: Counters) -> Counters {
        Counters {
            commands: self.commands + other.commands,
            replies: self.replies + other.replies,
            lost: self.lost + other.lost,
            in_flight: self.in_flight + other.in_flight,
            queued_bytes: self.queued_bytes + other.queued_bytes,
            batches: self.batches + other.batches,
            sent_bytes: self.sent_bytes + other.sent_bytes,
            received_bytes: self.received_bytes + other.received_bytes,
            reconnects: self.reconnects + other.reconnects,
            retries: self.retries + other.retries,
        }
    }

    /// With what the queue knows.
    pub(crate) fn of_commands(mut self, commands: u64, queued_bytes: usize) -> Counters {
        self.commands = commands;
        self.in_flight = commands.saturating_sub(self.replies + self.lost);
        self.queued_bytes = queued_bytes as u64;
        self
    }
}

/// The counts of the driver and, where noted, of other code.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    replies: AtomicU64,
    batches: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    reconnects: AtomicU64,
    /// Counted by the code that fails an entry.
    lost: AtomicU64,
    /// Counted by the code that sends again.
    retries: AtomicU64,
}

/// Adds without an atomic operation: only one thread may add.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

impl Tally {
    pub(crate) fn batch(&self) {
        add(&self.batches, 1);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        add(&self.sent, bytes as u64);
    }

    pub(crate) fn received(&self, bytes: usize, replies: u64) {
        add(&self.received, bytes as u64);
        add(&self.replies, replies);
    }

    pub(crate) fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Relaxed)
    }

    pub(crate) fn reconnect(&self) {
        add(&self.reconnects, 1);
    }

    pub(crate) fn lost(&self, commands: usize) {
        self.lost.fetch_add(commands as u64, Ordering::Relaxed);
    }

    pub(crate) fn retry(&self, commands: usize) {
        self.retries.fetch_add(commands as u64, Ordering::Relaxed);
    }

    pub(crate) fn counters(&self) -> Counters {
        Counters {
            replies: self.replies.load(Ordering::Relaxed),
            batches: self.batches.load(Ordering::Relaxed),
            sent_bytes: self.sent.load(Ordering::Relaxed),
            received_bytes: self.received.load(Ordering::Relaxed),
            reconnects: self.reconnects.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            retries: self.retries.load(Ordering::Relaxed),
            ..Counters::default()
        }
    }
}

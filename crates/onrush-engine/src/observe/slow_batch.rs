//! The slow log of batches: where the time of a batch went, from the read that brought it to the write of its last reply.

use std::time::Duration;

/// A batch: how large it was, and what its time was spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchTimes {
    /// Before its execution began, and between its slices: others were executed.
    pub waiting: Duration,
    /// Its chunks were executed, with those of others that were in them.
    pub executing: Duration,
    /// Its replies waited until what it wrote was on disk.
    pub syncing: Duration,
    /// All was executed, but the client had not read enough replies for the rest to be written.
    pub flushing: Duration,
    /// Commands.
    pub commands: u64,
    /// Bytes of the commands.
    pub bytes: u64,
}

impl BatchTimes {
    /// All of it.
    pub fn total(&self) -> Duration {
        self.waiting + self.executing + self.syncing + self.flushing
    }
}

/// A batch that took long.
pub(crate) struct SlowBatch {
    /// Ascending, never used twice.
    pub id: u64,
    /// Unix time in seconds.
    pub at_s: i64,
    /// Where its time went.
    pub times: BatchTimes,
    /// The client's address.
    pub addr: String,
    /// The client's name.
    pub name: Vec<u8>,
}

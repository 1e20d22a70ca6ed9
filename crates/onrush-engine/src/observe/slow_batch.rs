//! The slow log of batches: where the time of a batch went, from the read that brought it to the write of its last reply.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clients::client::ClientHandle;

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

#[derive(Default)]
struct Batches {
    list: VecDeque<SlowBatch>,
    next_id: u64,
}

/// Batches that took long, the latest first.
#[derive(Default)]
pub(crate) struct BatchLog(Mutex<Batches>);

impl BatchLog {
    pub(crate) fn add(&self, client: &ClientHandle, times: BatchTimes, at_s: i64, len_max: usize) {
        let name = client.short_name();
        let mut batches = self.0.lock();
        let id = batches.next_id;
        batches.next_id += 1;
        batches.list.push_front(SlowBatch { id, at_s, times, addr: client.addr.clone(), name });
        batches.list.truncate(len_max);
    }

    /// Forgets all batches.
    pub(crate) fn reset(&self) {
        self.0.lock().list = VecDeque::new();
    }

    /// Calls `tell` with how many there are of the latest `count` batches, and with each of them.
    pub(crate) fn latest(&self, count: usize, tell: impl FnOnce(usize, &mut dyn Iterator<Item = &SlowBatch>)) {
        let batches = self.0.lock();
        let len = batches.list.len().min(count);
        tell(len, &mut batches.list.iter().take(len));
    }
}

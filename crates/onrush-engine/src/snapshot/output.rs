//! Where snapshots are written.

use std::io;
use std::sync::Arc;

use onrush_persist::storage::StorageFile;

/// What a snapshot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A file by itself (SAVE, BGSAVE).
    File,
    /// The base of the append-only file.
    LogBase,
    /// Replicas that need all data.
    Replicas,
    /// Slots that go to another node of the cluster.
    Slots,
}

/// Why a snapshot has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoResult {
    /// It could not be written.
    Failed(String),
    /// It is no longer wanted.
    Unwanted(String),
}

/// Takes the encoded items of a snapshot, in the RDB format, in any order.
pub trait Output: Send {
    /// Whether it takes commands of the protocol instead of items.
    fn takes_commands(&self) -> bool {
        false
    }

    /// Writes the header before the items. The whole keyspace is locked.
    ///
    /// # Errors
    /// The system's; so with the others.
    fn begin(&mut self, version: u16) -> io::Result<()>;

    /// Writes whole items.
    fn write(&mut self, items: &[u8]) -> io::Result<()>;

    /// The file, if so much was written that it should be synced now. The caller does that without a lock.
    fn take_due_sync(&mut self) -> Option<Arc<dyn StorageFile>> {
        None
    }

    /// Completes it, so that it survives a failure of the machine. Returns its length in bytes.
    fn finish(self: Box<Self>) -> io::Result<u64>;

    /// Discards it: what was written is of no use.
    fn abandon(self: Box<Self>, why: &NoResult);
}

//! The refusal of writes while the data cannot be saved.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::error::CommandError;

/// The error for writes after a snapshot has failed.
pub const SNAPSHOT_FAILED: CommandError = CommandError::fixed(
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that \
     may modify the data set are disabled, because this instance is configured to report errors during writes if RDB \
     snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB \
     error.",
);

/// Why writes are refused, if they are.
#[derive(Debug, Default)]
pub struct WriteRefusal {
    is_on: AtomicBool,
    error: Mutex<Option<CommandError>>,
}

impl WriteRefusal {
    /// Refuses writes with this error, or admits them again.
    pub fn set(&self, error: Option<CommandError>) {
        let mut present = self.error.lock();
        self.is_on.store(error.is_some(), Relaxed);
        *present = error;
    }

    /// Whether they are refused.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// The error for writes, if they are refused.
    #[cold]
    pub(crate) fn get(&self) -> Option<CommandError> {
        self.error.lock().clone()
    }
}

//! The refusal of writes while the data cannot be saved.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::error::CommandError;

/// The error for writes after a snapshot has failed.
pub(crate) const SNAPSHOT_FAILED: CommandError = CommandError::fixed(
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that \
     may modify the data set are disabled, because this instance is configured to report errors during writes if RDB \
     snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB \
     error.",
);

/// The error for writes of a connection whose wish (CLIENT DURABILITY ALWAYS) cannot be fulfilled any more.
pub(crate) const NOT_DURABLE: CommandError = CommandError::fixed(
    "MISCONF CLIENT DURABILITY ALWAYS needs the append-only file, which was turned off (appendonly no)",
);

/// Why writes are refused, if they are.
#[derive(Debug, Default)]
pub struct WriteRefusal {
    is_on: AtomicBool,
    /// Whether there may be connections that want each write on the disk though there is no log any more.
    lacks_log: AtomicBool,
    reasons: Mutex<Reasons>,
}

#[derive(Debug, Default)]
struct Reasons {
    has_snapshot_failed: bool,
    log: Option<CommandError>,
}

impl WriteRefusal {
    /// Sets whether writes are refused because the last snapshot has failed.
    pub fn set_snapshot_failed(&self, has_failed: bool) {
        self.change(|reasons| reasons.has_snapshot_failed = has_failed);
    }

    /// Sets why the log cannot be written, if it cannot.
    pub fn set_log_error(&self, error: Option<&str>) {
        let text = |error| CommandError::text(format!("MISCONF Errors writing to the AOF file: {error}"));
        self.change(|reasons| reasons.log = error.map(text));
    }

    fn change(&self, change: impl FnOnce(&mut Reasons)) {
        let mut reasons = self.reasons.lock();
        change(&mut reasons);
        self.is_on.store(reasons.has_snapshot_failed || reasons.log.is_some(), Relaxed);
    }

    /// Sets whether a log that connections rely on was turned off.
    pub fn set_lacks_log(&self, lacks: bool) {
        self.lacks_log.store(lacks, Relaxed);
    }

    /// Whether any command may be refused.
    #[inline]
    pub(crate) fn may_refuse(&self) -> bool {
        self.is_on.load(Relaxed) | self.lacks_log.load(Relaxed)
    }

    /// Whether they are refused.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// The error for writes, if they are refused.
    #[cold]
    pub(crate) fn get(&self) -> Option<CommandError> {
        let reasons = self.reasons.lock();
        if reasons.has_snapshot_failed { Some(SNAPSHOT_FAILED) } else { reasons.log.clone() }
    }
}

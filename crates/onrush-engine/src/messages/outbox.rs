//! A client's outbox: messages that its worker has not moved into its replies yet.
//!
//! It holds references to encoded messages: clients share the messages that a slow client has not read. An outbox
//! together with the unread replies is bounded by an [`OutputLimit`] (`client-output-buffer-limit`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

/// Encoded messages that are sent together.
pub(crate) struct Parcel {
    pub(super) bytes: Arc<Vec<u8>>,
    /// Bytes of all parcels.
    sum: &'static AtomicU64,
}

impl Parcel {
    /// Makes one from encoded messages, whose bytes count in `sum` as long as it exists.
    pub(crate) fn new(bytes: Vec<u8>, sum: &'static AtomicU64) -> Arc<Self> {
        sum.fetch_add(bytes.len() as u64, Relaxed);
        Arc::new(Self { bytes: Arc::new(bytes), sum })
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        self.sum.fetch_sub(self.bytes.len() as u64, Relaxed);
    }
}

/// See the module's text.
#[derive(Default)]
pub(crate) struct Outbox(pub(super) Mutex<Contents>);

#[derive(Default)]
pub(super) struct Contents {
    pub(super) parcels: VecDeque<Arc<Parcel>>,
    pub(super) bytes: usize,
    /// Whether the client's worker knows that there are messages.
    pub(super) is_told: bool,
    /// Whether it no longer accepts messages.
    pub(super) is_closed: bool,
    /// When the bytes passed the soft limit, in Unix milliseconds.
    pub(super) strained_since_ms: Option<i64>,
}

/// How many messages wait in an outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Parcels of messages.
    pub parcels: usize,
    /// Bytes.
    pub bytes: usize,
}

/// Limits on unread bytes for one class of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputLimit {
    /// From this many bytes on the client is closed at once; 0 is no limit.
    pub hard_bytes: u64,
    /// From this many bytes on it is closed after [`soft_seconds`](Self::soft_seconds); 0 is no limit.
    pub soft_bytes: u64,
    /// How long it may stay at the soft limit.
    pub soft_seconds: u64,
}

impl OutputLimit {
    /// Whether a client with this many unread bytes must be closed. `since_ms`: when it reached the soft limit.
    pub fn is_passed(&self, bytes: u64, since_ms: &mut Option<i64>, now_ms: impl Fn() -> i64) -> bool {
        if self.hard_bytes > 0 && bytes >= self.hard_bytes {
            return true;
        }
        if self.soft_bytes == 0 || bytes < self.soft_bytes {
            *since_ms = None;
            return false;
        }
        let now_ms = now_ms();
        (now_ms - *since_ms.get_or_insert(now_ms)) / 1000 > self.soft_seconds as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_passed_at_once_or_after_its_time() {
        let limit = OutputLimit { hard_bytes: 100, soft_bytes: 50, soft_seconds: 2 };
        let mut since = None;
        let mut passed = |bytes, now_ms| limit.is_passed(bytes, &mut since, || now_ms);
        assert!(!passed(99, 1_000));
        assert!(!passed(50, 3_999));
        assert!(passed(50, 4_000), "more than two whole seconds");
        assert!(!passed(49, 4_000), "it has read");
        assert!(!passed(50, 4_500));
        assert!(passed(100, 4_500));
        assert!(!OutputLimit::default().is_passed(u64::MAX, &mut None, || 0));
    }
}

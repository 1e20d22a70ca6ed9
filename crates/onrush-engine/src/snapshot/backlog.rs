//! What a snapshot has encoded and not written yet.
//!
//! Only the thread for snapshots writes. A thread that changes keys adds what it must save first and goes on, whatever
//! the disk does. When too much waits, commands that write are held back before they begin, as by CLIENT PAUSE, until
//! the disk has taken half of it; all others go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use onrush_persist::Buffer;
use parking_lot::Mutex;

/// Encoded bytes that may wait to be written. One command may add as much as it changes beyond that.
pub(super) const WAITING_BYTES_MAX: usize = 8 << 20;

/// Writers go on when this much is left.
const WAITING_BYTES_RESUME: usize = WAITING_BYTES_MAX / 2;

/// Bytes of large strings that writers have replaced and that are still to be encoded.
pub(super) const REPLACED_BYTES_MAX: usize = 256 << 20;

/// Blocks that wait are written together, up to this many bytes.
const WRITE_LEN_MAX: usize = 1 << 20;

/// See the module's text.
#[derive(Default)]
pub(super) struct Backlog {
    blocks: Mutex<Vec<Buffer>>,
    /// Encoded bytes that are not written.
    bytes: AtomicUsize,
    bytes_max: AtomicUsize,
    replaced_bytes: AtomicUsize,
    /// Writes that have ended.
    writes: AtomicU64,
    /// Whether commands that write are held back.
    is_behind: Arc<AtomicBool>,
}

impl Backlog {
    /// An empty one, which says in `is_behind` whether too much waits.
    pub(super) fn new(is_behind: Arc<AtomicBool>) -> Self {
        Self { is_behind, ..Self::default() }
    }

    /// Adds a block. O(1).
    pub(super) fn push(&self, block: Buffer) {
        let bytes = self.bytes.fetch_add(block.len(), Relaxed) + block.len();
        self.bytes_max.fetch_max(bytes, Relaxed);
        self.blocks.lock().push(block);
        if bytes > WAITING_BYTES_MAX {
            self.is_behind.store(true, Relaxed);
        }
    }

    /// Notes a large string that a writer replaces.
    pub(super) fn add_replaced(&self, bytes: usize) {
        if self.replaced_bytes.fetch_add(bytes, Relaxed) + bytes > REPLACED_BYTES_MAX {
            self.is_behind.store(true, Relaxed);
        }
    }

    /// Such a string is encoded.
    pub(super) fn remove_replaced(&self, bytes: usize) {
        self.replaced_bytes.fetch_sub(bytes, Relaxed);
        self.look();
    }

    /// Calls `write` for all that waits, for several blocks together. No lock is held meanwhile.
    pub(super) fn write(&self, mut write: impl FnMut(&[u8])) {
        let mut blocks = std::mem::take(&mut *self.blocks.lock()).into_iter().peekable();
        while let Some(mut block) = blocks.next() {
            while let Some(next) = blocks.next_if(|next| block.len() + next.len() <= WRITE_LEN_MAX) {
                block.extend_from_slice(&next);
            }
            write(&block);
            self.writes.fetch_add(1, Relaxed);
            self.bytes.fetch_sub(block.len(), Relaxed);
            self.look();
        }
    }

    /// Drops what waits: it is of no use any more. Nobody is held back then.
    pub(super) fn clear(&self) {
        let blocks = std::mem::take(&mut *self.blocks.lock());
        self.bytes.fetch_sub(blocks.iter().map(|block| block.len()).sum(), Relaxed);
        self.is_behind.store(false, Relaxed);
    }

    /// Lets writers go on if enough is written.
    fn look(&self) {
        let is_low = self.bytes.load(Relaxed) <= WAITING_BYTES_RESUME;
        if is_low && self.replaced_bytes.load(Relaxed) <= REPLACED_BYTES_MAX {
            self.is_behind.store(false, Relaxed);
        }
    }

    /// Writes that have ended.
    pub(super) fn writes(&self) -> u64 {
        self.writes.load(Relaxed)
    }

    /// Encoded bytes that are not written.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// The most of them so far.
    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_are_held_back_until_half_is_written() {
        let is_behind = Arc::new(AtomicBool::new(false));
        let backlog = Backlog::new(Arc::clone(&is_behind));
        let block = 64 << 10;
        while !is_behind.load(Relaxed) {
            backlog.push(vec![0; block].into());
        }
        assert!((WAITING_BYTES_MAX..WAITING_BYTES_MAX + 2 * block).contains(&backlog.bytes()));
        let (mut lens, mut resumed_at) = (Vec::new(), None);
        backlog.write(|bytes| {
            lens.push(bytes.len());
            if !is_behind.load(Relaxed) {
                resumed_at.get_or_insert(lens.iter().sum::<usize>());
            }
        });
        assert!(lens.iter().all(|len| *len <= WRITE_LEN_MAX) && lens.len() <= 18, "{lens:?}");
        assert!(resumed_at.is_some_and(|at| at >= WAITING_BYTES_MAX / 2), "{resumed_at:?}");
        assert_eq!((backlog.bytes(), backlog.writes()), (0, lens.len() as u64));
        backlog.add_replaced(REPLACED_BYTES_MAX + 1);
        assert!(is_behind.load(Relaxed));
        backlog.remove_replaced(1);
        assert!(!is_behind.load(Relaxed));
    }

    #[test]
    fn what_is_dropped_during_a_write_is_not_counted_twice() {
        let backlog = Backlog::new(Arc::default());
        (0..40).for_each(|_| backlog.push(vec![0; WRITE_LEN_MAX].into()));
        backlog.write(|_| {
            backlog.push(vec![0; 10].into());
            backlog.clear();
        });
        assert_eq!(backlog.bytes(), 0);
        assert!(!backlog.is_behind.load(Relaxed));
    }
}

//! Freeing large values on a thread of its own.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::sleep;
use std::time::{Duration, Instant};

use onrush_alloc::FreesMuch;
use onrush_store::{Cleared, Removed, Value};

/// From this many allocations on a value is freed in the background (as in Redis).
const BACKGROUND_EFFORT_MIN: usize = 64;

/// From this many bytes on a value is freed in the background: it is mapped by itself, and giving it back to the system takes a
/// while. Smaller ones are freed where they were allocated, so that the next one gets their pages.
const BACKGROUND_BYTES_MIN: usize = onrush_alloc::huge::BYTES_MIN;

/// Blocks that one thread frees for those that have allocated them, before these take them back.
const FREED_AT_ONCE: usize = 8 << 10;

/// How long the freeing rests then, at least: others want the processor as well.
const REST_MIN: Duration = Duration::from_millis(1);

/// Has the threads that have allocated what is stored take back what others have freed, and waits for them a little; `false`:
/// it does not, since memory is needed at once.
type TakeBack = Box<dyn Fn() -> bool + Send + Sync>;

/// Something that was taken out of the store.
pub enum Garbage {
    /// An entry.
    Entry(Removed),
    /// A value.
    Value(Value),
    /// All entries of some tables, to be freed before the reply to the command.
    Tables(Vec<Cleared>),
}

impl From<Removed> for Garbage {
    fn from(removed: Removed) -> Self {
        Self::Entry(removed)
    }
}

impl From<Value> for Garbage {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

impl Garbage {
    /// Whether freeing it takes so long that it should happen in the background.
    pub(crate) fn is_expensive(&self) -> bool {
        // Bytes are counted only for values with few allocations, where that is quick.
        match self {
            Self::Entry(entry) => {
                entry.free_effort() >= BACKGROUND_EFFORT_MIN || entry.size_bytes() >= BACKGROUND_BYTES_MIN
            }
            Self::Value(value) => {
                value.free_effort() >= BACKGROUND_EFFORT_MIN || value.as_ref().len() >= BACKGROUND_BYTES_MIN
            }
            Self::Tables(_) => false,
        }
    }

    /// The memory that freeing an entry or a value gives back, in bytes. O(parts of a collection).
    fn size_bytes(&self) -> usize {
        match self {
            Self::Entry(entry) => entry.size_bytes(),
            Self::Value(Value::Shared(bytes)) => bytes.capacity(),
            Self::Value(Value::Collection(collection)) => collection.as_ref().size_bytes(),
            Self::Value(_) | Self::Tables(_) => 0,
        }
    }
}

/// Hands values to the freeing thread. Until there is one, the caller frees them.
#[derive(Default)]
pub struct LazyFree {
    queue: OnceLock<Sender<Box<dyn Send>>>,
    counts: Arc<Counts>,
    take_back: Arc<OnceLock<TakeBack>>,
}

#[derive(Default)]
struct Counts {
    pending: AtomicU64,
    pending_bytes: AtomicU64,
    freed: AtomicU64,
}

impl LazyFree {
    /// The values to free from now on: the receiver drops them. The freeing thread calls this once.
    pub fn open(&self) -> impl Iterator<Item = Box<dyn Send>> + Send + use<> {
        let (queue, garbage) = channel();
        // There is one such thread.
        let _ = self.queue.set(queue);
        garbage.into_iter()
    }

    /// How the threads that have allocated what is stored take it back. The server calls this once.
    pub fn set_take_back(&self, take_back: impl Fn() -> bool + Send + Sync + 'static) {
        // There is one server.
        let _ = self.take_back.set(Box::new(take_back));
    }

    /// To free much that other threads have allocated.
    pub(crate) fn returning(&self) -> Returning {
        Returning::new(&self.take_back)
    }

    /// Drops all entries of some tables in the background; they count as `objects`.
    pub(crate) fn free_tables(&self, tables: Vec<Cleared>, objects: u64) {
        let take_back = Arc::clone(&self.take_back);
        self.free_later(Box::new(Tables { tables, take_back }), objects, 0);
    }

    /// Drops a value: here if that is quick, otherwise in the background.
    pub(crate) fn free(&self, garbage: Garbage) {
        if garbage.is_expensive() {
            let bytes = garbage.size_bytes();
            self.free_later(Box::new(garbage), 1, bytes);
        }
    }

    /// Drops anything in the background; it counts as `objects` and takes `bytes` of memory, 0 if that is little or unknown.
    pub fn free_later(&self, garbage: Box<dyn Send>, objects: u64, bytes: usize) {
        let bytes = bytes as u64;
        self.counts.pending.fetch_add(objects, Relaxed);
        self.counts.pending_bytes.fetch_add(bytes, Release);
        let counted = Box::new(Counted { garbage: Some(garbage), objects, bytes, counts: Arc::clone(&self.counts) });
        if let Some(queue) = self.queue.get() {
            // Sending fails only if the thread is gone; then the value is dropped here.
            drop(queue.send(counted));
        }
    }

    /// Objects waiting to be freed.
    pub(crate) fn pending(&self) -> u64 {
        self.counts.pending.load(Relaxed)
    }

    /// Their memory in bytes, as far as it is known.
    pub(crate) fn pending_bytes(&self) -> u64 {
        self.counts.pending_bytes.load(Acquire)
    }

    /// Objects freed in the background so far.
    pub(crate) fn freed(&self) -> u64 {
        self.counts.freed.load(Relaxed)
    }

    /// CONFIG RESETSTAT.
    pub(crate) fn reset_freed(&self) {
        self.counts.freed.store(0, Relaxed);
    }
}

/// Gives memory back to the threads that have allocated it, in pieces. Each of them has a list of what others have freed, and
/// puts it in order when it allocates or tidies up, up to 500 ns a block: with a million of them it would serve nobody meanwhile.
pub(crate) struct Returning {
    take_back: Arc<OnceLock<TakeBack>>,
    blocks: usize,
    _frees: FreesMuch,
}

impl Returning {
    fn new(take_back: &Arc<OnceLock<TakeBack>>) -> Self {
        Self { take_back: Arc::clone(take_back), blocks: 0, _frees: FreesMuch::default() }
    }

    /// So many blocks were freed. Rests from time to time, unless memory is short: nobody may wait for this thread.
    pub(crate) fn note(&mut self, blocks: usize) {
        self.blocks += blocks;
        if self.blocks < FREED_AT_ONCE || onrush_alloc::is_short() {
            return;
        }
        self.blocks = 0;
        let Some(take_back) = self.take_back.get() else { return };
        let began = Instant::now();
        if take_back() {
            // Whoever took it back served nobody meanwhile, and does as long now.
            sleep(began.elapsed().max(REST_MIN));
        }
    }
}

struct Tables {
    tables: Vec<Cleared>,
    take_back: Arc<OnceLock<TakeBack>>,
}

impl Drop for Tables {
    fn drop(&mut self) {
        let mut returning = Returning::new(&self.take_back);
        for table in self.tables.drain(..) {
            table.free(&mut |blocks| returning.note(blocks));
        }
    }
}

struct Counted {
    garbage: Option<Box<dyn Send>>,
    objects: u64,
    bytes: u64,
    counts: Arc<Counts>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.garbage = None;
        // Memory is no longer in use before it stops to count as memory about to be freed.
        onrush_alloc::settle();
        self.counts.pending_bytes.fetch_sub(self.bytes, Release);
        self.counts.pending.fetch_sub(self.objects, Relaxed);
        self.counts.freed.fetch_add(self.objects, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn owners_take_back_piece_by_piece() {
        let (lazyfree, asked) = (LazyFree::default(), Arc::new(AtomicUsize::new(0)));
        let mut before = lazyfree.returning();
        before.note(FREED_AT_ONCE);
        let count = Arc::clone(&asked);
        lazyfree.set_take_back(move || {
            count.fetch_add(1, Relaxed);
            true
        });
        let mut returning = lazyfree.returning();
        for _ in 0..10 * FREED_AT_ONCE / 1000 {
            returning.note(1000);
        }
        let pieces = asked.load(Relaxed);
        assert!((8..=10).contains(&pieces), "{pieces}");
        returning.note(FREED_AT_ONCE);
        assert_eq!(asked.load(Relaxed), pieces + 1);
    }
}

//! Freeing large values on a thread of its own.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};

use onrush_store::{Cleared, Removed, Value};

/// From this many allocations on a value is freed in the background (as in Redis).
const BACKGROUND_EFFORT_MIN: usize = 64;

/// From this many bytes on a value is freed in the background: it is mapped by itself, and giving it back to the system takes a
/// while. Smaller ones are freed where they were allocated, so that the next one gets their pages.
const BACKGROUND_BYTES_MIN: usize = onrush_alloc::huge::BYTES_MIN;

/// Something that left the store.
pub enum Garbage {
    /// An entry.
    Entry(Removed),
    /// A value.
    Value(Value),
    /// All entries of some tables, of which somebody asked that they are freed before he is answered.
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
    /// Whether freeing it takes so long that it is better done in the background.
    pub(crate) fn is_expensive(&self) -> bool {
        // Bytes are counted only where that is quick, of what has few allocations.
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
}

/// The way to the freeing thread. Until there is one, everything is freed where it is handed over.
#[derive(Default)]
pub struct LazyFree {
    queue: OnceLock<Sender<Box<dyn Send>>>,
    pending: Arc<AtomicU64>,
    freed: Arc<AtomicU64>,
}

impl LazyFree {
    /// What is to be freed from now on; dropping it is all there is to do. To be called once, by the thread that frees.
    pub fn open(&self) -> impl Iterator<Item = Box<dyn Send>> + Send + use<> {
        let (queue, garbage) = channel();
        // There is one such thread.
        let _ = self.queue.set(queue);
        garbage.into_iter()
    }

    /// Drops what left the store: here if that is quick, else in the background.
    pub fn free(&self, garbage: Garbage) {
        if garbage.is_expensive() {
            self.free_later(Box::new(garbage), 1);
        }
    }

    /// Drops anything in the background; it counts as `objects`.
    pub fn free_later(&self, garbage: Box<dyn Send>, objects: u64) {
        self.pending.fetch_add(objects, Relaxed);
        let counted = Box::new(Counted(garbage, objects, Arc::clone(&self.pending), Arc::clone(&self.freed)));
        if let Some(queue) = self.queue.get() {
            // A send fails only when the thread is gone; then the value is dropped here.
            drop(queue.send(counted));
        }
    }

    /// Objects waiting to be freed.
    pub fn pending(&self) -> u64 {
        self.pending.load(Relaxed)
    }

    /// Objects freed in the background so far.
    pub fn freed(&self) -> u64 {
        self.freed.load(Relaxed)
    }

    /// CONFIG RESETSTAT.
    pub fn reset_freed(&self) {
        self.freed.store(0, Relaxed);
    }
}

struct Counted(#[allow(dead_code, reason = "held for its drop")] Box<dyn Send>, u64, Arc<AtomicU64>, Arc<AtomicU64>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.2.fetch_sub(self.1, Relaxed);
        self.3.fetch_add(self.1, Relaxed);
    }
}

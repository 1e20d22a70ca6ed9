//! Slots that threads look at without a lock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use onrush_cluster::slots::SLOTS;

/// Words of a bit for each slot.
pub(super) const WORDS: usize = SLOTS as usize / 64;

/// A bit for each slot.
pub(super) struct SlotBits(Box<[AtomicU64; WORDS]>);

impl Default for SlotBits {
    fn default() -> Self {
        Self(Box::new([const { AtomicU64::new(0) }; WORDS]))
    }
}

impl SlotBits {
    #[inline]
    pub(super) fn has(&self, slot: u16) -> bool {
        self.0[usize::from(slot / 64)].load(Relaxed) >> (slot % 64) & 1 != 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| word.load(Relaxed) == 0)
    }

    pub(super) fn set(&self, slot: u16, is_in: bool) {
        let (word, bit) = (&self.0[usize::from(slot / 64)], 1 << (slot % 64));
        match is_in {
            true => word.fetch_or(bit, Relaxed),
            false => word.fetch_and(!bit, Relaxed),
        };
    }

    pub(super) fn store(&self, words: &[u64]) {
        self.0.iter().zip(words).for_each(|(word, bits)| word.store(*bits, Relaxed));
    }
}

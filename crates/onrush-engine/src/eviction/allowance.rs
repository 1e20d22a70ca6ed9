//! How much memory may be in use so that resident memory stays near `maxmemory` too.
//!
//! The allocator keeps more memory than is in use: unused parts of blocks and pages, holes that evicted values leave.
//! The allowance is the memory that may be in use; it begins at `maxmemory`. When resident memory grows past a mark
//! just below `maxmemory`, the allowance falls by twice the growth; when there is room again, it rises. Only growth
//! counts: evicting more does not make the allocator's holes smaller, but new values fit into them.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use onrush_alloc as alloc;

/// Below this `maxmemory`, in bytes, resident memory is mostly what every process needs, and is left alone.
const MAXMEMORY_MIN: u64 = 64 << 20;

/// The goal for resident memory, as percentages of `maxmemory`: it grows a little further until new values fit into
/// holes.
const HIGH_MARK_PERCENT: u64 = 97;
const LOW_MARK_PERCENT: u64 = 95;

/// The allowance is at least this part of `maxmemory`.
const FLOOR_PART: u64 = 2;

/// Each look raises it by this part of the free room.
const RISE_PART: u64 = 16;

/// See the module's text.
#[derive(Default)]
pub(super) struct Allowance {
    bytes: AtomicU64,
    /// Resident memory when the allowance last fell, in bytes; 0 if it has risen since.
    stepped_at: AtomicU64,
    looked_ms: AtomicI64,
}

impl Allowance {
    /// Begins anew with another `maxmemory`.
    pub(super) fn restart(&self, maxmemory: u64) {
        self.bytes.store(maxmemory, Relaxed);
        self.stepped_at.store(0, Relaxed);
    }

    /// From this memory in use on, in bytes, resident memory must be checked: no allowance is lower.
    #[inline]
    pub(super) fn watched_from(&self) -> u64 {
        self.bytes.load(Relaxed) / FLOOR_PART
    }

    /// Memory that may be in use while `used` bytes are. Looks at resident memory once a millisecond.
    pub(super) fn bytes(&self, used: u64, maxmemory: u64, now_ms: i64) -> u64 {
        let looked_ms = self.looked_ms.load(Relaxed);
        let is_my_turn = looked_ms != now_ms
            && self.looked_ms.compare_exchange(looked_ms, now_ms, Relaxed, Relaxed).is_ok()
            && maxmemory >= MAXMEMORY_MIN;
        let before = self.bytes.load(Relaxed).min(maxmemory);
        if !is_my_turn {
            return before;
        }
        let state = State { bytes: before, stepped_at: self.stepped_at.load(Relaxed) };
        let now = state.adjusted(alloc::resident_bytes(), used, maxmemory);
        if (state.stepped_at == 0) != (now.stepped_at == 0) {
            alloc::give_back_soon(now.stepped_at != 0);
        }
        self.bytes.store(now.bytes, Relaxed);
        self.stepped_at.store(now.stepped_at, Relaxed);
        now.bytes
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    bytes: u64,
    stepped_at: u64,
}

impl State {
    fn adjusted(self, resident: u64, used: u64, maxmemory: u64) -> Self {
        let (high, low) = (maxmemory / 100 * HIGH_MARK_PERCENT, maxmemory / 100 * LOW_MARK_PERCENT);
        let grown = resident.saturating_sub(high.max(self.stepped_at));
        if grown > 0 {
            let bytes = self.bytes.min(used).saturating_sub(2 * grown).max(maxmemory / FLOOR_PART);
            return Self { bytes: bytes.min(self.bytes), stepped_at: resident };
        }
        if resident < low {
            let bytes = self.bytes + (low - resident) / RISE_PART;
            return Self { bytes: bytes.min(maxmemory), stepped_at: 0 };
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn state(bytes: u64, stepped_at: u64) -> State {
        State { bytes: bytes * MB, stepped_at: stepped_at * MB }
    }

    #[test]
    fn the_allowance_follows_the_growth_of_resident_memory() {
        let adjusted = |state: State, resident, used| state.adjusted(resident * MB, used * MB, 100 * MB);
        // More is in use than allowed: only memory in use counts.
        assert_eq!(adjusted(state(100, 0), 103, 90), state(78, 103));
        assert_eq!(adjusted(state(78, 103), 104, 78), state(76, 104));
        // If it stays or shrinks, even far above the mark, nothing changes.
        assert_eq!(adjusted(state(86, 104), 104, 86), state(86, 104));
        assert_eq!(adjusted(state(86, 300), 250, 86), state(86, 300));
        assert_eq!(adjusted(state(86, 104), 102, 86), state(86, 104));
        // Room again.
        assert_eq!(adjusted(state(86, 104), 79, 60), state(87, 0));
        assert_eq!(adjusted(state(100, 0), 20, 10), state(100, 0));
    }

    #[test]
    fn the_allowance_keeps_within_its_bounds() {
        let adjusted = |state: State, resident, used| state.adjusted(resident * MB, used * MB, 100 * MB);
        assert_eq!(adjusted(state(100, 0), 900, 100), state(50, 900));
        assert_eq!(adjusted(state(60, 200), 201, 10).bytes, 50 * MB);
        let mut state = state(50, 0);
        (0..1000).for_each(|_| state = adjusted(state, 0, 0));
        assert_eq!(state.bytes, 100 * MB);
    }
}

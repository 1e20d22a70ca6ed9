//! How much memory may be in use so that resident memory stays near `maxmemory` too.
//!
//! The allocator keeps more memory than is in use: unused parts of blocks and pages, holes that evicted values leave.
//! The allowance is the memory that may be in use; it begins at `maxmemory`. When resident memory grows past a mark, the
//! allowance falls by the growth and some more; when there is room again, it rises. Only growth counts: evicting more does
//! not make the allocator's holes smaller, but new values fit into them.
//!
//! Only growth by data within the allowance counts. The mark is just below `maxmemory`, or higher if the limit was set when more was resident, or
//! was to be expected with so much data there. And what was in use a short while ago may still be resident without being
//! in use: buffers of large commands, of the command log and of snapshots, freed values. It is taken off, and
//! so is what is about to be evicted anyway.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use onrush_alloc as alloc;

/// Below this `maxmemory`, in bytes, resident memory is mostly what every process needs, and is left alone.
const MAXMEMORY_MIN: u64 = 64 << 20;

/// The goal for resident memory, as percentages of `maxmemory`: it grows a little further until new values fit into
/// holes.
const HIGH_MARK_PERCENT: u64 = 97;
const MARKS_APART_PERCENT: u64 = 2;

/// The allowance is at least this part of `maxmemory`.
const FLOOR_PART: u64 = 2;

/// It falls by twice the growth, but by at most this part of `maxmemory` more than the growth.
const MORE_PART: u64 = 64;

/// Each look raises it by this part of the free room.
const RISE_PART: u64 = 16;

/// Freed memory may stay resident for this long, in milliseconds: a little longer than with the allocator.
const EBB_MS: i64 = 12_000;

/// See the module's text.
#[derive(Default)]
pub(super) struct Allowance {
    bytes: AtomicU64,
    /// The mark for resident memory, in bytes.
    mark: AtomicU64,
    /// Resident memory when the allowance last fell, in bytes; 0 if it has risen since.
    stepped_at: AtomicU64,
    /// Most memory in use in the present period and in the one before, in bytes, and when the present one began.
    peak: AtomicU64,
    peak_before: AtomicU64,
    peak_since_ms: AtomicI64,
    looked_ms: AtomicI64,
}

/// Memory at one moment, in bytes.
#[derive(Clone, Copy)]
pub(super) struct Look {
    /// In use, as it counts for eviction.
    pub(super) used: u64,
    /// In use altogether.
    pub(super) allocated: u64,
    pub(super) resident: u64,
}

impl Allowance {
    /// Begins anew with another `maxmemory`.
    pub(super) fn restart(&self, maxmemory: u64, look: Look) {
        let state = State::new(maxmemory, look);
        self.bytes.store(state.bytes, Relaxed);
        self.mark.store(state.mark, Relaxed);
        self.stepped_at.store(state.stepped_at, Relaxed);
        self.forget_peak(look.used);
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
        let look = Look { used, allocated: alloc::allocated_bytes(), resident: alloc::resident_bytes() };
        let peak = self.peak(look.allocated, now_ms);
        let (mark, stepped_at) = (self.mark.load(Relaxed), self.stepped_at.load(Relaxed));
        let state = State { bytes: before, mark, stepped_at };
        let now = state.adjusted(look, peak, maxmemory);
        if (state.stepped_at == 0) != (now.stepped_at == 0) {
            alloc::give_back_soon(now.stepped_at != 0);
        }
        if now.bytes < state.bytes {
            // What is evicted because of it is no memory that goes by itself.
            self.forget_peak(now.bytes);
        }
        self.bytes.store(now.bytes, Relaxed);
        self.stepped_at.store(now.stepped_at, Relaxed);
        now.bytes
    }

    /// Most memory that was in use in this period and the one before.
    fn peak(&self, allocated: u64, now_ms: i64) -> u64 {
        if now_ms - self.peak_since_ms.load(Relaxed) > EBB_MS {
            self.peak_since_ms.store(now_ms, Relaxed);
            self.peak_before.store(self.peak.swap(allocated, Relaxed), Relaxed);
        }
        let peak = self.peak.fetch_max(allocated, Relaxed).max(allocated);
        peak.max(self.peak_before.load(Relaxed))
    }

    fn forget_peak(&self, used: u64) {
        self.peak.store(used, Relaxed);
        self.peak_before.store(used, Relaxed);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    bytes: u64,
    mark: u64,
    stepped_at: u64,
}

impl State {
    fn new(maxmemory: u64, look: Look) -> Self {
        let high = maxmemory / 100 * HIGH_MARK_PERCENT;
        // Data that was there takes along what the allocator keeps for it, and so does what comes in addition.
        let has_data = look.used >= maxmemory / FLOOR_PART;
        let room = if has_data { maxmemory.saturating_sub(look.used) } else { 0 };
        Self { bytes: maxmemory, mark: high.max(look.resident + room), stepped_at: 0 }
    }

    /// The state after a look; `peak`: most memory in use within a short while.
    fn adjusted(self, look: Look, peak: u64, maxmemory: u64) -> Self {
        let low = self.mark - maxmemory / 100 * MARKS_APART_PERCENT;
        let by_data = look.resident.saturating_sub(peak.max(look.used) - look.used.min(self.bytes));
        let grown = by_data.saturating_sub(self.mark.max(self.stepped_at));
        if grown > 0 {
            let fall = grown + grown.min(maxmemory / MORE_PART);
            let bytes = self.bytes.min(look.used).saturating_sub(fall).max(maxmemory / FLOOR_PART);
            return Self { bytes: bytes.min(self.bytes), stepped_at: by_data, ..self };
        }
        if look.resident < low {
            let bytes = self.bytes + (low - look.resident) / RISE_PART;
            return Self { bytes: bytes.min(maxmemory), stepped_at: 0, ..self };
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;
    const MAXMEMORY: u64 = 100 * MB;
    /// The marks without data at the beginning.
    const HIGH: u64 = 97 * MB;

    fn state(bytes: u64, stepped_at: u64) -> State {
        State { bytes: bytes * MB, mark: HIGH, stepped_at: stepped_at * MB }
    }

    fn look(resident: u64, used: u64) -> Look {
        Look { used: used * MB, allocated: used * MB, resident: resident * MB }
    }

    fn adjusted(state: State, resident: u64, used: u64) -> State {
        state.adjusted(look(resident, used), used * MB, MAXMEMORY)
    }

    #[test]
    fn the_allowance_follows_the_growth_of_resident_memory() {
        // More is in use than allowed: only memory in use counts.
        assert_eq!(adjusted(state(100, 0), 98, 90), state(88, 98));
        assert_eq!(adjusted(state(78, 103), 104, 78), state(76, 104));
        // Twice as much only of little.
        assert_eq!(adjusted(state(100, 0), 117, 90).bytes, 70 * MB - MAXMEMORY / MORE_PART);
        // What is evicted anyway is no reason to evict more.
        assert_eq!(adjusted(state(78, 103), 113, 88), state(78, 103));
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
        assert_eq!(adjusted(state(100, 0), 900, 100), state(50, 900));
        assert_eq!(adjusted(state(60, 200), 201, 10).bytes, 50 * MB);
        let mut state = state(50, 0);
        (0..1000).for_each(|_| state = adjusted(state, 0, 0));
        assert_eq!(state.bytes, 100 * MB);
    }

    #[test]
    fn what_was_resident_before_the_limit_does_not_count() {
        let at_start = State::new(MAXMEMORY, look(9, 2));
        assert_eq!(at_start, state(100, 0));
        // 90 MB of data in 115 MB: 10 MB more of data may take 10 MB more.
        let filled = State::new(MAXMEMORY, look(115, 90));
        assert_eq!((filled.bytes, filled.mark), (100 * MB, 125 * MB));
        assert_eq!(adjusted(filled, 125, 100), filled);
        assert_eq!(adjusted(filled, 126, 100).bytes, 98 * MB);
        // More than the limit, and memory that nothing is in any more.
        assert_eq!(State::new(MAXMEMORY, look(300, 250)).mark, 300 * MB);
        let emptied = State::new(MAXMEMORY, look(300, 2));
        assert_eq!(adjusted(emptied, 300, 60), emptied);
    }

    #[test]
    fn what_was_in_use_a_short_while_ago_does_not_count() {
        let before = state(100, 0);
        // 40 MB of buffers, in use or just freed.
        for allocated in [130, 90] {
            let look = Look { allocated: allocated * MB, ..look(135, 90) };
            assert_eq!(before.adjusted(look, 130 * MB, MAXMEMORY), before);
        }
        assert_eq!(before.adjusted(look(138, 90), 130 * MB, MAXMEMORY).bytes, (90 - 2) * MB);
        let allowance = Allowance::default();
        assert_eq!(allowance.peak(5 * MB, 20_000), 5 * MB);
        assert_eq!(allowance.peak(3 * MB, 20_000 + EBB_MS), 5 * MB);
        assert_eq!(allowance.peak(2 * MB, 20_001 + EBB_MS), 5 * MB);
        assert_eq!(allowance.peak(2 * MB, 20_002 + 2 * EBB_MS), 2 * MB);
    }
}

//! Settings of eviction, and its state that all threads share.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use onrush_alloc as alloc;
use onrush_persist::held_bytes;

use super::allowance::{Allowance, Look};
use super::policy::Policy;
use crate::lazyfree::LazyFree;
use crate::replication::history::History;

/// The state of the memory after an attempt to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// No more is in use than allowed, or eviction is paused.
    Within,
    /// There is more to evict.
    Running,
    /// Too much is in use, and nothing may be evicted.
    Stuck,
}

/// Greater values of `maxmemory-samples` have no effect.
const SAMPLES_MAX: u64 = 64;

/// Microseconds a worker evicts at a tenacity of 10, and how much each step beyond adds, as in Redis.
const BUDGET_US: f64 = 500.0;
const BUDGET_GROWTH: f64 = 1.15;

/// The settings.
#[derive(Clone, Copy, Debug)]
pub struct EvictionOptions {
    /// `maxmemory` in bytes; 0 is no limit.
    pub maxmemory: u64,
    /// `maxmemory-policy`.
    pub policy: Policy,
    /// `maxmemory-samples`.
    pub samples: u64,
    /// `maxmemory-eviction-tenacity`.
    pub tenacity: u64,
    /// `lazyfree-lazy-eviction`.
    pub is_lazy: bool,
}

impl Default for EvictionOptions {
    /// Redis's: no limit.
    fn default() -> Self {
        Self { maxmemory: 0, policy: Policy::NoEviction, samples: 5, tenacity: 10, is_lazy: false }
    }
}

/// See the module's text.
#[derive(Default)]
pub struct Eviction {
    maxmemory: AtomicU64,
    policy: AtomicU8,
    pub(super) samples: AtomicU32,
    /// How long a worker evicts at a time, in microseconds.
    pub(super) budget_us: AtomicU64,
    /// Whether what is expensive to free goes to the freeing thread.
    pub(super) is_lazy: AtomicBool,
    pub(super) allowance: Allowance,
    /// When memory in use passed the limit, in Unix microseconds; 0 while it is within the limit.
    exceeded_since_us: AtomicI64,
    exceeded_us: AtomicU64,
    /// Changes to the keyspace when a walk through all of it found nothing to evict, plus one.
    pub(super) fruitless_at: AtomicU64,
}

/// How long memory in use was over the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exceeded {
    /// In total, in milliseconds.
    pub total_ms: u64,
    /// Since it last passed the limit, in milliseconds; 0 while it is within the limit.
    pub current_ms: u64,
}

/// Where memory is that does not count: values about to be freed, and records, snapshots and parts of the stream for
/// replicas on their way, of which evicting would only make more.
#[derive(Clone, Copy)]
pub struct Apart<'s> {
    pub(crate) lazyfree: &'s LazyFree,
    pub(crate) history: &'s History,
}

impl Apart<'_> {
    /// Bytes of it.
    pub(crate) fn bytes(self) -> u64 {
        self.lazyfree.pending_bytes() + held_bytes() as u64 + self.history.surplus_bytes()
    }
}

impl Eviction {
    /// Takes over changed settings.
    pub(crate) fn store(&self, options: &EvictionOptions, apart: Apart<'_>) {
        if self.maxmemory.swap(options.maxmemory, Relaxed) != options.maxmemory {
            let (used, allocated) = (Self::used_bytes(apart), alloc::allocated_bytes());
            self.allowance.restart(options.maxmemory, Look { used, allocated, resident: alloc::resident_bytes() });
        }
        self.policy.store(options.policy.number(), Relaxed);
        self.samples.store(options.samples.min(SAMPLES_MAX) as u32, Relaxed);
        self.budget_us.store(budget_us(options.tenacity), Relaxed);
        self.is_lazy.store(options.is_lazy, Relaxed);
        self.fruitless_at.store(0, Relaxed);
    }

    /// The policy.
    pub fn policy(&self) -> Policy {
        Policy::from_number(self.policy.load(Relaxed))
    }

    /// Memory that counts, in bytes.
    ///
    /// What does not count is known as such from before it is allocated, or while it still is, until after it is freed. So if
    /// its figure is the same before and after a look at all memory, it has what that look has seen; otherwise the greater one has at least
    /// what one thread makes or frees meanwhile.
    pub(super) fn used_bytes(apart: Apart<'_>) -> u64 {
        const LOOKS_MAX: usize = 4;
        let (mut before, mut looks) = (apart.bytes(), 0);
        loop {
            let allocated = alloc::allocated_bytes();
            let after = apart.bytes();
            looks += 1;
            if before == after || looks == LOOKS_MAX {
                return allocated.saturating_sub(before.max(after));
            }
            before = after;
        }
    }

    /// Whether memory must be checked: memory in use is near the limit, or was over it at the last look.
    #[inline]
    pub fn is_due(&self) -> bool {
        alloc::allocated_bytes() > self.allowance.watched_from() || self.exceeded_since_us.load(Relaxed) != 0
    }

    /// `maxmemory` in bytes; 0 is no limit.
    #[inline]
    pub fn maxmemory(&self) -> u64 {
        self.maxmemory.load(Relaxed)
    }

    /// Whether a worker should be woken to evict. `changes`: changes to the keyspace so far.
    pub fn wants_worker(&self, apart: Apart<'_>, changes: u64) -> bool {
        let maxmemory = self.maxmemory();
        maxmemory > 0
            && Self::used_bytes(apart) > maxmemory
            && self.policy() != Policy::NoEviction
            && !self.is_fruitless(changes)
    }

    /// Whether nothing could be evicted and nothing has changed since.
    pub(super) fn is_fruitless(&self, changes: u64) -> bool {
        self.fruitless_at.load(Relaxed) == changes + 1
    }

    #[cold]
    pub(super) fn begin_excess(&self, now_us: i64) {
        _ = self.exceeded_since_us.compare_exchange(0, now_us, Relaxed, Relaxed);
    }

    pub(super) fn end_excess(&self, now_us: i64) {
        if self.exceeded_since_us.load(Relaxed) != 0 {
            let since_us = self.exceeded_since_us.swap(0, Relaxed);
            if since_us != 0 {
                self.exceeded_us.fetch_add((now_us - since_us).max(0) as u64, Relaxed);
            }
        }
    }

    /// How long more memory was in use than allowed, until `now_us` in Unix microseconds.
    pub(crate) fn exceeded(&self, now_us: i64) -> Exceeded {
        let since_us = self.exceeded_since_us.load(Relaxed);
        let current_us = if since_us == 0 { 0 } else { (now_us - since_us).max(0) as u64 };
        let total_us = self.exceeded_us.load(Relaxed) + current_us;
        Exceeded { total_ms: total_us / 1000, current_ms: current_us / 1000 }
    }

    /// CONFIG RESETSTAT.
    pub fn reset(&self) {
        self.exceeded_us.store(0, Relaxed);
        self.exceeded_since_us.store(0, Relaxed);
    }
}

fn budget_us(tenacity: u64) -> u64 {
    match tenacity {
        ..10 => (BUDGET_US * tenacity as f64 / 10.0) as u64,
        10..100 => (BUDGET_US * BUDGET_GROWTH.powi(tenacity as i32 - 10)) as u64,
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenacity_is_time() {
        let budgets = [(0, 0), (5, 250), (10, 500), (11, 575), (100, u64::MAX)];
        assert!(budgets.iter().all(|(tenacity, us)| budget_us(*tenacity) == *us), "{}", budget_us(11));
    }
}

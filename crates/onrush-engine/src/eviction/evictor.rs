//! Eviction by one thread.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use onrush_alloc as alloc;
use onrush_store::{Among, Entry, Random, Removed, clock};

use super::hand::Hand;
use super::policy::{Order, Policy};
use super::ranking::Ranking;
use super::state::{Eviction, Memory};
use crate::commit::{Commit, Evicts};
use crate::lazyfree::Garbage;
use crate::settings::Pause;
use crate::shared::Shared;

/// Entries shown under one lock, at least.
const LOOKS_PER_LOCK: usize = 32;

/// The clock is read only after this many steps or evicted keys, so that even the shortest budget makes progress.
const STEPS_MIN: u32 = 16;
const EVICTED_MIN: usize = 16;

/// After this many looks per existing key, all keys have been looked at.
const ROUNDS_MIN: usize = 2;

/// How long the counts of the databases' keys are valid, in milliseconds.
const WEIGHTS_KEPT_MS: i64 = 1000;

/// Ranks are forgotten after this many milliseconds without a look.
const RANKING_KEPT_MS: i64 = 100;

/// One thread's eviction.
pub(crate) struct Evictor {
    shared: &'static Shared,
    policy: Policy,
    hand: Hand,
    ranking: Ranking,
    last_ms: i64,
    random: Random,
    /// Entries taken out under the present lock.
    evicted: Vec<Removed>,
}

impl Evictor {
    pub(crate) fn new(shared: &'static Shared, thread: usize) -> Self {
        // Hands of different threads are far from each other.
        let shard = shared.keyspace.shards() * thread / shared.workers.max(1) % shared.keyspace.shards();
        Self {
            shared,
            policy: Policy::NoEviction,
            hand: Hand::new(shared.keyspace.databases(), shard),
            ranking: Ranking::default(),
            last_ms: 0,
            random: Random::new(shared.draw_seed()),
            evicted: Vec::new(),
        }
    }
}

impl Evicts for Evictor {
    /// Evicts until no more memory is in use than allowed, or until its time is over. The thread has entered the gate and
    /// holds no lock.
    #[cold]
    fn evict(&mut self, commit: &mut Commit) -> Memory {
        let (shared, now_ms) = (self.shared, commit.now_ms());
        let eviction = &shared.eviction;
        let (policy, maxmemory) = (eviction.policy(), eviction.maxmemory());
        alloc::settle();
        let used = Eviction::used_bytes(shared.apart());
        let allowed = match policy {
            Policy::NoEviction => maxmemory,
            Policy::Evicts(..) => eviction.allowance.bytes(used, maxmemory, now_ms),
        };
        if maxmemory == 0 || used <= allowed {
            eviction.end_excess(shared.clock.unix_us());
            return Memory::Within;
        }
        if shared.pause(now_ms) != Pause::None {
            return Memory::Within;
        }
        eviction.begin_excess(shared.clock.unix_us());
        let Policy::Evicts(among, order) = policy else { return Memory::Stuck };
        if eviction.is_fruitless(shared.stats.changes()) {
            return stuck(used, maxmemory);
        }
        if policy != self.policy || now_ms - self.last_ms > RANKING_KEPT_MS {
            self.policy = policy;
            self.ranking = Ranking::default();
            self.hand.counted_ms = 0;
        }
        if now_ms - self.hand.counted_ms > WEIGHTS_KEPT_MS {
            self.hand.count(shared, among, now_ms);
        }
        self.last_ms = now_ms;
        let (started, budget) = (shared.clock.now(), Duration::from_micros(eviction.budget_us.load(Relaxed)));
        let (mut steps, mut evicted) = (0, 0);
        loop {
            let changes = shared.stats.changes();
            let excess = Eviction::used_bytes(shared.apart()).saturating_sub(allowed);
            if excess == 0 {
                eviction.end_excess(shared.clock.unix_us());
                return Memory::Within;
            }
            let step = match order {
                Order::Random => self.draw(commit, among),
                _ => self.walk(commit, among, order, excess),
            };
            let Some(step) = step else {
                // Keys that a long command has locked can be evicted when it is done.
                let is_all = !shared.offload.is_busy();
                eviction.fruitless_at.store(if is_all { changes + 1 } else { 0 }, Relaxed);
                return stuck(Eviction::used_bytes(shared.apart()), maxmemory);
            };
            alloc::settle();
            (steps, evicted) = (steps + 1, evicted + step);
            if (steps >= STEPS_MIN || evicted >= EVICTED_MIN) && shared.clock.now() - started >= budget {
                return if Eviction::used_bytes(shared.apart()) > allowed { Memory::Running } else { Memory::Within };
            }
        }
    }
}

impl Evictor {
    /// Looks at the entries that the hand reaches, and evicts those that rank high, up to about `excess` bytes. Returns
    /// how many; `None` if nothing can be evicted.
    fn walk(&mut self, commit: &mut Commit, among: Among, order: Order, excess: u64) -> Option<usize> {
        let Self { shared, hand, ranking, random, evicted, .. } = self;
        let (db, shard) = hand.seek(shared, among, random, false)?;
        let (now_ms, decay_minutes) = (commit.now_ms(), shared.settings.lfu_decay_minutes.load(Relaxed));
        let samples = shared.eviction.samples.load(Relaxed) as usize;
        let looks = samples * order.looks_per_sample();
        let bar = ranking.bar(looks, ranking.looks >= hand.total * ROUNDS_MIN);
        let mut bytes = 0;
        let mut is_victim = |entry: &Entry| {
            let rank = rank(entry, order, now_ms, decay_minutes);
            ranking.note(rank);
            let is_victim = bytes < excess && bar.is_some_and(|bar| rank >= bar);
            if is_victim {
                bytes += entry.size_bytes() as u64;
            }
            is_victim
        };
        let next = commit.evict_in(db, shard, evicted, |table, evicted| {
            table.evict(hand.position(), LOOKS_PER_LOCK, among, &mut is_victim, &mut |entry| evicted.push(entry))
        });
        hand.go_on(next);
        Some(self.free(commit))
    }

    /// Evicts a random entry. Returns how many were evicted; `None` if nothing can be evicted.
    fn draw(&mut self, commit: &mut Commit, among: Among) -> Option<usize> {
        let Self { shared, hand, random, evicted, .. } = self;
        let (db, shard) = hand.seek(shared, among, random, true)?;
        commit.evict_in(db, shard, evicted, |table, evicted| evicted.extend(table.evict_any(random, among)));
        Some(self.free(commit))
    }

    /// Counts and frees the entries taken out.
    fn free(&mut self, commit: &Commit) -> usize {
        let (shared, stats) = (self.shared, &self.shared.stats.threads[commit.thread()]);
        let len = self.evicted.len();
        if len > 0 && self.ranking.is_partial() {
            // With few entries, the ranks of evicted ones would be remembered for long.
            self.ranking = Ranking::default();
        }
        let expired = self.evicted.iter().filter(|removed| removed.is_expired(commit.now_ms())).count();
        stats.expired_keys.add(expired as u64);
        stats.evicted_keys.add((len - expired) as u64);
        stats.changes.add(len as u64);
        let is_lazy = shared.eviction.is_lazy.load(Relaxed);
        for removed in self.evicted.drain(..) {
            if is_lazy {
                shared.lazyfree.free(Garbage::from(removed));
            }
        }
        len
    }
}

/// What it means that nothing may be evicted: resident memory alone is no reason to refuse commands.
fn stuck(used: u64, maxmemory: u64) -> Memory {
    if used > maxmemory { Memory::Stuck } else { Memory::Within }
}

/// The rank of an entry: the highest goes first. Expired entries go before all others.
#[inline]
fn rank(entry: &Entry, order: Order, now_ms: i64, decay_minutes: u32) -> u64 {
    let expire_at = entry.expire_at();
    if expire_at.is_some_and(|at| at <= now_ms) {
        return u64::MAX;
    }
    match order {
        Order::Lru => clock::lru_idle_ms(entry.clock(), now_ms),
        Order::Lfu => clock::lfu_disuse(entry.clock(), now_ms, decay_minutes),
        Order::Ttl => expire_at.map_or(0, |at| (i64::MAX - (at - now_ms)) as u64),
        Order::Random => 0,
    }
}

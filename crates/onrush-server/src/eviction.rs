//! Eviction: what happens when more memory is in use than `maxmemory` allows.
//!
//! A worker that finds too much memory in use, before a chunk or between two rounds, evicts keys for as long as
//! `maxmemory-eviction-tenacity` says ([`Evictor::run`]). It holds one shard's lock at a time, for some tens of entries; what
//! it takes out is freed off the lock. If that was not enough, commands go on nevertheless and the next chunk or round evicts
//! more: only when nothing may be evicted commands that use memory are refused.
//!
//! The victims: a hand goes through all shards in order and looks at every entry it passes. Each look is noted in a
//! [`Ranking`] of the last some hundred, and an entry goes when it ranks among the best of them: one of as many as
//! `maxmemory-samples` asks for. Keys are hashed, so neighbours are as good a sample as any, and a run of buckets costs a
//! fraction of the cache misses of entries drawn one by one. No keys are kept and none is looked up again, and each
//! entry has the hand come by once in a round, so that no old one stays because chance passes it over.

mod allowance;
mod hand;
mod ranking;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use onrush_persist::CommandLog;
use onrush_store::{Among, Entry, Random, Removed, clock};

use self::allowance::Allowance;
use self::hand::Hand;
use self::ranking::Ranking;
use crate::alloc;
use crate::commit::Commit;
use crate::config::Config;
use crate::lazyfree::Garbage;
use crate::server::{Pause, Server, random_u64, unix_us};

/// `maxmemory-policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Nothing: commands that use memory are refused.
    NoEviction,
    /// These keys, in this order.
    Evicts(Among, Order),
}

/// Which keys go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Least recently used; under an LRM policy least recently modified, for then reads do not touch the clock.
    Lru,
    /// Least frequently used; of equals the one that was not used for longer.
    Lfu,
    /// Those that expire soonest.
    Ttl,
    /// Any.
    Random,
}

impl Order {
    /// Entries looked at for each one evicted, for each of `maxmemory-samples`.
    fn looks_per_sample(self) -> usize {
        match self {
            // The part of all entries that ranks high is also what room there is for new ones to be used a second time: with
            // much less of it a cache whose keys change keeps to what it knows.
            Self::Lfu => 1,
            // Within a thousandth of the hits that exact LRU has.
            Self::Lru | Self::Ttl | Self::Random => 4,
        }
    }
}

impl Policy {
    /// The policy with that name in the configuration.
    pub fn named(name: &str) -> Self {
        let Some((among, order)) = name.split_once('-') else { return Self::NoEviction };
        let among = if among == "volatile" { Among::Volatile } else { Among::All };
        let order = match order {
            "lfu" => Order::Lfu,
            "ttl" => Order::Ttl,
            "random" => Order::Random,
            _ => Order::Lru,
        };
        Self::Evicts(among, order)
    }

    /// Whether it goes by the access clock of entries.
    pub fn reads_clock(self) -> bool {
        matches!(self, Self::Evicts(_, Order::Lru | Order::Lfu))
    }

    fn number(self) -> u8 {
        match self {
            Self::NoEviction => 0,
            Self::Evicts(among, order) => 1 + order as u8 * 2 + u8::from(among == Among::Volatile),
        }
    }

    fn from_number(number: u8) -> Self {
        let Some(number) = number.checked_sub(1) else { return Self::NoEviction };
        let among = if number % 2 == 1 { Among::Volatile } else { Among::All };
        let order = [Order::Lru, Order::Lfu, Order::Ttl, Order::Random][number as usize / 2];
        Self::Evicts(among, order)
    }
}

/// More of `maxmemory-samples` have no effect.
const SAMPLES_MAX: u64 = 64;

/// Microseconds a worker evicts at a tenacity of 10, and how much each step beyond adds, as in Redis.
const BUDGET_US: f64 = 500.0;
const BUDGET_GROWTH: f64 = 1.15;

/// Settings of eviction, and its state that all threads share.
#[derive(Default)]
pub struct Eviction {
    policy: AtomicU8,
    samples: AtomicU32,
    /// How long a worker evicts at a time, in microseconds.
    budget_us: AtomicU64,
    /// Whether what is expensive to free goes to the freeing thread.
    is_lazy: AtomicBool,
    allowance: Allowance,
    /// Bytes that have been evicted and that the freeing thread has still to free.
    pending_bytes: AtomicU64,
    /// Since when more memory is in use than allowed, in Unix microseconds; 0 while it is not.
    exceeded_since_us: AtomicI64,
    exceeded_us: AtomicU64,
    /// Changes to the keyspace when a walk through all of it found nothing to evict, plus one.
    fruitless_at: AtomicU64,
}

/// How long more memory was in use than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// All in all, in milliseconds.
    pub total_ms: u64,
    /// Since it last began, in milliseconds; 0 while it is not.
    pub current_ms: u64,
}

impl Eviction {
    /// Takes over the settings of a changed configuration.
    pub fn refresh(&self, config: &Config) {
        self.policy.store(Policy::named(config.maxmemory_policy).number(), Relaxed);
        self.samples.store(config.maxmemory_samples.min(SAMPLES_MAX) as u32, Relaxed);
        self.budget_us.store(budget_us(config.maxmemory_eviction_tenacity), Relaxed);
        self.is_lazy.store(config.lazyfree_lazy_eviction, Relaxed);
        self.allowance.restart(config.maxmemory);
        self.fruitless_at.store(0, Relaxed);
    }

    /// The policy.
    pub fn policy(&self) -> Policy {
        Policy::from_number(self.policy.load(Relaxed))
    }

    /// Memory that does not count, in bytes: evicted values about to be freed, and records of the command log, which
    /// evicting would only make more of.
    pub fn not_counted_bytes(&self, log: &CommandLog) -> u64 {
        self.pending_bytes.load(Relaxed) + log.held_bytes() as u64
    }

    /// Memory that counts, in bytes.
    fn used_bytes(&self, log: &CommandLog) -> u64 {
        alloc::allocated_bytes().saturating_sub(self.not_counted_bytes(log))
    }

    /// Whether memory has to be looked at: nearly as much is in use as allowed, or more was at the last look.
    #[inline]
    pub fn is_due(&self) -> bool {
        alloc::allocated_bytes() > self.allowance.watched_from() || self.exceeded_since_us.load(Relaxed) != 0
    }

    /// Whether a worker should be woken to evict.
    pub fn wants_worker(&self, server: &Server) -> bool {
        let maxmemory = server.hot.maxmemory.load(Relaxed);
        maxmemory > 0
            && self.used_bytes(&server.log) > maxmemory
            && self.policy() != Policy::NoEviction
            && !self.is_fruitless(server)
    }

    /// Whether nothing could be evicted and nothing has changed since.
    fn is_fruitless(&self, server: &Server) -> bool {
        self.fruitless_at.load(Relaxed) == server.stats.changes() + 1
    }

    #[cold]
    fn begin_excess(&self) {
        _ = self.exceeded_since_us.compare_exchange(0, unix_us(), Relaxed, Relaxed);
    }

    fn end_excess(&self) {
        if self.exceeded_since_us.load(Relaxed) != 0 {
            let since_us = self.exceeded_since_us.swap(0, Relaxed);
            if since_us != 0 {
                self.exceeded_us.fetch_add((unix_us() - since_us).max(0) as u64, Relaxed);
            }
        }
    }

    /// How long more memory was in use than allowed.
    pub fn exceeded(&self) -> Exceeded {
        let since_us = self.exceeded_since_us.load(Relaxed);
        let current_us = if since_us == 0 { 0 } else { (unix_us() - since_us).max(0) as u64 };
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

/// An evicted value on its way to the freeing thread.
struct Pending {
    removed: Option<Removed>,
    bytes: u64,
    eviction: &'static Eviction,
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.removed = None;
        alloc::settle();
        self.eviction.pending_bytes.fetch_sub(self.bytes, Relaxed);
    }
}

/// How it stands about the memory after an attempt to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// No more is in use than allowed, or eviction is paused.
    Within,
    /// There is more to evict.
    Running,
    /// Too much is in use, and nothing may be evicted.
    Stuck,
}

/// Entries shown under one lock, at least.
const LOOKS_PER_LOCK: usize = 32;

/// The clock is read only after so many steps or evicted keys, so that the shortest budget gets somewhere.
const STEPS_MIN: u32 = 16;
const EVICTED_MIN: usize = 16;

/// After so many looks for each key there is all have been looked at.
const ROUNDS_MIN: usize = 2;

/// How long it is remembered how many keys the databases have, in milliseconds.
const WEIGHTS_KEPT_MS: i64 = 1000;

/// What is known of entries is forgotten after so many milliseconds without a look.
const RANKING_KEPT_MS: i64 = 100;

/// One thread's eviction.
pub(crate) struct Evictor {
    server: &'static Server,
    policy: Policy,
    hand: Hand,
    ranking: Ranking,
    last_ms: i64,
    random: Random,
    /// What was taken out under the present lock.
    evicted: Vec<Removed>,
}

impl Evictor {
    pub(crate) fn new(server: &'static Server, thread: usize) -> Self {
        // Hands of different threads are far from each other.
        let shard = server.keyspace.shards() * thread / server.workers.max(1) % server.keyspace.shards();
        Self {
            server,
            policy: Policy::NoEviction,
            hand: Hand::new(server.keyspace.databases(), shard),
            ranking: Ranking::default(),
            last_ms: 0,
            random: Random::new(random_u64()),
            evicted: Vec::new(),
        }
    }

    /// Evicts until no more memory is in use than allowed, or until its time is over. The thread has entered the gate and
    /// holds no lock.
    #[cold]
    pub(crate) fn run(&mut self, commit: &mut Commit) -> Memory {
        let (server, now_ms) = (self.server, commit.now_ms());
        let eviction = &server.eviction;
        let (policy, maxmemory) = (eviction.policy(), server.hot.maxmemory.load(Relaxed));
        alloc::settle();
        let used = eviction.used_bytes(&server.log);
        let allowed = match policy {
            Policy::NoEviction => maxmemory,
            Policy::Evicts(..) => eviction.allowance.bytes(used, maxmemory, now_ms),
        };
        if maxmemory == 0 || used <= allowed {
            eviction.end_excess();
            return Memory::Within;
        }
        if server.pause(now_ms) != Pause::None {
            return Memory::Within;
        }
        eviction.begin_excess();
        let Policy::Evicts(among, order) = policy else { return Memory::Stuck };
        if eviction.is_fruitless(server) {
            return Memory::Stuck;
        }
        if policy != self.policy || now_ms - self.last_ms > RANKING_KEPT_MS {
            self.policy = policy;
            self.ranking = Ranking::default();
            self.hand.counted_ms = 0;
        }
        if now_ms - self.hand.counted_ms > WEIGHTS_KEPT_MS {
            self.hand.count(server, among, now_ms);
        }
        self.last_ms = now_ms;
        let (started, budget) = (Instant::now(), Duration::from_micros(eviction.budget_us.load(Relaxed)));
        let (mut steps, mut evicted) = (0, 0);
        loop {
            let changes = server.stats.changes();
            let excess = eviction.used_bytes(&server.log).saturating_sub(allowed);
            if excess == 0 {
                eviction.end_excess();
                return Memory::Within;
            }
            let step = match order {
                Order::Random => self.draw(commit, among),
                _ => self.walk(commit, among, order, excess),
            };
            let Some(step) = step else {
                // What a long command has locked may be evicted when it is done.
                let is_all = !server.offload.is_busy();
                eviction.fruitless_at.store(if is_all { changes + 1 } else { 0 }, Relaxed);
                return Memory::Stuck;
            };
            alloc::settle();
            (steps, evicted) = (steps + 1, evicted + step);
            if (steps >= STEPS_MIN || evicted >= EVICTED_MIN) && started.elapsed() >= budget {
                return if eviction.used_bytes(&server.log) > allowed { Memory::Running } else { Memory::Within };
            }
        }
    }

    /// Looks at the entries the hand comes to, and evicts those that rank high, up to about `excess` bytes of them. Returns
    /// how many; `None` when there is nothing that could be evicted.
    fn walk(&mut self, commit: &mut Commit, among: Among, order: Order, excess: u64) -> Option<usize> {
        let Self { server, hand, ranking, random, evicted, .. } = self;
        let (db, shard) = hand.seek(server, among, (random, false))?;
        let (now_ms, decay_minutes) = (commit.now_ms(), server.hot.lfu_decay_minutes.load(Relaxed));
        let samples = server.eviction.samples.load(Relaxed) as usize;
        let looks = samples * order.looks_per_sample();
        let bar = ranking.bar(looks, ranking.looks >= hand.total * ROUNDS_MIN);
        let mut bytes = 0;
        let mut is_victim = |entry: &Entry| {
            let rank = rank(entry, order, now_ms, decay_minutes);
            ranking.note(rank);
            let is_victim = bytes < excess
                && bar.is_some_and(|bar| rank >= bar.own && (rank >= bar.foreign || alloc::is_own(entry)));
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

    /// Evicts an entry by chance. Returns how many it were; `None` when there is nothing that could be evicted.
    fn draw(&mut self, commit: &mut Commit, among: Among) -> Option<usize> {
        let Self { server, hand, random, evicted, .. } = self;
        let (db, shard) = hand.seek(server, among, (random, true))?;
        commit.evict_in(db, shard, evicted, |table, evicted| evicted.extend(table.evict_any(random, among)));
        Some(self.free(commit))
    }

    /// Counts and frees what was taken out.
    fn free(&mut self, commit: &Commit) -> usize {
        let (server, stats) = (self.server, &self.server.stats.threads[commit.thread()]);
        let len = self.evicted.len();
        if len > 0 && self.ranking.is_partial() {
            // There are few entries at all, and the ranks of those that are gone would be remembered for long.
            self.ranking = Ranking::default();
        }
        let expired = self.evicted.iter().filter(|removed| removed.is_expired(commit.now_ms())).count();
        stats.expired_keys.add(expired as u64);
        stats.evicted_keys.add((len - expired) as u64);
        stats.changes.add(len as u64);
        let is_lazy = server.eviction.is_lazy.load(Relaxed);
        for removed in self.evicted.drain(..) {
            if is_lazy {
                free_lazily(server, removed);
            }
        }
        len
    }
}

/// Frees what is expensive to free in the background. Until that is done it does not count as memory in use: or else
/// more would be evicted in its place.
fn free_lazily(server: &'static Server, removed: Removed) {
    let garbage = Garbage::from(removed);
    if garbage.is_expensive()
        && let Garbage::Entry(removed) = garbage
    {
        let (bytes, eviction) = (removed.size_bytes() as u64, &server.eviction);
        eviction.pending_bytes.fetch_add(bytes, Relaxed);
        server.lazyfree.free_later(Box::new(Pending { removed: Some(removed), bytes, eviction }), 1);
    }
}

/// How much an entry deserves to go: the highest first. What is past its time goes before all others.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_known_by_its_name_and_its_number() {
        let all = [
            ("noeviction", Policy::NoEviction),
            ("allkeys-lru", Policy::Evicts(Among::All, Order::Lru)),
            ("volatile-lru", Policy::Evicts(Among::Volatile, Order::Lru)),
            ("allkeys-lrm", Policy::Evicts(Among::All, Order::Lru)),
            ("volatile-lfu", Policy::Evicts(Among::Volatile, Order::Lfu)),
            ("volatile-ttl", Policy::Evicts(Among::Volatile, Order::Ttl)),
            ("allkeys-random", Policy::Evicts(Among::All, Order::Random)),
        ];
        for (name, policy) in all {
            assert_eq!(Policy::named(name), policy);
            assert_eq!(Policy::from_number(policy.number()), policy);
        }
    }

    #[test]
    fn tenacity_is_time() {
        let budgets = [(0, 0), (5, 250), (10, 500), (11, 575), (100, u64::MAX)];
        assert!(budgets.iter().all(|(tenacity, us)| budget_us(*tenacity) == *us), "{}", budget_us(11));
    }
}

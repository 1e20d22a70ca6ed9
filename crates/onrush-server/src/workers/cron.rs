//! The maintenance thread's regular work: active expiry, rates, idle clients, nudges for workers that are asleep.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use onrush_alloc as alloc;
use onrush_engine::commit::{Commit, Expired};
use onrush_engine::observe::latency::Event;
use onrush_engine::observe::stats::Samples;
use onrush_engine::settings::Pause;
use onrush_engine::tracking::trim;
use onrush_persist::threads;
use onrush_store::{Shard, clock};

use crate::process::server::Server;
use crate::workers::gather::Gather;
use crate::workers::mailbox::Mailbox;

/// Share of a period that active expiry may use, in percent (Redis's default effort).
const EXPIRE_SHARE_PERCENT: u32 = 25;

/// A shard with due entries waits one millisecond for each `EXPIRE_BATCHING` of its volatile entries before a pass.
const EXPIRE_BATCHING: i64 = 8;

/// Shards looked at between two looks at the clock and the gate.
const EXPIRE_STRIDE: usize = 256;

/// Fields that are removed from the hashes of a shard before the shard's lock goes back.
const FIELDS_PER_LOCK: usize = 500;

/// Samples a rate is the mean of, as in Redis.
const RATE_SAMPLES: usize = 16;

/// Period of the rate samples.
const SAMPLE_PERIOD: Duration = Duration::from_millis(100);

/// Tracked keys that are forgotten at once when there are too many.
const TRACKED_KEYS_TRIM_MAX: usize = 10_000;

/// Starts the maintenance thread, which ends with the process.
///
/// # Errors
/// The system cannot create a thread.
pub fn start(server: &'static Server, workers: Arc<[Arc<Mailbox>]>) -> io::Result<()> {
    threads::start("maintenance", move || run(server, &workers)).map(drop)
}

/// Does the regular work until the process ends.
fn run(server: &'static Server, workers: &Arc<[Arc<Mailbox>]>) {
    let mut nudges = Nudges::default();
    let mut expire = ExpireCycle::new(server);
    let mut clocks = ClockCycle::new(server);
    let mut fields = FieldCycle::new(server);
    let mut rates = Rates::default();
    let mut last_sample = Instant::now();
    let mut last_timeouts = Instant::now();
    let mut gather = Gather::new(server, Arc::clone(workers));
    loop {
        let hz = server.host.config.read().hz.clamp(1, 500);
        let period = Duration::from_micros(1_000_000 / hz);
        std::thread::sleep(period);
        server.clock.synchronize();
        if server.host.is_ending.load(Relaxed) {
            return;
        }
        if server.loading.is_on() {
            continue;
        }
        server.snapshots.give_up_if_stalled(server.clock.now());
        if !server.settings.expiry_is_off.load(Relaxed)
            && server.pause(server.clock.unix_ms()) == Pause::None
            && !server.replication.role.is_replica()
        {
            expire.run(period * EXPIRE_SHARE_PERCENT / 100);
        }
        clocks.run();
        fields.run();
        server.count_clients();
        if !server.replication.role.ignores_maxmemory()
            && server.eviction.wants_worker(server.apart(), server.stats.changes())
            && let Some(worker) = workers.first()
        {
            worker.nudge();
        }
        if last_sample.elapsed() >= SAMPLE_PERIOD {
            let stale = expire.stale_percent();
            rates.sample(server, last_sample.elapsed(), stale);
            last_sample = Instant::now();
            server.used_memory();
            alloc::watch_ebb(nudges.is_calm());
            nudges.give(server, workers);
            server.offload.tend();
            trim(server, server.maintenance_thread(), TRACKED_KEYS_TRIM_MAX);
        }
        gather.look();
        if last_timeouts.elapsed() >= Duration::from_secs(1) {
            last_timeouts = Instant::now();
            close_idle(server);
            close_slow(server);
            server.host.peers.close_idle();
        }
    }
}

/// Wakes sleeping workers after something has happened, so that they do their upkeep.
#[derive(Default)]
struct Nudges {
    /// What had happened at the last look.
    seen: [u64; 4],
    /// How many more they get.
    left: u32,
    /// Looks since there was much to do.
    calm_looks: u32,
}

impl Nudges {
    /// Wake-ups after each event: the first may come before a worker's upkeep is due.
    const COUNT: u32 = 2;

    /// Commands between two looks that are much to do, and looks with fewer after which the server counts as calm.
    const BUSY_COMMANDS_MIN: u64 = 100;
    const CALM_LOOKS_MIN: u32 = 20;

    /// Whether there has been little to do for a while.
    fn is_calm(&self) -> bool {
        self.calm_looks >= Self::CALM_LOOKS_MIN
    }

    fn give(&mut self, server: &Server, workers: &[Arc<Mailbox>]) {
        let happened = [
            server.stats.sum(|thread| &thread.commands_processed),
            server.stats.sum(|thread| &thread.net_input_bytes),
            server.stats.changes(),
            u64::from(alloc::ebbs()),
        ];
        let is_busy = happened[0].abs_diff(self.seen[0]) >= Self::BUSY_COMMANDS_MIN;
        self.calm_looks = if is_busy { 0 } else { self.calm_looks.saturating_add(1) };
        if happened != self.seen {
            self.seen = happened;
            self.left = Self::COUNT;
        }
        if self.left > 0 {
            self.left -= 1;
            workers.iter().for_each(|worker| worker.nudge());
        }
    }
}

/// Has clients closed that were silent for longer than `timeout`. Their connections judge: they may be at work on a command.
fn close_idle(server: &'static Server) {
    let timeout_s = server.host.config.read().timeout;
    if timeout_s == 0 {
        return;
    }
    let now_ms = server.clock.unix_ms();
    for client in server.clients.all() {
        if client.is_idle(now_ms, timeout_s as i64 * 1000) {
            client.close_if_idle();
        }
    }
}

/// Closes clients whose unread messages have passed the soft limit for too long. Clients that still get messages are
/// closed by the thread that sends them.
fn close_slow(server: &'static Server) {
    if server.messages.waiting_bytes() == 0 {
        return;
    }
    for client in server.clients.all() {
        client.closes_as_slow(client.reply_bytes.load(Relaxed), server, server.maintenance_thread());
    }
}

/// Active expiry: deletes expired keys and fields of hashes that no command asks for.
///
/// Each shard has a lower bound of its earliest expiry, so a shard with nothing due costs one load. A run starts where
/// the previous run stopped.
struct ExpireCycle {
    server: &'static Server,
    db: usize,
    shard: usize,
    capped: bool,
}

impl ExpireCycle {
    fn new(server: &'static Server) -> Self {
        Self { server, db: 0, shard: 0, capped: false }
    }

    /// Goes through all shards once, for at most `time`.
    fn run(&mut self, time: Duration) {
        let started = Instant::now();
        let mut commit = Commit::new(self.server, self.server.maintenance_thread());
        let shards = self.server.keyspace.shards();
        let total = self.server.keyspace.databases() * shards;
        let mut seen = 0;
        self.capped = false;
        while seen < total {
            if self.server.keyspace.db(self.db).is_none_or(|db| db.next_expire_ms() > self.server.clock.unix_ms()) {
                seen += shards - self.shard;
                self.next_db();
                continue;
            }
            let stride = EXPIRE_STRIDE.min(shards - self.shard);
            let more = self.visit(&mut commit, stride, started, time);
            self.shard += stride;
            seen += stride;
            if self.shard == shards {
                self.next_db();
            }
            if more || started.elapsed() >= time {
                self.capped = true;
                self.server.stats.expire_time_capped.fetch_add(1, Relaxed);
                break;
            }
        }
        let took = started.elapsed();
        self.server.stats.expire_cycle_us.fetch_add(took.as_micros() as u64, Relaxed);
        self.server.note_event(Event::ExpireCycle, took);
    }

    fn next_db(&mut self) {
        self.shard = 0;
        self.db = (self.db + 1) % self.server.keyspace.databases();
    }

    /// Expires in `stride` shards from the present one on; returns whether it has taken longer than `time` since `started`.
    fn visit(&mut self, commit: &mut Commit, stride: usize, started: Instant, time: Duration) -> bool {
        let server = self.server;
        let Some(db) = server.keyspace.db(self.db) else { return false };
        let now_ms = server.clock.unix_ms();
        let end = self.shard + stride;
        let moves = server.cluster.as_ref().map(|cluster| &cluster.moves).filter(|moves| moves.hides_some());
        for (index, shard) in db.shards_from(self.shard).take_while(|(index, _)| *index < end) {
            // What comes from another node expires there.
            if moves.is_some_and(|moves| moves.hides(index as u16)) {
                continue;
            }
            // A pass reads all volatile entries of the shard: the more there are, the longer due entries wait, so that
            // each pass deletes more.
            let due = shard.next_expire_ms();
            if due > now_ms || due.saturating_add(shard.volatile_len() as i64 / EXPIRE_BATCHING) > now_ms {
                continue;
            }
            let mut more = true;
            while more {
                more = self.expire_in(commit, shard, now_ms);
                if started.elapsed() >= time {
                    return true;
                }
            }
        }
        false
    }

    /// Removes keys of a shard that are due and [`FIELDS_PER_LOCK`] fields; returns whether more fields are.
    fn expire_in(&mut self, commit: &mut Commit, shard: &'static Shard, now_ms: i64) -> bool {
        if !commit.enter_unless_busy() {
            return false;
        }
        // CLIENT PAUSE may have begun during this run, or this server may have become a replica; once that has replied
        // nothing may expire.
        let is_paused =
            self.server.pause(self.server.clock.unix_ms()) != Pause::None || self.server.replication.role.is_replica();
        let expired = match is_paused {
            true => Expired::default(),
            false => commit.expire_shard(self.db as u32, shard, now_ms, FIELDS_PER_LOCK),
        };
        commit.leave();
        let stats = &self.server.stats.threads[self.server.maintenance_thread()];
        stats.expired_keys.add(expired.keys as u64);
        stats.expired_subkeys.add(expired.fields as u64);
        stats.changes.add((expired.keys + expired.fields) as u64);
        expired.has_more
    }

    /// An upper bound of the share of volatile keys that are past their time, for INFO: 0 when the last run saw
    /// every shard.
    fn stale_percent(&self) -> f64 {
        if self.capped { 100.0 } else { 0.0 }
    }
}

/// Replaces fine access clocks before they wrap around: visits all shards, evenly over time, for as long as there may
/// be such clocks.
struct ClockCycle {
    server: &'static Server,
    /// When access clocks were fine last.
    fine_at: Option<Instant>,
    last: Instant,
    db: usize,
    shard: usize,
    /// Shards that are due, in parts of one.
    due: f64,
}

impl ClockCycle {
    /// Half of the allowed time, so that a late cycle is still in time.
    const PERIOD: Duration = Duration::from_millis(clock::COARSEN_PERIOD_MS as u64 / 2);

    fn new(server: &'static Server) -> Self {
        Self { server, fine_at: None, last: Instant::now(), db: 0, shard: 0, due: 0.0 }
    }

    fn run(&mut self) {
        let (server, now) = (self.server, Instant::now());
        let elapsed = now - std::mem::replace(&mut self.last, now);
        if server.settings.fine_clock.load(Relaxed) {
            self.fine_at = Some(now);
        }
        let are_fine = self.fine_at.is_some_and(|at| now - at < Self::PERIOD * 3);
        if !are_fine || server.settings.lfu.load(Relaxed) {
            return;
        }
        let total = server.keyspace.databases() * server.keyspace.shards();
        self.due += elapsed.as_secs_f64() / Self::PERIOD.as_secs_f64() * total as f64;
        self.due = self.due.min(total as f64);
        while self.due >= 1.0 {
            self.visit_next();
        }
    }

    /// Visits the next shard that is in use, or comes to the end of a database.
    fn visit_next(&mut self) {
        let server = self.server;
        let found = server
            .keyspace
            .db(self.db)
            .and_then(|db| db.shards_from(self.shard).find(|(_, shard)| !shard.is_empty() && !shard.is_held_long()));
        let end = found.map_or(server.keyspace.shards(), |(index, _)| index + 1);
        self.due -= (end - self.shard) as f64;
        self.shard = end % server.keyspace.shards();
        if end == server.keyspace.shards() {
            self.db = (self.db + 1) % server.keyspace.databases();
        }
        if let Some((_, shard)) = found {
            let Some(_entered) = server.enter_unless_busy(server.maintenance_thread()) else { return };
            shard.lock().coarsen_clocks(server.clock.unix_ms());
        }
    }
}

/// Finds out now and then whether there still are hashes with fields that expire, since only those need the version of RDB
/// that fewer servers read. They may have gone by other ways than by expiring.
struct FieldCycle {
    server: &'static Server,
    /// When it came to the end of the last database.
    last: Instant,
    db: usize,
    shard: usize,
    /// Where there was one the last time: the bucket, by database and shard.
    found: HashMap<(usize, usize), usize>,
}

impl FieldCycle {
    /// From the end of one pass to the beginning of the next.
    const PERIOD: Duration = Duration::from_secs(4);

    /// How long one call may take.
    const TIME_MAX: Duration = Duration::from_millis(5);

    fn new(server: &'static Server) -> Self {
        Self { server, last: Instant::now(), db: 0, shard: 0, found: HashMap::new() }
    }

    fn run(&mut self) {
        if (self.db, self.shard) == (0, 0) && self.last.elapsed() < Self::PERIOD {
            return;
        }
        let (server, started) = (self.server, Instant::now());
        while self.db < server.keyspace.databases() {
            if let Some(db) = server.keyspace.db(self.db) {
                for (index, shard) in db.shards_from(self.shard) {
                    self.shard = index;
                    if started.elapsed() >= Self::TIME_MAX {
                        return;
                    }
                    let Some(_entered) = server.enter_unless_busy(server.maintenance_thread()) else { return };
                    if let Some(mut table) = shard.lock_unless_long() {
                        let last = self.found.remove(&(self.db, index));
                        let found = table.look_for_timed_fields(last);
                        self.found.extend(found.map(|bucket| ((self.db, index), bucket)));
                    }
                }
            }
            (self.db, self.shard) = (self.db + 1, 0);
        }
        (self.db, self.last) = (0, Instant::now());
    }
}

/// Rates per second as the mean of the last samples.
#[derive(Default)]
struct Rates {
    last: [u64; 7],
    ring: [[u64; 7]; RATE_SAMPLES],
    next: usize,
}

impl Rates {
    fn sample(&mut self, server: &Server, elapsed: Duration, stale: f64) {
        let now = [
            server.stats.sum(|thread| &thread.commands_processed),
            server.stats.sum(|thread| &thread.net_input_bytes),
            server.stats.sum(|thread| &thread.net_output_bytes),
            server.stats.sum(|thread| &thread.rounds),
            server.stats.sum(|thread| &thread.cpu_nanos),
            server.replication.syncs.input_bytes.load(Relaxed),
            server.replication.syncs.output_bytes.load(Relaxed),
        ];
        let elapsed_ms = (elapsed.as_millis() as u64).max(1);
        for (index, now) in now.iter().enumerate() {
            self.ring[self.next][index] = now.saturating_sub(self.last[index]) * 1000 / elapsed_ms;
        }
        self.last = now;
        self.next = (self.next + 1) % RATE_SAMPLES;
        let mean = |index: usize| self.ring.iter().map(|sample| sample[index]).sum::<u64>() / RATE_SAMPLES as u64;
        *server.stats.samples.lock() = Samples {
            ops_per_s: mean(0),
            input_bytes_per_s: mean(1),
            output_bytes_per_s: mean(2),
            rounds_per_s: mean(3),
            round_us: mean(4) / mean(3).max(1) / 1000,
            primary_bytes_per_s: mean(5),
            replicas_bytes_per_s: mean(6),
            expired_stale_perc: stale,
        };
    }
}

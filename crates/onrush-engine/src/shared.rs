//! What all threads share, except the command table.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use onrush_persist::{CommandLog, SinkId};
use onrush_store::{Keyspace, KeyspaceOptions, Random, SHARDS_DEFAULT};
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::batch::write_refusal::WriteRefusal;
use crate::blocking::waiters::Waiters;
use crate::clients::client::Registry;
use crate::clients::durability::Durability;
use crate::clients::share::ClientsShare;
use crate::clock::{Clock, TimeSource};
use crate::cluster::clustering::Clustering;
use crate::error::{self, CommandError};
use crate::eviction::state::{Apart, Eviction};
use crate::gate::{Entered, Exclusive, Gate};
use crate::lazyfree::LazyFree;
use crate::loading::Loading;
use crate::long::offload::{ELEMENTS_MAX, Offload};
use crate::messages::Messages;
use crate::observe::acl_log::{AclLog, Denial};
use crate::observe::hotkeys::HotKeys;
use crate::observe::latency::{Event, Monitor};
use crate::observe::latest::Latest;
use crate::observe::slow_batch::SlowBatch;
use crate::observe::slowlog::Entry as SlowCommand;
use crate::observe::stats::Stats;
use crate::process::{NoProcess, Process};
use crate::replication::Replication;
use crate::replication::failover::Plan;
use crate::scripts::Scripts;
use crate::settings::{Hold, Options, Pause, Settings};
use crate::snapshot::{BEHIND_LOOK_MS, Snapshots};
use crate::tracking::Tracking;
use crate::transactions::watched::Watched;
use crate::users::directory::Users;

/// How often a command that is held back looks again while nobody says until when.
const HELD_LOOK_MS: i64 = 100;

/// Within this time a script looks whether it takes too long, in milliseconds.
const SCRIPT_LOOK_MS: u64 = 200;

/// How long the thread that follows a primary waits at the gate at a time.
const FOLLOWER_WAIT: Duration = Duration::from_secs(1);

/// What an engine is made of.
pub struct Parts {
    /// What can be changed later.
    pub options: Options,
    /// Number of databases.
    pub databases: usize,
    /// Shards of each database: a power of two.
    pub shards: usize,
    /// Whether it is a node of a cluster: it has one database, and each slot is a shard of it.
    pub is_clustered: bool,
    /// A command that goes through more elements than this is executed on the thread for long commands.
    pub elements_max: usize,
    /// Threads that execute the commands of clients.
    pub workers: usize,
    /// Where the time comes from.
    pub time: TimeSource,
    /// The seed of random choices: the same engine with the same input and the same time makes the same choices.
    pub seed: u64,
    /// The seed for hashing keys, instead of a secret one: somebody who knows it can choose keys that make a table
    /// slow.
    pub hash_seed: Option<u64>,
    /// The process around it.
    pub process: &'static dyn Process,
}

impl Default for Parts {
    /// Sixteen databases, one worker, the system's clocks, the same random choices each time, and no process around it.
    fn default() -> Self {
        Self {
            options: Options::default(),
            databases: 16,
            shards: SHARDS_DEFAULT,
            is_clustered: false,
            elements_max: ELEMENTS_MAX,
            workers: 1,
            time: TimeSource::SYSTEM,
            seed: 1,
            hash_seed: None,
            process: &NoProcess,
        }
    }
}

/// Everything the threads share but the commands; made at start and never dropped.
pub struct Shared {
    /// The process around the engine.
    pub process: &'static dyn Process,
    /// The settings.
    pub settings: Settings,
    /// The cluster that this server is a node of.
    pub cluster: Option<Clustering>,
    /// The data.
    pub keyspace: Keyspace,
    /// The gate in front of it.
    pub gate: Gate,
    /// Connected clients.
    pub clients: Registry,
    /// How much memory they may hold.
    pub clients_share: ClientsShare,
    /// Those that wait for keys.
    pub waiters: Waiters,
    /// Keys that clients watch.
    pub watched: Watched,
    /// Those that keep copies of what they read.
    pub(crate) tracking: Tracking,
    /// Those that listen to channels.
    pub messages: Messages,
    /// Counters.
    pub stats: Stats,
    /// Who may do what.
    pub users: Users,
    /// Denied attempts, the latest ones.
    pub(crate) acl_log: AclLog,
    /// Commands that took long.
    pub(crate) slowlog: Latest<SlowCommand>,
    /// Which keys are hot.
    pub hotkeys: HotKeys,
    /// Batches that took long.
    pub(crate) slow_batches: Latest<SlowBatch>,
    /// Events that took long.
    pub(crate) latency: Monitor,
    /// Scripts and libraries of functions.
    pub scripts: Scripts,
    /// The log of effects.
    pub log: Arc<CommandLog>,
    /// Whether data is being loaded.
    pub loading: Loading,
    /// Why writes are refused, if they are.
    pub write_refusal: WriteRefusal,
    /// Snapshots of the data.
    pub snapshots: Snapshots,
    /// Connections that wait until writes are on the disk.
    pub durability: Durability,
    /// Eviction: its settings and its state.
    pub eviction: Eviction,
    /// The way to the freeing thread.
    pub lazyfree: LazyFree,
    /// The way to the thread for long commands.
    pub offload: Offload,
    /// Threads that execute; thread numbers below this are workers, the next one is the maintenance thread.
    pub workers: usize,
    /// When it started.
    pub started: Instant,
    started_unix_s: i64,
    /// 40 hexadecimal digits, different at every start.
    pub run_id: String,
    /// The role of this server, and the history of its data.
    pub replication: Replication,
    /// The time, read once per chunk.
    pub clock: Clock,
    /// Most memory used so far in bytes.
    pub peak_memory: AtomicU64,
    /// Memory used when the server had started, in bytes.
    pub startup_memory: AtomicU64,
    /// The file that DEBUG COMMAND-LOG writes.
    pub debug_log: Mutex<Option<SinkId>>,
    random: Mutex<Random>,
}

impl Shared {
    /// Notes that something was denied.
    #[cold]
    pub(crate) fn note_denial(&self, denial: Denial) {
        self.acl_log.add(denial, self.settings.acl_log_len_max.load(Relaxed));
    }

    /// With no data and no clients. `commands`: how many commands there are.
    pub(crate) fn new(parts: &Parts, commands: usize) -> Self {
        let threads = threads(parts.workers);
        let keyspace = KeyspaceOptions {
            databases: if parts.is_clustered { 1 } else { parts.databases },
            shards: parts.shards,
            seed: parts.hash_seed,
            by_slot: parts.is_clustered,
        };
        let clock = Clock::new(parts.time);
        let shared = Self {
            process: parts.process,
            settings: Settings::default(),
            cluster: parts.is_clustered.then(Clustering::default),
            keyspace: Keyspace::new(keyspace),
            gate: Gate::new(threads),
            clients: Registry::default(),
            clients_share: ClientsShare::default(),
            waiters: Waiters::default(),
            watched: Watched::default(),
            tracking: Tracking::default(),
            messages: Messages::new(secret(parts.seed)),
            stats: Stats::new(threads, commands),
            users: Users::new(commands),
            acl_log: AclLog::default(),
            slowlog: Latest::default(),
            hotkeys: HotKeys::default(),
            slow_batches: Latest::default(),
            latency: Monitor::default(),
            scripts: Scripts::default(),
            log: CommandLog::new(),
            loading: Loading::default(),
            write_refusal: WriteRefusal::default(),
            snapshots: Snapshots::default(),
            durability: Durability::default(),
            eviction: Eviction::default(),
            lazyfree: LazyFree::default(),
            offload: Offload::new(parts.elements_max),
            workers: parts.workers,
            started: clock.now(),
            started_unix_s: clock.unix_us() / 1_000_000,
            run_id: identifier(parts.seed, 1),
            replication: Replication::new(identifier(parts.seed, 2)),
            clock,
            peak_memory: AtomicU64::new(0),
            startup_memory: AtomicU64::new(0),
            debug_log: Mutex::default(),
            random: Mutex::new(Random::new(parts.seed)),
        };
        shared.set(&parts.options);
        shared
    }

    /// How the server runs, as INFO and HELLO tell.
    pub fn mode(&self) -> &'static str {
        if self.cluster.is_some() { "cluster" } else { "standalone" }
    }

    /// Random choices from here on are those of an engine with this [`Parts::seed`], for programs that use an engine again. A
    /// [`Runner`](crate::batch::runner::Runner) has drawn a seed of its own before: make it anew.
    pub fn reseed(&self, seed: u64) {
        *self.random.lock() = Random::new(seed);
    }

    /// Takes over changed options.
    pub fn set(&self, options: &Options) {
        self.settings.store(options);
        self.eviction.store(&options.eviction, self.apart());
        self.tracking.set_keys_max(options.tracking_keys_max);
        self.clients_share.set(options.clients_share);
        self.users.set_all_channels(options.new_users_hear_all);
        self.replication.role.set_options(options.replica);
        self.replication.history.set_kept_bytes_max(options.backlog_bytes);
        self.replication.held.set(options.durability_replicas, options.durability_replicas_timeout_ms);
        if options.durability_replicas > 0 {
            self.durability.note_replicas();
        }
        let (role, good) = (&self.replication.role, self.replication.attached.good());
        role.set_lacks_replicas(!role.is_replica() && good < options.replicas_min);
        if options.timing.slow_us >= 0 {
            self.slowlog.trim(options.timing.slowlog_len_max);
        }
    }

    /// A random number, as a seed or for a single choice.
    pub(crate) fn draw_seed(&self) -> u64 {
        self.random.lock().next()
    }

    /// Enters the gate as thread `thread`, unless what has the whole keyspace takes too long. The thread that follows a primary
    /// waits for at most a second at a time, to tell that it is there, but is never turned away.
    #[inline]
    pub fn enter_unless_busy(&self, thread: usize) -> Option<Entered<'_>> {
        if thread == self.replica_thread() {
            let began = self.clock.now();
            return self.gate.enter_unless(thread, || self.clock.now() - began >= FOLLOWER_WAIT);
        }
        self.gate.enter_unless(thread, self.loses_patience())
    }

    /// Whether a script, or whatever has the whole keyspace, takes too long for other clients.
    #[inline]
    pub fn is_keyspace_busy(&self) -> bool {
        self.is_script_busy() || self.gate.is_overdue()
    }

    /// To be asked again and again by a thread that waits at the gate: whether what it waits for takes too long, somewhat
    /// more than `busy-reply-threshold`. Then it does so for all threads that wait.
    #[inline]
    pub(crate) fn loses_patience(&self) -> impl Fn() -> bool + '_ {
        let waits_for = Cell::new(None);
        move || {
            if self.is_keyspace_busy() {
                return true;
            }
            let threshold_ms = self.settings.busy_reply_ms.load(Relaxed);
            let (turn, now) = (self.gate.present_turn(), self.clock.now());
            let since = waits_for.get().filter(|(waited_for, _)| *waited_for == turn).map_or(now, |(_, since)| since);
            waits_for.set(Some((turn, since)));
            // A script tells by itself, and can be ended from then on.
            let patience_ms = threshold_ms + threshold_ms / 4 + SCRIPT_LOOK_MS;
            if threshold_ms == 0 || (now - since).as_millis() < u128::from(patience_ms) {
                return false;
            }
            if self.gate.mark_overdue(turn) {
                tracing::warn!("A command has the whole keyspace for longer than busy-reply-threshold");
            }
            self.gate.is_overdue()
        }
    }

    /// The error that commands get that cannot wait for the keyspace.
    pub(crate) fn busy_refusal(&self) -> CommandError {
        if self.is_script_busy() { self.scripts.running.refusal() } else { error::BUSY_KEYSPACE }
    }

    /// Whether a script takes too long for other clients.
    pub(crate) fn is_script_busy(&self) -> bool {
        self.scripts.running.is_busy()
    }

    /// Memory that does not count for eviction.
    pub fn apart(&self) -> Apart<'_> {
        Apart { lazyfree: &self.lazyfree, history: &self.replication.history }
    }

    /// Takes the whole keyspace for the calling thread, which has not entered; `None` if what has it takes too long.
    pub fn alone_unless_busy(&self) -> Option<Exclusive<'_>> {
        let turn = self.gate.take_turn();
        // A script that takes too long must not delay the end of the process.
        self.gate.exclusive_unless(turn, self.loses_patience())
    }

    /// Reports an event to the latency monitor, if it took long.
    pub fn note_event(&self, event: Event, took: Duration) {
        let threshold_ms = self.settings.timing.latency_threshold_ms();
        if threshold_ms.is_some_and(|ms| took.as_millis() >= u128::from(ms)) {
            self.latency.add(event, self.clock.unix_us() / 1_000_000, took);
        }
    }

    /// An identifier for a new history of the data.
    pub fn new_replid(&self) -> String {
        identifier(self.draw_seed(), 2)
    }

    /// Number of the maintenance thread, in counters and at the gate.
    pub fn maintenance_thread(&self) -> usize {
        self.workers
    }

    /// What is held back at a time.
    #[inline]
    pub fn pause(&self, now_ms: i64) -> Pause {
        match self.settings.client_pause(now_ms) {
            Pause::None
                if self.is_behind(now_ms) || self.cluster.as_ref().is_some_and(|cluster| cluster.moves.is_behind()) =>
            {
                Pause::Changes
            }
            pause => pause,
        }
    }

    /// Whether a snapshot, the log or the stream for replicas lags so far behind that writes wait for it.
    #[inline]
    pub(crate) fn is_behind(&self, now_ms: i64) -> bool {
        self.snapshots.is_behind() || self.settings.is_log_full() || self.replication.history.is_behind(now_ms)
    }

    /// When a command that is held back at a time should look again, in Unix milliseconds.
    pub fn pause_look_ms(&self, now_ms: i64) -> i64 {
        match self.settings.client_pause(now_ms) {
            Pause::None => now_ms + BEHIND_LOOK_MS,
            _ if self.settings.are_writes_held() => now_ms + HELD_LOOK_MS,
            _ => self.settings.client_pause_until_ms(),
        }
    }

    /// Holds writes back until the same reason ends it. Waits until those that have begun are over, at most so long; returns
    /// `false` if one, such as a script, or MIGRATE to a server that does not answer, takes too long for that and may still
    /// write. Not to be called by a thread that is in the keyspace.
    pub fn hold_writes(&self, hold: Hold, at_most: Duration) -> bool {
        self.settings.hold_writes(hold, true);
        let (turn, began, is_lost) = (self.gate.take_turn(), self.clock.now(), self.loses_patience());
        let are_over = self.gate.exclusive_unless(turn, || is_lost() || self.clock.now() - began >= at_most).is_some();
        self.log.flush();
        are_over
    }

    /// Begins a planned fail-over: writes are held back from here on. Returns `false` if one goes on already.
    pub(crate) fn begin_failover(&self, plan: Plan) -> bool {
        self.replication.failover.begin(plan, || self.settings.hold_writes(Hold::Failover, true))
    }

    /// Ends a planned fail-over: writes go on. Returns whether one went on.
    pub fn end_failover(&self) -> bool {
        self.replication.failover.end(|| self.release_writes(Hold::Failover))
    }

    /// Lets writes that were held back for this reason go on.
    pub fn release_writes(&self, hold: Hold) {
        self.settings.hold_writes(hold, false);
        self.wake_clients();
    }

    /// Has the connections of all clients look whether they can go on. O(clients).
    pub fn wake_clients(&self) {
        for client in self.clients.all() {
            client.wake();
        }
    }

    /// Number of the thread for long commands, likewise.
    pub(crate) fn long_thread(&self) -> usize {
        self.workers + 1
    }

    /// Number of the thread for snapshots at the gate.
    pub fn snapshot_thread(&self) -> usize {
        self.workers + 2
    }

    /// Number of the thread that changes what this node has of a cluster, likewise.
    pub fn cluster_thread(&self) -> usize {
        self.workers + 5
    }

    /// Number of the thread that follows a primary, in counters and at the gate.
    pub fn replica_thread(&self) -> usize {
        self.workers + 3
    }

    /// How many threads are numbered.
    pub(crate) fn threads(&self) -> usize {
        threads(self.workers)
    }

    /// Unix time in seconds when it started.
    pub fn started_unix_s(&self) -> i64 {
        self.started_unix_s
    }

    /// Memory in use, in bytes.
    pub fn used_memory(&self) -> u64 {
        let used = onrush_alloc::allocated_bytes();
        self.peak_memory.fetch_max(used, Relaxed);
        used
    }
}

/// How many threads are numbered: beside the workers the maintenance thread, the one for long commands, the one for
/// snapshots, the one that follows a primary, the one that serves replicas, and the one that changes slots.
fn threads(workers: usize) -> usize {
    workers + 6
}

/// A number that tells nothing about the seed.
fn secret(seed: u64) -> u64 {
    xxh3_128_with_seed(b"channels", seed) as u64
}

/// 40 hexadecimal digits that tell nothing about the seed.
fn identifier(seed: u64, number: u64) -> String {
    let [first, second] = [2 * number, 2 * number + 1].map(|input| xxh3_128_with_seed(&input.to_le_bytes(), seed));
    let mut text = format!("{first:032x}{second:032x}");
    text.truncate(40);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_differ_by_seed_and_by_number() {
        let all = [(1, 1), (1, 2), (2, 1), (2, 2)].map(|(seed, number)| identifier(seed, number));
        for (at, one) in all.iter().enumerate() {
            assert!(one.len() == 40 && one.bytes().all(|byte| byte.is_ascii_hexdigit()));
            assert!(!all[..at].contains(one));
        }
    }
}

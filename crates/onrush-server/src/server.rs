//! The server: what all threads share.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use onrush_persist::{CommandLog, SinkId};
use onrush_store::{Keyspace, KeyspaceOptions, clock};
use parking_lot::{Mutex, RwLock};
use tokio::sync::mpsc::UnboundedSender;

use crate::blocking::Waiters;
use crate::client::{ClientHandle, Registry};
use crate::command::CommandTable;
use crate::commit::AccessClock;
use crate::config::Config;
use crate::encodings::Encodings;
use crate::eviction::{Eviction, Policy};
use crate::gate::Gate;
use crate::lazyfree::LazyFree;
use crate::listener::ListenChange;
use crate::offload::Offload;
use crate::stats::Stats;

/// Settings read in every slice of work, kept as atomics beside the configuration.
pub struct Hot {
    /// `pipeline-reply-limit` in bytes.
    pub reply_limit_bytes: AtomicUsize,
    /// `client-query-buffer-limit` in bytes.
    pub query_limit_bytes: AtomicUsize,
    /// `pipeline-slice-us`.
    pub slice_us: AtomicU64,
    /// `gather-connections`.
    pub gathers: AtomicBool,
    /// `proto-max-bulk-len` in bytes.
    pub bulk_len_max: AtomicI64,
    /// Up to where collections stay small.
    pub encodings: Encodings,
    /// `maxmemory` in bytes; 0 is no limit.
    pub maxmemory: AtomicU64,
    /// Whether `maxmemory-policy` is an LFU one.
    pub lfu: AtomicBool,
    /// Whether `maxmemory-policy` is an LRM one: the access clock tells the last change.
    pub lrm: AtomicBool,
    /// Whether keys are evicted by their access clock as a time, which then counts milliseconds.
    pub fine_clock: AtomicBool,
    /// `lfu-log-factor`.
    pub lfu_log_factor: AtomicU32,
    /// `lfu-decay-time` in minutes.
    pub lfu_decay_minutes: AtomicU32,
    /// Whether clients have to authenticate.
    pub password_set: AtomicBool,
    /// Whether active expiry runs (`DEBUG SET-ACTIVE-EXPIRE`).
    pub active_expire: AtomicBool,
    /// CLIENT PAUSE: 0 not paused, 1 writes, 2 everything.
    pub pause_mode: AtomicU8,
    /// Unix time in milliseconds at which the pause ends.
    pub pause_until_ms: AtomicI64,
}

/// What CLIENT PAUSE holds back at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Nothing.
    None,
    /// Commands that write.
    Writes,
    /// All commands.
    All,
}

/// Everything the threads share; one per process, made at start and never dropped.
pub struct Server {
    /// The configuration.
    pub config: RwLock<Config>,
    /// What every slice reads of it.
    pub hot: Hot,
    /// The data.
    pub keyspace: Keyspace,
    /// The gate in front of it.
    pub gate: Gate,
    /// The command table.
    pub commands: CommandTable,
    /// Connected clients.
    pub clients: Registry,
    /// Those that wait for keys.
    pub waiters: Waiters,
    /// Counters.
    pub stats: Stats,
    /// The log of effects.
    pub log: Arc<CommandLog>,
    /// Eviction: its settings and its state.
    pub eviction: Eviction,
    /// The freeing thread.
    pub lazyfree: LazyFree,
    /// The thread for long commands.
    pub offload: Offload,
    /// Threads that execute; thread numbers below this are workers, the next one is the maintenance thread.
    pub workers: usize,
    /// How many of them have connections: the first ones.
    pub workers_used: AtomicUsize,
    /// When it started.
    pub started: Instant,
    /// 40 hexadecimal digits, different at every start.
    pub run_id: String,
    /// Identifies the history of the data, as INFO's `master_replid`.
    pub replid: String,
    /// Connections accepted.
    pub connections_received: AtomicU64,
    /// Connections refused because of `maxclients`.
    pub connections_rejected: AtomicU64,
    /// Connections there are now.
    pub connected: AtomicUsize,
    /// The time, read once per chunk.
    pub clock: Clock,
    /// What the once-in-100-ms samples say.
    pub samples: Mutex<Samples>,
    /// Most memory used so far in bytes.
    pub peak_memory: AtomicU64,
    /// Memory used when the server had started, in bytes.
    pub startup_memory: AtomicU64,
    /// Set when the server is to stop.
    pub shutdown: tokio::sync::Notify,
    /// The file that DEBUG COMMAND-LOG writes.
    pub debug_log: Mutex<Option<SinkId>>,
    /// Path of the configuration file, if there is one.
    pub config_file: Option<std::path::PathBuf>,
    /// Times a full pass of active expiry ran out of its time.
    pub expire_time_capped: AtomicU64,
    /// Microseconds spent in active expiry.
    pub expire_cycle_us: AtomicU64,
    /// Port listened on.
    pub port: AtomicU32,
    /// Held by who changes the configuration, so that two changes at once do not lose one another.
    pub config_changes: Mutex<()>,
    /// The way to listen elsewhere, while the server runs.
    pub listening: OnceLock<UnboundedSender<ListenChange>>,
}

/// Rates, from samples taken by the maintenance thread.
#[derive(Default, Clone, Copy)]
pub struct Samples {
    /// Commands per second.
    pub ops_per_s: u64,
    /// Bytes read per second.
    pub input_bytes_per_s: u64,
    /// Bytes written per second.
    pub output_bytes_per_s: u64,
    /// Rounds of all workers per second.
    pub rounds_per_s: u64,
    /// What a round took, in microseconds.
    pub round_us: u64,
    /// Estimated share of keys with an expiry that are past it, in percent.
    pub expired_stale_perc: f64,
}

impl Server {
    /// A server with this configuration and no connections.
    ///
    /// # Errors
    /// The system has no thread to give, or the configuration renames a command that is not there.
    pub fn new(config: Config, config_file: Option<std::path::PathBuf>) -> std::io::Result<Self> {
        let commands = CommandTable::new(crate::commands::FAMILIES)
            .renamed(&config.renamed_commands)
            .map_err(std::io::Error::other)?;
        let workers = config.workers;
        // The maintenance thread and the one for long commands execute as well.
        let threads = workers + 2;
        let hot = Hot::new(&config);
        Ok(Self {
            hot,
            keyspace: Keyspace::new(KeyspaceOptions { databases: config.databases, ..KeyspaceOptions::default() }),
            gate: Gate::new(threads),
            stats: Stats::new(threads, commands.len()),
            commands,
            clients: Registry::default(),
            waiters: Waiters::default(),
            log: CommandLog::new(),
            eviction: {
                let eviction = Eviction::default();
                eviction.refresh(&config);
                eviction
            },
            lazyfree: LazyFree::start()?,
            offload: Offload::default(),
            workers,
            workers_used: AtomicUsize::new(if config.gather_connections { 1 } else { workers }),
            started: Instant::now(),
            run_id: random_hex(),
            replid: random_hex(),
            connections_received: AtomicU64::new(0),
            connections_rejected: AtomicU64::new(0),
            connected: AtomicUsize::new(0),
            clock: Clock::new(),
            samples: Mutex::default(),
            peak_memory: AtomicU64::new(0),
            startup_memory: AtomicU64::new(0),
            shutdown: tokio::sync::Notify::new(),
            debug_log: Mutex::default(),
            config_file,
            expire_time_capped: AtomicU64::new(0),
            expire_cycle_us: AtomicU64::new(0),
            port: AtomicU32::new(config.port as u32),
            config_changes: Mutex::new(()),
            listening: OnceLock::new(),
            config: RwLock::new(config),
        })
    }

    /// Number of the maintenance thread, in counters and at the gate.
    pub fn maintenance_thread(&self) -> usize {
        self.workers
    }

    /// Number of the thread for long commands, likewise.
    pub fn long_thread(&self) -> usize {
        self.workers + 1
    }

    /// The access clock at a time.
    pub fn access_clock(&self, now_ms: i64, no_touch: bool) -> AccessClock {
        if !self.hot.lfu.load(Relaxed) {
            let is_fine = self.hot.fine_clock.load(Relaxed);
            let time = if is_fine { clock::lru_fine(now_ms) } else { clock::lru(now_ms) };
            return match (self.hot.lrm.load(Relaxed), no_touch) {
                (true, _) => AccessClock::Lrm(time),
                (false, true) => AccessClock::Untouched(time),
                (false, false) => AccessClock::Lru(time),
            };
        }
        if no_touch {
            return AccessClock::Untouched(clock::lfu(clock::LFU_INIT, now_ms));
        }
        AccessClock::Lfu {
            now_ms,
            log_factor: self.hot.lfu_log_factor.load(Relaxed),
            decay_minutes: self.hot.lfu_decay_minutes.load(Relaxed),
        }
    }

    /// What is paused at a time.
    #[inline]
    pub fn pause(&self, now_ms: i64) -> Pause {
        match self.hot.pause_mode.load(Relaxed) {
            0 => Pause::None,
            _ if self.hot.pause_until_ms.load(Relaxed) <= now_ms => Pause::None,
            1 => Pause::Writes,
            _ => Pause::All,
        }
    }

    /// Has a client's connection close, without replies that are still to come. When this returns nothing is executed for
    /// the client any more that it waited for. The caller holds no lock of a shard.
    pub fn kill(&'static self, client: &ClientHandle) {
        client.kill();
        let waiter = client.waiter.lock().clone();
        if let Some(waiter) = waiter {
            waiter.forget(self);
        }
    }

    /// Memory in use, in bytes.
    pub fn used_memory(&self) -> u64 {
        let used = crate::alloc::allocated_bytes();
        self.peak_memory.fetch_max(used, Relaxed);
        used
    }
}

/// Unix time from the monotonic clock, so that one reading of one clock serves a chunk for everything.
pub struct Clock {
    base: Instant,
    offset_us: AtomicI64,
}

impl Clock {
    fn new() -> Self {
        let clock = Self { base: Instant::now(), offset_us: AtomicI64::new(0) };
        clock.synchronize();
        clock
    }

    /// Takes over what the system's clock says now; called regularly, for it may be set.
    pub fn synchronize(&self) {
        self.offset_us.store(unix_us() - self.base.elapsed().as_micros() as i64, Relaxed);
    }

    /// Unix time in milliseconds at `instant`.
    #[inline]
    pub fn unix_ms(&self, instant: Instant) -> i64 {
        let since = instant - self.base;
        let since_us = since.as_secs() as i64 * 1_000_000 + i64::from(since.subsec_micros());
        (since_us + self.offset_us.load(Relaxed)) / 1000
    }
}

impl Hot {
    fn new(config: &Config) -> Self {
        let hot = Self {
            reply_limit_bytes: AtomicUsize::new(0),
            query_limit_bytes: AtomicUsize::new(0),
            slice_us: AtomicU64::new(0),
            gathers: AtomicBool::new(false),
            bulk_len_max: AtomicI64::new(0),
            encodings: Encodings::default(),
            maxmemory: AtomicU64::new(0),
            lfu: AtomicBool::new(false),
            lrm: AtomicBool::new(false),
            fine_clock: AtomicBool::new(false),
            lfu_log_factor: AtomicU32::new(0),
            lfu_decay_minutes: AtomicU32::new(0),
            password_set: AtomicBool::new(false),
            active_expire: AtomicBool::new(true),
            pause_mode: AtomicU8::new(0),
            pause_until_ms: AtomicI64::new(0),
        };
        hot.refresh(config);
        hot
    }

    /// Takes over the settings of a changed configuration.
    pub fn refresh(&self, config: &Config) {
        self.reply_limit_bytes.store(config.pipeline_reply_limit as usize, Relaxed);
        self.query_limit_bytes.store(config.client_query_buffer_limit as usize, Relaxed);
        self.slice_us.store(config.pipeline_slice_us, Relaxed);
        self.gathers.store(config.gather_connections, Relaxed);
        self.bulk_len_max.store(config.proto_max_bulk_len as i64, Relaxed);
        self.encodings.refresh(config);
        self.maxmemory.store(config.maxmemory, Relaxed);
        let policy = config.maxmemory_policy;
        self.lfu.store(policy.contains("lfu"), Relaxed);
        self.lrm.store(policy.contains("lrm"), Relaxed);
        self.fine_clock.store(config.maxmemory > 0 && Policy::named(policy).reads_clock(), Relaxed);
        self.lfu_log_factor.store(config.lfu_log_factor as u32, Relaxed);
        self.lfu_decay_minutes.store(config.lfu_decay_time as u32, Relaxed);
        self.password_set.store(!config.requirepass.is_empty(), Relaxed);
    }
}

/// Unix time in milliseconds.
pub fn unix_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Unix time in microseconds.
pub fn unix_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}

/// A number nobody can foresee, from the standard library's hash seeds.
pub fn random_u64() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

fn random_hex() -> String {
    let mut text: String = (0..3).map(|_| format!("{:016x}", random_u64())).collect();
    text.truncate(40);
    text
}

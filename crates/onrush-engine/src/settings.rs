//! The engine's settings: initial values, and the same as atomics that every slice of work reads.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::RwLock;

use crate::clients::share::Share;
use crate::command::Flags;
use crate::encodings::{EncodingLimits, Encodings};
use crate::eviction::state::EvictionOptions;
use crate::messages::events::EventClasses;
use crate::messages::outbox::OutputLimit;
use crate::observe::timing::{Timing, TimingOptions};
use crate::replication::role::ReplicaOptions;

/// What the access clocks of entries count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockOf {
    /// The last use, for LRU policies; also the default.
    #[default]
    LastUse,
    /// The last change (LRM policies).
    LastChange,
    /// How often they are used (LFU policies).
    Frequency,
}

/// Most bytes of an argument or a string, whatever the configuration allows: lengths of keys, elements and arguments are
/// kept in 32 bits, and what is asked for beyond it is more than memory has.
pub const BULK_LEN_MAX: i64 = 1 << 31;

/// What can be set while the engine runs. The defaults are Redis's.
#[derive(Clone, Debug)]
pub struct Options {
    /// A connection with more bytes of unread replies than this executes no commands (`pipeline-reply-limit`).
    pub reply_limit_bytes: usize,
    /// How long a connection works before others have their turn, in microseconds (`pipeline-slice-us`).
    pub slice_us: u64,
    /// The longest argument, in bytes (`proto-max-bulk-len`); more than [`BULK_LEN_MAX`] means that much.
    pub bulk_len_max: i64,
    /// Thresholds of small collections.
    pub encodings: EncodingLimits,
    /// Eviction.
    pub eviction: EvictionOptions,
    /// What the access clocks of entries count.
    pub clock_of: ClockOf,
    /// `lfu-log-factor`.
    pub lfu_log_factor: u32,
    /// `lfu-decay-time` in minutes.
    pub lfu_decay_minutes: u32,
    /// Whether FLUSHALL and FLUSHDB free in the background unless told otherwise (`lazyfree-lazy-user-flush`).
    pub lazy_flush: bool,
    /// Entries that ACL LOG keeps (`acllog-max-len`).
    pub acl_log_len_max: usize,
    /// What is timed, and noted when it takes long.
    pub timing: TimingOptions,
    /// Milliseconds after which a script takes too long; 0 is never (`busy-reply-threshold`).
    pub busy_reply_ms: u64,
    /// Which keyspace events are published (`notify-keyspace-events`).
    pub events: EventClasses,
    /// What clients may leave unread (`client-output-buffer-limit`).
    pub output_limits: OutputLimits,
    /// Whether new users may use all channels (`acl-pubsub-default`).
    pub new_users_hear_all: bool,
    /// How much memory clients may hold together (`maxmemory-clients`).
    pub clients_share: Share,
    /// Most keys tracked for clients; 0 is no limit (`tracking-table-max-keys`).
    pub tracking_keys_max: usize,
    /// Whether long strings are compressed in snapshots and by DUMP (`rdbcompression`).
    pub rdb_compression: bool,
    /// What a replica does.
    pub replica: ReplicaOptions,
    /// Bytes of the stream that are kept for replicas (`repl-backlog-size`).
    pub backlog_bytes: u64,
    /// Replicas that replies wait for by default (`durability-replicas`), and for how many milliseconds.
    pub durability_replicas: u32,
    /// See there; 0: for ever.
    pub durability_replicas_timeout_ms: u64,
    /// Good replicas without which there are no writes (`min-replicas-to-write`).
    pub replicas_min: u32,
    /// Whether a node of a cluster counts what the commands of each slot cost (`cluster-slot-stats-enabled`).
    pub counts_slots: bool,
}

/// What clients may leave unread, by class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimits {
    /// Of clients that only send commands.
    pub normal: OutputLimit,
    /// Of clients with subscriptions.
    pub pubsub: OutputLimit,
    /// Of replicas: of the stream that they lack.
    pub replica: OutputLimit,
}

impl Default for OutputLimits {
    fn default() -> Self {
        let pubsub = OutputLimit { hard_bytes: 32 << 20, soft_bytes: 8 << 20, soft_seconds: 60 };
        let replica = OutputLimit { hard_bytes: 256 << 20, soft_bytes: 64 << 20, soft_seconds: 60 };
        Self { normal: OutputLimit::default(), pubsub, replica }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            reply_limit_bytes: 1 << 20,
            slice_us: 1000,
            bulk_len_max: 512 << 20,
            encodings: EncodingLimits::default(),
            eviction: EvictionOptions::default(),
            clock_of: ClockOf::LastUse,
            lfu_log_factor: 10,
            lfu_decay_minutes: 1,
            lazy_flush: false,
            acl_log_len_max: 128,
            timing: TimingOptions::default(),
            busy_reply_ms: 5000,
            events: EventClasses::empty(),
            output_limits: OutputLimits::default(),
            new_users_hear_all: false,
            clients_share: Share::Bytes(0),
            tracking_keys_max: 1_000_000,
            rdb_compression: true,
            replica: ReplicaOptions::default(),
            backlog_bytes: 1 << 20,
            replicas_min: 0,
            counts_slots: false,
            durability_replicas: 0,
            durability_replicas_timeout_ms: 10_000,
        }
    }
}

/// Settings as atomics.
#[derive(Default)]
pub struct Settings {
    /// See [`Options::reply_limit_bytes`].
    pub reply_limit_bytes: AtomicUsize,
    /// See [`Options::slice_us`].
    pub slice_us: AtomicU64,
    /// See [`Options::bulk_len_max`].
    pub bulk_len_max: AtomicI64,
    /// See [`Options::encodings`].
    pub(crate) encodings: Encodings,
    /// Whether entries count their uses.
    pub lfu: AtomicBool,
    /// Whether the access clock tells the last change.
    pub lrm: AtomicBool,
    /// Whether keys are evicted by their access clock as a time, which then counts milliseconds.
    pub fine_clock: AtomicBool,
    /// See [`Options::lfu_log_factor`].
    pub lfu_log_factor: AtomicU32,
    /// See [`Options::lfu_decay_minutes`].
    pub lfu_decay_minutes: AtomicU32,
    /// See [`Options::lazy_flush`].
    pub lazy_flush: AtomicBool,
    /// See [`Options::acl_log_len_max`].
    pub acl_log_len_max: AtomicUsize,
    /// See [`Options::timing`].
    pub timing: Timing,
    /// See [`Options::busy_reply_ms`].
    pub busy_reply_ms: AtomicU64,
    /// See [`Options::events`]: their bits.
    events: AtomicU32,
    /// See [`Options::output_limits`].
    output_limits: RwLock<OutputLimits>,
    /// See [`Options::rdb_compression`].
    pub rdb_compression: AtomicBool,
    /// See [`Options::counts_slots`].
    counts_slots: AtomicBool,
    /// Whether active expiry is off (`DEBUG SET-ACTIVE-EXPIRE`).
    pub expiry_is_off: AtomicBool,
    /// What CLIENT PAUSE holds back ([`PAUSE_WRITES`], [`PAUSE_ALL`]), and whether the log is full ([`LOG_IS_FULL`]).
    pause_mode: AtomicU8,
    /// Unix time in milliseconds at which CLIENT PAUSE ends.
    pause_until_ms: AtomicI64,
}

/// Bits of [`Settings::pause_mode`].
const PAUSE_WRITES: u8 = 1;
const PAUSE_ALL: u8 = 2;
const LOG_IS_FULL: u8 = 4;
const HELD_FOR_MOVE: u8 = Hold::Move as u8;
const HELD: u8 = Hold::Failover as u8 | Hold::End as u8 | Hold::Handover as u8 | HELD_FOR_MOVE;

/// Why writes are held back until somebody says otherwise: each a further bit of the mode of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Hold {
    /// A replica is about to take over.
    Failover = 8,
    /// The process is about to end, and replicas lack something.
    End = 16,
    /// A replica of this node of a cluster is about to take over.
    Handover = 32,
    /// Another node of a cluster is about to take slots over.
    Move = 64,
}

/// Sets bits of a word that several threads set, or clears them.
pub(crate) fn set_bits(word: &AtomicU8, bits: u8, are_set: bool) {
    match are_set {
        true => word.fetch_or(bits, Relaxed),
        false => word.fetch_and(!bits, Relaxed),
    };
}

/// What is held back at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pause {
    /// Nothing.
    None,
    /// Commands that write: a snapshot waits for the disk, or the log does.
    Changes,
    /// Commands that write, and those whose effects go to replicas: CLIENT PAUSE WRITE, a planned fail-over, the end.
    Writes,
    /// All commands: CLIENT PAUSE.
    All,
}

impl Pause {
    /// Whether a command with these flags, or a transaction of such commands, is held back.
    pub(crate) fn holds_back(self, flags: Flags) -> bool {
        match self {
            Self::None => false,
            // Messages change no key.
            Self::Changes if flags.contains(Flags::PUBSUB) => flags.contains(Flags::WRITE),
            Self::Changes | Self::Writes => flags.intersects(Flags::WRITE | Flags::MAY_REPLICATE),
            Self::All => true,
        }
    }
}

impl Settings {
    /// Takes over changed options.
    pub fn store(&self, options: &Options) {
        self.reply_limit_bytes.store(options.reply_limit_bytes, Relaxed);
        self.slice_us.store(options.slice_us, Relaxed);
        self.bulk_len_max.store(options.bulk_len_max.min(BULK_LEN_MAX), Relaxed);
        self.encodings.store(&options.encodings);
        self.lfu.store(options.clock_of == ClockOf::Frequency, Relaxed);
        self.lrm.store(options.clock_of == ClockOf::LastChange, Relaxed);
        let eviction = &options.eviction;
        self.fine_clock.store(eviction.maxmemory > 0 && eviction.policy.reads_clock(), Relaxed);
        self.lfu_log_factor.store(options.lfu_log_factor, Relaxed);
        self.lfu_decay_minutes.store(options.lfu_decay_minutes, Relaxed);
        self.lazy_flush.store(options.lazy_flush, Relaxed);
        self.acl_log_len_max.store(options.acl_log_len_max, Relaxed);
        self.timing.store(&options.timing);
        self.busy_reply_ms.store(options.busy_reply_ms, Relaxed);
        self.events.store(if options.events.publishes() { options.events.bits() } else { 0 }, Relaxed);
        self.rdb_compression.store(options.rdb_compression, Relaxed);
        self.counts_slots.store(options.counts_slots, Relaxed);
        *self.output_limits.write() = options.output_limits;
    }

    /// Keyspace events that are published; none if there is no channel for them.
    #[inline]
    pub fn events(&self) -> EventClasses {
        EventClasses::from_bits_retain(self.events.load(Relaxed))
    }

    /// Whether the costs of commands are counted by slot.
    #[inline]
    pub(crate) fn counts_slots(&self) -> bool {
        self.counts_slots.load(Relaxed)
    }

    /// What clients may leave unread.
    pub fn output_limits(&self) -> OutputLimits {
        *self.output_limits.read()
    }

    /// What is held back at a time because somebody said so: CLIENT PAUSE, or a [`Hold`].
    #[inline]
    pub(crate) fn client_pause(&self, now_ms: i64) -> Pause {
        self.pause_by(self.pause_mode.load(Relaxed) & !LOG_IS_FULL, now_ms)
    }

    /// The same for what comes from another node of a cluster: that does not wait for slots that go to others, which may wait for
    /// this node.
    pub(crate) fn client_pause_of_imports(&self, now_ms: i64) -> Pause {
        self.pause_by(self.pause_mode.load(Relaxed) & !LOG_IS_FULL & !HELD_FOR_MOVE, now_ms)
    }

    #[inline]
    fn pause_by(&self, mode: u8, now_ms: i64) -> Pause {
        match mode {
            0 => Pause::None,
            _ if mode & HELD != 0 => self.command_pause(now_ms).max(Pause::Writes),
            _ => self.command_pause(now_ms),
        }
    }

    /// What CLIENT PAUSE holds back at a time.
    pub fn command_pause(&self, now_ms: i64) -> Pause {
        match self.pause_mode.load(Relaxed) & (PAUSE_WRITES | PAUSE_ALL) {
            0 => Pause::None,
            _ if self.is_pause_over(now_ms) => Pause::None,
            PAUSE_WRITES => Pause::Writes,
            _ => Pause::All,
        }
    }

    /// Whether writes are held back until somebody says otherwise.
    pub fn are_writes_held(&self) -> bool {
        self.pause_mode.load(Relaxed) & HELD != 0
    }

    /// Whether they are because another server waits for the stream to come to its end.
    pub fn is_stream_held(&self) -> bool {
        self.pause_mode.load(Relaxed) & HELD & !HELD_FOR_MOVE != 0
    }

    /// Begins or ends holding writes back; whoever ends it wakes the clients.
    pub fn hold_writes(&self, hold: Hold, is_held: bool) {
        set_bits(&self.pause_mode, hold as u8, is_held);
    }

    /// Whether CLIENT PAUSE has ended. One that has ended stays so when the clock is set back.
    #[cold]
    fn is_pause_over(&self, now_ms: i64) -> bool {
        let until_ms = self.pause_until_ms.load(Relaxed);
        let is_over = until_ms <= now_ms;
        if is_over && until_ms != 0 {
            // If this fails, the next one has begun.
            let _ = self.pause_until_ms.compare_exchange(until_ms, 0, Relaxed, Relaxed);
        }
        is_over
    }

    /// When CLIENT PAUSE ends, in Unix milliseconds; 0 if there is none.
    pub(crate) fn client_pause_until_ms(&self) -> i64 {
        self.pause_until_ms.load(Relaxed)
    }

    /// Sets what CLIENT PAUSE holds back, and until when.
    pub(crate) fn pause_clients(&self, pause: Pause, until_ms: i64) {
        let mode = match pause {
            Pause::None => 0,
            Pause::Changes | Pause::Writes => PAUSE_WRITES,
            Pause::All => PAUSE_ALL,
        };
        self.pause_until_ms.store(until_ms, Relaxed);
        // The closure always gives a value.
        let _ =
            self.pause_mode.fetch_update(Relaxed, Relaxed, |before| Some(before & !(PAUSE_WRITES | PAUSE_ALL) | mode));
    }

    /// Sets whether the log takes no more records: then commands that write are held back, and nothing expires or is
    /// evicted.
    pub fn set_log_full(&self, is_full: bool) {
        set_bits(&self.pause_mode, LOG_IS_FULL, is_full);
    }

    /// Whether the log takes no more records.
    pub fn is_log_full(&self) -> bool {
        self.pause_mode.load(Relaxed) & LOG_IS_FULL != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_that_is_over_does_not_come_back_with_an_earlier_time() {
        let settings = Settings::default();
        settings.pause_clients(Pause::Writes, 1_000);
        assert_eq!(settings.client_pause(999), Pause::Writes);
        assert_eq!(settings.client_pause(1_000), Pause::None);
        assert_eq!(settings.client_pause(500), Pause::None);
        settings.pause_clients(Pause::All, 2_000);
        assert_eq!(settings.client_pause(1_500), Pause::All);
    }

    #[test]
    fn writes_are_held_for_each_reason_and_beside_a_pause() {
        let settings = Settings::default();
        settings.hold_writes(Hold::Failover, true);
        settings.hold_writes(Hold::End, true);
        settings.hold_writes(Hold::Failover, false);
        assert_eq!((settings.client_pause(0), settings.command_pause(0)), (Pause::Writes, Pause::None));
        settings.pause_clients(Pause::All, 1_000);
        assert_eq!([999, 1_000].map(|now_ms| settings.client_pause(now_ms)), [Pause::All, Pause::Writes]);
        settings.pause_clients(Pause::None, 0);
        assert!(settings.are_writes_held());
        settings.hold_writes(Hold::End, false);
        assert_eq!(settings.client_pause(0), Pause::None);
    }

    #[test]
    fn what_comes_from_another_node_does_not_wait_for_what_goes_to_one() {
        let settings = Settings::default();
        settings.hold_writes(Hold::Move, true);
        assert_eq!((settings.client_pause(0), settings.client_pause_of_imports(0)), (Pause::Writes, Pause::None));
        settings.hold_writes(Hold::Handover, true);
        assert_eq!(settings.client_pause_of_imports(0), Pause::Writes);
        settings.hold_writes(Hold::Handover, false);
        settings.pause_clients(Pause::All, 1_000);
        assert_eq!(settings.client_pause_of_imports(0), Pause::All);
    }
}

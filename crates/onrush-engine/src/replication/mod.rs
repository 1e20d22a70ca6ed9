//! Replication: the role of this server, the history of its data, and its replicas.
//!
//! Everything that waits for sockets or files is the server's: its thread `replica` follows a primary, and its thread
//! `replicas` serves replicas. Here is what both share with commands.

pub mod attached;
mod change;
pub mod failover;
pub mod follower;
pub mod goal;
pub mod held;
pub mod history;
pub mod introduction;
pub mod reached;
pub mod role;
mod stream;
pub mod waits;

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use onrush_persist::SinkId;
use parking_lot::Mutex;

use attached::Attached;
use failover::Failover;
use held::Held;
use history::{History, Position};
use role::Role;
use waits::Waits;

/// Wakes the thread that serves replicas.
type Waker = Box<dyn Fn() + Send + Sync>;

/// What all threads share of replication.
pub struct Replication {
    /// Whether this server is a primary or a replica.
    pub role: Role,
    /// What its data has been through.
    pub history: History,
    /// The replicas.
    pub attached: Attached,
    /// Clients that wait for them.
    pub waits: Waits,
    /// Connections whose replies wait for them.
    pub held: Held,
    /// A planned fail-over.
    pub failover: Failover,
    /// Counters of synchronizations.
    pub syncs: SyncCounters,
    /// The sink that makes the stream, while this server is a primary that keeps one.
    sink: Mutex<Option<SinkId>>,
    /// Whether there is one.
    is_streaming: AtomicBool,
    waker: OnceLock<Waker>,
}

/// Counters of INFO.
#[derive(Debug, Default)]
pub struct SyncCounters {
    /// Replicas that got all data.
    pub full: AtomicU64,
    /// Replicas that went on where they were.
    pub partial_ok: AtomicU64,
    /// Replicas that wanted to go on, and could not.
    pub partial_err: AtomicU64,
    /// Bytes from the primary.
    pub input_bytes: AtomicU64,
    /// Bytes to replicas.
    pub output_bytes: AtomicU64,
    /// Replicas that were closed, as more waited for them than `client-output-buffer-limit` allows.
    pub closed_at_limit: AtomicU64,
}

impl SyncCounters {
    /// CONFIG RESETSTAT.
    pub(crate) fn reset(&self) {
        let Self { full, partial_ok, partial_err, input_bytes, output_bytes, closed_at_limit } = self;
        for counter in [full, partial_ok, partial_err, input_bytes, output_bytes, closed_at_limit] {
            counter.store(0, Relaxed);
        }
    }
}

impl Replication {
    /// A primary with this identifier of its history.
    pub(crate) fn new(id: String) -> Self {
        Self {
            role: Role::default(),
            history: History::new(id),
            attached: Attached::default(),
            waits: Waits::default(),
            held: Held::default(),
            failover: Failover::default(),
            syncs: SyncCounters::default(),
            sink: Mutex::default(),
            is_streaming: AtomicBool::new(false),
            waker: OnceLock::new(),
        }
    }

    /// Sets how to wake the thread that serves replicas. Call this once.
    pub fn set_waker(&self, waker: Waker) {
        // This is called once.
        let _ = self.waker.set(waker);
    }

    /// Wakes that thread: the stream has grown, or somebody waits for replicas.
    pub fn wake(&self) {
        if let Some(wake) = self.waker.get() {
            wake();
        }
    }

    /// The data is that of another history now, at this place: what replicas have acknowledged is no part of it.
    pub fn take_over(&self, position: Position) {
        self.history.take_over(position);
        self.attached.forget();
    }

    /// Whether this server makes a stream for replicas. It changes only while no thread is in the keyspace.
    #[inline]
    pub fn is_streaming(&self) -> bool {
        self.is_streaming.load(Relaxed)
    }
}

impl fmt::Debug for Replication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replication").field("role", &self.role).field("history", &self.history).finish_non_exhaustive()
    }
}

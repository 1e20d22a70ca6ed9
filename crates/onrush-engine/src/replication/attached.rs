//! The replicas of this server, as INFO, ROLE and WAIT see them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use super::introduction::Introduction;
use super::role::Primary;
use crate::clients::client::ClientHandle;

/// One that has not been heard for so long, in milliseconds, is not waited for.
const AWAKE_MS: i64 = 1_500;

/// How far a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// It waits for a snapshot.
    Waits,
    /// It gets one.
    GetsData,
    /// It follows the stream.
    Online,
}

impl Phase {
    /// As INFO tells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waits => "wait_bgsave",
            Self::GetsData => "send_bulk",
            Self::Online => "online",
        }
    }
}

/// A replica.
pub struct Replica {
    /// Its connection.
    pub client: Arc<ClientHandle>,
    /// What it has told.
    pub introduction: Introduction,
    phase: AtomicU8,
    /// The offset that it has acknowledged, that it has on its disk, and when it said so, in Unix milliseconds.
    acknowledged: AtomicU64,
    synced: AtomicU64,
    acknowledged_ms: AtomicI64,
}

impl Replica {
    /// One that has just asked for the stream.
    pub fn new(client: Arc<ClientHandle>, introduction: Introduction, now_ms: i64) -> Self {
        Self {
            client,
            introduction,
            phase: AtomicU8::new(Phase::Waits as u8),
            acknowledged: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            acknowledged_ms: AtomicI64::new(now_ms),
        }
    }

    /// How far it is.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Relaxed) {
            0 => Phase::Waits,
            1 => Phase::GetsData,
            _ => Phase::Online,
        }
    }

    /// It has come this far.
    pub fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Relaxed);
    }

    /// The offset that it has acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Relaxed)
    }

    /// The offset that it has on its disk.
    pub fn synced(&self) -> u64 {
        self.synced.load(Relaxed)
    }

    /// It has acknowledged this.
    pub fn acknowledge(&self, offset: u64, synced: Option<u64>, now_ms: i64) {
        self.acknowledged.fetch_max(offset, Relaxed);
        if let Some(synced) = synced {
            self.synced.fetch_max(synced, Relaxed);
        }
        self.acknowledged_ms.store(now_ms, Relaxed);
    }

    /// What it has acknowledged is of another history: it counts for nothing until it asks again.
    pub fn forget(&self) {
        self.set_phase(Phase::Waits);
        self.acknowledged.store(0, Relaxed);
        self.synced.store(0, Relaxed);
    }

    /// Milliseconds since it has acknowledged anything.
    pub fn silent_ms(&self, now_ms: i64) -> i64 {
        (now_ms - self.acknowledged_ms.load(Relaxed)).max(0)
    }

    /// Where it listens.
    pub fn address(&self) -> Primary {
        Primary { host: self.ip(), port: self.introduction.port }
    }

    /// Its address, as INFO shows it.
    pub fn ip(&self) -> String {
        match self.introduction.ip.as_str() {
            "" => self.client.addr.rsplit_once(':').map_or("?", |(ip, _)| ip).trim_matches(['[', ']']).to_owned(),
            ip => ip.to_owned(),
        }
    }
}

/// The replicas of this server.
#[derive(Default)]
pub struct Attached {
    all: Mutex<Vec<Arc<Replica>>>,
    /// Those that are online and not silent for long.
    good: AtomicU32,
}

impl Attached {
    /// All of them, in the order in which they came.
    pub fn all(&self) -> Vec<Arc<Replica>> {
        self.all.lock().clone()
    }

    /// Adds one.
    pub fn add(&self, replica: &Arc<Replica>) {
        self.all.lock().push(Arc::clone(replica));
    }

    /// Removes one.
    pub fn remove(&self, replica: &Arc<Replica>) {
        self.all.lock().retain(|other| !Arc::ptr_eq(other, replica));
    }

    /// The history is another one: none of them counts until it asks again.
    pub(super) fn forget(&self) {
        self.all.lock().iter().for_each(|replica| replica.forget());
        self.good.store(0, Relaxed);
    }

    /// How many have acknowledged an offset, and how many have it on their disks.
    pub fn counts(&self, offset: u64) -> (usize, usize) {
        let all = self.all.lock();
        let count = |has: &dyn Fn(&Replica) -> u64| {
            all.iter().filter(|replica| replica.phase() == Phase::Online && has(replica) >= offset).count()
        };
        (count(&Replica::acknowledged), count(&Replica::synced))
    }

    /// Whether an online replica lacks something before an offset.
    pub fn is_any_behind(&self, offset: u64) -> bool {
        self.all.lock().iter().any(|replica| replica.phase() == Phase::Online && replica.acknowledged() < offset)
    }

    /// The same of those that were heard within [`AWAKE_MS`].
    pub fn is_any_awake_behind(&self, offset: u64, now_ms: i64) -> bool {
        let is_behind = |replica: &Arc<Replica>| {
            let is_awake = replica.phase() == Phase::Online && replica.silent_ms(now_ms) <= AWAKE_MS;
            is_awake && replica.acknowledged() < offset
        };
        self.all.lock().iter().any(is_behind)
    }

    /// The offset that at least `count` replicas have acknowledged; `None` if there are fewer of them.
    pub fn acknowledged_by(&self, count: usize) -> Option<u64> {
        let all = self.all.lock();
        let online = all.iter().filter(|replica| replica.phase() == Phase::Online);
        let mut offsets: Vec<u64> = online.map(|replica| replica.acknowledged()).collect();
        offsets.sort_unstable_by(|one, other| other.cmp(one));
        count.checked_sub(1).and_then(|at| offsets.get(at)).copied()
    }

    /// The clients that are online replicas.
    pub fn online(&self) -> Vec<u64> {
        let all = self.all.lock();
        all.iter().filter(|replica| replica.phase() == Phase::Online).map(|replica| replica.client.id).collect()
    }

    /// Whether all of them say by themselves what they have executed.
    pub fn all_tell(&self) -> bool {
        self.all.lock().iter().all(|replica| replica.introduction.tells)
    }

    /// How many are online and have acknowledged something within this time (`min-replicas-max-lag`).
    pub fn count_good(&self, lag_max_s: u64, now_ms: i64) -> u32 {
        let all = self.all.lock();
        let is_good = |replica: &&Arc<Replica>| {
            replica.phase() == Phase::Online && replica.silent_ms(now_ms) / 1000 <= lag_max_s as i64
        };
        let good = all.iter().filter(is_good).count() as u32;
        self.good.store(good, Relaxed);
        good
    }

    /// As of the last count.
    pub fn good(&self) -> u32 {
        self.good.load(Relaxed)
    }
}

//! What the threads of a simulation share.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use onrush_engine::clients::client::ClientHandle;
use onrush_engine::command::CommandTable;
use onrush_engine::commands::FAMILIES;
use onrush_engine::ctx::Engine;
use onrush_engine::shared::Parts;
use parking_lot::Mutex;

use crate::command::DATABASES;
use crate::crash::Disk;
use crate::history::{Fate, History};
use crate::replica::Replicas;
use crate::reply::Reply;
use crate::scheduler::Scheduler;
use crate::time::{self, Time};

/// The state of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has something to send, or a reply is to come.
    Busy,
    /// It has all its replies.
    Finished,
    /// It waits for a key, for ever.
    Waits,
}

/// A connection as others see it.
#[derive(Clone)]
pub struct Connection {
    /// Its number in the history.
    pub lane: usize,
    /// Its handle in the engine.
    pub handle: Arc<ClientHandle>,
}

/// The results of a simulation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Commands that were sent.
    pub commands: u64,
    /// Histories that the checker gave up on.
    pub undecided: u64,
    /// Points that the threads reached, and attempts to run.
    pub steps: u64,
    /// The longest time for which a thread waited for something that others had, in steps of all threads.
    pub longest_wait: u64,
    /// Hash of all histories.
    pub hash: u64,
    /// How often replicas got all data, and how often they went on where they were.
    pub syncs: [u64; 2],
    /// Replicas that became primaries.
    pub promotions: u64,
}

/// See the module's text.
pub struct World {
    /// The engine.
    pub engine: &'static Engine,
    /// Decides which thread runs.
    pub scheduler: Arc<Scheduler>,
    /// The history of the present round.
    pub history: Mutex<History>,
    /// Its results so far.
    pub outcome: Mutex<Outcome>,
    /// What survives a crash.
    pub disk: Disk,
    /// The replicas, if there are any.
    pub replicas: Replicas,
    /// Its time.
    pub time: Time,
    clients: Mutex<Clients>,
    /// Whether the present round is over.
    pub is_round_over: AtomicBool,
    round: AtomicUsize,
    /// Threads that have finished the present round.
    pub arrived: AtomicUsize,
}

#[derive(Default)]
struct Clients {
    connections: Vec<Option<Connection>>,
    standings: Vec<Standing>,
    /// Connections that were killed.
    killed: Vec<usize>,
}

impl Clients {
    fn new(count: usize) -> Self {
        Self { connections: vec![None; count], standings: vec![Standing::Busy; count], killed: Vec::new() }
    }
}

impl World {
    /// Before the first round, with this many clients and these replicas.
    pub fn new(
        engine: &'static Engine,
        scheduler: Arc<Scheduler>,
        time: Time,
        (clients, replicas): (usize, Replicas),
    ) -> Arc<Self> {
        Arc::new(Self {
            engine,
            scheduler,
            history: Mutex::default(),
            outcome: Mutex::default(),
            disk: Disk::default(),
            replicas,
            time,
            clients: Mutex::new(Clients::new(clients)),
            is_round_over: AtomicBool::new(false),
            round: AtomicUsize::new(0),
            arrived: AtomicUsize::new(0),
        })
    }

    /// Reports a failure. The caller has the turn and keeps it: no thread goes on.
    pub fn fail(&self, what: &str) -> ! {
        self.scheduler.fail(what.to_owned())
    }

    /// Unix time in milliseconds.
    pub fn now_ms(&self) -> i64 {
        self.time.load(Relaxed)
    }

    /// The virtual time of the simulation.
    pub fn time(&self) -> Time {
        Arc::clone(&self.time)
    }

    /// Client `number` has connected; returns its number in the history.
    pub fn connect(&self, number: usize, handle: &Arc<ClientHandle>) -> usize {
        let mut history = self.history.lock();
        let lane = history.lanes.len();
        history.lanes.push(Vec::new());
        drop(history);
        self.clients.lock().connections[number] = Some(Connection { lane, handle: Arc::clone(handle) });
        lane
    }

    /// The connection of a client.
    pub fn connection(&self, number: usize) -> Option<Connection> {
        self.clients.lock().connections[number].clone()
    }

    /// Notes that a connection will be killed.
    pub fn note_kill(&self, lane: usize) {
        self.clients.lock().killed.push(lane);
    }

    /// Notes that nothing is executed for a connection any more.
    pub fn note_end_of_lane(&self, lane: usize) {
        let now_ms = self.now_ms();
        let mut history = self.history.lock();
        let now = history.tick();
        for call in history.lanes[lane].iter_mut().filter(|call| call.fate == Fate::Lost) {
            (call.ended, call.ended_ms) = (now, now_ms);
        }
    }

    /// Whether a connection was killed.
    pub fn was_killed(&self, lane: usize) -> bool {
        self.clients.lock().killed.contains(&lane)
    }

    /// Notes the reply of a call.
    pub fn note_reply(&self, lane: usize, call: usize, reply: Reply) {
        let now_ms = self.now_ms();
        let mut history = self.history.lock();
        let now = history.tick();
        let call = &mut history.lanes[lane][call];
        (call.ended, call.ended_ms, call.fate) = (now, now_ms, Fate::Replied(reply));
        call.lsns.ended = self.engine.log.last_lsn();
        self.scheduler.note_progress();
    }

    /// Notes the state of a client.
    pub fn set_standing(&self, number: usize, standing: Standing) {
        self.clients.lock().standings[number] = standing;
    }

    /// Whether no client has anything to send, no reply is outstanding, and no long command is under way.
    pub fn is_quiet(&self) -> bool {
        !self.clients.lock().standings.contains(&Standing::Busy) && !self.engine.offload.is_busy()
    }

    /// Whether the present round is over.
    pub fn is_round_over(&self) -> bool {
        self.is_round_over.load(Relaxed)
    }

    /// The number of the present round.
    pub fn round(&self) -> usize {
        self.round.load(Relaxed)
    }

    /// Begins the next round.
    pub fn begin_round(&self) {
        let mut history = self.history.lock();
        let mut outcome = self.outcome.lock();
        let mut hasher = DefaultHasher::new();
        (outcome.hash, history.lines(|_| true)).hash(&mut hasher);
        outcome.hash = hasher.finish();
        *history = History::default();
        let mut clients = self.clients.lock();
        *clients = Clients::new(clients.standings.len());
        self.arrived.store(0, Relaxed);
        self.is_round_over.store(false, Relaxed);
        self.round.fetch_add(1, Relaxed);
    }
}

/// Another engine, with virtual time, that lives as long as the process.
pub fn new_engine(seed: u64, parts: Parts) -> &'static Engine {
    let parts = Parts { databases: DATABASES, time: time::SOURCE, hash_seed: Some(seed), seed, ..parts };
    Box::leak(Box::new(Engine::new(&parts, CommandTable::new(FAMILIES))))
}

//! Taking a snapshot: the cut, the way through all entries, the end.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use onrush_resp::REDIS_VERSION;
use onrush_store::{CutFacts, Db, Shard};

use super::output::{NoResult, Output, Purpose};
use super::underway::{Beginning, Cut, Underway, Usage};
use crate::eviction::policy::{Order, Policy};
use crate::gate::Entered;
use crate::observe::progress::Report;
use crate::shared::Shared;

/// A shard's lock goes back after this many entries, or this many bytes.
const ENTRIES_PER_LOCK: u64 = 128;
const BYTES_PER_LOCK: usize = 32 << 10;

/// How long the thread runs before it lets others run. A thread that is made to while it has a shard's lock holds up whoever
/// needs that shard.
const TURN: Duration = Duration::from_micros(500);

/// The thread's time on its core, as far as it knows.
struct Turn {
    began: Instant,
}

impl Turn {
    /// Lets others run if that is due. The thread has no lock.
    fn give_way(&mut self) {
        if self.began.elapsed() >= TURN {
            std::thread::yield_now();
            self.began = Instant::now();
        }
    }
}

/// Whether the thread must enter the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// It enters for each piece of work, as this thread.
    Gate(usize),
    /// It has the whole keyspace.
    Alone,
}

impl At {
    fn enter(self, shared: &Shared) -> Option<Entered<'_>> {
        match self {
            At::Gate(thread) => Some(shared.gate.enter(thread)),
            At::Alone => None,
        }
    }
}

/// Begins a snapshot; `None` if one is under way. The caller has the whole keyspace. `waits`: the thread for snapshots goes on with it.
/// O(shards in use).
pub fn begin(shared: &Shared, output: Box<dyn Output>, purpose: Purpose, waits: bool) -> Option<Arc<Underway>> {
    if shared.snapshots.underway().is_some() {
        output.abandon(&NoResult::Unwanted("another one is under way".to_owned()));
        return None;
    }
    // The stream is where the data is.
    shared.log.flush();
    if purpose == Purpose::File && !shared.replication.role.is_replica() {
        // The file does not know the stream's database: the stream says it again behind the cut.
        shared.replication.note_position(shared);
    }
    let keyspace = &shared.keyspace;
    let sizes = (0..keyspace.databases())
        .map(|db| keyspace.db(db).map_or((0, 0), |db| (db.len() as u64, db.volatile_len() as u64)))
        .collect();
    let cut = cut(shared, sizes, keyspace.cut());
    let libraries = shared.scripts.library_texts();
    let aux = aux(shared, &cut, purpose);
    let compresses = shared.settings.rdb_compression.load(Relaxed);
    let beginning = Beginning { purpose, output, compresses, aux, libraries, slots: None };
    shared.snapshots.begin(|is_behind| Underway::new(beginning, cut, is_behind), waits)
}

/// As [`begin`], of some slots of a node of a cluster alone, as commands: no other entry is looked at. The thread for snapshots
/// goes on with it. O(slots named).
pub fn begin_of_slots(shared: &Shared, output: Box<dyn Output>, slots: Vec<u16>) -> Option<Arc<Underway>> {
    if shared.snapshots.underway().is_some() {
        return None;
    }
    shared.log.flush();
    let keyspace = &shared.keyspace;
    let cut = cut(shared, vec![(0, 0)], keyspace.cut_shards(0, slots.iter().map(|slot| usize::from(*slot))));
    let (aux, libraries) = (Vec::new(), Vec::new());
    let beginning =
        Beginning { purpose: Purpose::Slots, output, compresses: false, aux, libraries, slots: Some(slots) };
    shared.snapshots.begin(|is_behind| Underway::new(beginning, cut, is_behind), true)
}

fn cut(shared: &Shared, sizes: Vec<(u64, u64)>, facts: CutFacts) -> Cut {
    Cut {
        started: shared.clock.now(),
        cut_ms: shared.clock.unix_ms(),
        changes: shared.stats.changes(),
        usage: usage(shared),
        lfu_decay_minutes: shared.settings.lfu_decay_minutes.load(Relaxed),
        threads: shared.threads(),
        sizes,
        facts,
    }
}

fn usage(shared: &Shared) -> Usage {
    match shared.eviction.policy() {
        _ if shared.settings.lfu.load(Relaxed) => Usage::Frequency,
        Policy::Evicts(_, Order::Lru) => Usage::Idle,
        _ => Usage::Untold,
    }
}

fn aux(shared: &Shared, cut: &Cut, purpose: Purpose) -> Vec<(&'static str, String)> {
    let mut aux = vec![
        ("redis-ver", REDIS_VERSION.to_owned()),
        ("redis-bits", usize::BITS.to_string()),
        ("ctime", (cut.cut_ms / 1000).to_string()),
        ("used-mem", shared.used_memory().to_string()),
    ];
    let history = &shared.replication.history;
    if purpose != Purpose::LogBase && history.is_kept() && !shared.replication.role.is_executing() {
        let position = history.position();
        aux.push(("repl-stream-db", history.db().unwrap_or(0).to_string()));
        aux.push(("repl-id", position.id));
        aux.push(("repl-offset", position.offset.to_string()));
    }
    aux.push(("aof-base", u8::from(purpose == Purpose::LogBase).to_string()));
    aux
}

/// Takes one snapshot after the other, for as long as the process lives, as the thread for snapshots.
pub fn serve(shared: &'static Shared) {
    loop {
        let underway = shared.snapshots.wait();
        // The result is in the facts, and in the log.
        let _ = run(shared, &underway, At::Gate(shared.snapshot_thread()));
    }
}

/// Goes through all entries, saves the unsaved ones, and ends the snapshot.
///
/// # Errors
/// Why it failed, which is logged.
pub fn run(shared: &Shared, underway: &Underway, at: At) -> Result<(), String> {
    let mut report = Report::new();
    loop {
        let swaps = underway.swaps();
        go_through(shared, underway, at, &mut report);
        // A database that SWAPDB has put in place of a finished one must still be saved.
        if underway.swaps() == swaps {
            break;
        }
    }
    shared.snapshots.end_of_entries();
    underway.save_taken();
    underway.save_late(|number, key| thaw(shared, underway, at, number, key));
    underway.write_all();
    let result = match underway.take_output() {
        (Some(output), Some(why)) => {
            output.abandon(&why);
            Err(why)
        }
        (Some(output), None) => output.finish().map_err(|error| NoResult::Failed(error.to_string())),
        (None, _) => Err(NoResult::Failed("the snapshot has ended before".to_owned())),
    };
    end(shared, underway, result)
}

fn end(shared: &Shared, underway: &Underway, result: Result<u64, NoResult>) -> Result<(), String> {
    let took = shared.clock.now() - underway.started;
    let now_s = shared.clock.unix_ms() / 1000;
    shared.snapshots.end(|facts| {
        facts.held_bytes_max = underway.held_bytes_max();
        if underway.purpose != Purpose::File {
            return;
        }
        facts.last_took_s = Some(took.as_secs());
        match &result {
            Ok(_) => {
                facts.failure = None;
                facts.saves += 1;
                facts.saved_at_s = now_s;
                facts.saved_changes = underway.cut.changes;
            }
            Err(NoResult::Failed(reason)) => facts.failure = Some(reason.clone()),
            Err(NoResult::Unwanted(_)) => {}
        }
    });
    match result {
        Ok(bytes) => {
            let (keys, mb) = (underway.keys, bytes as f64 / 1e6);
            let what = match underway.purpose {
                Purpose::File => "DB saved on disk",
                Purpose::LogBase => "Append-only file rewritten",
                Purpose::Replicas => "Data for replicas is ready",
                Purpose::Slots => return Ok(()),
            };
            tracing::info!("{what}: {keys} keys, {mb:.1} MB in {:.2} seconds", took.as_secs_f64());
            Ok(())
        }
        Err(NoResult::Unwanted(reason)) => {
            tracing::info!("A snapshot ends without a result: {reason}");
            Err(reason)
        }
        Err(NoResult::Failed(reason)) => {
            tracing::error!("Saving failed: {reason}");
            Err(reason)
        }
    }
}

fn go_through(shared: &Shared, underway: &Underway, at: At, report: &mut Report) {
    let mut turn = Turn { began: Instant::now() };
    for db in 0..shared.keyspace.databases() {
        let Some(database) = shared.keyspace.db(db) else { continue };
        for shard in shards_of(underway, database) {
            let mut next = Some(0);
            while let Some(position) = next {
                turn.give_way();
                next = save_some(shared, underway, at, (db as u32, shard), position);
                underway.save_late(|number, key| thaw(shared, underway, at, number, key));
                underway.write_waiting();
                underway.sync_due();
            }
            underway.save_taken();
            tell(report, underway);
        }
    }
}

/// The shards that a snapshot is about.
fn shards_of<'a>(underway: &'a Underway, database: &'a Db) -> Box<dyn Iterator<Item = &'a Shard> + 'a> {
    match underway.slots() {
        None => Box::new(database.shards().map(|(_, shard)| shard)),
        Some(slots) => Box::new(slots.iter().map(|slot| database.shard(usize::from(*slot)))),
    }
}

/// Makes reading a saved collection as fast as before: its parts are its own again.
fn thaw(shared: &Shared, underway: &Underway, at: At, number: u32, key: &[u8]) {
    let _entered = at.enter(shared);
    let Some(database) = underway.database_of(number).and_then(|db| shared.keyspace.db(db as usize)) else { return };
    let hash = shared.keyspace.hash(key);
    // It may be gone by now, or be replaced.
    if let Some(mut slot) = database.shard_of(hash).lock().find(key, hash) {
        slot.thaw();
    }
}

/// Saves entries of a shard from a position on; returns where to go on.
fn save_some(shared: &Shared, underway: &Underway, at: At, (db, shard): (u32, &Shard), position: u32) -> Option<u32> {
    if shard.is_empty() {
        return None;
    }
    let _entered = at.enter(shared);
    let mut table = shard.lock();
    let (mut next, mut entries) = (Some(position), 0);
    let bytes = underway.open_bytes(underway.own());
    while let Some(position) = next {
        next = table.save_bucket(position, &mut |entry, frozen| {
            entries += 1;
            underway.save(underway.own(), db, entry, frozen);
        });
        let is_long = underway.open_bytes(underway.own()).abs_diff(bytes) > BYTES_PER_LOCK;
        if entries >= ENTRIES_PER_LOCK || is_long {
            break;
        }
    }
    next
}

/// Logs from time to time how far a snapshot has come.
fn tell(report: &mut Report, underway: &Underway) {
    let (saved, keys) = (underway.saved(), underway.keys);
    report.tell(saved, keys, |rate, left_s| {
        tracing::info!(
            "Saving: {saved} of {keys} keys, {:.1} MB, {rate:.0} keys per second, about {left_s:.0} seconds left",
            underway.written_bytes() as f64 / 1e6,
        );
    });
}

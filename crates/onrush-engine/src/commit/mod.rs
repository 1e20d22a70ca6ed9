//! Commits: the one way to the keyspace.
//!
//! Everything that reads or changes keys goes through a [`Commit`]: commands, runs of them, commands of clients that
//! waited, expiry, eviction. It owns the locks of its keys, sees every entry before it changes, and ends at one point
//! with its locks still held: its effects go into the command log as one record with one number, and clients to notify
//! are noted. Then the locks go back. A lock that goes back earlier closes the record first, so the numbers are always
//! a serial order.
//!
//! When a command panics, the keys that it may have changed are recorded as they are, before its locks go back.

mod access;
mod evict;
mod journal;
mod key;
mod locks;
mod moment;
mod notices;
mod rebuild;
mod record;
mod saving;
mod scope;
mod shards;
mod telling;
mod undo;
mod undoing;

use onrush_store::{Removed, schedule};

use crate::batch::argv::Argv;
use crate::batch::kept::shrink;
use crate::clients::session::Session;
use crate::cluster::clustering::Clustering;
use crate::eviction::state::Memory;
use crate::lazyfree::Garbage;
use crate::long::offload::Task;
use crate::observe::stopwatch::Stopwatch;
use crate::settings::Pause;
use crate::shared::Shared;
use crate::transactions::transaction::Transaction;

pub use key::Key;
pub use locks::Refused;
use locks::{Gate, Locks};
pub(crate) use moment::AccessClock;
use moment::Moment;
pub(crate) use rebuild::{rebuild, rebuild_value};
use record::Recorder;
pub(crate) use undo::KEYS_MAX as UNDO_KEYS_MAX;

/// Work that remains after the locks have gone back.
#[derive(Default)]
struct Leftovers {
    /// Keys that have expired, to be counted and freed.
    expired: Vec<Removed>,
    /// Garbage to be freed.
    garbage: Vec<Garbage>,
}

/// What [`Commit::expire_shard`] has removed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expired {
    /// Keys.
    pub keys: usize,
    /// Fields of hashes.
    pub fields: usize,
    /// Whether more fields are due.
    pub has_more: bool,
}

/// What evicts keys when too much memory is in use.
pub trait Evicts {
    /// Evicts for a bounded time. The thread has entered the gate and holds no lock.
    fn evict(&mut self, commit: &mut Commit) -> Memory;
}

/// Most entries and values that a commit has taken out of the store and not freed: a script may replace a key for ever.
const GARBAGE_MAX: usize = 1024;

/// A thread's way into the keyspace: one commit after the other.
pub struct Commit {
    shared: &'static Shared,
    thread: usize,
    db: u32,
    locks: Locks,
    record: Recorder,
    moment: Moment,
    watch: Stopwatch,
    left: Leftovers,
    /// The memory of the transaction that was executed last.
    spare: Option<Box<Transaction>>,
    /// What makes room when too much memory is in use.
    evictor: Option<Box<dyn Evicts>>,
    /// Whether CLIENT PAUSE was on when the present command was admitted, or this is a replica: expired keys stay then.
    is_paused: bool,
    /// Whether too much memory is in use and nothing may be evicted, as of the last check.
    is_stuck: bool,
    /// Nanoseconds that eviction has taken since the present chunk began.
    evicting_ns: u64,
    /// Whether short commands are timed one by one, and the number that was drawn for the present chunk to decide that.
    times_each: bool,
    draw: Option<u64>,
    /// Lookups for reading that found their key, and that did not.
    hits: u64,
    misses: u64,
    /// The version of the cluster's routes by which the present chunk was planned.
    routes_version: u64,
}

impl Commit {
    /// No locks yet; [`Commit::enter`] comes first.
    pub fn new(shared: &'static Shared, thread: usize) -> Self {
        Self {
            shared,
            thread,
            db: 0,
            locks: Locks::new(shared, thread),
            record: Recorder::new(shared, thread),
            moment: Moment::new(shared.draw_seed()),
            watch: Stopwatch::new(shared.started),
            left: Leftovers::default(),
            spare: None,
            evictor: None,
            is_paused: false,
            is_stuck: false,
            evicting_ns: 0,
            times_each: false,
            draw: None,
            hits: 0,
            misses: 0,
            routes_version: u64::MAX,
        }
    }

    /// A transaction with nothing in it, in database `db`.
    pub(crate) fn new_transaction(&mut self, db: u32) -> Box<Transaction> {
        match self.spare.take() {
            Some(spare) => spare.begin_anew(db),
            None => Box::new(Transaction::new(db)),
        }
    }

    /// Takes back a finished transaction, to reuse its memory.
    pub(crate) fn keep_transaction(&mut self, transaction: Box<Transaction>) {
        self.spare = Some(transaction).filter(|transaction| transaction.is_kept());
    }

    /// Enters the gate, shared.
    pub fn enter(&mut self) {
        self.locks.gate = Gate::Shared(self.shared.gate.enter(self.thread));
    }

    /// As [`Commit::enter`], unless what has the whole keyspace takes too long; returns whether it has entered.
    #[inline]
    pub fn enter_unless_busy(&mut self) -> bool {
        self.locks.gate = self.shared.enter_unless_busy(self.thread).map_or(Gate::Outside, Gate::Shared);
        self.has_entered()
    }

    /// Whether it is inside of the gate: if not, a script takes too long, and no key may be touched.
    #[inline]
    pub(crate) fn has_entered(&self) -> bool {
        self.locks.has_entered()
    }

    /// Leaves the gate: gives all locks back, hands records to the log, frees deleted entries, and counts hits and
    /// misses.
    pub fn leave(&mut self) {
        debug_assert!(!self.is_nested(), "a command gives back the locks of the transaction that it is part of");
        let stats = &self.shared.stats.threads[self.thread];
        if self.hits + self.misses > 0 {
            stats.keyspace_hits.add(std::mem::take(&mut self.hits));
            stats.keyspace_misses.add(std::mem::take(&mut self.misses));
        }
        self.release();
        self.broadcast();
        self.record.journal.submit();
        self.locks.leave();
        if self.has_garbage() {
            self.free_garbage();
        }
        if self.has_ready() {
            self.serve_elsewhere();
        }
    }

    /// Has the clients served that wait for keys which changed without a command of this thread: they have expired, or
    /// were evicted.
    #[cold]
    fn serve_elsewhere(&mut self) {
        for (db, key) in self.take_ready() {
            self.shared.offload.post(Task::Serve(db, key));
        }
    }

    /// The LSN of the last record that this thread has closed.
    #[inline]
    pub(crate) fn changed_lsn(&self) -> u64 {
        self.record.journal.last_lsn()
    }

    /// Bytes of all records that this thread has made for the log.
    pub(crate) fn recorded_bytes(&self) -> u64 {
        self.record.journal.recorded_bytes()
    }

    /// The database commands work on.
    #[inline]
    pub fn db(&self) -> u32 {
        self.db
    }

    /// Changes the database, in step with the session.
    #[inline]
    pub(crate) fn set_db(&mut self, db: u32) {
        self.db = db;
    }

    /// The time of the present command in Unix milliseconds.
    #[inline(always)]
    pub fn now_ms(&self) -> i64 {
        self.moment.now_ms
    }

    /// Keys due at this time, in Unix milliseconds, have expired for the present command.
    #[inline(always)]
    pub(crate) fn due_ms(&self) -> i64 {
        self.moment.due_ms
    }

    /// Begins or ends replaying a log: nothing expires meanwhile.
    pub(crate) fn set_replay(&mut self, is_replay: bool) {
        self.moment.set_replay(is_replay);
    }

    /// The access clock of a new entry.
    #[inline(always)]
    pub(crate) fn fresh_clock(&self) -> u32 {
        self.moment.clock.fresh()
    }

    /// The stream of random numbers.
    #[inline]
    pub fn random(&mut self) -> &mut onrush_store::Random {
        &mut self.moment.random
    }

    /// What is planned now is planned by the present routes of the cluster.
    #[inline]
    pub(crate) fn note_routes(&mut self) {
        self.routes_version = self.shared.cluster.as_ref().map_or(0, Clustering::version);
    }

    /// What is planned is looked at again: its client may read from a replica no longer.
    pub(crate) fn distrust_routes(&mut self) {
        self.routes_version = u64::MAX;
    }

    /// Whether other nodes may have slots by now that were here when commands were planned.
    #[inline]
    pub(crate) fn have_routes_changed(&self) -> bool {
        self.shared.cluster.as_ref().is_some_and(|cluster| cluster.version() != self.routes_version)
    }

    /// Begins a chunk; `now_ms` is its present time.
    #[inline]
    pub fn begin_chunk(&mut self, now_ms: i64) {
        self.note_pause(self.shared.pause(now_ms));
        self.moment.begin(&self.shared.settings, now_ms);
        self.record.look(&self.shared.settings);
        (self.evicting_ns, self.draw) = (0, None);
    }

    /// Times the commands of the thread that are not short.
    #[inline]
    pub(crate) fn watch(&mut self) -> &mut Stopwatch {
        &mut self.watch
    }

    /// The present time becomes that of the last reading.
    #[inline]
    pub(crate) fn take_watch_time(&mut self) {
        self.set_time(self.watch.began_ms());
    }

    /// Chooses, and returns, whether the next short commands of the chunk are timed one by one.
    #[inline]
    pub(crate) fn choose_timing(&mut self) -> bool {
        let Self { shared, moment, draw, .. } = self;
        self.times_each = shared.settings.timing.times_each(|| *draw.get_or_insert_with(|| moment.random.next()));
        self.times_each
    }

    /// Whether short commands are timed one by one.
    pub(crate) fn times_each(&self) -> bool {
        self.times_each
    }

    /// The next commands are admitted under this pause. A pause that begins while they are under way does not affect
    /// them.
    #[inline]
    pub(crate) fn note_pause(&mut self, pause: Pause) {
        // A replica that takes writes deletes what it finds: a key that is there cannot be made anew.
        self.is_paused = pause != Pause::None || self.shared.replication.role.is_read_only();
    }

    /// Whether CLIENT PAUSE was on when the present command was admitted, or this is a replica: what has expired stays
    /// then.
    #[inline]
    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Changes the present time in the middle of a chunk.
    pub(crate) fn set_time(&mut self, now_ms: i64) {
        self.moment.set_time(&self.shared.settings, now_ms);
    }

    /// Begins the commands of a session, which were planned for its database.
    #[inline]
    pub(crate) fn begin_part(&mut self, session: &Session) {
        (self.db, self.locks.planned_db) = (session.db, session.db);
        self.moment.set_no_touch(&self.shared.settings, session.no_touch);
        // Keys that come from another node expire there: what has expired is deleted by its commands.
        self.moment.set_replay(session.is_of_its_own_slots());
    }

    /// CLIENT NO-TOUCH is on, or off.
    pub(crate) fn set_no_touch(&mut self, no_touch: bool) {
        self.moment.set_no_touch(&self.shared.settings, no_touch);
    }

    /// Whether every access is noted, or would be if it left traces.
    #[inline]
    pub(crate) fn counts_accesses(&self) -> bool {
        !matches!(self.moment.clock, AccessClock::Lru(_) | AccessClock::Lrm(_))
    }

    /// Calls `look` without leaving a trace of the access in the entries it reads.
    pub(crate) fn untouched<R>(&mut self, look: impl FnOnce(&mut Self) -> R) -> R {
        let clock = std::mem::replace(&mut self.moment.clock, AccessClock::Untouched(0));
        let result = look(self);
        self.moment.clock = clock;
        result
    }

    /// Ends a command that made `changes` inside of another commit; it becomes a part of that commit's record.
    pub(crate) fn end_inside(&mut self, argv: &Argv<'_>, changes: u64) {
        if changes > 0 && self.record.journal.is_on() {
            self.record.journal.sent(self.db, argv);
        }
        self.record.journal.end_command();
        if self.record.notices.has_too_many_messages() && !self.has_undo() {
            self.record.notices.send_messages();
        }
        self.locks.release_many();
        if !self.left.expired.is_empty() {
            self.count_expired();
        }
    }

    /// Gives back the locks of shards, unless they belong to an outer commit. Records the effects first.
    #[inline]
    pub fn release(&mut self) {
        self.record.close();
        self.locks.release();
    }

    /// Whether the present command leaves work: expired keys, locks to give back, clients to serve, effects to record.
    #[inline(always)]
    pub(crate) fn has_aftermath(&self) -> bool {
        self.left.expired.len() | self.record.ready.len() != 0
            || self.locks.has_many()
            || self.locks.has_keyspace()
            || self.record.journal.is_on()
    }

    /// Ends a command that made `changes`: the one point where a commit is recorded. Then locks for several keys and the
    /// exclusive gate go back; a single shard's lock may stay.
    pub(crate) fn end_command(&mut self, argv: &Argv<'_>, changes: u64) {
        schedule::point();
        if changes > 0 && self.record.journal.is_on() {
            self.record.journal.sent(self.db, argv);
        }
        self.record.journal.end_command();
        self.record.close();
        self.locks.release_many();
        if !self.left.expired.is_empty() {
            self.count_expired();
        }
    }

    #[cold]
    fn count_expired(&mut self) {
        let stats = &self.shared.stats.threads[self.thread];
        stats.changes.add(self.left.expired.len() as u64);
        stats.expired_keys.add(self.left.expired.len() as u64);
        self.left.garbage.extend(self.left.expired.drain(..).map(Garbage::from));
        shrink(&mut self.left.expired);
    }

    /// Notes a changed key that clients may wait for.
    pub(crate) fn note_ready(&mut self, db: u32, key: Vec<u8>) {
        self.record.ready.push((db, key));
    }

    /// Whether there are changed keys that clients may wait for.
    #[inline]
    pub(crate) fn has_ready(&self) -> bool {
        !self.record.ready.is_empty()
    }

    /// Takes the changed keys that clients may wait for.
    pub(crate) fn take_ready(&mut self) -> Vec<(u32, Vec<u8>)> {
        std::mem::take(&mut self.record.ready)
    }

    /// Frees something that was taken out of the store, after its shard's lock is released; a commit that takes out very much
    /// frees what it has before.
    #[inline]
    pub fn discard(&mut self, garbage: Option<impl Into<Garbage>>) {
        if let Some(garbage) = garbage {
            if self.left.garbage.len() >= GARBAGE_MAX {
                self.free_garbage();
            }
            self.left.garbage.push(garbage.into());
        }
    }

    /// Whether something was discarded that is not free yet.
    #[inline]
    pub(crate) fn has_garbage(&self) -> bool {
        !self.left.garbage.is_empty()
    }

    /// Frees discarded garbage; large values in the background.
    #[cold]
    pub(crate) fn free_garbage(&mut self) {
        for garbage in self.left.garbage.drain(..) {
            self.shared.lazyfree.free(garbage);
        }
        shrink(&mut self.left.garbage);
    }

    /// Gives memory back that locking very many keys needed. No locks may be held.
    pub fn shrink(&mut self) {
        debug_assert!(self.left.garbage.is_empty());
        self.locks.shrink();
    }

    /// Hands closed records to the log before a long command.
    pub(crate) fn submit(&mut self) {
        self.record.journal.submit();
    }
}

impl Drop for Commit {
    /// After a panic: records the applied changes and sends published messages, while the locks are still held.
    fn drop(&mut self) {
        let Self { shared, locks, record, moment, .. } = self;
        if record.journal.is_on() {
            let recorded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                record.journal.record_as_is(
                    moment.now_ms,
                    |db, hash| locks.held(db, hash),
                    |key| shared.keyspace.hash(key),
                );
            }));
            if recorded.is_err() {
                tracing::error!("A key that a panic left behind could not be recorded");
            }
        }
        record.hold(false);
        record.close();
        record.notices.broadcast();
        record.journal.submit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripts::What;
    use crate::shared::Parts;
    use onrush_store::NewValue;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::time::Instant;

    fn commit() -> Commit {
        let shared: &'static Shared = Box::leak(Box::new(Shared::new(&Parts::default(), 0)));
        let mut commit = Commit::new(shared, 0);
        commit.enter();
        commit
    }

    /// Two keys that do not share a shard.
    fn two_keys(commit: &Commit) -> [Key<'static>; 2] {
        let [a, b] = [commit.key(b"a"), commit.key(b"b")];
        let db = commit.database(0);
        assert_ne!(db.shard_index(a.hash), db.shard_index(b.hash));
        [a, b]
    }

    #[test]
    fn a_nested_command_neither_drops_nor_adds_locks() {
        let mut commit = commit();
        let [a, b] = two_keys(&commit);
        commit.lock_all([(0, a.hash), (0, b.hash)]).expect("no outer commit");
        commit.begin_nested();
        assert_eq!(commit.lock_all([(0, a.hash)]), Ok(()));
        commit.set(&a, NewValue::Int(1), None);
        commit.release();
        assert!(commit.database(0).shard_of(a.hash).try_lock().is_none(), "the lock is the outer commit's");
        assert_eq!(commit.lock_keyspace(), Err(Refused::Undeclared));
        assert_eq!(commit.end_nested(), Err(Refused::Undeclared));
        commit.begin_nested();
        assert!(commit.read(&a).is_some() && commit.read(&b).is_none());
        assert_eq!(commit.end_nested(), Ok(()));
        commit.release();
        assert!(commit.database(0).shard_of(a.hash).try_lock().is_some());
    }

    #[test]
    fn a_key_that_was_not_declared_is_an_error_and_stays_as_it_is() {
        let mut commit = commit();
        let [a, b] = two_keys(&commit);
        commit.set(&b, NewValue::Int(7), None);
        commit.lock_all([(0, a.hash)]).expect("no outer commit");
        commit.begin_nested();
        assert_eq!(commit.lock_all([(0, a.hash), (0, b.hash)]), Err(Refused::Undeclared));
        assert_eq!(commit.end_nested(), Err(Refused::Undeclared));
        commit.begin_nested();
        commit.set(&b, NewValue::Int(8), None);
        assert_eq!(commit.end_nested(), Err(Refused::Undeclared));
        commit.release();
        let seven = onrush_store::ValueRef::Int(7);
        assert_eq!(commit.read(&b).expect("b").value(), seven);
    }

    #[test]
    fn inside_of_the_whole_keyspace_every_key_is_declared() {
        let mut commit = commit();
        let [a, b] = two_keys(&commit);
        commit.lock_keyspace().expect("no outer commit");
        commit.begin_nested();
        commit.lock_all([(0, a.hash), (0, b.hash)]).expect("everything is there");
        commit.set(&a, NewValue::Int(1), None);
        commit.lock_keyspace().expect("it is locked");
        assert_eq!(commit.end_nested(), Ok(()));
        assert!(commit.locks.has_keyspace());
        assert!(commit.read(&a).is_some());
    }

    #[test]
    fn nobody_waits_for_a_script_that_takes_too_long() {
        let mut commit = commit();
        let shared = commit.shared;
        let _tasks = shared.offload.open();
        let turn = shared.gate.take_turn();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _alone = shared.gate.exclusive(turn);
                let what = What { function: None, command: Vec::new(), started: Instant::now() };
                shared.scripts.running.take_too_long(true, what);
                while !is_over.load(Relaxed) {
                    std::thread::yield_now();
                }
            });
            let locked = commit.lock_keyspace();
            is_over.store(true, Relaxed);
            assert_eq!(locked, Err(Refused::TakesLong));
            assert!(!commit.has_entered());
        });
        shared.scripts.running.end();
        assert_eq!(commit.lock_keyspace(), Ok(()), "its turn was passed over");
    }
}

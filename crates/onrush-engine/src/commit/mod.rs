//! Commits: the one way to the keyspace.
//!
//! Everything that reads or changes keys goes through a [`Commit`]: commands, runs of them, commands of clients that waited,
//! expiry, eviction. It owns the locks of its keys, sees every entry before it changes, and ends at one point with its locks still
//! held: what it did is put into the command log as one record with one number, and who is concerned is noted. Then the
//! locks go back. A lock that goes back earlier closes the record first, so the numbers are always a serial order.
//!
//! When a command panics, the keys that it may have changed are recorded as they are, before its locks go back.

mod access;
mod evict;
mod key;
mod locks;
mod moment;
mod rebuild;
mod record;
mod undo;

use std::cell::RefCell;
use std::sync::Arc;

use onrush_store::{Cleared, Db, KeyHash, Removed, Shard, schedule};

use crate::argv::Argv;
use crate::eviction::state::Memory;
use crate::kept::shrink;
use crate::lazyfree::Garbage;
use crate::messages::events::EventClass;
use crate::messages::kind::Kind;
use crate::session::Session;
use crate::settings::Pause;
use crate::shared::Shared;
use crate::transaction::Transaction;

pub use key::Key;
use locks::Locks;
pub use locks::Refused;
pub use moment::AccessClock;
use moment::Moment;
pub use rebuild::{rebuild, rebuild_value};
use record::Recorder;
pub(crate) use undo::Outside;

/// What is left to do when the locks have gone back.
#[derive(Default)]
struct Leftovers {
    /// Keys that have expired, to be counted and freed.
    expired: Vec<Removed>,
    /// What is to be freed.
    garbage: Vec<Garbage>,
    /// Keys that changed and that somebody may wait for, with their databases.
    ready: Vec<(u32, Vec<u8>)>,
}

/// What evicts keys when too much memory is in use.
pub trait Evicts {
    /// Evicts for a bounded time. The thread has entered the gate and holds no lock.
    fn evict(&mut self, commit: &mut Commit) -> Memory;
}

/// A thread's way into the keyspace: one commit after the other.
pub struct Commit {
    shared: &'static Shared,
    thread: usize,
    db: u32,
    locks: Locks,
    record: Recorder,
    moment: Moment,
    left: Leftovers,
    refused: Option<Refused>,
    /// The memory of the transaction that was executed last.
    spare: Option<Box<Transaction>>,
    /// What makes room when too much memory is in use.
    evictor: Option<Box<dyn Evicts>>,
    /// Whether CLIENT PAUSE was on when the present command was let in: what has expired stays then.
    is_paused: bool,
    /// Whether too much memory is in use, and nothing may be evicted, as far as was found out last.
    is_stuck: bool,
    /// Nanoseconds that eviction has taken since the present chunk began.
    evicting_ns: u64,
    /// Whether short commands are timed one by one, and the number that was drawn for the present chunk to decide that.
    times_each: bool,
    draw: Option<u64>,
    /// Lookups for reading that found their key, and that did not.
    hits: u64,
    misses: u64,
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
            left: Leftovers::default(),
            refused: None,
            spare: None,
            evictor: None,
            is_paused: false,
            is_stuck: false,
            evicting_ns: 0,
            times_each: false,
            draw: None,
            hits: 0,
            misses: 0,
        }
    }

    /// A transaction with nothing in it, in database `db`.
    pub(crate) fn new_transaction(&mut self, db: u32) -> Box<Transaction> {
        match self.spare.take() {
            Some(spare) => spare.begin_anew(db),
            None => Box::new(Transaction::new(db)),
        }
    }

    /// Takes a transaction back that is over, for its memory.
    pub(crate) fn keep_transaction(&mut self, transaction: Box<Transaction>) {
        self.spare = Some(transaction).filter(|transaction| transaction.is_kept());
    }

    /// Enters the gate, shared.
    pub fn enter(&mut self) {
        self.locks.enter();
    }

    /// As [`Commit::enter`], unless a script that takes too long has the keyspace; says whether it has entered.
    #[inline]
    pub fn enter_unless_busy(&mut self) -> bool {
        self.locks.enter_unless_busy()
    }

    /// Whether it is inside of the gate: if not, a script takes too long, and no key may be touched.
    #[inline]
    pub(crate) fn has_entered(&self) -> bool {
        self.locks.has_entered()
    }

    /// Leaves the gate: every lock goes back, what was recorded goes to the log, what was deleted is freed, what was found and
    /// what not is added up.
    pub fn leave(&mut self) {
        let stats = &self.shared.stats.threads[self.thread];
        if self.hits + self.misses > 0 {
            stats.keyspace_hits.add(std::mem::take(&mut self.hits));
            stats.keyspace_misses.add(std::mem::take(&mut self.misses));
        }
        self.release();
        self.broadcast();
        self.record.submit();
        self.locks.leave();
        self.free_garbage();
    }

    /// The database commands work on.
    #[inline]
    pub fn db(&self) -> u32 {
        self.db
    }

    /// Changes the database, in step with the session.
    #[inline]
    pub fn set_db(&mut self, db: u32) {
        self.db = db;
    }

    /// The time of the present command in Unix milliseconds.
    #[inline(always)]
    pub fn now_ms(&self) -> i64 {
        self.moment.now_ms
    }

    /// What is due at this time, in Unix milliseconds, has expired for the present command.
    #[inline(always)]
    pub fn due_ms(&self) -> i64 {
        self.moment.due_ms
    }

    /// Begins or ends replaying a log: nothing expires meanwhile.
    pub(crate) fn set_replay(&mut self, is_replay: bool) {
        self.moment.set_replay(is_replay);
    }

    /// The access clock of a new entry.
    #[inline(always)]
    pub fn fresh_clock(&self) -> u32 {
        self.moment.clock.fresh()
    }

    /// The stream of random numbers.
    #[inline]
    pub fn random(&mut self) -> &mut onrush_store::Random {
        &mut self.moment.random
    }

    /// Begins with a chunk; `now_ms` is the time it takes for now.
    #[inline]
    pub fn begin_chunk(&mut self, now_ms: i64) {
        self.note_pause(self.shared.settings.pause(now_ms));
        self.moment.begin(&self.shared.settings, now_ms);
        self.record.look(&self.shared.settings);
        (self.evicting_ns, self.draw) = (0, None);
    }

    /// Chooses, and tells, whether the short commands that follow in the chunk are timed one by one.
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

    /// The commands that follow are let in under this pause. One that begins while they are under way does not concern them.
    #[inline]
    pub(crate) fn note_pause(&mut self, pause: Pause) {
        self.is_paused = pause != Pause::None;
    }

    /// Takes another time for now, in the middle of a chunk.
    pub(crate) fn set_time(&mut self, now_ms: i64) {
        self.moment.set_time(&self.shared.settings, now_ms);
    }

    /// Begins with commands of a session that were planned for its database.
    #[inline]
    pub(crate) fn begin_part(&mut self, session: &Session) {
        (self.db, self.locks.planned_db) = (session.db, session.db);
        self.moment.set_no_touch(&self.shared.settings, session.no_touch);
        self.moment.set_replay(session.is_replay);
    }

    /// CLIENT NO-TOUCH is on, or off.
    pub(crate) fn set_no_touch(&mut self, no_touch: bool) {
        self.moment.set_no_touch(&self.shared.settings, no_touch);
    }

    /// Whether every single access is noted, or would be if it left traces.
    #[inline]
    pub(crate) fn counts_accesses(&self) -> bool {
        !matches!(self.moment.clock, AccessClock::Lru(_) | AccessClock::Lrm(_))
    }

    /// Calls `look` without leaving a trace of the access in the entries it reads.
    pub fn untouched<R>(&mut self, look: impl FnOnce(&mut Self) -> R) -> R {
        let clock = std::mem::replace(&mut self.moment.clock, AccessClock::Untouched(0));
        let result = look(self);
        self.moment.clock = clock;
        result
    }

    /// Whether anybody follows the command log.
    #[inline(always)]
    pub fn is_logged(&self) -> bool {
        self.record.is_on()
    }

    /// Whether anybody follows the command log or is told of keyspace events.
    #[inline(always)]
    pub(crate) fn is_observed(&self) -> bool {
        self.record.is_on() || self.record.tells_events()
    }

    /// Whether keyspace events are published.
    #[inline(always)]
    pub(crate) fn tells_events(&self) -> bool {
        self.record.tells_events()
    }

    /// Tells of a keyspace event of a class that is published, when the commit ends.
    pub(crate) fn notify(&mut self, db: u32, class: EventClass, event: &'static str, key: &[u8]) {
        self.record.notify(db, class, event, key);
    }

    /// Tells clients that track keys, when the commit ends, that `writer` has changed one.
    pub(crate) fn outdate(&mut self, key: &[u8], hash: KeyHash, writer: u64) {
        self.record.outdate(key, hash, writer);
    }

    /// Tells them that all keys may have changed. The whole keyspace is this commit's.
    pub(crate) fn outdate_everything(&mut self) {
        if self.shared.tracking.is_on() {
            self.record.outdate_everything();
        }
    }

    /// Forgets, of too many keys that clients are known to have read, up to `max` that are not this one. Their clients are told
    /// when the commit ends.
    pub(crate) fn forget_read(&mut self, key: &[u8], hash: KeyHash, max: usize) {
        self.record.forget_read(key, hash, max);
    }

    /// Tells clients that track prefixes which keys have changed since the last call. No locks of shards are held.
    #[inline]
    pub(crate) fn broadcast(&mut self) {
        self.record.broadcast();
    }

    /// Tells of keys that are new.
    pub(crate) fn notify_new(&mut self) {
        self.record.notify_new();
    }

    /// Looks again whether anybody follows the command log or is told of events, after a command that may have changed it.
    #[inline]
    pub(crate) fn look_for_log(&mut self) {
        self.record.look(&self.shared.settings);
    }

    /// Records a part of what the present command did, in its database.
    pub(crate) fn log_also(&mut self, args: &[&[u8]]) {
        self.record.also(self.db, args.iter().copied());
    }

    /// The present command is not recorded as it was sent.
    #[inline]
    pub(crate) fn logs_itself(&mut self) {
        self.record.logs_itself();
    }

    /// Publishes a message on a channel, which is handed out when the commit ends; `owned` is the message if it is a value of its own.
    /// Returns how many clients get it. O(subscribers + patterns).
    pub(crate) fn publish(
        &mut self,
        kind: Kind,
        channel: &[u8],
        message: &[u8],
        owned: Option<&Arc<Vec<u8>>>,
    ) -> usize {
        self.record.publish(kind, channel, message, owned)
    }

    /// Hands out what the commands so far have to tell. No command is under way, or what it did is a whole.
    pub(crate) fn tell(&mut self) {
        if !self.is_nested() {
            self.record.close();
        }
    }

    /// Whether commands run inside of another commit.
    pub(crate) fn is_nested(&self) -> bool {
        self.locks.is_lent()
    }

    /// Locks the shards of several keys at once, in order; they stay locked until the command ends. The keys may come in any
    /// order and repeat.
    ///
    /// # Errors
    /// The command runs inside of another commit, which has not declared one of the keys.
    pub fn lock_all(&mut self, keys: impl IntoIterator<Item = (u32, KeyHash)>) -> Result<(), Refused> {
        self.release();
        let locked = self.locks.lock_all(keys.into_iter());
        self.note(locked)
    }

    /// Takes the whole keyspace for this command. References into tables end before.
    ///
    /// # Errors
    /// The command runs inside of another commit, which has declared keys only.
    pub fn lock_keyspace(&mut self) -> Result<(), Refused> {
        self.release();
        // Nobody who has the keyspace for himself misses a record of ours.
        self.record.submit();
        let locked = self.locks.lock_keyspace();
        // Somebody else may have had it in between, and begun a snapshot, or to follow the log.
        self.look_for_log();
        self.note(locked)
    }

    /// As [`Commit::lock_keyspace`], after whatever long command runs.
    ///
    /// # Errors
    /// As of [`Commit::lock_keyspace`].
    pub fn wait_for_keyspace(&mut self) -> Result<(), Refused> {
        let defers = std::mem::replace(&mut self.locks.defers, false);
        let locked = self.lock_keyspace();
        self.locks.defers = defers;
        locked
    }

    /// Whether the whole keyspace is locked.
    pub fn has_keyspace(&self) -> bool {
        self.locks.has_keyspace()
    }

    fn note(&mut self, locked: Result<(), Refused>) -> Result<(), Refused> {
        self.refused = self.refused.or(locked.err());
        locked
    }

    /// Says that the present command, which has changed nothing yet, goes through so many elements.
    ///
    /// # Errors
    /// They are too many for a worker: the command is executed again from its beginning on the thread for long ones.
    #[inline]
    pub fn expect_work(&mut self, elements: usize) -> Result<(), Refused> {
        if elements <= self.shared.offload.elements_max || !self.may_defer() {
            return Ok(());
        }
        self.note(Err(Refused::TakesLong))
    }

    /// So many elements a command may go through to find out whether there are too many for a worker.
    #[inline]
    pub fn work_max(&self) -> usize {
        if self.may_defer() { self.shared.offload.elements_max } else { usize::MAX }
    }

    /// Says that the present command, which has changed nothing yet, looks into shards one after the other.
    ///
    /// # Errors
    /// As of [`Commit::expect_work`]; also when somebody holds shards for long.
    pub fn expect_shards(&mut self, elements: usize) -> Result<(), Refused> {
        let is_busy = self.shared.offload.is_busy();
        self.expect_work(if is_busy { usize::MAX } else { elements })
    }

    /// Whether commands may be put off, or go to the thread for long ones: inside of a script with all of it, if it has a way back.
    #[inline]
    pub(crate) fn may_defer(&self) -> bool {
        self.locks.defers && self.shared.offload.is_there() && (!self.locks.is_lent() || self.record.undo.is_on())
    }

    /// Whether the command that runs others inside of its commit could be executed on the thread for long ones as well.
    pub(crate) fn may_go_elsewhere(&self) -> bool {
        self.locks.defers && self.shared.offload.is_there()
    }

    /// Whether the shard of a key in the present database is held by somebody who takes long.
    pub(crate) fn is_held_long(&self, key: &[u8]) -> bool {
        let hash = self.shared.keyspace.hash(key);
        self.shared.keyspace.db(self.db as usize).is_some_and(|db| db.shard_of(hash).is_held_long())
    }

    /// Notes a refusal of the present command.
    pub(crate) fn refuse(&mut self, refused: Refused) -> Refused {
        *self.refused.insert(refused)
    }

    /// Whether the present command did not get what it asked for.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self.refused, Some(Refused::HeldLong | Refused::TakesLong))
    }

    /// Why the present command did not get what it asked for, if so.
    pub(crate) fn take_refused(&mut self) -> Option<Refused> {
        self.refused.take()
    }

    /// Lets commands run inside of this commit, with the locks that it holds: several keys' or the whole keyspace. Until
    /// [`Commit::end_nested`] they can neither lock anything else nor give a lock back.
    pub fn begin_nested(&mut self) {
        self.locks.lend();
        self.record.hold(true);
    }

    /// Ends what [`Commit::begin_nested`] began; the locks are still held.
    ///
    /// # Errors
    /// A command asked for a key that was not declared. It found none, and what it did to it is dropped.
    pub fn end_nested(&mut self) -> Result<(), Refused> {
        self.record.hold(false);
        self.locks.take_back()
    }

    /// Ends a command that made `changes` inside of another one's commit, whose record it becomes a part of.
    pub(crate) fn end_inside(&mut self, argv: &Argv<'_>, changes: u64) {
        if changes > 0 && self.record.is_on() {
            self.record.sent(self.db, argv);
        }
        self.record.end_command();
        self.locks.release_many();
        if !self.left.expired.is_empty() {
            self.count_expired();
        }
    }

    /// A database, made if it was not there yet. The caller locks its shards by itself, and only reads.
    pub fn database(&self, db: u32) -> &'static Db {
        self.locks.database(db)
    }

    /// Gives back the locks of shards, unless they are an outer commit's. What was done is recorded first.
    #[inline]
    pub fn release(&mut self) {
        self.record.close();
        self.locks.release();
    }

    /// Whether the present command leaves something to do: keys that have expired, locks to be given back, somebody to be
    /// served, something to record.
    #[inline(always)]
    pub(crate) fn has_aftermath(&self) -> bool {
        self.left.expired.len() | self.left.ready.len() != 0
            || self.locks.has_many()
            || self.locks.has_keyspace()
            || self.record.is_on()
    }

    /// Ends a command that made `changes`: the one point where a commit is recorded. Then locks for several keys and the
    /// exclusive gate go back; a single shard's lock may stay.
    pub(crate) fn end_command(&mut self, argv: &Argv<'_>, changes: u64) {
        schedule::point();
        if changes > 0 && self.record.is_on() {
            self.record.sent(self.db, argv);
        }
        self.record.end_command();
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

    /// Notes that somebody may wait for a key that has changed.
    pub(crate) fn note_ready(&mut self, db: u32, key: Vec<u8>) {
        self.left.ready.push((db, key));
    }

    /// Whether somebody may wait for a key that has changed.
    #[inline]
    pub(crate) fn has_ready(&self) -> bool {
        !self.left.ready.is_empty()
    }

    /// Keys that have changed and that somebody may wait for.
    pub(crate) fn take_ready(&mut self) -> Vec<(u32, Vec<u8>)> {
        std::mem::take(&mut self.left.ready)
    }

    /// Empties a database; returns how many keys it had, and what is to be freed, unless a snapshot has not got it yet. The whole
    /// keyspace is this commit's.
    pub fn clear(&mut self, db: u32) -> (usize, Vec<Cleared>) {
        debug_assert!(self.locks.has_keyspace());
        let cleared = self.shared.keyspace.db(db as usize).map_or_else(Vec::new, Db::clear);
        match self.record.snapshot() {
            Some(snapshot) if snapshot.wants_taken() => {
                let removed = cleared.iter().map(Cleared::len).sum();
                snapshot.take_over(db, cleared);
                (removed, Vec::new())
            }
            _ => (cleared.iter().map(Cleared::len).sum(), cleared),
        }
    }

    /// Exchanges two databases. The whole keyspace is this commit's.
    pub fn swap(&mut self, a: u32, b: u32) {
        debug_assert!(self.locks.has_keyspace());
        self.shared.keyspace.swap_dbs(a as usize, b as usize);
        if let Some(snapshot) = self.record.snapshot() {
            snapshot.swap(a, b);
        }
    }

    /// Removes keys of a shard that are due, and up to `fields_max` fields of its hashes; returns how many keys and fields it
    /// were, and whether more fields are due. A commit of its own, as a thread that executes no commands makes it.
    pub fn expire_shard(
        &mut self,
        db: u32,
        shard: &'static Shard,
        now_ms: i64,
        fields_max: usize,
    ) -> (usize, usize, bool) {
        self.record.look(&self.shared.settings);
        if shard.is_held_long() {
            return (0, 0, false);
        }
        let Self { locks, record, left, .. } = self;
        let table = locks.lock_shard(shard);
        let mut keys = 0;
        table.expire_due(now_ms, 0, usize::MAX, &mut |removed| {
            record.note_expired(db, removed.key());
            left.garbage.push(removed.into());
            keys += 1;
        });
        let mut fields = 0;
        let told = RefCell::new(record);
        let more = table.expire_fields(
            now_ms,
            fields_max,
            &mut |key: &[u8], names: &[Vec<u8>]| {
                fields += names.len();
                let mut record = told.borrow_mut();
                record.notify(db, EventClass::Hash, "hexpired", key);
                let names = names.iter().map(Vec::as_slice);
                record.changed_by_itself(db, key);
                record.also(db, [&b"HDEL"[..], key].into_iter().chain(names).collect::<Vec<_>>().into_iter());
            },
            &mut |removed| {
                told.borrow_mut().notify(db, EventClass::Generic, "del", removed.key());
                left.garbage.push(removed.into());
            },
        );
        self.record.end_command();
        self.release();
        (keys, fields, more)
    }

    /// Sees to it that something taken out of the store is freed off its shard's lock.
    #[inline]
    pub fn discard(&mut self, garbage: Option<impl Into<Garbage>>) {
        if let Some(garbage) = garbage {
            self.left.garbage.push(garbage.into());
        }
    }

    /// Frees what was discarded; large things in the background. No locks may be held.
    #[inline]
    pub fn free_garbage(&mut self) {
        if !self.left.garbage.is_empty() {
            self.free_left();
        }
    }

    #[cold]
    fn free_left(&mut self) {
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

    /// Gives closed records to the log, as a long command is about to begin.
    pub(crate) fn submit(&mut self) {
        self.record.submit();
    }
}

impl Drop for Commit {
    /// After a panic: what was applied is recorded, and what was published is told, while the locks are still held.
    fn drop(&mut self) {
        let Self { shared, locks, record, moment, .. } = self;
        if record.is_on() {
            let recorded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                record.record_as_is(moment.now_ms, |db, hash| locks.held(db, hash), |key| shared.keyspace.hash(key));
            }));
            if recorded.is_err() {
                tracing::error!("A key that a panic left behind could not be recorded");
            }
        }
        record.hold(false);
        record.close();
        record.broadcast();
        record.submit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Parts;
    use onrush_store::NewValue;

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
}

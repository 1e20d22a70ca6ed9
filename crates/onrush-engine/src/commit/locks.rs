//! The locks of a commit.
//!
//! Lock order: the gate first (shared, once for each slice of work, or exclusive), then shards by ascending database and
//! shard number. A command with one key takes its shard's lock when it first touches the key; the lock stays for as long as the
//! commands that follow in the chunk are on the same shard. A command with several keys locks all their shards at once.

use std::hint::cold_path;

use onrush_store::{Db, KeyHash, Shard, ShardGuard, Table, schedule};
use smallvec::SmallVec;

use super::key::Key;
use super::record::Recorder;
use crate::batch::kept::shrink;
use crate::error::Stop;
use crate::gate::{Entered, Exclusive};
use crate::shared::Shared;

/// From this many keys of a command on, marking their shards replaces sorting them.
const MARKED_KEYS_MIN: usize = 1_000;

/// Up to this many locks are searched one by one.
const FEW_LOCKS: usize = 16;

/// One of the locks of a command with several keys.
struct Held {
    db: u32,
    shard: usize,
    guard: ShardGuard<'static>,
}

/// Where a commit is.
pub(super) enum Gate {
    Outside,
    Shared(#[allow(dead_code, reason = "held for its drop")] Entered<'static>),
    Exclusive(Exclusive<'static>),
}

/// What decides which locks are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// The command that runs.
    Command,
    /// An outer commit, which has locked the shards of the keys that were declared.
    Declared,
    /// An outer commit, which has the whole keyspace.
    Everything,
}

/// Why a commit does not get the locks it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It runs inside of another commit, which has not declared the key.
    Undeclared,
    /// A long command holds them: try the command again when that is done.
    HeldLong,
    /// The command will take long: the thread for long commands must execute it.
    TakesLong,
}

impl From<Refused> for Stop {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Undeclared => Stop::Undeclared,
            Refused::HeldLong => Stop::Later,
            Refused::TakesLong => Stop::Elsewhere,
        }
    }
}

pub(super) struct Locks {
    shared: &'static Shared,
    thread: usize,
    pub(super) gate: Gate,
    scope: Scope,
    /// The database that the present part of a chunk was planned for.
    pub(super) planned_db: u32,
    one: Option<ShardGuard<'static>>,
    many: Vec<Held>,
    /// Whether keys are looked up only in `many`: it has locks, or an outer commit has declared no key.
    several: bool,
    /// Replaces the table of a key that was not declared or must not be changed: empty, and dropped at the end.
    limbo: Option<Box<Table>>,
    /// Whether it was used.
    went_outside: bool,
    /// Whether it refuses instead of waiting for a long command.
    pub(super) defers: bool,
    /// Whether the locks it takes will be held for long.
    marks_long: bool,
}

impl Locks {
    pub(super) fn new(shared: &'static Shared, thread: usize) -> Self {
        Self {
            shared,
            thread,
            gate: Gate::Outside,
            scope: Scope::Command,
            planned_db: 0,
            one: None,
            many: Vec::new(),
            several: false,
            limbo: None,
            went_outside: false,
            defers: thread < shared.workers,
            marks_long: thread == shared.long_thread(),
        }
    }

    /// Whether it is inside of the gate.
    #[inline]
    pub(super) fn has_entered(&self) -> bool {
        !matches!(self.gate, Gate::Outside)
    }

    /// Leaves the gate. The shards' locks have gone back.
    pub(super) fn leave(&mut self) {
        debug_assert!(self.one.is_none() && self.many.is_empty());
        self.gate = Gate::Outside;
        schedule::point();
    }

    /// The locked table of a key in database `db`. The record that is open is closed before another lock goes back.
    /// `CHANGES`: the caller will change the key; if that could not be undone, returns the empty table.
    #[inline(always)]
    pub(super) fn table<'a, const CHANGES: bool>(
        &'a mut self,
        record: &mut Recorder,
        db: u32,
        key: &Key<'_>,
    ) -> &'a mut Table {
        if CHANGES && record.sees_changes() {
            cold_path();
            return self.table_to_touch(record, db, key);
        }
        if self.several {
            cold_path();
            return self.table_among(db, key);
        }
        let shard = match key.shard {
            Some(shard) if db == self.planned_db => shard,
            _ => {
                cold_path();
                self.shared.keyspace.db_or_create(db as usize).shard_of(key.hash)
            }
        };
        if !self.one.as_ref().is_some_and(|guard| guard.is_of(shard)) {
            record.close();
            // The old lock goes back before the new one is asked for.
            self.one = None;
            let guard = shard.lock();
            if self.marks_long {
                cold_path();
                guard.mark_long();
            }
            self.one = Some(guard);
        }
        match &mut self.one {
            Some(guard) => guard,
            None => unreachable!("set above"),
        }
    }

    #[inline(never)]
    fn table_to_touch(&mut self, record: &mut Recorder, db: u32, key: &Key<'_>) -> &mut Table {
        let table = self.table::<false>(record, db, key);
        if record.touch(db, key, table) { self.table::<false>(record, db, key) } else { self.table_outside() }
    }

    /// The table of a key among those of several locks.
    fn table_among(&mut self, db: u32, key: &Key<'_>) -> &mut Table {
        if let Some(shard) = key.shard
            && db == self.planned_db
            && self.many.len() <= FEW_LOCKS
            && let Some(at) = self.many.iter().position(|held| held.guard.is_of(shard))
        {
            return &mut self.many[at].guard;
        }
        let hash = key.hash;
        let database = self.shared.keyspace.db_or_create(db as usize);
        let shard = database.shard_index(hash);
        if self.many.len() <= FEW_LOCKS {
            let at = self.many.iter().position(|held| held.shard == shard && held.db == db);
            return match at {
                Some(at) => &mut self.many[at].guard,
                None => self.table_outside(),
            };
        }
        // The likely place if the shards are spread evenly, as in a command with very many keys.
        let guess = shard * self.many.len() / database.shard_count();
        if self.many.get(guess).is_some_and(|held| held.shard == shard && held.db == db) {
            return &mut self.many[guess].guard;
        }
        match self.many.binary_search_by_key(&(db, shard), |held| (held.db, held.shard)) {
            Ok(at) => &mut self.many[at].guard,
            Err(_) => self.table_outside(),
        }
    }

    /// The empty table that replaces the table of a key that an outer commit has not declared, or that must not be
    /// changed.
    #[cold]
    fn table_outside(&mut self) -> &mut Table {
        self.went_outside = true;
        self.limbo.get_or_insert_with(|| Box::new(self.shared.keyspace.new_table()))
    }

    /// The table of a key, if it is locked.
    pub(super) fn held(&self, db: u32, hash: KeyHash) -> Option<&Table> {
        let shard = self.database(db).shard_index(hash);
        if let Some(one) = &self.one {
            return one.is_of(self.database(db).shard(shard)).then_some(one);
        }
        let at = self.many.binary_search_by_key(&(db, shard), |held| (held.db, held.shard)).ok()?;
        Some(&self.many[at].guard)
    }

    /// Locks the shards of several keys at once, in order. The keys may come in any order and repeat. The shards' locks have
    /// gone back.
    ///
    /// # Errors
    /// An outer commit decides, and has not declared one of the keys; or another thread holds one of them for long.
    pub(super) fn lock_all(&mut self, mut keys: impl Iterator<Item = (u32, KeyHash)>) -> Result<(), Refused> {
        if self.scope == Scope::Declared {
            return if keys.all(|(db, hash)| self.held(db, hash).is_some()) { Ok(()) } else { self.refuse() };
        }
        let is_one = keys.size_hint() == (1, Some(1));
        let locked = match if is_one { keys.next() } else { None } {
            Some((db, hash)) => self.lock_one_more(db, self.database(db).shard_index(hash)),
            None => self.lock_several(keys),
        };
        if locked.is_err() {
            cold_path();
            self.many.clear();
        }
        self.several = !self.many.is_empty();
        locked
    }

    /// Locks the shards of very many keys: each is marked, and the marks are gone through in order, database by database.
    #[cold]
    fn lock_marked(&mut self, wanted: &[(u32, usize)]) -> Result<(), Refused> {
        let mut dbs: SmallVec<[u32; 4]> = SmallVec::new();
        for (db, _) in wanted {
            if !dbs.contains(db) {
                dbs.push(*db);
            }
        }
        dbs.sort_unstable();
        for db in dbs {
            let mut marked = vec![false; self.database(db).shard_count()];
            wanted.iter().filter(|(other, _)| *other == db).for_each(|(_, shard)| marked[*shard] = true);
            for shard in marked.iter().enumerate().filter(|(_, marked)| **marked).map(|(shard, _)| shard) {
                self.lock_one_more(db, shard)?;
            }
        }
        Ok(())
    }

    fn lock_several(&mut self, keys: impl Iterator<Item = (u32, KeyHash)>) -> Result<(), Refused> {
        let mut wanted: SmallVec<[(u32, usize); 16]> =
            keys.map(|(db, hash)| (db, self.database(db).shard_index(hash))).collect();
        if wanted.len() > MARKED_KEYS_MIN {
            return self.lock_marked(&wanted);
        }
        wanted.sort_unstable();
        wanted.dedup();
        wanted.into_iter().try_for_each(|(db, shard)| self.lock_one_more(db, shard))
    }

    fn lock_one_more(&mut self, db: u32, shard: usize) -> Result<(), Refused> {
        let wanted = self.database(db).shard(shard);
        let guard = if self.defers { wanted.lock_unless_long().ok_or(Refused::HeldLong)? } else { wanted.lock() };
        if self.marks_long {
            guard.mark_long();
        }
        self.many.push(Held { db, shard, guard });
        Ok(())
    }

    /// Locks a shard by itself. No other lock is held.
    pub(super) fn lock_shard(&mut self, shard: &'static Shard) -> &mut Table {
        debug_assert!(self.many.is_empty() && self.one.is_none());
        self.one.insert(shard.lock())
    }

    /// Takes the whole keyspace, after those that wanted it before; gives it back first if it has it. The shards' locks
    /// have gone back.
    ///
    /// # Errors
    /// An outer commit decides, and has declared only keys; a long command runs, also one that began meanwhile, and this
    /// thread does not wait for it; or what has it takes too long. After an error it may be outside of the gate.
    pub(super) fn lock_keyspace(&mut self) -> Result<(), Refused> {
        let (shared, defers) = (self.shared, self.defers);
        let is_long = || defers && shared.offload.is_busy();
        match self.scope {
            Scope::Command if is_long() => Err(Refused::TakesLong),
            Scope::Command => {
                let turn = shared.gate.take_turn();
                self.gate = Gate::Outside;
                // Only a worker is needed elsewhere, and only if another thread can execute what it gives up.
                let loses_patience = shared.loses_patience();
                let alone = match self.thread < shared.workers && shared.offload.is_there() {
                    true => shared.gate.exclusive_unless(turn, || is_long() || loses_patience()),
                    false => Some(shared.gate.exclusive(turn)),
                };
                let Some(alone) = alone else {
                    cold_path();
                    self.gate = shared.enter_unless_busy(self.thread).map_or(Gate::Outside, Gate::Shared);
                    return Err(Refused::TakesLong);
                };
                self.gate = Gate::Exclusive(alone);
                Ok(())
            }
            Scope::Everything => Ok(()),
            Scope::Declared => self.refuse(),
        }
    }

    /// Whether a command inside of a commit got the empty table instead of the one it wanted.
    #[inline]
    pub(super) fn went_outside(&self) -> bool {
        self.went_outside
    }

    /// Whether commands run inside of another one's commit.
    pub(super) fn is_lent(&self) -> bool {
        self.scope != Scope::Command
    }

    pub(super) fn has_keyspace(&self) -> bool {
        matches!(self.gate, Gate::Exclusive(_))
    }

    pub(super) fn has_many(&self) -> bool {
        self.several
    }

    /// Gives the shards' locks back, unless they are an outer commit's.
    #[inline]
    pub(super) fn release(&mut self) {
        if self.several {
            cold_path();
            if self.scope == Scope::Declared {
                return;
            }
            self.clear_many();
        }
        self.one = None;
    }

    /// Gives back what a command with several keys or with the whole keyspace has locked; a single lock may stay.
    pub(super) fn release_many(&mut self) {
        if self.scope != Scope::Declared {
            self.clear_many();
        }
        if self.scope == Scope::Command && self.has_keyspace() {
            self.one = None;
            if let Gate::Exclusive(exclusive) = std::mem::replace(&mut self.gate, Gate::Outside) {
                // Clients that this command serves are served before another thread gets the keyspace.
                self.gate = Gate::Shared(exclusive.share(self.thread));
                schedule::point();
            }
        }
    }

    fn clear_many(&mut self) {
        self.many.clear();
        self.several = false;
    }

    /// From here on the held locks belong to an outer commit: commands inside of it can neither take other locks nor
    /// give these back, until [`Locks::take_back`].
    pub(super) fn lend(&mut self) {
        self.scope = if self.has_keyspace() { Scope::Everything } else { Scope::Declared };
        self.several = self.scope == Scope::Declared;
        self.went_outside = false;
    }

    /// Ends what [`Locks::lend`] began.
    ///
    /// # Errors
    /// A command asked for a key that was not declared: changes to it are dropped.
    pub(super) fn take_back(&mut self) -> Result<(), Refused> {
        self.scope = Scope::Command;
        self.several = !self.many.is_empty();
        self.limbo = None;
        if std::mem::take(&mut self.went_outside) { Err(Refused::Undeclared) } else { Ok(()) }
    }

    fn refuse(&mut self) -> Result<(), Refused> {
        self.went_outside = true;
        Err(Refused::Undeclared)
    }

    /// A database, made if necessary.
    pub(super) fn database(&self, db: u32) -> &'static Db {
        self.shared.keyspace.db_or_create(db as usize)
    }

    /// Gives memory back that locking very many keys needed. No locks may be held.
    pub(super) fn shrink(&mut self) {
        debug_assert!(self.many.is_empty());
        shrink(&mut self.many);
    }
}

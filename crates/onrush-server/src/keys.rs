//! Access to keys: which locks a command holds, expiry on access, and the access clock.
//!
//! Lock order: the gate first (shared, once per batch, or exclusive), then shards by ascending database and
//! shard number. A command with one key takes its shard's lock when it first touches the key and the lock is kept
//! for as long as the commands that follow in the chunk are on the same shard; before any other lock is taken it is
//! given back. A command with several keys locks all their shards at once with [`Keys::lock_all`].

use std::hint::cold_path;

use onrush_store::clock;
use onrush_store::{CollectionType, Db, Entry, KeyHash, Random, Removed, Shard, ShardGuard, Slot, Table};
use smallvec::SmallVec;

use crate::error::{self, CommandError};
use crate::gate::{Entered, Exclusive};
use crate::lazyfree::Garbage;
use crate::scratch::shrink;
use crate::server::{Pause, Server, random_u64};

/// A key and its hash.
#[derive(Clone, Copy)]
pub struct Key<'k> {
    /// Its bytes.
    pub bytes: &'k [u8],
    /// Its hash in the keyspace.
    pub hash: KeyHash,
    /// Where the planner found it to belong, in the database its chunk was planned for.
    pub(crate) shard: Option<&'static Shard>,
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.bytes == other.bytes
    }
}

impl Eq for Key<'_> {}

/// One of the locks of a command with several keys.
struct Held {
    db: u32,
    shard: usize,
    guard: ShardGuard<'static>,
}

enum GateState {
    Outside,
    Shared(#[allow(dead_code, reason = "held for its drop")] Entered<'static>),
    Exclusive(#[allow(dead_code, reason = "held for its drop")] Exclusive<'static>),
}

/// From so many keys of a command on, their shards are put in order by marking them instead of sorting.
const MARKED_KEYS_MIN: usize = 1_000;

/// A thread's way into the keyspace during one slice of work.
pub struct Keys {
    server: &'static Server,
    thread: usize,
    gate: GateState,
    db: u32,
    /// The database that the present part of a chunk was planned for.
    planned_db: u32,
    /// The time this chunk takes for now, in Unix milliseconds.
    pub now_ms: i64,
    /// Access clock for entries touched now.
    pub clock: AccessClock,
    one: Option<ShardGuard<'static>>,
    many: Vec<Held>,
    expired: Vec<(u32, Removed)>,
    garbage: Vec<Garbage>,
    /// Keys that changed and that somebody waits for, with their databases.
    pub(crate) ready: Vec<(u32, Vec<u8>)>,
    /// Random numbers: one stream for as long as the thread lives.
    pub random: Random,
    /// Lookups for reading that found their key.
    pub hits: u64,
    /// Lookups for reading that did not.
    pub misses: u64,
}

/// How an access is noted in an entry.
#[derive(Clone, Copy, Debug)]
pub enum AccessClock {
    /// The LRU clock: seconds, 24 bits.
    Lru(u32),
    /// A logarithmic counter of accesses that decays, and its settings.
    Lfu {
        /// The time in Unix milliseconds.
        now_ms: i64,
        /// `lfu-log-factor`.
        log_factor: u32,
        /// `lfu-decay-time` in minutes.
        decay_minutes: u32,
    },
    /// CLIENT NO-TOUCH: reads leave no trace.
    Untouched(u32),
}

impl AccessClock {
    /// The clock of a new entry.
    #[inline]
    pub fn fresh(&self) -> u32 {
        match *self {
            Self::Lru(seconds) | Self::Untouched(seconds) => seconds,
            Self::Lfu { now_ms, .. } => clock::lfu(clock::LFU_INIT, now_ms),
        }
    }

    #[inline(always)]
    fn touch(&self, slot: &mut Slot<'_>, random: &mut Random) {
        match self {
            Self::Lru(seconds) => {
                if slot.clock() != *seconds {
                    slot.set_clock(*seconds);
                }
            }
            _ => self.count_touch(slot, random),
        }
    }

    #[cold]
    fn count_touch(&self, slot: &mut Slot<'_>, random: &mut Random) {
        match *self {
            Self::Lru(_) | Self::Untouched(_) => {}
            Self::Lfu { now_ms, log_factor, decay_minutes } => {
                slot.set_clock(clock::lfu_touch(slot.clock(), now_ms, decay_minutes, log_factor, random.next()));
            }
        }
    }
}

impl Keys {
    /// No locks yet; [`Keys::enter`] comes first.
    pub fn new(server: &'static Server, thread: usize) -> Self {
        Self {
            server,
            thread,
            gate: GateState::Outside,
            db: 0,
            planned_db: 0,
            now_ms: 0,
            clock: AccessClock::Lru(0),
            one: None,
            many: Vec::new(),
            expired: Vec::new(),
            garbage: Vec::new(),
            ready: Vec::new(),
            random: Random::new(random_u64()),
            hits: 0,
            misses: 0,
        }
    }

    /// Enters the gate, shared.
    pub fn enter(&mut self) {
        self.gate = GateState::Shared(self.server.gate.enter(self.thread));
    }

    /// Leaves the gate and gives every lock back; what was deleted meanwhile is freed, what was found and what not added up.
    pub fn leave(&mut self) {
        let stats = &self.server.stats.threads[self.thread];
        if self.hits + self.misses > 0 {
            stats.keyspace_hits.add(std::mem::take(&mut self.hits));
            stats.keyspace_misses.add(std::mem::take(&mut self.misses));
        }
        self.release();
        self.gate = GateState::Outside;
        self.free_garbage();
    }

    /// The database commands work on.
    #[inline]
    pub fn db(&self) -> u32 {
        self.db
    }

    /// Begins with a chunk; `now_ms` is what it takes for now.
    #[inline]
    pub(crate) fn begin_chunk(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        self.clock = self.server.access_clock(now_ms, false);
    }

    /// Takes another time for now, in the middle of a chunk.
    pub(crate) fn set_time(&mut self, now_ms: i64) {
        if now_ms != self.now_ms {
            self.now_ms = now_ms;
            self.clock = self.server.access_clock(now_ms, matches!(self.clock, AccessClock::Untouched(_)));
        }
    }

    /// Begins with commands that were planned for database `db`. `no_touch`: CLIENT NO-TOUCH is on.
    #[inline]
    pub(crate) fn begin_part(&mut self, db: u32, no_touch: bool) {
        (self.db, self.planned_db) = (db, db);
        if no_touch || matches!(self.clock, AccessClock::Untouched(_)) {
            cold_path();
            self.clock = self.server.access_clock(self.now_ms, no_touch);
        }
    }

    /// Changes the database, in step with the session.
    #[inline]
    pub fn set_db(&mut self, db: u32) {
        self.db = db;
    }

    /// A key with its hash.
    #[inline]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key { bytes, hash: self.server.keyspace.hash(bytes), shard: None }
    }

    /// The locked table of a key in the present database.
    #[inline]
    pub fn table(&mut self, key: &Key<'_>) -> &mut Table {
        self.table_in(self.db, key)
    }

    /// The locked table of a key in database `db`. Takes the lock unless [`Keys::lock_all`] has it.
    #[inline]
    pub fn table_in(&mut self, db: u32, key: &Key<'_>) -> &mut Table {
        let Self { server, planned_db, one, many, .. } = self;
        Self::locked(server, (db, *planned_db), one, many, key)
    }

    #[inline(always)]
    fn locked<'a>(
        server: &'static Server,
        (db, planned_db): (u32, u32),
        one: &'a mut Option<ShardGuard<'static>>,
        many: &'a mut [Held],
        key: &Key<'_>,
    ) -> &'a mut Table {
        if !many.is_empty() {
            cold_path();
            return Self::locked_among(server, db, many, key.hash);
        }
        let shard = match key.shard {
            Some(shard) if db == planned_db => shard,
            _ => {
                cold_path();
                server.keyspace.db_or_create(db as usize).shard_of(key.hash)
            }
        };
        if !one.as_ref().is_some_and(|guard| guard.is_of(shard)) {
            // The old lock goes back before the new one is asked for.
            *one = None;
            *one = Some(shard.lock());
        }
        match one {
            Some(guard) => guard,
            None => unreachable!("set above"),
        }
    }

    /// The table of a key among those that [`Keys::lock_all`] has locked.
    fn locked_among<'a>(server: &'static Server, db: u32, many: &'a mut [Held], hash: KeyHash) -> &'a mut Table {
        let database = server.keyspace.db_or_create(db as usize);
        let shard = database.shard_index(hash);
        // Where it is if the shards are spread evenly, as they are when a command with very many keys has them all.
        let guess = shard * many.len() / database.shard_count();
        if many.get(guess).is_some_and(|held| held.shard == shard && held.db == db) {
            return &mut many[guess].guard;
        }
        let held = many.binary_search_by_key(&(db, shard), |held| (held.db, held.shard));
        let held = held.expect("a multi-key command locks all its keys");
        &mut many[held].guard
    }

    /// Locks the shards of several keys at once, in order; they stay locked until the command ends. The keys may
    /// come in any order and repeat.
    pub fn lock_all(&mut self, keys: impl IntoIterator<Item = (u32, KeyHash)>) {
        self.release();
        let mut wanted: SmallVec<[(u32, usize); 16]> =
            keys.into_iter().map(|(db, hash)| (db, self.database(db).shard_index(hash))).collect();
        if wanted.len() > MARKED_KEYS_MIN {
            self.lock_marked(&wanted);
            return;
        }
        wanted.sort_unstable();
        wanted.dedup();
        for (db, shard) in wanted {
            self.lock_one_more(db, shard);
        }
    }

    /// Locks the shards of very many keys: each is marked, and the marks are gone through in order, database by database.
    #[cold]
    fn lock_marked(&mut self, wanted: &[(u32, usize)]) {
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
                self.lock_one_more(db, shard);
            }
        }
    }

    fn lock_one_more(&mut self, db: u32, shard: usize) {
        let guard = self.database(db).shard(shard).lock();
        self.many.push(Held { db, shard, guard });
    }

    /// Brings the bucket of a key that is soon to be written into the cache.
    #[inline]
    pub fn prefetch_bucket(&self, key: &Key<'_>) {
        self.database(self.db).shard_of(key.hash).prefetch_bucket(key.hash);
    }

    /// Brings the entry of a key whose bucket has come, and whose lock is held, into the cache.
    #[inline]
    pub fn prefetch_entry(&mut self, key: &Key<'_>) {
        self.table(key).prefetch_entry(key.hash);
    }

    /// Takes the whole keyspace for this command. References into tables end before.
    pub fn lock_keyspace(&mut self) {
        self.release();
        self.gate = GateState::Outside;
        self.gate = GateState::Exclusive(self.server.gate.exclusive());
    }

    /// A database, made if it was not there yet. The caller locks its shards by itself.
    pub fn database(&self, db: u32) -> &'static Db {
        self.server.keyspace.db_or_create(db as usize)
    }

    /// Gives back the locks of shards.
    #[inline]
    pub fn release(&mut self) {
        self.one = None;
        if !self.many.is_empty() {
            cold_path();
            self.many.clear();
        }
    }

    /// Whether the present command leaves something to do: keys that have expired, locks to be given back, somebody to be
    /// served.
    #[inline(always)]
    pub(crate) fn has_aftermath(&self) -> bool {
        self.expired.len() | self.ready.len() | self.many.len() != 0 || matches!(self.gate, GateState::Exclusive(_))
    }

    /// Gives memory back that locking very many keys needed. No locks may be held.
    pub(crate) fn shrink(&mut self) {
        debug_assert!(self.many.is_empty() && self.garbage.is_empty());
        shrink(&mut self.many);
    }

    /// Ends a command: locks for several keys and the exclusive gate go back; a single shard's lock may stay.
    pub fn end_command(&mut self) {
        self.many.clear();
        if matches!(self.gate, GateState::Exclusive(_)) {
            self.release();
            self.gate = GateState::Outside;
            self.enter();
        }
    }

    /// A key's entry for reading: an expired one is deleted, a hit or miss counted, the access noted.
    #[inline]
    pub fn read(&mut self, key: &Key<'_>) -> Option<&Entry> {
        self.find(self.db, key, true).map(Slot::into_entry)
    }

    /// A key's entry without any trace of the access, in database `db`; an expired one is not there.
    #[inline]
    pub fn peek_in(&mut self, db: u32, key: &Key<'_>) -> Option<&Entry> {
        let now_ms = self.now_ms;
        let table: &Table = self.table_in(db, key);
        table.get(key.bytes, key.hash).filter(|entry| !entry.is_expired(now_ms))
    }

    /// As [`Keys::peek_in`] for the present database.
    #[inline]
    pub fn peek(&mut self, key: &Key<'_>) -> Option<&Entry> {
        self.peek_in(self.db, key)
    }

    /// A key's entry for changing it: an expired one is deleted first, the access noted.
    #[inline]
    pub fn write(&mut self, key: &Key<'_>) -> Option<Slot<'_>> {
        self.find(self.db, key, false)
    }

    /// As [`Keys::write`] in database `db`.
    #[inline]
    pub fn write_in(&mut self, db: u32, key: &Key<'_>) -> Option<Slot<'_>> {
        self.find(db, key, false)
    }

    /// A key's collection for reading; `None` if there is no such key.
    ///
    /// # Errors
    /// `WRONGTYPE …` when the key holds something else.
    #[inline]
    pub fn read_as<T: CollectionType>(&mut self, key: &Key<'_>) -> Result<Option<&T>, CommandError> {
        self.read(key).map(|entry| entry.collection().ok_or(error::WRONG_TYPE)).transpose()
    }

    /// As [`Keys::read_as`], for changing it. One that is empty afterwards has to be deleted with [`Keys::delete`].
    ///
    /// # Errors
    /// `WRONGTYPE …` when the key holds something else.
    #[inline]
    pub fn write_as<T: CollectionType>(&mut self, key: &Key<'_>) -> Result<Option<&mut T>, CommandError> {
        self.write(key).map(|slot| slot.into_collection_mut().ok_or(error::WRONG_TYPE)).transpose()
    }

    /// A key's collection for adding to it; an empty one is made if there is no such key.
    ///
    /// # Errors
    /// `WRONGTYPE …` when the key holds something else.
    #[inline]
    pub fn write_or_create<T: CollectionType>(&mut self, key: &Key<'_>) -> Result<&mut T, CommandError> {
        let Self { server, planned_db, one, many, clock, random, expired, now_ms, db, .. } = self;
        let table = Self::locked(server, (*db, *planned_db), one, many, key);
        let (mut slot, found) =
            table.find_or_insert(key.bytes, key.hash, *now_ms, || T::default().into(), clock.fresh(), &mut |removed| {
                expired.push((*db, removed))
            });
        if found {
            clock.touch(&mut slot, random);
        }
        slot.into_collection_mut().ok_or(error::WRONG_TYPE)
    }

    /// The collection of a key that [`Keys::lock_all`] has locked, for reading several at a time. No trace of the access;
    /// one that is past its time, or of another type, is not there.
    pub fn held<T: CollectionType>(&self, key: &Key<'_>) -> Option<&T> {
        self.held_entry(key)?.collection()
    }

    /// As [`Keys::held`], the whole entry.
    pub fn held_entry(&self, key: &Key<'_>) -> Option<&Entry> {
        let shard = self.database(self.db).shard_index(key.hash);
        let held = self.many.binary_search_by_key(&(self.db, shard), |held| (held.db, held.shard)).ok()?;
        let entry = self.many[held].guard.get(key.bytes, key.hash)?;
        (!entry.is_expired(self.now_ms)).then_some(entry)
    }

    /// Deletes a key of the present database; it is freed off the lock. Says whether it was there.
    pub fn delete(&mut self, key: &Key<'_>) -> bool {
        let removed = self.table(key).remove(key.bytes, key.hash);
        let found = removed.is_some();
        self.discard(removed);
        found
    }

    #[inline(always)]
    fn find<'a>(&'a mut self, db: u32, key: &Key<'_>, count: bool) -> Option<Slot<'a>> {
        let Self { server, planned_db, one, many, clock, random, expired, hits, misses, now_ms, .. } = self;
        let table = Self::locked(server, (db, *planned_db), one, many, key);
        let Some(mut slot) = table.find(key.bytes, key.hash) else {
            *misses += u64::from(count);
            return None;
        };
        if slot.is_expired(*now_ms) {
            cold_path();
            // While writes are paused it is gone for who looks, but stays.
            if server.pause(*now_ms) == Pause::None {
                expired.push((db, slot.remove()));
            }
            *misses += u64::from(count);
            return None;
        }
        *hits += u64::from(count);
        clock.touch(&mut slot, random);
        Some(slot)
    }

    /// Sees to it that something taken out of the store is freed off its shard's lock.
    #[inline]
    pub fn discard(&mut self, garbage: Option<impl Into<Garbage>>) {
        if let Some(garbage) = garbage {
            self.garbage.push(garbage.into());
        }
    }

    /// Keys deleted on access since the last call, oldest first, with their databases.
    #[inline]
    pub fn take_expired(&mut self) -> Vec<(u32, Removed)> {
        std::mem::take(&mut self.expired)
    }

    /// Whether keys were deleted on access.
    #[inline]
    pub fn has_expired(&self) -> bool {
        !self.expired.is_empty()
    }

    /// Frees what was discarded; large things in the background. No locks may be held.
    #[inline]
    pub fn free_garbage(&mut self) {
        if self.garbage.is_empty() {
            return;
        }
        cold_path();
        for removed in self.garbage.drain(..) {
            self.server.lazyfree.free(removed);
        }
        shrink(&mut self.garbage);
    }
}

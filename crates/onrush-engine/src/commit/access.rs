//! Reading and changing entries.
//!
//! All access to entries for changing them goes through here, so a commit sees each key before it changes.

use std::hint::cold_path;

use onrush_store::{CollectionType, Entry, NewValue, Removed, Slot, Table};

use super::{Commit, Key};
use crate::error::{self, CommandError};
use crate::messages::events::EventClass;
use crate::transactions::watched::WatchedKey;

impl Commit {
    /// A key with its hash.
    #[inline]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key { bytes, hash: self.shared.keyspace.hash(bytes), shard: None }
    }

    /// A key's locked table, for reading. Takes the lock unless [`Commit::lock_all`] has it.
    #[inline(always)]
    fn table(&mut self, db: u32, key: &Key<'_>) -> &Table {
        self.locks.table::<false>(&mut self.record, db, key)
    }

    /// Prefetches the bucket of a key that will soon be written.
    #[inline]
    pub fn prefetch_bucket(&self, key: &Key<'_>) {
        self.database(self.db).shard_of(key.hash).prefetch_bucket(key.hash);
    }

    /// Prefetches the entry of a key whose bucket has arrived and whose lock is held.
    #[inline]
    pub fn prefetch_entry(&mut self, key: &Key<'_>) {
        self.table(self.db, key).prefetch_entry(key.hash);
    }

    /// A key's entry for reading: deletes an expired one, counts a hit or miss, notes the access.
    // As a call it costs GET 20 of 850 instructions.
    #[inline(always)]
    pub fn read(&mut self, key: &Key<'_>) -> Option<&Entry> {
        self.find::<false, true>(self.db, key).map(Slot::into_entry)
    }

    /// As [`Commit::read`], but a miss is no event: for commands that change keys or ask about a key.
    #[inline]
    pub fn look(&mut self, key: &Key<'_>) -> Option<&Entry> {
        self.find::<false, false>(self.db, key).map(Slot::into_entry)
    }

    /// A key's entry in database `db`, without a trace of the access; `None` if it has expired.
    #[inline]
    pub(crate) fn peek_in(&mut self, db: u32, key: &Key<'_>) -> Option<&Entry> {
        let due_ms = self.moment.due_ms;
        self.table(db, key).get(key.bytes, key.hash).filter(|entry| !entry.is_expired(due_ms))
    }

    /// Whether a key of the present database has expired and is not deleted yet.
    pub(crate) fn peek_expired(&mut self, key: &Key<'_>, now_ms: i64) -> bool {
        let db = self.db;
        self.table(db, key).get(key.bytes, key.hash).is_some_and(|entry| entry.is_expired(now_ms))
    }

    /// As [`Commit::peek_expired`], of a watched key in its own database.
    pub(crate) fn is_past_its_time(&mut self, key: &WatchedKey, now_ms: i64) -> bool {
        let db = std::mem::replace(&mut self.db, key.db);
        let is_expired = self.peek_expired(&Key { bytes: &key.key, hash: key.hash, shard: None }, now_ms);
        self.db = db;
        is_expired
    }

    /// As [`Commit::peek_in`] for the present database.
    #[inline]
    pub fn peek(&mut self, key: &Key<'_>) -> Option<&Entry> {
        self.peek_in(self.db, key)
    }

    /// A key's entry for changing it: deletes an expired one first, notes the access.
    #[inline]
    pub fn write(&mut self, key: &Key<'_>) -> Option<Slot<'_>> {
        self.find::<true, false>(self.db, key)
    }

    /// As [`Commit::write`] in database `db`.
    #[inline]
    pub(crate) fn write_in(&mut self, db: u32, key: &Key<'_>) -> Option<Slot<'_>> {
        self.find::<true, false>(db, key)
    }

    /// The entry, for changing it, of a key that the same command has found before.
    #[inline]
    pub(crate) fn write_again(&mut self, key: &Key<'_>) -> Option<Slot<'_>> {
        self.locks.table::<true>(&mut self.record, self.db, key).find(key.bytes, key.hash)
    }

    /// A key's collection for reading; `None` if there is no such key.
    ///
    /// # Errors
    /// `WRONGTYPE …` when the key holds something else.
    #[inline]
    pub(crate) fn read_as<T: CollectionType>(&mut self, key: &Key<'_>) -> Result<Option<&T>, CommandError> {
        self.read(key).map(|entry| entry.collection().ok_or(error::WRONG_TYPE)).transpose()
    }

    /// As [`Commit::read_as`], where a miss is no event.
    ///
    /// # Errors
    /// `WRONGTYPE …` when the key holds something else.
    #[inline]
    pub(crate) fn look_as<T: CollectionType>(&mut self, key: &Key<'_>) -> Result<Option<&T>, CommandError> {
        self.look(key).map(|entry| entry.collection().ok_or(error::WRONG_TYPE)).transpose()
    }

    /// As [`Commit::read_as`], for changing it: a small collection goes back into its entry on drop. If it is empty
    /// then, delete it with [`Commit::delete`].
    ///
    /// # Errors
    /// `WRONGTYPE …` when the key holds something else.
    #[inline]
    pub(crate) fn write_as<T: CollectionType>(&mut self, key: &Key<'_>) -> Result<Option<T::Mut<'_>>, CommandError> {
        self.write(key).map(|slot| slot.into_collection_mut::<T>().ok_or(error::WRONG_TYPE)).transpose()
    }

    /// A key's collection for adding to it; an empty one is made if there is no such key.
    ///
    /// # Errors
    /// `WRONGTYPE …` when the key holds something else.
    #[inline(always)]
    pub(crate) fn write_or_create<T: CollectionType>(&mut self, key: &Key<'_>) -> Result<T::Mut<'_>, CommandError> {
        self.open_or_create::<T>(key).ok_or(error::WRONG_TYPE)
    }

    /// A function of its own: two words are returned in registers, an error is not.
    #[inline]
    fn open_or_create<T: CollectionType>(&mut self, key: &Key<'_>) -> Option<T::Mut<'_>> {
        let Self { locks, record, moment, left, db, .. } = self;
        let table = locks.table::<true>(record, *db, key);
        let (mut slot, found) = table.find_or_insert(
            key.bytes,
            key.hash,
            moment.due_ms,
            || T::default().into(),
            moment.clock.fresh(),
            &mut |removed| {
                record.expired(*db, removed, &mut left.expired);
            },
        );
        if found {
            moment.clock.touch::<true>(&mut slot, &mut moment.random);
        } else if record.notices.tells_new() {
            cold_path();
            record.notices.note_new(*db, key.bytes);
        }
        slot.into_collection_mut::<T>()
    }

    /// The collection of a key that [`Commit::lock_all`] has locked, for reading several at a time. Leaves no trace of
    /// the access; `None` if it has expired or has another type.
    pub fn held<T: CollectionType>(&self, key: &Key<'_>) -> Option<&T> {
        self.held_entry(key)?.collection()
    }

    /// As [`Commit::held`], but the whole entry.
    pub(crate) fn held_entry(&self, key: &Key<'_>) -> Option<&Entry> {
        let entry = self.locks.held(self.db, key.hash)?.get(key.bytes, key.hash)?;
        (!entry.is_expired(self.moment.due_ms)).then_some(entry)
    }

    /// Gives a key of the present database a value and an expiry, whatever it was before.
    #[inline(always)]
    pub fn set(&mut self, key: &Key<'_>, value: NewValue<'_>, expire: Option<i64>) {
        if self.record.notices.tells_events() {
            cold_path();
            self.note_overwritten(self.db, key);
        }
        let clock = self.moment.clock.fresh();
        let displaced =
            self.locks.table::<true>(&mut self.record, self.db, key).set(key.bytes, key.hash, value, expire, clock);
        self.discard(displaced);
    }

    /// Adds a key to the present database; [`Commit::write`] has found that it does not exist.
    #[inline(always)]
    pub fn insert(&mut self, key: &Key<'_>, value: NewValue<'_>) {
        let clock = self.moment.clock.fresh();
        self.insert_in(self.db, key, value, None, clock);
    }

    /// As [`Commit::insert`] in database `db`, with an expiry and an access clock.
    #[inline(always)]
    pub(crate) fn insert_in(&mut self, db: u32, key: &Key<'_>, value: NewValue<'_>, expire: Option<i64>, clock: u32) {
        if self.record.notices.tells_new() {
            cold_path();
            self.record.notices.note_new(db, key.bytes);
        }
        self.locks.table::<true>(&mut self.record, db, key).insert(key.bytes, key.hash, value, expire, clock);
    }

    /// Prepares overwriting a key, which may be new or expired.
    #[inline(never)]
    fn note_overwritten(&mut self, db: u32, key: &Key<'_>) {
        let due_ms = self.moment.due_ms;
        let is_expired = self.table(db, key).get(key.bytes, key.hash).map(|entry| entry.is_expired(due_ms));
        if is_expired == Some(true) {
            self.record.notices.notify(db, EventClass::Expired, "expired", key.bytes);
        }
        if is_expired != Some(false) && self.record.notices.tells_new() {
            self.record.notices.note_new(db, key.bytes);
        }
    }

    /// Adds an entry that [`Commit::remove`] took out to database `db`, which must not have the key.
    pub(crate) fn insert_entry(&mut self, db: u32, key: &Key<'_>, entry: Removed) {
        if self.record.notices.tells_new() {
            self.record.notices.note_new(db, key.bytes);
        }
        self.locks.table::<true>(&mut self.record, db, key).insert_entry(entry, key.hash);
    }

    /// Takes a key out of the present database.
    #[inline]
    pub fn remove(&mut self, key: &Key<'_>) -> Option<Removed> {
        self.locks.table::<true>(&mut self.record, self.db, key).remove(key.bytes, key.hash)
    }

    /// Deletes a key of the present database; it is freed off the lock. Returns whether it was there.
    pub fn delete(&mut self, key: &Key<'_>) -> bool {
        if self.record.notices.tells_new() {
            self.record.notices.forget_new(self.db, key.bytes);
        }
        let removed = self.remove(key);
        let found = removed.is_some();
        self.discard(removed);
        found
    }

    /// Finds a key, for changing or for reading; only a lookup for reading counts as a hit or a miss. `TELLS`: a miss
    /// is an event.
    #[inline(always)]
    fn find<const CHANGES: bool, const TELLS: bool>(&mut self, db: u32, key: &Key<'_>) -> Option<Slot<'_>> {
        let Self { locks, record, moment, left, is_paused, hits, misses, .. } = self;
        let table = locks.table::<CHANGES>(record, db, key);
        let count = u64::from(!CHANGES);
        let Some(mut slot) = table.find(key.bytes, key.hash) else {
            *misses += count;
            if TELLS && record.notices.tells_misses() {
                cold_path();
                record.notices.notify(db, EventClass::KeyMiss, "keymiss", key.bytes);
            }
            return None;
        };
        if slot.is_expired(moment.due_ms) {
            cold_path();
            // While writes are paused, and in a replica, an expired key stays but clients do not see it.
            if !*is_paused {
                let removed = slot.remove();
                record.expired(db, removed, &mut left.expired);
            }
            *misses += count;
            if TELLS && record.notices.tells_misses() {
                record.notices.notify(db, EventClass::KeyMiss, "keymiss", key.bytes);
            }
            return None;
        }
        *hits += count;
        moment.clock.touch::<CHANGES>(&mut slot, &mut moment.random);
        Some(slot)
    }
}

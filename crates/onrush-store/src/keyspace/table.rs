//! A shard's hash table: plain single-threaded code behind the shard's lock.
//!
//! Buckets divide the range of positions evenly, and a bucket's index grows with the position, whatever the number of
//! buckets. So a scan's cursor is a position: it means the same after any number of resizes. A table holds few entries
//! (a database has thousands of shards), so it grows and shrinks in one go.

use crate::entries::entry_box::EntryBox;
use crate::entries::value::with_payload;
use crate::keyspace::bucket::{BucketArray, Located, LocatedMut, PREFETCH_AHEAD, bucket_count};
use crate::keyspace::key_hash::{Hasher, KeyHash};
use crate::random::Random;
use crate::{Cleared, CollectionMut, Entry, Hash, NewValue, Removed, Slot, Value};

/// The next expiry of a table in which nothing expires.
pub(crate) const NEVER_MS: i64 = i64::MAX;

/// Entries per bucket of a table after it was made smaller.
const SHRUNK_LOAD: usize = 5;

/// The entries of one shard.
pub struct Table {
    pub(crate) buckets: BucketArray,
    books: Books,
}

/// A table's counts of its entries, separate from the entries so that they can change while an entry is located.
pub(crate) struct Books {
    hasher: Hasher,
    next_expire_ms: i64,
    len: u32,
    /// How many entries have an expiry, [`TIMED_FIELDS`] and [`SIDE`].
    volatile: u32,
}

/// Set in [`Books::volatile`] while there may be hashes with fields that expire. A pass that finds none clears it, also
/// [`Table::look_for_timed_fields`].
const TIMED_FIELDS: u32 = 1 << 31;

/// Set in [`Books::volatile`] on one of the two sides of the snapshots' cuts (see [`crate::Keyspace::cut`]).
const SIDE: u32 = 1 << 30;

/// The other bits of [`Books::volatile`].
const VOLATILE_LEN: u32 = SIDE - 1;

/// Called with a key and the names of the fields of its hash that have expired.
pub type ExpiredFields<'a> = &'a mut dyn FnMut(&[u8], &[Vec<u8>]);

/// What one call of [`Table::expire_due`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpireProgress {
    /// Entries with an expiry that were looked at.
    pub examined: usize,
    /// Entries among them that were due and have been removed.
    pub removed: usize,
    /// Where to go on; `None` at the end of the table.
    pub next: Option<u32>,
}

impl Table {
    /// An empty table; allocates nothing.
    pub fn new(hasher: Hasher) -> Self {
        Table { buckets: BucketArray::empty(), books: Books { hasher, next_expire_ms: NEVER_MS, len: 0, volatile: 0 } }
    }

    /// Number of entries, expired ones included.
    #[inline]
    pub fn len(&self) -> usize {
        self.books.len as usize
    }

    /// Whether there are no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.books.len == 0
    }

    /// Number of entries with an expiry.
    #[inline]
    pub fn volatile_len(&self) -> usize {
        (self.books.volatile & VOLATILE_LEN) as usize
    }

    /// No entry and no field of an entry expires before this time, in milliseconds since the Unix epoch; `i64::MAX` if
    /// nothing expires.
    #[inline]
    pub fn next_expire_ms(&self) -> i64 {
        self.books.next_expire_ms
    }

    /// Bytes allocated for the buckets; the entries are not counted. O(buckets).
    pub fn buckets_bytes(&self) -> usize {
        self.buckets.size_bytes()
    }

    /// Prefetches the entries that a lookup of `hash` may read. O(1); reads one bucket. If they can only be in
    /// overflow, it prefetches the bucket in overflow and returns true: then a later [`Table::prefetch_overflow_entry`]
    /// pays off.
    #[inline]
    pub fn prefetch_entry(&self, hash: KeyHash) -> bool {
        self.buckets.prefetch_entry(hash.position(), hash.tag())
    }

    /// Prefetches the entries in overflow that a lookup of `hash` may read. O(1); reads two buckets.
    pub fn prefetch_overflow_entry(&self, hash: KeyHash) {
        self.buckets.prefetch_overflow_entry(hash.position(), hash.tag());
    }

    /// Prefetches what looking up members with these hashes reads of the collection under the key with `hash`. Keys are
    /// not compared, so it rarely prefetches more than that.
    #[inline]
    pub fn prefetch_members(&self, hash: KeyHash, members: &[u64]) {
        self.buckets.candidates(hash.position(), hash.tag(), |entry| entry.prefetch_members(members));
    }

    /// Finds an entry to read. The caller checks the expiry. O(1).
    #[inline]
    pub fn get(&self, key: &[u8], hash: KeyHash) -> Option<&Entry> {
        self.buckets.find(hash.position(), hash.tag(), key).map(Located::entry)
    }

    /// Finds an entry to read and to change. The caller checks the expiry. O(1).
    #[inline(always)]
    pub fn find(&mut self, key: &[u8], hash: KeyHash) -> Option<Slot<'_>> {
        let located = self.buckets.find_mut(hash.position(), hash.tag(), key).ok()?;
        Some(Slot::new(located, &mut self.books, hash.position()))
    }

    /// Inserts an entry, or overwrites value, expiry (milliseconds since the Unix epoch) and clock of the entry with
    /// this key. Returns a displaced value only if it lived outside of its entry; the caller frees it without holding
    /// the lock. Amortised O(1) beside copying the value.
    #[inline]
    pub fn set(
        &mut self,
        key: &[u8],
        hash: KeyHash,
        value: NewValue<'_>,
        expire: Option<i64>,
        clock: u32,
    ) -> Option<Value> {
        match self.buckets.find_mut(hash.position(), hash.tag(), key) {
            Ok(mut located) => self.books.edit(&mut located, |entry| {
                entry.set_clock(clock);
                with_payload(value, |payload| entry.rewrite(payload, expire))
            }),
            Err(buckets) => {
                let entry = with_payload(value, |payload| EntryBox::new(key, payload, expire, clock));
                self.books.insert(buckets, entry, hash);
                None
            }
        }
    }

    /// Finds an entry, or inserts one with the value made by `value` and no expiry; returns whether it existed. An
    /// entry that has expired at `now_ms` is passed to `expired` and counts as missing. Amortised O(1).
    #[inline]
    pub fn find_or_insert(
        &mut self,
        key: &[u8],
        hash: KeyHash,
        now_ms: i64,
        value: impl FnOnce() -> NewValue<'static>,
        clock: u32,
        expired: &mut dyn FnMut(Removed),
    ) -> (Slot<'_>, bool) {
        let Table { buckets, books } = self;
        let buckets = match buckets.find_mut(hash.position(), hash.tag(), key) {
            Ok(located) if located.entry().is_expired(now_ms) => {
                let (removed, buckets) = books.remove(located, hash.position());
                expired(removed);
                buckets
            }
            Ok(located) => return (Slot::new(located, books, hash.position()), true),
            Err(buckets) => buckets,
        };
        let entry = with_payload(value(), |payload| EntryBox::new(key, payload, None, clock));
        (books.insert(buckets, entry, hash), false)
    }

    /// Inserts an entry. Its key must not be in the table. Amortised O(1) beside copying the value.
    ///
    /// # Panics
    /// In debug builds, if the table has the key.
    pub fn insert(
        &mut self,
        key: &[u8],
        hash: KeyHash,
        value: NewValue<'_>,
        expire: Option<i64>,
        clock: u32,
    ) -> Slot<'_> {
        debug_assert!(self.get(key, hash).is_none());
        let entry = with_payload(value, |payload| EntryBox::new(key, payload, expire, clock));
        self.books.insert(&mut self.buckets, entry, hash)
    }

    /// Inserts an entry that was removed, under the same key, from a table of the same keyspace (of another database,
    /// say). Its key must not be in this table.
    ///
    /// # Panics
    /// In debug builds, if the table has the key.
    pub fn insert_entry(&mut self, removed: Removed, hash: KeyHash) -> Slot<'_> {
        debug_assert!(self.get(removed.key(), hash).is_none());
        self.books.insert(&mut self.buckets, removed.0, hash)
    }

    /// Removes an entry. Amortised O(1).
    pub fn remove(&mut self, key: &[u8], hash: KeyHash) -> Option<Removed> {
        self.find(key, hash).map(Slot::remove)
    }

    /// Takes all entries at once; the caller frees them without holding the lock. O(1).
    pub fn clear(&mut self) -> Cleared {
        let empty = Table::new(self.books.hasher);
        Cleared { table: std::mem::replace(self, empty) }
    }

    /// An entry chosen evenly among all, by `random`. Expected O(1).
    pub fn random_entry(&self, random: u64) -> Option<&Entry> {
        self.random_located(random, self.len(), |_| true)
    }

    /// An entry chosen evenly among those with an expiry, by `random`. Expected O(entries / entries with an expiry).
    pub fn random_volatile_entry(&self, random: u64) -> Option<&Entry> {
        self.random_located(random, self.volatile_len(), |located| located.is_timed() && located.entry().is_volatile())
    }

    /// Draws a bucket and a rank among the entries it could have, until the bucket has an entry of this rank: so every
    /// entry is equally likely, however full its bucket. In a sparse table it walks after a number of draws.
    fn random_located(&self, random: u64, len: usize, wanted: fn(Located<'_>) -> bool) -> Option<&Entry> {
        /// Almost no bucket has more entries than this.
        const RANKS: usize = 16;
        const DRAWS_MAX: usize = 64;

        if len == 0 {
            return None;
        }
        let count = self.buckets.count();
        let mut random = Random::new(random);
        let wanted = |located: &Located<'_>| wanted(*located);
        for _ in 0..DRAWS_MAX {
            let (bucket, rank) = (random.below(count), random.below(RANKS));
            let chosen = self.buckets.chain(bucket).filter(&wanted).nth(rank);
            if let Some(located) = chosen {
                return Some(located.entry());
            }
        }
        let start = random.below(count);
        let mut buckets = (start..count).chain(0..start);
        buckets.find_map(|bucket| self.buckets.chain(bucket).find(&wanted)).map(Located::entry)
    }

    /// Visits the entries at `position` and after it in one bucket, and returns the next bucket's first position;
    /// `None` at the table's end. Repeated from 0 on, this visits every entry that exists all the time at least once,
    /// whatever is inserted, removed or resized in between. O(entries in the bucket).
    pub fn scan(&self, position: u32, visit: &mut dyn FnMut(&Entry)) -> Option<u32> {
        let bucket = self.buckets.index_of(position);
        let is_whole = position == 0 || self.buckets.index_of(position.wrapping_sub(1)) != bucket;
        for entry in self.buckets.chain(bucket).map(Located::entry) {
            if is_whole || self.books.hasher.hash(entry.key()).position() >= position {
                visit(entry);
            }
        }
        self.buckets.position_after(bucket)
    }

    /// Visits all entries. O(entries).
    pub fn for_each(&self, visit: &mut dyn FnMut(&Entry)) {
        for bucket in 0..self.buckets.count() {
            self.buckets.prefetch_entries(bucket + PREFETCH_AHEAD);
            self.buckets.chain(bucket).for_each(|located| visit(located.entry()));
        }
    }

    /// Removes entries that are due at `now_ms`, from position `from` on, and passes them to `remove`. Stops at the end
    /// of a bucket once `budget` entries have been examined; entries without an expiry are not read. A call that goes
    /// through the whole table computes anew when the next entry will be due, so a budget of `volatile_len` or more
    /// avoids useless later calls. Fields that are due are left to [`Table::expire_fields`].
    pub fn expire_due(
        &mut self,
        now_ms: i64,
        from: u32,
        budget: usize,
        remove: &mut dyn FnMut(Removed),
    ) -> ExpireProgress {
        let mut progress = ExpireProgress::default();
        if now_ms < self.books.next_expire_ms {
            return progress;
        }
        let mut next_expire_ms = NEVER_MS;
        let count = self.buckets.count();
        let first = self.buckets.index_of(from);
        for bucket in first..count {
            if progress.examined >= budget.max(1) {
                progress.next = self.buckets.position_after(bucket - 1);
                break;
            }
            self.prefetch_volatile(bucket + PREFETCH_AHEAD);
            let is_due = |located: Located<'_>| located.is_timed() && located.entry().is_expired(now_ms);
            while let Some(entry) = self.buckets.remove_first(bucket, is_due) {
                progress.examined += 1;
                progress.removed += 1;
                self.books.count_removed(&entry);
                remove(Removed(entry));
            }
            for at in self.due_times(bucket) {
                progress.examined += 1;
                next_expire_ms = next_expire_ms.min(at);
            }
        }
        if first == 0 && progress.next.is_none() {
            self.books.next_expire_ms = next_expire_ms;
            if next_expire_ms == NEVER_MS {
                self.books.volatile &= !TIMED_FIELDS;
            }
        }
        if progress.removed > 0 {
            self.books.shrink(&mut self.buckets);
        }
        progress
    }

    /// Removes fields of hashes that are due at `now_ms`, `fields_max` of them or a few more, and calls `expired` with
    /// their key and their names; a hash that becomes empty goes to `emptied`. Returns whether more are due. Call it
    /// after [`Table::expire_due`] has gone through the whole table: then [`Table::next_expire_ms`] tells when a call
    /// is worth it. O(timed entries), and nothing if no field expires.
    pub fn expire_fields(
        &mut self,
        now_ms: i64,
        fields_max: usize,
        expired: ExpiredFields<'_>,
        emptied: &mut dyn FnMut(Removed),
    ) -> bool {
        if self.books.volatile & TIMED_FIELDS == 0 || now_ms < self.books.next_expire_ms {
            return false;
        }
        let (mut next_expire_ms, mut any_timed, mut left) = (NEVER_MS, false, fields_max);
        let is_due = |located: Located<'_>| {
            located.is_timed() && located.entry().next_field_expiry().is_some_and(|at| at <= now_ms)
        };
        for bucket in 0..self.buckets.count() {
            while let Some(mut located) = self.buckets.first_mut(bucket, is_due) {
                if left == 0 {
                    return true;
                }
                let mut names = Vec::new();
                let mut is_empty = false;
                if located.entry().collection::<Hash>().is_some() {
                    let mut hash = CollectionMut::<Hash>::new(located.borrow_mut());
                    hash.expire_due(now_ms, left, &mut |name| names.push(name.to_vec()));
                    is_empty = hash.is_empty();
                }
                left -= names.len().min(left);
                expired(located.entry().key(), &names);
                if is_empty {
                    let is_empty =
                        |located: Located<'_>| located.entry().collection::<Hash>().is_some_and(Hash::is_empty);
                    if let Some(entry) = self.buckets.remove_first(bucket, is_empty) {
                        self.books.count_removed(&entry);
                        emptied(Removed(entry));
                    }
                } else if located.entry().next_field_expiry().is_none() {
                    located.edit(|entry| entry.set_timed_fields(false));
                }
            }
            for at in self.due_times(bucket) {
                next_expire_ms = next_expire_ms.min(at);
            }
            any_timed |= self.timed(bucket).any(|located| located.entry().next_field_expiry().is_some());
        }
        self.books.next_expire_ms = next_expire_ms;
        if !any_timed {
            self.books.volatile &= !TIMED_FIELDS;
        }
        self.books.shrink(&mut self.buckets);
        false
    }

    pub(crate) fn prefetch_volatile(&self, bucket: usize) {
        if bucket < self.buckets.count() {
            self.buckets.chain(bucket).filter(|located| located.is_timed()).for_each(Located::prefetch);
        }
    }

    /// The times when the timed entries of a bucket, or the first of their fields, expire.
    fn due_times(&self, bucket: usize) -> impl Iterator<Item = i64> {
        self.timed(bucket).filter_map(|located| located.entry().next_due())
    }

    /// The entries of a bucket that expire or have fields that expire.
    fn timed(&self, bucket: usize) -> impl Iterator<Item = Located<'_>> {
        self.buckets.chain(bucket).filter(|located| located.is_timed())
    }

    /// The side of the last cut that saved entries are on.
    #[inline]
    pub(crate) fn side(&self) -> bool {
        self.books.side()
    }

    pub(crate) fn books_mut(&mut self) -> &mut Books {
        &mut self.books
    }

    /// Looks whether there still are hashes with fields that expire; otherwise snapshots are told so from now on. Returns the
    /// bucket of one, where the next call looks first (`last`). O(1) if there were none before or one is in that bucket,
    /// else O(timed entries).
    pub fn look_for_timed_fields(&mut self, last: Option<usize>) -> Option<usize> {
        if !self.has_timed_fields() {
            return None;
        }
        let is_timed =
            |bucket: &usize| self.timed(*bucket).any(|located| located.entry().next_field_expiry().is_some());
        let count = self.buckets.count();
        let found = last.filter(|bucket| *bucket < count && is_timed(bucket)).or_else(|| {
            (0..count).find(|bucket| {
                self.prefetch_volatile(bucket + PREFETCH_AHEAD);
                is_timed(bucket)
            })
        });
        if found.is_none() {
            self.books.volatile &= !TIMED_FIELDS;
        }
        found
    }

    /// Whether there may be hashes with fields that expire.
    pub(crate) fn has_timed_fields(&self) -> bool {
        self.books.volatile & TIMED_FIELDS != 0
    }

    /// Where a key is in the order of hashes.
    pub(crate) fn position_of(&self, key: &[u8]) -> u32 {
        self.books.hasher.hash(key).position()
    }

    /// Notes an entry that was removed from its bucket.
    pub(crate) fn count_removed(&mut self, entry: &EntryBox) {
        self.books.count_removed(entry);
    }

    /// Frees buckets that are no longer needed.
    pub(crate) fn shrink(&mut self) {
        self.books.shrink(&mut self.buckets);
    }

    /// Makes the size class at least `class`; returns whether it was smaller. O(entries) if so.
    pub(crate) fn grow_to(&mut self, class: u8) -> bool {
        let is_smaller = self.buckets.class() < class;
        if is_smaller {
            self.books.resize(&mut self.buckets, class);
        }
        is_smaller
    }
}

impl Books {
    #[inline]
    fn side(&self) -> bool {
        self.volatile & SIDE != 0
    }

    /// See [`Table::cut`].
    pub(crate) fn turn_side(&mut self) {
        self.volatile ^= SIDE;
    }

    /// Adds an entry. Its key must not be in the table. A snapshot that is under way does not include it.
    fn insert<'t>(&'t mut self, buckets: &'t mut BucketArray, mut entry: EntryBox, hash: KeyHash) -> Slot<'t> {
        entry.set_snapshot_bit(self.side());
        let times = Times::of(&entry);
        self.grow_for(buckets, self.len as usize + 1);
        let located = buckets.push(hash.position(), hash.tag(), entry);
        self.len += 1;
        self.note_times(false, times);
        Slot::new(located, self, hash.position())
    }

    /// Edits an entry, which may move, and notes changes of its expiry.
    #[inline]
    pub(crate) fn edit<R>(&mut self, located: &mut LocatedMut<'_>, edit: impl FnOnce(&mut EntryBox) -> R) -> R {
        let (result, was_volatile, times) = located.edit(|entry| {
            let was_volatile = entry.is_volatile();
            let result = edit(entry);
            (result, was_volatile, Times::of(entry))
        });
        self.note_times(was_volatile, times);
        result
    }

    /// Removes an entry and returns it with the buckets.
    pub(crate) fn remove<'t>(&mut self, located: LocatedMut<'t>, position: u32) -> (Removed, &'t mut BucketArray) {
        let (entry, buckets) = located.remove(position);
        self.count_removed(&entry);
        self.shrink(buckets);
        (Removed(entry), buckets)
    }

    /// Notes when a new or changed entry expires; `was_volatile`: it had an expiry before.
    #[inline]
    fn note_times(&mut self, was_volatile: bool, times: Option<Times>) {
        let Some(Times { entry, fields }) = times else {
            if was_volatile {
                self.forget_volatile();
            }
            return;
        };
        if let Some(at) = entry {
            self.next_expire_ms = self.next_expire_ms.min(at);
            self.volatile += u32::from(!was_volatile);
        } else if was_volatile {
            self.forget_volatile();
        }
        if let Some(at) = fields {
            self.next_expire_ms = self.next_expire_ms.min(at);
            self.volatile |= TIMED_FIELDS;
        }
    }

    fn forget_volatile(&mut self) {
        self.volatile -= 1;
        if self.volatile & !SIDE == 0 {
            self.next_expire_ms = NEVER_MS;
        }
    }

    fn count_removed(&mut self, entry: &EntryBox) {
        self.len -= 1;
        self.note_times(entry.is_volatile(), None);
    }

    /// Makes room for `len` entries: at most 6.5 per bucket.
    #[inline]
    fn grow_for(&self, buckets: &mut BucketArray, len: usize) {
        let class = buckets.class();
        if class == 0 || 2 * len > 13 * bucket_count(class) {
            self.resize(buckets, larger_class(class));
        }
    }

    /// Frees buckets if there are fewer than 2 entries for each.
    #[inline]
    fn shrink(&self, buckets: &mut BucketArray) {
        let len = self.len as usize;
        let class = buckets.class();
        if len >= 2 * bucket_count(class) || class == 1 && len > 0 {
            return;
        }
        let mut class = 0;
        while len > 0 && (class == 0 || bucket_count(class) * SHRUNK_LOAD < len) {
            class = larger_class(class);
        }
        self.resize(buckets, class);
    }

    #[cold]
    #[inline(never)]
    fn resize(&self, buckets: &mut BucketArray, class: u8) {
        let mut resized = BucketArray::new(class);
        let old = std::mem::replace(buckets, BucketArray::empty());
        old.move_to(&mut resized, |entry| self.hasher.hash(entry.key()).position());
        *buckets = resized;
    }
}

/// When a timed entry expires, and when the first of its fields does.
struct Times {
    entry: Option<i64>,
    fields: Option<i64>,
}

impl Times {
    #[inline]
    fn of(entry: &Entry) -> Option<Self> {
        entry.is_timed().then(|| Times { entry: entry.expire_at(), fields: entry.next_field_expiry() })
    }
}

/// The next size class with more buckets.
fn larger_class(class: u8) -> u8 {
    let mut larger = class + 1;
    while class > 0 && bucket_count(larger) == bucket_count(class) {
        larger += 1;
    }
    larger
}

impl Drop for Table {
    fn drop(&mut self) {
        std::mem::replace(&mut self.buckets, BucketArray::empty()).drain(drop);
    }
}

#[cfg(test)]
mod tests;

//! A shard's hash table: plain single-threaded code behind the shard's lock.
//!
//! Buckets divide the range of positions evenly, and a bucket's index grows with the position whatever their
//! number. So a scan's cursor is a position: it means the same after any number of resizes. A table holds few
//! entries (a database has thousands of shards), so that it grows and shrinks in one go.

use crate::bucket::{BucketArray, Located, LocatedMut, PREFETCH_AHEAD, bucket_count};
use crate::entry_box::EntryBox;
use crate::key_hash::{Hasher, KeyHash};
use crate::random::Random;
use crate::value::with_payload;
use crate::{Cleared, CollectionMut, Entry, Hash, NewValue, Removed, Slot, Value};

/// The bound of a table in which nothing expires.
pub(crate) const NEVER_MS: i64 = i64::MAX;

/// Entries that a table made smaller has per bucket.
const SHRUNK_LOAD: usize = 5;

/// The entries of one shard.
pub struct Table {
    pub(crate) buckets: BucketArray,
    books: Books,
}

/// What a table knows of its entries, kept apart from them so that one can be located while this changes.
pub(crate) struct Books {
    hasher: Hasher,
    next_expire_ms: i64,
    len: u32,
    /// How many entries have an expiry, [`TIMED_FIELDS`] and [`SIDE`].
    volatile: u32,
}

/// Set in [`Books::volatile`] while there may be hashes of which fields expire. A pass that finds none takes it back.
const TIMED_FIELDS: u32 = 1 << 31;

/// Set in [`Books::volatile`] on one of the two sides of the snapshots' cuts (see [`crate::Keyspace::cut`]).
const SIDE: u32 = 1 << 30;

/// The other bits of [`Books::volatile`].
const VOLATILE_LEN: u32 = SIDE - 1;

/// Is told a key and the names of fields of its hash that have expired.
pub type ExpiredFields<'a> = &'a mut dyn FnMut(&[u8], &[Vec<u8>]);

/// What one call of [`Table::expire_due`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpireProgress {
    /// Entries with an expiry that were looked at.
    pub examined: usize,
    /// Entries among them that were due and have been removed.
    pub removed: usize,
    /// Where to go on; `None` when the table has been gone through to its end.
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

    /// Neither an entry nor a field of one expires before this time, in milliseconds since the Unix epoch; `i64::MAX` if
    /// none ever does.
    #[inline]
    pub fn next_expire_ms(&self) -> i64 {
        self.books.next_expire_ms
    }

    /// Bytes allocated for the buckets; the entries are not counted. O(buckets).
    pub fn buckets_bytes(&self) -> usize {
        self.buckets.size_bytes()
    }

    /// Asks the processor for the entries that a lookup of `hash` may read. O(1); reads one bucket. If they can only be
    /// in overflow it asks for that and returns true: then it is worth a [`Table::prefetch_overflow_entry`] later.
    #[inline]
    pub fn prefetch_entry(&self, hash: KeyHash) -> bool {
        self.buckets.prefetch_entry(hash.position(), hash.tag())
    }

    /// Asks the processor for the entries in overflow that a lookup of `hash` may read. O(1); reads two buckets.
    pub fn prefetch_overflow_entry(&self, hash: KeyHash) {
        self.buckets.prefetch_overflow_entry(hash.position(), hash.tag());
    }

    /// Asks the processor for what looking up members with these hashes reads of the collection under the key with `hash`.
    /// Keys are not compared: rarely it asks for more than that.
    #[inline]
    pub fn prefetch_members(&self, hash: KeyHash, members: &[u64]) {
        self.buckets.candidates(hash.position(), hash.tag(), |entry| entry.prefetch_members(members));
    }

    /// Finds an entry to read. Expiry is for the caller to judge. O(1).
    #[inline]
    pub fn get(&self, key: &[u8], hash: KeyHash) -> Option<&Entry> {
        self.buckets.find(hash.position(), hash.tag(), key).map(Located::entry)
    }

    /// Finds an entry to read and to change. Expiry is for the caller to judge. O(1).
    #[inline(always)]
    pub fn find(&mut self, key: &[u8], hash: KeyHash) -> Option<Slot<'_>> {
        let located = self.buckets.find_mut(hash.position(), hash.tag(), key).ok()?;
        Some(Slot::new(located, &mut self.books, hash.position()))
    }

    /// Inserts an entry, or overwrites all of the one that has its key: value, expiry (milliseconds since the Unix
    /// epoch) and clock. Returns a displaced value only if it was kept outside of its entry, for the caller to free
    /// off the lock. Amortised O(1) beside copying the value.
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

    /// Finds an entry, or inserts one with the value made by `value` and no expiry; says whether it was there. An entry
    /// that is past its time at `now_ms` is handed to `expired` and counts as not there. Amortised O(1).
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

    /// Inserts an entry whose key is not in the table: the caller has just looked. Amortised O(1) beside copying
    /// the value.
    ///
    /// # Panics
    /// In debug builds, when the key is there.
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

    /// Puts back an entry that was removed, under the same key, from a table of the same keyspace (another
    /// database's, say). The caller has just seen that its key is not here.
    ///
    /// # Panics
    /// In debug builds, when the key is there.
    pub fn insert_entry(&mut self, removed: Removed, hash: KeyHash) -> Slot<'_> {
        debug_assert!(self.get(removed.key(), hash).is_none());
        self.books.insert(&mut self.buckets, removed.0, hash)
    }

    /// Removes an entry. Amortised O(1).
    pub fn remove(&mut self, key: &[u8], hash: KeyHash) -> Option<Removed> {
        self.find(key, hash).map(Slot::remove)
    }

    /// Takes all entries at once, for the caller to free off the lock. O(1).
    pub fn clear(&mut self) -> Cleared {
        let empty = Table::new(self.books.hasher);
        Cleared { table: std::mem::replace(self, empty) }
    }

    /// An entry chosen evenly among all, by `random`. Expected O(1).
    pub fn random_entry(&self, random: u64) -> Option<&Entry> {
        self.random_located(random, self.len(), |_| true)
    }

    /// An entry chosen evenly among those with an expiry, by `random`. Expected O(entries / those).
    pub fn random_volatile_entry(&self, random: u64) -> Option<&Entry> {
        self.random_located(random, self.volatile_len(), |located| located.is_timed() && located.entry().is_volatile())
    }

    /// Draws a bucket and a rank among the entries it could have, until there is one: so every entry is as likely as
    /// any other, however full its bucket. Sparse tables are walked after a while.
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
    /// `None` at the table's end. Going on like this from 0 visits every entry that is there all the time at least
    /// once, whatever is inserted, removed or resized in between. O(entries in the bucket).
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

    /// Removes entries that are due at `now_ms`, from position `from` on, and hands them to `remove`. Stops at the
    /// end of a bucket once `budget` entries have been looked at; entries without an expiry are not read. A call
    /// that goes through all of the table finds anew when the next entry will be due, so that a budget of
    /// `volatile_len` or more keeps later calls from coming in vain. Fields that are due are left to [`Table::expire_fields`].
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

    /// Removes fields of hashes that are due at `now_ms`, `fields_max` of them or a few more, and tells `expired` their key
    /// and their names; a hash that becomes empty goes to `emptied`. Says whether more are due. To be called after
    /// [`Table::expire_due`] has gone through all of the table, which tells by [`Table::next_expire_ms`] when a call is
    /// worth it. O(timed entries), and nothing where no field expires.
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

    /// When the timed entries of a bucket, or the first of their fields, expire.
    fn due_times(&self, bucket: usize) -> impl Iterator<Item = i64> {
        self.timed(bucket).filter_map(|located| located.entry().next_due())
    }

    /// The entries of a bucket that expire, or of which fields do.
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

    /// Whether there may be hashes of which fields expire.
    pub(crate) fn has_timed_fields(&self) -> bool {
        self.books.volatile & TIMED_FIELDS != 0
    }

    /// Where a key is in the order of hashes.
    pub(crate) fn position_of(&self, key: &[u8]) -> u32 {
        self.books.hasher.hash(key).position()
    }

    /// Takes note of an entry that was taken out of its bucket.
    pub(crate) fn count_removed(&mut self, entry: &EntryBox) {
        self.books.count_removed(entry);
    }

    /// Gives back buckets that are not needed any more.
    pub(crate) fn shrink(&mut self) {
        self.books.shrink(&mut self.buckets);
    }

    /// Makes the size class at least `class`; says whether it was smaller. O(entries) if so.
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

    /// Adds an entry whose key is not in the table. A snapshot that is under way does not get it.
    fn insert<'t>(&'t mut self, buckets: &'t mut BucketArray, mut entry: EntryBox, hash: KeyHash) -> Slot<'t> {
        entry.set_snapshot_bit(self.side());
        let times = Times::of(&entry);
        self.grow_for(buckets, self.len as usize + 1);
        let located = buckets.push(hash.position(), hash.tag(), entry);
        self.len += 1;
        self.note_times(false, times);
        Slot::new(located, self, hash.position())
    }

    /// Edits an entry that may move, and notes what becomes of its expiry.
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

    /// Takes an entry out, and gives the buckets back.
    pub(crate) fn remove<'t>(&mut self, located: LocatedMut<'t>, position: u32) -> (Removed, &'t mut BucketArray) {
        let (entry, buckets) = located.remove(position);
        self.count_removed(&entry);
        self.shrink(buckets);
        (Removed(entry), buckets)
    }

    /// Takes note of when an entry that came or changed expires; `was_volatile`: it had an expiry before.
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

    /// Gives back buckets when there are fewer than 2 entries for each.
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
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;
    use crate::ValueRef;

    fn table() -> Table {
        Table::new(Hasher::seeded(7))
    }

    fn key(n: usize) -> Vec<u8> {
        format!("key:{n:06}").into_bytes()
    }

    fn put(table: &mut Table, n: usize, expire: Option<i64>) {
        let key = key(n);
        let hash = table.books.hasher.hash(&key);
        table.set(&key, hash, NewValue::Int(n as i64), expire, 0);
    }

    fn take(table: &mut Table, n: usize) -> Option<Removed> {
        let key = key(n);
        let hash = table.books.hasher.hash(&key);
        table.remove(&key, hash)
    }

    fn has(table: &Table, n: usize) -> bool {
        let key = key(n);
        table.get(&key, table.books.hasher.hash(&key)).is_some()
    }

    const MANY: usize = if cfg!(miri) { 60 } else { 5000 };

    #[test]
    fn a_larger_class_has_more_buckets_and_none_is_passed_over() {
        assert_eq!(larger_class(0), 1);
        let classes = std::iter::successors(Some(1), |class| Some(larger_class(*class)));
        let counts: Vec<_> = classes.map(bucket_count).take(9).collect();
        assert_eq!(counts, [1, 2, 3, 4, 5, 6, 7, 8, 10]);
    }

    #[test]
    fn a_table_grows_and_shrinks_with_its_entries() {
        let mut table = table();
        assert_eq!(table.buckets.class(), 0);
        for n in 0..MANY {
            put(&mut table, n, None);
            assert!(2 * table.len() <= 13 * table.buckets.count());
        }
        assert!(table.buckets.count() * 9 / 2 <= MANY);
        for n in 0..MANY {
            assert!(has(&table, n));
            assert!(take(&mut table, n).is_some());
            assert!(table.len() >= 2 * table.buckets.count() || table.buckets.count() < 2);
        }
        assert_eq!(table.buckets.class(), 0);
    }

    #[test]
    fn only_a_value_kept_outside_is_handed_back_when_it_is_overwritten() {
        let mut table = table();
        let hash = table.books.hasher.hash(b"k");
        let long = vec![b'l'; 600];
        assert_eq!(table.set(b"k", hash, NewValue::Bytes(&long), None, 0), None);
        let displaced = table.set(b"k", hash, NewValue::Bytes(b"short"), Some(5), 1);
        assert_eq!(displaced.unwrap().as_ref().as_bytes(), Some(&long[..]));
        assert_eq!(table.set(b"k", hash, NewValue::Int(1), None, 2), None);
        assert_eq!((table.len(), table.volatile_len()), (1, 0));
        let entry = table.get(b"k", hash).unwrap();
        assert_eq!((entry.value(), entry.clock()), (ValueRef::Int(1), 2));
    }

    #[test]
    fn an_entry_moves_between_tables_whole() {
        let (mut from, mut to) = (table(), table());
        put(&mut from, 1, Some(77));
        let removed = take(&mut from, 1).unwrap();
        let hash = to.books.hasher.hash(removed.key());
        let slot = to.insert_entry(removed, hash);
        assert_eq!((slot.value(), slot.expire_at()), (ValueRef::Int(1), Some(77)));
        assert_eq!((from.volatile_len(), to.volatile_len()), (0, 1));
        assert_eq!(to.next_expire_ms(), 77);
    }

    #[test]
    fn expiry_removes_what_is_due_and_knows_when_to_come_back() {
        let mut table = table();
        for n in 0..MANY {
            put(&mut table, n, (n % 3 == 0).then_some(100 + n as i64));
        }
        assert_eq!(table.next_expire_ms(), 100);
        let none = table.expire_due(99, 0, usize::MAX, &mut |_| panic!("nothing is due"));
        assert_eq!(none, ExpireProgress::default());

        let half = 100 + MANY as i64 / 2;
        let mut removed = HashSet::new();
        let progress = table.expire_due(half, 0, usize::MAX, &mut |entry| {
            assert!(entry.is_expired(half));
            assert!(removed.insert(entry.key().to_vec()));
        });
        let due = (0..=MANY / 2).filter(|n| n % 3 == 0).count();
        let all = (0..MANY).filter(|n| n % 3 == 0).count();
        assert_eq!((progress.removed, progress.examined), (due, all));
        assert_eq!(removed.len(), due);
        assert_eq!(table.volatile_len(), all - due);
        assert!(table.next_expire_ms() > half);
        assert!(has(&table, 1) && !has(&table, 0));

        table.expire_due(i64::MAX - 1, 0, usize::MAX, &mut drop);
        assert_eq!((table.volatile_len(), table.next_expire_ms()), (0, NEVER_MS));
        assert_eq!(table.len(), MANY - all);
    }

    #[test]
    fn expiry_within_a_budget_goes_on_where_it_stopped() {
        let mut table = table();
        for n in 0..MANY {
            put(&mut table, n, Some(1));
        }
        let first = table.expire_due(1, 0, 10, &mut drop);
        assert!((10..50).contains(&first.examined));
        let (mut from, mut removed) = (first.next, first.removed);
        while let Some(position) = from {
            let progress = table.expire_due(1, position, 10, &mut drop);
            removed += progress.removed;
            assert!(progress.next.is_none_or(|next| next > position));
            from = progress.next;
        }
        assert_eq!(removed, MANY);
        assert!(table.is_empty());
    }

    fn timed_hash(times: &[Option<i64>]) -> Hash {
        let limits = crate::PairLimits { listpack_entries_max: 8, listpack_value_len_max: 64 };
        let mut hash = Hash::default();
        for (n, at) in times.iter().enumerate() {
            hash.set_with_expiry(format!("f{n}").as_bytes(), b"v", *at, &limits);
        }
        hash
    }

    fn put_hash(table: &mut Table, n: usize, times: &[Option<i64>]) {
        let key = key(n);
        let hash = table.books.hasher.hash(&key);
        table.set(&key, hash, timed_hash(times).into(), None, 0);
    }

    /// Runs both passes; returns the names of expired fields and how many hashes went with them.
    fn expire_all(table: &mut Table, now_ms: i64) -> (Vec<String>, usize) {
        let (mut names, mut gone) = (Vec::new(), 0);
        table.expire_due(now_ms, 0, usize::MAX, &mut |_| panic!("no entry is due"));
        let more = table.expire_fields(
            now_ms,
            usize::MAX,
            &mut |key, fields| {
                names.extend(fields.iter().map(|field| format!("{}.{}", key.escape_ascii(), field.escape_ascii())));
            },
            &mut |_| gone += 1,
        );
        assert!(!more);
        names.sort();
        (names, gone)
    }

    #[test]
    fn fields_expire_wherever_their_hash_went() {
        let (mut from, mut to) = (table(), table());
        put_hash(&mut from, 1, &[Some(10), Some(20), None]);
        put_hash(&mut from, 2, &[Some(15)]);
        put(&mut from, 3, None);
        assert_eq!((from.volatile_len(), from.next_expire_ms()), (0, 10));
        assert!(from.random_volatile_entry(1).is_none());
        let (names, gone) = expire_all(&mut from, 10);
        assert_eq!((names, gone, from.next_expire_ms()), (vec!["key:000001.f0".to_owned()], 0, 15));
        for n in [1, 2] {
            let removed = take(&mut from, n).unwrap();
            let hash = to.books.hasher.hash(removed.key());
            to.insert_entry(removed, hash);
        }
        assert_eq!(to.next_expire_ms(), 15);
        let (names, gone) = expire_all(&mut to, 20);
        assert_eq!((names, gone), (vec!["key:000001.f1".to_owned(), "key:000002.f0".to_owned()], 1));
        assert_eq!((to.len(), to.next_expire_ms()), (1, NEVER_MS));
    }

    #[test]
    fn a_pass_in_vain_forgets_hashes_that_are_gone() {
        let mut table = table();
        for n in 0..MANY {
            put_hash(&mut table, n, &[Some(10)]);
        }
        for n in 0..MANY {
            match n % 3 {
                0 => drop(take(&mut table, n)),
                1 => put(&mut table, n, None),
                _ => put_hash(&mut table, n, &[None]),
            }
        }
        assert_eq!(table.next_expire_ms(), 10);
        assert_eq!(expire_all(&mut table, 10), (vec![], 0));
        assert_eq!((table.books.volatile, table.next_expire_ms()), (0, NEVER_MS));
    }

    #[test]
    fn a_field_that_is_timed_later_is_noted_by_its_slot() {
        let mut table = table();
        put_hash(&mut table, 1, &[None, None]);
        assert_eq!(table.next_expire_ms(), NEVER_MS);
        let (key, hash) = (key(1), table.books.hasher.hash(&key(1)));
        let mut slot = table.find(&key, hash).unwrap();
        slot.collection_mut::<Hash>().unwrap().set_expiry(b"f1", Some(7));
        slot.time_fields();
        slot.set_expire(Some(50));
        assert_eq!((table.volatile_len(), table.next_expire_ms()), (1, 7));
        table.find(&key, hash).unwrap().set_expire(None);
        assert_eq!((table.volatile_len(), table.next_expire_ms()), (0, 7));
        assert_eq!(expire_all(&mut table, 9).0, ["key:000001.f1"]);
    }

    #[test]
    fn many_fields_expire_a_few_at_a_time() {
        let mut table = table();
        put_hash(&mut table, 1, &[Some(1); 30]);
        put_hash(&mut table, 2, &[Some(1); 30]);
        let (mut expired, mut calls, mut gone) = (0, 0, 0);
        table.expire_due(1, 0, usize::MAX, &mut drop);
        while table.expire_fields(1, 7, &mut |_, names| expired += names.len(), &mut |_| gone += 1) {
            calls += 1;
            assert!(expired <= 7 * calls && table.next_expire_ms() <= 1);
        }
        assert_eq!((expired, gone, table.len()), (60, 2, 0));
    }

    #[test]
    fn random_entries_are_chosen_evenly() {
        const ENTRIES: usize = if cfg!(miri) { 10 } else { 50 };
        const DRAWS: usize = if cfg!(miri) { 50 } else { 50_000 };
        let mut table = table();
        assert!(table.random_entry(1).is_none());
        for n in 0..ENTRIES {
            put(&mut table, n, (n % 5 == 0).then_some(9));
        }
        let mut drawn: HashMap<_, usize> = HashMap::new();
        for n in 0..DRAWS {
            let entry = table.random_entry(n as u64).unwrap();
            *drawn.entry(entry.key().to_vec()).or_default() += 1;
            let volatile = table.random_volatile_entry(n as u64).unwrap();
            assert!(volatile.expire_at().is_some());
        }
        if !cfg!(miri) {
            let even = DRAWS / ENTRIES;
            assert_eq!(drawn.len(), ENTRIES);
            assert!(drawn.values().all(|n| (even / 2..even * 3 / 2).contains(n)), "{drawn:?}");
        }
    }

    #[test]
    fn a_random_entry_is_found_in_a_sparse_table() {
        let mut table = table();
        for n in 0..MANY {
            put(&mut table, n, None);
        }
        put(&mut table, 3, Some(1));
        for random in 0..20 {
            assert_eq!(table.random_volatile_entry(random).unwrap().key(), key(3));
        }
    }

    /// Keys come, go and expire between the steps of a scan, so that the table resizes many times.
    #[test]
    fn a_scan_returns_every_key_that_stays_through_resizes() {
        let rounds = if cfg!(miri) { 2 } else { 200 };
        for round in 0..rounds {
            let mut random = Random::new(round);
            let mut table = table();
            let stays = if cfg!(miri) { 10 } else { random.below(300) };
            for n in 0..stays {
                put(&mut table, n, (n % 2 == 0).then_some(1_000_000));
            }
            let mut seen = HashSet::new();
            let mut position = Some(0);
            let mut extra = stays..stays;
            while let Some(at) = position {
                for _ in 0..random.below(if cfg!(miri) { 20 } else { 200 }) {
                    match random.below(3) {
                        0 if !extra.is_empty() => drop(take(&mut table, extra.next().unwrap())),
                        1 => {
                            put(&mut table, extra.end, Some(random.below(100) as i64));
                            extra.end += 1;
                        }
                        _ => {
                            put(&mut table, extra.end, None);
                            extra.end += 1;
                        }
                    }
                }
                if random.below(8) == 0 {
                    extra.by_ref().for_each(|n| drop(take(&mut table, n)));
                }
                table.expire_due(random.below(100) as i64, 0, 1000, &mut drop);
                let next = table.scan(at, &mut |entry| {
                    seen.insert(entry.key().to_vec());
                });
                assert!(next.is_none_or(|next| next > at));
                position = next;
            }
            assert!((0..stays).all(|n| seen.contains(&key(n))), "round {round}");
        }
    }

    #[test]
    fn a_scan_of_a_resting_table_returns_every_key_once() {
        let mut table = table();
        for n in 0..MANY {
            put(&mut table, n, None);
        }
        let (mut position, mut seen) = (Some(0), 0);
        while let Some(at) = position {
            position = table.scan(at, &mut |_| seen += 1);
        }
        assert_eq!(seen, MANY);
        let mut walked = 0;
        table.for_each(&mut |_| walked += 1);
        assert_eq!(walked, MANY);
        assert_eq!(table.clear().len(), MANY);
        assert!(table.is_empty());
    }
}

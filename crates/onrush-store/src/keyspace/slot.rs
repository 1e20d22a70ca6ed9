//! A slot: an entry located in its table, for reading and changing it without another lookup.

use std::ops::Deref;

use crate::entries::value::with_payload;
use crate::keyspace::bucket::LocatedMut;
use crate::keyspace::table::Books;
use crate::{CollectionType, Entry, Frozen, NewValue, Removed, Type, Value};

/// An entry located in its table. Reads as an [`Entry`].
pub struct Slot<'t> {
    located: LocatedMut<'t>,
    books: &'t mut Books,
    position: u32,
}

impl<'t> Slot<'t> {
    #[inline]
    pub(crate) fn new(located: LocatedMut<'t>, books: &'t mut Books, position: u32) -> Self {
        Slot { located, books, position }
    }

    /// The entry, for as long as the table stays borrowed.
    #[inline]
    pub fn into_entry(self) -> &'t Entry {
        self.located.into_entry_mut()
    }

    /// The collection, for changing it, if the value is of type `T`. O(1).
    #[inline]
    pub fn collection_mut<T: CollectionType>(&mut self) -> Option<T::Mut<'_>> {
        (self.ty() == T::TYPE).then(|| T::open(self.located.borrow_mut()))
    }

    /// As [`Slot::collection_mut`], for as long as the table stays borrowed.
    #[inline]
    pub fn into_collection_mut<T: CollectionType>(self) -> Option<T::Mut<'t>> {
        (self.ty() == T::TYPE).then(|| T::open(self.located.into_mut()))
    }

    /// As [`Entry::freeze`]. The entry stays where it is.
    pub fn freeze(&mut self) -> Option<Frozen> {
        self.located.entry_mut().freeze()
    }

    /// As [`Entry::thaw`]. The entry stays where it is.
    pub fn thaw(&mut self) {
        self.located.entry_mut().thaw();
    }

    /// Sets the access clock (24 bits). O(1), in place.
    #[inline]
    pub fn set_clock(&mut self, clock: u32) {
        self.located.entry_mut().set_clock(clock);
    }

    /// Sets the snapshot bit. O(1), in place.
    pub fn set_snapshot_bit(&mut self, on: bool) {
        let entry = self.located.entry_mut();
        entry.set_snapshot_bit(on);
    }

    /// Replaces the value by an integer; the expiry stays. In place when it was an integer before. Returns a
    /// displaced value that was kept outside of the entry.
    #[inline]
    pub fn set_int(&mut self, n: i64) -> Option<Value> {
        if let Some(int) = self.int_mut() {
            *int = n;
            return None;
        }
        self.set_value(NewValue::Int(n))
    }

    /// The integer, if the value is represented by one, for overwriting it. O(1).
    #[inline]
    pub fn int_mut(&mut self) -> Option<&mut i64> {
        self.located.entry_mut().int_mut()
    }

    /// Replaces the value; the expiry stays. Returns a displaced value that was kept outside of the entry, for the
    /// caller to free off the lock. O(length) of what is copied.
    pub fn set_value(&mut self, value: NewValue<'_>) -> Option<Value> {
        let expire = self.expire_at();
        self.set_value_and_expire(value, expire)
    }

    /// Replaces value and expiry (milliseconds since the Unix epoch). Returns a displaced value as
    /// [`Slot::set_value`] does.
    pub fn set_value_and_expire(&mut self, value: NewValue<'_>, expire: Option<i64>) -> Option<Value> {
        self.books.edit(&mut self.located, |entry| with_payload(value, |payload| entry.rewrite(payload, expire)))
    }

    /// Sets the expiry (milliseconds since the Unix epoch), or takes it away. O(1), with a copy of the entry when it
    /// did not have one or loses it.
    pub fn set_expire(&mut self, expire: Option<i64>) {
        self.books.edit(&mut self.located, |entry| entry.set_expire(expire));
    }

    /// Makes [`crate::Table::expire_fields`] look at the fields of a hash: call this after a field got an expiry. O(1),
    /// of a small hash O(fields). Affects only hashes.
    pub fn time_fields(&mut self) {
        if self.ty() == Type::Hash {
            self.books.edit(&mut self.located, |entry| entry.set_timed_fields(true));
        }
    }

    /// Appends to a string, which is reported as `raw` from then on, and returns its new length in bytes. An integer
    /// is spelled out first. Amortised O(length of `tail`); a buffer that a reply still holds is copied first.
    pub fn append(&mut self, tail: &[u8]) -> usize {
        self.books.edit(&mut self.located, |entry| entry.append(tail))
    }

    /// Makes a string `len` bytes long, cutting it or filling it up with zero bytes. It is reported as `raw` from
    /// then on.
    pub fn resize(&mut self, len: usize) {
        self.books.edit(&mut self.located, |entry| entry.resize(len));
    }

    /// Lets `edit` change a string's bytes without changing their number. The string is reported as `raw` from then
    /// on; an integer is spelled out first, and a buffer that a reply still holds is copied first.
    pub fn edit_bytes<R>(&mut self, edit: impl FnOnce(&mut [u8]) -> R) -> R {
        self.books.edit(&mut self.located, |entry| edit(entry.bytes_mut()))
    }

    /// Takes the entry out of its table. Amortised O(1).
    pub fn remove(self) -> Removed {
        self.books.remove(self.located, self.position).0
    }
}

impl Deref for Slot<'_> {
    type Target = Entry;

    #[inline]
    fn deref(&self) -> &Entry {
        self.located.entry()
    }
}

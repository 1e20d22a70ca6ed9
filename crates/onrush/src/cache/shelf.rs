//! A part of the cache: replies by their commands, and the state of each key.
//!
//! Everything here takes constant time, except forgetting a key, which is linear in its replies.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use slab::Slab;

use crate::cache::flight::Flight;
use crate::values::value::Value;

/// No entry.
const NONE: usize = usize::MAX;

/// What an entry takes beside its bytes: itself, its place in two tables, and its key's.
const ENTRY_BYTES: usize = size_of::<Entry>() + 2 * size_of::<(Arc<[u8]>, usize)>() + size_of::<Key>();

#[derive(Debug)]
pub(crate) struct Shelf {
    entries: Slab<Entry>,
    by_command: HashMap<Arc<[u8]>, usize, RandomState>,
    keys: HashMap<Arc<[u8]>, Key, RandomState>,
    bytes: usize,
    newest: usize,
    oldest: usize,
}

/// A kept reply. It is in two lists: that of all entries, in order of last use, and that of its key's entries.
#[derive(Debug)]
struct Entry {
    command: Arc<[u8]>,
    key: Arc<[u8]>,
    value: Arc<Value>,
    bytes: usize,
    /// When its read was queued: it is at most as old.
    since: Instant,
    until: Instant,
    newer: usize,
    older: usize,
    next_of_key: usize,
    before_of_key: usize,
}

/// The state of a key. There is one for each key that has entries or is being read.
#[derive(Debug)]
struct Key {
    first: usize,
    /// Set while reads are under way whose replies may be kept.
    good: Option<Arc<AtomicBool>>,
    reads: u32,
    /// Reads that others may wait for, each by its command; one usually.
    flights: Vec<(Arc<[u8]>, Weak<Flight>)>,
}

impl Key {
    fn is_idle(&self) -> bool {
        self.first == NONE && self.good.is_none() && self.flights.is_empty()
    }
}

impl Default for Shelf {
    fn default() -> Shelf {
        Shelf {
            entries: Slab::new(),
            by_command: HashMap::default(),
            keys: HashMap::default(),
            bytes: 0,
            newest: NONE,
            oldest: NONE,
        }
    }
}

impl Shelf {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn keys_len(&self) -> usize {
        self.keys.len()
    }

    /// A kept reply that is still good at this time, and younger than that.
    pub(crate) fn find(&mut self, command: &[u8], now: Instant, age_max: Duration) -> Option<Arc<Value>> {
        let at = *self.by_command.get(command)?;
        let entry = &self.entries[at];
        if entry.until <= now || now.saturating_duration_since(entry.since) >= age_max {
            return None;
        }
        if self.newest != at {
            self.unlink_age(at);
            self.link_age(at);
        }
        Some(self.entries[at].value.clone())
    }

    /// Keeps a reply in place of what was kept for the command.
    pub(crate) fn insert(
        &mut self,
        key: &Arc<[u8]>,
        command: &Arc<[u8]>,
        value: &Value,
        bytes: usize,
        time: Range<Instant>,
    ) {
        if let Some(&at) = self.by_command.get(command) {
            self.remove(at);
        }
        let first = self.key(key).first;
        let at = self.entries.insert(Entry {
            command: command.clone(),
            key: key.clone(),
            value: Arc::new(value.clone()),
            bytes,
            since: time.start,
            until: time.end,
            newer: NONE,
            older: NONE,
            next_of_key: first,
            before_of_key: NONE,
        });
        if let Some(next) = self.entries.get_mut(first) {
            next.before_of_key = at;
        }
        self.key(key).first = at;
        self.by_command.insert(command.clone(), at);
        self.bytes += bytes;
        self.link_age(at);
    }

    /// Removes the least recently used entry; `false` if there is none.
    pub(crate) fn evict(&mut self) -> bool {
        let oldest = self.oldest;
        if oldest != NONE {
            self.remove(oldest);
        }
        oldest != NONE
    }

    /// Forgets a key that has changed: drops its entries; reads of it under way will neither be kept nor shared.
    pub(crate) fn forget(&mut self, key: &[u8]) {
        let Some(known) = self.keys.get_mut(key) else { return };
        if let Some(good) = known.good.take() {
            good.store(false, Ordering::Relaxed);
        }
        known.reads = 0;
        known.flights.clear();
        let mut at = known.first;
        if at == NONE {
            self.keys.remove(key);
        }
        while at != NONE {
            let next = self.entries[at].next_of_key;
            self.remove(at);
            at = next;
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.keys.values().filter_map(|key| key.good.as_ref()).for_each(|good| good.store(false, Ordering::Relaxed));
        *self = Shelf::default();
    }

    /// Notes that a read of a key begins. The returned flag becomes false when the reply may not be kept.
    pub(crate) fn begin_read(&mut self, key: &Arc<[u8]>) -> Arc<AtomicBool> {
        let known = self.key(key);
        known.reads += 1;
        known.good.get_or_insert_with(|| Arc::new(AtomicBool::new(true))).clone()
    }

    /// Notes that such a read has ended.
    pub(crate) fn end_read(&mut self, key: &[u8], read: &Arc<AtomicBool>) {
        let Some(known) = self.keys.get_mut(key) else { return };
        if !known.good.as_ref().is_some_and(|good| Arc::ptr_eq(good, read)) {
            return;
        }
        known.reads -= 1;
        if known.reads == 0 {
            known.good = None;
            if known.is_idle() {
                self.keys.remove(key);
            }
        }
    }

    /// The flight of a command, if there is one. Do not drop it under the lock: the end of a flight takes the lock.
    pub(crate) fn flight(&self, key: &[u8], command: &[u8]) -> Option<Arc<Flight>> {
        let mut flights = self.keys.get(key)?.flights.iter();
        flights.find(|(one, _)| **one == *command).and_then(|(_, flight)| flight.upgrade())
    }

    /// Makes a flight available to others; it replaces the command's earlier ones.
    pub(crate) fn add_flight(&mut self, key: &Arc<[u8]>, command: &Arc<[u8]>, flight: &Arc<Flight>) {
        let known = self.key(key);
        known.flights.retain(|(one, _)| one != command);
        known.flights.push((command.clone(), Arc::downgrade(flight)));
    }

    /// Forgets a flight that has ended.
    pub(crate) fn end_flight(&mut self, key: &[u8], flight: &Flight) {
        let Some(known) = self.keys.get_mut(key) else { return };
        known.flights.retain(|(_, one)| !std::ptr::eq(one.as_ptr(), flight));
        if known.is_idle() {
            self.keys.remove(key);
        }
    }

    fn key(&mut self, key: &Arc<[u8]>) -> &mut Key {
        self.keys.entry(key.clone()).or_insert(Key { first: NONE, good: None, reads: 0, flights: Vec::new() })
    }

    fn remove(&mut self, at: usize) {
        self.unlink_age(at);
        let entry = self.entries.remove(at);
        self.by_command.remove(&entry.command);
        self.bytes -= entry.bytes;
        if let Some(next) = self.entries.get_mut(entry.next_of_key) {
            next.before_of_key = entry.before_of_key;
        }
        if let Some(before) = self.entries.get_mut(entry.before_of_key) {
            before.next_of_key = entry.next_of_key;
        } else if let Some(known) = self.keys.get_mut(&entry.key) {
            known.first = entry.next_of_key;
            if known.is_idle() {
                self.keys.remove(&entry.key);
            }
        }
    }

    fn link_age(&mut self, at: usize) {
        let newest = std::mem::replace(&mut self.newest, at);
        (self.entries[at].newer, self.entries[at].older) = (NONE, newest);
        match self.entries.get_mut(newest) {
            Some(entry) => entry.newer = at,
            None => self.oldest = at,
        }
    }

    fn unlink_age(&mut self, at: usize) {
        let (newer, older) = (self.entries[at].newer, self.entries[at].older);
        match self.entries.get_mut(newer) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
        match self.entries.get_mut(older) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
    }
}

/// The memory that a kept reply takes, in bytes. Linear in its parts.
pub(crate) fn weight(key: &[u8], command: &[u8], value: &Value) -> usize {
    ENTRY_BYTES + key.len() + command.len() + value.memory_len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    use super::*;

    proptest! {
        /// Compares with a list of commands in the order of their last use.
        #[test]
        fn it_keeps_what_a_simple_list_would(steps in proptest::collection::vec((0..5u8, 0..4u8, 0..4u8), 0..200)) {
            let mut shelf = Shelf::default();
            let mut model: Vec<((u8, u8), i64)> = Vec::new();
            let mut reads: BTreeMap<u8, Vec<Arc<AtomicBool>>> = BTreeMap::new();
            let now = Instant::now();
            for (step, (what, key, field)) in steps.into_iter().enumerate() {
                let name: Arc<[u8]> = [key].as_slice().into();
                let command: Arc<[u8]> = [key, field].as_slice().into();
                let at = model.iter().position(|(one, _)| *one == (key, field));
                match what {
                    0 => {
                        at.map(|at| model.remove(at));
                        model.push(((key, field), step as i64));
                        let time = now..now + Duration::from_secs(2);
                        shelf.insert(&name, &command, &Value::Int(step as i64), 1, time);
                    }
                    1 => {
                        let want = at.map(|at| { let one = model.remove(at); model.push(one); one.1 });
                        let second = Duration::from_secs(1);
                        let got = shelf.find(&command, now, second).map(|value| (*value).clone());
                        prop_assert_eq!(got, want.map(Value::Int));
                        prop_assert!(shelf.find(&command, now + second, second).is_none());
                        prop_assert!(shelf.find(&command, now + 2 * second, 9 * second).is_none());
                    }
                    2 => {
                        model.retain(|(one, _)| one.0 != key);
                        shelf.forget(&name);
                        let ended = reads.remove(&key).unwrap_or_default();
                        prop_assert!(ended.iter().all(|good| !good.load(Ordering::Relaxed)));
                        ended.iter().for_each(|good| shelf.end_read(&name, good));
                    }
                    3 => {
                        prop_assert_eq!(shelf.evict(), !model.is_empty());
                        if !model.is_empty() {
                            model.remove(0);
                        }
                    }
                    _ if field < 2 => reads.entry(key).or_default().push(shelf.begin_read(&name)),
                    _ => {
                        if let Some(read) = reads.get_mut(&key).and_then(Vec::pop) {
                            prop_assert!(read.load(Ordering::Relaxed));
                            shelf.end_read(&name, &read);
                        }
                    }
                }
                prop_assert_eq!(shelf.len(), model.len());
                prop_assert_eq!(shelf.by_command.len(), model.len());
                let mut keys: Vec<u8> = model.iter().map(|(one, _)| one.0).collect();
                keys.extend(reads.iter().filter(|(_, reads)| !reads.is_empty()).map(|(key, _)| *key));
                keys.sort_unstable();
                keys.dedup();
                prop_assert_eq!(shelf.keys_len(), keys.len());
                prop_assert_eq!(shelf.bytes() == 0, model.is_empty());
            }
        }
    }
}

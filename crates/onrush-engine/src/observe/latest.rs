//! A log in memory that keeps its latest entries.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// Memory for more than this many times the maximum of entries is given back.
const SPARE_MAX: usize = 4;

struct Entries<T> {
    list: VecDeque<T>,
    next_id: u64,
}

impl<T> Entries<T> {
    fn trim(&mut self, len_max: usize) {
        if self.list.len() > len_max {
            self.list.truncate(len_max);
            if self.list.capacity() / SPARE_MAX > len_max {
                self.list.shrink_to_fit();
            }
        }
    }
}

/// The latest entries, the latest first.
pub(crate) struct Latest<T>(Mutex<Entries<T>>);

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Self(Mutex::new(Entries { list: VecDeque::new(), next_id: 0 }))
    }
}

impl<T> Latest<T> {
    /// Adds the entry that `make` makes with its number: ascending, never used twice. Of more than `len_max` entries the
    /// oldest go.
    pub(crate) fn add(&self, len_max: usize, make: impl FnOnce(u64) -> T) {
        let mut entries = self.0.lock();
        let entry = make(entries.next_id);
        entries.next_id += 1;
        entries.list.push_front(entry);
        entries.trim(len_max);
    }

    /// Of more than `len_max` entries the oldest go.
    pub(crate) fn trim(&self, len_max: usize) {
        self.0.lock().trim(len_max);
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().list.len()
    }

    /// Forgets all entries.
    pub(crate) fn reset(&self) {
        self.0.lock().list = VecDeque::new();
    }

    /// Calls `tell` with how many there are of the latest `count` entries, and with each of them.
    pub(crate) fn latest(&self, count: usize, tell: impl FnOnce(usize, &mut dyn Iterator<Item = &T>)) {
        let entries = self.0.lock();
        let len = entries.list.len().min(count);
        tell(len, &mut entries.list.iter().take(len));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entries_go_and_identifiers_go_on() {
        let log = Latest::default();
        let ids = |log: &Latest<u64>| {
            let mut ids = Vec::new();
            log.latest(9, |_, entries| ids.extend(entries.copied()));
            ids
        };
        (0..5).for_each(|_| log.add(3, |id| id));
        assert_eq!(ids(&log), [4, 3, 2]);
        log.reset();
        assert!(log.len() == 0);
        log.add(3, |id| id);
        assert_eq!(ids(&log), [5]);
        log.add(0, |id| id);
        assert_eq!(ids(&log), [0; 0]);
    }
}

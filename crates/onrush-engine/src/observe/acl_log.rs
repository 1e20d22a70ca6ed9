//! Denied attempts, the latest ones.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// Milliseconds in which the same denials count as one entry.
const SAME_MS_MAX: i64 = 60_000;

/// The denials, the latest first.
#[derive(Default)]
pub(crate) struct AclLog(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    list: VecDeque<Denial>,
    next_id: i64,
}

/// A denial, or several equal ones.
pub(crate) struct Denial {
    pub(crate) id: i64,
    pub(crate) count: i64,
    pub(crate) username: Vec<u8>,
    /// The command with which the client tried to log in.
    pub(crate) object: Vec<u8>,
    pub(crate) client: Vec<u8>,
    pub(crate) created_ms: i64,
    pub(crate) updated_ms: i64,
}

impl AclLog {
    /// Adds a denial; beyond `len_max` entries the oldest are dropped.
    pub(crate) fn add(&self, denial: Denial, len_max: usize) {
        let mut entries = self.0.lock();
        let is_same = |known: &Denial| {
            known.username == denial.username
                && known.object == denial.object
                && denial.updated_ms - known.updated_ms <= SAME_MS_MAX
        };
        let place = entries.list.iter().position(is_same);
        let first = match place.and_then(|place| entries.list.remove(place)) {
            Some(known) => {
                let Denial { client, updated_ms, .. } = denial;
                Denial { count: known.count + 1, client, updated_ms, ..known }
            }
            None => {
                let id = entries.next_id;
                entries.next_id += 1;
                Denial { id, ..denial }
            }
        };
        entries.list.push_front(first);
        entries.list.truncate(len_max);
    }

    /// Forgets all.
    pub(crate) fn reset(&self) {
        self.0.lock().list.clear();
    }

    /// Calls `tell` with the number of the latest entries, at most `count`, and with the entries.
    pub(crate) fn latest(&self, count: usize, tell: impl FnOnce(usize, &mut dyn Iterator<Item = &Denial>)) {
        let entries = self.0.lock();
        let len = entries.list.len().min(count);
        tell(len, &mut entries.list.iter().take(len));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(username: &str, at_ms: i64) -> Denial {
        let (username, object, client) = (username.as_bytes().to_vec(), b"AUTH".to_vec(), b"id=1".to_vec());
        Denial { id: 0, count: 1, username, object, client, created_ms: at_ms, updated_ms: at_ms }
    }

    fn told(log: &AclLog) -> Vec<(i64, i64, i64)> {
        log.0.lock().list.iter().map(|denial| (denial.id, denial.count, denial.created_ms)).collect()
    }

    #[test]
    fn the_same_denials_within_a_minute_are_one_entry() {
        let log = AclLog::default();
        for (username, at_ms) in [("a", 0), ("b", 1), ("a", 60_000), ("a", 120_000), ("a", 180_001)] {
            log.add(denial(username, at_ms), 10);
        }
        assert_eq!(told(&log), [(2, 1, 180_001), (0, 3, 0), (1, 1, 1)]);
    }

    #[test]
    fn the_oldest_entries_go_when_there_are_too_many() {
        let log = AclLog::default();
        for at in 0..5 {
            log.add(denial(&format!("user{at}"), at), 2);
        }
        assert_eq!(told(&log), [(4, 1, 4), (3, 1, 3)]);
        log.add(denial("last", 9), 0);
        assert_eq!(told(&log), []);
    }
}

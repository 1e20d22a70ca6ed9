//! Denied attempts, the latest ones.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

/// Milliseconds in which the same denials count as one entry.
const SAME_MS_MAX: i64 = 60_000;

/// The server's log tells of failed logins this often, in milliseconds.
const TOLD_MS: i64 = 1_000;

/// Among so many of the latest entries the same denial is looked for.
const SAME_LOOKED_AT: usize = 10;

/// The denials, the latest first, and how many there were.
#[derive(Default)]
pub(crate) struct AclLog {
    entries: Mutex<Entries>,
    counts: [AtomicU64; 4],
    /// When the server's log last told of failed logins, in Unix milliseconds, and how many there have been since.
    told: Mutex<(i64, u64)>,
}

#[derive(Default)]
struct Entries {
    list: VecDeque<Denial>,
    next_id: i64,
}

/// Why something was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A wrong password, or no such user.
    Login,
    Command,
    Key,
    Channel,
}

impl Reason {
    /// The word of ACL LOG.
    pub(crate) fn word(self) -> &'static str {
        ["auth", "command", "key", "channel"][self as usize]
    }
}

/// Where the command came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    TopLevel,
    /// Behind MULTI.
    Multi,
    Script,
}

impl Context {
    /// The word of ACL LOG.
    pub(crate) fn word(self) -> &'static str {
        ["toplevel", "multi", "lua"][self as usize]
    }
}

/// A denial, or several equal ones.
pub(crate) struct Denial {
    pub(crate) id: i64,
    pub(crate) count: i64,
    pub(crate) reason: Reason,
    pub(crate) context: Context,
    pub(crate) username: Vec<u8>,
    /// The command, key or channel.
    pub(crate) object: Vec<u8>,
    pub(crate) client: Vec<u8>,
    pub(crate) created_ms: i64,
    pub(crate) updated_ms: i64,
}

impl Denial {
    /// Whether both are about the same.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.reason == other.reason
            && self.context == other.context
            && self.username == other.username
            && self.object == other.object
    }
}

impl AclLog {
    /// Adds a denial; beyond `len_max` entries the oldest are dropped.
    pub(crate) fn add(&self, denial: Denial, len_max: usize) {
        self.counts[denial.reason as usize].fetch_add(denial.count as u64, Relaxed);
        let mut entries = self.entries.lock();
        let is_same = |known: &Denial| known.is_same(&denial) && denial.updated_ms - known.updated_ms <= SAME_MS_MAX;
        let place = entries.list.iter().take(SAME_LOOKED_AT).position(is_same);
        let first = match place.and_then(|place| entries.list.remove(place)) {
            Some(known) => {
                let Denial { client, updated_ms, count, .. } = denial;
                Denial { count: known.count + count, client, updated_ms, ..known }
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

    /// Notes a failed login; returns how many there were since the server's log told of one, if it is to do so now.
    pub(crate) fn tells(&self, now_ms: i64) -> Option<u64> {
        let mut told = self.told.lock();
        let (at_ms, count) = &mut *told;
        *count += 1;
        if (0..TOLD_MS).contains(&(now_ms - *at_ms)) {
            return None;
        }
        *at_ms = now_ms;
        Some(std::mem::take(count))
    }

    /// How often something was denied for this reason.
    pub(crate) fn count(&self, reason: Reason) -> u64 {
        self.counts[reason as usize].load(Relaxed)
    }

    /// Forgets all entries.
    pub(crate) fn reset(&self) {
        self.entries.lock().list.clear();
    }

    /// Calls `tell` with the number of the latest entries, at most `count`, and with the entries.
    pub(crate) fn latest(&self, count: usize, tell: impl FnOnce(usize, &mut dyn Iterator<Item = &Denial>)) {
        let entries = self.entries.lock();
        let len = entries.list.len().min(count);
        tell(len, &mut entries.list.iter().take(len));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(username: &str, at_ms: i64) -> Denial {
        let (username, object, client) = (username.as_bytes().to_vec(), b"AUTH".to_vec(), b"id=1".to_vec());
        let (reason, context) = (Reason::Login, Context::TopLevel);
        Denial { id: 0, count: 1, reason, context, username, object, client, created_ms: at_ms, updated_ms: at_ms }
    }

    fn told(log: &AclLog) -> Vec<(i64, i64, i64)> {
        log.entries.lock().list.iter().map(|denial| (denial.id, denial.count, denial.created_ms)).collect()
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

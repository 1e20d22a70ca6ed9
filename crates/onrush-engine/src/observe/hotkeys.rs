//! Which keys are hot: by the time that commands on them take, and by the bytes that they bring and send.
//!
//! While a session runs, a sample of the chunks is executed and timed command by command, as for the slow log. Without
//! a session this costs nothing.

use std::collections::HashMap;

use onrush_cluster::slots::{SlotSet, slot};
use parking_lot::Mutex;

/// Keys that are known at a time for each metric; when there are more, the lesser half is forgotten.
const KEYS_MAX: usize = 4096;

/// Longer keys are not counted: they would need too much memory.
const KEY_LEN_MAX: usize = 1024;

/// What a session measures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Time of commands.
    pub cpu: bool,
    /// Bytes of commands and replies.
    pub net: bool,
    /// Most keys returned for each metric.
    pub count: usize,
    /// One of this many chunks is in the sample.
    pub sample: u32,
    /// Milliseconds after which the session ends by itself; 0 is never.
    pub duration_ms: i64,
    /// The slots whose keys are looked at; `None`: all.
    pub slots: Option<SlotSet>,
}

/// Sums by key.
#[derive(Default)]
struct Sums(HashMap<Box<[u8]>, u64>);

impl Sums {
    fn add(&mut self, key: &[u8], n: u64) {
        if let Some(sum) = self.0.get_mut(key) {
            *sum += n;
            return;
        }
        if self.0.len() >= KEYS_MAX {
            let mut sums: Vec<u64> = self.0.values().copied().collect();
            let (_, median, _) = sums.select_nth_unstable(KEYS_MAX / 2);
            let median = *median;
            self.0.retain(|_, sum| *sum > median);
        }
        self.0.insert(key.into(), n);
    }

    /// The largest sums, the largest first; of equal ones the lesser key.
    fn top(&self, count: usize) -> Vec<(Vec<u8>, u64)> {
        let mut all: Vec<(Vec<u8>, u64)> = self.0.iter().map(|(key, sum)| (key.to_vec(), *sum)).collect();
        all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        all.truncate(count);
        all
    }
}

#[derive(Default)]
struct Session {
    wanted: Wanted,
    started_ms: i64,
    /// When it ended.
    ended_ms: Option<i64>,
    /// Nanoseconds and bytes of all sampled commands, and sums by key.
    nanos: u64,
    bytes: u64,
    /// Those of commands in the slots.
    nanos_in_slots: u64,
    bytes_in_slots: u64,
    by_nanos: Sums,
    by_bytes: Sums,
}

impl Session {
    fn ends_ms(&self) -> Option<i64> {
        let planned = Some(self.wanted.duration_ms).filter(|&ms| ms > 0).map(|ms| self.started_ms.saturating_add(ms));
        self.ended_ms.or(planned)
    }

    fn is_over(&self, now_ms: i64) -> bool {
        self.ends_ms().is_some_and(|end| end <= now_ms)
    }
}

/// What a session has found.
pub struct Found {
    /// Whether it still runs.
    pub is_active: bool,
    /// What it measures.
    pub(crate) wanted: Wanted,
    /// Unix time in milliseconds.
    pub started_ms: i64,
    /// How long it has run.
    pub duration_ms: i64,
    /// Microseconds of all sampled commands.
    pub total_us: u64,
    /// Bytes of all sampled commands and of their replies.
    pub total_bytes: u64,
    /// Microseconds and bytes of those in the slots.
    pub us_in_slots: u64,
    /// See there.
    pub bytes_in_slots: u64,
    /// Keys with microseconds, the most first.
    pub by_us: Vec<(Vec<u8>, u64)>,
    /// Keys with bytes, likewise.
    pub by_bytes: Vec<(Vec<u8>, u64)>,
}

/// The session, if there is or was one.
#[derive(Default)]
pub struct HotKeys(Mutex<Option<Session>>);

impl HotKeys {
    /// Begins a session; false if one runs.
    pub(crate) fn start(&self, wanted: Wanted, now_ms: i64) -> bool {
        let mut session = self.0.lock();
        if session.as_ref().is_some_and(|session| !session.is_over(now_ms)) {
            return false;
        }
        *session = Some(Session { wanted, started_ms: now_ms, ..Session::default() });
        true
    }

    /// Ends the session; false if none runs.
    pub fn stop(&self, now_ms: i64) -> bool {
        let mut session = self.0.lock();
        let Some(session) = session.as_mut().filter(|session| !session.is_over(now_ms)) else { return false };
        session.ended_ms = Some(now_ms);
        true
    }

    /// Forgets what was found; false if a session runs.
    pub fn reset(&self, now_ms: i64) -> bool {
        let mut session = self.0.lock();
        let is_over = session.as_ref().is_none_or(|session| session.is_over(now_ms));
        if is_over {
            *session = None;
        }
        is_over
    }

    /// Whether the session that was started last still runs; `None` if there was none, or it was reset.
    pub(crate) fn is_active(&self, now_ms: i64) -> Option<bool> {
        self.0.lock().as_ref().map(|session| !session.is_over(now_ms))
    }

    /// What was found.
    pub fn found(&self, now_ms: i64) -> Option<Found> {
        let session = self.0.lock();
        let session = session.as_ref()?;
        let count = session.wanted.count;
        let micros = session.by_nanos.top(count).into_iter().map(|(key, nanos)| (key, nanos / 1000));
        Some(Found {
            is_active: !session.is_over(now_ms),
            wanted: session.wanted.clone(),
            started_ms: session.started_ms,
            duration_ms: session.ends_ms().map_or(now_ms, |end| end.min(now_ms)) - session.started_ms,
            total_us: session.nanos / 1000,
            total_bytes: session.bytes,
            us_in_slots: session.nanos_in_slots / 1000,
            bytes_in_slots: session.bytes_in_slots,
            by_us: micros.collect(),
            by_bytes: session.by_bytes.top(count),
        })
    }

    /// Adds a command on these keys; false if the session is over.
    pub(crate) fn add(&self, keys: &[&[u8]], nanos: u64, bytes: u64, now_ms: i64) -> bool {
        let mut session = self.0.lock();
        let Some(session) = session.as_mut().filter(|session| !session.is_over(now_ms)) else { return false };
        session.nanos += nanos;
        session.bytes += bytes;
        if let Some(slots) = &session.wanted.slots {
            if !keys.first().is_some_and(|key| slots.has(slot(key))) {
                return true;
            }
            session.nanos_in_slots += nanos;
            session.bytes_in_slots += bytes;
        }
        let len = keys.len().max(1) as u64;
        for key in keys.iter().filter(|key| key.len() <= KEY_LEN_MAX) {
            if session.wanted.cpu {
                session.by_nanos.add(key, nanos / len);
            }
            if session.wanted.net {
                session.by_bytes.add(key, bytes / len);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_sums_stay_when_there_are_too_many_keys() {
        let mut sums = Sums::default();
        for n in 0..20_000_u64 {
            sums.add(format!("cold:{n}").as_bytes(), 1 + n % 3);
            sums.add(b"hot", 2);
            sums.add(b"hotter", 3);
        }
        assert!(sums.0.len() <= KEYS_MAX);
        assert_eq!(sums.top(2), [(b"hotter".to_vec(), 60_000), (b"hot".to_vec(), 40_000)]);
    }

    #[test]
    fn a_session_ends_by_itself_or_when_it_is_stopped() {
        let hot = HotKeys::default();
        let wanted = Wanted { cpu: true, net: false, count: 10, sample: 1, duration_ms: 50, slots: None };
        assert!(hot.found(0).is_none() && hot.reset(0) && !hot.stop(0));
        assert!(hot.start(wanted.clone(), 100) && !hot.start(wanted.clone(), 149) && !hot.reset(149));
        assert!(hot.add(&[b"a", b"b"], 4_000, 10, 120) && !hot.add(&[b"a"], 9_000, 10, 150));
        let found = hot.found(500).expect("a session");
        assert_eq!((found.is_active, found.duration_ms, found.total_us), (false, 50, 4));
        assert_eq!(found.by_us, [(b"a".to_vec(), 2), (b"b".to_vec(), 2)]);
        assert!(found.by_bytes.is_empty());
        assert!(hot.start(Wanted { duration_ms: 0, ..wanted }, 200) && hot.stop(300) && !hot.stop(300));
        assert_eq!(hot.found(900).map(|found| found.duration_ms), Some(100));
    }

    #[test]
    fn a_session_looks_at_the_keys_of_its_slots() {
        let hot = HotKeys::default();
        let mut slots = SlotSet::new();
        slots.add(slot(b"a"));
        let wanted = Wanted { cpu: false, net: true, count: 10, sample: 1, duration_ms: 0, slots: Some(slots) };
        assert!(hot.start(wanted, 0));
        assert!(hot.add(&[b"b"], 1_000, 7, 1) && hot.add(&[b"{a}1", b"{a}2"], 2_000, 20, 1) && hot.add(&[], 500, 1, 1));
        let found = hot.found(2).expect("a session");
        assert_eq!((found.total_us, found.total_bytes, found.us_in_slots, found.bytes_in_slots), (3, 28, 2, 20));
        assert_eq!(found.by_bytes, [(b"{a}1".to_vec(), 10), (b"{a}2".to_vec(), 10)]);
    }
}

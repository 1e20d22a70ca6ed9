//! The sessions that clients may resume.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustls::server::StoresServerSessions;

/// Most sessions, whatever `tls-session-cache-size` says; 0 there means this.
const SESSIONS_MAX: usize = 1 << 20;

/// A bounded number of sessions, each for a limited time. When there are too many, the oldest goes. They belong to one
/// configuration: after a change of the authorities nobody resumes a session that the old ones have vouched for.
pub(super) struct Sessions {
    most: usize,
    lifetime: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    by_id: HashMap<Vec<u8>, Session>,
    /// The ids in the order of their storing; some may be gone.
    order: VecDeque<(u64, Vec<u8>)>,
    stored: u64,
}

struct Session {
    number: u64,
    since: Instant,
    secrets: Vec<u8>,
}

impl Sessions {
    /// Keeps at most `most` sessions; 0: as many as there may ever be.
    pub(super) fn new(most: usize, lifetime: Duration) -> Self {
        let most = if most == 0 { SESSIONS_MAX } else { most.min(SESSIONS_MAX) };
        Self { most, lifetime, state: Mutex::default() }
    }
}

impl State {
    /// Drops the oldest ones while there are more than `most`, or they are too old at that time.
    fn trim(&mut self, most: usize, lifetime: Duration, now: Instant) {
        while let Some((number, id)) = self.order.front() {
            let is_old = |session: &Session| now.saturating_duration_since(session.since) >= lifetime;
            match self.by_id.get(id).filter(|session| session.number == *number) {
                Some(session) if self.order.len() <= most && !is_old(session) => return,
                Some(_) => _ = self.by_id.remove(id),
                None => {}
            }
            self.order.pop_front();
        }
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, id: Vec<u8>, secrets: Vec<u8>) -> bool {
        let now = Instant::now();
        let state = &mut *self.state.lock();
        state.stored += 1;
        state.order.push_back((state.stored, id.clone()));
        state.by_id.insert(id, Session { number: state.stored, since: now, secrets });
        state.trim(self.most, self.lifetime, now);
        true
    }

    fn get(&self, id: &[u8]) -> Option<Vec<u8>> {
        let state = &mut *self.state.lock();
        state.trim(self.most, self.lifetime, Instant::now());
        state.by_id.get(id).map(|session| session.secrets.clone())
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        let state = &mut *self.state.lock();
        state.trim(self.most, self.lifetime, Instant::now());
        state.by_id.remove(id).map(|session| session.secrets)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

/// Without the secrets.
impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("most", &self.most).field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(sessions: &Sessions, ids: std::ops::Range<u8>) {
        ids.for_each(|id| assert!(sessions.put(vec![id], vec![id, id])));
    }

    #[test]
    fn the_oldest_session_goes_when_there_are_too_many() {
        let sessions = Sessions::new(3, Duration::from_secs(60));
        put(&sessions, 0..5);
        assert_eq!((sessions.get(&[1]), sessions.get(&[2])), (None, Some(vec![2, 2])));
        assert_eq!(sessions.take(&[3]), Some(vec![3, 3]));
        assert_eq!(sessions.take(&[3]), None, "a session is resumed once");
        assert!(sessions.state.lock().order.len() <= 3);
    }

    #[test]
    fn sessions_stored_again_are_no_older_ones() {
        let sessions = Sessions::new(2, Duration::from_secs(60));
        for _ in 0..10 {
            put(&sessions, 0..1);
        }
        assert!(sessions.state.lock().order.len() <= 2);
        assert!(sessions.get(&[0]).is_some());
    }

    #[test]
    fn a_session_ends_after_its_time() {
        let sessions = Sessions::new(0, Duration::ZERO);
        put(&sessions, 0..1);
        assert_eq!(sessions.take(&[0]), None);
        assert!(sessions.state.lock().by_id.is_empty());
    }
}

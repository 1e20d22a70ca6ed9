//! Snapshots: the data at one moment, saved while writers go on.
//!
//! A snapshot begins with a *cut*, for which one thread has the whole keyspace for a moment. From then on every entry
//! is unsaved ([`onrush_store::Table::is_unsaved`]). One thread goes through all entries and saves the unsaved ones
//! ([`run::run`]); a thread that is about to change an unsaved entry saves it first ([`Underway::save`]). So each entry
//! is saved once, as it was at the cut.

mod backlog;
pub mod facts;
pub mod output;
pub mod run;
#[cfg(test)]
mod tests;
mod underway;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use facts::Facts;
use output::Purpose;
pub(crate) use underway::Underway;

/// The snapshot under way, and facts about earlier ones.
#[derive(Default)]
pub struct Snapshots {
    /// The number of the snapshot that does not have all entries yet; 0 if there is none. It is set while no other
    /// thread is in the keyspace.
    number: AtomicU64,
    /// Whether so much waits to be written that commands that write are held back.
    is_behind: Arc<AtomicBool>,
    /// The progress that was seen last while they were, and when it was first seen.
    progress: Mutex<Option<(Progress, Instant)>>,
    state: Mutex<State>,
    changed: Condvar,
}

/// A snapshot is given up when commands are held back for it, and the disk has taken nothing for this long.
pub(crate) const STALL_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a snapshot may take to end when it is not wanted any more.
pub(crate) const ABORT_WAIT_MAX: Duration = Duration::from_secs(8);

/// How long a command that is held back for a snapshot waits until it looks again, in milliseconds.
pub(crate) const BEHIND_LOOK_MS: i64 = 10;

const STALLED: &str = "the disk has taken nothing for 10 seconds, and clients had to wait for it";

/// Which snapshot has ended how many writes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Progress {
    started: Instant,
    writes: u64,
}

#[derive(Default)]
struct State {
    /// How many there have been.
    count: u64,
    underway: Option<Arc<Underway>>,
    /// Whether a thread must go on with it.
    waits: bool,
    /// What to begin when this one is done.
    scheduled: Vec<Purpose>,
    facts: Facts,
}

impl Snapshots {
    /// The number of the snapshot that does not have all entries yet; 0 if there is none.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Relaxed)
    }

    /// The snapshot that is under way, until it is written or has failed.
    pub fn underway(&self) -> Option<Arc<Underway>> {
        self.state.lock().underway.clone()
    }

    /// Whether so much of the one under way waits to be written that commands that write are held back.
    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind.load(Relaxed)
    }

    /// Gives up the snapshot under way if commands are held back for it and the disk has taken nothing for
    /// [`STALL_TIME_MAX`]. Call this several times a second; `now` is the present time.
    pub fn give_up_if_stalled(&self, now: Instant) {
        let underway = if self.is_behind() { self.underway() } else { None };
        let mut seen = self.progress.lock();
        let Some(underway) = underway else {
            *seen = None;
            return;
        };
        if underway.is_over() {
            // A thread may have added something just when it ended.
            underway.backlog.clear();
        }
        let progress = Progress { started: underway.started, writes: underway.backlog.writes() };
        match *seen {
            Some((before, since)) if before == progress => {
                if now - since >= STALL_TIME_MAX && !underway.is_over() {
                    tracing::error!("Saving fails: {STALLED}");
                    underway.give_up(STALLED);
                    if underway.purpose == Purpose::File {
                        // The write may never return.
                        self.note(|facts| facts.failure = Some(STALLED.to_owned()));
                    }
                }
            }
            _ => *seen = Some((progress, now)),
        }
    }

    /// Facts about the snapshots so far.
    pub fn facts(&self) -> Facts {
        self.state.lock().facts.clone()
    }

    /// Changes what is known.
    pub fn note(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.state.lock().facts);
    }

    /// Begins one; `None` if one is under way. The caller has the whole keyspace, and has made the cut.
    pub(crate) fn begin(&self, make: impl FnOnce(Arc<AtomicBool>) -> Underway, waits: bool) -> Option<Arc<Underway>> {
        let mut state = self.state.lock();
        if state.underway.is_some() {
            return None;
        }
        state.count += 1;
        let underway = Arc::new(make(Arc::clone(&self.is_behind)));
        state.underway = Some(Arc::clone(&underway));
        state.waits = waits;
        let purpose = underway.purpose;
        state.scheduled.retain(|scheduled| *scheduled != purpose);
        self.number.store(state.count, Relaxed);
        self.changed.notify_all();
        Some(underway)
    }

    /// It has got all entries.
    fn end_of_entries(&self) {
        self.number.store(0, Relaxed);
    }

    /// It is written, or has failed: puts the result into the facts.
    fn end(&self, change: impl FnOnce(&mut Facts)) {
        let mut state = self.state.lock();
        state.underway = None;
        self.is_behind.store(false, Relaxed);
        change(&mut state.facts);
        self.changed.notify_all();
    }

    /// Waits for a snapshot to go on with.
    fn wait(&self) -> Arc<Underway> {
        let mut state = self.state.lock();
        loop {
            if state.waits
                && let Some(underway) = state.underway.clone()
            {
                state.waits = false;
                return underway;
            }
            self.changed.wait(&mut state);
        }
    }

    /// Waits until none is under way.
    pub fn wait_for_end(&self) {
        self.changed.wait_while(&mut self.state.lock(), |state| state.underway.is_some());
    }

    /// Ends the snapshot that is under way without a result, and returns true when there is none; false if it does not
    /// end within [`ABORT_WAIT_MAX`], because its disk does not answer. The caller has left the gate.
    #[must_use]
    pub fn abort_and_wait(&self, why: &str) -> bool {
        self.abort_until(why, Instant::now() + ABORT_WAIT_MAX)
    }

    /// As [`Snapshots::abort_and_wait`], with another end of the wait.
    #[must_use]
    pub fn abort_until(&self, why: &str, deadline: Instant) -> bool {
        while let Some(underway) = self.underway() {
            underway.abort(why);
            let mut state = self.state.lock();
            if self.changed.wait_while_until(&mut state, |state| state.underway.is_some(), deadline).timed_out() {
                return false;
            }
        }
        true
    }

    /// Requests one for when none is under way (BGSAVE SCHEDULE).
    pub fn schedule(&self, purpose: Purpose) {
        let mut state = self.state.lock();
        if !state.scheduled.contains(&purpose) {
            state.scheduled.push(purpose);
        }
    }

    /// Whether a requested one has not begun.
    pub fn is_scheduled(&self, purpose: Purpose) -> bool {
        self.state.lock().scheduled.contains(&purpose)
    }
}

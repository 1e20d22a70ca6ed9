//! Snapshots: the data at one moment, saved while writers go on.
//!
//! A snapshot begins with a *cut*, for which one thread has the whole keyspace for a moment. From then on every entry
//! is unsaved ([`onrush_store::Table::is_unsaved`]). One thread goes through all entries and saves the unsaved ones
//! ([`run::run`]); a thread that is about to change an unsaved entry saves it first ([`Underway::save`]). So each entry
//! is saved once, as it was at the cut.

pub mod facts;
pub mod output;
pub mod run;
mod underway;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::{Condvar, Mutex};

use facts::Facts;
use output::Purpose;
pub use underway::{Beginning, Underway};

/// The snapshot under way, and facts about earlier ones.
#[derive(Default)]
pub struct Snapshots {
    /// The number of the snapshot that does not have all entries yet; 0 if there is none. It is set while no other
    /// thread is in the keyspace.
    number: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
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

    /// Facts about the snapshots so far.
    pub fn facts(&self) -> Facts {
        self.state.lock().facts.clone()
    }

    /// Changes what is known.
    pub fn note(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.state.lock().facts);
    }

    /// Begins one; `None` if one is under way. The caller has the whole keyspace, and has made the cut.
    pub(crate) fn begin(&self, make: impl FnOnce() -> Underway, waits: bool) -> Option<Arc<Underway>> {
        let mut state = self.state.lock();
        if state.underway.is_some() {
            return None;
        }
        state.count += 1;
        let underway = Arc::new(make());
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

    /// Ends the snapshot that is under way without a result, and returns when there is none. The caller has left the gate.
    pub fn abort_and_wait(&self, why: &str) {
        while let Some(underway) = self.underway() {
            underway.abort(why);
            self.wait_for_end();
        }
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

    /// Withdraws the request.
    pub fn unschedule(&self, purpose: Purpose) {
        self.state.lock().scheduled.retain(|scheduled| *scheduled != purpose);
    }
}

//! Snapshots: the data as it is at one moment, saved while writers go on.
//!
//! A snapshot begins with a *cut*, for which one thread has the whole keyspace for a moment. From then on every entry is unsaved
//! ([`onrush_store::Table::is_unsaved`]). One thread goes through all entries and saves what is unsaved ([`run::run`]); who is about to
//! change an unsaved entry saves it first ([`Underway::save`]). So each entry is saved once, as it was at the cut.

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

/// The snapshot that is under way, and what is known of those before.
#[derive(Default)]
pub struct Snapshots {
    /// The number of the snapshot that has not got all entries yet; 0 if there is none. It is set while nobody is in the keyspace.
    number: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// How many there have been.
    count: u64,
    underway: Option<Arc<Underway>>,
    /// Whether a thread is to go on with it.
    waits: bool,
    /// What is to begin when this one is done.
    scheduled: Vec<Purpose>,
    facts: Facts,
}

impl Snapshots {
    /// The number of the snapshot that has not got all entries yet; 0 if there is none.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Relaxed)
    }

    /// The snapshot that is under way, until it is written or has failed.
    pub fn underway(&self) -> Option<Arc<Underway>> {
        self.state.lock().underway.clone()
    }

    /// What is known of the snapshots so far.
    pub fn facts(&self) -> Facts {
        self.state.lock().facts.clone()
    }

    /// Changes what is known.
    pub fn note(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.state.lock().facts);
    }

    /// Begins one; `None` if one is under way. The caller keeps everybody else out of the keyspace, and has made the cut.
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

    /// It is written, or has failed: what came of it goes into the facts.
    fn end(&self, change: impl FnOnce(&mut Facts)) {
        let mut state = self.state.lock();
        state.underway = None;
        change(&mut state.facts);
        self.changed.notify_all();
    }

    /// Waits for a snapshot that somebody is to go on with.
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

    /// Asks for one as soon as none is under way (BGSAVE SCHEDULE).
    pub fn schedule(&self, purpose: Purpose) {
        let mut state = self.state.lock();
        if !state.scheduled.contains(&purpose) {
            state.scheduled.push(purpose);
        }
    }

    /// Whether one was asked for that has not begun.
    pub fn is_scheduled(&self, purpose: Purpose) -> bool {
        self.state.lock().scheduled.contains(&purpose)
    }

    /// None is asked for any more.
    pub fn unschedule(&self, purpose: Purpose) {
        self.state.lock().scheduled.retain(|scheduled| *scheduled != purpose);
    }
}

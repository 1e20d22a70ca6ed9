//! Loading data that was saved: at start, and again on request.

pub mod empty;
pub mod load;

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::replication::history::Position;

/// Whether data is being loaded, and the progress.
#[derive(Debug, Default)]
pub struct Loading {
    /// `OFF`, `ON` or `STAYS_ON`.
    state: AtomicU8,
    started_s: AtomicI64,
    total_bytes: AtomicU64,
    loaded_bytes: AtomicU64,
    keys: AtomicU64,
    expired: AtomicU64,
    /// Parts of the file that are loaded when all others are.
    kept: Mutex<Vec<Vec<u8>>>,
    /// What the file says of its place in a history.
    told: Mutex<Told>,
}

const OFF: u8 = 0;
const ON: u8 = 1;
/// The process ends before all is loaded.
const STAYS_ON: u8 = 2;

/// Where in its history saved data was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedPosition {
    /// The place.
    pub position: Position,
    /// The database of the stream there.
    pub db: u32,
}

/// What a file says of it, item by item.
#[derive(Debug, Default)]
struct Told {
    id: Option<String>,
    offset: Option<u64>,
    db: Option<u32>,
}

/// What to do with keys and libraries of functions that are there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Present {
    /// They stay; one that is also in the file is an error.
    Refused,
    /// The file replaces them. No snapshot may be under way.
    Replaced,
}

/// How far loading has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// When it began, in Unix seconds.
    pub started_s: i64,
    /// The length of what is loaded, in bytes.
    pub total_bytes: u64,
    /// How much of it has been loaded.
    pub loaded_bytes: u64,
    /// Keys that were loaded.
    pub keys: u64,
    /// Keys that were left out because they had expired.
    pub expired: u64,
}

impl Loading {
    /// Whether commands that need the data are refused.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.state.load(Relaxed) != OFF
    }

    /// Begins to load `total_bytes`.
    pub fn begin(&self, now_s: i64, total_bytes: u64) {
        self.started_s.store(now_s, Relaxed);
        self.total_bytes.store(total_bytes, Relaxed);
        for counter in [&self.loaded_bytes, &self.keys, &self.expired] {
            counter.store(0, Relaxed);
        }
        _ = self.state.compare_exchange(OFF, ON, Relaxed, Relaxed);
    }

    /// Adds to the loaded bytes.
    pub fn add_bytes(&self, bytes: u64) {
        self.loaded_bytes.fetch_add(bytes, Relaxed);
    }

    /// Forgets what an earlier file that could not be loaded has left.
    pub fn forget_kept(&self) {
        self.kept.lock().clear();
        *self.told.lock() = Told::default();
    }

    /// Notes what the file says about itself.
    fn note_aux(&self, name: &[u8], value: &[u8]) {
        let text = || String::from_utf8_lossy(value).into_owned();
        match name {
            b"repl-id" => self.told.lock().id = Some(text()),
            b"repl-offset" => self.told.lock().offset = text().parse().ok(),
            b"repl-stream-db" => self.told.lock().db = text().parse().ok(),
            _ => {}
        }
    }

    /// Where in its history the data of the loaded file was, if it says so.
    pub fn saved_position(&self) -> Option<SavedPosition> {
        let told = self.told.lock();
        let id = told.id.clone().filter(|id| id.len() == 40)?;
        Some(SavedPosition { position: Position { id, offset: told.offset? }, db: told.db.unwrap_or(0) })
    }

    /// The database of the stream behind the loaded file.
    pub fn stream_db(&self) -> u32 {
        self.told.lock().db.unwrap_or(0)
    }

    fn add_keys(&self, keys: u64, expired: u64) {
        self.keys.fetch_add(keys, Relaxed);
        self.expired.fetch_add(expired, Relaxed);
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        Progress {
            started_s: self.started_s.load(Relaxed),
            total_bytes: self.total_bytes.load(Relaxed),
            loaded_bytes: self.loaded_bytes.load(Relaxed),
            keys: self.keys.load(Relaxed),
            expired: self.expired.load(Relaxed),
        }
    }

    /// Everything is loaded.
    pub fn end(&self) {
        _ = self.state.compare_exchange(ON, OFF, Relaxed, Relaxed);
    }

    /// Lets commands be refused for good if data is being loaded: the process ends, and nothing more would be saved.
    /// Returns whether it is.
    pub fn stay_on(&self) -> bool {
        self.state.compare_exchange(ON, STAYS_ON, Relaxed, Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loading_that_stays_on_does_not_end() {
        let loading = Loading::default();
        assert!(!loading.stay_on() && !loading.is_on());
        loading.begin(1, 1);
        assert!(loading.is_on());
        loading.end();
        assert!(!loading.is_on());
        loading.begin(1, 1);
        assert!(loading.stay_on());
        loading.end();
        assert!(loading.is_on());
    }
}

//! Scripts and libraries of functions: their sources, which all threads share, and how they are run.
//!
//! Every thread has its own interpreter ([`thread`]), which compiles each script when it first runs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use onrush_lua::Sha1Hex;
use parking_lot::Mutex;

mod cache;
pub(crate) mod declared;
mod dump;
pub(crate) mod habit;
pub(crate) mod host;
mod inside;
mod libraries;
mod load;
pub(crate) mod proof;
mod running;
pub(crate) mod thread;

pub(crate) use cache::{Cache, Script};
pub(crate) use dump::{Bad, dump, restore};
pub(crate) use libraries::{Libraries, Library, LibraryCounts, Policy};
pub(crate) use load::{compile, load_library};
pub(crate) use running::{Running, What};

/// The state of scripts that all threads share.
#[derive(Default)]
pub struct Scripts {
    /// Sources of scripts.
    pub(crate) cache: Cache,
    /// Libraries of functions.
    pub(crate) libraries: Libraries,
    /// The script that runs.
    pub(crate) running: Running,
    /// Memory of the threads' interpreters.
    pub(crate) heaps: Heaps,
}

impl Scripts {
    /// The texts of all libraries of functions, in the order of their names.
    pub fn library_texts(&self) -> Vec<Vec<u8>> {
        self.libraries.all().iter().map(|library| library.text.clone()).collect()
    }
}

/// Memory of the interpreters of all threads that have run scripts.
#[derive(Default)]
pub(crate) struct Heaps(Mutex<Vec<Arc<AtomicUsize>>>);

impl Heaps {
    /// Adds what a thread tells of its own. O(threads).
    fn add(&self, bytes: &Arc<AtomicUsize>) {
        let mut all = self.0.lock();
        if !all.iter().any(|other| Arc::ptr_eq(other, bytes)) {
            all.push(Arc::clone(bytes));
        }
    }

    /// Of all, in bytes, as of the end of the last script of each.
    pub(crate) fn bytes(&self) -> usize {
        self.0.lock().iter().map(|bytes| bytes.load(Relaxed)).sum()
    }
}

/// A name of a script, in any case of letters; `None` if it cannot be one.
#[inline]
pub(crate) fn read_sha(text: &[u8]) -> Option<Sha1Hex> {
    let mut sha: Sha1Hex = text.try_into().ok()?;
    sha.make_ascii_lowercase();
    Some(sha)
}

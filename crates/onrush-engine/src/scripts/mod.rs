//! Scripts and libraries of functions: their sources, which all threads share, and how they are run.
//!
//! Every thread has its own interpreter ([`thread`]), which compiles each script when it first runs it.

mod cache;
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
}

impl Scripts {
    /// Removes all libraries of functions.
    pub fn forget_libraries(&self) {
        self.libraries.clear();
    }
}

//! Scripts and libraries of functions: their sources, which all threads share, and how they are run.
//!
//! Every thread has an interpreter of its own ([`thread`]), which compiles what it runs and has not compiled yet.

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
pub(crate) use libraries::{Libraries, Library, Policy};
pub(crate) use load::{compile, load_library};
pub(crate) use running::{Running, What};

/// What all threads share of scripts.
#[derive(Default)]
pub struct Scripts {
    /// Sources of scripts.
    pub(crate) cache: Cache,
    /// Libraries of functions.
    pub(crate) libraries: Libraries,
    /// The one that runs.
    pub(crate) running: Running,
}

impl Scripts {
    /// Forgets all libraries of functions.
    pub fn forget_libraries(&self) {
        self.libraries.clear();
    }
}

//! Libraries of functions.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use onrush_lua::{BAD_NAME, Registered, is_name};
use parking_lot::RwLock;

use super::cache::words;
use super::habit::Habit;
use crate::error::CommandError;

/// A library.
pub(crate) struct Library {
    /// Unique among all libraries of this process, those of the same name included.
    pub(crate) id: u64,
    pub(crate) name: Vec<u8>,
    /// The text, shebang included.
    pub(crate) text: Vec<u8>,
    /// The functions that it has registered.
    pub(crate) functions: Vec<Registered>,
    /// What earlier runs of each function have shown.
    pub(crate) habits: Vec<Habit>,
}

impl Library {
    /// A library with this text, which has registered these functions.
    pub(crate) fn new(id: u64, name: Vec<u8>, text: Vec<u8>, functions: Vec<Registered>) -> Self {
        let habits = functions.iter().map(|_| Habit::default()).collect();
        Self { id, name, text, functions, habits }
    }

    /// The text to compile: all after the shebang.
    pub(crate) fn code(text: &[u8]) -> &[u8] {
        &text[memchr::memchr(b'\n', text).unwrap_or(text.len())..]
    }

    /// A new identifier.
    pub(crate) fn next_id() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Relaxed)
    }

    /// The name that the shebang of a library gives it.
    ///
    /// # Errors
    /// The shebang is wrong.
    pub(crate) fn read_name(text: &[u8]) -> Result<Vec<u8>, CommandError> {
        const MISSING: CommandError = CommandError::fixed("ERR Missing library metadata");
        const INVALID: CommandError = CommandError::fixed("ERR Invalid library metadata");
        const TWICE: CommandError =
            CommandError::fixed("ERR Invalid metadata value, name argument was given multiple times");
        const NO_NAME: CommandError = CommandError::fixed("ERR Library name was not given");
        let line = text.strip_prefix(b"#!").ok_or(MISSING)?;
        let line = &line[..memchr::memchr(b'\n', line).ok_or(INVALID)?];
        let mut words = words(line);
        let engine = words.next().unwrap_or_default();
        let mut name = None;
        for word in words {
            match word.split_at_checked(b"name=".len()) {
                Some((start, rest)) if start.eq_ignore_ascii_case(b"name=") => {
                    if name.replace(rest.to_vec()).is_some() {
                        return Err(TWICE);
                    }
                }
                _ => return Err(CommandError::bytes([b"ERR Invalid metadata value given: ", word].concat())),
            }
        }
        let name = name.ok_or(NO_NAME)?;
        if !is_name(&name) {
            return Err(CommandError::text(format!("ERR {BAD_NAME}")));
        }
        if !engine.eq_ignore_ascii_case(b"lua") {
            return Err(CommandError::bytes([b"ERR Engine '", engine, b"' not found"].concat()));
        }
        Ok(name)
    }
}

/// What happens to the present libraries when others are restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// They stay; a library of the same name is an error.
    Append,
    /// A library of the same name is replaced.
    Replace,
    /// All are removed.
    Flush,
}

/// All libraries.
#[derive(Default)]
pub(crate) struct Libraries {
    /// Changes whenever a library is added or removed.
    generation: AtomicU64,
    all: RwLock<All>,
}

#[derive(Clone, Default)]
struct All {
    /// In the order of their names.
    libraries: Vec<Arc<Library>>,
    /// The library and the number in it of each function, by its name in lower case.
    functions: HashMap<Vec<u8>, (Arc<Library>, usize)>,
}

impl All {
    fn find(&self, name: &[u8]) -> Result<usize, usize> {
        self.libraries.binary_search_by(|library| library.name.as_slice().cmp(name))
    }

    fn remove(&mut self, name: &[u8]) -> Option<Arc<Library>> {
        let library = self.libraries.remove(self.find(name).ok()?);
        self.functions.retain(|_, (other, _)| other.id != library.id);
        Some(library)
    }

    fn add(&mut self, library: Library, replaces: bool) -> Result<(), CommandError> {
        if self.find(&library.name).is_ok() && !replaces {
            return Err(CommandError::bytes([b"ERR Library '", library.name.as_slice(), b"' already exists"].concat()));
        }
        self.remove(&library.name);
        let library = Arc::new(library);
        for (number, function) in library.functions.iter().enumerate() {
            let name = function.name.to_ascii_lowercase();
            if self
                .functions
                .insert(name, (Arc::clone(&library), number))
                .is_some_and(|(other, _)| other.id != library.id)
            {
                return Err(CommandError::bytes(
                    [b"ERR Function ", function.name.as_slice(), b" already exists"].concat(),
                ));
            }
        }
        let at = self.find(&library.name).unwrap_or_else(|at| at);
        self.libraries.insert(at, library);
        Ok(())
    }
}

/// Number of libraries, and of functions in all of them.
pub(crate) struct LibraryCounts {
    pub(crate) libraries: usize,
    pub(crate) functions: usize,
}

impl Libraries {
    /// Changes whenever a library is added or removed.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Relaxed)
    }

    /// How many libraries and functions there are.
    pub(crate) fn count(&self) -> LibraryCounts {
        let all = self.all.read();
        LibraryCounts { libraries: all.libraries.len(), functions: all.functions.len() }
    }

    /// The library that has a function, and the function's number in it.
    #[inline]
    pub(crate) fn function(&self, name: &[u8]) -> Option<(Arc<Library>, usize)> {
        let all = self.all.read();
        all.functions.get(name).or_else(|| all.functions.get(&name.to_ascii_lowercase())).cloned()
    }

    /// All libraries in the order of their names.
    pub(crate) fn all(&self) -> Vec<Arc<Library>> {
        self.all.read().libraries.clone()
    }

    pub(crate) fn has(&self, name: &[u8]) -> bool {
        self.all.read().find(name).is_ok()
    }

    /// Whether a library is still there.
    pub(crate) fn is_current(&self, name: &[u8], id: u64) -> bool {
        let all = self.all.read();
        all.find(name).is_ok_and(|at| all.libraries[at].id == id)
    }

    /// Adds libraries, all or none.
    ///
    /// # Errors
    /// A library or a function of the same name exists already.
    pub(crate) fn add(&self, libraries: Vec<Library>, policy: Policy) -> Result<(), CommandError> {
        let mut all = self.all.write();
        let mut new = if policy == Policy::Flush { All::default() } else { all.clone() };
        for library in libraries {
            new.add(library, policy == Policy::Replace)?;
        }
        *all = new;
        self.generation.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Removes a library; returns whether it existed.
    pub(crate) fn remove(&self, name: &[u8]) -> bool {
        let removed = self.all.write().remove(name).is_some();
        self.generation.fetch_add(1, Relaxed);
        removed
    }

    /// Removes all libraries.
    pub(crate) fn clear(&self) {
        *self.all.write() = All::default();
        self.generation.fetch_add(1, Relaxed);
    }
}

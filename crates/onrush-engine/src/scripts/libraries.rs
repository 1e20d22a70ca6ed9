//! Libraries of functions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use onrush_lua::{BAD_NAME, Registered, is_name};
use onrush_resp::split_words;
use parking_lot::RwLock;

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
        let habits = functions.iter().map(|_| Habit::new(text.len())).collect();
        Self { id, name, text, functions, habits }
    }

    /// Memory that it takes.
    fn bytes(&self) -> usize {
        let functions: usize = self.functions.iter().map(|function| function.name.len()).sum();
        let per_function = size_of::<Registered>() + size_of::<Habit>();
        size_of::<Self>() + self.name.len() + self.text.len() + self.functions.len() * per_function + functions
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
        if !text.starts_with(b"#!") {
            return Err(MISSING);
        }
        let line = &text[..memchr::memchr(b'\n', text).ok_or(INVALID)?];
        let words = split_words(line).ok_or(INVALID)?;
        let (first, words) = words.split_first().ok_or(INVALID)?;
        let engine = first.strip_prefix(b"#!").unwrap_or_default();
        let mut name = None;
        for word in words {
            match word.split_at_checked(b"name=".len()) {
                Some((start, rest)) if start.eq_ignore_ascii_case(b"name=") => {
                    if name.replace(rest.to_vec()).is_some() {
                        return Err(TWICE);
                    }
                }
                _ => return Err(CommandError::bytes([b"ERR Invalid metadata value given: ", &word[..]].concat())),
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

#[derive(Default)]
struct All {
    /// By name.
    libraries: BTreeMap<Vec<u8>, Arc<Library>>,
    /// The library and the number in it of each function, by its name in lower case.
    functions: HashMap<Vec<u8>, (Arc<Library>, usize)>,
    /// Memory of all of them.
    bytes: usize,
}

impl All {
    fn remove(&mut self, name: &[u8]) -> Option<Arc<Library>> {
        let library = self.libraries.remove(name)?;
        self.bytes -= library.bytes();
        for function in &library.functions {
            self.functions.remove(&function.name.to_ascii_lowercase());
        }
        Some(library)
    }

    fn insert(&mut self, library: Arc<Library>) {
        for (number, function) in library.functions.iter().enumerate() {
            // Of two names that differ by case alone the first one counts.
            let name = function.name.to_ascii_lowercase();
            self.functions.entry(name).or_insert_with(|| (Arc::clone(&library), number));
        }
        self.bytes += library.bytes();
        self.libraries.insert(library.name.clone(), library);
    }

    /// Adds a library. O(its functions, log libraries).
    ///
    /// # Errors
    /// A library or a function of the same name exists already; then nothing changes.
    fn add(&mut self, library: Arc<Library>) -> Result<(), CommandError> {
        if self.libraries.contains_key(&library.name) {
            return Err(CommandError::bytes([b"ERR Library '", library.name.as_slice(), b"' already exists"].concat()));
        }
        let is_taken = |name: &[u8]| self.functions.contains_key(&name.to_ascii_lowercase());
        if let Some(function) = library.functions.iter().find(|function| is_taken(&function.name)) {
            return Err(CommandError::bytes([b"ERR Function ", function.name.as_slice(), b" already exists"].concat()));
        }
        self.insert(library);
        Ok(())
    }
}

/// Number of libraries, and of functions in all of them.
pub(crate) struct LibraryCounts {
    pub(crate) libraries: usize,
    pub(crate) functions: usize,
    /// Memory of all, without what threads have compiled.
    pub(crate) bytes: usize,
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
        let functions = all.libraries.values().map(|library| library.functions.len()).sum();
        LibraryCounts { libraries: all.libraries.len(), functions, bytes: all.bytes }
    }

    /// The library that has a function, and the function's number in it.
    #[inline]
    pub(crate) fn function(&self, name: &[u8]) -> Option<(Arc<Library>, usize)> {
        let all = self.all.read();
        all.functions.get(name).or_else(|| all.functions.get(&name.to_ascii_lowercase())).cloned()
    }

    /// All libraries in the order of their names.
    pub(crate) fn all(&self) -> Vec<Arc<Library>> {
        self.all.read().libraries.values().cloned().collect()
    }

    pub(crate) fn has(&self, name: &[u8]) -> bool {
        self.all.read().libraries.contains_key(name)
    }

    /// Whether a library is still there.
    pub(crate) fn is_current(&self, name: &[u8], id: u64) -> bool {
        self.all.read().libraries.get(name).is_some_and(|library| library.id == id)
    }

    /// Adds libraries, all or none. O(their functions), however many libraries there are; with [`Policy::Flush`] those
    /// that go are freed after the lock.
    ///
    /// # Errors
    /// A library or a function of the same name exists already.
    pub(crate) fn add(&self, libraries: Vec<Arc<Library>>, policy: Policy) -> Result<(), CommandError> {
        let mut all = self.all.write();
        let flushed = (policy == Policy::Flush).then(|| std::mem::take(&mut *all));
        // A function may move from one of those that are replaced to another library.
        let replaced: Vec<_> = match policy {
            Policy::Replace => libraries.iter().filter_map(|library| all.remove(&library.name)).collect(),
            Policy::Append | Policy::Flush => Vec::new(),
        };
        for (count, library) in libraries.iter().enumerate() {
            if let Err(problem) = all.add(Arc::clone(library)) {
                libraries[..count].iter().for_each(|added| _ = all.remove(&added.name));
                replaced.into_iter().for_each(|library| all.insert(library));
                if let Some(flushed) = flushed {
                    *all = flushed;
                }
                return Err(problem);
            }
        }
        drop(all);
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

#[cfg(test)]
mod tests {
    use super::*;
    use onrush_lua::FunctionFlags;

    fn library(name: &str, functions: &[&str]) -> Arc<Library> {
        let registered = |name: &&str| Registered {
            name: name.as_bytes().to_vec(),
            description: None,
            flags: FunctionFlags::default(),
        };
        let functions = functions.iter().map(registered).collect();
        Arc::new(Library::new(Library::next_id(), name.into(), Vec::new(), functions))
    }

    fn owner(libraries: &Libraries, function: &str) -> Option<String> {
        let (library, _) = libraries.function(function.as_bytes())?;
        Some(String::from_utf8(library.name.clone()).unwrap())
    }

    #[test]
    fn libraries_are_added_all_or_none() {
        for policy in [Policy::Append, Policy::Replace, Policy::Flush] {
            let libraries = Libraries::default();
            libraries.add(vec![library("a", &["f", "g"]), library("b", &["h"])], Policy::Append).unwrap();
            let new = vec![library("c", &["i"]), library("d", &["F"]), library("e", &["i"])];
            assert!(libraries.add(new, policy).is_err(), "{policy:?}");
            assert_eq!((libraries.count().libraries, libraries.count().functions), (2, 3), "{policy:?}");
            assert_eq!(owner(&libraries, "G").as_deref(), Some("a"));
            assert_eq!((owner(&libraries, "i"), libraries.has(b"c")), (None, false));
        }
    }

    #[test]
    fn a_library_replaces_one_of_its_name_with_all_functions() {
        let libraries = Libraries::default();
        libraries.add(vec![library("a", &["f", "g"]), library("b", &["h"])], Policy::Append).unwrap();
        assert!(libraries.add(vec![library("a", &["x"])], Policy::Append).is_err());
        assert!(libraries.add(vec![library("a", &["x", "h"])], Policy::Replace).is_err());
        assert_eq!(owner(&libraries, "f").as_deref(), Some("a"));
        libraries.add(vec![library("a", &["g", "x"])], Policy::Replace).unwrap();
        let owners = |names: [&str; 4]| names.map(|name| owner(&libraries, name).unwrap_or_default());
        assert_eq!(owners(["f", "g", "h", "x"]), ["", "a", "b", "a"]);
        // A function may move between libraries that are replaced.
        libraries.add(vec![library("a", &["h", "x"]), library("b", &["g"])], Policy::Replace).unwrap();
        assert_eq!(owners(["f", "g", "h", "x"]), ["", "b", "a", "a"]);
        assert!(libraries.remove(b"a") && !libraries.remove(b"a"));
        assert_eq!((owner(&libraries, "x"), libraries.count().functions), (None, 1));
    }
}

mod getting;
mod loading;
mod rewriting;
mod setting;
mod table;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::*;

impl Config {
    /// This configuration with another value for one directive, even an immutable one, as a line of a file sets it.
    ///
    /// # Errors
    /// The name is unknown or the value cannot be taken.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Result<Self, ConfigSetError> {
        let index = find(name.as_bytes()).ok_or_else(|| ConfigSetError::Unknown { name: name.to_owned() })?;
        let words = [value.as_bytes().to_vec()];
        self.set_words(index, &words).map_err(|reason| ConfigSetError::failed(name, reason))?;
        self.refresh();
        Ok(self)
    }
}

/// A directory of its own for a test, gone when it ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("onrush-config-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn load_file(path: &Path, options: &[&str]) -> Result<Loaded, String> {
    let arguments = std::iter::once(path.as_os_str().to_owned()).chain(options.iter().map(|word| word.into()));
    load_arguments(arguments, "")
}

fn load_options(options: &[&str]) -> Result<Loaded, String> {
    load_arguments(options.iter().map(|word| word.into()), "")
}

fn load_stdin(text: &str) -> Result<Loaded, String> {
    load_arguments(["-".into()], text)
}

fn load_arguments(arguments: impl IntoIterator<Item = std::ffi::OsString>, stdin: &str) -> Result<Loaded, String> {
    let Invocation::Serve(command_line) = parse_arguments(arguments) else { panic!("not to serve") };
    load(&command_line, &mut stdin.as_bytes()).map_err(|error| error.to_string())
}

fn get(config: &Config, name: &str) -> String {
    String::from_utf8(config.get(name).unwrap()).unwrap()
}

fn set(config: &Config, pairs: &[(&str, &str)]) -> Result<Change, String> {
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    config.set_many(&pairs, true).map_err(|error| error.to_string())
}

fn names(found: &[(String, Vec<u8>)]) -> Vec<&str> {
    found.iter().map(|(name, _)| name.as_str()).collect()
}

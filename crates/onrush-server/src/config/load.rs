//! Making the first configuration from files, standard input and options.

use std::ffi::OsStr;
use std::fmt;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::arguments::CommandLine;
use super::directive::Flags;
use super::line::{quote, split_words};
use super::text::os_reason;
use super::value::Value;
use super::words::Reason;
use super::{Config, DIRECTIVES, find};
use onrush_engine::glob::glob_match;

/// How deep files may include one another.
const INCLUDE_DEPTH_MAX: usize = 16;

/// Directives that Redis once had and now ignores silently.
const FORGOTTEN: [&[u8]; 2] = [b"list-max-ziplist-entries", b"list-max-ziplist-value"];

const BAD_DIRECTIVE: Reason = Reason::Borrowed("Bad directive or wrong number of arguments");

/// The configuration a server starts with.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// The absolute path of the file it came from, if there was one; CONFIG REWRITE writes there.
    pub config_file: Option<PathBuf>,
}

/// Where a line was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineSource {
    /// In a file.
    File {
        /// Its path.
        path: PathBuf,
        /// The line, from 1.
        number: usize,
    },
    /// From standard input.
    Stdin {
        /// The line, from 1.
        number: usize,
    },
    /// Among the options on the command line.
    Options,
}

/// Why the server cannot start. The text is for standard error, some lines without the last line's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartError {
    /// A line is wrong.
    Line {
        /// Where it stands.
        source: LineSource,
        /// The line; what might be a secret is left out.
        line: String,
        /// What is wrong.
        reason: Reason,
    },
    /// A file cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { source, line, reason } => {
                writeln!(f, "*** FATAL CONFIG FILE ERROR (Onrush {}) ***", env!("CARGO_PKG_VERSION"))?;
                match source {
                    LineSource::File { path, number } => {
                        writeln!(f, "Reading the configuration file '{}', at line {number}", path.display())?;
                    }
                    LineSource::Stdin { number } => {
                        writeln!(f, "Reading the configuration from standard input, at line {number}")?;
                    }
                    LineSource::Options => writeln!(f, "Reading the options of the command line")?,
                }
                write!(f, ">>> '{line}'\n{reason}")
            }
            Self::Unreadable { path, reason } => {
                write!(f, "Fatal error, can't open config file '{}': {reason}", path.display())
            }
        }
    }
}

impl std::error::Error for StartError {}

/// Reads the configuration a command line asks for; `stdin` is read if it says so.
///
/// # Errors
/// The first line that is wrong, or a file that cannot be read.
pub fn load(command_line: &CommandLine, stdin: &mut dyn Read) -> Result<Loaded, StartError> {
    let mut loader = Loader { config: Config::default(), depth: 0 };
    let mut config_file = None;
    if let Some(path) = &command_line.file {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        loader.read_file(&path)?;
        config_file = Some(path);
    }
    if command_line.stdin {
        let mut text = Vec::new();
        stdin
            .read_to_end(&mut text)
            .map_err(|error| StartError::Unreadable { path: "-".into(), reason: os_reason(&error) })?;
        loader.read_lines(&text, |number| LineSource::Stdin { number })?;
    }
    for words in &command_line.options {
        loader.take_words(words.clone()).map_err(|stop| {
            let values = words[1..].iter().map(|word| quote(word));
            let line = std::iter::once(String::from_utf8_lossy(&words[0]).into_owned()).chain(values);
            stop.at(LineSource::Options, line.collect::<Vec<_>>().join(" ").as_bytes())
        })?;
    }
    loader.config.refresh();
    Ok(Loaded { config: loader.config, config_file })
}

/// Why reading stops: a reason whose file and line are not known yet, or the error of an included file.
enum Stop {
    Here(Reason),
    Included(StartError),
}

impl From<Reason> for Stop {
    fn from(reason: Reason) -> Self {
        Self::Here(reason)
    }
}

impl Stop {
    fn at(self, source: LineSource, line: &[u8]) -> StartError {
        match self {
            Self::Here(reason) => StartError::Line { source, line: without_secrets(line), reason },
            Self::Included(error) => error,
        }
    }
}

/// A line as the log may show it.
fn without_secrets(line: &[u8]) -> String {
    let name = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    let name: Vec<u8> = name.iter().copied().filter(|byte| !b"\"'".contains(byte)).collect();
    let secret = match find(&name) {
        Some(index) => DIRECTIVES[index].flags.contains(Flags::SENSITIVE),
        None => name.eq_ignore_ascii_case(b"user"),
    };
    match secret {
        true => format!("{} (redacted)", String::from_utf8_lossy(&name)),
        false => String::from_utf8_lossy(line).into_owned(),
    }
}

struct Loader {
    config: Config,
    depth: usize,
}

impl Loader {
    fn read_file(&mut self, path: &Path) -> Result<(), StartError> {
        let text = std::fs::read(path)
            .map_err(|error| StartError::Unreadable { path: path.to_owned(), reason: os_reason(&error) })?;
        self.read_lines(&text, |number| LineSource::File { path: path.to_owned(), number })
    }

    fn read_lines(&mut self, text: &[u8], source: impl Fn(usize) -> LineSource) -> Result<(), StartError> {
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            split_words(line)
                .map_err(|_| Stop::Here("Unbalanced quotes in configuration line".into()))
                .and_then(|words| self.take_words(words))
                .map_err(|stop| stop.at(source(index + 1), line))?;
        }
        Ok(())
    }

    /// Applies a line.
    fn take_words(&mut self, words: Vec<Vec<u8>>) -> Result<(), Stop> {
        let Some((name, values)) = words.split_first() else {
            return Ok(());
        };
        if let Some(index) = find(name) {
            return Ok(self.config.set_words(index, values)?);
        }
        match (name.to_ascii_lowercase().as_slice(), values) {
            (b"include", [pattern]) => self.include(pattern),
            (b"user", [_, ..]) => {
                self.config.users.push(values.to_vec());
                Ok(())
            }
            (b"rename-command", [from, to]) => {
                self.config.renamed_commands.push((from.clone(), to.clone()));
                Ok(())
            }
            (b"loadmodule", [_, ..]) => Err(Stop::Here("modules are not supported".into())),
            (b"sentinel", _) => Err(Stop::Here("Sentinel mode is not supported".into())),
            (forgotten, [_]) if FORGOTTEN.contains(&forgotten) => Ok(()),
            _ => Err(Stop::Here(BAD_DIRECTIVE)),
        }
    }

    /// Reads the files a path or a pattern names, in alphabetical order; a pattern may name none. Relative paths begin
    /// at the working directory, which a `dir` above has changed.
    fn include(&mut self, pattern: &[u8]) -> Result<(), Stop> {
        if self.depth == INCLUDE_DEPTH_MAX {
            return Err(Stop::Here("files include one another too deeply".into()));
        }
        let path = self.directory().join(OsStr::from_bytes(pattern));
        let paths = if is_pattern(pattern) { expand(&path) } else { vec![path] };
        self.depth += 1;
        paths.iter().try_for_each(|path| self.read_file(path)).map_err(Stop::Included)?;
        self.depth -= 1;
        Ok(())
    }

    fn directory(&self) -> PathBuf {
        match find(b"dir").map(|index| &self.config.values[index]) {
            Some(Value::Text(dir)) => PathBuf::from(OsStr::from_bytes(dir)),
            _ => PathBuf::new(),
        }
    }
}

fn is_pattern(path: &[u8]) -> bool {
    path.iter().any(|byte| b"*?[".contains(byte))
}

/// The paths there are that match `pattern`, sorted. Names that begin with a dot only match a dot.
fn expand(pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let name = component.as_os_str().as_bytes();
        if !is_pattern(name) {
            found.iter_mut().for_each(|path| path.push(component));
            continue;
        }
        let entries = found.iter().filter_map(|directory| std::fs::read_dir(directory).ok()).flatten().flatten();
        let matching = entries.filter(|entry| {
            let entry_name = entry.file_name();
            let hidden = entry_name.as_bytes().starts_with(b".") && !name.starts_with(b".");
            !hidden && glob_match(name, entry_name.as_bytes(), false)
        });
        found = matching.map(|entry| entry.path()).collect();
    }
    found.retain(|path| path.exists());
    found.sort();
    found
}

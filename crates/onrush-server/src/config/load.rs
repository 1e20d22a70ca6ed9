//! Making the first configuration from files, standard input and options.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::arguments::CommandLine;
use super::directive::Flags;
use super::text::os_reason;
use super::users;
use super::words::Reason;
use super::{Config, DIRECTIVES, find};
use onrush_engine::command::CommandTable;
use onrush_engine::commands::FAMILIES;
use onrush_engine::formats::glob::glob_match;
use onrush_resp::{REDIS_VERSION, quoted, split_words};

/// How deep files may include one another.
const INCLUDE_DEPTH_MAX: usize = 16;

/// Directives that Redis once had and now ignores silently.
const FORGOTTEN: [&[u8]; 3] = [b"list-max-ziplist-entries", b"list-max-ziplist-value", b"lua-replicate-commands"];

const BAD_DIRECTIVE: Reason = Reason::Borrowed("Bad directive or wrong number of arguments");
const NO_MODULES: Reason = Reason::Borrowed("modules are not supported");
const NO_SENTINEL: Reason = Reason::Borrowed("sentinel directive while not in sentinel mode");
const TOO_DEEP: Reason = Reason::Borrowed("files include one another too deeply");
const UNBALANCED: Reason = Reason::Borrowed("Unbalanced quotes in configuration line");

/// The configuration a server starts with.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// The absolute path of the file it came from, if there was one; CONFIG REWRITE writes there.
    pub config_file: Option<PathBuf>,
}

/// Where a line stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Its number, from 1. As in Redis, lines of standard input follow those of the file, and the options follow these
    /// behind an empty line.
    pub number: usize,
    /// The included file, whose own lines are counted then.
    pub included: Option<PathBuf>,
    /// The line; what might be a secret is left out.
    pub line: String,
}

impl Place {
    fn of_included(&self) -> String {
        let shown =
            self.included.as_ref().map(|path| format!("\nThe line is in the included file '{}'", path.display()));
        shown.unwrap_or_default()
    }
}

/// Why the server cannot start. The text has no end of the last line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// A line is wrong. The text is redis-server's, and names the file if it is an included one.
    #[error(
        "\n{}\nReading the configuration file, at line {}\n>>> '{}'\n{reason}{}",
        fatal_error(), .place.number, .place.line, .place.of_included()
    )]
    Line {
        /// The line.
        place: Place,
        /// What is wrong.
        reason: Reason,
    },
    /// A file cannot be read.
    #[error("Fatal error, can't open config file '{}': {reason}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// The first line about a configuration that the server cannot start with.
pub fn fatal_error() -> String {
    format!("*** FATAL CONFIG FILE ERROR (Redis {REDIS_VERSION}) ***")
}

/// Reads the configuration a command line asks for; `stdin` is read if it says so.
///
/// # Errors
/// The first line that is wrong, or a file that cannot be read.
pub fn load(command_line: &CommandLine, stdin: &mut dyn Read) -> Result<Loaded, StartError> {
    let mut loader = Loader::default();
    let mut config_file = None;
    let mut lines = 0;
    if let Some(path) = &command_line.file {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        lines += loader.read_lines(&read_file(&path)?, 0, None)?;
        config_file = Some(path);
    }
    if command_line.stdin {
        let mut text = Vec::new();
        stdin
            .read_to_end(&mut text)
            .map_err(|error| StartError::Unreadable { path: "-".into(), reason: os_reason(&error) })?;
        lines += loader.read_lines(&text, lines, None)?;
    }
    for (index, words) in command_line.options.iter().enumerate() {
        let values = words[1..].iter().map(|word| quoted(word));
        let line = std::iter::once(String::from_utf8_lossy(&words[0]).into_owned()).chain(values);
        let line = without_secrets(line.collect::<Vec<_>>().join(" ").as_bytes());
        loader.place = Place { number: lines + 2 + index, included: None, line };
        loader.take_words(words)?;
    }
    let Loader { mut config, .. } = loader;
    config.refresh();
    Ok(Loaded { config, config_file })
}

fn read_file(path: &Path) -> Result<Vec<u8>, StartError> {
    let unreadable = |reason| StartError::Unreadable { path: path.to_owned(), reason };
    if is_fifo_on_disk(path) {
        return Err(unreadable("a fifo; `-` reads a configuration from the standard input".to_owned()));
    }
    std::fs::read(path).map_err(|error| unreadable(os_reason(&error)))
}

/// Whether it is a fifo in a folder, for whose writer the start could wait for ever. Pipes that are open already, as
/// `/dev/stdin` and those of a shell's `<(…)`, have a writer.
fn is_fifo_on_disk(path: &Path) -> bool {
    let is_fifo = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo());
    is_fifo && path.canonicalize().is_ok()
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

/// What reads lines.
#[derive(Default)]
struct Loader {
    config: Config,
    /// How many files include one another where it reads.
    depth: usize,
    /// The commands under their new names, once a line needs them.
    commands: Option<CommandTable>,
    /// The present line.
    place: Place,
}

impl Loader {
    /// Applies the lines of a text; returns how many it has. The first one has the number after `before`.
    fn read_lines(&mut self, text: &[u8], before: usize, included: Option<&Path>) -> Result<usize, StartError> {
        let mut count = 0;
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            count += 1;
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let included = included.map(Path::to_owned);
            self.place = Place { number: before + count, included, line: without_secrets(line) };
            self.take_words(&split_words(line).ok_or_else(|| self.wrong(UNBALANCED))?)?;
        }
        Ok(count)
    }

    /// What is wrong with the present line.
    fn wrong(&self, reason: Reason) -> StartError {
        StartError::Line { place: self.place.clone(), reason }
    }

    /// Applies a line.
    fn take_words(&mut self, words: &[Vec<u8>]) -> Result<(), StartError> {
        let Some((name, values)) = words.split_first() else {
            return Ok(());
        };
        let taken = match (name.to_ascii_lowercase().as_slice(), values) {
            _ if let Some(index) = find(name) => self.config.set_words(index, values),
            (b"include", [pattern]) => return self.include(pattern),
            (b"user", [name, rules @ ..]) => self.take_user(name, rules),
            (b"rename-command", [from, to]) => self.rename(from, to),
            (b"loadmodule", [_, ..]) => Err(NO_MODULES),
            (b"sentinel", _) => Err(NO_SENTINEL),
            (forgotten, [_]) if FORGOTTEN.contains(&forgotten) => Ok(()),
            _ => Err(BAD_DIRECTIVE),
        };
        taken.map_err(|reason| self.wrong(reason))
    }

    fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<(), Reason> {
        let commands = self.commands.take().unwrap_or_else(|| CommandTable::new(FAMILIES));
        let pair = (from.to_vec(), to.to_vec());
        self.commands = Some(commands.renamed(std::slice::from_ref(&pair))?);
        self.config.renamed_commands.push(pair);
        Ok(())
    }

    fn take_user(&mut self, name: &[u8], rules: &[Vec<u8>]) -> Result<(), Reason> {
        let line = users::parse(name, rules, self.place.included.is_some(), &self.config.users)?;
        users::check(&line, self.commands.get_or_insert_with(|| CommandTable::new(FAMILIES)))?;
        self.config.users.push(line);
        Ok(())
    }

    /// Reads the files a path or a pattern names, in alphabetical order; a pattern may name none. Relative paths begin
    /// at the working directory, which a `dir` above has changed.
    fn include(&mut self, pattern: &[u8]) -> Result<(), StartError> {
        if self.depth == INCLUDE_DEPTH_MAX {
            return Err(self.wrong(TOO_DEEP));
        }
        let directory = PathBuf::from(OsString::from_vec(self.config.get("dir").unwrap_or_default()));
        let path = directory.join(OsStr::from_bytes(pattern));
        let paths = if is_pattern(pattern) { expand(&path) } else { vec![path] };
        let place = self.place.clone();
        self.depth += 1;
        for path in paths {
            self.read_lines(&read_file(&path)?, 0, Some(&path))?;
        }
        self.depth -= 1;
        self.place = place;
        Ok(())
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

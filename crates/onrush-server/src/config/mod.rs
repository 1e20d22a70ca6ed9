//! The configuration: files in the format of `redis.conf`, `--name value` arguments, and what CONFIG GET, SET and
//! REWRITE read and change.
//!
//! [`DIRECTIVES`] is the single source of truth: names, aliases, ranges, defaults, and what the server does not do. A
//! [`Config`] holds a value for each of its rows; [`Settings`], which a `Config` dereferences to, holds the same values
//! as typed fields. [`parse_arguments`] and [`fn@load`] make the first `Config`; [`Config::set_many`] makes a changed
//! copy and leaves the original alone, so a change that fails half-way has no effect.
//!
//! Nothing here opens sockets, changes the working directory or writes to the log: directives that need this have
//! [`Flags::APPLY`], and the code that takes over a changed `Config` does it.

mod arguments;
mod directive;
#[cfg(test)]
mod docs;
mod limits;
mod load;
mod rewrite;
mod settings;
mod table;
mod text;
mod users;
mod value;
mod words;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::sync::LazyLock;

pub use arguments::{CommandLine, Invocation, parse_arguments, usage, version};
pub use directive::{Directive, Flags, Kind, TextRule};
pub use load::{Loaded, Place, StartError, fatal_error, load};
pub use rewrite::{RewriteError, replace_file};
pub use settings::{Access, Secret};
pub use table::{DIRECTIVES, Settings};
pub use text::os_reason;
pub use users::{UserLine, UserLines};
pub use value::{SavePoint, Value};
pub use words::Reason;

use onrush_engine::formats::glob::glob_match;

/// Rows of the table by name and alias.
static INDEX: LazyLock<HashMap<&'static str, usize>> = LazyLock::new(|| {
    let rows = DIRECTIVES.iter().enumerate();
    rows.flat_map(|(index, row)| [Some(row.name), row.alias].into_iter().flatten().map(move |name| (name, index)))
        .collect()
});

/// Values when nothing sets them.
static DEFAULTS: LazyLock<Vec<Value>> = LazyLock::new(|| DIRECTIVES.iter().map(default_value).collect());

/// The row with this name or alias, in any case.
fn find(name: &[u8]) -> Option<usize> {
    let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
    INDEX.get(name.as_str()).copied()
}

fn default_value(directive: &Directive) -> Value {
    let words = match directive.name {
        "workers" => vec![std::thread::available_parallelism().map_or(1, usize::from).to_string().into_bytes()],
        // Checked at start only: if the directory disappears later, that is not an error here.
        "dir" => {
            return Value::Text(std::env::current_dir().unwrap_or_else(|_| "/".into()).into_os_string().into_vec());
        }
        _ => match onrush_resp::split_words(directive.default.as_bytes()) {
            Some(words) if !words.is_empty() => words,
            _ => vec![Vec::new()],
        },
    };
    let nothing = Value::Text(Vec::new());
    match Value::parse(directive, &words, &nothing) {
        Ok(value) => value,
        Err(reason) => unreachable!("default of {}: {reason}", directive.name),
    }
}

/// A value for every directive.
#[derive(Clone)]
pub struct Config {
    settings: Settings,
    /// One per row of the table.
    values: Vec<Value>,
    /// Commands to be renamed, and their new names; an empty one takes the command away.
    pub renamed_commands: Vec<(Vec<u8>, Vec<u8>)>,
    /// Users, in the order of their lines.
    pub users: Vec<UserLine>,
    /// Whether a line has set `save`; the first one replaces the default, later ones add to it.
    save_given: bool,
}

/// A configuration that CONFIG SET has changed.
#[derive(Debug)]
pub struct Change {
    /// The whole of it.
    pub config: Config,
    /// The directives that changed, each once. Those with [`Flags::APPLY`] need more than the new value.
    pub changed: Vec<&'static Directive>,
}

/// Why CONFIG SET changed nothing. The text is the error reply's, without the leading dash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigSetError {
    /// There is no such directive.
    #[error("ERR Unknown option or number of arguments for CONFIG SET - '{}'", one_line(.name))]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The directive may not change, or not to this value.
    #[error("ERR CONFIG SET failed (possibly related to argument '{}') - {reason}", one_line(.name))]
    Failed {
        /// The directive.
        name: String,
        /// Why.
        reason: Reason,
    },
}

impl ConfigSetError {
    /// The error when a change could not be applied, such as a port that is taken.
    pub fn failed(name: &str, reason: impl Into<Reason>) -> Self {
        Self::Failed { name: name.to_owned(), reason: reason.into() }
    }
}

/// A name comes from the client and must not end the reply's line.
fn one_line(name: &str) -> String {
    name.replace(['\r', '\n'], " ")
}

impl Default for Config {
    /// All defaults. The directory is the one the process was in when the first `Config` was made.
    fn default() -> Self {
        Self {
            settings: Settings::read(&DEFAULTS),
            values: DEFAULTS.clone(),
            renamed_commands: Vec::new(),
            users: Vec::new(),
            save_given: false,
        }
    }
}

impl std::ops::Deref for Config {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.settings
    }
}

/// What differs from the defaults; secrets only by name.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for (index, directive) in DIRECTIVES.iter().enumerate() {
            if self.values[index] == DEFAULTS[index] {
                continue;
            }
            match directive.flags.contains(Flags::SENSITIVE) {
                true => map.entry(&directive.name, &format_args!("(redacted)")),
                false => map.entry(&directive.name, &format_args!("{}", self.values[index])),
            };
        }
        map.finish()
    }
}

impl Config {
    /// The value of one directive, by name or alias in any case, as CONFIG GET answers it.
    pub fn get(&self, name: &str) -> Option<Vec<u8>> {
        find(name.as_bytes()).map(|index| self.values[index].to_bytes())
    }

    /// The names that match any of the patterns, with their values, each name once and in the order of the table.
    ///
    /// A pattern without `*`, `?` and `[` is a name: it matches in any case and is answered as it was written. Aliases
    /// are names of their own. Hidden directives only match by name.
    pub fn get_matching(&self, patterns: &[&[u8]]) -> Vec<(String, Vec<u8>)> {
        let mut found = Vec::new();
        for (directive, value) in DIRECTIVES.iter().zip(&self.values) {
            for name in [Some(directive.name), directive.alias].into_iter().flatten() {
                let hidden = directive.flags.contains(Flags::HIDDEN);
                if let Some(answered) = patterns.iter().find_map(|pattern| match_name(pattern, name, hidden)) {
                    found.push((answered, value.to_bytes()));
                }
            }
        }
        found
    }

    /// This configuration with other values for some directives: either all change, or none and an error is returned.
    ///
    /// `local`: the client is on this machine, which `enable-protected-configs local` requires.
    ///
    /// # Errors
    /// The first error: an unknown name, a repeated name, a directive that must not change, an invalid value.
    pub fn set_many(&self, pairs: &[(&[u8], &[u8])], local: bool) -> Result<Change, ConfigSetError> {
        let mut rows: Vec<(usize, &[u8])> = Vec::with_capacity(pairs.len());
        for (position, (name, value)) in pairs.iter().enumerate() {
            let typed = String::from_utf8_lossy(name);
            let Some(index) = find(name) else {
                return Err(ConfigSetError::Unknown { name: typed.into_owned() });
            };
            let flags = DIRECTIVES[index].flags;
            if flags.contains(Flags::IMMUTABLE) {
                return Err(ConfigSetError::failed(&typed, "can't set immutable config"));
            }
            if flags.contains(Flags::PROTECTED) && !self.enable_protected_configs.allows(local) {
                return Err(ConfigSetError::failed(&typed, "can't set protected config"));
            }
            if pairs[..position].iter().any(|(earlier, _)| earlier.eq_ignore_ascii_case(name)) {
                return Err(ConfigSetError::failed(&typed, "duplicate parameter"));
            }
            rows.push((index, *value));
        }
        let mut config = self.clone();
        for (&(index, value), (name, _)) in rows.iter().zip(pairs) {
            config.save_given = false;
            let failed = |reason| {
                ConfigSetError::failed(&String::from_utf8_lossy(name).to_ascii_lowercase(), Reason::from(reason))
            };
            config.set_words(index, &[value.to_vec()]).map_err(failed)?;
        }
        config.save_given = self.save_given;
        config.refresh();
        let reloads = |index: usize| DIRECTIVES[index].flags.contains(Flags::RELOADS);
        let is_changed = |index: &usize| reloads(*index) || config.values[*index] != self.values[*index];
        let changed: BTreeSet<usize> = rows.iter().map(|(index, _)| *index).filter(is_changed).collect();
        Ok(Change { config, changed: changed.into_iter().map(|index| &DIRECTIVES[index]).collect() })
    }

    /// This configuration with another primary, `host port`, or none.
    #[must_use]
    pub fn with_primary(mut self, primary: &str) -> Self {
        self.put(b"replicaof", Value::Text(primary.as_bytes().to_vec()));
        self
    }

    /// The directives that are set to something but do nothing, and why.
    pub fn without_effect(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let rows = DIRECTIVES.iter().zip(&self.values).zip(DEFAULTS.iter());
        rows.filter(|((_, value), default)| value != default)
            .filter_map(|((directive, _), _)| directive.no_effect.map(|why| (directive.name, why)))
    }

    /// Lowers `maxclients` to this value, but not below one. Never raises it.
    pub fn lower_maxclients(&mut self, maxclients: u64) {
        self.put(b"maxclients", Value::Integer(self.maxclients.min(maxclients.max(1)) as i64));
    }

    fn put(&mut self, name: &[u8], value: Value) {
        if let Some(index) = find(name) {
            self.values[index] = value;
            self.refresh();
        }
    }

    /// Sets the value of a row from the words after its name; call [`refresh`](Self::refresh) afterwards for the typed
    /// fields.
    fn set_words(&mut self, index: usize, words: &[Vec<u8>]) -> Result<(), Reason> {
        let directive = &DIRECTIVES[index];
        let no_points = Value::SavePoints(Vec::new());
        let is_save = matches!(directive.kind, Kind::SavePoints);
        let current = if is_save && !self.save_given { &no_points } else { &self.values[index] };
        let value = Value::parse(directive, words, current)?;
        self.save_given |= is_save;
        self.values[index] = value;
        Ok(())
    }

    fn refresh(&mut self) {
        self.settings = Settings::read(&self.values);
    }
}

/// The value of `name`, if `pattern` matches it.
fn match_name(pattern: &[u8], name: &str, hidden: bool) -> Option<String> {
    if pattern.iter().any(|byte| b"*?[".contains(byte)) {
        return (!hidden && glob_match(pattern, name.as_bytes(), true)).then(|| name.to_owned());
    }
    let same = pattern.eq_ignore_ascii_case(name.as_bytes());
    same.then(|| String::from_utf8_lossy(pattern).into_owned())
}

#[cfg(test)]
mod tests;

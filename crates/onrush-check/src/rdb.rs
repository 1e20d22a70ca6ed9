//! Checks RDB files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use onrush_persist::rdb::{Batch, Collected, Collector, FileReader, Item, Items, Key, RdbError, Scratch};

use crate::progress::Progress;
use crate::say;

/// What a file holds.
#[derive(Default)]
struct Summary {
    databases: BTreeSet<u64>,
    /// Keys by type.
    keys: BTreeMap<&'static str, u64>,
    functions: u64,
    expiring: u64,
    expired: u64,
    /// Collections without elements, which a server skips.
    empty: u64,
    /// The last key whose value is whole, and its place.
    last_key: Option<String>,
    now_ms: i64,
}

/// Checks a file and prints what it holds.
///
/// # Errors
/// What is wrong, for the user.
pub fn check(path: &Path) -> Result<(), String> {
    let name = path.display().to_string();
    let failed = |error: std::io::Error| format!("{name}: {error}");
    let file = File::open(path).map_err(failed)?;
    let len = file.metadata().map_err(failed)?.len();
    let mut reader = FileReader::new(file).map_err(|error| format!("{name}: {error}"))?;
    check_reader(&mut reader, &name, len)?;
    let rest = len.saturating_sub(reader.offset());
    if rest > 0 {
        say!("{name}: {rest} bytes follow the end of the snapshot");
    }
    Ok(())
}

/// Reads a file to its end and prints what it holds.
///
/// # Errors
/// What is wrong, for the user.
pub fn check_reader(reader: &mut FileReader<impl Read>, name: &str, len: u64) -> Result<(), String> {
    say!("{name}: RDB version {}", reader.version());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut summary = Summary { now_ms: now.as_millis() as i64, ..Summary::default() };
    let (mut batch, mut progress) = (Batch::default(), Progress::new(name, len));
    let read = loop {
        match reader.next_batch(&mut batch) {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(error) => {
                // The whole items before the error count; an error in them comes first.
                break summary.take(batch.items()).and(Err(error));
            }
        }
        if let Err(error) = summary.take(batch.items()) {
            break Err(error);
        }
        progress.at(reader.offset());
    };
    summary.print();
    match read {
        Ok(()) => {
            say!("{name} is whole: {} bytes", reader.offset());
            Ok(())
        }
        Err(error) => {
            let behind = summary.last_key.map_or(String::new(), |key| format!("; the last whole key is {key}"));
            Err(format!("{name} is damaged: {error}{behind}"))
        }
    }
}

impl Summary {
    fn take(&mut self, mut items: Items<'_>) -> Result<(), RdbError> {
        let mut scratch = Scratch::default();
        while let Some(item) = items.next()? {
            match item {
                Item::Aux { name, value } => say!("  {}: {}", name.escape_ascii(), value.escape_ascii()),
                Item::Function(_) => self.functions += 1,
                Item::Key(key) => {
                    let raw = items.raw_value()?;
                    let mut collector = Collector::default();
                    let kind = match raw.decode(&mut collector, &mut scratch) {
                        Ok(()) => collector.into_value().map_or("values", |value| kind(&value)),
                        Err(RdbError::Module { .. }) => "values of modules (not supported)",
                        Err(RdbError::Empty { .. }) => {
                            self.empty += 1;
                            continue;
                        }
                        Err(error) => return Err(error),
                    };
                    self.count(&key, kind);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn count(&mut self, key: &Key<'_>, kind: &'static str) {
        self.databases.insert(key.db);
        *self.keys.entry(kind).or_default() += 1;
        if let Some(expires_at_ms) = key.expires_at_ms {
            self.expiring += 1;
            self.expired += u64::from(expires_at_ms <= self.now_ms);
        }
        let name = &key.name[..key.name.len().min(64)];
        self.last_key = Some(format!("\"{}\" of database {}", name.escape_ascii(), key.db));
    }

    fn print(&self) {
        let all: u64 = self.keys.values().sum();
        let databases = self.databases.len();
        say!("  {all} keys in {databases} databases, {} expire, {} have expired", self.expiring, self.expired);
        for (kind, count) in &self.keys {
            say!("  {count} {kind}");
        }
        if self.functions > 0 {
            say!("  {} libraries of functions", self.functions);
        }
        if self.empty > 0 {
            say!("  {} collections without elements, which a server passes over", self.empty);
        }
    }
}

fn kind(value: &Collected) -> &'static str {
    match value {
        Collected::String(_) => "strings",
        Collected::List(_) => "lists",
        Collected::Set(_) => "sets",
        Collected::SortedSet(_) => "sorted sets",
        Collected::Hash(_) => "hashes",
        Collected::Stream(_) => "streams",
    }
}

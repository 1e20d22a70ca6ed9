//! From the items of RDB files to keys.

use std::sync::atomic::Ordering::Relaxed;

use onrush_persist::rdb::{Batch, Item, Items, Key, RdbError};
use onrush_store::clock;

use super::Present;
use crate::commit::AccessClock;
use crate::ctx::Engine;
use crate::scripts::{Policy, load_library};
use crate::types::producers;
use crate::types::rdb::Restorer;

/// Why a file cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read, or is malformed.
    #[error(transparent)]
    File(#[from] RdbError),
    /// A key that the file has twice.
    #[error("the key '{0}' of database {1} comes twice")]
    Duplicate(String, u64),
    /// A database that does not exist.
    #[error("database {0} is out of range: there are {1} databases")]
    Database(u64, usize),
    /// What a stream remembers of its producers cannot be read.
    #[error("what a stream remembers of its producers is malformed")]
    Producers,
    /// A library of functions that does not compile.
    #[error("a library of functions cannot be loaded: {0}")]
    Library(String),
}

/// What to do with keys that have expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    /// They are left out.
    LeftOut,
    /// They are loaded: commands of a log follow, which may depend on them.
    Loaded,
}

/// How a file is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// For keys that have expired.
    pub expired: Expired,
    /// For keys that are there already.
    pub present: Present,
}

impl Rules {
    /// Into an empty keyspace, without keys that have expired.
    pub const SNAPSHOT: Self = Self { expired: Expired::LeftOut, present: Present::Refused };
    /// Into an empty keyspace, before commands of a log.
    pub const LOG_BASE: Self = Self { expired: Expired::Loaded, present: Present::Refused };
}

/// Loads a part of a file. Any number of threads may load parts of one file at a time; no other commands are executed meanwhile.
///
/// # Errors
/// Why it cannot be loaded; keys before that stay.
pub fn load_batch(engine: &'static Engine, batch: &Batch, rules: Rules) -> Result<(), LoadError> {
    let now_ms = engine.clock.unix_ms();
    let (mut keys, mut expired_keys) = (0, 0);
    let mut items = batch.items();
    while let Some(item) = items.next()? {
        match item {
            Item::Key(key) => {
                let is_expired = key.expires_at_ms.is_some_and(|at| at <= now_ms);
                if is_expired && rules.expired == Expired::LeftOut {
                    expired_keys += 1;
                } else {
                    keys += u64::from(load_key(engine, &mut items, &key, now_ms, rules)?);
                }
            }
            Item::Function(text) => {
                let policy = if rules.present == Present::Replaced { Policy::Replace } else { Policy::Append };
                load_library(engine, &text, policy)
                    .map_err(|error| LoadError::Library(String::from_utf8_lossy(error.as_bytes()).into_owned()))?;
            }
            // Another thread may have the stream.
            Item::Aux { name, value } if *name == *producers::NAME => engine.loading.kept.lock().push(value.to_vec()),
            Item::Aux { name, value } => engine.loading.note_aux(&name, &value),
            _ => {}
        }
    }
    engine.loading.add_keys(keys, expired_keys);
    Ok(())
}

/// Loads what could not be loaded before all parts of the file were: what streams remember of their producers.
///
/// # Errors
/// It is malformed.
pub fn load_end(engine: &'static Engine) -> Result<(), LoadError> {
    let kept = std::mem::take(&mut *engine.loading.kept.lock());
    for value in kept {
        producers::apply(engine, &value).ok_or(LoadError::Producers)?;
    }
    Ok(())
}

/// Checks that a part of a file can be read, and changes nothing.
///
/// # Errors
/// As for [`load_batch`], but for what depends on the data that is there.
pub fn check_batch(engine: &Engine, batch: &Batch) -> Result<(), LoadError> {
    let mut items = batch.items();
    while let Some(item) = items.next()? {
        let Item::Key(key) = item else { continue };
        database_of(engine, &key)?;
        read_value(&mut items, &mut Restorer::new(&engine.settings.encodings))?;
    }
    Ok(())
}

/// The number of a key's database.
fn database_of(engine: &Engine, key: &Key<'_>) -> Result<usize, LoadError> {
    let databases = engine.keyspace.databases();
    let number = usize::try_from(key.db).ok().filter(|number| *number < databases);
    number.ok_or(LoadError::Database(key.db, databases))
}

/// Reads the value of a key; returns whether there is one.
fn read_value(items: &mut Items<'_>, restorer: &mut Restorer<'_>) -> Result<bool, LoadError> {
    match items.value(restorer) {
        Ok(()) => Ok(true),
        // Old servers have saved empty collections.
        Err(RdbError::Empty { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Loads a key; returns whether there is anything to load.
fn load_key(
    engine: &Engine,
    items: &mut Items<'_>,
    key: &Key<'_>,
    now_ms: i64,
    rules: Rules,
) -> Result<bool, LoadError> {
    let mut restorer = Restorer::new(&engine.settings.encodings);
    if !read_value(items, &mut restorer)? {
        return Ok(false);
    }
    let Some(value) = restorer.into_value() else { return Ok(false) };
    let number = database_of(engine, key)?;
    let hash = engine.keyspace.hash(&key.name);
    let mut table = engine.keyspace.db_or_create(number).shard_of(hash).lock();
    let is_present = table.get(&key.name, hash).is_some();
    if is_present && rules.present == Present::Refused {
        return Err(LoadError::Duplicate(key.name.escape_ascii().to_string(), key.db));
    }
    let replaced = if is_present { table.remove(&key.name, hash) } else { None };
    let clock = clock_of(engine, key, now_ms);
    table.insert(&key.name, hash, value, key.expires_at_ms, clock);
    drop(table);
    // Freeing may take long, so it comes after the lock has gone back.
    drop(replaced);
    Ok(true)
}

fn clock_of(engine: &Engine, key: &Key<'_>, now_ms: i64) -> u32 {
    if engine.settings.lfu.load(Relaxed) {
        return clock::lfu(key.freq.unwrap_or(clock::LFU_INIT), now_ms);
    }
    match key.idle_s {
        Some(idle_s) => clock::lru_from_idle(u32::try_from(idle_s).unwrap_or(u32::MAX), now_ms),
        None => AccessClock::at(&engine.settings, now_ms, false).fresh(),
    }
}

//! Commands about keys of any type: deleting, renaming, copying, looking at them.

pub(crate) mod dump;
pub(crate) mod expire;
pub(crate) mod flush;
pub(crate) mod migrate;
pub(crate) mod scan;
pub(crate) mod sort;
pub(crate) mod sort_specs;
pub(crate) mod specs;

use std::sync::atomic::Ordering::Relaxed;

use onrush_cluster::slots::slot;
use onrush_resp::parse_i64;
use onrush_store::{Entry, NewValue, Value, ValueRef, clock};
use smallvec::SmallVec;

use crate::commit::Key;
use crate::ctx::{CommandResult, Ctx, Engine, EventClass};
use crate::error::{self, CommandError, Stop};
use crate::settings::Pause;

const NO_MOVE: CommandError = CommandError::fixed("ERR MOVE is not allowed in cluster mode");
const INT_OUT_OF_RANGE: CommandError =
    CommandError::fixed("ERR value is out of range, value must between -2147483648 and 2147483647");
const LFU_SELECTED: CommandError = CommandError::fixed(
    "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between \
     policies at runtime LRU and LFU data will take some time to adjust.",
);
const LFU_NOT_SELECTED: CommandError = CommandError::fixed(
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching \
     between policies at runtime LRU and LFU data will take some time to adjust.",
);

/// `DEL key [key …]`, also as UNLINK: both free large values in the background.
pub(crate) fn del(ctx: &mut Ctx<'_>) -> CommandResult {
    lock_arguments(ctx)?;
    let mut deleted = 0;
    for index in 1..ctx.argc() {
        let key = ctx.key(index);
        deleted += i64::from(delete(ctx, ctx.commit.db(), &key));
    }
    ctx.reply_int(deleted)
}

/// Deletes a key whose shard is locked, or which is the command's only key; returns whether it was there.
fn delete(ctx: &mut Ctx<'_>, db: u32, key: &Key<'_>) -> bool {
    let Some(slot) = ctx.commit.write_in(db, key) else { return false };
    let removed = slot.remove();
    ctx.commit.discard(Some(removed));
    ctx.changed_in(db, EventClass::Generic, "del", key.bytes);
    true
}

/// `EXISTS key [key …]`: a key named twice counts twice.
pub(crate) fn exists(ctx: &mut Ctx<'_>) -> CommandResult {
    lock_arguments(ctx)?;
    let mut found = 0;
    for index in 1..ctx.argc() {
        let key = ctx.key(index);
        found += i64::from(inspect(ctx, &key, |_| ()).is_some());
    }
    ctx.reply_int(found)
}

/// `TOUCH key [key …]`
pub(crate) fn touch(ctx: &mut Ctx<'_>) -> CommandResult {
    lock_arguments(ctx)?;
    let mut found = 0;
    for index in 1..ctx.argc() {
        let key = ctx.key(index);
        found += i64::from(ctx.commit.read(&key).is_some());
    }
    ctx.reply_int(found)
}

/// `TYPE key`
pub(crate) fn type_(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let name = inspect(ctx, &key, |entry| entry.ty().name());
    ctx.reply_simple(name.unwrap_or("none"))
}

/// Locks all arguments as keys if there are several; a single one is locked when it is touched.
fn lock_arguments(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.argc() > 2 {
        let db = ctx.commit.db();
        let keys: SmallVec<[_; 16]> = (1..ctx.argc()).map(|index| (db, ctx.key(index).hash)).collect();
        ctx.commit.lock_all(keys)?;
    }
    Ok(())
}

/// Locks keys of the present database together.
pub(super) fn lock<'k, 'a: 'k>(ctx: &mut Ctx<'_>, keys: impl IntoIterator<Item = &'k Key<'a>>) -> CommandResult {
    let db = ctx.commit.db();
    Ok(ctx.commit.lock_all(keys.into_iter().map(|key| (db, key.hash)))?)
}

/// Locks the keys among some arguments together.
pub(super) fn lock_keys<'a>(ctx: &mut Ctx<'a>, indexes: std::ops::Range<usize>) -> Result<Vec<Key<'a>>, Stop> {
    let keys: Vec<Key<'a>> = indexes.map(|index| ctx.key(index)).collect();
    lock(ctx, &keys)?;
    Ok(keys)
}

/// The result of `look` on a key's entry. Counts as a hit or a miss, but keeps the access clock.
pub(super) fn inspect<R>(ctx: &mut Ctx<'_>, key: &Key<'_>, look: impl FnOnce(&Entry) -> R) -> Option<R> {
    ctx.commit.untouched(|keys| keys.read(key).map(look))
}

/// As [`inspect`], for OBJECT: a missing key is no event.
fn inspect_object<R>(ctx: &mut Ctx<'_>, key: &Key<'_>, look: impl FnOnce(&Entry) -> R) -> Option<R> {
    ctx.commit.untouched(|keys| keys.look(key).map(look))
}

/// The cost of reading a whole value, in elements of a collection. O(1), of small collections O(elements).
pub(super) fn work_on(entry: &Entry) -> usize {
    /// Bytes that take about as long as an element.
    const BYTES_PER_ELEMENT: usize = 256;
    match entry.value() {
        ValueRef::Collection(collection) => collection.len(),
        value => value.len() / BYTES_PER_ELEMENT,
    }
}

/// `RENAME key newkey`
pub(crate) fn rename(ctx: &mut Ctx<'_>) -> CommandResult {
    if rename_generic(ctx, true)? {
        ctx.out.ok();
    }
    Ok(())
}

/// `RENAMENX key newkey`
pub(crate) fn renamenx(ctx: &mut Ctx<'_>) -> CommandResult {
    let renamed = rename_generic(ctx, false)?;
    ctx.reply_int(i64::from(renamed))
}

/// Renames the first key to the second; `overwrite`: the second may exist. Returns whether it did. Renaming a key to
/// itself returns `overwrite`.
fn rename_generic(ctx: &mut Ctx<'_>, overwrite: bool) -> Result<bool, Stop> {
    let (source, target) = (ctx.key(1), ctx.key(2));
    let db = ctx.commit.db();
    ctx.commit.lock_all([(db, source.hash), (db, target.hash)])?;
    if ctx.commit.write(&source).is_none() {
        return Err(error::NO_SUCH_KEY.into());
    }
    if source.bytes == target.bytes {
        return Ok(overwrite);
    }
    if let Some(slot) = ctx.commit.write(&target) {
        if !overwrite {
            return Ok(false);
        }
        let removed = slot.remove();
        ctx.commit.discard(Some(removed));
    }
    let Some(entry) = ctx.commit.remove(&source) else { return Err(error::NO_SUCH_KEY.into()) };
    let (expire, clock) = (entry.expire_at(), entry.clock());
    let value = NewValue::Owned(entry.into_value());
    ctx.commit.insert_in(db, &target, value, expire, clock);
    ctx.changed(EventClass::Generic, "rename_from", source.bytes);
    ctx.changed_too(EventClass::Generic, "rename_to", target.bytes);
    Ok(true)
}

/// `COPY source destination [DB destination-db] [REPLACE]`
pub(crate) fn copy(ctx: &mut Ctx<'_>) -> CommandResult {
    let db = ctx.commit.db();
    let (mut target_db, mut replace) = (db, false);
    let mut rest = ctx.rest(3);
    while !rest.is_empty() {
        if rest.take("REPLACE") {
            replace = true;
        } else if rest.take_with("DB", 1) {
            target_db = db_argument(ctx, rest.next_index())?;
        } else {
            return Err(error::SYNTAX.into());
        }
    }
    let (source, target) = (ctx.key(1), ctx.key(2));
    if db == target_db && source.bytes == target.bytes {
        return Err(error::SAME_OBJECT.into());
    }
    let copied = copy_generic(ctx, &source, target_db, &target, replace)?;
    ctx.reply_int(i64::from(copied))
}

fn copy_generic(
    ctx: &mut Ctx<'_>,
    source: &Key<'_>,
    target_db: u32,
    target: &Key<'_>,
    replace: bool,
) -> Result<bool, Stop> {
    if !lock_across(ctx, source, target_db, target)? {
        // It is not there.
        ctx.commit.read(source);
        return Ok(false);
    }
    let work = ctx.commit.peek(source).map_or(0, work_on);
    ctx.expect_work(work)?;
    let Some(entry) = ctx.commit.read(source) else { return Ok(false) };
    let (value, expire): (Value, _) = (entry.to_value(), entry.expire_at());
    if let Some(slot) = ctx.commit.write_in(target_db, target) {
        if !replace {
            return Ok(false);
        }
        let removed = slot.remove();
        ctx.commit.discard(Some(removed));
    }
    let clock = ctx.commit.fresh_clock();
    ctx.commit.insert_in(target_db, target, NewValue::Owned(value), expire, clock);
    ctx.changed_in(target_db, EventClass::Generic, "copy_to", target.bytes);
    Ok(true)
}

/// `MOVE key db`
pub(crate) fn move_(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.engine.cluster.is_some() {
        return Err(NO_MOVE.into());
    }
    let db = ctx.commit.db();
    let target_db = db_argument(ctx, 2)?;
    if db == target_db {
        return Err(error::SAME_OBJECT.into());
    }
    let key = ctx.key(1);
    let moved = move_generic(ctx, &key, target_db)?;
    ctx.reply_int(i64::from(moved))
}

fn move_generic(ctx: &mut Ctx<'_>, key: &Key<'_>, target_db: u32) -> Result<bool, Stop> {
    let db = ctx.commit.db();
    if !lock_across(ctx, key, target_db, key)?
        || ctx.commit.write(key).is_none()
        || ctx.commit.write_in(target_db, key).is_some()
    {
        return Ok(false);
    }
    let Some(entry) = ctx.commit.remove(key) else { return Ok(false) };
    ctx.commit.insert_entry(target_db, key, entry);
    ctx.changed_in(db, EventClass::Generic, "move_from", key.bytes);
    ctx.changed_in(target_db, EventClass::Generic, "move_to", key.bytes);
    // Both are one change.
    ctx.changes -= 1;
    Ok(true)
}

/// Locks a key of the present database and one of another. Does nothing and returns false if the first key does not
/// exist and neither does the other database: it would be made for nothing.
fn lock_across(ctx: &mut Ctx<'_>, source: &Key<'_>, target_db: u32, target: &Key<'_>) -> Result<bool, Stop> {
    if ctx.engine.keyspace.db(target_db as usize).is_none() && ctx.commit.peek(source).is_none() {
        return Ok(false);
    }
    let db = ctx.commit.db();
    ctx.commit.lock_all([(db, source.hash), (target_db, target.hash)])?;
    Ok(true)
}

/// Argument `index` as the number of a database.
pub(super) fn db_argument(ctx: &Ctx<'_>, index: usize) -> Result<u32, CommandError> {
    parse_db(ctx.arg(index), ctx.engine.keyspace.databases())
}

fn parse_db(text: &[u8], databases: usize) -> Result<u32, CommandError> {
    let number = parse_i64(text).ok_or(error::NOT_INTEGER)?;
    check_db(i32::try_from(number).map_err(|_| INT_OUT_OF_RANGE)?, databases)
}

/// A number as a database's number, if that database exists.
fn check_db(number: i32, databases: usize) -> Result<u32, CommandError> {
    u32::try_from(number).ok().filter(|&db| (db as usize) < databases).ok_or(error::DB_INDEX)
}

/// During a pause RANDOMKEY replies with an expired key after this many draws.
const PAUSED_DRAWS_MAX: usize = 100;

/// RANDOMKEY replies with null when it has drawn so many keys, and the last one is hidden.
const HIDDEN_DRAWS_MAX: usize = 1000;

/// `RANDOMKEY`
///
/// Deletes the expired keys that it draws, so each of them costs only one draw.
pub(crate) fn randomkey(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.commit.release();
    ctx.expect_shards(0)?;
    let now_ms = ctx.now_ms();
    let is_paused = ctx.engine.pause(now_ms) != Pause::None || ctx.engine.replication.role.is_replica();
    let Some(db) = ctx.engine.keyspace.db(ctx.commit.db() as usize) else { return ctx.reply_null() };
    let mut draws = 0;
    loop {
        let out = &mut *ctx.out;
        draws += 1;
        // During a pause expired keys stay, and there may be only such keys.
        let any = is_paused && draws > PAUSED_DRAWS_MAX;
        let drawn = db.random_entry(ctx.engine.draw_seed(), |entry| {
            if is_hidden(ctx.engine, entry.key()) {
                return Some(None);
            }
            if entry.is_expired(now_ms) && !any {
                return Some(Some(entry.key().to_vec()));
            }
            out.bulk(entry.key());
            None
        });
        match drawn {
            Some(None) => break,
            Some(Some(None)) if draws < HIDDEN_DRAWS_MAX => {}
            Some(Some(Some(expired))) => {
                let key = ctx.commit.key(&expired);
                ctx.commit.write(&key);
                ctx.commit.release();
            }
            None | Some(Some(None)) => {
                ctx.out.null();
                break;
            }
        }
    }
    Ok(())
}

/// Whether no client sees a key, since its slot has not come as a whole.
pub(crate) fn is_hidden(engine: &Engine, key: &[u8]) -> bool {
    engine.cluster.as_ref().is_some_and(|cluster| cluster.moves.hides_some() && cluster.moves.hides(slot(key)))
}

/// Keys that no client sees, and how many of them expire. O(slots that come).
pub(crate) fn count_hidden(engine: &Engine) -> (usize, usize) {
    let Some(cluster) = engine.cluster.as_ref().filter(|cluster| cluster.moves.hides_some()) else { return (0, 0) };
    let Some(db) = engine.keyspace.db(0) else { return (0, 0) };
    let hidden = cluster.moves.hidden();
    let lens = hidden.iter().map(|slot| db.shard(usize::from(slot))).map(|shard| (shard.len(), shard.volatile_len()));
    lens.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
}

/// `DBSIZE`: counts expired keys that are not deleted yet.
pub(crate) fn dbsize(ctx: &mut Ctx<'_>) -> CommandResult {
    // A shard's number of keys is published when its lock goes back.
    ctx.commit.release();
    let db = ctx.engine.keyspace.db(ctx.commit.db() as usize);
    let keys = db.map_or(0, |db| db.len()).saturating_sub(count_hidden(ctx.engine).0);
    ctx.reply_int(keys as i64)
}

/// `OBJECT ENCODING key`
pub(crate) fn object_encoding(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(2);
    match inspect_object(ctx, &key, Entry::encoding) {
        Some(encoding) => ctx.out.bulk(encoding.name().as_bytes()),
        None => ctx.out.null(),
    }
    Ok(())
}

/// `OBJECT REFCOUNT key`
///
/// Values have one reference. Redis shares small integers and returns a special number for them, which tools know,
/// unless eviction needs a clock for each key.
pub(crate) fn object_refcount(ctx: &mut Ctx<'_>) -> CommandResult {
    const SHARED: i64 = i32::MAX as i64;
    const SHARED_INTEGERS: std::ops::Range<i64> = 0..10_000;

    let key = ctx.key(2);
    let is_small = |entry: &Entry| matches!(entry.value(), ValueRef::Int(value) if SHARED_INTEGERS.contains(&value));
    match inspect_object(ctx, &key, is_small) {
        Some(small) => {
            let shared = small && !evicts_by_clock(ctx);
            ctx.out.int(if shared { SHARED } else { 1 });
        }
        None => ctx.out.null(),
    }
    Ok(())
}

fn evicts_by_clock(ctx: &Ctx<'_>) -> bool {
    ctx.engine.eviction.maxmemory() > 0 && ctx.engine.eviction.policy().reads_clock()
}

/// `OBJECT IDLETIME key`
pub(crate) fn object_idletime(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(2);
    let Some(clock) = inspect_object(ctx, &key, Entry::clock) else { return ctx.reply_null() };
    if is_lfu(ctx) {
        return Err(LFU_SELECTED.into());
    }
    ctx.reply_int(i64::from(clock::lru_idle_seconds(clock, ctx.now_ms())))
}

/// `OBJECT FREQ key`
pub(crate) fn object_freq(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(2);
    let Some(clock) = inspect_object(ctx, &key, Entry::clock) else { return ctx.reply_null() };
    if !is_lfu(ctx) {
        return Err(LFU_NOT_SELECTED.into());
    }
    let decay_minutes = ctx.engine.settings.lfu_decay_minutes.load(Relaxed);
    ctx.reply_int(i64::from(clock::lfu_counter(clock, ctx.now_ms(), decay_minutes)))
}

pub(super) fn is_lfu(ctx: &Ctx<'_>) -> bool {
    ctx.engine.settings.lfu.load(Relaxed)
}

/// `OBJECT HELP`: the lines are Redis's.
pub(crate) fn object_help(ctx: &mut Ctx<'_>) -> CommandResult {
    const LINES: &[&str] = &[
        "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "ENCODING <key>",
        "    Return the kind of internal representation used in order to store the value",
        "    associated with a <key>.",
        "FREQ <key>",
        "    Return the access frequency index of the <key>. The returned integer is",
        "    proportional to the logarithm of the recent access frequency of the key.",
        "IDLETIME <key>",
        "    Return the idle time of the <key>, that is the approximated number of",
        "    seconds elapsed since the last access to the key.",
        "REFCOUNT <key>",
        "    Return the number of references of the value associated with the specified",
        "    <key>.",
        "HELP",
        "    Prints this help.",
    ];
    ctx.reply_lines(LINES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_number_is_checked_in_the_order_of_redis() {
        assert_eq!(parse_db(b"15", 16), Ok(15));
        assert_eq!(parse_db(b"16", 16), Err(error::DB_INDEX));
        assert_eq!(parse_db(b"-1", 16), Err(error::DB_INDEX));
        assert_eq!(parse_db(b"2147483648", 16), Err(INT_OUT_OF_RANGE));
        assert_eq!(parse_db(b"one", 16), Err(error::NOT_INTEGER));
    }
}

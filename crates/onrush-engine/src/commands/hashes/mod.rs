//! Hashes: fields and values. Times to live of fields are in `hash_expiry`.
//!
//! An expired field does not exist for clients. Commands that change a hash first delete the expired ones among the fields
//! that they name, so that only they need not look at times. Beside that, each command that changes a hash or reads all of
//! it deletes a few, and passes over the rest.

pub(crate) mod expiry;
pub(crate) mod specs;

use onrush_resp::{Reply, parse_i64};
use onrush_store::{CollectionMut, Field, Hash, Random};

use crate::commands::keys::scan::{ElementScan, Found};
use crate::commands::sets::{delete_emptied, drawn_count, some_of};
use crate::commit::Key;
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::{self, CommandError};
use crate::formats::long_double::LongDouble;

/// Expired fields that a command deletes at most beside those that it names: a command must not pay for many fields that
/// are due at once. Active expiry deletes the others.
const DUE_REMOVED_MAX: usize = 64;

/// Deletes some expired fields of a hash, and the hash if it becomes empty, before it is read as a whole. The reader passes
/// over those that are left. O(1).
pub(super) fn remove_due(ctx: &mut Ctx<'_>, key: &Key<'_>) {
    remove_due_with(ctx, key, std::iter::empty());
}

/// As [`remove_due`]; among `named` no expired one is left, unless CLIENT PAUSE keeps them all. O(named).
pub(super) fn remove_due_with<'n>(ctx: &mut Ctx<'_>, key: &Key<'_>, named: impl Iterator<Item = &'n [u8]>) {
    let due_ms = ctx.due_ms();
    let hash = ctx.commit.peek(key).and_then(|entry| entry.collection::<Hash>());
    if !hash.is_some_and(|hash| has_due(hash, due_ms)) || ctx.commit.is_paused() {
        return;
    }
    let mut names = Vec::new();
    let mut emptied = false;
    if let Ok(Some(mut hash)) = ctx.commit.write_as::<Hash>(key) {
        names = remove_due_names(&mut hash, due_ms, named);
        emptied = hash.is_empty();
    }
    note_removed(ctx, key, &names);
    delete_emptied(ctx, key, emptied);
}

/// As [`remove_due_with`], for a command that then adds fields. If all fields had expired, that makes a hash without a time to
/// live, as it is when the log is executed.
#[cold]
fn remove_before<'n>(ctx: &mut Ctx<'_>, key: &Key<'_>, named: impl Iterator<Item = &'n [u8]>) {
    remove_due_with(ctx, key, named);
}

/// Counts fields that were removed because their time was over, or would be with the time that a command gives them.
pub(super) fn count_expired(ctx: &Ctx<'_>, fields: usize) {
    ctx.engine.stats.threads[ctx.thread].expired_subkeys.add(fields as u64);
}

/// Notes fields that were removed because their time was over. This is no change by the present command: if that changes
/// nothing else, only this is logged.
pub(super) fn note_removed(ctx: &mut Ctx<'_>, key: &Key<'_>, names: &[Vec<u8>]) {
    if names.is_empty() {
        return;
    }
    count_expired(ctx, names.len());
    ctx.changed_before(EventClass::Hash, "hexpired", key.bytes);
    ctx.commit.log_removed(b"HDEL", key.bytes, names);
}

/// Whether a hash has fields that have expired and are not deleted yet. O(1), of a small hash O(fields).
#[inline]
fn has_due(hash: &Hash, due_ms: i64) -> bool {
    hash.is_volatile() && hash.next_expiry().is_some_and(|at| at <= due_ms)
}

/// Deletes the expired ones among the named fields of a hash that is about to be changed, and some others. Hardly any hash
/// has fields that expire. O(named).
#[inline(always)]
pub(super) fn due_names<'n>(
    hash: &mut CollectionMut<'_, Hash>,
    due_ms: i64,
    named: impl Iterator<Item = &'n [u8]>,
) -> Vec<Vec<u8>> {
    if hash.is_volatile() { remove_due_names(hash, due_ms, named) } else { Vec::new() }
}

#[cold]
fn remove_due_names<'n>(hash: &mut Hash, due_ms: i64, named: impl Iterator<Item = &'n [u8]>) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    if !has_due(hash, due_ms) {
        return names;
    }
    for name in named {
        if hash.field(name).is_some_and(|(_, expiry)| expiry.is_some_and(|at| at <= due_ms)) {
            hash.remove(name);
            names.push(name.to_vec());
        }
    }
    hash.expire_due(due_ms, DUE_REMOVED_MAX, &mut |name| names.push(name.to_vec()));
    names
}

/// Whether a field has not expired.
fn is_live(field: &Field<'_>, due_ms: i64) -> bool {
    field.expiry.is_none_or(|at| at > due_ms)
}

/// The value of a field that has not expired.
#[inline]
fn live<'a>(hash: &'a Hash, name: &[u8], due_ms: i64) -> Option<&'a [u8]> {
    let (value, expiry) = hash.field(name)?;
    expiry.is_none_or(|at| at > due_ms).then_some(value)
}

/// `HSET key field value [field value …]`
pub(crate) fn hset(ctx: &mut Ctx<'_>) -> CommandResult {
    let added = set_pairs(ctx)?;
    ctx.reply_int(added)
}

/// `HMSET key field value [field value …]`
pub(crate) fn hmset(ctx: &mut Ctx<'_>) -> CommandResult {
    set_pairs(ctx)?;
    ctx.reply_ok()
}

#[inline]
fn set_pairs(ctx: &mut Ctx<'_>) -> Result<i64, CommandError> {
    if !ctx.argc().is_multiple_of(2) {
        return Err(ctx.command.wrong_arity());
    }
    let key = ctx.key(1);
    let due_ms = ctx.due_ms();
    let limits = ctx.engine.settings.encodings.hash();
    let argv = ctx.argv;
    let mut hash = ctx.commit.write_or_create::<Hash>(&key)?;
    if has_due(&hash, due_ms) {
        drop(hash);
        remove_before(ctx, &key, (2..argv.len()).step_by(2).map(|index| argv.get(index)));
        hash = ctx.commit.write_or_create::<Hash>(&key)?;
    }
    if argv.len() > 4 {
        let longest = (2..argv.len()).map(|index| argv.get(index).len()).max();
        hash.make_room_for(longest.unwrap_or(0), &limits);
    }
    let mut added = 0;
    for index in (2..argv.len()).step_by(2) {
        added += i64::from(hash.set(argv.get(index), argv.get(index + 1), &limits));
    }
    drop(hash);
    ctx.changed(EventClass::Hash, "hset", key.bytes);
    Ok(added)
}

/// `HSETNX key field value`
pub(crate) fn hsetnx(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let due_ms = ctx.due_ms();
    let limits = ctx.engine.settings.encodings.hash();
    let argv = ctx.argv;
    let mut hash = ctx.commit.write_or_create::<Hash>(&key)?;
    if has_due(&hash, due_ms) {
        drop(hash);
        remove_before(ctx, &key, std::iter::once(argv.get(2)));
        hash = ctx.commit.write_or_create::<Hash>(&key)?;
    }
    let is_new = hash.get(argv.get(2)).is_none();
    if is_new {
        hash.set(argv.get(2), argv.get(3), &limits);
    }
    drop(hash);
    if is_new {
        ctx.changed(EventClass::Hash, "hset", key.bytes);
    }
    ctx.reply_int(i64::from(is_new))
}

/// `HGET key field`
pub(crate) fn hget(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let due_ms = ctx.due_ms();
    let hash = ctx.commit.read_as::<Hash>(&key)?;
    match hash.and_then(|hash| live(hash, ctx.argv.get(2), due_ms)) {
        Some(value) => ctx.out.bulk(value),
        None => ctx.out.null(),
    }
    Ok(())
}

/// `HMGET key field [field …]`
pub(crate) fn hmget(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let due_ms = ctx.due_ms();
    let hash = ctx.commit.read_as::<Hash>(&key)?;
    ctx.out.array(ctx.argv.len() - 2);
    for index in 2..ctx.argv.len() {
        match hash.and_then(|hash| live(hash, ctx.argv.get(index), due_ms)) {
            Some(value) => ctx.out.bulk(value),
            None => ctx.out.null(),
        }
    }
    Ok(())
}

/// `HEXISTS key field`
pub(crate) fn hexists(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let due_ms = ctx.due_ms();
    let hash = ctx.commit.read_as::<Hash>(&key)?;
    let found = hash.is_some_and(|hash| live(hash, ctx.argv.get(2), due_ms).is_some());
    ctx.reply_int(i64::from(found))
}

/// `HSTRLEN key field`
pub(crate) fn hstrlen(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let due_ms = ctx.due_ms();
    let hash = ctx.commit.read_as::<Hash>(&key)?;
    let len = hash.and_then(|hash| live(hash, ctx.argv.get(2), due_ms)).map_or(0, <[u8]>::len);
    ctx.reply_int(len as i64)
}

/// `HDEL key field [field …]`
pub(crate) fn hdel(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let due_ms = ctx.due_ms();
    let (mut deleted, mut emptied, mut removed) = (0, false, Vec::new());
    let argv = ctx.argv;
    if let Some(mut hash) = ctx.commit.write_as::<Hash>(&key)? {
        removed = due_names(&mut hash, due_ms, (2..argv.len()).map(|index| argv.get(index)));
        for index in 2..ctx.argv.len() {
            deleted += i64::from(hash.remove(ctx.argv.get(index)));
        }
        emptied = hash.is_empty();
    }
    note_removed(ctx, &key, &removed);
    if deleted > 0 {
        ctx.changed(EventClass::Hash, "hdel", key.bytes);
    }
    delete_emptied(ctx, &key, emptied);
    ctx.reply_int(deleted)
}

/// `HLEN key`: counts expired fields that are not deleted yet, if there are many
pub(crate) fn hlen(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    remove_due(ctx, &key);
    let len = ctx.commit.read_as::<Hash>(&key)?.map_or(0, Hash::len);
    ctx.reply_int(len as i64)
}

/// `HGETALL key`
pub(crate) fn hgetall(ctx: &mut Ctx<'_>) -> CommandResult {
    reply_all(ctx, Reply::map, |out, field| {
        out.bulk(field.name);
        out.bulk(field.value);
    })
}

/// `HKEYS key`
pub(crate) fn hkeys(ctx: &mut Ctx<'_>) -> CommandResult {
    reply_all(ctx, Reply::array, |out, field| out.bulk(field.name))
}

/// `HVALS key`
pub(crate) fn hvals(ctx: &mut Ctx<'_>) -> CommandResult {
    reply_all(ctx, Reply::array, |out, field| out.bulk(field.value))
}

#[inline]
fn reply_all(
    ctx: &mut Ctx<'_>,
    head: impl FnOnce(&mut Reply, usize),
    mut append: impl FnMut(&mut Reply, Field<'_>),
) -> CommandResult {
    let key = ctx.key(1);
    remove_due(ctx, &key);
    let due_ms = ctx.due_ms();
    let Some(hash) = ctx.commit.read_as::<Hash>(&key)? else {
        head(ctx.out, 0);
        return Ok(());
    };
    if has_due(hash, due_ms) {
        let live = || hash.iter().filter(|field| is_live(field, due_ms));
        head(ctx.out, live().count());
        live().for_each(|field| append(ctx.out, field));
    } else {
        head(ctx.out, hash.len());
        hash.iter().for_each(|field| append(ctx.out, field));
    }
    Ok(())
}

/// `HINCRBY key field increment`
pub(crate) fn hincrby(ctx: &mut Ctx<'_>) -> CommandResult {
    let increment = ctx.int(3)?;
    let change = |old: Option<&[u8]>| {
        let old = match old {
            Some(text) => parse_i64(text).ok_or(CommandError::fixed("ERR hash value is not an integer"))?,
            None => 0,
        };
        old.checked_add(increment).ok_or(error::OVERFLOW)
    };
    let sum = update(ctx, change, |sum, buffer| buffer.format(*sum).as_bytes())?;
    let key = ctx.key(1);
    ctx.changed(EventClass::Hash, "hincrby", key.bytes);
    ctx.reply_int(sum)
}

/// `HINCRBYFLOAT key field increment`
pub(crate) fn hincrbyfloat(ctx: &mut Ctx<'_>) -> CommandResult {
    let increment = LongDouble::parse(ctx.arg(3)).ok_or(error::NOT_FLOAT)?;
    if increment.is_infinite() {
        return Err(CommandError::fixed("ERR value is NaN or Infinity").into());
    }
    let change = |old: Option<&[u8]>| {
        let old = match old {
            Some(text) => LongDouble::parse(text).ok_or(CommandError::fixed("ERR hash value is not a float"))?,
            None => LongDouble::from_i64(0),
        };
        let sum = old.checked_add(increment).filter(|sum| !sum.is_infinite());
        let sum = sum.ok_or(error::NOT_FINITE)?;
        Ok(sum.to_string().into_bytes())
    };
    let sum = update(ctx, change, |sum, _| sum)?;
    let key = ctx.key(1);
    ctx.changed(EventClass::Hash, "hincrbyfloat", key.bytes);
    if ctx.is_logged() {
        let hash = ctx.commit.read_as::<Hash>(&key)?;
        let expiry = hash.and_then(|hash| hash.field(ctx.argv.get(2))).and_then(|(_, expiry)| expiry);
        ctx.log_instead(&[b"HSET", key.bytes, ctx.arg(2), &sum]);
        if let Some(at) = expiry {
            // HSET has removed it.
            let at = at.to_string();
            ctx.log_instead(&[b"HPEXPIREAT", key.bytes, at.as_bytes(), b"FIELDS", b"1", ctx.arg(2)]);
        }
    }
    ctx.reply_bulk(&sum)
}

/// Replaces the value of the field in argument 2 by the result of `change`, spelled by `text`; its expiry stays.
fn update<V>(
    ctx: &mut Ctx<'_>,
    change: impl FnOnce(Option<&[u8]>) -> Result<V, CommandError>,
    text: impl for<'a> FnOnce(&'a V, &'a mut itoa::Buffer) -> &'a [u8],
) -> Result<V, CommandError> {
    let key = ctx.key(1);
    let due_ms = ctx.due_ms();
    let limits = ctx.engine.settings.encodings.hash();
    let argv = ctx.argv;
    let mut hash = ctx.commit.write_or_create::<Hash>(&key)?;
    if has_due(&hash, due_ms) {
        drop(hash);
        remove_before(ctx, &key, std::iter::once(argv.get(2)));
        hash = ctx.commit.write_or_create::<Hash>(&key)?;
    }
    let old = hash.field(argv.get(2));
    let expiry = old.and_then(|(_, expiry)| expiry);
    let changed = change(old.map(|(value, _)| value));
    if let Ok(value) = &changed {
        let mut buffer = itoa::Buffer::new();
        hash.set_with_expiry(argv.get(2), text(value, &mut buffer), expiry, &limits);
    }
    let emptied = hash.is_empty();
    drop(hash);
    if emptied {
        ctx.commit.delete(&key);
    }
    changed
}

/// `HRANDFIELD key [count [WITHVALUES]]`
pub(crate) fn hrandfield(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let mut random = Random::new(ctx.random());
    if ctx.argc() == 2 {
        remove_due(ctx, &key);
        let due_ms = ctx.due_ms();
        match ctx.commit.read_as::<Hash>(&key)?.and_then(|hash| random_live(hash, &mut random, due_ms)) {
            Some(field) => ctx.out.bulk(field.name),
            None => ctx.out.null(),
        }
        return Ok(());
    }
    let (count, with_values) = drawn_count(ctx, "WITHVALUES")?;
    remove_due(ctx, &key);
    let due_ms = ctx.due_ms();
    let Some(hash) = ctx.commit.read_as::<Hash>(&key)? else { return ctx.reply_empty() };
    if has_due(hash, due_ms) {
        let drawn = drawn_among_live(hash, count, &mut random, due_ms);
        reply_drawn(ctx.out, with_values, drawn.len(), drawn.into_iter());
        return Ok(());
    }
    let len = if count < 0 { count.unsigned_abs() as usize } else { hash.len().min(count as usize) };
    if count < 0 {
        reply_drawn(ctx.out, with_values, len, (0..len).filter_map(|_| hash.random(&mut random)));
    } else if len == hash.len() {
        reply_drawn(ctx.out, with_values, len, hash.iter());
    } else {
        reply_drawn(ctx.out, with_values, len, sample(hash, len, &mut random).into_iter());
    }
    Ok(())
}

/// Replies with `len` fields.
fn reply_drawn<'a>(out: &mut Reply, with_values: bool, len: usize, fields: impl Iterator<Item = Field<'a>>) {
    let nested = with_values && out.is_resp3();
    out.array(if with_values && !nested { 2 * len } else { len });
    for field in fields {
        if nested {
            out.array(2);
        }
        out.bulk(field.name);
        if with_values {
            out.bulk(field.value);
        }
    }
}

/// A field chosen evenly among those that have not expired. Expected O(fields / those).
fn random_live<'a>(hash: &'a Hash, random: &mut Random, due_ms: i64) -> Option<Field<'a>> {
    const DRAWS_MAX: usize = 64;
    let drawn = (0..DRAWS_MAX).map_while(|_| hash.random(random)).find(|field| is_live(field, due_ms));
    drawn.or_else(|| hash.iter().find(|field| is_live(field, due_ms)))
}

/// What HRANDFIELD replies with a count, of a hash with expired fields. O(fields).
fn drawn_among_live<'a>(hash: &'a Hash, count: i64, random: &mut Random, due_ms: i64) -> Vec<Field<'a>> {
    let fields: Vec<_> = hash.iter().filter(|field| is_live(field, due_ms)).collect();
    if count < 0 && !fields.is_empty() {
        return (0..count.unsigned_abs()).map(|_| fields[random.below(fields.len())]).collect();
    }
    let len = fields.len().min(count.max(0) as usize);
    some_of(fields, len, random)
}

/// Some fields, each at most once; there are more than `count`.
fn sample<'a>(hash: &'a Hash, count: usize, random: &mut Random) -> Vec<Field<'a>> {
    if hash.len() / 3 < count || hash.len() < 64 {
        return some_of(hash.iter().collect(), count, random);
    }
    let mut seen = std::collections::HashSet::with_capacity(count);
    let mut drawn = Vec::with_capacity(count);
    while drawn.len() < count {
        let Some(field) = hash.random(random) else { break };
        if seen.insert(field.name) {
            drawn.push(field);
        }
    }
    drawn
}

/// `HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]`
pub(crate) fn hscan(ctx: &mut Ctx<'_>) -> CommandResult {
    let Some(scan) = ElementScan::parse::<Hash>(ctx, Some("NOVALUES"))? else {
        Found::default().reply(ctx.out, 0);
        return Ok(());
    };
    let key = ctx.key(1);
    let due_ms = ctx.due_ms();
    let hash = ctx.commit.read_as::<Hash>(&key)?;
    let mut found = Found::default();
    let next = hash.map_or(0, |hash| {
        hash.scan(scan.cursor, scan.count, &mut |field| {
            if is_live(&field, due_ms) && scan.admits(field.name) {
                found.push(field.name);
                if !scan.no_values {
                    found.push(field.value);
                }
            }
        })
    });
    scan.end(ctx)?;
    remove_due(ctx, &key);
    found.reply(ctx.out, next);
    Ok(())
}

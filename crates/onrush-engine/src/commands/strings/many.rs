//! Strings of several keys in one step: MGET, MSET, MSETNX, MSETEX.

use onrush_store::Type;
use smallvec::SmallVec;

use crate::commands::strings::{Options, new_value, reply_value};
use crate::commit::Key;
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::CommandError;

/// `MGET key [key …]`: atomic.
pub(crate) fn mget(ctx: &mut Ctx<'_>) -> CommandResult {
    lock_keys(ctx, 1)?;
    ctx.out.array(ctx.argc() - 1);
    for index in 1..ctx.argc() {
        let key = ctx.key(index);
        let entry = ctx.commit.read(&key);
        match entry.filter(|entry| entry.ty() == Type::String) {
            Some(entry) => reply_value(ctx.out, entry.value())?,
            None => ctx.out.null(),
        }
    }
    Ok(())
}

/// `MSET key value [key value …]`: atomic.
pub(crate) fn mset(ctx: &mut Ctx<'_>) -> CommandResult {
    check_pairs(ctx)?;
    lock_keys(ctx, 2)?;
    set_pairs(ctx);
    ctx.reply_ok()
}

/// `MSETNX key value [key value …]`: all or nothing.
pub(crate) fn msetnx(ctx: &mut Ctx<'_>) -> CommandResult {
    check_pairs(ctx)?;
    lock_keys(ctx, 2)?;
    for index in (1..ctx.argc()).step_by(2) {
        let key = ctx.key(index);
        if ctx.commit.write(&key).is_some() {
            return ctx.reply_int(0);
        }
    }
    set_pairs(ctx);
    ctx.reply_int(1)
}

fn check_pairs(ctx: &Ctx<'_>) -> CommandResult {
    if ctx.argc().is_multiple_of(2) { Err(ctx.command.wrong_arity().into()) } else { Ok(()) }
}

/// Locks the shards of every `step`-th argument.
fn lock_keys(ctx: &mut Ctx<'_>, step: usize) -> CommandResult {
    let db = ctx.commit.db();
    if ctx.argc() <= 1 + step {
        // A single key: its lock is taken when it is touched.
        return Ok(());
    }
    let hashes: SmallVec<[_; 16]> = (1..ctx.argc()).step_by(step).map(|index| (db, ctx.key(index).hash)).collect();
    ctx.commit.lock_all(hashes)?;
    Ok(())
}

/// How many pairs ahead of the present one a bucket, and an entry, are prefetched: planning does that only for few
/// keys.
const BUCKET_AHEAD: usize = 24;
const ENTRY_AHEAD: usize = 8;

fn set_pairs(ctx: &mut Ctx<'_>) {
    let argc = ctx.argc();
    let is_long = argc > 2 * crate::batch::plan::PREFETCH_KEYS_MAX;
    for index in (1..argc).step_by(2) {
        let key = ctx.key(index);
        if is_long && index + 2 * BUCKET_AHEAD < argc {
            let ahead = ctx.key(index + 2 * BUCKET_AHEAD);
            ctx.commit.prefetch_bucket(&ahead);
            let ahead = ctx.key(index + 2 * ENTRY_AHEAD);
            ctx.commit.prefetch_entry(&ahead);
        }
        let value = new_value(ctx, index + 1);
        ctx.commit.set(&key, value, None);
        ctx.changed(EventClass::String, "set", key.bytes);
    }
}

const BAD_NUMKEYS: CommandError = CommandError::fixed("ERR invalid numkeys value");
const BAD_PAIRS: CommandError = CommandError::fixed("ERR wrong number of key-value pairs");

/// The argument with MSETEX's first key.
const FIRST_KEY: usize = 2;

/// `MSETEX numkeys key value [key value …] [NX | XX] [EX seconds | PX milliseconds | EXAT unix-time-seconds |
/// PXAT unix-time-milliseconds | KEEPTTL]`: all or nothing.
pub(crate) fn msetex(ctx: &mut Ctx<'_>) -> CommandResult {
    let end = end_of_pairs(ctx)?;
    let options = Options::of_msetex(ctx, end)?;
    let expire = options.expire_at(ctx)?;
    let db = ctx.commit.db();
    let keys: SmallVec<[Key<'_>; 8]> = (FIRST_KEY..end).step_by(2).map(|index| ctx.key(index)).collect();
    if keys.len() > 1 {
        ctx.commit.lock_all(keys.iter().map(|key| (db, key.hash)))?;
    }
    if let Some(condition) = options.condition {
        for (nth, key) in keys.iter().enumerate() {
            fetch_ahead(ctx, &keys, nth);
            let found = ctx.commit.write(key);
            if !condition.is_met(found.as_deref())? {
                return ctx.reply_int(0);
            }
        }
    }
    for (nth, key) in keys.iter().enumerate() {
        fetch_ahead(ctx, &keys, nth);
        let expire = if options.keep_ttl { ctx.commit.write(key).and_then(|slot| slot.expire_at()) } else { expire };
        let value = new_value(ctx, FIRST_KEY + 2 * nth + 1);
        ctx.commit.set(key, value, expire);
        ctx.changed(EventClass::String, "set", key.bytes);
        if expire.is_some() && !options.keep_ttl {
            ctx.notify(EventClass::Generic, "expire", key.bytes);
        }
    }
    if ctx.is_logged() {
        log_pairs(ctx, &options, end, expire);
    }
    ctx.reply_int(1)
}

/// The argument behind MSETEX's last pair.
fn end_of_pairs(ctx: &Ctx<'_>) -> Result<usize, CommandError> {
    let count = ctx.int_or(1, BAD_NUMKEYS)?;
    let count = usize::try_from(count).ok().filter(|&count| count > 0 && count <= i32::MAX as usize);
    let end = FIRST_KEY + 2 * count.ok_or(BAD_NUMKEYS)?;
    if end > ctx.argc() { Err(BAD_PAIRS) } else { Ok(end) }
}

/// Prefetches buckets and entries of keys after the `nth`: MSETEX's keys are not planned.
fn fetch_ahead(ctx: &mut Ctx<'_>, keys: &[Key<'_>], nth: usize) {
    if let Some(ahead) = keys.get(nth + BUCKET_AHEAD) {
        ctx.commit.prefetch_bucket(ahead);
    }
    if let Some(ahead) = keys.get(nth + ENTRY_AHEAD) {
        ctx.commit.prefetch_entry(ahead);
    }
}

/// Logs MSETEX without its condition and with an absolute expiry.
#[cold]
fn log_pairs(ctx: &mut Ctx<'_>, options: &Options<'_>, end: usize, expire: Option<i64>) {
    let mut at = itoa::Buffer::new();
    let mut args: Vec<&[u8]> = vec![b"MSETEX"];
    args.extend(ctx.argv.iter().take(end).skip(1));
    if let Some(expire) = expire {
        args.extend([&b"PXAT"[..], at.format(expire).as_bytes()]);
    } else if options.keep_ttl {
        args.push(b"KEEPTTL");
    }
    ctx.log_instead(&args);
}

//! Sorted sets: popping the least or the greatest members, from one set or the first of several, and waiting for
//! members.

use onrush_store::SortedSet;

use crate::blocking::waiter::WaitsFor;
use crate::commands::keys::lock_keys;
use crate::commands::lists::blocking::{PopArguments, first_key, pop_several, wait};
use crate::commands::sets::delete_emptied;
use crate::commit::Key;
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::{self, CommandError};

/// `ZPOPMIN key [count]`, or ZPOPMAX.
pub(super) fn pop(ctx: &mut Ctx<'_>, greatest: bool) -> CommandResult {
    if ctx.argc() > 3 {
        return Err(error::SYNTAX.into());
    }
    let has_count = ctx.argc() == 3;
    let count = if has_count { ctx.int_or(2, error::NOT_POSITIVE)? } else { 1 };
    let count = usize::try_from(count).map_err(|_| error::NOT_POSITIVE)?;
    let key = ctx.key(1);
    let Some(set) = ctx.commit.look_as::<SortedSet>(&key)? else { return ctx.reply_empty() };
    let count = count.min(set.len());
    let nested = has_count && ctx.out.is_resp3();
    ctx.out.array(if nested { count } else { 2 * count });
    pop_to_reply(ctx, &key, greatest, count, nested);
    Ok(())
}

/// Pops `count` members of a set that has at least as many, and replies with each, in an array of its own if `nested`.
fn pop_to_reply(ctx: &mut Ctx<'_>, key: &Key<'_>, greatest: bool, count: usize, nested: bool) {
    if count == 0 {
        return;
    }
    let Ok(Some(mut set)) = ctx.commit.write_as::<SortedSet>(key) else { return };
    for _ in 0..count {
        set.pop(greatest, &mut |member, score| {
            if nested {
                ctx.out.array(2);
            }
            ctx.out.bulk(member);
            ctx.out.double(score);
        });
    }
    let emptied = set.is_empty();
    drop(set);
    ctx.changed(EventClass::SortedSet, if greatest { "zpopmax" } else { "zpopmin" }, key.bytes);
    delete_emptied(ctx, key, emptied);
}

fn log_pop(ctx: &mut Ctx<'_>, key: &Key<'_>, greatest: bool, count: usize) {
    let name = if greatest { b"ZPOPMAX" } else { b"ZPOPMIN" };
    ctx.log_instead(&[name, key.bytes, itoa::Buffer::new().format(count).as_bytes()]);
}

/// `BZPOPMIN key [key …] timeout`, or BZPOPMAX.
pub(super) fn pop_or_wait(ctx: &mut Ctx<'_>, greatest: bool) -> CommandResult {
    let last = ctx.argc() - 1;
    let deadline_ms = ctx.deadline_from_seconds(last)?;
    let keys = lock_keys(ctx, 1..last)?;
    let Some(key) = first_key::<SortedSet>(ctx, &keys)? else {
        return wait(ctx, 1..last, WaitsFor::SortedSet, deadline_ms);
    };
    ctx.out.array(3);
    ctx.out.bulk(key.bytes);
    pop_to_reply(ctx, &key, greatest, 1, false);
    log_pop(ctx, &key, greatest, 1);
    Ok(())
}

/// `ZMPOP numkeys key [key …] <MIN | MAX> [COUNT count]`, or BZMPOP.
pub(crate) fn zmpop(ctx: &mut Ctx<'_>) -> CommandResult {
    pop_several(ctx, WaitsFor::SortedSet, |ctx, index| ctx.is(index, "MIN") || ctx.is(index, "MAX"), pop_first)
}

fn pop_first(ctx: &mut Ctx<'_>, arguments: &PopArguments, keys: &[Key<'_>]) -> Result<bool, CommandError> {
    let greatest = ctx.is(arguments.word, "MAX");
    let Some(key) = first_key::<SortedSet>(ctx, keys)? else { return Ok(false) };
    let len = ctx.commit.read_as::<SortedSet>(&key)?.map_or(0, SortedSet::len);
    let count = arguments.count.min(len);
    ctx.out.array(2);
    ctx.out.bulk(key.bytes);
    ctx.out.array(count);
    pop_to_reply(ctx, &key, greatest, count, true);
    log_pop(ctx, &key, greatest, count);
    Ok(true)
}

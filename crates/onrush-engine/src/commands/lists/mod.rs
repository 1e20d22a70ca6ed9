//! Lists: pushing, popping, reading, editing. What blocks is in `lists_blocking`.

pub(crate) mod blocking;
pub(crate) mod specs;

use std::ops::Range;

use onrush_resp::Reply;
use onrush_store::{Element, End, List};

use crate::commands::sets::delete_emptied;
use crate::commit::Key;
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::{self, CommandError};

const INDEX_OUT_OF_RANGE: CommandError = CommandError::fixed("ERR index out of range");

/// The end an argument names.
///
/// # Errors
/// `ERR syntax error`
pub(super) fn end_argument(ctx: &Ctx<'_>, index: usize) -> Result<End, CommandError> {
    Ok(if ctx.is_first(index, "LEFT", "RIGHT")? { End::Front } else { End::Back })
}

pub(super) fn push_event(end: End) -> &'static str {
    if end == End::Front { "lpush" } else { "rpush" }
}

pub(super) fn pop_event(end: End) -> &'static str {
    if end == End::Front { "lpop" } else { "rpop" }
}

#[inline]
pub(super) fn reply_element(out: &mut Reply, element: Element<'_>) {
    match element {
        Element::Bytes(bytes) => out.bulk(bytes),
        Element::Shared(bytes) => out.bulk_shared(bytes),
    }
}

/// `LPUSH key element [element …]`, or RPUSH.
#[inline]
fn push(ctx: &mut Ctx<'_>, end: End) -> CommandResult {
    let key = ctx.key(1);
    let limits = ctx.engine.settings.encodings.list();
    let mut entry = ctx.commit.write_or_create::<List>(&key)?;
    let list: &mut List = &mut entry;
    for index in 2..ctx.argv.len() {
        list.push(end, ctx.argv.get(index), &limits);
    }
    let len = list.len();
    drop(entry);
    ctx.changed(EventClass::List, push_event(end), key.bytes);
    ctx.reply_int(len as i64)
}

/// `LPUSHX key element [element …]`, or RPUSHX.
fn pushx(ctx: &mut Ctx<'_>, end: End) -> CommandResult {
    let key = ctx.key(1);
    if ctx.commit.write_as::<List>(&key)?.is_none() {
        return ctx.reply_int(0);
    }
    push(ctx, end)
}

/// `LPOP key [count]`, or RPOP.
#[inline]
fn pop(ctx: &mut Ctx<'_>, end: End) -> CommandResult {
    if ctx.argc() > 2 {
        return pop_many(ctx, end);
    }
    let key = ctx.key(1);
    let limits = ctx.engine.settings.encodings.list();
    let Some(mut entry) = ctx.commit.write_as::<List>(&key)? else { return ctx.reply_null() };
    let list: &mut List = &mut entry;
    if let Some(element) = list.peek(end) {
        reply_element(ctx.out, element);
        list.drop_one(end, &limits);
    }
    let emptied = list.is_empty();
    drop(entry);
    ctx.changed(EventClass::List, pop_event(end), key.bytes);
    delete_emptied(ctx, &key, emptied);
    Ok(())
}

fn pop_many(ctx: &mut Ctx<'_>, end: End) -> CommandResult {
    if ctx.argc() > 3 {
        return Err(ctx.command.wrong_arity().into());
    }
    let count = usize::try_from(ctx.int_or(2, error::NOT_POSITIVE)?).map_err(|_| error::NOT_POSITIVE)?;
    let key = ctx.key(1);
    let Some(list) = ctx.commit.write_as::<List>(&key)? else { return ctx.reply_null_array() };
    let has_none = list.is_empty() || count == 0;
    drop(list);
    if has_none {
        return ctx.reply_empty();
    }
    pop_to_reply(ctx, &key, end, count);
    Ok(())
}

/// Pops up to `count` elements of an existing list and replies with them as an array.
pub(super) fn pop_to_reply(ctx: &mut Ctx<'_>, key: &Key<'_>, end: End, count: usize) -> usize {
    let limits = ctx.engine.settings.encodings.list();
    let Ok(Some(mut list)) = ctx.commit.write_as::<List>(key) else { return 0 };
    let count = count.min(list.len());
    ctx.out.array(count);
    for _ in 0..count {
        if let Some(element) = list.peek(end) {
            reply_element(ctx.out, element);
            list.drop_one(end, &limits);
        }
    }
    let emptied = list.is_empty();
    drop(list);
    ctx.changed(EventClass::List, pop_event(end), key.bytes);
    delete_emptied(ctx, key, emptied);
    count
}

/// `LLEN key`
pub(crate) fn llen(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let len = ctx.commit.read_as::<List>(&key)?.map_or(0, List::len);
    ctx.reply_int(len as i64)
}

/// The elements from `start` to `stop` of `len`; negative positions count from the end.
pub(super) fn clamp_range(start: i64, stop: i64, len: usize) -> Range<usize> {
    let len = len as i64;
    let absolute = |at: i64| if at < 0 { at.saturating_add(len) } else { at };
    let (start, stop) = (absolute(start).max(0), absolute(stop).min(len - 1));
    if start > stop { 0..0 } else { start as usize..stop as usize + 1 }
}

/// `LRANGE key start stop`
pub(crate) fn lrange(ctx: &mut Ctx<'_>) -> CommandResult {
    let (start, stop) = (ctx.int(2)?, ctx.int(3)?);
    let key = ctx.key(1);
    let Some(list) = ctx.commit.read_as::<List>(&key)? else { return ctx.reply_empty() };
    let range = clamp_range(start, stop, list.len());
    ctx.out.array(range.len());
    if !range.is_empty() {
        list.iter_from(range.start).take(range.len()).for_each(|element| reply_element(ctx.out, element));
    }
    Ok(())
}

/// Position `index` of `len` elements; negative ones count from the end.
fn position(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 { index.checked_add(len as i64)? } else { index };
    usize::try_from(index).ok().filter(|&index| index < len)
}

/// `LINDEX key index`
pub(crate) fn lindex(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let Some(list) = ctx.commit.read_as::<List>(&key)? else { return ctx.reply_null() };
    let index = onrush_resp::parse_i64(ctx.argv.get(2)).ok_or(error::NOT_INTEGER)?;
    match position(index, list.len()).and_then(|index| list.get(index)) {
        Some(element) => reply_element(ctx.out, element),
        None => ctx.out.null(),
    }
    Ok(())
}

/// `LSET key index element`
pub(crate) fn lset(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let limits = ctx.engine.settings.encodings.list();
    let mut list = ctx.commit.write_as::<List>(&key)?.ok_or(error::NO_SUCH_KEY)?;
    let index = onrush_resp::parse_i64(ctx.argv.get(2)).ok_or(error::NOT_INTEGER)?;
    list.expect_one_more(ctx.argv.get(3), &limits);
    let index = position(index, list.len()).ok_or(INDEX_OUT_OF_RANGE)?;
    list.set(index, ctx.argv.get(3), &limits);
    drop(list);
    ctx.changed(EventClass::List, "lset", key.bytes);
    ctx.reply_ok()
}

/// `LINSERT key <BEFORE | AFTER> pivot element`
pub(crate) fn linsert(ctx: &mut Ctx<'_>) -> CommandResult {
    let behind = usize::from(ctx.is_first(2, "AFTER", "BEFORE")?);
    let key = ctx.key(1);
    let limits = ctx.engine.settings.encodings.list();
    let Some(mut list) = ctx.commit.write_as::<List>(&key)? else { return ctx.reply_int(0) };
    let pivot = ctx.argv.get(3);
    let Some(index) = list.iter().position(|element| element.as_bytes() == pivot) else {
        list.expect_one_more(ctx.argv.get(4), &limits);
        drop(list);
        return ctx.reply_int(-1);
    };
    list.insert(index + behind, ctx.argv.get(4), &limits);
    let len = list.len();
    drop(list);
    ctx.changed(EventClass::List, "linsert", key.bytes);
    ctx.reply_int(len as i64)
}

/// `LREM key count element`
pub(crate) fn lrem(ctx: &mut Ctx<'_>) -> CommandResult {
    let count = ctx.int(2)?;
    let key = ctx.key(1);
    let limits = ctx.engine.settings.encodings.list();
    let (mut removed, mut emptied) = (0, false);
    if let Some(mut list) = ctx.commit.write_as::<List>(&key)? {
        let from = if count < 0 { End::Back } else { End::Front };
        let count = if count == 0 { usize::MAX } else { usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX) };
        removed = list.remove_values(ctx.argv.get(3), from, count, &limits);
        emptied = list.is_empty();
    }
    if removed > 0 {
        ctx.changed(EventClass::List, "lrem", key.bytes);
    }
    delete_emptied(ctx, &key, emptied);
    ctx.reply_int(removed as i64)
}

/// `LTRIM key start stop`
pub(crate) fn ltrim(ctx: &mut Ctx<'_>) -> CommandResult {
    let (start, stop) = (ctx.int(2)?, ctx.int(3)?);
    let key = ctx.key(1);
    let limits = ctx.engine.settings.encodings.list();
    let Some(mut list) = ctx.commit.write_as::<List>(&key)? else { return ctx.reply_ok() };
    let range = clamp_range(start, stop, list.len());
    let emptied = range.is_empty();
    if !emptied {
        list.trim(range.start, range.len(), &limits);
    }
    drop(list);
    ctx.changed(EventClass::List, "ltrim", key.bytes);
    delete_emptied(ctx, &key, emptied);
    ctx.reply_ok()
}

/// The options of LPOS.
struct Positions {
    rank: i64,
    count: Option<usize>,
    len_max: usize,
}

impl Positions {
    fn parse(ctx: &Ctx<'_>) -> Result<Self, CommandError> {
        let mut options = Self { rank: 1, count: None, len_max: 0 };
        let mut rest = ctx.rest(3);
        while !rest.is_empty() {
            if rest.take_with("RANK", 1) {
                options.rank = Self::rank(rest.next_int()?)?;
            } else if rest.take_with("COUNT", 1) {
                options.count = Some(not_negative(rest.next_arg(), "ERR COUNT can't be negative")?);
            } else if rest.take_with("MAXLEN", 1) {
                options.len_max = not_negative(rest.next_arg(), "ERR MAXLEN can't be negative")?;
            } else {
                return Err(error::SYNTAX);
            }
        }
        Ok(options)
    }

    fn rank(number: i64) -> Result<i64, CommandError> {
        match number {
            0 => Err(CommandError::fixed(
                "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to \
                 start from the end of the list",
            )),
            i64::MIN => Err(CommandError::text(format!(
                "ERR value is out of range, value must between {} and {}",
                -i64::MAX,
                i64::MAX
            ))),
            rank => Ok(rank),
        }
    }
}

fn not_negative(text: &[u8], error: &'static str) -> Result<usize, CommandError> {
    let number = onrush_resp::parse_i64(text).and_then(|number| usize::try_from(number).ok());
    number.ok_or(CommandError::fixed(error))
}

/// `LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]`
pub(crate) fn lpos(ctx: &mut Ctx<'_>) -> CommandResult {
    let options = Positions::parse(ctx)?;
    let key = ctx.key(1);
    let Some(list) = ctx.commit.read_as::<List>(&key)? else {
        match options.count {
            Some(_) => ctx.out.array(0),
            None => ctx.out.null(),
        }
        return Ok(());
    };
    let len = list.len();
    let value = ctx.argv.get(2);
    let elements: Box<dyn Iterator<Item = Element<'_>> + '_> = match options.rank {
        1.. => list.iter(),
        _ if len == 0 => Box::new(std::iter::empty()),
        _ => list.iter_back_from(len - 1),
    };
    let looked_at = if options.len_max == 0 { usize::MAX } else { options.len_max };
    let wanted = match options.count {
        None => 1,
        Some(0) => usize::MAX,
        Some(count) => count,
    };
    let place = |at: usize| if options.rank > 0 { at } else { len - 1 - at };
    let found: Vec<usize> = elements
        .take(looked_at)
        .enumerate()
        .filter(|(_, element)| element.as_bytes() == value)
        .skip(usize::try_from(options.rank.unsigned_abs() - 1).unwrap_or(usize::MAX))
        .take(wanted)
        .map(|(at, _)| place(at))
        .collect();
    match (options.count, found.first()) {
        (None, Some(&at)) => ctx.out.int(at as i64),
        (None, None) => ctx.out.null(),
        (Some(_), _) => {
            ctx.out.array(found.len());
            found.into_iter().for_each(|at| ctx.out.int(at as i64));
        }
    }
    Ok(())
}

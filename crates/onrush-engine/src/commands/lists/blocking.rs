//! Lists: moving elements between lists, popping from the first of several, and waiting for elements.

use std::ops::Range;

use onrush_store::{CollectionType, End, List};

use crate::blocking::Block;
use crate::blocking::waiter::{OnTimeout, WaitsFor};
use crate::command::Flags;
use crate::commands::keys::{lock, lock_keys};
use crate::commands::lists::{end_argument, pop_event, pop_to_reply, push_event, reply_element};
use crate::commands::sets::delete_emptied;
use crate::commit::Key;
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::{self, CommandError, Stop};

/// `LMOVE source destination <LEFT | RIGHT> <LEFT | RIGHT>`
pub(crate) fn lmove(ctx: &mut Ctx<'_>) -> CommandResult {
    let (from, to) = (end_argument(ctx, 3)?, end_argument(ctx, 4)?);
    if !move_element(ctx, from, to)? {
        ctx.out.null();
    }
    Ok(())
}

/// `RPOPLPUSH source destination`
pub(crate) fn rpoplpush(ctx: &mut Ctx<'_>) -> CommandResult {
    if !move_element(ctx, End::Back, End::Front)? {
        ctx.out.null();
    }
    Ok(())
}

/// Moves an element from the list at argument 1 to the list at argument 2 and replies with it; returns whether there
/// was one.
fn move_element(ctx: &mut Ctx<'_>, from: End, to: End) -> Result<bool, Stop> {
    let (source, target) = (ctx.key(1), ctx.key(2));
    lock(ctx, [&source, &target])?;
    let limits = ctx.engine.settings.encodings.list();
    let Some(list) = ctx.commit.look_as::<List>(&source)? else { return Ok(false) };
    let Some(element) = list.peek(from).map(|element| element.as_bytes().to_vec()) else { return Ok(false) };
    ctx.commit.look_as::<List>(&target)?;
    let mut emptied = false;
    if let Some(mut list) = ctx.commit.write_as::<List>(&source)? {
        match source.bytes == target.bytes {
            true => list.rotate(from, to, &element, &limits),
            false => list.drop_one(from, &limits),
        }
        emptied = list.is_empty();
    }
    if source.bytes != target.bytes {
        ctx.commit.write_or_create::<List>(&target)?.push(to, &element, &limits);
    }
    ctx.out.bulk(&element);
    ctx.changed(EventClass::List, push_event(to), target.bytes);
    ctx.changed_too(EventClass::List, pop_event(from), source.bytes);
    delete_emptied(ctx, &source, emptied);
    Ok(true)
}

/// `BLMOVE source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout`
pub(crate) fn blmove(ctx: &mut Ctx<'_>) -> CommandResult {
    let (from, to) = (end_argument(ctx, 3)?, end_argument(ctx, 4)?);
    let deadline_ms = ctx.deadline_from_seconds(5)?;
    move_or_wait(ctx, from, to, deadline_ms)
}

/// `BRPOPLPUSH source destination timeout`
pub(crate) fn brpoplpush(ctx: &mut Ctx<'_>) -> CommandResult {
    let deadline_ms = ctx.deadline_from_seconds(3)?;
    move_or_wait(ctx, End::Back, End::Front, deadline_ms)
}

fn move_or_wait(ctx: &mut Ctx<'_>, from: End, to: End, deadline_ms: Option<i64>) -> CommandResult {
    if move_element(ctx, from, to)? {
        let name = |end| if end == End::Front { &b"LEFT"[..] } else { b"RIGHT" };
        ctx.log_instead(&[b"LMOVE", ctx.arg(1), ctx.arg(2), name(from), name(to)]);
        return Ok(());
    }
    if ctx.session.deny_blocking {
        // Unlike other commands, and unlike its own timeout, this is not a null array.
        return ctx.reply_null();
    }
    wait(ctx, 1..2, WaitsFor::List, deadline_ms)
}

/// Waits until one of the keys among some arguments has the awaited kind of value.
pub(crate) fn wait(
    ctx: &mut Ctx<'_>,
    keys: Range<usize>,
    waits_for: WaitsFor,
    deadline_ms: Option<i64>,
) -> CommandResult {
    let on_timeout = OnTimeout::NullArray;
    ctx.block(Block { keys, waits_for, deadline_ms, on_timeout, instead: Vec::new() })
}

/// `BLPOP key [key …] timeout`, or BRPOP.
pub(super) fn pop_or_wait(ctx: &mut Ctx<'_>, end: End) -> CommandResult {
    let last = ctx.argc() - 1;
    let deadline_ms = ctx.deadline_from_seconds(last)?;
    let keys = lock_keys(ctx, 1..last)?;
    let Some(key) = first_key::<List>(ctx, &keys)? else {
        return wait(ctx, 1..last, WaitsFor::List, deadline_ms);
    };
    let limits = ctx.engine.settings.encodings.list();
    let mut emptied = false;
    if let Some(mut list) = ctx.commit.write_as::<List>(&key)? {
        ctx.out.array(2);
        ctx.out.bulk(key.bytes);
        if let Some(element) = list.peek(end) {
            reply_element(ctx.out, element);
        }
        list.drop_one(end, &limits);
        emptied = list.is_empty();
    }
    ctx.changed(EventClass::List, pop_event(end), key.bytes);
    ctx.log_instead(&[if end == End::Front { b"LPOP" } else { b"RPOP" }, key.bytes]);
    delete_emptied(ctx, &key, emptied);
    Ok(())
}

/// The first existing key, which must have this type.
pub(crate) fn first_key<'a, T: CollectionType>(
    ctx: &mut Ctx<'_>,
    keys: &[Key<'a>],
) -> Result<Option<Key<'a>>, CommandError> {
    for key in keys {
        if ctx.commit.look_as::<T>(key)?.is_some() {
            return Ok(Some(*key));
        }
    }
    Ok(None)
}

/// `numkeys key [key …] <word> [COUNT count]` from argument `at` on, as LMPOP, ZMPOP and their blocking forms have it.
pub(crate) struct PopArguments {
    /// Where the keys are.
    pub(crate) keys: Range<usize>,
    /// Where the word behind them is.
    pub(crate) word: usize,
    /// How many elements to pop.
    pub(crate) count: usize,
}

impl PopArguments {
    /// Reads the numbers; `is_word` checks the word.
    ///
    /// # Errors
    /// `ERR numkeys should be greater than 0`, `ERR count should be greater than 0`, `ERR syntax error`
    pub(crate) fn parse(
        ctx: &Ctx<'_>,
        at: usize,
        is_word: impl Fn(&Ctx<'_>, usize) -> bool,
    ) -> Result<Self, CommandError> {
        let len = ctx.positive(at, CommandError::fixed("ERR numkeys should be greater than 0"))?;
        let word = (at + 1).checked_add(len).filter(|&word| word < ctx.argc()).ok_or(error::SYNTAX)?;
        if !is_word(ctx, word) {
            return Err(error::SYNTAX);
        }
        let mut count = None;
        let mut rest = ctx.rest(word + 1);
        while !rest.is_empty() {
            if count.is_some() || !rest.take_with("COUNT", 1) {
                return Err(error::SYNTAX);
            }
            let bad_count = CommandError::fixed("ERR count should be greater than 0");
            count = Some(ctx.positive(rest.next_index(), bad_count)?);
        }
        Ok(Self { keys: at + 1..word, word, count: count.unwrap_or(1) })
    }
}

/// `LMPOP numkeys key [key …] <LEFT | RIGHT> [COUNT count]`, or BLMPOP.
pub(crate) fn lmpop(ctx: &mut Ctx<'_>) -> CommandResult {
    pop_several(ctx, WaitsFor::List, |ctx, index| end_argument(ctx, index).is_ok(), pop_first)
}

/// Reads [`PopArguments`], behind a timeout if the command may wait, and pops from the first key of them that is there.
/// `pop_first` returns whether any is; then it has replied.
pub(crate) fn pop_several(
    ctx: &mut Ctx<'_>,
    waits_for: WaitsFor,
    is_word: impl Fn(&Ctx<'_>, usize) -> bool,
    pop_first: impl Fn(&mut Ctx<'_>, &PopArguments, &[Key<'_>]) -> Result<bool, CommandError>,
) -> CommandResult {
    let may_wait = ctx.command.flags.contains(Flags::BLOCKING);
    let arguments = PopArguments::parse(ctx, if may_wait { 2 } else { 1 }, is_word)?;
    let deadline_ms = if may_wait { ctx.deadline_from_seconds(1)? } else { None };
    let keys = lock_keys(ctx, arguments.keys.clone())?;
    match pop_first(ctx, &arguments, &keys)? {
        true => Ok(()),
        false if may_wait => wait(ctx, arguments.keys, waits_for, deadline_ms),
        false => ctx.reply_null_array(),
    }
}

fn pop_first(ctx: &mut Ctx<'_>, arguments: &PopArguments, keys: &[Key<'_>]) -> Result<bool, CommandError> {
    let end = end_argument(ctx, arguments.word)?;
    let Some(key) = first_key::<List>(ctx, keys)? else { return Ok(false) };
    ctx.out.array(2);
    ctx.out.bulk(key.bytes);
    let count = pop_to_reply(ctx, &key, end, arguments.count);
    let name = if end == End::Front { b"LPOP" } else { b"RPOP" };
    ctx.log_instead(&[name, key.bytes, itoa::Buffer::new().format(count).as_bytes()]);
    Ok(true)
}

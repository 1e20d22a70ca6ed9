//! Strings: SET and GET and their relatives, ranges, counters.

pub(crate) mod bounded_counters;
pub(crate) mod conditions;
pub(crate) mod lcs;
pub(crate) mod many;
pub(crate) mod specs;

use std::sync::Arc;

use onrush_resp::{Reply, parse_i64};
use onrush_store::{EMBED_VALUE_LEN_MAX, Entry, NewValue, Type, ValueRef};

use crate::command::RestOfArgs;
use crate::commands::bits::bytes_of;
use crate::commands::keys::expire::{self, set_expire};
use crate::commands::strings::conditions::Condition;
use crate::commit::Key;
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::{self, CommandError, Stop};
use crate::formats::long_double::LongDouble;

/// The longest text of an `i64`.
const INTEGER_LEN_MAX: usize = 20;

/// How an expiry is given: its unit, and whether it counts from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpiryUnit {
    /// Seconds from now.
    Ex,
    /// Milliseconds from now.
    Px,
    /// Unix time in seconds.
    ExAt,
    /// Unix time in milliseconds.
    PxAt,
}

impl ExpiryUnit {
    /// The unit an option names.
    pub(crate) fn from_option(word: &[u8]) -> Option<Self> {
        [("EX", Self::Ex), ("PX", Self::Px), ("EXAT", Self::ExAt), ("PXAT", Self::PxAt)]
            .into_iter()
            .find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, unit)| unit)
    }

    /// Argument `index`, a positive number in this unit, as Unix time in milliseconds.
    pub(super) fn read(self, ctx: &Ctx<'_>, index: usize) -> Result<i64, CommandError> {
        let value = ctx.int(index)?;
        Some(value)
            .filter(|&value| value > 0)
            .and_then(|value| self.at(value, ctx.now_ms()))
            .ok_or_else(|| bad_expiry(ctx))
    }

    /// A number in this unit as Unix time in milliseconds; `None` if that is out of range.
    #[inline]
    pub(crate) fn at(self, value: i64, now_ms: i64) -> Option<i64> {
        let value_ms = if self.is_in_seconds() { value.checked_mul(1000)? } else { value };
        value_ms.checked_add(self.base_ms(now_ms))
    }

    /// When it counts from, as Unix time in milliseconds.
    #[inline]
    pub(crate) fn base_ms(self, now_ms: i64) -> i64 {
        if matches!(self, Self::Ex | Self::Px) { now_ms } else { 0 }
    }

    /// Whether it counts seconds, not milliseconds.
    #[inline]
    pub(crate) fn is_in_seconds(self) -> bool {
        matches!(self, Self::Ex | Self::ExAt)
    }
}

/// The error for an expiry out of range.
#[cold]
pub(crate) fn bad_expiry(ctx: &Ctx<'_>) -> CommandError {
    CommandError::text(format!("ERR invalid expire time in '{}' command", ctx.command.full_name))
}

/// An argument as a value to store: its own buffer if it has one, an integer if it spells one.
#[inline]
pub(super) fn new_value<'a>(ctx: &Ctx<'a>, index: usize) -> NewValue<'a> {
    let bytes = ctx.arg(index);
    if bytes.len() <= INTEGER_LEN_MAX {
        if matches!(bytes.first(), Some(b'0'..=b'9' | b'-'))
            && let Some(value) = parse_i64(bytes)
        {
            return NewValue::Int(value);
        }
    } else if let Some(owned) = ctx.argv.owned(index) {
        return NewValue::Shared(owned.clone());
    }
    NewValue::Bytes(bytes)
}

/// Bytes as a value to store, even if they spell an integer. Many of them are taken over.
pub(super) fn take_raw(bytes: &mut Vec<u8>) -> NewValue<'_> {
    match bytes.len() > EMBED_VALUE_LEN_MAX {
        true => NewValue::Shared(Arc::new(std::mem::take(bytes))),
        false => NewValue::Raw(bytes),
    }
}

/// Appends a string value to the reply.
#[inline]
pub(super) fn reply_value(out: &mut Reply, value: ValueRef<'_>) -> CommandResult {
    match value {
        ValueRef::Bytes(bytes) => out.bulk(bytes),
        ValueRef::Int(value) => out.bulk_int(value),
        ValueRef::Shared(bytes) => out.bulk_shared(bytes),
        _ => return Err(error::WRONG_TYPE.into()),
    }
    Ok(())
}

/// Appends an entry's string, or null.
#[inline(always)]
fn reply_entry(out: &mut Reply, entry: Option<&Entry>) -> CommandResult {
    match entry {
        Some(entry) => reply_value(out, entry.value()),
        None => {
            out.null();
            Ok(())
        }
    }
}

pub(super) fn check_string(entry: &Entry) -> CommandResult {
    if entry.ty() == Type::String { Ok(()) } else { Err(error::WRONG_TYPE.into()) }
}

/// The options of SET, MSETEX and GETEX.
#[derive(Default)]
pub(super) struct Options<'a> {
    pub(super) condition: Option<Condition<'a>>,
    get: bool,
    pub(super) keep_ttl: bool,
    persist: bool,
    expiry: Option<(ExpiryUnit, usize)>,
}

impl<'a> Options<'a> {
    /// The options of SET from argument `from` on.
    fn of_set(ctx: &Ctx<'a>, from: usize) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut rest = ctx.rest(from);
        while !rest.is_empty() {
            if options.take_common(&mut rest) {
                continue;
            }
            if rest.take("GET") {
                options.get = true;
            } else if options.condition.is_none()
                && let Some(comparison) = Condition::take_comparison(&mut rest)
            {
                options.condition = Some(comparison);
            } else {
                return Err(error::SYNTAX);
            }
        }
        Ok(options)
    }

    /// The options of MSETEX from argument `from` on.
    pub(super) fn of_msetex(ctx: &Ctx<'a>, from: usize) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut rest = ctx.rest(from);
        while options.take_common(&mut rest) {}
        if rest.is_empty() { Ok(options) } else { Err(error::SYNTAX) }
    }

    /// Takes an option that SET and MSETEX share, unless it contradicts an earlier one.
    // As calls, this and `take_expiry` cost SET with EX 20 of 1,720 instructions.
    #[inline(always)]
    fn take_common(&mut self, rest: &mut RestOfArgs<'a>) -> bool {
        if !self.keep_ttl && self.take_expiry(rest) {
            return true;
        }
        let allows = |wanted| self.condition.is_none_or(|before| before == wanted);
        if allows(Condition::Absent) && rest.take("NX") {
            self.condition = Some(Condition::Absent);
        } else if allows(Condition::Present) && rest.take("XX") {
            self.condition = Some(Condition::Present);
        } else if self.expiry.is_none() && rest.take("KEEPTTL") {
            self.keep_ttl = true;
        } else {
            return false;
        }
        true
    }

    /// When the key is to expire, in Unix milliseconds, if an expiry is given.
    pub(super) fn expire_at(&self, ctx: &Ctx<'_>) -> Result<Option<i64>, CommandError> {
        self.expiry.map(|(unit, index)| unit.read(ctx, index)).transpose()
    }

    /// The options of GETEX from argument `from` on.
    fn of_getex(ctx: &Ctx<'_>, from: usize) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut rest = ctx.rest(from);
        while options.take_expiry(&mut rest) {}
        while options.expiry.is_none() && rest.take("PERSIST") {
            options.persist = true;
        }
        if rest.is_empty() { Ok(options) } else { Err(error::SYNTAX) }
    }

    /// Takes an expiry option and its argument, unless an earlier expiry option has another unit.
    #[inline(always)]
    fn take_expiry(&mut self, rest: &mut RestOfArgs<'_>) -> bool {
        let is_allowed = |unit: &ExpiryUnit| self.expiry.is_none_or(|(before, _)| before == *unit);
        let unit = rest.take_if(1, |word| ExpiryUnit::from_option(word).filter(is_allowed));
        let Some(unit) = unit else { return false };
        self.expiry = Some((unit, rest.next_index()));
        true
    }
}

/// `SET key value [options]`
pub(crate) fn set(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.argc() > 3 {
        return set_with_options(ctx);
    }
    let key = ctx.key(1);
    let value = new_value(ctx, 2);
    ctx.commit.set(&key, value, None);
    ctx.changed(EventClass::String, "set", key.bytes);
    ctx.reply_ok()
}

fn set_with_options(ctx: &mut Ctx<'_>) -> CommandResult {
    let options = Options::of_set(ctx, 3)?;
    set_generic(ctx, &options, 2)
}

fn set_generic(ctx: &mut Ctx<'_>, options: &Options<'_>, value_index: usize) -> CommandResult {
    let mut expire = options.expire_at(ctx)?;
    let key = ctx.key(1);
    if options.get {
        let entry = ctx.commit.read(&key);
        reply_entry(ctx.out, entry)?;
    }
    if options.condition.is_some() || options.keep_ttl {
        let found = ctx.commit.write(&key);
        if let Some(condition) = options.condition
            && !condition.is_met(found.as_deref())?
        {
            if !options.get {
                ctx.out.null();
            }
            return Ok(());
        }
        if options.keep_ttl {
            expire = found.and_then(|slot| slot.expire_at());
        }
    }
    let value = new_value(ctx, value_index);
    ctx.commit.set(&key, value, expire);
    ctx.changed(EventClass::String, "set", key.bytes);
    if options.expiry.is_some() {
        ctx.notify(EventClass::Generic, "expire", key.bytes);
    }
    if ctx.is_logged() {
        log_set(ctx, options, &key, value_index, expire);
    }
    if !options.get {
        ctx.out.ok();
    }
    Ok(())
}

/// Logs a SET with an expiry or a comparison as a SET with an absolute time and without a comparison.
#[cold]
fn log_set(ctx: &mut Ctx<'_>, options: &Options<'_>, key: &Key<'_>, value_index: usize, expire: Option<i64>) {
    let value = ctx.arg(value_index);
    if let (Some(at), Some(_)) = (expire, options.expiry) {
        let mut text = itoa::Buffer::new();
        ctx.log_instead(&[b"SET", key.bytes, value, b"PXAT", text.format(at).as_bytes()]);
    } else if options.condition.is_some_and(Condition::compares) {
        match options.keep_ttl {
            true => ctx.log_instead(&[b"SET", key.bytes, value, b"KEEPTTL"]),
            false => ctx.log_instead(&[b"SET", key.bytes, value]),
        }
    }
}

/// `SETNX key value`
pub(crate) fn setnx(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    if ctx.commit.write(&key).is_some() {
        return ctx.reply_int(0);
    }
    let value = new_value(ctx, 2);
    ctx.commit.set(&key, value, None);
    ctx.changed(EventClass::String, "set", key.bytes);
    ctx.reply_int(1)
}

/// `SETEX key seconds value`, or PSETEX.
fn setex(ctx: &mut Ctx<'_>, unit: ExpiryUnit) -> CommandResult {
    let options = Options { expiry: Some((unit, 2)), ..Options::default() };
    set_generic(ctx, &options, 3)
}

/// `GET key`
pub(crate) fn get(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    reply_entry(ctx.out, ctx.commit.read(&key))
}

/// `GETSET key value`
pub(crate) fn getset(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    reply_entry(ctx.out, ctx.commit.read(&key))?;
    let value = new_value(ctx, 2);
    ctx.commit.set(&key, value, None);
    ctx.changed(EventClass::String, "set", key.bytes);
    ctx.log_instead(&[b"SET", key.bytes, ctx.arg(2)]);
    Ok(())
}

/// `GETDEL key`
pub(crate) fn getdel(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let entry = ctx.commit.read(&key);
    let found = entry.is_some();
    reply_entry(ctx.out, entry)?;
    if found {
        let removed = ctx.commit.remove(&key);
        ctx.commit.discard(removed);
        ctx.changed(EventClass::Generic, "del", key.bytes);
        ctx.log_instead(&[b"DEL", key.bytes]);
    }
    Ok(())
}

/// `GETEX key [EX seconds | PX ms | EXAT s | PXAT ms | PERSIST]`
pub(crate) fn getex(ctx: &mut Ctx<'_>) -> CommandResult {
    let options = Options::of_getex(ctx, 2)?;
    let key = ctx.key(1);
    let entry = ctx.commit.read(&key);
    let volatile = entry.is_some_and(|entry| entry.expire_at().is_some());
    let found = entry.is_some();
    let mark = ctx.out.mark();
    reply_entry(ctx.out, entry)?;
    if !found {
        return Ok(());
    }
    if let Some((unit, index)) = options.expiry {
        let at = match unit.read(ctx, index) {
            Ok(at) => at,
            Err(error) => {
                ctx.out.rewind(mark);
                return Err(error.into());
            }
        };
        set_expire(ctx, &key, at, expire::Condition::default());
    } else if options.persist && volatile {
        if let Some(mut slot) = ctx.commit.write(&key) {
            slot.set_expire(None);
        }
        ctx.changed(EventClass::Generic, "persist", key.bytes);
        ctx.log_instead(&[b"PERSIST", key.bytes]);
    }
    Ok(())
}

/// `STRLEN key`
pub(crate) fn strlen(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let len = match ctx.commit.read(&key) {
        Some(entry) => {
            check_string(entry)?;
            entry.value().len()
        }
        None => 0,
    };
    ctx.reply_int(len as i64)
}

/// Refuses strings that would be longer than `proto-max-bulk-len`.
fn check_length(ctx: &Ctx<'_>, len: u64) -> CommandResult {
    let len_max = ctx.string_len_max();
    if len > len_max.max(0) as u64 { Err(error::STRING_TOO_LONG.into()) } else { Ok(()) }
}

/// The length of a string that is to be edited, and how many bytes that copies; `None` if there is no such key.
#[inline]
fn lens_of(ctx: &mut Ctx<'_>, key: &Key<'_>) -> Result<Option<(usize, usize)>, Stop> {
    let Some(slot) = ctx.commit.write(key) else { return Ok(None) };
    check_string(&slot)?;
    Ok(Some((slot.value().len(), slot.value().copied_bytes())))
}

/// `APPEND key value`
pub(crate) fn append(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let suffix = ctx.arg(2);
    let old = lens_of(ctx, &key)?;
    let old_len = old.map_or(0, |(len, _)| len);
    match old {
        None => {
            let value = new_value(ctx, 2);
            ctx.commit.set(&key, value, None);
        }
        Some((_, copied)) => {
            check_length(ctx, old_len as u64 + suffix.len() as u64)?;
            ctx.expect_edit(copied, 0)?;
            if let Some(mut slot) = ctx.commit.write_again(&key) {
                slot.append(suffix);
            }
        }
    }
    ctx.changed(EventClass::String, "append", key.bytes);
    ctx.reply_int((old_len + suffix.len()) as i64)
}

/// `SETRANGE key offset value`
pub(crate) fn setrange(ctx: &mut Ctx<'_>) -> CommandResult {
    let offset = ctx.int(2)?;
    let patch = ctx.arg(3);
    let offset = u64::try_from(offset).map_err(|_| error::OFFSET_OUT_OF_RANGE)?;
    let key = ctx.key(1);
    let old = lens_of(ctx, &key)?;
    let old_len = old.map_or(0, |(len, _)| len);
    if patch.is_empty() {
        return ctx.reply_int(old_len as i64);
    }
    let end = offset.checked_add(patch.len() as u64).ok_or(error::STRING_TOO_LONG)?;
    check_length(ctx, end)?;
    let (offset, end) = (offset as usize, end as usize);
    let len = old_len.max(end);
    if let Some((_, copied)) = old {
        ctx.expect_edit(copied, end.saturating_sub(old_len))?;
        if let Some(mut slot) = ctx.commit.write_again(&key) {
            if end > slot.value().len() {
                slot.resize(end);
            }
            slot.edit_bytes(|bytes| bytes[offset..end].copy_from_slice(patch));
        }
    } else {
        let mut bytes = vec![0; end];
        bytes[offset..].copy_from_slice(patch);
        ctx.commit.set(&key, take_raw(&mut bytes), None);
    }
    ctx.changed(EventClass::String, "setrange", key.bytes);
    ctx.reply_int(len as i64)
}

/// `GETRANGE key start end`, also as SUBSTR.
pub(crate) fn getrange(ctx: &mut Ctx<'_>) -> CommandResult {
    let (start, end) = (ctx.int(2)?, ctx.int(3)?);
    let key = ctx.key(1);
    let Some(entry) = ctx.commit.read(&key) else { return ctx.reply_bulk(b"") };
    let mut buffer = itoa::Buffer::new();
    let bytes = bytes_of(entry, &mut buffer)?;
    ctx.out.bulk(range(bytes, start, end));
    Ok(())
}

/// The bytes from `start` to `end`, both included; negative positions count from the end.
fn range(bytes: &[u8], start: i64, end: i64) -> &[u8] {
    let len = bytes.len() as i64;
    if start < 0 && end < 0 && start > end {
        return b"";
    }
    let absolute = |position: i64| if position < 0 { (len + position).max(0) } else { position };
    let (start, end) = (absolute(start), absolute(end).min(len - 1));
    if start > end || len == 0 { b"" } else { &bytes[start as usize..=end as usize] }
}

/// `INCRBY key increment`
pub(crate) fn incrby(ctx: &mut Ctx<'_>) -> CommandResult {
    let increment = ctx.int(2)?;
    add(ctx, increment)
}

/// `DECRBY key decrement`
pub(crate) fn decrby(ctx: &mut Ctx<'_>) -> CommandResult {
    let decrement = ctx.int(2)?;
    let increment = decrement.checked_neg().ok_or(CommandError::fixed("ERR decrement would overflow"))?;
    add(ctx, increment)
}

/// `INCR key`, or one of its relatives.
#[inline]
fn add(ctx: &mut Ctx<'_>, increment: i64) -> CommandResult {
    let key = ctx.key(1);
    let sum = match ctx.commit.write(&key) {
        Some(mut slot) => match slot.int_mut() {
            Some(int) => {
                *int = int.checked_add(increment).ok_or(error::OVERFLOW)?;
                *int
            }
            None => {
                let sum = integer(slot.value())?.checked_add(increment).ok_or(error::OVERFLOW)?;
                let displaced = slot.set_int(sum);
                ctx.commit.discard(displaced);
                sum
            }
        },
        None => {
            ctx.commit.insert(&key, NewValue::Int(increment));
            increment
        }
    };
    ctx.changed(EventClass::String, "incrby", key.bytes);
    ctx.reply_int(sum)
}

/// `INCRBY key increment`, several times.
pub(crate) fn incrby_run(ctx: &mut Ctx<'_>, times: u32) -> u32 {
    ctx.int(2).map_or(0, |increment| add_run(ctx, increment, times))
}

/// `DECRBY key decrement`, several times.
pub(crate) fn decrby_run(ctx: &mut Ctx<'_>, times: u32) -> u32 {
    ctx.int(2).ok().and_then(i64::checked_neg).map_or(0, |increment| add_run(ctx, increment, times))
}

/// As [`add`], for an existing key and `times` times; if one of the additions would fail, does nothing and returns
/// 0.
fn add_run(ctx: &mut Ctx<'_>, increment: i64, times: u32) -> u32 {
    if ctx.commit.counts_accesses() {
        // Each access counts.
        return 0;
    }
    let key = ctx.key(1);
    let Some(mut slot) = ctx.commit.write(&key) else { return 0 };
    let Ok(old) = integer(slot.value()) else { return 0 };
    let Some(sum) = increment.checked_mul(i64::from(times)).and_then(|all| old.checked_add(all)) else { return 0 };
    let displaced = slot.set_int(sum);
    ctx.commit.discard(displaced);
    ctx.out.ints(old + increment, increment, times);
    ctx.changed_by_run(times, EventClass::String, "incrby", key.bytes);
    times
}

#[inline]
pub(super) fn integer(value: ValueRef<'_>) -> Result<i64, CommandError> {
    match value {
        ValueRef::Int(value) => Ok(value),
        ValueRef::Bytes(bytes) => parse_i64(bytes).ok_or(error::NOT_INTEGER),
        ValueRef::Shared(_) => Err(error::NOT_INTEGER),
        _ => Err(error::WRONG_TYPE),
    }
}

/// `INCRBYFLOAT key increment`
pub(crate) fn incrbyfloat(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let (old, expire) = match ctx.commit.write(&key) {
        Some(slot) => {
            let entry = &slot;
            check_string(entry)?;
            (float(entry.value())?, entry.expire_at())
        }
        None => (LongDouble::from_i64(0), None),
    };
    let increment = LongDouble::parse(ctx.arg(2)).ok_or(error::NOT_FLOAT)?;
    let sum = old.checked_add(increment).filter(|sum| !sum.is_infinite());
    let sum = sum.ok_or(error::NOT_FINITE)?;
    let text = sum.to_string();
    ctx.commit.set(&key, NewValue::Bytes(text.as_bytes()), expire);
    ctx.changed(EventClass::String, "incrbyfloat", key.bytes);
    ctx.log_instead(&[b"SET", key.bytes, text.as_bytes(), b"KEEPTTL"]);
    ctx.reply_bulk(text.as_bytes())
}

pub(super) fn float(value: ValueRef<'_>) -> Result<LongDouble, CommandError> {
    match value {
        ValueRef::Int(value) => Ok(LongDouble::from_i64(value)),
        ValueRef::Bytes(bytes) => LongDouble::parse(bytes).ok_or(error::NOT_FLOAT),
        ValueRef::Shared(bytes) => LongDouble::parse(bytes).ok_or(error::NOT_FLOAT),
        _ => Err(error::WRONG_TYPE),
    }
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn ranges_are_clamped_to_the_string() {
        for (start, end, expected) in [
            (0, -1, "hello"),
            (1, 3, "ell"),
            (-3, -1, "llo"),
            (-100, 100, "hello"),
            (3, 1, ""),
            (-1, -3, ""),
            (10, 20, ""),
            (0, -100, "h"),
            (i64::MIN, i64::MIN, "h"),
            (i64::MIN, i64::MAX, "hello"),
        ] {
            assert_eq!(range(b"hello", start, end), expected.as_bytes(), "{start} {end}");
        }
        assert_eq!(range(b"", 0, -1), b"");
    }
}

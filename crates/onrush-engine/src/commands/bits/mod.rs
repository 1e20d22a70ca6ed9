//! Bits of strings: single ones, counts, positions, combinations. Bit fields are in `bit_fields`.

pub(crate) mod fields;
pub(crate) mod specs;

use std::ops::RangeInclusive;
use std::sync::Arc;

use onrush_resp::parse_i64;
use onrush_store::bitmap::{self, BitOperation};
use onrush_store::{Entry, Type, Value, ValueRef};

use crate::commands::keys::{lock, work_on};
use crate::commands::sets::replace_by_nothing;
use crate::commands::strings::take_raw;
use crate::commit::Key;
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::{self, CommandError, Stop};

pub(super) const BAD_OFFSET: CommandError = CommandError::fixed("ERR bit offset is not an integer or out of range");

/// The bytes of a string entry, spelled out into `buffer` if it is an integer.
///
/// # Errors
/// `WRONGTYPE …`
pub(super) fn bytes_of<'a>(entry: &'a Entry, buffer: &'a mut itoa::Buffer) -> Result<&'a [u8], CommandError> {
    if entry.ty() == Type::String { Ok(entry.value().to_bytes(buffer)) } else { Err(error::WRONG_TYPE) }
}

/// An offset in bits; with `#` in front it counts fields of `width` bits, if that is not 0.
pub(super) fn bit_offset(ctx: &Ctx<'_>, index: usize, width: u32) -> Result<usize, CommandError> {
    let text = ctx.arg(index);
    let (text, unit) = match text.strip_prefix(b"#") {
        Some(rest) if width > 0 => (rest, i64::from(width)),
        _ => (text, 1),
    };
    let offset = parse_i64(text).and_then(|offset| offset.checked_mul(unit)).ok_or(BAD_OFFSET)?;
    let bytes_max = ctx.string_len_max();
    usize::try_from(offset).ok().filter(|_| offset >> 3 < bytes_max).ok_or(BAD_OFFSET)
}

/// Calls `edit` with the bytes of a string, which is created or lengthened to at least `len` bytes if necessary; also
/// returns whether it was created or lengthened.
pub(super) fn edit_string<R>(
    ctx: &mut Ctx<'_>,
    key: &Key<'_>,
    len: usize,
    edit: impl FnOnce(&mut [u8]) -> R,
) -> Result<(R, bool), Stop> {
    let found = match ctx.commit.write(key) {
        Some(slot) if slot.ty() != Type::String => return Err(error::WRONG_TYPE.into()),
        found => found.map(|slot| (slot.value().copied_bytes(), len.saturating_sub(slot.value().len()))),
    };
    let Some((copied, added)) = found else {
        let mut bytes = vec![0; len];
        let result = edit(&mut bytes);
        ctx.commit.insert(key, take_raw(&mut bytes));
        return Ok((result, true));
    };
    ctx.expect_edit(copied, added)?;
    let mut slot = ctx.commit.write(key).ok_or(error::NO_SUCH_KEY)?;
    let grows = len > slot.value().len();
    if grows {
        slot.resize(len);
    }
    Ok((slot.edit_bytes(edit), grows))
}

/// `SETBIT key offset value`
pub(crate) fn setbit(ctx: &mut Ctx<'_>) -> CommandResult {
    let offset = bit_offset(ctx, 2, 0)?;
    let bad_bit = CommandError::fixed("ERR bit is not an integer or out of range");
    let value = match ctx.int_or(3, bad_bit.clone())? {
        bit @ (0 | 1) => bit == 1,
        _ => return Err(bad_bit.into()),
    };
    let key = ctx.key(1);
    let (old, grew) = edit_string(ctx, &key, offset / 8 + 1, |bytes| {
        let old = bitmap::get_bit(bytes, offset);
        bitmap::set_bit(bytes, offset, value);
        old
    })?;
    if grew || old != value {
        ctx.changed(EventClass::String, "setbit", key.bytes);
    }
    ctx.reply_int(i64::from(old))
}

/// `GETBIT key offset`
pub(crate) fn getbit(ctx: &mut Ctx<'_>) -> CommandResult {
    let offset = bit_offset(ctx, 2, 0)?;
    let key = ctx.key(1);
    let mut buffer = itoa::Buffer::new();
    let bit = match ctx.commit.read(&key) {
        Some(entry) => bitmap::get_bit(bytes_of(entry, &mut buffer)?, offset),
        None => false,
    };
    ctx.reply_int(i64::from(bit))
}

/// The bits of a range of bits or bytes, if it has any.
fn bit_range(start: i64, end: i64, bytes_len: usize, in_bits: bool) -> Option<RangeInclusive<usize>> {
    let unit = if in_bits { 1 } else { 8 };
    let len = (bytes_len * 8 / unit) as i64;
    // An end before the string counts as its first position.
    let absolute = |at: i64| if at < 0 { at.saturating_add(len).max(0) } else { at };
    let (first, last) = (absolute(start), absolute(end).min(len - 1));
    (first <= last).then(|| first as usize * unit..=(last as usize + 1) * unit - 1)
}

/// `BITCOUNT key [start end [BYTE | BIT]]`
pub(crate) fn bitcount(ctx: &mut Ctx<'_>) -> CommandResult {
    let range = match ctx.argc() {
        2 => None,
        4 | 5 => {
            let (start, end) = (ctx.int(2)?, ctx.int(3)?);
            let in_bits = if ctx.argc() == 5 { ctx.is_first(4, "BIT", "BYTE")? } else { false };
            Some((start, end, in_bits))
        }
        _ => return Err(error::SYNTAX.into()),
    };
    let key = ctx.key(1);
    let mut buffer = itoa::Buffer::new();
    let Some(entry) = ctx.commit.read(&key) else { return ctx.reply_int(0) };
    let bytes = bytes_of(entry, &mut buffer)?;
    let count = match range {
        None => bitmap::count_ones(bytes),
        // Two positions counted from the end in the wrong order are no range, even if clamping would make them one.
        Some((start, end, _)) if start < 0 && end < 0 && start > end => 0,
        Some((start, end, in_bits)) => bit_range(start, end, bytes.len(), in_bits)
            .map_or(0, |bits| bitmap::count_ones_between(bytes, *bits.start(), *bits.end())),
    };
    ctx.reply_int(count as i64)
}

/// `BITPOS key bit [start [end [BYTE | BIT]]]`
pub(crate) fn bitpos(ctx: &mut Ctx<'_>) -> CommandResult {
    let bit = match ctx.int(2)? {
        bit @ (0 | 1) => bit == 1,
        _ => return Err(CommandError::fixed("ERR The bit argument must be 1 or 0.").into()),
    };
    if ctx.argc() > 6 {
        return Err(error::SYNTAX.into());
    }
    let start = if ctx.argc() > 3 { ctx.int(3)? } else { 0 };
    let in_bits = if ctx.argc() == 6 { ctx.is_first(5, "BIT", "BYTE")? } else { false };
    let end = if ctx.argc() > 4 { ctx.int(4)? } else { -1 };
    // Without a given end, zeros follow the string.
    let is_open = !bit && ctx.argc() <= 4;
    let key = ctx.key(1);
    let mut buffer = itoa::Buffer::new();
    let Some(entry) = ctx.commit.read(&key) else { return ctx.reply_int(if bit { -1 } else { 0 }) };
    let bytes = bytes_of(entry, &mut buffer)?;
    let Some(bits) = bit_range(start, end, bytes.len(), in_bits) else { return ctx.reply_int(-1) };
    let found = bitmap::find_bit(bytes, bit, *bits.start(), *bits.end());
    let open = is_open.then_some(bytes.len() * 8);
    ctx.reply_int(found.or(open).map_or(-1, |at| at as i64))
}

/// The memory of a string that is about to be replaced by one of about the same length, `len` bytes: a fresh megabyte
/// of memory costs more than combining one. Removes the key for the moment.
fn take_buffer(ctx: &mut Ctx<'_>, target: &Key<'_>, len: usize) -> Vec<u8> {
    let Some(slot) = ctx.commit.write(target) else { return Vec::new() };
    match slot.value() {
        ValueRef::Shared(bytes) if (len..=2 * len).contains(&bytes.capacity()) => {}
        _ => return Vec::new(),
    }
    match slot.remove().into_value() {
        // A reply may still share it.
        Value::Shared(bytes) => Arc::try_unwrap(bytes).unwrap_or_default(),
        _ => Vec::new(),
    }
}

const OPERATIONS: [(&str, BitOperation); 8] = [
    ("AND", BitOperation::And),
    ("OR", BitOperation::Or),
    ("XOR", BitOperation::Xor),
    ("NOT", BitOperation::Not),
    ("DIFF", BitOperation::Diff),
    ("DIFF1", BitOperation::Diff1),
    ("ANDOR", BitOperation::AndOr),
    ("ONE", BitOperation::One),
];

/// `BITOP <AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE> destkey key [key …]`
pub(crate) fn bitop(ctx: &mut Ctx<'_>) -> CommandResult {
    let (name, operation) = OPERATIONS.into_iter().find(|(word, _)| ctx.is(1, word)).ok_or(error::SYNTAX)?;
    if operation == BitOperation::Not && ctx.argc() != 4 {
        return Err(CommandError::fixed("ERR BITOP NOT must be called with a single source key.").into());
    }
    let tells_first = matches!(operation, BitOperation::Diff | BitOperation::Diff1 | BitOperation::AndOr);
    if tells_first && ctx.argc() == 4 {
        return Err(
            CommandError::text(format!("ERR BITOP {name} must be called with at least two source keys.")).into()
        );
    }
    let target = ctx.key(2);
    let keys: Vec<Key<'_>> = (3..ctx.argc()).map(|index| ctx.key(index)).collect();
    lock(ctx, keys.iter().chain([&target]))?;
    let work = keys.iter().filter_map(|key| ctx.commit.held_entry(key)).map(work_on).sum();
    ctx.expect_work(work)?;
    let mut len = 0;
    for key in &keys {
        if let Some(entry) = ctx.commit.read(key) {
            if entry.ty() != Type::String {
                return Err(error::WRONG_TYPE.into());
            }
            len = len.max(entry.value().len());
        }
    }
    let is_large = len > onrush_store::EMBED_VALUE_LEN_MAX;
    // Reusing the target's buffer removes the key, so its event would say that it is new.
    let may_reuse = is_large && !keys.contains(&target) && !ctx.commit.tells_events();
    let spare = if may_reuse { take_buffer(ctx, &target, len) } else { Vec::new() };
    let mut digits: Vec<itoa::Buffer> = vec![itoa::Buffer::new(); keys.len()];
    let sources: Vec<&[u8]> = keys
        .iter()
        .zip(&mut digits)
        .map(|(key, buffer)| ctx.commit.held_entry(key).map_or(&[][..], |entry| entry.value().to_bytes(buffer)))
        .collect();
    let mut result = bitmap::combine(operation, &sources, spare);
    debug_assert_eq!(len, result.len());
    if len == 0 {
        replace_by_nothing(ctx, &target);
    } else {
        ctx.commit.set(&target, take_raw(&mut result), None);
        ctx.changed(EventClass::String, "set", target.bytes);
    }
    ctx.reply_int(len as i64)
}

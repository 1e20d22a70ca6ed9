//! Streams: adding, reading, deleting and trimming. Groups are in `stream_groups`, pending entries in `stream_pending`.

pub(crate) mod deletions;
pub(crate) mod groups;
pub(crate) mod idempotency;
pub(crate) mod pending;
pub(crate) mod reads;
pub(crate) mod releases;
pub(crate) mod specs;

use std::ops::Range;

use onrush_resp::{Reply, parse_i64};
use onrush_store::{References, Stream, StreamEntry, StreamId, Trim};

use crate::command::RestOfArgs;
use crate::commands::streams::idempotency::Message;
use crate::commit::Key;
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::{self, CommandError};

pub(super) const INVALID_ID: CommandError =
    CommandError::fixed("ERR Invalid stream ID specified as stream command argument");

/// A number as C's `strtoull` reads it: leading blanks are ignored, and a negative number wraps around.
fn number(text: &[u8]) -> Option<u64> {
    match parse_i64(text) {
        Some(number) => return u64::try_from(number).ok(),
        None if text.is_empty() => return None,
        None => {}
    }
    let text = std::str::from_utf8(text).ok()?.trim_ascii_start();
    let (digits, negative) = match text.strip_prefix('-') {
        Some(digits) => (digits, true),
        None => (text.strip_prefix('+').unwrap_or(text), false),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = is_number.then(|| digits.parse().ok()).flatten()?;
    Some(if negative { number.wrapping_neg() } else { number })
}

/// An identifier, `ms-seq`, or `ms` alone, which `seq` completes.
pub(super) fn parse_id(text: &[u8], seq: u64) -> Result<StreamId, CommandError> {
    let found = match text.iter().position(|&byte| byte == b'-') {
        None => number(text).map(|ms| StreamId { ms, seq }),
        Some(at) => number(&text[..at]).zip(number(&text[at + 1..])).map(|(ms, seq)| StreamId { ms, seq }),
    };
    found.ok_or(INVALID_ID)
}

/// The least or the greatest identifier of an interval: `-`, `+`, an identifier, or, after `(`, one that is excluded.
pub(super) fn parse_bound(text: &[u8], is_end: bool) -> Result<StreamId, CommandError> {
    let (text, excluded) = match text.strip_prefix(b"(") {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let id = match text {
        b"-" if !excluded => StreamId::MIN,
        b"+" if !excluded => StreamId::MAX,
        b"-" | b"+" => return Err(INVALID_ID),
        text => parse_id(text, if is_end { u64::MAX } else { 0 })?,
    };
    match (excluded, is_end) {
        (false, _) => Ok(id),
        (true, false) => id.next().ok_or(CommandError::fixed("ERR invalid start ID for the interval")),
        (true, true) => id.previous().ok_or(CommandError::fixed("ERR invalid end ID for the interval")),
    }
}

pub(super) fn reply_id(out: &mut Reply, id: StreamId) {
    let mut text = smallvec::SmallVec::<[u8; 64]>::new();
    let mut digits = itoa::Buffer::new();
    text.extend_from_slice(digits.format(id.ms).as_bytes());
    text.push(b'-');
    text.extend_from_slice(digits.format(id.seq).as_bytes());
    out.bulk(&text);
}

pub(super) fn reply_entry(out: &mut Reply, entry: StreamEntry<'_>) {
    out.array(2);
    reply_id(out, entry.id);
    out.array(2 * entry.len);
    for (field, value) in entry.iter() {
        out.bulk(field);
        out.bulk(value);
    }
}

/// How a stream is trimmed.
#[derive(Clone, Copy)]
pub(super) struct TrimOption {
    trim: Trim,
    approximate: bool,
    limit: u64,
    references: References,
}

/// Takes `KEEPREF`, `DELREF` or `ACKED`; returns what it says.
pub(super) fn take_references(rest: &mut RestOfArgs<'_>) -> Option<References> {
    let words = [("KEEPREF", References::Keep), ("DELREF", References::Delete), ("ACKED", References::Acknowledged)];
    rest.take_one_of(words)
}

/// Takes `numids id [id …]`, which stands behind IDS; returns the indexes of the identifiers.
///
/// # Errors
/// `ERR Number of IDs must be a positive integer`, ``ERR The `numids` parameter must match the number of arguments``
pub(super) fn next_ids(rest: &mut RestOfArgs<'_>) -> Result<Range<usize>, CommandError> {
    let not_positive = CommandError::fixed("ERR Number of IDs must be a positive integer");
    let len = rest.next_int_or(not_positive.clone())?;
    let len = usize::try_from(len).ok().filter(|&len| len > 0).ok_or(not_positive)?;
    if len > rest.len() {
        return Err(CommandError::fixed("ERR The `numids` parameter must match the number of arguments"));
    }
    Ok(rest.next_range(len))
}

/// The options that XADD and XTRIM share.
#[derive(Default)]
struct Options<'a> {
    trim: Option<Trim>,
    /// Trimming may leave more entries: `~` was given.
    approximate: bool,
    limit: Option<u64>,
    references: Option<References>,
    no_mkstream: bool,
    message: Option<Message<'a>>,
}

impl<'a> Options<'a> {
    /// Reads options from argument `at` on; returns them and where they end.
    fn parse(ctx: &Ctx<'a>, at: usize, is_add: bool) -> Result<(Self, usize), CommandError> {
        let mut options = Self::default();
        let mut rest = ctx.rest(at);
        while let Some(word) = rest.peek() {
            if is_add && word == b"*" {
                break;
            }
            if let Some(by_len) = rest.take_one_of_with([("MAXLEN", true), ("MINID", false)], 1) {
                options.read_threshold(by_len, &mut rest)?;
            } else if rest.take_with("LIMIT", 1) {
                let negative = CommandError::fixed("ERR The LIMIT argument must be >= 0.");
                options.limit = Some(u64::try_from(rest.next_int()?).map_err(|_| negative)?);
            } else if is_add && rest.take("NOMKSTREAM") {
                options.no_mkstream = true;
            } else if options.references.is_none()
                && let Some(references) = take_references(&mut rest)
            {
                options.references = Some(references);
            } else if is_add
                && options.message.is_none()
                && let Some(message) = Message::take(&mut rest)?
            {
                options.message = Some(message);
            } else if is_add {
                NewId::parse(word)?;
                break;
            } else {
                return Err(error::SYNTAX);
            }
        }
        if options.limit.is_some() && options.trim.is_none() {
            return Err(CommandError::fixed(
                "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
            ));
        }
        if !is_add && options.trim.is_none() {
            return Err(CommandError::fixed("ERR syntax error, XTRIM must be called with a trimming strategy"));
        }
        if options.limit.is_some() && options.trim.is_some() && !options.approximate {
            if ctx.session.is_replay {
                // Redis logs `~` as `=` with what it has trimmed to, and leaves the limit there.
                options.limit = None;
                return Ok((options, rest.index()));
            }
            return Err(CommandError::fixed("ERR syntax error, LIMIT cannot be used without the special ~ option"));
        }
        Ok((options, rest.index()))
    }

    /// Reads `[=|~] threshold` behind MAXLEN or MINID.
    fn read_threshold(&mut self, by_len: bool, rest: &mut RestOfArgs<'_>) -> Result<(), CommandError> {
        if self.trim.is_some() {
            return Err(CommandError::fixed(
                "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
            ));
        }
        self.approximate = rest.take_one_of_with([("~", true), ("=", false)], 1).unwrap_or(false);
        let trim = if by_len {
            let negative = CommandError::fixed("ERR The MAXLEN argument must be >= 0.");
            Trim::MaxLen(u64::try_from(rest.next_int()?).map_err(|_| negative)?)
        } else {
            Trim::MinId(parse_id(rest.next_arg(), 0)?)
        };
        self.trim = Some(trim);
        Ok(())
    }

    fn trim_option(&self, ctx: &Ctx<'_>) -> Option<TrimOption> {
        let (trim, approximate) = (self.trim?, self.approximate);
        let limit = self.limit.unwrap_or_else(|| {
            // A hundred nodes' worth, unless nodes are unlimited.
            let entries_max = ctx.engine.settings.encodings.stream().node_entries_max as u64;
            if !approximate {
                0
            } else if entries_max == 0 {
                10_000
            } else {
                100 * entries_max
            }
        });
        Some(TrimOption { trim, approximate, limit, references: self.references.unwrap_or_default() })
    }
}

impl TrimOption {
    fn apply(self, stream: &mut Stream) -> u64 {
        stream.trim_with(self.trim, self.approximate, self.limit, self.references)
    }

    /// Logs a trim that left `len` entries, in a way that does not depend on how entries share nodes.
    fn log(self, ctx: &mut Ctx<'_>, key: &[u8], len: usize) {
        if !ctx.is_logged() {
            return;
        }
        let left = (&b"MAXLEN"[..], len.to_string());
        let (threshold, references) = match (self.references, self.trim) {
            (References::Delete, _) => (left, &b"DELREF"[..]),
            // An exact trim skips entries.
            (References::Acknowledged, Trim::MaxLen(len_max)) if !self.approximate => {
                ((&b"MAXLEN"[..], len_max.to_string()), &b"ACKED"[..])
            }
            (References::Acknowledged, Trim::MinId(id)) if !self.approximate => {
                ((&b"MINID"[..], id.to_string()), &b"ACKED"[..])
            }
            _ => {
                ctx.log_instead(&[b"XTRIM", key, b"MAXLEN", b"=", left.1.as_bytes()]);
                return;
            }
        };
        ctx.log_instead(&[b"XTRIM", key, threshold.0, b"=", threshold.1.as_bytes(), references]);
    }
}

/// An identifier for XADD, which may leave parts to the server.
enum NewId {
    Any,
    InMs(u64),
    Whole(StreamId),
}

impl NewId {
    fn parse(text: &[u8]) -> Result<Self, CommandError> {
        Ok(match text {
            b"*" => Self::Any,
            [ms @ .., b'-', b'*'] => Self::InMs(parse_id(ms, 0).map(|id| id.ms)?),
            text => Self::Whole(parse_id(text, 0)?),
        })
    }
}

/// Most bytes of an entry's names and values together, as in Redis: an RDB file has them in one listpack.
const ENTRY_BYTES_MAX: usize = 1 << 30;

fn are_too_large(mut lens: impl Iterator<Item = usize>) -> bool {
    lens.try_fold(0, |sum: usize, len| sum.checked_add(len).filter(|sum| *sum <= ENTRY_BYTES_MAX)).is_none()
}

/// `XADD key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [IDMPAUTO producer-id | IDMP producer-id idempotent-id]
/// [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | id> field value [field value …]`
pub(crate) fn xadd(ctx: &mut Ctx<'_>) -> CommandResult {
    let (options, at) = Options::parse(ctx, 2, true)?;
    if at >= ctx.argc() {
        return Err(ctx.command.wrong_arity().into());
    }
    let new_id = NewId::parse(ctx.arg(at))?;
    let fields = ctx.argc() - at - 1;
    if fields < 2 || !fields.is_multiple_of(2) {
        return Err(ctx.command.wrong_arity().into());
    }
    if matches!(new_id, NewId::Whole(StreamId::MIN)) {
        return Err(CommandError::fixed("ERR The ID specified in XADD must be greater than 0-0").into());
    }
    if are_too_large((at + 1..ctx.argc()).map(|index| ctx.arg(index).len())) {
        return Err(CommandError::fixed("ERR Elements are too large to be stored").into());
    }
    let message =
        options.message.map(|message| message.named(ctx, at + 1, matches!(new_id, NewId::Any))).transpose()?;
    let key = ctx.key(1);
    if let Some(message) = &message
        && let Some(id) = message.find(ctx, &key)?
    {
        reply_id(ctx.out, id);
        return Ok(());
    }
    if options.no_mkstream && ctx.commit.write_as::<Stream>(&key)?.is_none() {
        return ctx.reply_null();
    }
    let (now_ms, trim, limits) = (ctx.now_ms(), options.trim_option(ctx), ctx.engine.settings.encodings.stream());
    let stream = ctx.commit.write_or_create::<Stream>(&key)?;
    let id = match choose_id(stream.last_id(), &new_id, now_ms) {
        Ok(id) => id,
        Err(error) => {
            let is_new = stream.entries_added() == 0 && stream.last_id() == StreamId::MIN && stream.groups().is_empty();
            if is_new {
                ctx.commit.delete(&key);
            }
            return Err(error.into());
        }
    };
    let argv = ctx.argv;
    let pairs: smallvec::SmallVec<[(&[u8], &[u8]); 8]> =
        (at + 1..argv.len()).step_by(2).map(|index| (argv.get(index), argv.get(index + 1))).collect();
    stream.push(id, &pairs, &limits);
    if let Some(message) = &message {
        message.record(stream, id, now_ms);
    }
    let trimmed = trim.map_or(0, |trim| trim.apply(stream));
    let len = stream.len();
    ctx.changed(EventClass::Stream, "xadd", key.bytes);
    if trimmed > 0 {
        ctx.changed(EventClass::Stream, "xtrim", key.bytes);
    }
    if ctx.is_logged() {
        log_add(ctx, &key, id, at);
        if let Some(message) = &message {
            message.log(ctx, &key, id);
        }
        if let Some(trim) = trim.filter(|_| trimmed > 0) {
            trim.log(ctx, key.bytes, len);
        }
    }
    reply_id(ctx.out, id);
    Ok(())
}

fn log_add(ctx: &mut Ctx<'_>, key: &Key<'_>, id: StreamId, at: usize) {
    let id = id.to_string();
    let argv = ctx.argv;
    let args: Vec<&[u8]> =
        [&b"XADD"[..], key.bytes, id.as_bytes()].into_iter().chain(argv.iter().skip(at + 1)).collect();
    ctx.log_instead(&args);
}

fn choose_id(last: StreamId, new_id: &NewId, now_ms: i64) -> Result<StreamId, CommandError> {
    const TOO_SMALL: CommandError =
        CommandError::fixed("ERR The ID specified in XADD is equal or smaller than the target stream top item");
    if last == StreamId::MAX {
        return Err(CommandError::fixed("ERR The stream has exhausted the last possible ID, unable to add more items"));
    }
    match *new_id {
        NewId::Any => {
            let now = StreamId { ms: now_ms.max(0) as u64, seq: 0 };
            let next = last.next().ok_or(TOO_SMALL)?;
            Ok(if now.ms > last.ms { now } else { next })
        }
        NewId::InMs(ms) if ms < last.ms => Err(TOO_SMALL),
        NewId::InMs(ms) if ms == last.ms => {
            let seq = last.seq.checked_add(1).ok_or(TOO_SMALL)?;
            Ok(StreamId { ms, seq })
        }
        NewId::InMs(ms) => Ok(StreamId { ms, seq: 0 }),
        NewId::Whole(id) if id <= last => Err(TOO_SMALL),
        NewId::Whole(id) => Ok(id),
    }
}

/// `XLEN key`
pub(crate) fn xlen(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let len = ctx.commit.read_as::<Stream>(&key)?.map_or(0, Stream::len);
    ctx.reply_int(len as i64)
}

/// `XRANGE key start end [COUNT count]`, or XREVRANGE.
fn range(ctx: &mut Ctx<'_>, reverse: bool) -> CommandResult {
    let (start, end) = if reverse { (3, 2) } else { (2, 3) };
    let start = parse_bound(ctx.arg(start), false)?;
    let end = parse_bound(ctx.arg(end), true)?;
    let mut count = i64::MAX;
    let mut rest = ctx.rest(4);
    while rest.take_with("COUNT", 1) {
        count = rest.next_int()?.max(0);
    }
    if !rest.is_empty() {
        return Err(error::SYNTAX.into());
    }
    let key = ctx.key(1);
    let stream = ctx.commit.read_as::<Stream>(&key)?;
    let Some(stream) = stream else { return ctx.reply_empty() };
    if count == 0 {
        return ctx.reply_null_array();
    }
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let entries: Vec<StreamEntry<'_>> = if start > end {
        Vec::new()
    } else if reverse {
        stream.iter_back_from(end).take_while(|entry| entry.id >= start).take(count).collect()
    } else {
        stream.iter_from(start).take_while(|entry| entry.id <= end).take(count).collect()
    };
    ctx.out.array(entries.len());
    entries.into_iter().for_each(|entry| reply_entry(ctx.out, entry));
    Ok(())
}

/// `XDEL key id [id …]`
pub(crate) fn xdel(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    if ctx.commit.write_as::<Stream>(&key)?.is_none() {
        return ctx.reply_int(0);
    }
    let ids: Vec<StreamId> = (2..ctx.argc()).map(|index| parse_id(ctx.arg(index), 0)).collect::<Result<_, _>>()?;
    let stream = ctx.commit.write_as::<Stream>(&key)?;
    let removed = stream.map_or(0, |stream| ids.iter().filter(|&&id| stream.remove(id)).count());
    if removed > 0 {
        ctx.changed_quietly(EventClass::Stream, "xdel", key.bytes);
    }
    ctx.reply_int(removed as i64)
}

/// `XTRIM key <MAXLEN | MINID> [= | ~] threshold [LIMIT count] [KEEPREF | DELREF | ACKED]`
pub(crate) fn xtrim(ctx: &mut Ctx<'_>) -> CommandResult {
    let (options, _) = Options::parse(ctx, 2, false)?;
    let trim = options.trim_option(ctx);
    let key = ctx.key(1);
    let stream = ctx.commit.write_as::<Stream>(&key)?;
    let (mut removed, mut len) = (0, 0);
    if let (Some(stream), Some(trim)) = (stream, trim) {
        removed = trim.apply(stream);
        len = stream.len();
    }
    if removed > 0 {
        ctx.changed(EventClass::Stream, "xtrim", key.bytes);
        if let Some(trim) = trim {
            trim.log(ctx, key.bytes, len);
        }
    }
    ctx.reply_int(removed as i64)
}

/// `XSETID key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]`
pub(crate) fn xsetid(ctx: &mut Ctx<'_>) -> CommandResult {
    let last_id = parse_id(ctx.arg(2), 0)?;
    let (mut entries_added, mut max_deleted) = (None, None);
    let mut rest = ctx.rest(3);
    while !rest.is_empty() {
        if rest.take_with("ENTRIESADDED", 1) {
            let negative = CommandError::fixed("ERR entries_added must be positive");
            entries_added = Some(u64::try_from(rest.next_int()?).map_err(|_| negative)?);
        } else if rest.take_with("MAXDELETEDID", 1) {
            let id = parse_id(rest.next_arg(), 0)?;
            if last_id < id {
                return Err(CommandError::fixed(
                    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                )
                .into());
            }
            max_deleted = Some(id);
        } else {
            return Err(error::SYNTAX.into());
        }
    }
    let key = ctx.key(1);
    let stream = ctx.commit.write_as::<Stream>(&key)?.ok_or(error::NO_SUCH_KEY)?;
    if last_id < stream.max_deleted_id() {
        return Err(
            CommandError::fixed("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id").into()
        );
    }
    if !stream.is_empty() {
        let top = stream.iter_back_from(StreamId::MAX).next().map_or(StreamId::MIN, |entry| entry.id);
        if last_id < top {
            return Err(CommandError::fixed(
                "ERR The ID specified in XSETID is smaller than the target stream top item",
            )
            .into());
        }
        if entries_added.is_some_and(|added| added < stream.len() as u64) {
            return Err(CommandError::fixed(
                "ERR The entries_added specified in XSETID is smaller than the target stream length",
            )
            .into());
        }
    }
    stream.set_last_id(last_id, entries_added, max_deleted);
    ctx.changed_groups("xsetid", key.bytes);
    ctx.reply_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_a_limit_of_bytes() {
        assert!(!are_too_large([ENTRY_BYTES_MAX - 1, 1, 0].into_iter()));
        for lens in [[ENTRY_BYTES_MAX, 1, 0], [1 << 29; 3], [usize::MAX, usize::MAX, 1]] {
            assert!(are_too_large(lens.into_iter()), "{lens:?}");
        }
    }
}

//! KEYS and SCAN: listing the keys of a database.
//!
//! Both lock one shard at a time, so other commands wait no longer than one shard takes.

use std::cell::Cell;

use onrush_resp::Reply;
use onrush_store::{CollectionType, Entry};

use crate::commands::keys::is_hidden;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError, Stop};
use crate::formats::glob::{glob_match, match_work, widened_len};

const INVALID_CURSOR: CommandError = CommandError::fixed("ERR invalid cursor");

const ONLY_HSCAN: CommandError = CommandError::fixed("ERR NOVALUES option can only be used in HSCAN");

/// Entries that SCAN looks at by default.
const COUNT_DEFAULT: usize = 10;

/// `KEYS pattern`
pub(crate) fn keys(ctx: &mut Ctx<'_>) -> CommandResult {
    let pattern = ctx.arg(1);
    if memchr::memchr3(b'*', b'?', b'[', pattern).is_none() && !pattern.contains(&b'\\') {
        let key = ctx.commit.key(pattern);
        let found = ctx.commit.peek(&key).is_some() && !is_hidden(ctx.engine, pattern);
        ctx.out.array(usize::from(found));
        if found {
            ctx.out.bulk(pattern);
        }
        return Ok(());
    }
    let len = ctx.engine.keyspace.db(ctx.commit.db() as usize).map_or(0, onrush_store::Db::len);
    ctx.commit.release();
    ctx.expect_shards(len)?;
    let filter = Filter { now_ms: ctx.now_ms(), wanted: wanted(pattern, ctx), type_name: None };
    let (_, found) = collect(ctx, 0, usize::MAX, &filter)?;
    found.append_to(ctx.out);
    Ok(())
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
///
/// COUNT bounds the entries that are looked at, expired ones included. A type that does not exist matches nothing.
pub(crate) fn scan(ctx: &mut Ctx<'_>) -> CommandResult {
    let cursor = parse_cursor(ctx.arg(1)).ok_or(INVALID_CURSOR)?;
    let mut filter = Filter { now_ms: ctx.now_ms(), wanted: None, type_name: None };
    let mut count = COUNT_DEFAULT;
    let mut rest = ctx.rest(2);
    while !rest.is_empty() {
        if rest.take_with("COUNT", 1) {
            count = usize::try_from(rest.next_int()?).ok().filter(|&count| count > 0).ok_or(error::SYNTAX)?;
        } else if rest.take_with("MATCH", 1) {
            filter.wanted = wanted(rest.next_arg(), ctx);
        } else if rest.take_with("TYPE", 1) {
            filter.type_name = Some(rest.next_arg());
        } else {
            return Err(if rest.is("NOVALUES") { ONLY_HSCAN } else { error::SYNTAX }.into());
        }
    }
    ctx.commit.release();
    ctx.expect_shards(count)?;
    let (cursor, found) = collect(ctx, cursor, count, &filter)?;
    found.reply(ctx.out, cursor);
    Ok(())
}

/// The arguments of HSCAN, SSCAN and ZSCAN.
pub(crate) struct ElementScan<'a> {
    /// Where to go on; 0 at the start.
    pub(crate) cursor: u64,
    /// Elements to look at.
    pub(crate) count: usize,
    /// What an element has to match; `None` lets all through.
    wanted: Option<Wanted<'a>>,
    /// HSCAN's NOVALUES and ZSCAN's NOSCORES.
    pub(crate) no_values: bool,
}

/// A pattern, and the work of matching with it, which a worker gives up when it becomes too much.
struct Wanted<'a> {
    pattern: &'a [u8],
    widened_len: usize,
    work: Cell<usize>,
    work_max: usize,
}

impl<'a> Wanted<'a> {
    fn new(pattern: &'a [u8], ctx: &Ctx<'_>) -> Self {
        Self { pattern, widened_len: widened_len(pattern), work: Cell::new(0), work_max: ctx.commit.work_max() }
    }

    /// Whether `string` matches; nothing does any more when it has become too much.
    fn matches(&self, string: &[u8]) -> bool {
        self.work.set(self.work.get().saturating_add(match_work(self.widened_len, string.len())));
        self.work.get() <= self.work_max && glob_match(self.pattern, string, false)
    }

    /// What was found is all.
    ///
    /// # Errors
    /// As of [`Ctx::expect_work`]: it became too much.
    fn end(&self, ctx: &Ctx<'_>) -> CommandResult {
        ctx.expect_work(self.work.get())
    }
}

impl<'a> ElementScan<'a> {
    /// Reads `key cursor [MATCH pattern] [COUNT count] [NOVALUES]`; `no_values` is the name of the last option, if the
    /// command has it. If the key does not exist, the options are not read, and there is nothing to scan.
    ///
    /// # Errors
    /// `ERR invalid cursor`, `WRONGTYPE …`, `ERR syntax error`, `ERR value is not an integer or out of range`,
    /// `ERR NOVALUES option can only be used in HSCAN`
    pub(crate) fn parse<T: CollectionType>(
        ctx: &mut Ctx<'a>,
        no_values: Option<&str>,
    ) -> Result<Option<Self>, CommandError> {
        let cursor = parse_cursor(ctx.arg(2)).ok_or(INVALID_CURSOR)?;
        let key = ctx.key(1);
        if ctx.commit.read_as::<T>(&key)?.is_none() {
            return Ok(None);
        }
        let mut scan = Self { cursor, count: COUNT_DEFAULT, wanted: None, no_values: false };
        let mut rest = ctx.rest(3);
        while !rest.is_empty() {
            if rest.take_with("COUNT", 1) {
                scan.count = usize::try_from(rest.next_int()?).ok().filter(|&n| n > 0).ok_or(error::SYNTAX)?;
            } else if rest.take_with("MATCH", 1) {
                scan.wanted = wanted(rest.next_arg(), ctx);
            } else if no_values.is_some_and(|word| rest.take(word)) {
                scan.no_values = true;
            } else {
                return Err(if rest.is("NOVALUES") { ONLY_HSCAN } else { error::SYNTAX });
            }
        }
        Ok(Some(scan))
    }

    /// Whether an element is wanted.
    pub(crate) fn admits(&self, element: &[u8]) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| wanted.matches(element))
    }

    /// Ends the scan, which has changed nothing.
    ///
    /// # Errors
    /// As of [`Ctx::expect_work`]: what was found is not all.
    pub(crate) fn end(&self, ctx: &Ctx<'_>) -> CommandResult {
        self.wanted.as_ref().map_or(Ok(()), |wanted| wanted.end(ctx))
    }
}

/// What a pattern lets through; `None`: everything.
fn wanted<'a>(pattern: &'a [u8], ctx: &Ctx<'_>) -> Option<Wanted<'a>> {
    (pattern != b"*").then(|| Wanted::new(pattern, ctx))
}

/// Looks at `count` entries of the present database from `cursor` on; returns the next cursor and the keys.
///
/// # Errors
/// As of [`Wanted::end`].
fn collect(ctx: &mut Ctx<'_>, cursor: u64, count: usize, filter: &Filter<'_>) -> Result<(u64, Found), Stop> {
    ctx.commit.release();
    let (mut found, engine) = (Found::default(), ctx.engine);
    let next = match engine.keyspace.db(ctx.commit.db() as usize) {
        Some(db) => db.scan(cursor, count, &mut |entry| {
            if filter.admits(entry) && !is_hidden(engine, entry.key()) {
                found.push(entry.key());
            }
        }),
        None => 0,
    };
    filter.wanted.as_ref().map_or(Ok(()), |wanted| wanted.end(ctx))?;
    Ok((next, found))
}

/// Which entries are wanted.
struct Filter<'a> {
    /// Entries expired by then are not.
    now_ms: i64,
    /// What the key has to match.
    wanted: Option<Wanted<'a>>,
    /// Name of the type, in any case.
    type_name: Option<&'a [u8]>,
}

impl Filter<'_> {
    fn admits(&self, entry: &Entry) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| wanted.matches(entry.key()))
            && self.type_name.is_none_or(|name| name.eq_ignore_ascii_case(entry.ty().name().as_bytes()))
            && !entry.is_expired(self.now_ms)
    }
}

/// Keys found so far, encoded; their number comes before them.
#[derive(Default)]
pub(crate) struct Found {
    keys: Reply,
    count: usize,
}

impl Found {
    pub(crate) fn push(&mut self, key: &[u8]) {
        self.keys.bulk(key);
        self.count += 1;
    }

    /// Appends the reply of a scan: where to go on, and what was found.
    pub(crate) fn reply(&self, out: &mut Reply, cursor: u64) {
        out.array(2);
        out.bulk(itoa::Buffer::new().format(cursor).as_bytes());
        self.append_to(out);
    }

    fn append_to(&self, out: &mut Reply) {
        out.array(self.count);
        out.raw(self.keys.as_single_slice().unwrap_or_default());
    }
}

/// Reads a cursor as Redis does, with C's `strtoul`: a sign is allowed, a negative number wraps around, the empty text
/// is 0, and the text ends at a zero byte. Unlike in C, leading white space is not allowed.
fn parse_cursor(text: &[u8]) -> Option<u64> {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0);
    }
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value: u64 = 0;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(if negative { value.wrapping_neg() } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_by_strtoul() {
        for (text, cursor) in [
            ("0", Some(0)),
            ("", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("-1", Some(u64::MAX)),
            ("-18446744073709551616", None),
            ("+5", Some(5)),
            ("007", Some(7)),
            ("5\0x", Some(5)),
            (" 5", None),
            ("5 ", None),
            ("-", None),
            ("+-5", None),
            ("x", None),
        ] {
            assert_eq!(parse_cursor(text.as_bytes()), cursor, "{text:?}");
        }
    }
}

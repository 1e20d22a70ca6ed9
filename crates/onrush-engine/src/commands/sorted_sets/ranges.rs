//! Sorted sets: returning, counting, storing and removing ranges by rank, score and bytes.

use onrush_resp::parse_f64;
use onrush_store::{Encoding, SortedSet};

use crate::commands::keys::lock;
use crate::commands::lists::clamp_range;
use crate::commands::sets::{delete_emptied, replace_by_nothing};
use crate::commands::sorted_sets::reply_members;
use crate::commit::Key;
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::{self, CommandError};

const NOT_A_SCORE: CommandError = CommandError::fixed("ERR min or max is not a float");
const NOT_A_LEX_BOUND: CommandError = CommandError::fixed("ERR min or max not valid string range item");

/// What the bounds of a range are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Rank,
    Score,
    Lex,
}

/// A bound among scores.
#[derive(Clone, Copy)]
struct ScoreBound {
    score: f64,
    exclusive: bool,
}

impl ScoreBound {
    /// Reads a bound as Redis does: the empty text is 0, and leading blanks are ignored.
    fn parse(text: &[u8]) -> Result<Self, CommandError> {
        let (text, exclusive) = match text.strip_prefix(b"(") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let is_nothing = text.is_empty();
        let text = text.trim_ascii_start();
        let huge = || std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
        let score = if is_nothing { Some(0.0) } else { parse_f64(text).or_else(huge) };
        let score = score.filter(|score| !score.is_nan()).ok_or(NOT_A_SCORE)?;
        Ok(Self { score, exclusive })
    }
}

/// A bound among members of the same score.
#[derive(Clone, Copy)]
enum LexBound<'a> {
    Least,
    Greatest,
    Included(&'a [u8]),
    Excluded(&'a [u8]),
}

impl<'a> LexBound<'a> {
    fn parse(text: &'a [u8]) -> Result<Self, CommandError> {
        match text {
            b"-" => Ok(Self::Least),
            b"+" => Ok(Self::Greatest),
            [b'[', rest @ ..] => Ok(Self::Included(rest)),
            [b'(', rest @ ..] => Ok(Self::Excluded(rest)),
            _ => Err(NOT_A_LEX_BOUND),
        }
    }

    /// Whether a member is in front of a range that begins here.
    fn is_before(self, member: &[u8]) -> bool {
        match self {
            Self::Least => false,
            Self::Greatest => true,
            Self::Included(bound) => member < bound,
            Self::Excluded(bound) => member <= bound,
        }
    }

    /// Whether a member is within a range that ends here.
    fn is_within(self, member: &[u8]) -> bool {
        match self {
            Self::Least => false,
            Self::Greatest => true,
            Self::Included(bound) => member <= bound,
            Self::Excluded(bound) => member < bound,
        }
    }
}

/// A range as it was asked for.
#[derive(Clone, Copy)]
enum Range<'a> {
    Rank(i64, i64),
    Score(ScoreBound, ScoreBound),
    Lex(LexBound<'a>, LexBound<'a>),
}

impl<'a> Range<'a> {
    /// Reads the bounds; with `swapped` the greater comes first.
    fn parse(by: By, first: &'a [u8], second: &'a [u8], swapped: bool) -> Result<Self, CommandError> {
        let (min, max) = if swapped && by != By::Rank { (second, first) } else { (first, second) };
        let integer = |text| onrush_resp::parse_i64(text).ok_or(error::NOT_INTEGER);
        Ok(match by {
            By::Rank => Self::Rank(integer(min)?, integer(max)?),
            By::Score => Self::Score(ScoreBound::parse(min)?, ScoreBound::parse(max)?),
            By::Lex => Self::Lex(LexBound::parse(min)?, LexBound::parse(max)?),
        })
    }

    /// The ranks of the range's members in a set.
    fn locate(self, set: &SortedSet, reverse: bool) -> std::ops::Range<usize> {
        let (start, end) = match self {
            Self::Rank(start, stop) => {
                let ranks = clamp_range(start, stop, set.len());
                return if reverse { set.len() - ranks.end..set.len() - ranks.start } else { ranks };
            }
            Self::Score(min, max) => (
                set.partition_point(&|score, _| score < min.score || min.exclusive && score == min.score),
                set.partition_point(&|score, _| score < max.score || !max.exclusive && score == max.score),
            ),
            Self::Lex(min, max) if set.encoding() == Encoding::Listpack && has_several_scores(set) => {
                return locate_in_listpack(min, max, set, reverse);
            }
            Self::Lex(min, max) => (
                set.partition_point(&|_, member| min.is_before(member)),
                set.partition_point(&|_, member| max.is_within(member)),
            ),
        };
        start..end.max(start)
    }
}

/// Whether the members have not all the same score: where they are by their bytes is not defined then.
fn has_several_scores(set: &SortedSet) -> bool {
    let last = set.len().checked_sub(1).and_then(|rank| set.iter_from(rank).next());
    set.iter().next().map(|(_, score)| score) != last.map(|(_, score)| score)
}

/// A range by bytes among members of several scores, as Redis finds it in a listpack: what is between the first and the last
/// member is looked through from one end.
#[cold]
fn locate_in_listpack(min: LexBound<'_>, max: LexBound<'_>, set: &SortedSet, reverse: bool) -> std::ops::Range<usize> {
    let members: Vec<&[u8]> = set.iter().map(|(member, _)| member).collect();
    let (is_from, is_to) = (|member: &&[u8]| !min.is_before(member), |member: &&[u8]| max.is_within(member));
    if !members.last().is_some_and(is_from) || !members.first().is_some_and(is_to) {
        return 0..0;
    }
    if reverse {
        let end = members.iter().rposition(is_to).map_or(0, |last| last + 1);
        let len = members[..end].iter().rev().take_while(|member| is_from(member)).count();
        return end - len..end;
    }
    let start = members.iter().position(is_from).unwrap_or(0);
    let len = members[start..].iter().take_while(|member| is_to(member)).count();
    start..start + len
}

/// Whether servers may find other members in a range between these texts: in a number in hexadecimal or behind blanks, which
/// Redis 8 does not read, or by bytes among several scores. The log then has the ranks of what was found.
fn is_ambiguous(range: Range<'_>, texts: [&[u8]; 2], set: &SortedSet) -> bool {
    match range {
        Range::Rank(..) => false,
        Range::Score(..) => texts
            .iter()
            .any(|text| text.iter().any(|byte| byte.is_ascii_whitespace() || byte.eq_ignore_ascii_case(&b'x'))),
        Range::Lex(..) => has_several_scores(set),
    }
}

/// Members with their scores.
type Members<'s> = Box<dyn Iterator<Item = (&'s [u8], f64)> + 's>;

/// Which members of a range are returned.
#[derive(Clone, Copy)]
struct Limit {
    /// Members to skip; a negative number skips all.
    offset: i64,
    /// The most to return; a negative number returns all.
    count: i64,
}

/// The properties of a range that the command's name fixes, so that no option sets them.
#[derive(Clone, Copy)]
struct Fixed {
    by: By,
    reverse: bool,
}

/// A range with all its options.
struct Query<'a> {
    range: Range<'a>,
    reverse: bool,
    limit: Option<Limit>,
    with_scores: bool,
}

impl<'a> Query<'a> {
    /// Reads `min max [options]` from argument `at` on.
    fn parse(ctx: &Ctx<'a>, at: usize, fixed: Option<Fixed>, may_have_scores: bool) -> Result<Self, CommandError> {
        let (mut by, mut reverse) = (fixed.map(|fixed| fixed.by), fixed.map(|fixed| fixed.reverse));
        let (mut limit, mut with_scores) = (None, false);
        let mut rest = ctx.rest(at + 2);
        while !rest.is_empty() {
            if may_have_scores && rest.take("WITHSCORES") {
                with_scores = true;
            } else if rest.take_with("LIMIT", 2) {
                limit = Some(Limit { offset: rest.next_int()?, count: rest.next_int()? });
            } else if reverse.is_none() && rest.take("REV") {
                reverse = Some(true);
            } else if by.is_none() && rest.take("BYLEX") {
                by = Some(By::Lex);
            } else if by.is_none() && rest.take("BYSCORE") {
                by = Some(By::Score);
            } else {
                return Err(error::SYNTAX);
            }
        }
        let (by, reverse) = (by.unwrap_or(By::Rank), reverse.unwrap_or(false));
        if limit.is_some_and(|limit| limit.count != -1) && by == By::Rank {
            return Err(CommandError::fixed(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if with_scores && by == By::Lex {
            return Err(CommandError::fixed("ERR syntax error, WITHSCORES not supported in combination with BYLEX"));
        }
        let range = Range::parse(by, ctx.arg(at), ctx.arg(at + 1), reverse)?;
        Ok(Self { range, reverse, limit: limit.filter(|_| by != By::Rank), with_scores })
    }

    /// The ranks of the requested members.
    fn ranks(&self, set: &SortedSet) -> std::ops::Range<usize> {
        let ranks = self.range.locate(set, self.reverse);
        let (skipped, count) = match self.limit {
            None => (0, ranks.len()),
            Some(Limit { offset, count }) => {
                let skipped = usize::try_from(offset).unwrap_or(usize::MAX).min(ranks.len());
                let wanted = usize::try_from(count).unwrap_or(usize::MAX);
                (skipped, (ranks.len() - skipped).min(wanted))
            }
        };
        match self.reverse {
            true => ranks.end - skipped - count..ranks.end - skipped,
            false => ranks.start + skipped..ranks.start + skipped + count,
        }
    }

    /// The requested members, in the requested order, and their number.
    fn select<'s>(&self, set: &'s SortedSet) -> (usize, Members<'s>) {
        let ranks = self.ranks(set);
        let members: Members<'s> = match self.reverse {
            _ if ranks.is_empty() => Box::new(std::iter::empty()),
            true => Box::new(set.iter_back_from(ranks.end - 1).take(ranks.len())),
            false => Box::new(set.iter_from(ranks.start).take(ranks.len())),
        };
        (ranks.len(), members)
    }
}

fn reply_range(ctx: &mut Ctx<'_>, fixed: Option<Fixed>) -> CommandResult {
    let query = Query::parse(ctx, 2, fixed, true)?;
    let key = ctx.key(1);
    let Some(set) = ctx.commit.read_as::<SortedSet>(&key)? else { return ctx.reply_empty() };
    let (len, members) = query.select(set);
    reply_members(ctx.out, len, query.with_scores, members);
    Ok(())
}

/// `ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]`
pub(crate) fn zrange(ctx: &mut Ctx<'_>) -> CommandResult {
    reply_range(ctx, None)
}

/// `ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]`, or one of its relatives.
pub(super) fn range_by(ctx: &mut Ctx<'_>, by: By, reverse: bool) -> CommandResult {
    reply_range(ctx, Some(Fixed { by, reverse }))
}

/// `ZRANGESTORE dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]`
pub(crate) fn zrangestore(ctx: &mut Ctx<'_>) -> CommandResult {
    let query = Query::parse(ctx, 3, None, false)?;
    let (target, source) = (ctx.key(1), ctx.key(2));
    lock(ctx, [&target, &source])?;
    let limits = ctx.engine.settings.encodings.sorted_set();
    let (mut result, mut found) = (SortedSet::default(), None);
    let texts = [ctx.arg(3), ctx.arg(4)];
    if let Some(set) = ctx.commit.read_as::<SortedSet>(&source)? {
        let (_, members) = query.select(set);
        members.for_each(|(member, score)| _ = result.insert(member, score, &limits));
        found = is_ambiguous(query.range, texts, set).then(|| query.ranks(set));
    }
    if let Some(ranks) = found
        && (!ranks.is_empty() || ctx.commit.peek(&target).is_some())
    {
        log_ranks(ctx, &[b"ZRANGESTORE", target.bytes, source.bytes], &ranks);
    }
    store_result(ctx, &target, result, "zrangestore")
}

/// Logs a command with a range of ranks, which may be empty, in place of the present one.
#[cold]
fn log_ranks(ctx: &mut Ctx<'_>, command: &[&[u8]], ranks: &std::ops::Range<usize>) {
    let (mut first, mut last) = (itoa::Buffer::new(), itoa::Buffer::new());
    let (start, stop) = if ranks.is_empty() { (1, 0) } else { (ranks.start, ranks.end - 1) };
    ctx.log_instead(&[command, &[first.format(start).as_bytes(), last.format(stop).as_bytes()]].concat());
}

/// Replaces a key, whose lock is held, by a result, and replies with the result's length; an empty result deletes the
/// key.
pub(crate) fn store_result(
    ctx: &mut Ctx<'_>,
    target: &Key<'_>,
    result: SortedSet,
    event: &'static str,
) -> CommandResult {
    let len = result.len();
    if len > 0 {
        ctx.commit.set(target, result.into(), None);
        ctx.changed(EventClass::SortedSet, event, target.bytes);
    } else {
        replace_by_nothing(ctx, target);
    }
    ctx.reply_int(len as i64)
}

/// `ZCOUNT key min max`, or ZLEXCOUNT.
pub(super) fn count(ctx: &mut Ctx<'_>, by: By) -> CommandResult {
    let range = Range::parse(by, ctx.arg(2), ctx.arg(3), false)?;
    let key = ctx.key(1);
    let count = ctx.commit.read_as::<SortedSet>(&key)?.map_or(0, |set| range.locate(set, false).len());
    ctx.reply_int(count as i64)
}

/// `ZREMRANGEBYRANK key start stop`, or one of its relatives. The event has the command's name.
pub(super) fn remove(ctx: &mut Ctx<'_>, by: By) -> CommandResult {
    let range = Range::parse(by, ctx.arg(2), ctx.arg(3), false)?;
    let key = ctx.key(1);
    let (mut removed, mut emptied, mut found) = (0, false, None);
    let texts = [ctx.arg(2), ctx.arg(3)];
    if let Some(mut set) = ctx.commit.write_as::<SortedSet>(&key)? {
        let ranks = range.locate(&set, false);
        found = is_ambiguous(range, texts, &set).then(|| ranks.clone());
        emptied = ranks.len() == set.len();
        removed = if emptied { ranks.len() } else { set.remove_range(ranks.start, ranks.len()) };
    }
    if removed > 0 {
        ctx.changed(EventClass::SortedSet, ctx.command.spec.name, key.bytes);
        if let Some(ranks) = found {
            log_ranks(ctx, &[b"ZREMRANGEBYRANK", key.bytes], &ranks);
        }
    }
    delete_emptied(ctx, &key, emptied);
    ctx.reply_int(removed as i64)
}

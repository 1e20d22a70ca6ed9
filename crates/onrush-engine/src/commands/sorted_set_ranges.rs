//! Sorted sets: ranges by rank, score and bytes; to reply with, to count, to store and to remove.

use onrush_resp::parse_f64;
use onrush_store::SortedSet;

use super::lists::clamp_range;
use super::sets::delete_empty;
use super::sorted_sets::reply_members;
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::{self, CommandError};

const NOT_A_SCORE: CommandError = CommandError::fixed("ERR min or max is not a float");
const NOT_A_LEX_BOUND: CommandError = CommandError::fixed("ERR min or max not valid string range item");

/// What a range is a range of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
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
    /// Reads a bound as Redis does: nothing at all is 0, and blanks in front do not count.
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

    /// The first rank of the range in a set, and how many members are in it.
    fn locate(self, set: &SortedSet, reverse: bool) -> (usize, usize) {
        let (start, end) = match self {
            Self::Rank(start, stop) => {
                let (start, count) = clamp_range(start, stop, set.len());
                let start = if reverse { set.len() - start - count } else { start };
                return (start, count);
            }
            Self::Score(min, max) => (
                set.partition_point(&|score, _| score < min.score || min.exclusive && score == min.score),
                set.partition_point(&|score, _| score < max.score || !max.exclusive && score == max.score),
            ),
            Self::Lex(min, max) => (
                set.partition_point(&|_, member| min.is_before(member)),
                set.partition_point(&|_, member| max.is_within(member)),
            ),
        };
        (start, end.saturating_sub(start))
    }
}

/// Members with their scores.
type Members<'s> = Box<dyn Iterator<Item = (&'s [u8], f64)> + 's>;

/// A range with all its options.
struct Query<'a> {
    range: Range<'a>,
    reverse: bool,
    /// Members to skip, and the most to return.
    limit: Option<(i64, i64)>,
    with_scores: bool,
}

impl<'a> Query<'a> {
    /// Reads `min max [options]` from argument `at` on. What `fixed` says is not left to the options.
    fn parse(ctx: &Ctx<'a>, at: usize, fixed: Option<(By, bool)>, may_have_scores: bool) -> Result<Self, CommandError> {
        let (mut by, mut reverse) = fixed.unzip();
        let (mut limit, mut with_scores) = (None, false);
        let mut index = at + 2;
        while index < ctx.argc() {
            if ctx.is(index, "WITHSCORES") && may_have_scores {
                with_scores = true;
            } else if ctx.is(index, "LIMIT") && index + 2 < ctx.argc() {
                limit = Some((ctx.int(index + 1)?, ctx.int(index + 2)?));
                index += 2;
            } else if reverse.is_none() && ctx.is(index, "REV") {
                reverse = Some(true);
            } else if by.is_none() && ctx.is(index, "BYLEX") {
                by = Some(By::Lex);
            } else if by.is_none() && ctx.is(index, "BYSCORE") {
                by = Some(By::Score);
            } else {
                return Err(error::SYNTAX);
            }
            index += 1;
        }
        let (by, reverse) = (by.unwrap_or(By::Rank), reverse.unwrap_or(false));
        if limit.is_some_and(|(_, count)| count != -1) && by == By::Rank {
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

    /// The members that are asked for, in the order asked for, and how many.
    fn select<'s>(&self, set: &'s SortedSet) -> (usize, Members<'s>) {
        let (start, count) = self.range.locate(set, self.reverse);
        let (skipped, count) = match self.limit {
            None => (0, count),
            Some((offset, wanted)) => {
                // A negative offset is behind the end.
                let skipped = usize::try_from(offset).unwrap_or(usize::MAX).min(count);
                let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
                (skipped, (count - skipped).min(wanted))
            }
        };
        if count == 0 {
            return (0, Box::new(std::iter::empty()));
        }
        if self.reverse {
            let (_, whole) = self.range.locate(set, self.reverse);
            return (count, Box::new(set.iter_back_from(start + whole - 1 - skipped).take(count)));
        }
        (count, Box::new(set.iter_from(start + skipped).take(count)))
    }
}

fn reply_range(ctx: &mut Ctx<'_>, fixed: Option<(By, bool)>, may_have_scores: bool) -> CommandResult {
    let query = Query::parse(ctx, 2, fixed, may_have_scores)?;
    let key = ctx.key(1);
    let Some(set) = ctx.commit.read_as::<SortedSet>(&key)? else {
        ctx.out.array(0);
        return Ok(());
    };
    let (len, members) = query.select(set);
    reply_members(ctx.out, len, query.with_scores, members);
    Ok(())
}

/// `ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]`
pub fn zrange(ctx: &mut Ctx<'_>) -> CommandResult {
    reply_range(ctx, None, true)
}

/// `ZREVRANGE key start stop [WITHSCORES]`
pub fn zrevrange(ctx: &mut Ctx<'_>) -> CommandResult {
    reply_range(ctx, Some((By::Rank, true)), true)
}

/// `ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]`
pub fn zrangebyscore(ctx: &mut Ctx<'_>) -> CommandResult {
    reply_range(ctx, Some((By::Score, false)), true)
}

/// `ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]`
pub fn zrevrangebyscore(ctx: &mut Ctx<'_>) -> CommandResult {
    reply_range(ctx, Some((By::Score, true)), true)
}

/// `ZRANGEBYLEX key min max [LIMIT offset count]`
pub fn zrangebylex(ctx: &mut Ctx<'_>) -> CommandResult {
    reply_range(ctx, Some((By::Lex, false)), true)
}

/// `ZREVRANGEBYLEX key max min [LIMIT offset count]`
pub fn zrevrangebylex(ctx: &mut Ctx<'_>) -> CommandResult {
    reply_range(ctx, Some((By::Lex, true)), true)
}

/// `ZRANGESTORE dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]`
pub fn zrangestore(ctx: &mut Ctx<'_>) -> CommandResult {
    let query = Query::parse(ctx, 3, None, false)?;
    let (target, source) = (ctx.key(1), ctx.key(2));
    let db = ctx.commit.db();
    ctx.commit.lock_all([(db, target.hash), (db, source.hash)])?;
    let limits = ctx.engine.settings.encodings.sorted_set();
    let mut result = SortedSet::default();
    if let Some(set) = ctx.commit.read_as::<SortedSet>(&source)? {
        let (_, members) = query.select(set);
        members.for_each(|(member, score)| _ = result.insert(member, score, &limits));
    }
    store_result(ctx, &target, result, "zrangestore");
    Ok(())
}

/// Puts a result in the place of a key, whose lock is held, and replies with its length; an empty one deletes the key.
pub(super) fn store_result(ctx: &mut Ctx<'_>, target: &crate::commit::Key<'_>, result: SortedSet, event: &'static str) {
    let len = result.len();
    if len > 0 {
        ctx.commit.set(target, result.into(), None);
        ctx.changed(EventClass::SortedSet, event, target.bytes);
    } else if ctx.commit.write(target).is_some() {
        delete_empty(ctx, target);
    }
    ctx.out.int(len as i64);
}

/// `ZCOUNT key min max`
pub fn zcount(ctx: &mut Ctx<'_>) -> CommandResult {
    count(ctx, By::Score)
}

/// `ZLEXCOUNT key min max`
pub fn zlexcount(ctx: &mut Ctx<'_>) -> CommandResult {
    count(ctx, By::Lex)
}

fn count(ctx: &mut Ctx<'_>, by: By) -> CommandResult {
    let range = Range::parse(by, ctx.arg(2), ctx.arg(3), false)?;
    let key = ctx.key(1);
    let count = ctx.commit.read_as::<SortedSet>(&key)?.map_or(0, |set| range.locate(set, false).1);
    ctx.out.int(count as i64);
    Ok(())
}

/// `ZREMRANGEBYRANK key start stop`
pub fn zremrangebyrank(ctx: &mut Ctx<'_>) -> CommandResult {
    remove(ctx, By::Rank, "zremrangebyrank")
}

/// `ZREMRANGEBYSCORE key min max`
pub fn zremrangebyscore(ctx: &mut Ctx<'_>) -> CommandResult {
    remove(ctx, By::Score, "zremrangebyscore")
}

/// `ZREMRANGEBYLEX key min max`
pub fn zremrangebylex(ctx: &mut Ctx<'_>) -> CommandResult {
    remove(ctx, By::Lex, "zremrangebylex")
}

fn remove(ctx: &mut Ctx<'_>, by: By, event: &'static str) -> CommandResult {
    let range = Range::parse(by, ctx.arg(2), ctx.arg(3), false)?;
    let key = ctx.key(1);
    let (mut removed, mut emptied) = (0, false);
    if let Some(mut set) = ctx.commit.write_as::<SortedSet>(&key)? {
        let (start, count) = range.locate(&set, false);
        emptied = count == set.len();
        removed = if emptied { count } else { set.remove_range(start, count) };
    }
    if removed > 0 {
        ctx.changed(EventClass::SortedSet, event, key.bytes);
    }
    if emptied {
        delete_empty(ctx, &key);
    }
    ctx.out.int(removed as i64);
    Ok(())
}

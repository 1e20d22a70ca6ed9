//! Sorted sets: adding, removing, scores, ranks, random members, scans.

pub(crate) mod algebra;
pub(crate) mod pops;
pub(crate) mod ranges;
pub(crate) mod specs;

use onrush_resp::{Reply, parse_f64};
use onrush_store::{Encoding, Random, SortedSet};
use smallvec::SmallVec;

use crate::commands::keys::scan::{ElementScan, Found};
use crate::commands::sets::{delete_emptied, drawn_count, some_of};
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::{self, CommandError};

const NOT_A_NUMBER: CommandError = CommandError::fixed("ERR resulting score is not a number (NaN)");

/// The options of ZADD.
#[derive(Clone, Copy, Default)]
pub(super) struct AddOptions {
    pub(super) nx: bool,
    pub(super) xx: bool,
    gt: bool,
    lt: bool,
    pub(super) ch: bool,
    incr: bool,
}

impl AddOptions {
    /// Reads options from argument 2 on; returns them and where the scores begin.
    fn parse(ctx: &Ctx<'_>) -> (Self, usize) {
        let mut options = Self::default();
        let mut rest = ctx.rest(2);
        loop {
            let flags = [
                ("NX", &mut options.nx),
                ("XX", &mut options.xx),
                ("GT", &mut options.gt),
                ("LT", &mut options.lt),
                ("CH", &mut options.ch),
                ("INCR", &mut options.incr),
            ];
            let Some(flag) = rest.take_one_of(flags) else { break };
            *flag = true;
        }
        (options, rest.index())
    }

    /// Whether every member gets the given score, whatever it had.
    fn sets_all(self) -> bool {
        !(self.nx || self.xx || self.gt || self.lt || self.incr)
    }

    fn check(self, pairs: usize) -> CommandResult {
        if self.nx && self.xx {
            return Err(CommandError::fixed("ERR XX and NX options at the same time are not compatible").into());
        }
        if self.nx && (self.gt || self.lt) || self.gt && self.lt {
            return Err(CommandError::fixed("ERR GT, LT, and/or NX options at the same time are not compatible").into());
        }
        if self.incr && pairs > 1 {
            return Err(CommandError::fixed("ERR INCR option supports a single increment-element pair").into());
        }
        Ok(())
    }

    /// The new score of a member, if the options allow a change.
    fn apply(self, old: Option<f64>, score: f64) -> Result<Option<f64>, CommandError> {
        let Some(old) = old else { return Ok((!self.xx).then_some(score)) };
        if self.nx {
            return Ok(None);
        }
        let new = if self.incr { old + score } else { score };
        if new.is_nan() {
            return Err(NOT_A_NUMBER);
        }
        let is_refused = self.gt && new <= old || self.lt && new >= old;
        Ok((!is_refused).then_some(new))
    }
}

/// `ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member [score member …]`
pub(crate) fn zadd(ctx: &mut Ctx<'_>) -> CommandResult {
    let (options, first) = AddOptions::parse(ctx);
    add(ctx, options, first)
}

/// `ZINCRBY key increment member`
pub(crate) fn zincrby(ctx: &mut Ctx<'_>) -> CommandResult {
    // Redis reads an option of ZADD in place of the increment, and finds a member without a score.
    if AddOptions::parse(ctx).1 > 2 {
        return Err(error::SYNTAX.into());
    }
    add(ctx, AddOptions { incr: true, ..AddOptions::default() }, 2)
}

fn add(ctx: &mut Ctx<'_>, options: AddOptions, first: usize) -> CommandResult {
    let rest = ctx.argc() - first;
    if rest == 0 || !rest.is_multiple_of(2) {
        return Err(error::SYNTAX.into());
    }
    options.check(rest / 2)?;
    let scores: SmallVec<[f64; 4]> = (first..ctx.argc())
        .step_by(2)
        .map(|index| parse_f64(ctx.arg(index)).ok_or(error::NOT_FLOAT))
        .collect::<Result<_, _>>()?;
    add_scored(ctx, options, scores.iter().copied().zip((first + 1..).step_by(2)))
}

/// Adds members, each with its score and the number of its argument, and replies as ZADD does.
pub(super) fn add_scored(
    ctx: &mut Ctx<'_>,
    options: AddOptions,
    members: impl Iterator<Item = (f64, usize)>,
) -> CommandResult {
    let key = ctx.key(1);
    let limits = ctx.engine.settings.encodings.sorted_set();
    if options.xx && ctx.commit.write_as::<SortedSet>(&key)?.is_none() {
        if options.incr {
            ctx.out.null();
        } else {
            ctx.out.int(0);
        }
        return Ok(());
    }
    let mut set = ctx.commit.write_or_create::<SortedSet>(&key)?;
    let (mut added, mut updated, mut result, mut failed) = (0, 0, None, None);
    for (score, index) in members {
        let member = ctx.argv.get(index);
        if options.sets_all() {
            let old = set.set_score(member, score, &limits);
            added += i64::from(old.is_none());
            updated += i64::from(old.is_some_and(|old| old != score));
            continue;
        }
        let old = set.score(member);
        match options.apply(old, score) {
            Ok(Some(new)) => {
                result = Some(new);
                if old != Some(new) {
                    set.insert(member, new, &limits);
                    added += i64::from(old.is_none());
                    updated += i64::from(old.is_some());
                }
            }
            Ok(None) => {}
            Err(error) => failed = Some(error),
        }
    }
    let emptied = set.is_empty();
    drop(set);
    if added + updated > 0 {
        ctx.changed(EventClass::SortedSet, if options.incr { "zincr" } else { "zadd" }, key.bytes);
    }
    if emptied {
        ctx.commit.delete(&key);
    }
    if let Some(error) = failed {
        return Err(error.into());
    }
    match result {
        Some(score) if options.incr => ctx.out.double(score),
        None if options.incr => ctx.out.null(),
        _ => ctx.out.int(added + if options.ch { updated } else { 0 }),
    }
    Ok(())
}

/// `ZREM key member [member …]`
pub(crate) fn zrem(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let (mut removed, mut emptied) = (0, false);
    if let Some(mut set) = ctx.commit.write_as::<SortedSet>(&key)? {
        for index in 2..ctx.argv.len() {
            removed += i64::from(set.remove(ctx.argv.get(index)));
        }
        emptied = set.is_empty();
    }
    if removed > 0 {
        ctx.changed(EventClass::SortedSet, "zrem", key.bytes);
    }
    delete_emptied(ctx, &key, emptied);
    ctx.reply_int(removed)
}

/// `ZCARD key`
pub(crate) fn zcard(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let len = ctx.commit.read_as::<SortedSet>(&key)?.map_or(0, SortedSet::len);
    ctx.reply_int(len as i64)
}

/// `ZSCORE key member`
pub(crate) fn zscore(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let set = ctx.commit.read_as::<SortedSet>(&key)?;
    match set.and_then(|set| set.score(ctx.argv.get(2))) {
        Some(score) => ctx.out.double(score),
        None => ctx.out.null(),
    }
    Ok(())
}

/// `ZMSCORE key member [member …]`
pub(crate) fn zmscore(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let set = ctx.commit.read_as::<SortedSet>(&key)?;
    ctx.out.array(ctx.argv.len() - 2);
    for index in 2..ctx.argv.len() {
        match set.and_then(|set| set.score(ctx.argv.get(index))) {
            Some(score) => ctx.out.double(score),
            None => ctx.out.null(),
        }
    }
    Ok(())
}

/// `ZRANK key member [WITHSCORE]`, or ZREVRANK.
fn rank(ctx: &mut Ctx<'_>, reverse: bool) -> CommandResult {
    if ctx.argc() > 4 {
        return Err(ctx.command.wrong_arity().into());
    }
    let with_score = ctx.argc() == 4;
    if with_score && !ctx.is(3, "WITHSCORE") {
        return Err(error::SYNTAX.into());
    }
    let key = ctx.key(1);
    let member = ctx.arg(2);
    let set = ctx.commit.read_as::<SortedSet>(&key)?;
    let found = set.and_then(|set| Some((set, set.rank(member)?)));
    let Some((set, rank)) = found else {
        if with_score {
            ctx.out.null_array();
        } else {
            ctx.out.null();
        }
        return Ok(());
    };
    let rank = if reverse { set.len() - 1 - rank } else { rank };
    if with_score {
        ctx.out.array(2);
    }
    ctx.out.int(rank as i64);
    if with_score {
        ctx.out.double(set.score(member).unwrap_or_default());
    }
    Ok(())
}

/// Appends members with or without their scores: in RESP3 each with its score in an array of its own.
pub(super) fn reply_members<'a>(
    out: &mut Reply,
    len: usize,
    with_scores: bool,
    members: impl Iterator<Item = (&'a [u8], f64)>,
) {
    let nested = with_scores && out.is_resp3();
    out.array(if with_scores && !nested { 2 * len } else { len });
    for (member, score) in members {
        if nested {
            out.array(2);
        }
        out.bulk(member);
        if with_scores {
            out.double(score);
        }
    }
}

/// `ZRANDMEMBER key [count [WITHSCORES]]`
pub(crate) fn zrandmember(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let mut random = Random::new(ctx.random());
    if ctx.argc() == 2 {
        let set = ctx.commit.read_as::<SortedSet>(&key)?;
        match set.and_then(|set| set.iter_from(random.below(set.len())).next()) {
            Some((member, _)) => ctx.out.bulk(member),
            None => ctx.out.null(),
        }
        return Ok(());
    }
    let (count, with_scores) = drawn_count(ctx, "WITHSCORES")?;
    let Some(set) = ctx.commit.read_as::<SortedSet>(&key)? else { return ctx.reply_empty() };
    let at = |rank: usize| set.iter_from(rank).next();
    if count < 0 {
        let len = count.unsigned_abs() as usize;
        let drawn = (0..len).filter_map(|_| at(random.below(set.len())));
        reply_members(ctx.out, len, with_scores, drawn);
    } else if count as usize >= set.len() {
        reply_members(ctx.out, set.len(), with_scores, set.iter());
    } else {
        let ranks = distinct_below(set.len(), count as usize, &mut random);
        reply_members(ctx.out, ranks.len(), with_scores, ranks.into_iter().filter_map(at));
    }
    Ok(())
}

/// Some numbers below `len`, each at most once; there are more than `count`.
fn distinct_below(len: usize, count: usize, random: &mut Random) -> Vec<usize> {
    if len / 3 < count {
        return some_of((0..len).collect(), count, random);
    }
    let mut seen = std::collections::HashSet::with_capacity(count);
    while seen.len() < count {
        seen.insert(random.below(len));
    }
    seen.into_iter().collect()
}

/// `ZSCAN key cursor [MATCH pattern] [COUNT count] [NOSCORES]`
pub(crate) fn zscan(ctx: &mut Ctx<'_>) -> CommandResult {
    let Some(scan) = ElementScan::parse::<SortedSet>(ctx, Some("NOSCORES"))? else {
        Found::default().reply(ctx.out, 0);
        return Ok(());
    };
    let key = ctx.key(1);
    let set = ctx.commit.read_as::<SortedSet>(&key)?;
    let (mut found, mut text) = (Found::default(), Vec::new());
    let next = set.map_or(0, |set| {
        set.scan(scan.cursor, scan.count, &mut |member, score| {
            if scan.admits(member) {
                found.push(member);
                if !scan.no_values {
                    text.clear();
                    match set.encoding() {
                        // Here Redis goes by way of a `long double`.
                        Encoding::Skiplist => onrush_lua::push_general(&mut text, score, 17),
                        _ => onrush_resp::push_double(&mut text, score),
                    }
                    found.push(&text);
                }
            }
        })
    });
    scan.end(ctx)?;
    found.reply(ctx.out, next);
    Ok(())
}

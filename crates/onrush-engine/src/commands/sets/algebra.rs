//! Intersections, unions and differences of sets. All sets are locked together; the result is made of references into
//! them and stored or sent at the end.

use onrush_store::{Encoding, Member, Set, SetLimits};

use crate::command::RestOfArgs;
use crate::commands::keys::{lock, lock_keys};
use crate::commands::sets::{replace_by_nothing, reply_member};
use crate::commit::Key;
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::{self, CommandError, Stop};

/// Look-ups in the other sets before the limit is checked.
const LIMITED_LEN: usize = 1024;

/// How sets are combined.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Intersection,
    Union,
    Difference,
}

impl Operation {
    /// Most members that are looked at, for sets of these lengths.
    pub(crate) fn work(self, mut lens: impl ExactSizeIterator<Item = usize>) -> usize {
        let sets = lens.len();
        match self {
            Self::Intersection => lens.min().unwrap_or(0).saturating_mul(sets),
            Self::Difference => lens.next().unwrap_or(0).saturating_mul(sets),
            Self::Union => lens.sum(),
        }
    }
}

/// Locks the keys among some arguments, and the destination if there is one; checks that the sources are sets.
fn lock_sources<'a>(
    ctx: &mut Ctx<'a>,
    sources: std::ops::Range<usize>,
    target: Option<Key<'a>>,
    operation: Operation,
) -> Result<Vec<Key<'a>>, Stop> {
    let keys: Vec<Key<'a>> = sources.map(|index| ctx.key(index)).collect();
    lock(ctx, keys.iter().chain(&target))?;
    let lens = keys.iter().map(|key| ctx.commit.held::<Set>(key).map_or(0, Set::len));
    let work = operation.work(lens);
    ctx.expect_work(work)?;
    for key in &keys {
        ctx.commit.read_as::<Set>(key)?;
    }
    Ok(keys)
}

/// `SINTER key [key …]`, or one of its relatives.
pub(super) fn reply(ctx: &mut Ctx<'_>, operation: Operation) -> CommandResult {
    let keys = lock_sources(ctx, 1..ctx.argc(), None, operation)?;
    let sets: Vec<Option<&Set>> = keys.iter().map(|key| ctx.commit.held(key)).collect();
    if operation == Operation::Union {
        let all = union(&sets, &ctx.engine.settings.encodings.set());
        ctx.out.set(all.len());
        all.iter().for_each(|member| reply_member(ctx.out, member));
        return Ok(());
    }
    let mut texts = Vec::new();
    let members = match operation {
        Operation::Difference => difference(&sets, &mut texts),
        _ => intersection(&sets, &mut texts),
    };
    let limits = ctx.engine.settings.encodings.set();
    if operation == Operation::Difference && members.len() <= limits.intset_entries_max.max(limits.listpack_entries_max)
    {
        // A small difference comes in the order of a set that is built from it.
        let mut all = Set::default();
        for member in members {
            all.insert(member, &limits);
        }
        ctx.out.set(all.len());
        all.iter().for_each(|member| reply_member(ctx.out, member));
        return Ok(());
    }
    ctx.out.set(members.len());
    members.into_iter().for_each(|member| ctx.out.bulk(member));
    Ok(())
}

/// `SINTERSTORE destination key [key …]`, or one of its relatives. The event has the command's name.
pub(super) fn store(ctx: &mut Ctx<'_>, operation: Operation) -> CommandResult {
    let target = ctx.key(1);
    let limits = ctx.engine.settings.encodings.set();
    let keys = lock_sources(ctx, 2..ctx.argc(), Some(target), operation)?;
    let sets: Vec<Option<&Set>> = keys.iter().map(|key| ctx.commit.held(key)).collect();
    let mut texts = Vec::new();
    let result = match operation {
        Operation::Union => union(&sets, &limits),
        Operation::Difference => Set::of_distinct(&difference(&sets, &mut texts), false, &limits),
        Operation::Intersection => {
            let members = intersection(&sets, &mut texts);
            Set::of_distinct(&members, !is_intset(&sets, &members, &limits), &limits)
        }
    };
    let len = result.len();
    if len == 0 {
        replace_by_nothing(ctx, &target);
    } else {
        ctx.commit.set(&target, result.into(), None);
        ctx.changed(EventClass::Set, ctx.command.spec.name, target.bytes);
    }
    ctx.reply_int(len as i64)
}

/// Whether an intersection is first built as a set of integers: if all members are integers, and not too many, they
/// become an intset, whatever the sources' encodings.
fn is_intset(sets: &[Option<&Set>], members: &[&[u8]], limits: &SetLimits) -> bool {
    let smallest = sets.iter().flatten().min_by_key(|set| set.len());
    let from_integers = smallest.is_some_and(|set| set.encoding() == Encoding::Intset);
    let fits = members.len() <= limits.intset_entries_max;
    from_integers || fits && members.iter().all(|member| Set::is_integer(member))
}

/// `SINTERCARD numkeys key [key …] [LIMIT limit]`
pub(crate) fn sintercard(ctx: &mut Ctx<'_>) -> CommandResult {
    let count = ctx.positive(1, CommandError::fixed("ERR numkeys should be greater than 0"))?;
    if count > ctx.argc() - 2 {
        return Err(CommandError::fixed("ERR Number of keys can't be greater than number of args").into());
    }
    let mut limit = usize::MAX;
    let mut rest = ctx.rest(2 + count);
    while rest.take_with("LIMIT", 1) {
        limit = next_limit(&mut rest)?;
    }
    if !rest.is_empty() {
        return Err(error::SYNTAX.into());
    }
    let keys = lock_keys(ctx, 2..2 + count)?;
    for key in &keys {
        ctx.commit.read_as::<Set>(key)?;
    }
    let looks_max = ctx.commit.work_max();
    let sets: Vec<Option<&Set>> = keys.iter().map(|key| ctx.commit.held(key)).collect();
    let found = count_common(&sets, limit, looks_max).ok_or(Stop::Elsewhere)?;
    ctx.reply_int(found as i64)
}

/// Takes the number behind LIMIT; 0 is no limit.
pub(crate) fn next_limit(rest: &mut RestOfArgs<'_>) -> Result<usize, CommandError> {
    let negative = CommandError::fixed("ERR LIMIT can't be negative");
    let limit = usize::try_from(rest.next_int_or(negative.clone())?).map_err(|_| negative)?;
    Ok(if limit == 0 { usize::MAX } else { limit })
}

/// The members of a set as bytes; integers are spelled out into `texts`.
fn members<'a>(set: &'a Set, texts: &'a mut Vec<u8>) -> Vec<&'a [u8]> {
    let mut ends = Vec::new();
    for member in set.iter() {
        let Member::Int(n) = member else { break };
        texts.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
        ends.push(texts.len());
    }
    if ends.is_empty() {
        return set.iter().filter_map(bytes_of).collect();
    }
    let mut start = 0;
    ends.into_iter().map(|end| &texts[std::mem::replace(&mut start, end)..end]).collect()
}

/// What all sets have, in the order of the smallest.
fn intersection<'a>(sets: &[Option<&'a Set>], texts: &'a mut Vec<u8>) -> Vec<&'a [u8]> {
    let Some(mut sets) = sets.iter().copied().collect::<Option<Vec<&Set>>>() else { return Vec::new() };
    sets.sort_by_key(|set| set.len());
    let Some((smallest, others)) = sets.split_first() else { return Vec::new() };
    let mut candidates = members(smallest, texts);
    others.iter().for_each(|set| set.filter(&mut candidates, true));
    candidates
}

/// The number of members in all sets, at most `limit`; `None` if that is unknown after `looks_max` look-ups.
fn count_common(sets: &[Option<&Set>], limit: usize, looks_max: usize) -> Option<usize> {
    let Some(mut ordered) = sets.iter().copied().collect::<Option<Vec<&Set>>>() else { return Some(0) };
    ordered.sort_by_key(|set| set.len());
    let (smallest, others) = ordered.split_first()?;
    if smallest.encoding() == Encoding::Intset {
        // Sets of integers are small.
        return Some(intersection(sets, &mut Vec::new()).len().min(limit));
    }
    let mut rest = smallest.iter().filter_map(bytes_of);
    let (mut looks, mut found) = (0, 0);
    while looks < smallest.len() && found < limit {
        if looks >= looks_max {
            return None;
        }
        let mut part: Vec<&[u8]> = rest.by_ref().take(LIMITED_LEN).collect();
        looks += part.len();
        others.iter().for_each(|set| set.filter(&mut part, true));
        found += part.len();
    }
    Some(found.min(limit))
}

fn bytes_of(member: Member<'_>) -> Option<&[u8]> {
    if let Member::Bytes(bytes) = member { Some(bytes) } else { None }
}

/// What the first set has and no other.
fn difference<'a>(sets: &[Option<&'a Set>], texts: &'a mut Vec<u8>) -> Vec<&'a [u8]> {
    let Some((Some(first), others)) = sets.split_first() else { return Vec::new() };
    let mut candidates = members(first, texts);
    others.iter().flatten().for_each(|set| set.filter(&mut candidates, false));
    candidates
}

fn union(sets: &[Option<&Set>], limits: &SetLimits) -> Set {
    Set::union(&sets.iter().copied().flatten().collect::<Vec<_>>(), limits)
}

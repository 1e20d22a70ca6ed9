//! Intersections, unions and differences of sorted sets and sets, whose members count with score 1.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use onrush_resp::parse_f64;
use onrush_store::{CollectionRef, Set, SortedSet, Type, ValueRef};

use crate::commands::keys::{lock, work_on};
use crate::commands::sets::algebra::{Operation, next_limit};
use crate::commands::sorted_sets::ranges::store_result;
use crate::commands::sorted_sets::reply_members;
use crate::commit::Key;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError, Stop};

/// How the scores of one member become one.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
    /// The sum of the weights of the sets that hold the member, whatever its scores are.
    Count,
}

impl Aggregate {
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            // Infinities of both signs have no sum.
            Self::Sum | Self::Count => Some(a + b).filter(|sum| !sum.is_nan()).unwrap_or(0.0),
            Self::Min => a.min(b),
            Self::Max => a.max(b),
        }
    }
}

/// One of the sets to combine.
#[derive(Clone, Copy)]
enum Source<'a> {
    Nothing,
    Set(&'a Set),
    SortedSet(&'a SortedSet),
}

impl<'a> Source<'a> {
    fn of(ctx: &'a Ctx<'_>, key: &Key<'_>) -> Self {
        match ctx.commit.held_entry(key).map(|entry| entry.value()) {
            Some(ValueRef::Collection(CollectionRef::Set(set))) => Self::Set(set),
            Some(ValueRef::Collection(CollectionRef::SortedSet(set))) => Self::SortedSet(set),
            _ => Self::Nothing,
        }
    }

    fn len(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Set(set) => set.len(),
            Self::SortedSet(set) => set.len(),
        }
    }

    fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            Self::Nothing => None,
            Self::Set(set) => set.contains(member).then_some(1.0),
            Self::SortedSet(set) => set.score(member),
        }
    }

    fn for_each(self, visit: &mut dyn FnMut(&[u8], f64)) {
        self.visit_while(&mut |member, score| {
            visit(member, score);
            true
        });
    }

    /// Visits members until `visit` says that it has enough.
    fn visit_while(self, visit: &mut dyn FnMut(&[u8], f64) -> bool) {
        match self {
            Self::Nothing => {}
            Self::Set(set) => _ = set.iter().all(|member| visit(member.to_bytes(&mut itoa::Buffer::new()), 1.0)),
            Self::SortedSet(set) => _ = set.iter().all(|(member, score)| visit(member, score)),
        }
    }

    /// Whether two are the same set.
    fn is_same(self, other: Self) -> bool {
        match (self, other) {
            (Self::Set(a), Self::Set(b)) => std::ptr::eq(a, b),
            (Self::SortedSet(a), Self::SortedSet(b)) => std::ptr::eq(a, b),
            _ => false,
        }
    }
}

/// The arguments of this family's commands.
struct Query<'a> {
    keys: Vec<Key<'a>>,
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    limit: usize,
}

/// What a command does with the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Reply,
    Store,
    Count,
}

impl<'a> Query<'a> {
    /// Reads `numkeys key [key …] [options]`, and locks the keys and the target.
    fn parse(ctx: &mut Ctx<'a>, operation: Operation, form: Form) -> Result<Self, Stop> {
        let target = (form == Form::Store).then(|| ctx.key(1));
        let at = if target.is_some() { 2 } else { 1 };
        let count = ctx.int(at)?;
        if count < 1 {
            let name = &ctx.command.full_name;
            return Err(CommandError::text(format!("ERR at least 1 input key is needed for '{name}' command")).into());
        }
        let count = usize::try_from(count).ok().filter(|&count| count < ctx.argc() - at).ok_or(error::SYNTAX)?;
        let keys: Vec<Key<'a>> = (at + 1..at + 1 + count).map(|index| ctx.key(index)).collect();
        lock(ctx, keys.iter().chain(&target))?;
        let work = operation.work(keys.iter().map(|key| ctx.commit.held_entry(key).map_or(0, work_on)));
        if form != Form::Count {
            ctx.expect_work(work)?;
        }
        for key in &keys {
            if let Some(entry) = ctx.commit.read(key)
                && !matches!(entry.ty(), Type::Set | Type::SortedSet)
            {
                return Err(error::WRONG_TYPE.into());
            }
        }
        let mut query =
            Self { weights: vec![1.0; count], keys, aggregate: Aggregate::Sum, with_scores: false, limit: usize::MAX };
        query.read_options(ctx, at + 1 + count, operation, form)?;
        Ok(query)
    }

    fn read_options(&mut self, ctx: &Ctx<'_>, from: usize, operation: Operation, form: Form) -> CommandResult {
        let weighted = form != Form::Count && operation != Operation::Difference;
        let mut rest = ctx.rest(from);
        while !rest.is_empty() {
            if weighted && rest.take_with("WEIGHTS", self.weights.len()) {
                for weight in &mut self.weights {
                    let not_float = CommandError::fixed("ERR weight value is not a float");
                    *weight = parse_f64(rest.next_arg()).ok_or(not_float)?;
                }
            } else if weighted && rest.take("AGGREGATE") {
                let words = [
                    ("SUM", Aggregate::Sum),
                    ("MIN", Aggregate::Min),
                    ("MAX", Aggregate::Max),
                    ("COUNT", Aggregate::Count),
                ];
                self.aggregate = rest.take_one_of(words).ok_or(error::SYNTAX)?;
            } else if form == Form::Reply && rest.take("WITHSCORES") {
                self.with_scores = true;
            } else if form == Form::Count && rest.take_with("LIMIT", 1) {
                self.limit = next_limit(&mut rest)?;
            } else {
                return Err(error::SYNTAX.into());
            }
        }
        Ok(())
    }

    fn combine(&self, ctx: &Ctx<'_>, operation: Operation) -> Vec<(Vec<u8>, f64)> {
        let sources: Vec<Source<'_>> = self.keys.iter().map(|key| Source::of(ctx, key)).collect();
        let mut result = match operation {
            Operation::Intersection => self.intersection(&sources),
            Operation::Union => self.union(&sources),
            Operation::Difference => difference(&sources),
        };
        // -0 is no less than 0. No score is a NaN.
        result.sort_unstable_by(|a, b| a.1.partial_cmp(&b.1).unwrap_or(Ordering::Equal).then_with(|| a.0.cmp(&b.0)));
        result
    }

    /// A source's weighted score for one of its members.
    fn share(&self, source: usize, score: f64) -> f64 {
        if matches!(self.aggregate, Aggregate::Count) { self.weights[source] } else { self.weights[source] * score }
    }

    /// The same if it is the only score: NaN counts as 0.
    fn first_share(&self, source: usize, score: f64) -> f64 {
        Some(self.share(source, score)).filter(|share| !share.is_nan()).unwrap_or(0.0)
    }

    fn intersection(&self, sources: &[Source<'_>]) -> Vec<(Vec<u8>, f64)> {
        let mut order: Vec<usize> = (0..sources.len()).collect();
        order.sort_by_key(|&source| sources[source].len());
        let Some((&smallest, others)) = order.split_first() else { return Vec::new() };
        let mut result = Vec::new();
        sources[smallest].visit_while(&mut |member, score| {
            let mut sum = self.first_share(smallest, score);
            for &other in others {
                let Some(score) = sources[other].score(member) else { return true };
                // As in Redis, only the first score counts as 0 if it is NaN.
                sum = self.aggregate.of(sum, self.share(other, score));
            }
            result.push((member.to_vec(), sum));
            true
        });
        result
    }

    /// The number of members in all sources, at most the limit; `None` if that is unknown after `looks_max` look-ups.
    fn count_common(&self, sources: &[Source<'_>], looks_max: usize) -> Option<usize> {
        let mut sources = sources.to_vec();
        sources.sort_by_key(|source| source.len());
        let (smallest, others) = sources.split_first()?;
        let (mut looks, mut found) = (0, 0);
        smallest.visit_while(&mut |member, _| {
            found += usize::from(others.iter().all(|other| other.score(member).is_some()));
            looks += 1;
            found < self.limit && looks < looks_max
        });
        (found >= self.limit || looks == smallest.len()).then_some(found)
    }

    fn union(&self, sources: &[Source<'_>]) -> Vec<(Vec<u8>, f64)> {
        let mut all: HashMap<Vec<u8>, f64> = HashMap::new();
        let mut order: Vec<usize> = (0..sources.len()).collect();
        order.sort_by_key(|&source| sources[source].len());
        for source in order {
            sources[source].for_each(&mut |member, score| {
                let score = self.first_share(source, score);
                match all.get_mut(member) {
                    Some(sum) => *sum = self.aggregate.of(*sum, score),
                    None => _ = all.insert(member.to_vec(), score),
                }
            });
        }
        all.into_iter().collect()
    }
}

fn difference(sources: &[Source<'_>]) -> Vec<(Vec<u8>, f64)> {
    let Some((first, others)) = sources.split_first() else { return Vec::new() };
    if others.iter().any(|other| other.is_same(*first)) {
        return Vec::new();
    }
    let mut result = Vec::new();
    if others.len() > 1 && others.iter().map(|other| other.len()).sum::<usize>() <= first.len() {
        // Many small sources are read once instead of looking up every member in each.
        let mut gone: HashSet<Vec<u8>> = HashSet::new();
        others.iter().for_each(|other| other.for_each(&mut |member, _| _ = gone.insert(member.to_vec())));
        first.for_each(&mut |member, score| {
            if !gone.contains(member) {
                result.push((member.to_vec(), score));
            }
        });
        return result;
    }
    first.for_each(&mut |member, score| {
        if others.iter().all(|other| other.score(member).is_none()) {
            result.push((member.to_vec(), score));
        }
    });
    result
}

/// `ZINTER numkeys key [key …] [WEIGHTS weight [weight …]] [AGGREGATE <SUM | MIN | MAX | COUNT>] [WITHSCORES]`, or one of
/// its relatives.
pub(super) fn reply(ctx: &mut Ctx<'_>, operation: Operation) -> CommandResult {
    let query = Query::parse(ctx, operation, Form::Reply)?;
    let result = query.combine(ctx, operation);
    let members = result.iter().map(|(member, score)| (&member[..], *score));
    reply_members(ctx.out, result.len(), query.with_scores, members);
    Ok(())
}

/// `ZINTERSTORE destination numkeys key [key …] [WEIGHTS weight [weight …]] [AGGREGATE <SUM | MIN | MAX | COUNT>]`, or one
/// of its relatives. The event has the command's name.
pub(super) fn store(ctx: &mut Ctx<'_>, operation: Operation) -> CommandResult {
    let (target, event) = (ctx.key(1), ctx.command.spec.name);
    let query = Query::parse(ctx, operation, Form::Store)?;
    let mut limits = ctx.engine.settings.encodings.sorted_set();
    let mut result = SortedSet::default();
    let members = query.combine(ctx, operation);
    let fits = |(member, _): &(Vec<u8>, f64)| member.len() <= limits.listpack_value_len_max;
    if members.len() > limits.listpack_entries_max || !members.iter().all(fits) {
        // A score of -0 would become 0 in a small form that comes first.
        limits.listpack_entries_max = 0;
    }
    for (member, score) in members {
        result.insert(&member, score, &limits);
    }
    store_result(ctx, &target, result, event)
}

/// `ZINTERCARD numkeys key [key …] [LIMIT limit]`
pub(crate) fn zintercard(ctx: &mut Ctx<'_>) -> CommandResult {
    let query = Query::parse(ctx, Operation::Intersection, Form::Count)?;
    let looks_max = ctx.commit.work_max();
    let sources: Vec<Source<'_>> = query.keys.iter().map(|key| Source::of(ctx, key)).collect();
    let found = query.count_common(&sources, looks_max).ok_or(Stop::Elsewhere)?;
    ctx.reply_int(found as i64)
}

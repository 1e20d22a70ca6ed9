//! SORT: the elements of a list, set or sorted set in order, by their own values or by values of other keys.

use std::cmp::Ordering;
use std::ops::Range;

use onrush_cluster::slots;
use onrush_resp::parse_f64;
use onrush_store::{CollectionRef, End, Hash, List, Type, ValueRef};

use crate::command::Flags;
use crate::commands::keys::work_on;
use crate::commands::sets::replace_by_nothing;
use crate::commit::Key;
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::{self, CommandError};
use crate::part_sort::sort_part;

/// Which of the sorted elements are returned.
#[derive(Clone, Copy)]
struct Limit {
    /// Elements to skip; a negative number skips none.
    offset: i64,
    /// The most to return; a negative number returns all.
    count: i64,
}

/// The options.
#[derive(Default)]
struct Options<'a> {
    by: Option<&'a [u8]>,
    /// Whether elements keep their order: some BY pattern without a star, which is the same for all.
    keeps_order: bool,
    get: Vec<&'a [u8]>,
    limit: Option<Limit>,
    descending: bool,
    alpha: bool,
    store: Option<usize>,
}

const BY_DENIED: CommandError =
    CommandError::fixed("ERR BY option of SORT denied due to insufficient ACL permissions.");
const GET_DENIED: CommandError =
    CommandError::fixed("ERR GET option of SORT denied due to insufficient ACL permissions.");

/// Whether the client may read keys that a pattern names.
fn may_read_all_keys(ctx: &Ctx<'_>) -> bool {
    ctx.session.limits().is_none_or(|rights| rights.may_read_all_keys(ctx.command, &ctx.argv))
}

impl<'a> Options<'a> {
    /// Only SORT may store, not SORT_RO.
    fn parse(ctx: &Ctx<'a>) -> Result<Self, CommandError> {
        let may_store = ctx.command.flags.contains(Flags::WRITE);
        let mut options = Self::default();
        let mut rest = ctx.rest(2);
        while !rest.is_empty() {
            if rest.take("ASC") {
                options.descending = false;
            } else if rest.take("DESC") {
                options.descending = true;
            } else if rest.take("ALPHA") {
                options.alpha = true;
            } else if rest.take_with("LIMIT", 2) {
                options.limit = Some(Limit { offset: rest.next_int()?, count: rest.next_int()? });
            } else if may_store && rest.take_with("STORE", 1) {
                options.store = Some(rest.next_index());
            } else if rest.take_with("BY", 1) {
                let pattern = rest.next_arg();
                options.by = Some(pattern);
                options.keeps_order |= !pattern.contains(&b'*');
                if pattern.contains(&b'*') && !may_read_all_keys(ctx) {
                    return Err(BY_DENIED);
                }
            } else if rest.take_with("GET", 1) {
                if !may_read_all_keys(ctx) {
                    return Err(GET_DENIED);
                }
                options.get.push(rest.next_arg());
            } else {
                return Err(error::SYNTAX);
            }
        }
        Ok(options)
    }

    /// Those of `len` elements that LIMIT leaves.
    fn part(&self, len: usize) -> Range<usize> {
        let Some(Limit { offset, count }) = self.limit else { return 0..len };
        let offset = usize::try_from(offset).unwrap_or(0).min(len);
        offset..offset + usize::try_from(count).unwrap_or(usize::MAX).min(len - offset)
    }

    /// Whether the elements of a collection keep the order in which they are read. A set has no order, and neither
    /// stored results nor those in scripts may depend on chance.
    fn keeps_order_of(&self, ty: Type, in_script: bool) -> bool {
        self.keeps_order && (ty != Type::Set || self.store.is_none() && !in_script)
    }

    /// Whether keys are read that the command does not name.
    fn reads_others(&self) -> bool {
        let names_keys = |pattern: &&[u8]| pattern.contains(&b'*');
        self.by.iter().any(names_keys) || self.get.iter().any(names_keys)
    }
}

const BY_ELSEWHERE: CommandError = CommandError::fixed(
    "ERR BY option of SORT denied in Cluster mode when keys formed by the pattern may be in different slots.",
);
const GET_ELSEWHERE: CommandError = CommandError::fixed(
    "ERR GET option of SORT denied in Cluster mode when keys formed by the pattern may be in different slots.",
);

/// The slot of all keys that a pattern can form, if it is one.
fn slot_of_pattern(pattern: &[u8]) -> Option<u16> {
    let tag = slots::tag(pattern);
    let forms_keys = pattern.contains(&b'*');
    let open = memchr::memchr(b'{', pattern);
    let is_tagged = tag.len() < pattern.len() && open.is_some_and(|at| !pattern[..at].contains(&b'*'));
    (!forms_keys || is_tagged && !tag.contains(&b'*')).then(|| slots::slot(pattern))
}

/// In a cluster the keys that patterns form must be of the slot of the key that is sorted.
///
/// # Errors
/// They may be of others.
fn check_slots(ctx: &Ctx<'_>, options: &Options<'_>) -> Result<(), CommandError> {
    if ctx.engine.cluster.is_none() {
        return Ok(());
    }
    let slot = Some(slots::slot(ctx.arg(1)));
    if options.by.is_some_and(|by| by.contains(&b'*') && slot_of_pattern(by) != slot) {
        return Err(BY_ELSEWHERE);
    }
    match options.get.iter().all(|get| *get == b"#" || slot_of_pattern(get) == slot) {
        true => Ok(()),
        false => Err(GET_ELSEWHERE),
    }
}

/// `SORT key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern …]] [ASC | DESC] [ALPHA] [STORE destination]`,
/// or SORT_RO.
pub(crate) fn sort(ctx: &mut Ctx<'_>) -> CommandResult {
    let options = Options::parse(ctx)?;
    check_slots(ctx, &options)?;
    let key = ctx.key(1);
    let target = options.store.map(|index| ctx.key(index));
    let db = ctx.commit.db();
    let reads_others = options.reads_others();
    if !reads_others {
        ctx.commit.lock_all([&key].into_iter().chain(&target).map(|key| (db, key.hash)))?;
    }
    if reads_others || !options.keeps_order || !options.get.is_empty() {
        let work = ctx.commit.peek(&key).map_or(0, work_on);
        ctx.expect_work(work.saturating_mul(1 + options.get.len()))?;
    }
    if reads_others {
        ctx.commit.lock_keyspace()?;
    }
    let (mut elements, ty) = elements(ctx, &key, &options)?;
    if !options.keeps_order_of(ty, ctx.in_script) {
        let (by, alpha) = if options.keeps_order { (None, true) } else { (options.by, options.alpha) };
        let part = options.part(elements.len());
        order(ctx, &mut elements, by, alpha, options.descending, &part)?;
        elements.truncate(part.end);
        elements.drain(..part.start);
    }
    match target {
        Some(target) => store(ctx, &target, elements, &options.get),
        None => {
            ctx.out.array(elements.len().saturating_mul(options.get.len().max(1)));
            each_result(ctx, elements, &options.get, |ctx, result| match result {
                Some(bytes) => ctx.out.bulk(&bytes),
                None => ctx.out.null(),
            });
        }
    }
    Ok(())
}

/// The elements of a list, set or sorted set, and its type. Without sorting, only the requested part, already reversed
/// if necessary: except in a set, finding it costs no more than reading it.
fn elements(ctx: &mut Ctx<'_>, key: &Key<'_>, options: &Options<'_>) -> Result<(Vec<Vec<u8>>, Type), CommandError> {
    let Some(entry) = ctx.commit.read(key) else { return Ok((Vec::new(), Type::List)) };
    let keeps_order = options.keeps_order_of(entry.ty(), ctx.in_script);
    let part = |len| if keeps_order { options.part(len) } else { 0..len };
    let backwards = keeps_order && options.descending;
    let elements = match entry.value() {
        ValueRef::Collection(CollectionRef::List(list)) => match part(list.len()) {
            part if part.is_empty() => Vec::new(),
            part => {
                let last = list.len() - 1;
                let iter = if backwards { list.iter_back_from(last - part.start) } else { list.iter_from(part.start) };
                iter.take(part.len()).map(|element| element.as_bytes().to_vec()).collect()
            }
        },
        ValueRef::Collection(CollectionRef::Set(set)) => {
            let part = part(set.len());
            let members = set.iter().skip(part.start).take(part.len());
            members.map(|member| member.to_bytes(&mut itoa::Buffer::new()).to_vec()).collect()
        }
        ValueRef::Collection(CollectionRef::SortedSet(set)) => match part(set.len()) {
            part if part.is_empty() => Vec::new(),
            part if backwards => {
                let members = set.iter_back_from(set.len() - 1 - part.start).take(part.len());
                members.map(|(member, _)| member.to_vec()).collect()
            }
            part => set.iter_from(part.start).take(part.len()).map(|(member, _)| member.to_vec()).collect(),
        },
        _ => return Err(error::WRONG_TYPE),
    };
    Ok((elements, entry.ty()))
}

/// The value of a pattern for an element: the element itself, a string, or a field of a hash.
fn look_up(ctx: &mut Ctx<'_>, pattern: &[u8], element: &[u8]) -> Option<Vec<u8>> {
    if pattern == b"#" {
        return Some(element.to_vec());
    }
    let star = pattern.iter().position(|&byte| byte == b'*')?;
    let arrow = pattern[star + 1..].windows(2).position(|pair| pair == b"->").map(|at| star + 1 + at);
    let (name, field) = match arrow {
        Some(at) if at + 2 < pattern.len() => (&pattern[..at], Some(&pattern[at + 2..])),
        _ => (pattern, None),
    };
    let name = [&name[..star], element, &name[star + 1..]].concat();
    let key = ctx.commit.key(&name);
    let now_ms = ctx.now_ms();
    let entry = ctx.commit.read(&key)?;
    match field {
        Some(field) => {
            let (value, expiry) = entry.collection::<Hash>()?.field(field)?;
            expiry.is_none_or(|at| at > now_ms).then(|| value.to_vec())
        }
        None if entry.ty() == Type::String => Some(entry.value().to_bytes(&mut itoa::Buffer::new()).to_vec()),
        None => None,
    }
}

/// Sorts elements by their own values or by a pattern's values, at least those of `part`.
fn order(
    ctx: &mut Ctx<'_>,
    elements: &mut Vec<Vec<u8>>,
    by: Option<&[u8]>,
    alpha: bool,
    descending: bool,
    part: &Range<usize>,
) -> CommandResult {
    let weights: Vec<Option<Vec<u8>>> = match by {
        Some(pattern) => elements.iter().map(|element| look_up(ctx, pattern, element)).collect(),
        None => elements.iter().cloned().map(Some).collect(),
    };
    let turned = |ordering: Ordering| if descending { ordering.reverse() } else { ordering };
    if alpha {
        let mut pairs: Vec<_> = weights.into_iter().zip(std::mem::take(elements)).collect();
        let is_part = by.is_some() && part.len() < pairs.len();
        let compare = |a: &(Option<Vec<u8>>, _), b: &(Option<Vec<u8>>, _)| turned(a.0.cmp(&b.0));
        match is_part {
            true => sort_part(&mut pairs, part.clone(), compare),
            false => pairs.sort_by(compare),
        }
        *elements = pairs.into_iter().map(|(_, element)| element).collect();
        return Ok(());
    }
    let not_a_number = CommandError::fixed("ERR One or more scores can't be converted into double");
    let number = |weight: Option<Vec<u8>>| match weight {
        // As C reads it: the empty text is 0, and leading blanks are ignored.
        Some(text) if text.is_empty() => Ok(0.0),
        Some(text) => parse_f64(text.trim_ascii_start()).ok_or(not_a_number.clone()),
        None => Ok(0.0),
    };
    let scores: Vec<f64> = weights.into_iter().map(number).collect::<Result<_, _>>()?;
    let mut pairs: Vec<_> = scores.into_iter().zip(std::mem::take(elements)).collect();
    let by_both =
        |a: &(f64, Vec<u8>), b: &(f64, Vec<u8>)| a.0.partial_cmp(&b.0).map(|order| order.then_with(|| a.1.cmp(&b.1)));
    pairs.sort_by(|a, b| turned(by_both(a, b).unwrap_or(Ordering::Equal)));
    *elements = pairs.into_iter().map(|(_, element)| element).collect();
    Ok(())
}

/// Passes the elements to `take`, or the values of the GET patterns for each: they may be too many to be kept.
fn each_result<'c>(
    ctx: &mut Ctx<'c>,
    elements: Vec<Vec<u8>>,
    patterns: &[&[u8]],
    mut take: impl FnMut(&mut Ctx<'c>, Option<Vec<u8>>),
) {
    for element in elements {
        if patterns.is_empty() {
            take(ctx, Some(element));
            continue;
        }
        for pattern in patterns {
            let found = look_up(ctx, pattern, &element);
            take(ctx, found);
        }
    }
}

/// Stores results as a list and replies with their number.
fn store(ctx: &mut Ctx<'_>, target: &Key<'_>, elements: Vec<Vec<u8>>, patterns: &[&[u8]]) {
    let limits = ctx.engine.settings.encodings.list();
    let mut list = List::default();
    each_result(ctx, elements, patterns, |_, result| {
        list.push(End::Back, result.as_deref().unwrap_or_default(), &limits)
    });
    let len = list.len();
    if len == 0 {
        replace_by_nothing(ctx, target);
    } else {
        ctx.commit.set(target, list.into(), None);
        ctx.changed(EventClass::List, "sortstore", target.bytes);
    }
    ctx.out.int(len as i64);
}

//! SORT: the elements of a list, set or sorted set in order, by themselves or by what other keys say of them.

use std::cmp::Ordering;

use onrush_resp::parse_f64;
use onrush_store::{CollectionRef, End, Hash, List, Type, ValueRef};

use super::keys::work_on;
use super::sets::delete_empty;
use crate::commit::Key;
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::{self, CommandError};

/// The options.
#[derive(Default)]
struct Options<'a> {
    by: Option<&'a [u8]>,
    /// Whether elements keep the order they have: some pattern without a star says the same of all.
    keeps_order: bool,
    get: Vec<&'a [u8]>,
    limit: Option<(i64, i64)>,
    descending: bool,
    alpha: bool,
    store: Option<usize>,
}

impl<'a> Options<'a> {
    fn parse(ctx: &Ctx<'a>, may_store: bool) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut index = 2;
        while index < ctx.argc() {
            let left = ctx.argc() - index - 1;
            if ctx.is(index, "ASC") {
                options.descending = false;
            } else if ctx.is(index, "DESC") {
                options.descending = true;
            } else if ctx.is(index, "ALPHA") {
                options.alpha = true;
            } else if ctx.is(index, "LIMIT") && left >= 2 {
                options.limit = Some((ctx.int(index + 1)?, ctx.int(index + 2)?));
                index += 2;
            } else if may_store && ctx.is(index, "STORE") && left >= 1 {
                options.store = Some(index + 1);
                index += 1;
            } else if ctx.is(index, "BY") && left >= 1 {
                options.by = Some(ctx.arg(index + 1));
                options.keeps_order |= !ctx.arg(index + 1).contains(&b'*');
                index += 1;
            } else if ctx.is(index, "GET") && left >= 1 {
                options.get.push(ctx.arg(index + 1));
                index += 1;
            } else {
                return Err(error::SYNTAX);
            }
            index += 1;
        }
        Ok(options)
    }

    /// Where the part of `len` elements that LIMIT leaves begins, and how many there are.
    fn part(&self, len: usize) -> (usize, usize) {
        let Some((offset, count)) = self.limit else { return (0, len) };
        let offset = usize::try_from(offset).unwrap_or(0).min(len);
        (offset, usize::try_from(count).unwrap_or(usize::MAX).min(len - offset))
    }

    /// Whether the elements of a collection stay in the order they are read in. A set has none, and neither what is stored nor
    /// what a script gets should be a matter of chance.
    fn keeps_order_of(&self, ty: Type, in_script: bool) -> bool {
        self.keeps_order && (ty != Type::Set || self.store.is_none() && !in_script)
    }

    /// Whether keys are read that the command does not name.
    fn reads_others(&self) -> bool {
        let names_keys = |pattern: &&[u8]| pattern.contains(&b'*');
        self.by.iter().any(names_keys) || self.get.iter().any(names_keys)
    }
}

/// `SORT key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern …]] [ASC | DESC] [ALPHA] [STORE destination]`
pub fn sort(ctx: &mut Ctx<'_>) -> CommandResult {
    let options = Options::parse(ctx, true)?;
    run(ctx, &options)
}

/// `SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern …]] [ASC | DESC] [ALPHA]`
pub fn sort_ro(ctx: &mut Ctx<'_>) -> CommandResult {
    let options = Options::parse(ctx, false)?;
    run(ctx, &options)
}

fn run(ctx: &mut Ctx<'_>, options: &Options<'_>) -> CommandResult {
    let key = ctx.key(1);
    let target = options.store.map(|index| ctx.key(index));
    let db = ctx.commit.db();
    if options.reads_others() {
        ctx.commit.lock_keyspace()?;
    } else {
        ctx.commit.lock_all([&key].into_iter().chain(&target).map(|key| (db, key.hash)))?;
    }
    if !ctx.commit.has_keyspace() && !options.keeps_order {
        let work = ctx.commit.peek(&key).map_or(0, work_on);
        ctx.expect_work(work)?;
    }
    let (mut elements, ty) = elements(ctx, &key, options)?;
    if !options.keeps_order_of(ty, ctx.in_script) {
        let (by, alpha) = if options.keeps_order { (None, true) } else { (options.by, options.alpha) };
        order(ctx, &mut elements, by, alpha, options.descending)?;
        let (offset, count) = options.part(elements.len());
        elements.drain(..offset);
        elements.truncate(count);
    }
    let results = results(ctx, elements, &options.get);
    match target {
        Some(target) => store(ctx, &target, results),
        None => {
            ctx.out.array(results.len());
            for result in results {
                match result {
                    Some(bytes) => ctx.out.bulk(&bytes),
                    None => ctx.out.null(),
                }
            }
        }
    }
    Ok(())
}

/// The elements of a list, set or sorted set, and its type. When they are not to be sorted, only the part that is asked
/// for, already turned around: finding it costs no more than reading it, but for a set.
fn elements(ctx: &mut Ctx<'_>, key: &Key<'_>, options: &Options<'_>) -> Result<(Vec<Vec<u8>>, Type), CommandError> {
    let Some(entry) = ctx.commit.read(key) else { return Ok((Vec::new(), Type::List)) };
    let keeps_order = options.keeps_order_of(entry.ty(), ctx.in_script);
    let part = |len| if keeps_order { options.part(len) } else { (0, len) };
    let backwards = keeps_order && options.descending;
    let elements = match entry.value() {
        ValueRef::Collection(CollectionRef::List(list)) => match part(list.len()) {
            (_, 0) => Vec::new(),
            (offset, count) => {
                let last = list.len() - 1;
                let iter = if backwards { list.iter_back_from(last - offset) } else { list.iter_from(offset) };
                iter.take(count).map(|element| element.as_bytes().to_vec()).collect()
            }
        },
        ValueRef::Collection(CollectionRef::Set(set)) => {
            let (offset, count) = part(set.len());
            let members = set.iter().skip(offset).take(count);
            members.map(|member| member.to_bytes(&mut itoa::Buffer::new()).to_vec()).collect()
        }
        ValueRef::Collection(CollectionRef::SortedSet(set)) => match part(set.len()) {
            (_, 0) => Vec::new(),
            (offset, count) if backwards => {
                set.iter_back_from(set.len() - 1 - offset).take(count).map(|(member, _)| member.to_vec()).collect()
            }
            (offset, count) => set.iter_from(offset).take(count).map(|(member, _)| member.to_vec()).collect(),
        },
        _ => return Err(error::WRONG_TYPE),
    };
    Ok((elements, entry.ty()))
}

/// What a pattern says of an element: the element itself, a string, or a field of a hash.
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

/// Puts elements in order, by themselves or by what a pattern says of them.
fn order(
    ctx: &mut Ctx<'_>,
    elements: &mut Vec<Vec<u8>>,
    by: Option<&[u8]>,
    alpha: bool,
    descending: bool,
) -> CommandResult {
    let weights: Vec<Option<Vec<u8>>> = match by {
        Some(pattern) => elements.iter().map(|element| look_up(ctx, pattern, element)).collect(),
        None => elements.iter().cloned().map(Some).collect(),
    };
    let turned = |ordering: Ordering| if descending { ordering.reverse() } else { ordering };
    if alpha {
        let mut pairs: Vec<_> = weights.into_iter().zip(std::mem::take(elements)).collect();
        pairs.sort_by(|a, b| turned(a.0.cmp(&b.0)));
        *elements = pairs.into_iter().map(|(_, element)| element).collect();
        return Ok(());
    }
    let not_a_number = CommandError::fixed("ERR One or more scores can't be converted into double");
    let number = |weight: Option<Vec<u8>>| match weight {
        // As C reads it: nothing at all is 0, and blanks in front do not count.
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

/// The elements, or what the GET patterns say of each.
fn results(ctx: &mut Ctx<'_>, elements: Vec<Vec<u8>>, patterns: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
    if patterns.is_empty() {
        return elements.into_iter().map(Some).collect();
    }
    let mut results = Vec::with_capacity(elements.len() * patterns.len());
    for element in &elements {
        results.extend(patterns.iter().map(|pattern| look_up(ctx, pattern, element)));
    }
    results
}

/// Stores results as a list and replies with their number.
fn store(ctx: &mut Ctx<'_>, target: &Key<'_>, results: Vec<Option<Vec<u8>>>) {
    let limits = ctx.engine.settings.encodings.list();
    let len = results.len();
    if len == 0 {
        if ctx.commit.write(target).is_some() {
            delete_empty(ctx, target);
        }
    } else {
        let mut list = List::default();
        results.iter().for_each(|result| list.push(End::Back, result.as_deref().unwrap_or_default(), &limits));
        ctx.commit.set(target, list.into(), None);
        ctx.changed(EventClass::List, "sortstore", target.bytes);
    }
    ctx.out.int(len as i64);
}

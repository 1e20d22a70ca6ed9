//! Sets: single members, random ones, scans. What combines several sets is in `set_algebra`.

pub(crate) mod algebra;
pub(crate) mod specs;

use onrush_store::{Member, Random, Set};

use crate::commands::keys::lock;
use crate::commands::keys::scan::{ElementScan, Found};
use crate::commit::Key;
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::{self, CommandError, Stop};

/// The most elements for a negative count: elements may repeat, so the number of members is no bound.
const REPEATED_COUNT_MAX: u64 = 100_000_000;

/// `SADD key member [member …]`
pub(crate) fn sadd(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let limits = ctx.engine.settings.encodings.set();
    let mut entry = ctx.commit.write_or_create::<Set>(&key)?;
    let set: &mut Set = &mut entry;
    if ctx.argv.len() > 3 {
        let hint = ctx.argv.len() - 2;
        if set.is_empty() {
            *set = Set::for_members(ctx.argv.get(2), hint, &limits);
        } else {
            set.expect(hint, &limits);
        }
    }
    let mut added = 0;
    for index in 2..ctx.argv.len() {
        added += i64::from(set.insert(ctx.argv.get(index), &limits));
    }
    drop(entry);
    if added > 0 {
        ctx.changed(EventClass::Set, "sadd", key.bytes);
    }
    ctx.reply_int(added)
}

/// `SREM key member [member …]`
pub(crate) fn srem(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let mut removed = 0;
    let mut emptied = false;
    if let Some(mut entry) = ctx.commit.write_as::<Set>(&key)? {
        let set: &mut Set = &mut entry;
        for index in 2..ctx.argv.len() {
            removed += i64::from(set.remove(ctx.argv.get(index)));
        }
        emptied = removed > 0 && set.is_empty();
    }
    if removed > 0 {
        ctx.changed(EventClass::Set, "srem", key.bytes);
    }
    delete_emptied(ctx, &key, emptied);
    ctx.reply_int(removed)
}

/// Deletes a key if its collection has become empty, by a change that is noted already.
#[inline]
pub(super) fn delete_emptied(ctx: &mut Ctx<'_>, key: &Key<'_>, emptied: bool) {
    if emptied {
        delete_empty(ctx, key);
    }
}

fn delete_empty(ctx: &mut Ctx<'_>, key: &Key<'_>) {
    ctx.commit.delete(key);
    ctx.changed_too(EventClass::Generic, "del", key.bytes);
}

/// Deletes the key, if there is one, that an empty result replaces: the command's only change.
pub(super) fn replace_by_nothing(ctx: &mut Ctx<'_>, key: &Key<'_>) {
    if ctx.commit.write(key).is_some() {
        ctx.commit.delete(key);
        ctx.changed(EventClass::Generic, "del", key.bytes);
    }
}

/// `SMOVE source destination member`
pub(crate) fn smove(ctx: &mut Ctx<'_>) -> CommandResult {
    let (source, target, member) = (ctx.key(1), ctx.key(2), ctx.arg(3));
    lock(ctx, [&source, &target])?;
    let Some(set) = ctx.commit.look_as::<Set>(&source)? else { return ctx.reply_int(0) };
    let found = set.contains(member);
    ctx.commit.look_as::<Set>(&target)?;
    if !found || source.bytes == target.bytes {
        return ctx.reply_int(i64::from(found));
    }
    let mut emptied = false;
    if let Some(mut set) = ctx.commit.write_as::<Set>(&source)? {
        set.remove(member);
        emptied = set.is_empty();
    }
    ctx.changed(EventClass::Set, "srem", source.bytes);
    delete_emptied(ctx, &source, emptied);
    let limits = ctx.engine.settings.encodings.set();
    if ctx.commit.write_or_create::<Set>(&target)?.insert(member, &limits) {
        ctx.changed(EventClass::Set, "sadd", target.bytes);
    }
    ctx.reply_int(1)
}

/// `SISMEMBER key member`
pub(crate) fn sismember(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let set = ctx.commit.read_as::<Set>(&key)?;
    let is_member = set.is_some_and(|set| set.contains(ctx.argv.get(2)));
    ctx.reply_int(i64::from(is_member))
}

/// `SMISMEMBER key member [member …]`
pub(crate) fn smismember(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let set = ctx.commit.read_as::<Set>(&key)?;
    ctx.out.array(ctx.argv.len() - 2);
    for index in 2..ctx.argv.len() {
        ctx.out.int(i64::from(set.is_some_and(|set| set.contains(ctx.argv.get(index)))));
    }
    Ok(())
}

/// `SCARD key`
pub(crate) fn scard(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let len = ctx.commit.read_as::<Set>(&key)?.map_or(0, Set::len);
    ctx.reply_int(len as i64)
}

/// `SMEMBERS key`
pub(crate) fn smembers(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let set = ctx.commit.read_as::<Set>(&key)?;
    ctx.out.set(set.map_or(0, Set::len));
    if let Some(set) = set {
        set.iter().for_each(|member| reply_member(ctx.out, member));
    }
    Ok(())
}

#[inline]
pub(super) fn reply_member(out: &mut onrush_resp::Reply, member: Member<'_>) {
    match member {
        Member::Int(n) => out.bulk_int(n),
        Member::Bytes(bytes) => out.bulk(bytes),
    }
}

fn to_vec(member: Member<'_>) -> Vec<u8> {
    member.to_bytes(&mut itoa::Buffer::new()).to_vec()
}

/// `SPOP key [count]`
pub(crate) fn spop(ctx: &mut Ctx<'_>) -> CommandResult {
    match ctx.argc() {
        2 => spop_one(ctx),
        3 => spop_many(ctx),
        _ => Err(error::SYNTAX.into()),
    }
}

fn spop_one(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let mut random = Random::new(ctx.random());
    let Some(mut set) = ctx.commit.write_as::<Set>(&key)? else { return ctx.reply_null() };
    let Some(member) = set.random(&mut random).map(to_vec) else {
        ctx.out.null();
        return Ok(());
    };
    set.remove(&member);
    let emptied = set.is_empty();
    drop(set);
    ctx.changed(EventClass::Set, "spop", key.bytes);
    ctx.log_instead(&[b"SREM", key.bytes, &member]);
    delete_emptied(ctx, &key, emptied);
    ctx.reply_bulk(&member)
}

fn spop_many(ctx: &mut Ctx<'_>) -> CommandResult {
    let count = usize::try_from(ctx.int_or(2, error::NOT_POSITIVE)?).map_err(|_| error::NOT_POSITIVE)?;
    let key = ctx.key(1);
    let mut random = Random::new(ctx.random());
    let Some(mut set) = ctx.commit.write_as::<Set>(&key)? else {
        ctx.out.set(0);
        return Ok(());
    };
    if count == 0 {
        ctx.out.set(0);
        return Ok(());
    }
    if count >= set.len() {
        ctx.out.set(set.len());
        set.iter().for_each(|member| reply_member(ctx.out, member));
        drop(set);
        ctx.changed(EventClass::Set, "spop", key.bytes);
        delete_empty(ctx, &key);
        ctx.log_instead(&[b"DEL", key.bytes]);
        return Ok(());
    }
    let drawn: Vec<Vec<u8>> = sample(&set, count, &mut random).into_iter().map(to_vec).collect();
    ctx.out.set(drawn.len());
    for member in &drawn {
        set.remove(member);
        ctx.out.bulk(member);
    }
    drop(set);
    ctx.changed(EventClass::Set, "spop", key.bytes);
    ctx.log_removed(b"SREM", key.bytes, &drawn);
    Ok(())
}

/// Some of the elements, in any order; there are at least `count`.
pub(super) fn some_of<T>(mut elements: Vec<T>, count: usize, random: &mut Random) -> Vec<T> {
    for index in 0..count {
        let other = index + random.below(elements.len() - index);
        elements.swap(index, other);
    }
    elements.truncate(count);
    elements
}

/// Some members, each at most once; there are more than `count`.
fn sample<'a>(set: &'a Set, count: usize, random: &mut Random) -> Vec<Member<'a>> {
    if set.len() / 3 < count || set.len() < 64 {
        return some_of(set.iter().collect(), count, random);
    }
    let mut seen = std::collections::HashSet::with_capacity(count);
    let mut drawn = Vec::with_capacity(count);
    while drawn.len() < count {
        let Some(member) = set.random(random) else { break };
        let is_new = match member {
            Member::Int(n) => seen.insert(n.to_le_bytes().to_vec()),
            Member::Bytes(bytes) => seen.insert(bytes.to_vec()),
        };
        if is_new {
            drawn.push(member);
        }
    }
    drawn
}

/// `SRANDMEMBER key [count]`
pub(crate) fn srandmember(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let mut random = Random::new(ctx.random());
    if ctx.argc() == 2 {
        match ctx.commit.read_as::<Set>(&key)?.and_then(|set| set.random(&mut random)) {
            Some(member) => reply_member(ctx.out, member),
            None => ctx.out.null(),
        }
        return Ok(());
    }
    if ctx.argc() > 3 {
        return Err(error::SYNTAX.into());
    }
    let count = random_count(ctx)?;
    let Some(set) = ctx.commit.read_as::<Set>(&key)? else { return ctx.reply_empty() };
    if count < 0 {
        ctx.out.array(count.unsigned_abs() as usize);
        for _ in 0..count.unsigned_abs() {
            if let Some(member) = set.random(&mut random) {
                reply_member(ctx.out, member);
            }
        }
    } else if count as usize >= set.len() {
        ctx.out.array(set.len());
        set.iter().for_each(|member| reply_member(ctx.out, member));
    } else {
        let drawn = sample(set, count as usize, &mut random);
        ctx.out.array(drawn.len());
        drawn.into_iter().for_each(|member| reply_member(ctx.out, member));
    }
    Ok(())
}

/// A count of random elements, which may repeat if it is negative.
///
/// # Errors
/// `ERR value is out of range…`
fn random_count(ctx: &mut Ctx<'_>) -> Result<i64, Stop> {
    let count = ctx.int(2)?;
    if count == i64::MIN {
        let text = format!("ERR value is out of range, value must between {} and {}", -i64::MAX, i64::MAX);
        return Err(CommandError::text(text).into());
    }
    if count < 0 && count.unsigned_abs() > REPEATED_COUNT_MAX {
        return Err(error::OUT_OF_RANGE.into());
    }
    if count < 0 {
        ctx.expect_work(count.unsigned_abs() as usize)?;
    }
    Ok(count)
}

/// The arguments `count [word]`: the count of random elements, and whether their values are wanted too.
///
/// # Errors
/// As of [`random_count`]; `ERR syntax error`
pub(super) fn drawn_count(ctx: &mut Ctx<'_>, word: &str) -> Result<(i64, bool), Stop> {
    let count = random_count(ctx)?;
    if ctx.argc() > 4 || (ctx.argc() == 4 && !ctx.is(3, word)) {
        return Err(error::SYNTAX.into());
    }
    let with_values = ctx.argc() == 4;
    if with_values && count.unsigned_abs() > (i64::MAX / 2) as u64 {
        return Err(error::OUT_OF_RANGE.into());
    }
    Ok((count, with_values))
}

/// `SSCAN key cursor [MATCH pattern] [COUNT count]`
pub(crate) fn sscan(ctx: &mut Ctx<'_>) -> CommandResult {
    let Some(scan) = ElementScan::parse::<Set>(ctx, None)? else {
        Found::default().reply(ctx.out, 0);
        return Ok(());
    };
    let key = ctx.key(1);
    let set = ctx.commit.read_as::<Set>(&key)?;
    let mut found = Found::default();
    let next = set.map_or(0, |set| {
        set.scan(scan.cursor, scan.count, &mut |member| {
            let mut buffer = itoa::Buffer::new();
            let bytes = member.to_bytes(&mut buffer);
            if scan.admits(bytes) {
                found.push(bytes);
            }
        })
    });
    scan.end(ctx)?;
    found.reply(ctx.out, next);
    Ok(())
}

//! Entries that consumers of a group have and have not acknowledged: XACK, XPENDING, XCLAIM, XAUTOCLAIM.

use onrush_resp::parse_i64;
use onrush_store::{Group, Pending, Stream, StreamId};

use crate::command::RestOfArgs;
use crate::commands::streams::reads::{Reader, log_claim, log_progress};
use crate::commands::streams::{parse_bound, parse_id, reply_entry, reply_id};
use crate::commit::Key;
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::{self, CommandError};

/// Entries that XAUTOCLAIM claims by default, and how many more it looks at.
const AUTOCLAIM_COUNT_DEFAULT: usize = 100;
const AUTOCLAIM_ATTEMPTS: usize = 10;

/// The greatest COUNT: as many identifiers as Redis has room for.
const AUTOCLAIM_COUNTS: std::ops::RangeInclusive<usize> = 1..=i64::MAX as usize / size_of::<StreamId>();

/// The error of a command on a group that is not there; `end` stands behind its name.
pub(super) fn no_group(key: &Key<'_>, group: &[u8], end: &str) -> CommandError {
    let key = [error::quoted(key.bytes), b"' or consumer group '", error::quoted(group)].concat();
    CommandError::bytes([b"NOGROUP No such key '", &key[..], end.as_bytes()].concat())
}

/// `XACK key group id [id …]`
pub(crate) fn xack(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let name = ctx.arg(2);
    let known = ctx.commit.read_as::<Stream>(&key)?.is_some_and(|stream| stream.groups().contains_key(name));
    if !known {
        return ctx.reply_int(0);
    }
    let ids: Vec<StreamId> = (3..ctx.argc()).map(|index| parse_id(ctx.arg(index), 0)).collect::<Result<_, _>>()?;
    let group = ctx.commit.write_as::<Stream>(&key)?.and_then(|stream| stream.groups_mut().get_mut(name));
    let acknowledged = group.map_or(0, |group| ids.into_iter().filter(|&id| group.acknowledge(id)).count());
    if acknowledged > 0 {
        ctx.changed_untold();
    }
    ctx.reply_int(acknowledged as i64)
}

/// `XPENDING key group [[IDLE min-idle-time] start end count [consumer]]`
pub(crate) fn xpending(ctx: &mut Ctx<'_>) -> CommandResult {
    let argc = ctx.argc();
    if argc != 3 && !(6..=9).contains(&argc) {
        return Err(error::SYNTAX.into());
    }
    let (key, name) = (ctx.key(1), ctx.arg(2));
    if argc == 3 {
        return summary(ctx, &key, name);
    }
    let (mut at, mut idle_min) = (3, 0);
    if ctx.is(3, "IDLE") {
        idle_min = ctx.int(4)?;
        if argc < 8 {
            return Err(error::SYNTAX.into());
        }
        at = 5;
    }
    let count = usize::try_from(ctx.int(at + 2)?).unwrap_or(0);
    let start = parse_bound(ctx.arg(at), false)?;
    let end = parse_bound(ctx.arg(at + 1), true)?;
    let consumer = (at + 3 < argc).then(|| ctx.arg(at + 3));
    let now_ms = ctx.now_ms();
    let stream = ctx.commit.read_as::<Stream>(&key)?;
    let group = stream.and_then(|stream| stream.groups().get(name)).ok_or_else(|| no_group(&key, name, "'"))?;
    let is_wanted = |(_, pending): &(&StreamId, &Pending)| pending.is_idle_for(idle_min, now_ms);
    let found: Vec<(&StreamId, &Pending)> = match consumer.map(|name| group.consumers.get(name)) {
        _ if start > end => Vec::new(),
        None => group.pending.range(start..=end).filter(is_wanted).take(count).collect(),
        // Other consumers' entries are not looked at.
        Some(Some(consumer)) => {
            let own = consumer.pending.range(start..=end);
            own.filter_map(|id| group.pending.get_key_value(id)).filter(is_wanted).take(count).collect()
        }
        Some(None) => Vec::new(),
    };
    ctx.out.array(found.len());
    for (id, pending) in found {
        ctx.out.array(4);
        reply_id(ctx.out, *id);
        ctx.out.bulk(pending.consumer.as_deref().unwrap_or_default());
        ctx.out.int(pending.idle_ms(now_ms).unwrap_or(-1));
        ctx.out.int(pending.count as i64);
    }
    Ok(())
}

fn summary(ctx: &mut Ctx<'_>, key: &Key<'_>, name: &[u8]) -> CommandResult {
    let stream = ctx.commit.read_as::<Stream>(key)?;
    let group = stream.and_then(|stream| stream.groups().get(name)).ok_or_else(|| no_group(key, name, "'"))?;
    ctx.out.array(4);
    ctx.out.int(group.pending.len() as i64);
    let ends = group.pending.first_key_value().zip(group.pending.last_key_value());
    let Some(((first, _), (last, _))) = ends else {
        ctx.out.null();
        ctx.out.null();
        ctx.out.null_array();
        return Ok(());
    };
    reply_id(ctx.out, *first);
    reply_id(ctx.out, *last);
    let holders = group.consumers.iter().filter(|(_, consumer)| !consumer.pending.is_empty());
    ctx.out.array(holders.clone().count());
    for (name, consumer) in holders {
        ctx.out.array(2);
        ctx.out.bulk(name);
        ctx.out.bulk_int(consumer.pending.len() as i64);
    }
    Ok(())
}

/// XCLAIM's options for the entries that it claims.
#[derive(Default)]
struct Claim {
    delivered_ms: Option<i64>,
    retry_count: Option<u64>,
    force: bool,
    just_id: bool,
    last_id: Option<StreamId>,
}

impl Claim {
    fn parse(ctx: &Ctx<'_>, mut rest: RestOfArgs<'_>) -> Result<Self, CommandError> {
        let now_ms = ctx.now_ms();
        let mut claim = Self::default();
        let number = |text: &[u8], what| {
            let invalid = || CommandError::text(format!("ERR Invalid {what} option argument for XCLAIM"));
            parse_i64(text).ok_or_else(invalid)
        };
        while let Some(word) = rest.peek() {
            if rest.take("FORCE") {
                claim.force = true;
            } else if rest.take("JUSTID") {
                claim.just_id = true;
            } else if rest.take_with("IDLE", 1) {
                claim.delivered_ms = Some(now_ms.saturating_sub(number(rest.next_arg(), "IDLE")?));
            } else if rest.take_with("TIME", 1) {
                claim.delivered_ms = Some(number(rest.next_arg(), "TIME")?);
            } else if rest.take_with("RETRYCOUNT", 1) {
                claim.retry_count = Some(u64::try_from(number(rest.next_arg(), "RETRYCOUNT")?).unwrap_or(0));
            } else if rest.take_with("LASTID", 1) {
                claim.last_id = Some(parse_id(rest.next_arg(), 0)?);
            } else {
                return Err(CommandError::quoting("ERR Unrecognized XCLAIM option '", word, "'"));
            }
        }
        // A time in the future, or an invalid one, counts as now.
        claim.delivered_ms = claim.delivered_ms.filter(|at| (0..=now_ms).contains(at));
        Ok(claim)
    }
}

/// `XCLAIM key group consumer min-idle-time id [id …] [IDLE ms] [TIME unix-time-milliseconds] [RETRYCOUNT count] [FORCE]
/// [JUSTID] [LASTID lastid]`
pub(crate) fn xclaim(ctx: &mut Ctx<'_>) -> CommandResult {
    let (key, name, consumer) = (ctx.key(1), ctx.arg(2), ctx.arg(3));
    let known = ctx.commit.read_as::<Stream>(&key)?.is_some_and(|stream| stream.groups().contains_key(name));
    if !known {
        return Err(no_group(&key, name, "'").into());
    }
    let idle_min = ctx.int_or(4, CommandError::fixed("ERR Invalid min-idle-time argument for XCLAIM"))?.max(0);
    let mut ids = Vec::new();
    let mut rest = ctx.rest(5);
    while let Some(id) = rest.take_if(0, |text| parse_id(text, 0).ok()) {
        ids.push(id);
    }
    let claim = Claim::parse(ctx, rest)?;
    let now_ms = ctx.now_ms();
    let Some(stream) = ctx.commit.write_as::<Stream>(&key)? else { return Ok(()) };
    let exists: Vec<bool> = ids.iter().map(|&id| stream.get(id).is_some()).collect();
    let Some(group) = stream.groups_mut().get_mut(name) else { return Ok(()) };
    group.last_id = group.last_id.max(claim.last_id.unwrap_or(StreamId::MIN));
    let is_new = touch(group, consumer, now_ms);
    let holder = group.name_of(consumer);
    let (mut claimed, mut gone) = (Vec::new(), Vec::new());
    for (id, exists) in ids.into_iter().zip(exists) {
        if !exists {
            if group.acknowledge(id) {
                gone.push(id);
            }
            continue;
        }
        let before = group.pending.get(&id);
        let is_free = match before {
            None => claim.force,
            Some(pending) => pending.is_idle_for(idle_min, now_ms),
        };
        if is_free {
            // FORCE makes an entry as if it had been delivered, and this is the next time.
            let count = if claim.just_id {
                before.map_or(1, |pending| pending.count)
            } else {
                before.map_or(2, Pending::next_count)
            };
            let pending = Pending {
                consumer: holder.clone(),
                delivered_ms: claim.delivered_ms.unwrap_or(now_ms),
                count: claim.retry_count.unwrap_or(count),
            };
            group.assign(id, pending);
            claimed.push(id);
        }
    }
    note_consumer(ctx, &key, is_new);
    finish(ctx, &key, name, consumer, &claimed, &gone, claim.just_id)
}

/// Notes that a consumer is active; creates it if necessary, and returns whether it did.
fn touch(group: &mut Group, consumer: &[u8], now_ms: i64) -> bool {
    let is_new = !group.consumers.contains_key(consumer);
    group.consumer(consumer, now_ms);
    if let Some(consumer) = group.consumers.get_mut(consumer) {
        consumer.seen_ms = now_ms;
    }
    is_new
}

fn note_consumer(ctx: &mut Ctx<'_>, key: &Key<'_>, is_new: bool) {
    if is_new {
        ctx.notify(EventClass::Stream, "xgroup-createconsumer", key.bytes);
    }
}

/// Replies with the entries that were claimed, and notes the change.
fn finish(
    ctx: &mut Ctx<'_>,
    key: &Key<'_>,
    group: &[u8],
    consumer: &[u8],
    claimed: &[StreamId],
    gone: &[StreamId],
    just_id: bool,
) -> CommandResult {
    let now_ms = ctx.now_ms();
    let (mut logged, mut progress) = (Vec::new(), None);
    if let Some(stream) = ctx.commit.write_as::<Stream>(key)? {
        if let Some(group) = stream.groups_mut().get_mut(group) {
            progress = Some((group.last_id, group.entries_read));
            if let Some(consumer) = group.consumers.get_mut(consumer).filter(|_| !claimed.is_empty()) {
                consumer.active_ms = now_ms;
            }
            logged = claimed.iter().filter_map(|id| Some((*id, group.pending.get(id)?.clone()))).collect();
        }
        ctx.out.array(claimed.len());
        for &id in claimed {
            match stream.get(id) {
                Some(entry) if !just_id => reply_entry(ctx.out, entry),
                _ => reply_id(ctx.out, id),
            }
        }
    }
    ctx.changed_untold();
    if ctx.is_logged() {
        ctx.logs_itself();
        if logged.is_empty() {
            ctx.log_also(&[b"XGROUP", b"CREATECONSUMER", key.bytes, group, consumer]);
            if let Some((last_id, read)) = progress {
                log_progress(ctx, key, group, &last_id.to_string(), read);
            }
        }
        let last_id = progress.map_or(StreamId::MIN, |(last_id, _)| last_id).to_string();
        for (id, pending) in logged {
            let delivered = (pending.delivered_ms, pending.count);
            log_claim(ctx, key, Reader { group, consumer }, id, delivered, &last_id);
        }
        for id in gone {
            ctx.log_instead(&[b"XACK", key.bytes, group, id.to_string().as_bytes()]);
        }
    }
    Ok(())
}

/// `XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]`
pub(crate) fn xautoclaim(ctx: &mut Ctx<'_>) -> CommandResult {
    let (key, name, consumer) = (ctx.key(1), ctx.arg(2), ctx.arg(3));
    let idle_min = ctx.int_or(4, CommandError::fixed("ERR Invalid min-idle-time argument for XAUTOCLAIM"))?.max(0);
    let start = parse_bound(ctx.arg(5), false)?;
    let (mut count, mut just_id) = (AUTOCLAIM_COUNT_DEFAULT, false);
    let mut rest = ctx.rest(6);
    while !rest.is_empty() {
        if rest.take_with("COUNT", 1) {
            let not_positive = CommandError::fixed("ERR COUNT must be > 0");
            let number = rest.next_int_or(not_positive.clone())?;
            count =
                usize::try_from(number).ok().filter(|count| AUTOCLAIM_COUNTS.contains(count)).ok_or(not_positive)?;
        } else if rest.take("JUSTID") {
            just_id = true;
        } else {
            return Err(error::SYNTAX.into());
        }
    }
    let known = ctx.commit.read_as::<Stream>(&key)?.is_some_and(|stream| stream.groups().contains_key(name));
    if !known {
        return Err(no_group(&key, name, "'").into());
    }
    let now_ms = ctx.now_ms();
    let Some(stream) = ctx.commit.write_as::<Stream>(&key)? else { return Ok(()) };
    let group = stream.groups().get(name);
    let attempts = count.saturating_mul(AUTOCLAIM_ATTEMPTS);
    let candidates = group.into_iter().flat_map(|group| group.pending.range(start..));
    let (mut claimed, mut gone, mut next) = (Vec::new(), Vec::new(), StreamId::MIN);
    for (looked_at, (&id, pending)) in candidates.enumerate() {
        if looked_at == attempts || claimed.len() + gone.len() == count {
            next = id;
            break;
        }
        if stream.get(id).is_none() {
            gone.push(id);
        } else if pending.is_idle_for(idle_min, now_ms) {
            claimed.push(id);
        }
    }
    let mut is_new = false;
    if let Some(group) = stream.groups_mut().get_mut(name) {
        is_new = touch(group, consumer, now_ms);
        gone.iter().for_each(|&id| _ = group.acknowledge(id));
        let holder = group.name_of(consumer);
        for &id in &claimed {
            let Some(pending) = group.pending.get(&id) else { continue };
            let count = if just_id { pending.count } else { pending.next_count() };
            group.assign(id, Pending { consumer: holder.clone(), delivered_ms: now_ms, count });
        }
    }
    note_consumer(ctx, &key, is_new);
    ctx.out.array(3);
    reply_id(ctx.out, next);
    finish(ctx, &key, name, consumer, &claimed, &gone, just_id)?;
    ctx.out.array(gone.len());
    gone.iter().for_each(|&id| reply_id(ctx.out, id));
    Ok(())
}

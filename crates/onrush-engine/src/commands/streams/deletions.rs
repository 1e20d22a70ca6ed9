//! Deleting entries of streams with regard to the consumer groups that refer to them: XDELEX, XACKDEL.

use std::ops::Range;

use onrush_store::{References, Stream, StreamId};

use crate::commands::streams::{next_ids, parse_id, take_references};
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::{self, CommandError};

/// What happened to an entry, as the reply shows it.
const NOT_FOUND: i64 = -1;
const DELETED: i64 = 1;
const STILL_REFERENCED: i64 = 2;

/// `[KEEPREF | DELREF | ACKED] IDS numids id [id …]`, in any order.
struct Request {
    references: References,
    /// The arguments that are identifiers.
    ids: Range<usize>,
}

impl Request {
    fn parse(ctx: &Ctx<'_>, from: usize) -> Result<Self, CommandError> {
        let (mut references, mut ids) = (None, None);
        let mut rest = ctx.rest(from);
        while !rest.is_empty() {
            if references.is_none()
                && let Some(given) = take_references(&mut rest)
            {
                references = Some(given);
            } else if rest.take_with("IDS", 1) {
                ids = Some(next_ids(&mut rest)?);
            } else {
                return Err(error::SYNTAX);
            }
        }
        Ok(Self { references: references.unwrap_or_default(), ids: ids.ok_or(error::SYNTAX)? })
    }

    fn ids(&self, ctx: &Ctx<'_>) -> Result<Vec<StreamId>, CommandError> {
        self.ids.clone().map(|index| parse_id(ctx.arg(index), 0)).collect()
    }

    /// Deletes an entry if its references allow it; returns what happened to it.
    fn delete(&self, stream: &mut Stream, id: StreamId) -> i64 {
        match self.references {
            References::Acknowledged if stream.is_referenced(id) => return STILL_REFERENCED,
            References::Delete => stream.forget(id),
            _ => {}
        }
        if stream.remove(id) { DELETED } else { NOT_FOUND }
    }
}

fn reply(ctx: &mut Ctx<'_>, outcomes: &[i64]) -> CommandResult {
    ctx.out.array(outcomes.len());
    outcomes.iter().for_each(|&outcome| ctx.out.int(outcome));
    Ok(())
}

/// `XDELEX key [KEEPREF | DELREF | ACKED] IDS numids id [id …]`
pub(crate) fn xdelex(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let is_there = ctx.commit.read_as::<Stream>(&key)?.is_some();
    let request = Request::parse(ctx, 2)?;
    if !is_there {
        return reply(ctx, &vec![NOT_FOUND; request.ids.len()]);
    }
    let ids = request.ids(ctx)?;
    let Some(stream) = ctx.commit.write_as::<Stream>(&key)? else { return Ok(()) };
    let outcomes: Vec<i64> = ids.into_iter().map(|id| request.delete(stream, id)).collect();
    if outcomes.contains(&DELETED) {
        ctx.changed_quietly(EventClass::Stream, "xdel", key.bytes);
    } else if request.references == References::Delete {
        // A deleted entry may still have had references.
        ctx.changed_untold();
    }
    reply(ctx, &outcomes)
}

/// `XACKDEL key group [KEEPREF | DELREF | ACKED] IDS numids id [id …]`
pub(crate) fn xackdel(ctx: &mut Ctx<'_>) -> CommandResult {
    let (key, name) = (ctx.key(1), ctx.arg(2));
    let is_known = ctx.commit.read_as::<Stream>(&key)?.is_some_and(|stream| stream.groups().contains_key(name));
    let request = Request::parse(ctx, 3)?;
    if !is_known {
        return reply(ctx, &vec![NOT_FOUND; request.ids.len()]);
    }
    let ids = request.ids(ctx)?;
    let Some(stream) = ctx.commit.write_as::<Stream>(&key)? else { return Ok(()) };
    let (mut outcomes, mut any_deleted) = (Vec::with_capacity(ids.len()), false);
    for id in ids {
        let was_pending = stream.groups_mut().get_mut(name).is_some_and(|group| group.acknowledge(id));
        let outcome = if was_pending { request.delete(stream, id) } else { NOT_FOUND };
        any_deleted |= outcome == DELETED;
        // An acknowledged entry that was deleted before counts as deleted, too.
        outcomes.push(if was_pending { outcome.max(DELETED) } else { outcome });
    }
    if outcomes.iter().any(|&outcome| outcome != NOT_FOUND) {
        ctx.changed_untold();
    }
    if any_deleted {
        ctx.changed_quietly(EventClass::Stream, "xdel", key.bytes);
    }
    reply(ctx, &outcomes)
}

//! XNACK: consumers give back entries that they have not processed.

use onrush_store::{Pending, Stream, StreamId};

use crate::commands::streams::parse_id;
use crate::commands::streams::pending::no_group;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError};

/// How giving back changes the delivery count.
#[derive(Clone, Copy)]
enum Mode {
    /// The last delivery does not count.
    Silent,
    /// It counts.
    Fail,
    /// No consumer should try again.
    Fatal,
}

/// `<SILENT | FAIL | FATAL> IDS numids id [id …] [RETRYCOUNT count] [FORCE]`
struct Request {
    mode: Mode,
    ids: Vec<StreamId>,
    retry_count: Option<u64>,
    force: bool,
}

impl Request {
    fn parse(ctx: &Ctx<'_>) -> Result<Self, CommandError> {
        let modes = [("SILENT", Mode::Silent), ("FAIL", Mode::Fail), ("FATAL", Mode::Fatal)];
        let mode = modes.into_iter().find(|(word, _)| ctx.is(3, word)).ok_or(error::SYNTAX)?.1;
        let (mut ids, mut retry_count, mut force) = (None, None, false);
        let mut index = 4;
        while index < ctx.argc() {
            let left = ctx.argc() - index - 1;
            if ctx.is(index, "IDS") && left >= 1 && ids.is_none() {
                let not_positive = CommandError::fixed("ERR Number of IDs must be a positive integer");
                let len = ctx.int_or(index + 1, not_positive.clone())?;
                let len = usize::try_from(len).ok().filter(|&len| len > 0).ok_or(not_positive)?;
                if len > left - 1 {
                    let mismatch = "ERR The `numids` parameter must match the number of arguments";
                    return Err(CommandError::fixed(mismatch));
                }
                ids = Some(index + 2..index + 2 + len);
                index += 2 + len;
            } else if ctx.is(index, "RETRYCOUNT") && left >= 1 && retry_count.is_none() {
                let invalid = CommandError::fixed("ERR Invalid RETRYCOUNT option argument for XNACK");
                let count = ctx.int_or(index + 1, invalid.clone())?;
                retry_count = Some(u64::try_from(count).map_err(|_| invalid)?);
                index += 2;
            } else if ctx.is(index, "FORCE") {
                force = true;
                index += 1;
            } else {
                return Err(error::SYNTAX);
            }
        }
        let ids = ids.ok_or(error::SYNTAX)?.map(|index| parse_id(ctx.arg(index), 0)).collect::<Result<_, _>>()?;
        Ok(Self { mode, ids, retry_count, force })
    }

    /// The new delivery count of an entry that was delivered `before` times.
    fn count(&self, before: u64) -> u64 {
        self.retry_count.unwrap_or(match self.mode {
            Mode::Silent => before.saturating_sub(1),
            Mode::Fail => before,
            Mode::Fatal => Pending::COUNT_MAX,
        })
    }
}

/// `XNACK key group <SILENT | FAIL | FATAL> IDS numids id [id …] [RETRYCOUNT count] [FORCE]`: pending entries then
/// belong to no consumer, and the next claim gets them. With FORCE this also applies to entries that are not pending.
pub(crate) fn xnack(ctx: &mut Ctx<'_>) -> CommandResult {
    let (key, name) = (ctx.key(1), ctx.arg(2));
    let known = ctx.commit.read_as::<Stream>(&key)?.is_some_and(|stream| stream.groups().contains_key(name));
    let request = Request::parse(ctx)?;
    if !known {
        return Err(no_group(key.bytes, name).into());
    }
    let Some(stream) = ctx.commit.write_as::<Stream>(&key)? else { return Ok(()) };
    let mut released = 0;
    for &id in &request.ids {
        let may_make = request.force && stream.get(id).is_some();
        let Some(group) = stream.groups_mut().get_mut(name) else { break };
        let before = group.pending.get(&id).map(|pending| pending.count);
        if let Some(before) = before.or(may_make.then_some(0)) {
            group.assign(id, Pending::released(request.count(before)));
            released += 1;
        }
    }
    if released > 0 {
        ctx.changed_untold();
    }
    ctx.out.int(released);
    Ok(())
}

//! XNACK: consumers give back entries that they have not processed.

use onrush_store::{Pending, Stream, StreamId};

use crate::commands::streams::pending::no_group;
use crate::commands::streams::{next_ids, parse_id};
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
        let mut rest = ctx.rest(3);
        let mode = rest.take_one_of(modes).ok_or(error::SYNTAX)?;
        let (mut ids, mut retry_count, mut force) = (None, None, false);
        while !rest.is_empty() {
            if ids.is_none() && rest.take_with("IDS", 1) {
                ids = Some(next_ids(&mut rest)?);
            } else if retry_count.is_none() && rest.take_with("RETRYCOUNT", 1) {
                let invalid = CommandError::fixed("ERR Invalid RETRYCOUNT option argument for XNACK");
                retry_count = Some(u64::try_from(rest.next_int_or(invalid.clone())?).map_err(|_| invalid)?);
            } else if rest.take("FORCE") {
                force = true;
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
        return Err(no_group(&key, name, "'").into());
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
    ctx.reply_int(released)
}

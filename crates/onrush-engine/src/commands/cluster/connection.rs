//! What a client of a cluster says of its connection.

use crate::clients::session::States;
use crate::commands::cluster::cluster;
use crate::ctx::{CommandResult, Ctx};

/// `READONLY`: a replica executes what the client reads
pub(crate) fn readonly(ctx: &mut Ctx<'_>) -> CommandResult {
    cluster(ctx)?;
    ctx.session.is_readonly = true;
    ctx.reply_ok()
}

/// `READWRITE`
pub(crate) fn readwrite(ctx: &mut Ctx<'_>) -> CommandResult {
    cluster(ctx)?;
    ctx.session.is_readonly = false;
    ctx.commit.distrust_routes();
    ctx.reply_ok()
}

/// `ASKING`: the next command may be about a slot that is under way to here
pub(crate) fn asking(ctx: &mut Ctx<'_>) -> CommandResult {
    cluster(ctx)?;
    ctx.session.states.insert(States::ASKS);
    ctx.reply_ok()
}

//! Faults of the bus of a cluster, for tests of clusters.

use crate::cluster::facts::Facts;
use crate::ctx::{CommandResult, Ctx};
use crate::error::CommandError;

const NO_CLUSTER: CommandError = CommandError::fixed("ERR Debug option only available for cluster mode enabled setup!");

/// `DEBUG CLUSTERLINK KILL to | from | all node-id`
pub(super) fn kill_links(ctx: &mut Ctx<'_>) -> CommandResult {
    let node = &ctx.engine.cluster.as_ref().ok_or(NO_CLUSTER)?.node;
    let word = |index: usize| String::from_utf8_lossy(ctx.arg(index)).into_owned();
    let (direction, id) = (word(3), word(4));
    let now = Facts(ctx.engine).now();
    node.lock()?.cluster.kill_links(&id, &direction, now).map_err(CommandError::text)?;
    node.wake();
    ctx.reply_ok()
}

/// `DEBUG DROP-CLUSTER-PACKET-FILTER packet-type`
pub(super) fn lose_messages(ctx: &mut Ctx<'_>) -> CommandResult {
    let kind = ctx.int(2)?;
    if let Some(cluster) = &ctx.engine.cluster {
        cluster.node.lock()?.cluster.lose_messages(kind);
    }
    ctx.reply_ok()
}

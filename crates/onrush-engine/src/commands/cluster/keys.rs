//! Commands about slots and their keys on this node. A slot is a shard: none of them looks at another one.

use onrush_cluster::slots::{SLOTS, slot};

use crate::commands::cluster::cluster;
use crate::ctx::{CommandResult, Ctx};
use crate::error::CommandError;

const INVALID_SLOT: CommandError = CommandError::fixed("ERR Invalid slot");
const INVALID_SLOT_OR_COUNT: CommandError = CommandError::fixed("ERR Invalid slot or number of keys");

/// `CLUSTER KEYSLOT key`
pub(crate) fn keyslot(ctx: &mut Ctx<'_>) -> CommandResult {
    cluster(ctx)?;
    let slot = slot(ctx.arg(2));
    ctx.reply_int(slot.into())
}

/// `CLUSTER COUNTKEYSINSLOT slot`, expired ones included
pub(crate) fn countkeysinslot(ctx: &mut Ctx<'_>) -> CommandResult {
    cluster(ctx)?;
    let slot = u16::try_from(ctx.int(2)?).ok().filter(|slot| *slot < SLOTS).ok_or(INVALID_SLOT)?;
    let keys = ctx.engine.keyspace.db_or_create(0).shard(slot.into()).len();
    ctx.reply_int(keys as i64)
}

/// `CLUSTER GETKEYSINSLOT slot count`
pub(crate) fn getkeysinslot(ctx: &mut Ctx<'_>) -> CommandResult {
    cluster(ctx)?;
    let (slot, count) = (ctx.int(2)?, ctx.int(3)?);
    let slot = u16::try_from(slot).ok().filter(|slot| *slot < SLOTS).ok_or(INVALID_SLOT_OR_COUNT)?;
    let count = usize::try_from(count).map_err(|_| INVALID_SLOT_OR_COUNT)?;
    ctx.commit.release();
    let shard = ctx.engine.keyspace.db_or_create(0).shard(slot.into());
    ctx.expect_work(count.min(shard.len()))?;
    let keys = shard.keys(count);
    ctx.out.array(keys.len());
    keys.iter().for_each(|key| ctx.out.bulk(key));
    Ok(())
}

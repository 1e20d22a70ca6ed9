//! CONFIG: reading and changing the configuration of the running process.

use crate::commands::cluster::change::reply_when_configured;
use crate::commands::reply::Fields;
use crate::ctx::{CommandResult, Ctx};
use crate::error;

/// `CONFIG GET parameter [parameter ...]`
pub(crate) fn config_get(ctx: &mut Ctx<'_>) -> CommandResult {
    let patterns: Vec<&[u8]> = ctx.argv.iter().skip(2).collect();
    let found = ctx.engine.process.config_matching(&patterns);
    ctx.out.map(found.len());
    for (name, value) in found {
        ctx.out.bulk_field(&name, &value);
    }
    Ok(())
}

/// `CONFIG SET parameter value [parameter value ...]`: all of them or none
pub(crate) fn config_set(ctx: &mut Ctx<'_>) -> CommandResult {
    if !ctx.argc().is_multiple_of(2) {
        return Err(error::SYNTAX.into());
    }
    let pairs: Vec<_> = (2..ctx.argc()).step_by(2).map(|index| (ctx.arg(index), ctx.arg(index + 1))).collect();
    let is_local = ctx.session.handle.is_local();
    if let Some(error) = ctx.engine.process.config_waits(&pairs) {
        if ctx.commit.is_nested() || ctx.session.deny_blocking {
            return Err(error.into());
        }
        // Another thread changes the configuration.
        let pairs = pairs.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        if let Some(done) = ctx.reply_later()? {
            ctx.engine.process.config_set_later(pairs, is_local, done);
        }
        return Ok(());
    }
    let is_of_cluster =
        |(name, _): &(&[u8], &[u8])| name.get(..8).is_some_and(|head| head.eq_ignore_ascii_case(b"cluster-"));
    let waits_for_cluster = ctx.engine.cluster.is_some() && pairs.iter().any(is_of_cluster);
    ctx.engine.process.config_set(&pairs, is_local)?;
    if waits_for_cluster {
        return reply_when_configured(ctx);
    }
    ctx.reply_ok()
}

/// `CONFIG RESETSTAT`
pub(crate) fn config_resetstat(ctx: &mut Ctx<'_>) -> CommandResult {
    let engine = ctx.engine;
    engine.stats.reset();
    engine.replication.syncs.reset();
    engine.lazyfree.reset_freed();
    engine.eviction.reset();
    engine.clients_share.reset();
    ctx.reply_ok()
}

/// `CONFIG REWRITE`
pub(crate) fn config_rewrite(ctx: &mut Ctx<'_>) -> CommandResult {
    // It waits for the disk, so no worker must execute it.
    ctx.leave_worker()?;
    ctx.outside_of_gate(|engine| engine.process.config_rewrite())?;
    ctx.reply_ok()
}

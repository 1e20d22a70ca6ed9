//! CONFIG: reading and changing the configuration of the running process.

use crate::blocking::waiter::OnTimeout;
use crate::command::replies;
use crate::commands::cluster::change::reply_when_configured;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError};

/// `CONFIG GET parameter [parameter ...]`
pub(crate) fn config_get(ctx: &mut Ctx<'_>) -> CommandResult {
    let patterns: Vec<&[u8]> = ctx.argv.iter().skip(2).collect();
    let found = ctx.engine.process.config_matching(&patterns);
    ctx.out.map(found.len());
    for (name, value) in found {
        ctx.out.bulk(name.as_bytes());
        ctx.out.bulk(&value);
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
        let pairs = pairs.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        return set_later(ctx, pairs, is_local);
    }
    let is_of_cluster =
        |(name, _): &(&[u8], &[u8])| name.get(..8).is_some_and(|head| head.eq_ignore_ascii_case(b"cluster-"));
    let waits_for_cluster = ctx.engine.cluster.is_some() && pairs.iter().any(is_of_cluster);
    ctx.engine.process.config_set(&pairs, is_local)?;
    if waits_for_cluster {
        return reply_when_configured(ctx);
    }
    ctx.out.ok();
    Ok(())
}

/// Sets the connection aside until another thread has changed the configuration.
fn set_later(ctx: &mut Ctx<'_>, pairs: Vec<(Vec<u8>, Vec<u8>)>, is_local: bool) -> CommandResult {
    let engine = ctx.engine;
    let Some(waiter) = ctx.block_without_keys(None, OnTimeout::Never)? else { return Ok(()) };
    let done = move |result: Result<(), CommandError>| {
        waiter.finish(engine, |out| match result {
            Ok(()) => out.ok(),
            Err(error) => out.error_bytes(error.as_bytes()),
        });
    };
    engine.process.config_set_later(pairs, is_local, Box::new(done));
    Ok(())
}

/// `CONFIG RESETSTAT`
pub(crate) fn config_resetstat(ctx: &mut Ctx<'_>) -> CommandResult {
    let engine = ctx.engine;
    engine.stats.reset();
    engine.replication.syncs.reset();
    engine.lazyfree.reset_freed();
    engine.eviction.reset();
    engine.clients_share.reset();
    ctx.out.ok();
    Ok(())
}

/// `CONFIG REWRITE`
pub(crate) fn config_rewrite(ctx: &mut Ctx<'_>) -> CommandResult {
    // It waits for the disk, so no worker must execute it.
    ctx.leave_worker()?;
    ctx.outside_of_gate(|engine| engine.process.config_rewrite())?;
    ctx.out.ok();
    Ok(())
}

/// `CONFIG HELP`
pub(crate) fn config_help(ctx: &mut Ctx<'_>) -> CommandResult {
    replies::help(&ctx.engine.commands, ctx.command, ctx.out);
    Ok(())
}

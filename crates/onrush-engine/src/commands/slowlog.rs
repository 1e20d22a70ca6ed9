//! SLOWLOG: commands that took long.

use onrush_resp::{Reply, parse_i64};

use crate::command::replies;
use crate::ctx::{CommandResult, Ctx};
use crate::error::CommandError;
use crate::slowlog::Entry;

const BAD_COUNT: CommandError = CommandError::fixed("ERR count should be greater than or equal to -1");

/// Entries that GET tells unless said otherwise.
const TOLD: i64 = 10;

/// `SLOWLOG GET [count]`: the latest ones first; -1 is all
pub fn slowlog_get(ctx: &mut Ctx<'_>) -> CommandResult {
    let count = match ctx.argc() {
        2 => TOLD,
        3 => parse_i64(ctx.arg(2)).filter(|&count| count >= -1).ok_or(BAD_COUNT)?,
        _ => return Err(ctx.wrong_subcommand()),
    };
    let out = &mut *ctx.out;
    ctx.engine.slowlog.latest(usize::try_from(count).unwrap_or(usize::MAX), |len, entries| {
        out.array(len);
        entries.for_each(|entry| tell(entry, out));
    });
    Ok(())
}

fn tell(entry: &Entry, out: &mut Reply) {
    out.array(6);
    out.int(entry.id as i64);
    out.int(entry.at_s);
    out.int(entry.took_us as i64);
    out.array(entry.args.len());
    entry.args.iter().for_each(|arg| out.bulk(arg));
    out.bulk(entry.addr.as_bytes());
    out.bulk(&entry.name);
}

/// `SLOWLOG LEN`
pub fn slowlog_len(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.out.int(ctx.engine.slowlog.len() as i64);
    Ok(())
}

/// `SLOWLOG RESET`
pub fn slowlog_reset(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.engine.slowlog.reset();
    ctx.out.ok();
    Ok(())
}

/// `SLOWLOG HELP`
pub fn slowlog_help(ctx: &mut Ctx<'_>) -> CommandResult {
    replies::help(&ctx.engine.commands, ctx.command, ctx.out);
    Ok(())
}

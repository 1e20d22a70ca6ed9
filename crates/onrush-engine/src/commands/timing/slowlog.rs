//! SLOWLOG: commands that took long.

use std::time::Duration;

use onrush_resp::{Reply, parse_i64};

use crate::commands::reply::Fields;
use crate::ctx::{CommandResult, Ctx};
use crate::error::CommandError;
use crate::observe::slow_batch::SlowBatch;
use crate::observe::slowlog::Entry;

const BAD_COUNT: CommandError = CommandError::fixed("ERR count should be greater than or equal to -1");

/// Entries that GET returns by default.
const TOLD: i64 = 10;

/// `SLOWLOG GET [count]`: the latest ones first; -1 is all
pub(crate) fn slowlog_get(ctx: &mut Ctx<'_>) -> CommandResult {
    let count = count_of(ctx)?;
    let out = &mut *ctx.out;
    ctx.engine.slowlog.latest(count, |len, entries| {
        out.array(len);
        entries.for_each(|entry| tell(entry, out));
    });
    Ok(())
}

/// How many entries the client asks for.
fn count_of(ctx: &Ctx<'_>) -> Result<usize, CommandError> {
    let count = match ctx.argc() {
        2 => TOLD,
        3 => parse_i64(ctx.arg(2)).filter(|&count| count >= -1).ok_or(BAD_COUNT)?,
        _ => return Err(ctx.wrong_subcommand()),
    };
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
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

/// `SLOWLOG BATCHES [count]`: the latest slow batches first, with what their time was spent on; -1 is all
pub(crate) fn slowlog_batches(ctx: &mut Ctx<'_>) -> CommandResult {
    let count = count_of(ctx)?;
    let out = &mut *ctx.out;
    ctx.engine.slow_batches.latest(count, |len, batches| {
        out.array(len);
        batches.for_each(|batch| tell_batch(batch, out));
    });
    Ok(())
}

fn tell_batch(batch: &SlowBatch, out: &mut Reply) {
    let times = &batch.times;
    let micros = |time: Duration| time.as_micros() as i64;
    let numbers = [
        ("id", batch.id as i64),
        ("timestamp", batch.at_s),
        ("total-us", micros(times.total())),
        ("waiting-us", micros(times.waiting)),
        ("executing-us", micros(times.executing)),
        ("syncing-us", micros(times.syncing)),
        ("flushing-us", micros(times.flushing)),
        ("commands", times.commands as i64),
        ("bytes", times.bytes as i64),
    ];
    out.map(numbers.len() + 2);
    for (field, number) in numbers {
        out.int_field(field, number);
    }
    out.bulk_field("addr", &batch.addr);
    out.bulk_field("name", &batch.name);
}

/// `SLOWLOG LEN`
pub(crate) fn slowlog_len(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.reply_int(ctx.engine.slowlog.len() as i64)
}

/// `SLOWLOG RESET`
pub(crate) fn slowlog_reset(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.engine.slowlog.reset();
    ctx.engine.slow_batches.reset();
    ctx.reply_ok()
}

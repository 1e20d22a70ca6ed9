//! HOTKEYS: sessions that find hot keys.

use crate::command::replies;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError};
use crate::observe::hotkeys::Wanted;

const RUNS_ALREADY: CommandError = CommandError::fixed("ERR hotkeys tracking session already in progress");
const STILL_RUNS: CommandError = CommandError::fixed("ERR hotkeys tracking session in progress, stop it first");
const BAD_METRICS: CommandError = CommandError::fixed("ERR METRICS count does not match the metrics given: CPU, NET");
const BAD_COUNT: CommandError = CommandError::fixed("ERR COUNT must be between 1 and 64");
const BAD_SAMPLE: CommandError = CommandError::fixed("ERR SAMPLE ratio must be positive");
const BAD_DURATION: CommandError = CommandError::fixed("ERR DURATION must not be negative");
const NO_SLOTS: CommandError = CommandError::fixed("ERR SLOTS parameter cannot be used in non-cluster mode");

/// Keys that are returned for each metric: the default, and the most.
const COUNT: usize = 10;
const COUNT_MAX: i64 = 64;

/// `HOTKEYS START METRICS count [CPU] [NET] [COUNT k] [DURATION seconds] [SAMPLE ratio]`
pub(crate) fn hotkeys_start(ctx: &mut Ctx<'_>) -> CommandResult {
    let wanted = parse(ctx)?;
    if !ctx.engine.hotkeys.start(wanted, ctx.now_ms()) {
        return Err(RUNS_ALREADY.into());
    }
    ctx.engine.settings.timing.sample_hot_keys(wanted.sample);
    ctx.out.ok();
    Ok(())
}

fn parse(ctx: &Ctx<'_>) -> Result<Wanted, CommandError> {
    let mut wanted = Wanted { cpu: false, net: false, count: COUNT, sample: 1, duration_ms: 0 };
    if !ctx.is(2, "METRICS") {
        return Err(error::SYNTAX);
    }
    let metrics = ctx.int(3)?;
    let mut rest = ctx.rest(4);
    while !rest.is_empty() {
        if !wanted.cpu && rest.take("CPU") {
            wanted.cpu = true;
        } else if !wanted.net && rest.take("NET") {
            wanted.net = true;
        } else if rest.take("SLOTS") {
            return Err(NO_SLOTS);
        } else if rest.take_with("COUNT", 1) {
            let count = rest.next_int()?;
            wanted.count = if (1..=COUNT_MAX).contains(&count) { count as usize } else { return Err(BAD_COUNT) };
        } else if rest.take_with("DURATION", 1) {
            let seconds = rest.next_int()?;
            wanted.duration_ms = seconds.checked_mul(1000).filter(|&ms| ms >= 0).ok_or(BAD_DURATION)?;
        } else if rest.take_with("SAMPLE", 1) {
            wanted.sample = u32::try_from(rest.next_int()?).ok().filter(|&ratio| ratio > 0).ok_or(BAD_SAMPLE)?;
        } else {
            return Err(error::SYNTAX);
        }
    }
    let given = i64::from(wanted.cpu) + i64::from(wanted.net);
    if given == 0 || given != metrics { Err(BAD_METRICS) } else { Ok(wanted) }
}

/// `HOTKEYS STOP`: null if no session runs
pub(crate) fn hotkeys_stop(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.engine.hotkeys.stop(ctx.now_ms()) {
        ctx.engine.settings.timing.sample_hot_keys(0);
        ctx.out.ok();
    } else {
        ctx.out.null();
    }
    Ok(())
}

/// `HOTKEYS RESET`
pub(crate) fn hotkeys_reset(ctx: &mut Ctx<'_>) -> CommandResult {
    if !ctx.engine.hotkeys.reset(ctx.now_ms()) {
        return Err(STILL_RUNS.into());
    }
    ctx.out.ok();
    Ok(())
}

/// `HOTKEYS GET`: an array with one map, as of one node; null if there was no session
pub(crate) fn hotkeys_get(ctx: &mut Ctx<'_>) -> CommandResult {
    let Some(found) = ctx.engine.hotkeys.found(ctx.now_ms()) else {
        ctx.out.null();
        return Ok(());
    };
    // The sample stands for all commands.
    let all = |sampled: u64| sampled.saturating_mul(found.wanted.sample.into()) as i64;
    let about = [("tracking-active", i64::from(found.is_active)), ("sample-ratio", found.wanted.sample.into())];
    let sums = [
        ("all-commands-all-slots-us", all(found.total_us)),
        ("net-bytes-all-commands-all-slots", all(found.total_bytes)),
        ("collection-start-time-unix-ms", found.started_ms),
        ("collection-duration-ms", found.duration_ms),
    ];
    let lists = [("by-cpu-time-us", found.wanted.cpu, found.by_us), ("by-net-bytes", found.wanted.net, found.by_bytes)];
    ctx.out.array(1);
    ctx.out.map(about.len() + 1 + sums.len() + lists.iter().filter(|(_, is_wanted, _)| *is_wanted).count());
    reply_numbers(ctx, &about);
    ctx.out.bulk(b"selected-slots");
    ctx.out.array(0);
    reply_numbers(ctx, &sums);
    for (field, _, keys) in lists.into_iter().filter(|(_, is_wanted, _)| *is_wanted) {
        ctx.out.bulk(field.as_bytes());
        ctx.out.array(keys.len() * 2);
        for (key, sum) in keys {
            ctx.out.bulk(&key);
            ctx.out.int(sum as i64);
        }
    }
    Ok(())
}

fn reply_numbers(ctx: &mut Ctx<'_>, numbers: &[(&str, i64)]) {
    for (field, number) in numbers {
        ctx.out.bulk(field.as_bytes());
        ctx.out.int(*number);
    }
}

/// `HOTKEYS HELP`
pub(crate) fn hotkeys_help(ctx: &mut Ctx<'_>) -> CommandResult {
    replies::help(&ctx.engine.commands, ctx.command, ctx.out);
    Ok(())
}

//! HOTKEYS: sessions that find hot keys.

use onrush_cluster::slots::{SLOTS, SlotSet};

use crate::command::RestOfArgs;
use crate::commands::reply::Fields;
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
const BAD_SLOTS: CommandError = CommandError::fixed("ERR SLOTS count does not match the slots given: 0 to 16383");

/// Keys that are returned for each metric: the default, and the most.
const COUNT: usize = 10;
const COUNT_MAX: i64 = 64;

/// `HOTKEYS START METRICS count [CPU] [NET] [COUNT k] [DURATION seconds] [SAMPLE ratio] [SLOTS count slot ...]`
pub(crate) fn hotkeys_start(ctx: &mut Ctx<'_>) -> CommandResult {
    let wanted = parse(ctx)?;
    let sample = wanted.sample;
    if !ctx.engine.hotkeys.start(wanted, ctx.now_ms()) {
        return Err(RUNS_ALREADY.into());
    }
    ctx.engine.settings.timing.sample_hot_keys(sample);
    ctx.reply_ok()
}

fn parse(ctx: &Ctx<'_>) -> Result<Wanted, CommandError> {
    let mut wanted = Wanted { cpu: false, net: false, count: COUNT, sample: 1, duration_ms: 0, slots: None };
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
        } else if wanted.slots.is_none() && rest.take_with("SLOTS", 1) {
            if ctx.engine.cluster.is_none() {
                return Err(NO_SLOTS);
            }
            wanted.slots = Some(parse_slots(&mut rest)?);
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

/// `count slot [slot ...]`
fn parse_slots(rest: &mut RestOfArgs<'_>) -> Result<SlotSet, CommandError> {
    let count = usize::try_from(rest.next_int_or(BAD_SLOTS)?).ok();
    let count = count.filter(|count| (1..=rest.len()).contains(count)).ok_or(BAD_SLOTS)?;
    let mut slots = SlotSet::new();
    for _ in 0..count {
        let slot = u16::try_from(rest.next_int_or(BAD_SLOTS)?).ok().filter(|slot| *slot < SLOTS);
        slots.add(slot.ok_or(BAD_SLOTS)?);
    }
    Ok(slots)
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
    ctx.reply_ok()
}

/// `HOTKEYS GET`: an array with one map, as of one node; null if there was no session
pub(crate) fn hotkeys_get(ctx: &mut Ctx<'_>) -> CommandResult {
    let Some(found) = ctx.engine.hotkeys.found(ctx.now_ms()) else { return ctx.reply_null() };
    // The sample stands for all commands.
    let all = |sampled: u64| sampled.saturating_mul(found.wanted.sample.into()) as i64;
    let about = [("tracking-active", i64::from(found.is_active)), ("sample-ratio", found.wanted.sample.into())];
    let (us, bytes) = (found.us_in_slots, found.bytes_in_slots);
    let (has_slots, is_sample) = (found.wanted.slots.is_some(), found.wanted.sample > 1);
    let sums = [
        ("sampled-commands-selected-slots-us", has_slots && is_sample, us as i64),
        ("all-commands-selected-slots-us", has_slots, all(us)),
        ("all-commands-all-slots-us", true, all(found.total_us)),
        ("net-bytes-sampled-commands-selected-slots", has_slots && is_sample, bytes as i64),
        ("net-bytes-all-commands-selected-slots", has_slots, all(bytes)),
        ("net-bytes-all-commands-all-slots", true, all(found.total_bytes)),
        ("collection-start-time-unix-ms", true, found.started_ms),
        ("collection-duration-ms", true, found.duration_ms),
    ];
    let sums: Vec<_> = sums.into_iter().filter(|(_, is_told, _)| *is_told).map(|(name, _, sum)| (name, sum)).collect();
    let lists = [("by-cpu-time-us", found.wanted.cpu, found.by_us), ("by-net-bytes", found.wanted.net, found.by_bytes)];
    ctx.out.array(1);
    ctx.out.map(about.len() + 1 + sums.len() + lists.iter().filter(|(_, is_wanted, _)| *is_wanted).count());
    reply_numbers(ctx, &about);
    ctx.out.bulk(b"selected-slots");
    reply_slots(ctx, found.wanted.slots.as_ref());
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

/// Ranges of slots, each as its first and its last one; a slot by itself once.
fn reply_slots(ctx: &mut Ctx<'_>, slots: Option<&SlotSet>) {
    let ranges = slots.map_or_else(Vec::new, SlotSet::ranges);
    ctx.out.array(ranges.len());
    for range in ranges {
        let ends = [*range.start(), *range.end()];
        let ends = if range.len() == 1 { &ends[..1] } else { &ends[..] };
        ctx.out.array(ends.len());
        ends.iter().for_each(|slot| ctx.out.int((*slot).into()));
    }
}

fn reply_numbers(ctx: &mut Ctx<'_>, numbers: &[(&str, i64)]) {
    for (field, number) in numbers {
        ctx.out.int_field(field, *number);
    }
}

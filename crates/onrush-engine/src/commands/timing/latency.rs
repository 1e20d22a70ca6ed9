//! LATENCY: how long commands take, and which events took too long.

use std::fmt::Write;

use crate::command::Command;
use crate::commands::reply::Fields;
use crate::ctx::{CommandResult, Ctx, Engine};
use crate::error::CommandError;
use crate::observe::histogram::{CountBelow, Distribution};
use crate::observe::latency::{Event, Sample, Series};

/// `LATENCY LATEST`: the latest and the longest sample of each event
pub(crate) fn latency_latest(ctx: &mut Ctx<'_>) -> CommandResult {
    let events = ctx.engine.latency.all();
    ctx.out.array(events.len());
    for (event, series) in events {
        let last = series.samples.back().copied().unwrap_or(Sample { at_s: 0, took_ms: 0 });
        ctx.out.array(4);
        ctx.out.bulk(event.name().as_bytes());
        ctx.out.int(last.at_s);
        ctx.out.int(last.took_ms as i64);
        ctx.out.int(series.max_ms as i64);
    }
    Ok(())
}

/// `LATENCY HISTORY event`: its samples, the oldest first
pub(crate) fn latency_history(ctx: &mut Ctx<'_>) -> CommandResult {
    let series = series_of(ctx).unwrap_or_default();
    ctx.out.array(series.samples.len());
    for sample in series.samples {
        ctx.out.array(2);
        ctx.out.int(sample.at_s);
        ctx.out.int(sample.took_ms as i64);
    }
    Ok(())
}

fn series_of(ctx: &Ctx<'_>) -> Option<Series> {
    ctx.engine.latency.of(Event::named(ctx.arg(2))?)
}

/// `LATENCY RESET [event [event ...]]`: returns how many events there were
pub(crate) fn latency_reset(ctx: &mut Ctx<'_>) -> CommandResult {
    let events: Vec<Event> = match ctx.argc() {
        2 => Event::ALL.iter().map(|(_, event)| *event).collect(),
        _ => ctx.argv.iter().skip(2).filter_map(Event::named).collect(),
    };
    let reset = events.into_iter().filter(|event| ctx.engine.latency.reset(*event)).count();
    ctx.reply_int(reset as i64)
}

/// `LATENCY HISTOGRAM [command [command ...]]`: for each power of two of microseconds, how many calls took at most that
/// long
pub(crate) fn latency_histogram(ctx: &mut Ctx<'_>) -> CommandResult {
    let table = &ctx.engine.commands;
    let asked: Vec<&Command> = match ctx.argc() {
        2 => table.all().collect(),
        _ => ctx
            .argv
            .iter()
            .skip(2)
            .filter_map(|name| table.lookup_full(name))
            .flat_map(|c| family(ctx.engine, c))
            .collect(),
    };
    let timed: Vec<(&Command, Distribution)> = asked
        .into_iter()
        .map(|command| (command, ctx.engine.stats.latency(command.id)))
        .filter(|(_, times)| times.total > 0)
        .collect();
    ctx.out.map(timed.len());
    for (command, times) in timed {
        ctx.out.bulk(command.full_name.as_bytes());
        ctx.out.map(2);
        ctx.out.int_field("calls", times.total as i64);
        ctx.out.bulk(b"histogram_usec");
        let powers = times.by_powers();
        ctx.out.map(powers.len());
        for CountBelow { micros, times } in powers {
            ctx.out.int(micros as i64);
            ctx.out.int(times as i64);
        }
    }
    Ok(())
}

/// A command and its subcommands.
fn family<'e>(engine: &'e Engine, command: &'e Command) -> impl Iterator<Item = &'e Command> {
    std::iter::once(command).chain(command.subcommands().map(|id| engine.commands.command(id)))
}

/// `LATENCY GRAPH event`: its samples as columns, with their ages below
pub(crate) fn latency_graph(ctx: &mut Ctx<'_>) -> CommandResult {
    let Some(series) = series_of(ctx) else {
        return Err(CommandError::quoting("ERR No samples available for event '", ctx.arg(2), "'").into());
    };
    let name = String::from_utf8_lossy(ctx.arg(2)).into_owned();
    let text = draw(&name, &series, ctx.engine.clock.unix_us() / 1_000_000);
    ctx.reply_text(text.as_bytes())
}

/// Columns and lines of a graph.
const COLUMNS_MAX: usize = 80;
const ROWS: u64 = 8;

fn draw(name: &str, series: &Series, now_s: i64) -> String {
    let shown: Vec<Sample> = series.samples.iter().rev().take(COLUMNS_MAX).rev().copied().collect();
    let high = shown.iter().map(|sample| sample.took_ms).max().unwrap_or(0);
    let low = shown.iter().map(|sample| sample.took_ms).min().unwrap_or(0);
    let mut text = format!("{name} - high {high} ms, low {low} ms (all time high {} ms)\n", series.max_ms);
    text.push_str(&"-".repeat(COLUMNS_MAX));
    text.push('\n');
    for row in (0..ROWS).rev() {
        // Every column has the lowest row.
        let is_in = |sample: &Sample| row == 0 || sample.took_ms * ROWS >= high * (row + 1);
        push_line(&mut text, shown.iter().map(|sample| if is_in(sample) { '#' } else { ' ' }));
    }
    text.push('\n');
    let ages: Vec<String> = shown.iter().map(|sample| age(now_s - sample.at_s)).collect();
    for at in 0..ages.iter().map(String::len).max().unwrap_or(0) {
        push_line(&mut text, ages.iter().map(|age| age.chars().nth(at).unwrap_or(' ')));
    }
    text
}

fn push_line(text: &mut String, line: impl Iterator<Item = char>) {
    let line: String = line.collect();
    text.push_str(line.trim_end());
    text.push('\n');
}

/// Seconds in the largest unit of which there is at least one.
fn age(seconds: i64) -> String {
    const UNITS: [(i64, char); 3] = [(86_400, 'd'), (3_600, 'h'), (60, 'm')];
    let seconds = seconds.max(0);
    match UNITS.iter().find(|(len, _)| seconds >= *len) {
        Some((len, unit)) => format!("{}{unit}", seconds / len),
        None => format!("{seconds}s"),
    }
}

/// `LATENCY DOCTOR`: what was slow, and how to avoid it
pub(crate) fn latency_doctor(ctx: &mut Ctx<'_>) -> CommandResult {
    let text = diagnose(&ctx.engine.latency.all(), ctx.engine.settings.timing.latency_threshold_ms());
    ctx.reply_text(text.as_bytes())
}

fn diagnose(events: &[(Event, Series)], threshold_ms: Option<u64>) -> String {
    if events.is_empty() {
        return match threshold_ms {
            None => "Latency is not monitored. CONFIG SET latency-monitor-threshold <milliseconds> begins it.\n".into(),
            Some(ms) => {
                format!("Nothing has taken {ms} ms or more since the latency monitor was turned on or reset.\n")
            }
        };
    }
    let mut text = String::new();
    for (event, series) in events {
        // Writing to a `String` does not fail.
        let _ = writeln!(text, "{}", summary(*event, series));
    }
    text.push('\n');
    for (event, _) in events {
        let _ = writeln!(text, "- {}", advice(*event));
    }
    text
}

fn summary(event: Event, series: &Series) -> String {
    let len = series.samples.len().max(1) as u64;
    let mean = series.samples.iter().map(|sample| sample.took_ms).sum::<u64>() / len;
    let deviation = series.samples.iter().map(|sample| sample.took_ms.abs_diff(mean)).sum::<u64>() / len;
    let ends = (series.samples.front(), series.samples.back());
    let span_s = ends.0.zip(ends.1).map_or(0, |(first, last)| last.at_s - first.at_s);
    let period = if len > 1 { format!(", one every {:.1} s", span_s as f64 / (len - 1) as f64) } else { String::new() };
    let spikes = if len == 1 { "1 spike".to_owned() } else { format!("{len} spikes") };
    format!(
        "{}: {spikes}{period}; {mean} ms on average with a mean deviation of {deviation} ms; at worst {} ms.",
        event.name(),
        series.max_ms
    )
}

fn advice(event: Event) -> &'static str {
    match event {
        Event::Command => {
            "Commands that go through many elements were slow. SLOWLOG GET tells which, if slowlog-log-slower-than is low \
             enough. Ask for less at once: SCAN for KEYS, ranges for whole collections."
        }
        Event::FastCommand => {
            "Commands that should take microseconds were slow: the machine was busy with something else, memory was swapped \
             out, or values are very large. SLOWLOG GET names the commands; look at the load and the swap of the machine."
        }
        Event::EvictionCycle => {
            "Evicting took long. A lower maxmemory-eviction-tenacity makes a run shorter; lazyfree-lazy-eviction frees large \
             values in the background."
        }
        Event::ExpireCycle => {
            "Expiring took long: many keys expire at the same moment. Spread their times a little. Clients do not wait for \
             this, unless they want the keys of a shard that is being cleaned."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(samples: &[(i64, u64)]) -> Series {
        let samples = samples.iter().map(|&(at_s, took_ms)| Sample { at_s, took_ms });
        Series { samples: samples.collect(), max_ms: 500 }
    }

    #[test]
    fn a_graph_has_a_column_for_each_sample() {
        let text = draw("command", &series(&[(0, 100), (3_600, 200), (3_690, 400), (3_695, 50)]), 3_700);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "command - high 400 ms, low 50 ms (all time high 500 ms)");
        assert_eq!(lines[2..10], ["  #", "  #", "  #", "  #", " ##", " ##", "###", "####"]);
        assert_eq!(lines[11..], ["1115", "hm0s", "  s"]);
    }

    #[test]
    fn ages_are_told_in_the_largest_unit() {
        let told = [0, 59, 60, 3_599, 3_600, 86_400, 10 * 86_400, -5].map(age);
        assert_eq!(told, ["0s", "59s", "1m", "59m", "1h", "1d", "10d", "0s"]);
    }

    #[test]
    fn the_doctor_says_what_was_slow_and_what_to_do() {
        assert!(diagnose(&[], None).starts_with("Latency is not monitored."));
        assert!(diagnose(&[], Some(7)).starts_with("Nothing has taken 7 ms or more"));
        let events = [(Event::Command, series(&[(10, 100), (20, 300)])), (Event::ExpireCycle, series(&[(5, 40)]))];
        let text = diagnose(&events, Some(7));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..2],
            [
                "command: 2 spikes, one every 10.0 s; 200 ms on average with a mean deviation of 100 ms; at worst 500 ms.",
                "expire-cycle: 1 spike; 40 ms on average with a mean deviation of 0 ms; at worst 500 ms.",
            ]
        );
        assert!(lines[3].starts_with("- Commands that go") && lines[4].starts_with("- Expiring took long"), "{text}");
    }
}

//! The server as a whole: its clock, its end, and LOLWUT.

pub(crate) mod command;
pub(crate) mod config;
pub(crate) mod debug;
pub(crate) mod info;
pub(crate) mod memory;
pub mod metrics;
pub(crate) mod modules;
pub(crate) mod persistence;
pub(crate) mod replicas;
pub(crate) mod replication;
pub(crate) mod replication_specs;
pub(crate) mod specs;

use std::fmt::Write;

use onrush_resp::{REDIS_VERSION, parse_i64};

use crate::clients::session::States;
use crate::commands::server::persistence::save_at_end;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError};
use crate::messages::monitors::Monitor;
use crate::process::SHUTDOWN_FAILED;

const NOT_IN_LOG: CommandError = CommandError::fixed("ERR SHUTDOWN is not allowed in a log of commands");
const NO_SHUTDOWN: CommandError = CommandError::fixed("ERR No shutdown in progress.");

/// `TIME`: Unix seconds and the microseconds in the present second
pub(crate) fn time(ctx: &mut Ctx<'_>) -> CommandResult {
    let now_us = ctx.engine.clock.unix_us();
    ctx.out.array(2);
    ctx.out.bulk_int(now_us / 1_000_000);
    ctx.out.bulk_int(now_us % 1_000_000);
    Ok(())
}

/// `MONITOR`: a second MONITOR has no reply
pub(crate) fn monitor(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.session.deny_blocking {
        return Err(NO_MONITOR.into());
    }
    if ctx.session.monitor.is_none() {
        ctx.session.monitor = Some(Box::new(Monitor::new(&ctx.engine.messages.monitors, &ctx.session.handle)));
        ctx.session.note_subscriptions();
        ctx.out.ok();
    }
    Ok(())
}

const NO_MONITOR: CommandError = CommandError::fixed("ERR MONITOR isn't allowed for DENY BLOCKING client");

/// Options of SHUTDOWN.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shutdown {
    save: bool,
    nosave: bool,
    now: bool,
    force: bool,
    abort: bool,
}

impl Shutdown {
    fn read<'a>(words: impl Iterator<Item = &'a [u8]>) -> Result<Self, CommandError> {
        let mut options = Self::default();
        for word in words {
            let option = match word.to_ascii_lowercase().as_slice() {
                b"save" => &mut options.save,
                b"nosave" => &mut options.nosave,
                b"now" => &mut options.now,
                b"force" => &mut options.force,
                b"abort" => &mut options.abort,
                _ => return Err(error::SYNTAX),
            };
            *option = true;
        }
        let any = options.save || options.nosave || options.now || options.force;
        if (options.abort && any) || (options.save && options.nosave) {
            return Err(error::SYNTAX);
        }
        Ok(options)
    }
}

/// `SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]`: no reply when it succeeds, the connection ends with the server
pub(crate) fn shutdown(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.session.is_replay {
        return Err(NOT_IN_LOG.into());
    }
    let options = Shutdown::read(ctx.argv.iter().skip(1))?;
    if options.abort {
        if !ctx.engine.process.abort_end() {
            return Err(NO_SHUTDOWN.into());
        }
        return ctx.reply_ok();
    }
    if !options.force
        && let Some(reason) = ctx.engine.process.must_not_end()
    {
        tracing::error!("{reason}");
        return Err(SHUTDOWN_FAILED.into());
    }
    if !options.nosave && !ctx.commit.has_entered() {
        return Err(ctx.engine.busy_refusal().into());
    }
    if !options.now && ctx.commit.has_entered() && is_any_replica_behind(ctx) {
        return end_with_replicas(ctx, &options);
    }
    let saves = options.save || !options.nosave && ctx.engine.process.saves_at_end();
    if saves && !ctx.engine.loading.is_on() {
        let is_saved = save_at_end(ctx)?;
        if is_saved {
            tracing::warn!("User requested shutdown...");
            ctx.engine.process.end();
        } else if !options.force {
            tracing::error!("Error trying to save the DB, can't exit.");
            return Err(SHUTDOWN_FAILED.into());
        }
    }
    ctx.session.states.insert(States::CLOSES);
    ctx.engine.process.shut_down();
    Ok(())
}

/// Whether the end has to wait for a replica.
fn is_any_replica_behind(ctx: &mut Ctx<'_>) -> bool {
    let engine = ctx.engine;
    if !engine.process.waits_at_end() || engine.replication.attached.all().is_empty() {
        return false;
    }
    ctx.commit.submit();
    engine.log.flush();
    engine.replication.attached.is_any_behind(engine.replication.history.position().offset)
}

/// Ends the process once replicas have all. Writes are held back meanwhile, and SHUTDOWN ABORT ends the waiting.
fn end_with_replicas(ctx: &mut Ctx<'_>, options: &Shutdown) -> CommandResult {
    let words = [("save", options.save), ("nosave", options.nosave), ("force", options.force)];
    let words = words.into_iter().filter_map(|(word, is_there)| is_there.then_some(word)).collect();
    if let Some(done) = ctx.reply_later()? {
        ctx.engine.process.end_with_replicas(words, done);
    }
    Ok(())
}

/// Bounds of what LOLWUT draws, in characters and lines.
const LOLWUT_COLUMNS_MAX: i64 = 1000;
const LOLWUT_ROWS_MAX: i64 = 200;

/// `LOLWUT [VERSION version [columns [rows [waves]]]]`: draws waves for the versions that draw in Redis
pub(crate) fn lolwut(ctx: &mut Ctx<'_>) -> CommandResult {
    let mut text = String::new();
    if ctx.argc() > 2 && ctx.is(1, "VERSION") && matches!(ctx.int(2)?, 5 | 6) {
        let number = |index: usize, default: i64, max: i64| match index < ctx.argc() {
            true => parse_i64(ctx.arg(index)).map(|n| n.clamp(1, max) as usize).ok_or(error::NOT_INTEGER),
            false => Ok(default as usize),
        };
        let columns = number(3, 66, LOLWUT_COLUMNS_MAX)?;
        let rows = number(4, 12, LOLWUT_ROWS_MAX)?;
        let waves = number(5, 5, 20)?;
        text = draw_waves(columns, rows, waves, ctx.engine.draw_seed());
        text.push('\n');
    }
    let _ = writeln!(text, "Redis ver. {REDIS_VERSION} (Onrush {})", env!("CARGO_PKG_VERSION"));
    ctx.reply_text(text.as_bytes())
}

/// Draws waves of random lengths and heights in braille characters, each of which holds two by four dots.
fn draw_waves(columns: usize, rows: usize, waves: usize, seed: u64) -> String {
    let (width, height) = (columns * 2, rows * 4);
    let mut dots = vec![0u8; columns * rows];
    for wave in 0..waves as u64 {
        let random = (seed ^ wave).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
        let share = |shift: u32| f64::from((random >> shift) as u8) / 256.0;
        let length = 20.0 + 80.0 * share(0);
        let amplitude = height as f64 * (0.1 + 0.35 * share(8));
        let phase = std::f64::consts::TAU * share(16);
        for x in 0..width {
            let angle = std::f64::consts::TAU * x as f64 / length + phase;
            let y = height as f64 / 2.0 + amplitude * angle.sin();
            let y = (y as usize).min(height - 1);
            dots[y / 4 * columns + x / 2] |= braille_dot(x % 2, y % 4);
        }
    }
    let mut text = String::with_capacity(dots.len() * 3 + rows);
    for row in dots.chunks(columns) {
        text.extend(row.iter().map(|&dots| char::from_u32(0x2800 + u32::from(dots)).unwrap_or(' ')));
        text.push('\n');
    }
    text
}

/// The bit of a dot in a braille character of Unicode: the lower row came later and has the highest bits.
fn braille_dot(column: usize, row: usize) -> u8 {
    [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]][column][row]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &str) -> Result<Shutdown, CommandError> {
        Shutdown::read(words.split_whitespace().map(str::as_bytes))
    }

    #[test]
    fn options_of_shutdown_exclude_one_another_as_in_redis() {
        assert_eq!(options(""), Ok(Shutdown::default()));
        let all = Shutdown { nosave: true, now: true, force: true, ..Shutdown::default() };
        assert_eq!(options("NoSave now FORCE"), Ok(all));
        assert_eq!(options("abort ABORT"), Ok(Shutdown { abort: true, ..Shutdown::default() }));
        for words in ["save nosave", "abort now", "nosave abort", "later"] {
            assert_eq!(options(words), Err(error::SYNTAX), "{words}");
        }
    }

    #[test]
    fn a_drawing_has_the_size_asked_for() {
        for (columns, rows) in [(1, 1), (66, 12), (5, 200)] {
            let text = draw_waves(columns, rows, 3, 42);
            assert_eq!(text.lines().count(), rows);
            assert!(text.lines().all(|line| line.chars().count() == columns));
            assert!(text.chars().any(|dots| dots > '\u{2800}'));
        }
    }
}

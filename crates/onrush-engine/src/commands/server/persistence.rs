//! SAVE, BGSAVE, LASTSAVE, BGREWRITEAOF: saving the data.

use std::sync::Arc;

use crate::blocking::waiter::OnTimeout;
use crate::commands::keys::flush::outdate_all;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError, Stop};
use crate::lazyfree::Garbage;
use crate::loading::Present;
use crate::process::NotBegun;
use crate::snapshot::Underway;
use crate::snapshot::output::{NoResult, Purpose};
use crate::snapshot::run::{At, begin, run};

const IN_PROGRESS: CommandError = CommandError::fixed("ERR Background save already in progress");
const LOG_IS_REWRITTEN: CommandError = CommandError::fixed(
    "ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to schedule \
     a BGSAVE whenever possible.",
);
const REWRITE_IN_PROGRESS: CommandError =
    CommandError::fixed("ERR Background append only file rewriting already in progress");
const NO_REWRITE: CommandError = CommandError::fixed(
    "ERR Can't execute an AOF background rewriting. Please check the server logs for more information.",
);
const DOES_NOT_END: CommandError =
    CommandError::fixed("ERR a background save is in progress and does not end: its disk does not answer");
const NOT_LOADED: CommandError = CommandError::fixed("ERR Error trying to load the RDB dump, check server logs.");
const LOG_NOT_LOADED: CommandError = CommandError::fixed("ERR Error trying to load the AOF files, check server logs.");
const BAD_RELOAD: CommandError =
    CommandError::fixed("ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.");
const NOT_INSIDE: CommandError =
    CommandError::fixed("ERR DEBUG LOADAOF and DEBUG RELOAD replace all data, which no transaction can contain");
const FAILED: CommandError = CommandError::fixed("ERR");
const REWRITE_SCHEDULED: &str = "Background append only file rewriting scheduled";

/// `LASTSAVE`: when the data was last saved; before that, when the server started
pub(crate) fn lastsave(ctx: &mut Ctx<'_>) -> CommandResult {
    let saved_at_s = ctx.engine.snapshots.facts().saved_at_s;
    ctx.reply_int(if saved_at_s > 0 { saved_at_s } else { ctx.engine.started_unix_s() })
}

/// `SAVE`: other clients are served meanwhile
pub(crate) fn save(ctx: &mut Ctx<'_>) -> CommandResult {
    refuse_second(ctx)?;
    // It takes long, so no worker must execute it.
    ctx.leave_worker()?;
    let underway = cut(ctx, Purpose::File, false)?;
    ctx.commit.leave();
    let thread = ctx.thread;
    let result = run(ctx.engine, &underway, At::Gate(thread));
    ctx.commit.enter();
    result.map_err(|_| FAILED)?;
    ctx.reply_ok()
}

/// `BGSAVE [SCHEDULE]`
pub(crate) fn bgsave(ctx: &mut Ctx<'_>) -> CommandResult {
    let schedules = ctx.argc() == 2 && ctx.is(1, "SCHEDULE");
    if ctx.argc() > 2 || ctx.argc() == 2 && !schedules {
        return Err(error::SYNTAX.into());
    }
    let runs = ctx.engine.snapshots.underway().map(|underway| underway.purpose);
    // A snapshot in the middle of a transaction would save a part of it.
    let waits = schedules && runs == Some(Purpose::LogBase) || runs == Some(Purpose::Slots);
    if ctx.commit.is_nested() && runs != Some(Purpose::File) || waits {
        ctx.engine.snapshots.schedule(Purpose::File);
        return ctx.reply_simple("Background saving scheduled");
    }
    refuse_second(ctx)?;
    begin_in_background(ctx, Purpose::File, "Background saving started")
}

/// Refuses a snapshot while another one is under way.
fn refuse_second(ctx: &Ctx<'_>) -> CommandResult {
    ctx.engine.snapshots.underway().map_or(Ok(()), |underway| Err(refusal(Purpose::File, underway.purpose).into()))
}

/// The error of a snapshot for `wanted` beside one for `runs`.
fn refusal(wanted: Purpose, runs: Purpose) -> CommandError {
    match (wanted, runs) {
        (Purpose::LogBase, _) => REWRITE_IN_PROGRESS,
        (Purpose::File, Purpose::File | Purpose::Replicas | Purpose::Slots)
        | (Purpose::Replicas | Purpose::Slots, _) => IN_PROGRESS,
        (Purpose::File, Purpose::LogBase) => LOG_IS_REWRITTEN,
    }
}

/// The error of a snapshot that cannot be written.
fn failure(purpose: Purpose) -> CommandError {
    if purpose == Purpose::File { FAILED } else { NO_REWRITE }
}

/// `BGREWRITEAOF`: without an append-only file it writes the base of one, which counts at a start with one
pub(crate) fn bgrewriteaof(ctx: &mut Ctx<'_>) -> CommandResult {
    let runs = ctx.engine.snapshots.underway().map(|underway| underway.purpose);
    if runs == Some(Purpose::LogBase) {
        return Err(REWRITE_IN_PROGRESS.into());
    }
    if runs.is_some() || ctx.commit.is_nested() {
        ctx.engine.snapshots.schedule(Purpose::LogBase);
        return ctx.reply_simple(REWRITE_SCHEDULED);
    }
    begin_in_background(ctx, Purpose::LogBase, "Background append only file rewriting started")
}

/// Begins a snapshot that the thread for snapshots goes on with. Making its file may wait for the disk, so another thread does
/// it, and only the client waits for the reply.
fn begin_in_background(ctx: &mut Ctx<'_>, purpose: Purpose, started: &'static str) -> CommandResult {
    let engine = ctx.engine;
    let begun = move || {
        if purpose == Purpose::File {
            engine.snapshots.note(|facts| facts.tried_at_s = engine.clock.unix_ms() / 1000);
        }
        tracing::info!("{started}");
    };
    if engine.process.begins_snapshots() && !ctx.session.deny_blocking {
        let Some(waiter) = ctx.block_without_keys(None, OnTimeout::Never)? else { return Ok(()) };
        let done = move |result: Result<(), NotBegun>| {
            result.is_ok().then(begun);
            waiter.finish(engine, |out| match result {
                Ok(()) => out.simple(started),
                Err(NotBegun::Second(Purpose::File | Purpose::Replicas | Purpose::Slots))
                    if purpose == Purpose::LogBase =>
                {
                    engine.snapshots.schedule(purpose);
                    out.simple(REWRITE_SCHEDULED);
                }
                Err(NotBegun::Second(runs)) => out.error_bytes(refusal(purpose, runs).as_bytes()),
                Err(NotBegun::Busy) => out.error_bytes(engine.busy_refusal().as_bytes()),
                Err(NotBegun::Failed) => out.error_bytes(failure(purpose).as_bytes()),
            });
        };
        engine.process.begin_snapshot(purpose, Box::new(done));
        return Ok(());
    }
    ctx.leave_worker()?;
    cut(ctx, purpose, true)?;
    begun();
    ctx.reply_simple(started)
}

/// Begins a snapshot.
fn cut(ctx: &mut Ctx<'_>, purpose: Purpose, waits: bool) -> Result<Arc<Underway>, Stop> {
    let output = match ctx.engine.process.create_snapshot(purpose) {
        Ok(output) => output,
        Err(error) => {
            tracing::error!("Can't create a file for a snapshot: {error}");
            if purpose == Purpose::File {
                ctx.engine.snapshots.note(|facts| facts.failure = Some(error.to_string()));
            }
            return Err(failure(purpose).into());
        }
    };
    if let Err(refused) = ctx.commit.lock_keyspace() {
        output.abandon(&NoResult::Unwanted("the keyspace is busy".to_owned()));
        return Err(refused.into());
    }
    let underway = begin(ctx.engine, output, purpose, waits).ok_or(IN_PROGRESS)?;
    ctx.commit.look_for_log();
    Ok(underway)
}

/// As [`save_all`], because the process ends.
pub(crate) fn save_at_end(ctx: &mut Ctx<'_>) -> Result<bool, Stop> {
    ctx.leave_worker()?;
    lock_without_snapshot(ctx, "the server ends")?;
    ctx.engine.process.note_closing(true);
    let saved = save_locked(ctx);
    if saved != Ok(true) {
        ctx.engine.process.note_closing(false);
    }
    saved
}

/// Saves all data, and keeps the whole keyspace locked from then on; returns whether it is saved. Ends the snapshot that is
/// under way, if any. Runs on the thread for long commands, if there is one.
fn save_all(ctx: &mut Ctx<'_>, why: &str) -> Result<bool, Stop> {
    ctx.leave_worker()?;
    lock_without_snapshot(ctx, why)?;
    save_locked(ctx)
}

fn save_locked(ctx: &mut Ctx<'_>) -> Result<bool, Stop> {
    let underway = match cut(ctx, Purpose::File, false) {
        Ok(underway) => underway,
        Err(Stop::Error(_)) => return Ok(false),
        Err(stop) => return Err(stop),
    };
    Ok(run(ctx.engine, &underway, At::Alone).is_ok())
}

/// Locks the whole keyspace while no snapshot is under way.
fn lock_without_snapshot(ctx: &mut Ctx<'_>, why: &str) -> CommandResult {
    loop {
        if ctx.engine.snapshots.underway().is_some() {
            ctx.commit.leave();
            let has_ended = ctx.engine.snapshots.abort_and_wait(why);
            ctx.commit.enter();
            if !has_ended {
                return Err(DOES_NOT_END.into());
            }
        }
        ctx.commit.lock_keyspace()?;
        // Another thread may have begun one meanwhile.
        if ctx.engine.snapshots.underway().is_none() {
            return Ok(());
        }
    }
}

/// The options of DEBUG RELOAD.
struct Reload {
    saves: bool,
    flushes: bool,
    present: Present,
}

impl Reload {
    fn parse(ctx: &Ctx<'_>) -> Result<Self, CommandError> {
        let mut options = Self { saves: true, flushes: true, present: Present::Refused };
        for index in 2..ctx.argc() {
            if ctx.is(index, "NOSAVE") {
                options.saves = false;
            } else if ctx.is(index, "NOFLUSH") {
                options.flushes = false;
            } else if ctx.is(index, "MERGE") {
                options.present = Present::Replaced;
            } else {
                return Err(BAD_RELOAD);
            }
        }
        Ok(options)
    }
}

/// `DEBUG RELOAD [NOSAVE] [NOFLUSH] [MERGE]`: saves the data, deletes it and loads it, with the whole keyspace locked.
/// NOFLUSH deletes nothing: a key that is also in the file is then an error, or with MERGE gets its value from the file.
pub(crate) fn reload(ctx: &mut Ctx<'_>) -> CommandResult {
    const WHY: &str = "the data is loaded anew";
    refuse_inside(ctx)?;
    let Reload { saves, flushes, present } = Reload::parse(ctx)?;
    if saves && !save_all(ctx, WHY)? {
        return Err(FAILED.into());
    }
    ctx.leave_worker()?;
    // Between what was saved and what is loaded nobody may write: the keyspace stays locked.
    match flushes {
        _ if saves => {}
        true => ctx.commit.lock_keyspace()?,
        // Loading does not save an entry for a snapshot before it replaces the entry.
        false => lock_without_snapshot(ctx, WHY)?,
    }
    // The data must not be deleted for a file that is missing or damaged.
    if let Err(reason) = ctx.engine.process.check_snapshot() {
        return reloaded(ctx, Err(reason), NOT_LOADED);
    }
    outdate_all(ctx);
    if flushes {
        for db in 0..ctx.engine.keyspace.databases() as u32 {
            let (_, cleared) = ctx.commit.clear(db);
            ctx.commit.discard(Some(Garbage::Tables(cleared)));
        }
        ctx.engine.scripts.libraries.clear();
    }
    let loaded = ctx.engine.process.load_snapshot(present);
    if !saves && loaded.is_ok() && ctx.engine.process.log_facts().is_on {
        // The append-only file has the data from before.
        ctx.engine.snapshots.schedule(Purpose::LogBase);
    }
    reloaded(ctx, loaded, NOT_LOADED)
}

/// `DEBUG LOADAOF`: deletes all data and loads the append-only file, while clients get LOADING errors
pub(crate) fn load_log(ctx: &mut Ctx<'_>) -> CommandResult {
    refuse_inside(ctx)?;
    ctx.leave_worker()?;
    ctx.commit.lock_keyspace()?;
    outdate_all(ctx);
    ctx.commit.leave();
    let loaded = ctx.engine.process.reload_log();
    ctx.commit.enter();
    ctx.commit.look_for_log();
    // Nobody was served meanwhile, see `serve_key`.
    ctx.all_are_ready();
    reloaded(ctx, loaded, LOG_NOT_LOADED)
}

/// Refuses to load data in the middle of a transaction: its other commands would be about other data, and its locks go
/// back meanwhile.
fn refuse_inside(ctx: &Ctx<'_>) -> CommandResult {
    if ctx.commit.is_nested() { Err(NOT_INSIDE.into()) } else { Ok(()) }
}

fn reloaded(ctx: &mut Ctx<'_>, loaded: Result<(), String>, error: CommandError) -> CommandResult {
    if let Err(reason) = loaded {
        tracing::error!("Can't load the data: {reason}");
        return Err(error.into());
    }
    ctx.reply_ok()
}

//! Commands about slots that move as a whole, as Valkey 9 documents them, and what the source of such a move says to its
//! target (`SYNCSLOTS`), which is Onrush's own.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use onrush_cluster::slots::SlotSet;
use onrush_persist::threads;

use crate::blocking::waiter::{OnTimeout, Waiter};
use crate::clients::session::States;
use crate::cluster::facts::Facts;
use crate::cluster::moves::import::{Importing, tell_marks, write_marks};
use crate::cluster::moves::job::{Job, Side};
use crate::commands::cluster::change::{reply_when_done, slot_range, text};
use crate::commands::cluster::cluster;
use crate::commands::reply::Fields;
use crate::ctx::{CommandResult, Ctx, Engine};
use crate::error::{self, CommandError};

const NO_MOVE: CommandError = CommandError::fixed("ERR no slots come over this connection");
const TOO_LATE: &str = "ERR the source may not wait for this any more";
const NO_FILE: CommandError = CommandError::fixed("ERR this node can't write its file of nodes");
const HANDED_OVER: CommandError = CommandError::fixed("ERR The target of a migration is taking over: it goes on");
const FAILED: CommandError = CommandError::fixed("ERR the migration has failed");

/// A move to here waits so long until replicas can be told of it.
const TELL_MAX: Duration = Duration::from_secs(1);

/// Between two looks whether they can.
const LOOK: Duration = Duration::from_millis(1);

fn now_s(ctx: &Ctx<'_>) -> i64 {
    ctx.engine.clock.unix_ms() / 1000
}

/// Slots of `start end` pairs from an argument on, up to `NODE` or the end; returns where that is.
fn ranges(ctx: &Ctx<'_>, mut at: usize, slots: &mut SlotSet) -> Result<usize, CommandError> {
    let first_at = at;
    while at + 1 < ctx.argc() && !ctx.is(at, "NODE") {
        for slot in slot_range(ctx, at)? {
            if slots.has(slot) {
                return Err(CommandError::text(format!("ERR Slot {slot} specified multiple times")));
            }
            slots.add(slot);
        }
        at += 2;
    }
    if at == first_at { Err(error::SYNTAX) } else { Ok(at) }
}

/// `CLUSTER MIGRATESLOTS SLOTSRANGE start end [start end ...] NODE node-id [SLOTSRANGE … NODE … …]`
pub(crate) fn migrateslots(ctx: &mut Ctx<'_>) -> CommandResult {
    let clustering = cluster(ctx)?;
    let mut wanted: Vec<(SlotSet, String)> = Vec::new();
    let mut at = 2;
    while at < ctx.argc() {
        if !ctx.is(at, "SLOTSRANGE") {
            return Err(error::SYNTAX.into());
        }
        let mut slots = SlotSet::new();
        at = ranges(ctx, at + 1, &mut slots)?;
        if at + 1 >= ctx.argc() || !ctx.is(at, "NODE") {
            return Err(error::SYNTAX.into());
        }
        wanted.push((slots, text(ctx.arg(at + 1))));
        at += 2;
    }
    let state = clustering.node.lock()?;
    let source = state.cluster.my_id().to_string();
    for (slots, target) in &wanted {
        let slots: Vec<u16> = slots.iter().collect();
        state.cluster.check_export(&slots, target).map_err(CommandError::text)?;
    }
    drop(state);
    let job = |(slots, target): (SlotSet, String)| {
        Job::new(ctx.engine.new_replid(), Side::Export, slots, &source, &target, now_s(ctx))
    };
    let jobs = wanted.into_iter().map(job).collect();
    clustering.moves.add(jobs).map_err(CommandError::text)?;
    ctx.reply_ok()
}

/// `CLUSTER CANCELSLOTMIGRATIONS`
pub(crate) fn cancelslotmigrations(ctx: &mut Ctx<'_>) -> CommandResult {
    match cluster(ctx)?.moves.cancel_exports(now_s(ctx)) {
        0 => ctx.out.ok(),
        // One is sent at a time.
        _ => return Err(HANDED_OVER.into()),
    }
    Ok(())
}

/// `CLUSTER GETSLOTMIGRATIONS`
pub(crate) fn getslotmigrations(ctx: &mut Ctx<'_>) -> CommandResult {
    let jobs = cluster(ctx)?.moves.all();
    ctx.out.array(jobs.len());
    for job in jobs.iter().rev() {
        let operation = match job.side {
            Side::Export => "EXPORT",
            Side::Import => "IMPORT",
        };
        let out = &mut *ctx.out;
        out.map(11);
        out.bulk_field("name", &job.name);
        out.bulk_field("operation", operation);
        out.bulk_field("slot_ranges", job.ranges());
        out.bulk_field("target_node", &job.target);
        out.bulk_field("source_node", &job.source);
        out.int_field("create_time", job.created_s);
        out.int_field("last_update_time", job.updated_s);
        out.int_field("last_ack_time", job.heard_s);
        out.bulk_field("state", job.stage.name());
        out.bulk_field("message", &job.message);
        // Nothing is forked: no page is copied.
        out.int_field("cow_size", 0);
    }
    Ok(())
}

/// `CLUSTER SYNCSLOTS ESTABLISH name node-id start end [start end ...] | ALIVE | PREPARE | TAKE milliseconds epoch`
pub(crate) fn syncslots(ctx: &mut Ctx<'_>) -> CommandResult {
    cluster(ctx)?;
    if ctx.commit.is_nested() || ctx.session.deny_blocking {
        return Err(error::SYNTAX.into());
    }
    if ctx.is(2, "ESTABLISH") && ctx.argc() >= 7 {
        return establish(ctx);
    }
    if ctx.argc() != 3 + 2 * usize::from(ctx.is(2, "TAKE")) {
        return Err(error::SYNTAX.into());
    }
    let imports = ctx.session.imports.as_ref().ok_or(NO_MOVE)?;
    if imports.has_failed() {
        // What has come is deleted when the connection is closed: nothing can come after that.
        ctx.session.states.insert(States::CLOSES);
        return Err(FAILED.into());
    }
    imports.note_heard();
    if ctx.is(2, "ALIVE") {
        ctx.out.simple("ALIVE");
    } else if (ctx.is(2, "PREPARE") || ctx.is(2, "TAKE")) && cluster(ctx)?.is_file_failing.load(Relaxed) {
        // The slots would be nobody's until it is written.
        return Err(NO_FILE.into());
    } else if ctx.is(2, "PREPARE") {
        // All commands before this one are executed.
        if let Some(imports) = &mut ctx.session.imports {
            imports.prepare();
        }
        ctx.out.simple("PREPARED");
    } else if ctx.is(2, "TAKE") {
        return take(ctx);
    } else {
        return Err(error::SYNTAX.into());
    }
    Ok(())
}

fn establish(ctx: &mut Ctx<'_>) -> CommandResult {
    let clustering = cluster(ctx)?;
    if ctx.session.imports.is_some() {
        return Err(error::SYNTAX.into());
    }
    let (name, source) = (text(ctx.arg(3)), text(ctx.arg(4)));
    let mut slots = SlotSet::new();
    if ranges(ctx, 5, &mut slots)? != ctx.argc() {
        return Err(error::SYNTAX.into());
    }
    let list: Vec<u16> = slots.iter().collect();
    clustering.node.lock()?.cluster.check_import(&list, &source).map_err(CommandError::text)?;
    let client = ctx.session.handle.id;
    let importing = Importing::begin(ctx.engine, client, &name, &source, slots).map_err(CommandError::text)?;
    let (engine, failure) = (ctx.engine, importing.failure());
    ctx.session.imports = Some(Box::new(importing));
    let Some(waiter) = ctx.block_without_keys(None, OnTimeout::Never)? else { return Ok(()) };
    let (told, other) = (Arc::clone(&waiter), Arc::clone(&failure));
    // This waits for the disk, and until replicas know it before the first key.
    let started = threads::start("slot-marks", move || {
        let noted = write_marks(engine).and_then(|()| tell_replicas(engine));
        end_establish(engine, &told, &other, noted);
    });
    if let Err(error) = started {
        end_establish(engine, &waiter, &failure, Err(error));
    }
    Ok(())
}

/// Tells replicas what comes, before it does.
///
/// # Errors
/// A replica takes over, and for that the stream stays as it is.
fn tell_replicas(engine: &Engine) -> io::Result<()> {
    let began = Instant::now();
    while engine.settings.is_stream_held() {
        if began.elapsed() > TELL_MAX {
            return Err(io::Error::other("writes are held back, and replicas can't be told"));
        }
        std::thread::sleep(LOOK);
    }
    tell_marks(engine);
    Ok(())
}

fn end_establish(engine: &'static Engine, waiter: &Arc<Waiter>, failure: &AtomicBool, noted: io::Result<()>) {
    failure.fetch_or(noted.is_err(), Relaxed);
    waiter.finish(engine, |out| match &noted {
        // The source does not look at OK.
        Ok(()) => out.simple("ESTABLISHED"),
        Err(error) => out.error_bytes(format!("ERR the target can't note what comes: {error}").as_bytes()),
    });
}

/// The slots are this node's from here on. The reply comes when that is saved and holds. `milliseconds`: how long after PREPARE
/// the source still waits for this, and as long again; `epoch`: this node's from then on. With TRYAGAIN nothing has changed.
fn take(ctx: &mut Ctx<'_>) -> CommandResult {
    let number = |index| u64::try_from(ctx.int(index)?).map_err(|_| error::NOT_INTEGER);
    let (waits_ms, epoch) = (number(3)?, number(4)?);
    let node = &cluster(ctx)?.node;
    let facts = Facts(ctx.engine);
    let mut state = node.lock()?;
    let Some(importing) = &ctx.session.imports else { return Err(NO_MOVE.into()) };
    let in_time = importing.may_take(Duration::from_millis(state.cluster.options().node_timeout_ms.min(waits_ms)));
    let slots: Vec<u16> = importing.slots.iter().collect();
    let taken = match in_time {
        true => state.cluster.take_slots(&slots, &importing.source, epoch, facts.now(), &facts),
        false => Err(TOO_LATE.to_owned()),
    };
    if let Err(why) = &taken
        && why.starts_with("TRYAGAIN")
    {
        return Err(CommandError::text(why.clone()).into());
    }
    let Some(importing) = ctx.session.imports.take() else { return Err(NO_MOVE.into()) };
    if let Err(why) = taken {
        // With the end of this the move has failed.
        drop(state);
        return Err(CommandError::text(why).into());
    }
    reply_when_done(ctx, node, state, "TAKEN".to_owned(), move || importing.is_taken())
}

//! Commands that change what this node knows of the cluster. Each replies when the change is saved and holds, and so does
//! EXEC with such commands; a script, which cannot wait, goes on when it is decided.

use std::mem;
use std::ops::RangeInclusive;

use onrush_cluster::cluster::commands::{Bumped, Done, Failover};
use onrush_cluster::cluster::{Cluster, Now};
use onrush_cluster::slots::SLOTS;
use onrush_resp::Reply;
use parking_lot::MutexGuard;

use crate::blocking::waiter::OnTimeout;
use crate::cluster::facts::Facts;
use crate::cluster::node::{Node, State};
use crate::commands::cluster::cluster;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError};

const BAD_SLOT: CommandError = CommandError::fixed("ERR Invalid or out of range slot");
const BAD_ACTION: CommandError =
    CommandError::fixed("ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP");

/// Changes the state; the reply is sent when what it wants is done.
pub(super) fn change(
    ctx: &mut Ctx<'_>,
    change: impl FnOnce(&mut Cluster, Now, &Facts) -> Result<String, String>,
) -> CommandResult {
    let node = &cluster(ctx)?.node;
    let facts = Facts(ctx.engine);
    let mut state = node.lock()?;
    let said = change(&mut state.cluster, facts.now(), &facts).map_err(CommandError::text)?;
    reply_when_done(ctx, node, state, said, || ())
}

/// Replies to CONFIG SET when the directives of the cluster hold: that commands are refused by them, and where others are sent to.
pub(crate) fn reply_when_configured(ctx: &mut Ctx<'_>) -> CommandResult {
    let node = &cluster(ctx)?.node;
    match node.lock() {
        Ok(state) => reply_when_done(ctx, node, state, "OK".to_owned(), || ()),
        Err(_) => {
            // The node begins with them.
            ctx.reply_ok()
        }
    }
}

/// Sends the reply when what the state wants is done, and calls `then` before that.
pub(super) fn reply_when_done(
    ctx: &mut Ctx<'_>,
    node: &Node,
    mut state: MutexGuard<'_, State>,
    said: String,
    then: impl FnOnce() + Send + 'static,
) -> CommandResult {
    if ctx.commit.is_nested() || ctx.session.deny_blocking {
        drop(state);
        node.wake();
        then();
        ctx.session.changed_cluster = true;
        return ctx.reply_simple(&said);
    }
    let Some(waiter) = ctx.block_without_keys(None, OnTimeout::Never)? else { return Ok(()) };
    let engine = ctx.engine;
    state.waiting.push(Box::new(move |result| {
        then();
        waiter.finish(engine, |out: &mut Reply| match result {
            Ok(()) => out.simple(&said),
            Err(error) => out.error_bytes(error.as_bytes()),
        });
    }));
    drop(state);
    node.wake();
    Ok(())
}

/// Executes a transaction; if it has changed the state, its reply is sent when what it wants is done. Tools give a slot
/// another owner by a transaction, and the commands after it must find that owner.
pub(crate) fn in_transaction(ctx: &mut Ctx<'_>, execute: impl FnOnce(&mut Ctx<'_>) -> CommandResult) -> CommandResult {
    let node = &cluster(ctx)?.node;
    let own = Reply::with_buffer(Vec::new(), ctx.out.proto());
    let before = mem::replace(ctx.out, own);
    ctx.session.changed_cluster = false;
    let executed = execute(ctx);
    let mut own = mem::replace(ctx.out, before);
    ctx.out.set_proto(own.proto());
    let (reply, has_changed) = (own.take_bytes(), mem::take(&mut ctx.session.changed_cluster));
    // A thread that executes for others cannot wait.
    if executed.is_err() || !has_changed || ctx.serving || ctx.session.deny_blocking {
        ctx.out.raw(&reply);
        return executed;
    }
    let mut state = node.lock()?;
    let Some(waiter) = ctx.block_without_keys(None, OnTimeout::Never)? else { return Ok(()) };
    let engine = ctx.engine;
    state.waiting.push(Box::new(move |_| {
        waiter.finish(engine, |out: &mut Reply| out.raw(&reply));
    }));
    drop(state);
    node.wake();
    Ok(())
}

fn ok<T>(result: Result<T, String>) -> Result<String, String> {
    result.map(|_| "OK".to_owned())
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(super) fn slot_argument(ctx: &Ctx<'_>, index: usize) -> Result<u16, CommandError> {
    let slot = onrush_resp::parse_i64(ctx.arg(index)).and_then(|slot| u16::try_from(slot).ok());
    slot.filter(|slot| *slot < SLOTS).ok_or(BAD_SLOT)
}

/// The slots from an argument to the one behind it.
pub(super) fn slot_range(ctx: &Ctx<'_>, index: usize) -> Result<RangeInclusive<u16>, CommandError> {
    let (first, last) = (slot_argument(ctx, index)?, slot_argument(ctx, index + 1)?);
    if first > last {
        return Err(CommandError::text(format!(
            "ERR start slot number {first} is greater than end slot number {last}"
        )));
    }
    Ok(first..=last)
}

/// The slots of `CLUSTER ADDSLOTS` and the like, each once.
fn slots_among(ctx: &Ctx<'_>) -> Result<Vec<u16>, CommandError> {
    (2..ctx.argc()).map(|index| slot_argument(ctx, index)).collect()
}

/// The slots of `CLUSTER ADDSLOTSRANGE` and the like.
fn slots_of_ranges(ctx: &Ctx<'_>) -> Result<Vec<u16>, CommandError> {
    if !ctx.argc().is_multiple_of(2) {
        return Err(ctx.command.wrong_arity());
    }
    let mut slots = Vec::new();
    for index in (2..ctx.argc()).step_by(2) {
        // More than once is an error that the state finds.
        slots.extend(slot_range(ctx, index)?);
        if slots.len() > 2 * usize::from(SLOTS) {
            break;
        }
    }
    Ok(slots)
}

/// `CLUSTER MEET ip port [bus-port]`
pub(crate) fn meet(ctx: &mut Ctx<'_>) -> CommandResult {
    cluster(ctx)?;
    if ctx.argc() > 5 {
        return Err(ctx.wrong_subcommand().into());
    }
    let ip = text(ctx.arg(2));
    let number = |index: usize, what: &str| {
        onrush_resp::parse_i64(ctx.arg(index))
            .ok_or_else(|| CommandError::text(format!("ERR Invalid {what} port specified: {}", text(ctx.arg(index)))))
    };
    let port = number(3, "base")?;
    let bus_port = if ctx.argc() == 5 { Some(number(4, "bus")?) } else { None };
    change(ctx, |cluster, now, _| ok(cluster.meet(&ip, port, bus_port, now)))
}

/// `CLUSTER FORGET node-id`
pub(crate) fn forget(ctx: &mut Ctx<'_>) -> CommandResult {
    let id = text(ctx.arg(2));
    change(ctx, |cluster, now, _| ok(cluster.forget(&id, now)))
}

/// `CLUSTER REPLICATE node-id`
pub(crate) fn replicate(ctx: &mut Ctx<'_>) -> CommandResult {
    let id = text(ctx.arg(2));
    change(ctx, |cluster, now, facts| ok(cluster.replicate(&id, now, facts)))
}

/// `CLUSTER RESET [HARD | SOFT]`
pub(crate) fn reset(ctx: &mut Ctx<'_>) -> CommandResult {
    cluster(ctx)?;
    let is_hard = match ctx.argc() {
        2 => false,
        3 if ctx.is(2, "HARD") => true,
        3 if ctx.is(2, "SOFT") => false,
        4.. => return Err(ctx.wrong_subcommand().into()),
        _ => return Err(error::SYNTAX.into()),
    };
    change(ctx, |cluster, now, facts| ok(cluster.reset(is_hard, now, facts)))
}

/// What comes of slots that move as a whole is seen when they are this node's, and deleted if they do not come.
fn not_in_a_migration(ctx: &Ctx<'_>, slots: &[u16]) -> Result<(), CommandError> {
    let moves = &cluster(ctx)?.moves;
    let moving = slots.iter().find(|slot| moves.is_moving(**slot));
    moving.map_or(Ok(()), |slot| Err(CommandError::text(format!("ERR Slot {slot} is in a migration already"))))
}

/// `CLUSTER ADDSLOTS slot [slot ...]`
pub(crate) fn addslots(ctx: &mut Ctx<'_>) -> CommandResult {
    change_slots(ctx, slots_among, Cluster::add_slots)
}

/// `CLUSTER ADDSLOTSRANGE first last [first last ...]`
pub(crate) fn addslotsrange(ctx: &mut Ctx<'_>) -> CommandResult {
    change_slots(ctx, slots_of_ranges, Cluster::add_slots)
}

/// `CLUSTER DELSLOTS slot [slot ...]`
pub(crate) fn delslots(ctx: &mut Ctx<'_>) -> CommandResult {
    change_slots(ctx, slots_among, Cluster::del_slots)
}

/// `CLUSTER DELSLOTSRANGE first last [first last ...]`
pub(crate) fn delslotsrange(ctx: &mut Ctx<'_>) -> CommandResult {
    change_slots(ctx, slots_of_ranges, Cluster::del_slots)
}

/// Changes who has the slots among the arguments.
fn change_slots(
    ctx: &mut Ctx<'_>,
    read: fn(&Ctx<'_>) -> Result<Vec<u16>, CommandError>,
    apply: fn(&mut Cluster, &[u16], Now) -> Done,
) -> CommandResult {
    cluster(ctx)?;
    let slots = read(ctx)?;
    not_in_a_migration(ctx, &slots)?;
    change(ctx, |cluster, now, _| ok(apply(cluster, &slots, now)))
}

/// `CLUSTER FLUSHSLOTS`
pub(crate) fn flushslots(ctx: &mut Ctx<'_>) -> CommandResult {
    change(ctx, |cluster, now, facts| ok(cluster.flush_slots(now, facts)))
}

/// `CLUSTER SETSLOT slot IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE`
pub(crate) fn setslot(ctx: &mut Ctx<'_>) -> CommandResult {
    cluster(ctx)?;
    let slot = slot_argument(ctx, 2)?;
    if ctx.is(3, "STABLE") && ctx.argc() == 4 {
        return change(ctx, |cluster, now, _| ok(cluster.set_slot_stable(slot, now)));
    }
    if ctx.argc() != 5 {
        return Err(BAD_ACTION.into());
    }
    not_in_a_migration(ctx, &[slot])?;
    let id = text(ctx.arg(4));
    if ctx.is(3, "MIGRATING") {
        change(ctx, |cluster, now, _| ok(cluster.set_slot_migrating(slot, &id, now)))
    } else if ctx.is(3, "IMPORTING") {
        change(ctx, |cluster, now, _| ok(cluster.set_slot_importing(slot, &id, now)))
    } else if ctx.is(3, "NODE") {
        change(ctx, |cluster, now, facts| ok(cluster.set_slot_node(slot, &id, now, facts)))
    } else {
        Err(BAD_ACTION.into())
    }
}

/// `CLUSTER BUMPEPOCH`
pub(crate) fn bumpepoch(ctx: &mut Ctx<'_>) -> CommandResult {
    change(ctx, |cluster, now, _| {
        Ok(match cluster.bump_epoch(now)? {
            Bumped::Bumped(epoch) => format!("BUMPED {epoch}"),
            Bumped::Still(epoch) => format!("STILL {epoch}"),
        })
    })
}

/// `CLUSTER SET-CONFIG-EPOCH config-epoch`
pub(crate) fn set_config_epoch(ctx: &mut Ctx<'_>) -> CommandResult {
    cluster(ctx)?;
    let epoch = ctx.int(2)?;
    change(ctx, |cluster, now, _| ok(cluster.set_config_epoch(epoch, now)))
}

/// `CLUSTER FAILOVER [FORCE | TAKEOVER]`
pub(crate) fn failover(ctx: &mut Ctx<'_>) -> CommandResult {
    cluster(ctx)?;
    let how = match ctx.argc() {
        2 => Failover::Default,
        3 if ctx.is(2, "FORCE") => Failover::Force,
        3 if ctx.is(2, "TAKEOVER") => Failover::Takeover,
        4.. => return Err(ctx.wrong_subcommand().into()),
        _ => return Err(error::SYNTAX.into()),
    };
    change(ctx, |cluster, now, facts| ok(cluster.failover(how, now, facts)))
}

/// `CLUSTER SAVECONFIG`
pub(crate) fn saveconfig(ctx: &mut Ctx<'_>) -> CommandResult {
    change(ctx, |cluster, _, _| {
        cluster.save_config();
        ok(Ok(()))
    })
}

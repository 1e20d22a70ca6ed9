//! Commands of slots that are under way: who executes them depends on which of their keys are here.
//!
//! A key must not leave between the look at it and the command. All keys of a command are in one slot, and a slot is a
//! shard: the look and the command are one commit, which has its lock.

use crate::clients::session::States;
use crate::cluster::redirect::{UnderWay, judge, under_way};
use crate::command::find_keys::keys_of;
use crate::command::{Command, Flags};
use crate::ctx::{CommandResult, Ctx};
use crate::error::{CommandError, Stop};

/// Flags of commands that cannot be executed inside of another commit.
const BY_THEMSELVES: Flags =
    Flags::BLOCKING.union(Flags::OTHER_KEYS).union(Flags::REMOTE).union(Flags::EXEC).union(Flags::NOT_QUEUED);

/// Calls the handler of a command that was admitted, unless its slot is under way and its keys are not here.
#[cold]
pub(crate) fn handle_in_cluster(ctx: &mut Ctx<'_>, command: &'static Command) -> CommandResult {
    let Some(under_way) = under_way(ctx, command) else { return (command.handler)(ctx) };
    if command.runs_program() || command.flags.intersects(BY_THEMSELVES) {
        look(ctx, command, &under_way).inspect_err(|_| end_transaction(ctx, command))?;
        ctx.commit.release();
        return (command.handler)(ctx);
    }
    let db = ctx.commit.db();
    let hashes: Vec<_> = keys_of(command, ctx.argv).map(|key| (db, ctx.engine.keyspace.hash(key))).collect();
    ctx.commit.lock_all(hashes)?;
    look(ctx, command, &under_way)?;
    execute_locked(ctx, command)
}

/// Looks whether the keys of a command that is queued after MULTI are here: its client is told at once, not only at EXEC.
///
/// # Errors
/// They are not all here. This is the reply.
#[cold]
pub(crate) fn look_before_queue(ctx: &mut Ctx<'_>, command: &'static Command) -> Result<(), CommandError> {
    let Some(under_way) = under_way(ctx, command) else { return Ok(()) };
    let looked = look(ctx, command, &under_way);
    ctx.commit.release();
    looked
}

/// A transaction that belongs elsewhere is over.
fn end_transaction(ctx: &mut Ctx<'_>, command: &Command) {
    if command.is_exec() {
        ctx.session.end_transaction();
        ctx.session.unwatch(&ctx.engine.watched);
    }
}

/// Looks which keys are here.
///
/// # Errors
/// The command is not executed here.
fn look(ctx: &mut Ctx<'_>, command: &Command, under_way: &UnderWay) -> Result<(), CommandError> {
    let (mut present, mut missing) = (0, 0);
    let mut count = |ctx: &mut Ctx<'_>, key: &[u8]| {
        let key = ctx.commit.key(key);
        *(if ctx.commit.peek(&key).is_some() { &mut present } else { &mut missing }) += 1;
    };
    match ctx.session.transaction.take() {
        Some(transaction) if command.is_exec() => {
            for (id, argv, _) in transaction.commands() {
                keys_of(ctx.engine.commands.command(id), argv).for_each(|key| count(ctx, key));
            }
            ctx.session.transaction = Some(transaction);
        }
        transaction => {
            ctx.session.transaction = transaction;
            keys_of(command, ctx.argv).for_each(|key| count(ctx, key));
        }
    }
    judge(ctx, under_way, present, missing)
}

/// Executes a command whose lock is held.
fn execute_locked(ctx: &mut Ctx<'_>, command: &'static Command) -> CommandResult {
    let before = std::mem::take(&mut ctx.changes);
    ctx.commit.begin_nested();
    let result = (command.handler)(ctx);
    ctx.commit.end_inside(&ctx.argv, ctx.changes);
    let (changes, ended) = (std::mem::replace(&mut ctx.changes, before), ctx.commit.end_nested());
    ctx.engine.stats.threads[ctx.thread].changes.add(changes);
    if ended.is_err() { Err(Stop::Undeclared) } else { result }
}

/// A command has come behind ASKING, which is over with it, or with EXEC if it is MULTI.
#[cold]
pub(crate) fn end_asking(ctx: &mut Ctx<'_>) {
    // A command that is unknown is not the present one.
    if (ctx.refused || !ctx.command.is_asking()) && ctx.session.transaction.is_none() {
        ctx.session.states.remove(States::ASKS);
    }
}

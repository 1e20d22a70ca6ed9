//! Transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH.

pub(crate) mod specs;

use crate::batch::admission::abort;
use crate::command::Flags;
use crate::commands::cluster::change;
use crate::commands::scripting::{self, functions};
use crate::commit::UNDO_KEYS_MAX;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError, Stop};
use crate::long::offload::ARGS_MAX;
use crate::scripts::habit::{Habit, Known, Scope};
use crate::transactions::inside::{Executed, execute_all};
use crate::transactions::transaction::Transaction;
use crate::transactions::watched::WatchedKey;

const NESTED_MULTI: CommandError = CommandError::fixed("ERR MULTI calls can not be nested");
const EXEC_WITHOUT_MULTI: CommandError = CommandError::fixed("ERR EXEC without MULTI");
const DISCARD_WITHOUT_MULTI: CommandError = CommandError::fixed("ERR DISCARD without MULTI");
const WATCH_IN_MULTI: CommandError = CommandError::fixed("ERR WATCH inside MULTI is not allowed");
const ABORTED: CommandError = CommandError::fixed("EXECABORT Transaction discarded because of previous errors.");

/// `MULTI`
pub(crate) fn multi(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.session.transaction.is_some() {
        return Err(NESTED_MULTI.into());
    }
    let transaction = ctx.commit.new_transaction(ctx.session.db);
    ctx.session.resume_transaction(transaction);
    ctx.reply_ok()
}

/// `DISCARD`
pub(crate) fn discard(ctx: &mut Ctx<'_>) -> CommandResult {
    let transaction = ctx.session.end_transaction().ok_or(DISCARD_WITHOUT_MULTI)?;
    ctx.commit.keep_transaction(transaction);
    ctx.session.unwatch(&ctx.engine.watched);
    ctx.reply_ok()
}

/// `WATCH key [key ...]`
pub(crate) fn watch(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.session.transaction.is_some() {
        return Err(WATCH_IN_MULTI.into());
    }
    let (db, now_ms) = (ctx.commit.db(), ctx.now_ms());
    for index in 1..ctx.argc() {
        let key = ctx.key(index);
        // The lock that this takes is held until the next key is looked at, or the command ends.
        let was_expired = ctx.commit.peek_expired(&key, now_ms);
        let watched = WatchedKey { db, key: key.bytes.into(), hash: key.hash, was_expired };
        ctx.session.watch(&ctx.engine.watched, [watched]);
    }
    ctx.reply_ok()
}

/// `UNWATCH`
pub(crate) fn unwatch(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.session.unwatch(&ctx.engine.watched);
    ctx.reply_ok()
}

/// `EXEC`: one commit, which has the locks of all keys that the commands name and of all watched keys
pub(crate) fn exec(ctx: &mut Ctx<'_>) -> CommandResult {
    let transaction = ctx.session.end_transaction().ok_or(EXEC_WITHOUT_MULTI)?;
    if ctx.commit.is_stuck() && transaction.flags().contains(Flags::DENYOOM) {
        return Err(abort(ctx, &error::OUT_OF_MEMORY).into());
    }
    if transaction.is_broken() {
        ctx.session.unwatch(&ctx.engine.watched);
        return Err(ABORTED.into());
    }
    let executed = if ctx.engine.cluster.is_some() && transaction.flags().contains(Flags::ADMIN) {
        change::in_transaction(ctx, |ctx| execute_locked(ctx, &transaction))
    } else {
        execute_locked(ctx, &transaction)
    };
    if executed.as_ref().is_err_and(Stop::is_put_off) {
        // The transaction is executed later, perhaps on another thread.
        ctx.session.resume_transaction(transaction);
    } else {
        ctx.commit.keep_transaction(transaction);
    }
    executed
}

/// A transaction with more commands that are not short is executed on the thread for long commands: each of them may go
/// through as many elements as a worker may at once.
const SLOW_COMMANDS_MAX: u32 = 100;

/// A transaction with scripts begins anew at most this often; then it is executed where nothing makes it begin anew.
const ATTEMPTS_MAX: usize = 3;

/// Executes a transaction with the locks that it is known to need. If one of its scripts needs more, it is executed
/// again with more.
///
/// # Errors
/// It is to be executed later, or elsewhere.
fn execute_locked(ctx: &mut Ctx<'_>, transaction: &Transaction) -> CommandResult {
    let (mark, db) = (ctx.out.mark(), ctx.session.db);
    for attempt in 1.. {
        let scope = lock(ctx, transaction, attempt <= ATTEMPTS_MAX)?;
        let outdated = is_outdated(ctx);
        let watched = ctx.session.unwatch(&ctx.engine.watched);
        if outdated {
            return ctx.reply_null_array();
        }
        match execute_all(ctx, transaction, scope.has_undo()) {
            Executed::AsAWhole => return Ok(()),
            Executed::WithoutAKey => {
                tracing::error!("A transaction has worked on a key that it has not locked");
                return Err(Stop::Undeclared);
            }
            Executed::NotAtAll(stop) => {
                ctx.out.rewind(mark);
                ctx.select(db);
                // Its own changes were undone and do not count as changes of watched keys; the locks are still held.
                if !watched.is_empty() {
                    ctx.session.watch(&ctx.engine.watched, watched);
                }
                if stop != Stop::Undeclared {
                    return Err(stop);
                }
            }
        }
    }
    Ok(())
}

/// Locks the keys that a transaction is known to need. Unless it `may_undo`, a script that may need more than its keys
/// is executed elsewhere.
///
/// # Errors
/// It is to be executed later, or elsewhere.
fn lock(ctx: &mut Ctx<'_>, transaction: &Transaction, may_undo: bool) -> Result<Scope, Stop> {
    let takes_long = transaction.len() > ARGS_MAX
        || transaction.slow_len() > SLOW_COMMANDS_MAX
        || transaction.needs_keyspace()
        || transaction.flags().contains(Flags::REMOTE);
    if takes_long && ctx.commit.may_defer() {
        return Err(Stop::Elsewhere);
    }
    if transaction.needs_keyspace() {
        ctx.commit.lock_keyspace()?;
        return Ok(Scope::Keyspace { has_undo: false });
    }
    let scope = scope(ctx, transaction, may_undo);
    match scope {
        Scope::Declared { .. } => lock_keys(ctx, transaction)?,
        Scope::Keyspace { .. } => ctx.commit.lock_keyspace()?,
        Scope::Elsewhere => return Err(Stop::Elsewhere),
    }
    Ok(scope)
}

/// The scope that all scripts and functions of a transaction together are known to need.
fn scope(ctx: &Ctx<'_>, transaction: &Transaction, may_undo: bool) -> Scope {
    let no_scripts = Scope::Declared { has_undo: false };
    if !transaction.has_programs() {
        return no_scripts;
    }
    let keys_len = transaction.keys().take(UNDO_KEYS_MAX + 1).count();
    let has_undo = may_undo && keys_len <= UNDO_KEYS_MAX;
    let may_go_elsewhere = ctx.commit.may_go_elsewhere();
    let scopes = transaction.programs().map(|(id, argv)| {
        let name = ctx.engine.commands.command(id).spec.name;
        let choose = |known: Known<'_>| match has_undo {
            true => known.habit.scope(known.proof, may_go_elsewhere),
            false => Habit::scope_without_undo(known.proof, may_go_elsewhere),
        };
        if name.starts_with("fcall") {
            functions::with_known(ctx.engine, &argv, choose)
        } else {
            scripting::with_known(ctx.engine, &argv, name.starts_with("evalsha"), choose)
        }
    });
    scopes.fold(no_scripts, Scope::and)
}

fn lock_keys(ctx: &mut Ctx<'_>, transaction: &Transaction) -> CommandResult {
    let keys = transaction.keys();
    match &ctx.session.watching {
        Some(watching) => ctx.commit.lock_all(keys.chain(watching.keys().iter().map(|key| (key.db, key.hash))))?,
        None => ctx.commit.lock_all(keys)?,
    }
    Ok(())
}

/// Whether a watched key has changed or has expired. The locks of watched keys must be held.
fn is_outdated(ctx: &mut Ctx<'_>) -> bool {
    let now_ms = ctx.now_ms();
    let Some(watching) = &ctx.session.watching else { return false };
    let commit = &mut *ctx.commit;
    watching.is_outdated()
        || watching.keys().iter().filter(|key| !key.was_expired).any(|key| commit.is_past_its_time(key, now_ms))
}

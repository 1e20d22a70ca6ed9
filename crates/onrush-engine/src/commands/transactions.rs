//! Transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH.

use std::sync::Arc;

use crate::admission::abort;
use crate::command::Flags;
use crate::commit::Refused;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError};
use crate::inside::execute_all;
use crate::offload::ARGS_MAX;
use crate::transaction::Transaction;
use crate::watched::{WatchedKey, Watching};

const NESTED_MULTI: CommandError = CommandError::fixed("ERR MULTI calls can not be nested");
const EXEC_WITHOUT_MULTI: CommandError = CommandError::fixed("ERR EXEC without MULTI");
const DISCARD_WITHOUT_MULTI: CommandError = CommandError::fixed("ERR DISCARD without MULTI");
const WATCH_IN_MULTI: CommandError = CommandError::fixed("ERR WATCH inside MULTI is not allowed");
const ABORTED: CommandError = CommandError::fixed("EXECABORT Transaction discarded because of previous errors.");

/// `MULTI`
pub fn multi(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.session.transaction.is_some() {
        return Err(NESTED_MULTI);
    }
    let transaction = ctx.commit.new_transaction(ctx.session.db);
    ctx.session.resume_transaction(transaction);
    ctx.out.ok();
    Ok(())
}

/// `DISCARD`
pub fn discard(ctx: &mut Ctx<'_>) -> CommandResult {
    let transaction = ctx.session.end_transaction().ok_or(DISCARD_WITHOUT_MULTI)?;
    ctx.commit.keep_transaction(transaction);
    ctx.session.unwatch(ctx.engine);
    ctx.out.ok();
    Ok(())
}

/// `WATCH key [key ...]`
pub fn watch(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.session.transaction.is_some() {
        return Err(WATCH_IN_MULTI);
    }
    let client = ctx.session.handle.id;
    let mut watching = ctx.session.watching.take().unwrap_or_else(|| Box::new(Watching::new(client)));
    let (db, now_ms) = (ctx.commit.db(), ctx.now_ms());
    for index in 1..ctx.argc() {
        let key = ctx.key(index);
        // The lock that this takes is held until the next key is looked at, or the command ends.
        let was_expired = ctx.commit.peek_expired(&key, now_ms);
        watching.add(&ctx.engine.watched, WatchedKey { db, key: key.bytes.into(), hash: key.hash, was_expired });
    }
    *ctx.session.handle.watcher.lock() = Some(Arc::clone(watching.watcher()));
    ctx.session.watching = Some(watching);
    ctx.out.ok();
    Ok(())
}

/// `UNWATCH`
pub fn unwatch(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.session.unwatch(ctx.engine);
    ctx.out.ok();
    Ok(())
}

/// `EXEC`: one commit, which has the locks of all keys that the commands name and of those that are watched
pub fn exec(ctx: &mut Ctx<'_>) -> CommandResult {
    let transaction = ctx.session.end_transaction().ok_or(EXEC_WITHOUT_MULTI)?;
    if ctx.commit.is_stuck() && transaction.flags().contains(Flags::DENYOOM) {
        return Err(abort(ctx, &error::OUT_OF_MEMORY));
    }
    if transaction.is_broken() {
        ctx.session.unwatch(ctx.engine);
        return Err(ABORTED);
    }
    if let Err(refused) = lock(ctx, &transaction) {
        // It is executed later, perhaps elsewhere.
        ctx.session.resume_transaction(transaction);
        return Err(refused);
    }
    let outdated = is_outdated(ctx);
    ctx.session.unwatch(ctx.engine);
    if outdated {
        ctx.out.null_array();
        return Ok(());
    }
    let executed = execute_all(ctx, &transaction);
    ctx.commit.keep_transaction(transaction);
    executed.map_err(|_| {
        tracing::error!("A transaction has worked on a key that it has not locked");
        error::UNDECLARED
    })
}

fn lock(ctx: &mut Ctx<'_>, transaction: &Transaction) -> CommandResult {
    let takes_long = transaction.len() > ARGS_MAX || transaction.flags().contains(Flags::REMOTE);
    if takes_long && transaction.final_db().is_some() && ctx.commit.may_defer() {
        return Err(ctx.commit.refuse(Refused::TakesLong).into());
    }
    if transaction.needs_keyspace() {
        match transaction.final_db() {
            Some(_) => ctx.commit.lock_keyspace()?,
            // It belongs to its connection, so no other thread can execute it.
            None => ctx.commit.wait_for_keyspace()?,
        }
        return Ok(());
    }
    let keys = transaction.keys();
    match &ctx.session.watching {
        Some(watching) => ctx.commit.lock_all(keys.chain(watching.keys().iter().map(|key| (key.db, key.hash))))?,
        None => ctx.commit.lock_all(keys)?,
    }
    Ok(())
}

/// Whether a watched key has changed, or has passed its time. Its locks are held.
fn is_outdated(ctx: &mut Ctx<'_>) -> bool {
    let now_ms = ctx.now_ms();
    let Some(watching) = &ctx.session.watching else { return false };
    let commit = &mut *ctx.commit;
    watching.is_outdated()
        || watching.keys().iter().filter(|key| !key.was_expired).any(|key| commit.is_past_its_time(key, now_ms))
}

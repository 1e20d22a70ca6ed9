//! FLUSHDB, FLUSHALL, SWAPDB: commands on whole databases.

use std::sync::atomic::Ordering::Relaxed;

use onrush_resp::parse_i64;
use onrush_store::Cleared;

use crate::commands::keys::check_db;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError};
use crate::lazyfree::Garbage;
use crate::snapshot::output::Purpose;

const NO_SWAP: CommandError = CommandError::fixed("ERR SWAPDB is not allowed in cluster mode");
const INVALID_FIRST_DB: CommandError = CommandError::fixed("ERR invalid first DB index");
const INVALID_SECOND_DB: CommandError = CommandError::fixed("ERR invalid second DB index");

/// `FLUSHDB [ASYNC | SYNC]`
pub(crate) fn flushdb(ctx: &mut Ctx<'_>) -> CommandResult {
    let db = ctx.commit.db();
    flush(ctx, db..db + 1, false)
}

/// `FLUSHALL [ASYNC | SYNC]`
pub(crate) fn flushall(ctx: &mut Ctx<'_>) -> CommandResult {
    let databases = ctx.engine.keyspace.databases() as u32;
    flush(ctx, 0..databases, true)
}

/// Empties databases at one moment. Their content is freed after the locks go back: before the reply is sent, or, with
/// ASYNC, on the freeing thread.
fn flush(ctx: &mut Ctx<'_>, databases: std::ops::Range<u32>, is_all: bool) -> CommandResult {
    let in_background = match ctx.argc() {
        1 => ctx.engine.settings.lazy_flush.load(Relaxed),
        2 if ctx.is(1, "ASYNC") => true,
        2 if ctx.is(1, "SYNC") => false,
        _ => return Err(error::SYNTAX.into()),
    };
    ctx.commit.lock_keyspace()?;
    if is_all {
        abort_for_flush(ctx);
    }
    if let Some(cluster) = &ctx.engine.cluster {
        cluster.moves.fail_imports("the data was flushed");
    }
    let concerned = databases.clone();
    outdate(ctx, |ctx, db, key| concerned.contains(&db) && is_there(ctx, db, key));
    let mut cleared: Vec<Cleared> = Vec::new();
    let mut removed = 0;
    for db in databases {
        let (keys, tables) = ctx.commit.clear(db);
        removed += keys as u64;
        cleared.extend(tables);
    }
    ctx.commit.outdate_everything();
    ctx.changed_keyspace(removed);
    if in_background && removed > 0 {
        ctx.engine.lazyfree.free_tables(cleared, removed);
    } else {
        ctx.commit.discard(Some(Garbage::Tables(cleared)));
    }
    ctx.reply_ok()
}

/// FLUSHALL ends a snapshot that is under way: it would save deleted data.
fn abort_for_flush(ctx: &Ctx<'_>) {
    if let Some(underway) = ctx.engine.snapshots.underway()
        && underway.purpose == Purpose::File
    {
        underway.abort("all data was deleted meanwhile");
        // The empty data must still be saved.
        ctx.engine.snapshots.schedule(Purpose::File);
    }
}

/// Notifies the watchers of keys that are about to change. The whole keyspace is locked.
fn outdate(ctx: &mut Ctx<'_>, mut concerns: impl FnMut(&mut Ctx<'_>, u32, &[u8]) -> bool) {
    let engine = ctx.engine;
    if !engine.watched.is_unobserved() {
        engine.watched.changed_databases(|key| engine.keyspace.hash(key), |db, key| concerns(ctx, db, key));
        // Changing the databases takes the locks of shards by itself.
        ctx.commit.release();
    }
}

/// Notifies clients that watch or track keys that everything is about to be deleted. The whole keyspace is locked.
pub(crate) fn outdate_all(ctx: &mut Ctx<'_>) {
    outdate(ctx, is_there);
    ctx.commit.outdate_everything();
}

fn is_there(ctx: &mut Ctx<'_>, db: u32, key: &[u8]) -> bool {
    let key = ctx.commit.key(key);
    ctx.commit.peek_in(db, &key).is_some()
}

/// `SWAPDB index1 index2`
pub(crate) fn swapdb(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.engine.cluster.is_some() {
        return Err(NO_SWAP.into());
    }
    let number = |index, error| parse_i64(ctx.arg(index)).and_then(|number| i32::try_from(number).ok()).ok_or(error);
    let (first, second) = (number(1, INVALID_FIRST_DB)?, number(2, INVALID_SECOND_DB)?);
    let databases = ctx.engine.keyspace.databases();
    let (first, second) = (check_db(first, databases)?, check_db(second, databases)?);
    ctx.commit.lock_keyspace()?;
    outdate(ctx, |ctx, db, key| {
        first != second && (db == first || db == second) && (is_there(ctx, first, key) || is_there(ctx, second, key))
    });
    ctx.commit.swap(first, second);
    ctx.changed_keyspace(1);
    ctx.reply_ok()
}

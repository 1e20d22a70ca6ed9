//! Transactions that are complete in one chunk: they are executed in place, without queueing.
//!
//! Clients see the same as with queueing: a reply to MULTI, one for each command, and EXEC's. This is only for short
//! commands that name all their keys, on a connection in no special state; everything else is queued.

use std::hint::cold_path;

use crate::batch::admission::{Conditions, SHORT_ARGS_MAX};
use crate::batch::argv::Argv;
use crate::batch::chunk::{Chunk, Part, Planned};
use crate::batch::execute::finish;
use crate::batch::planned_keys::PlannedKeys;
use crate::clients::session::{ReplyMode, States};
use crate::command::Command;
use crate::ctx::Ctx;
use crate::transactions::inside::execute_queued;

/// What follows MULTI in its connection's part of a chunk.
#[derive(Clone, Copy)]
pub(crate) struct Rest<'a> {
    pub(crate) chunk: &'a Chunk,
    /// The connection's input.
    pub(crate) input: &'a [u8],
    pub(crate) part: &'a Part,
    /// The first run after MULTI, counted from the beginning of the part.
    pub(crate) next: usize,
}

impl<'a> Rest<'a> {
    /// The arguments of a run.
    pub(crate) fn argv(&self, run: &Planned) -> Argv<'a> {
        let Self { chunk, input, part, .. } = *self;
        let ranges = &chunk.args[run.args.0 as usize..run.args.1 as usize];
        Argv::new(&input[run.start..], ranges, &chunk.owned[part.owned.clone()])
    }
}

/// What was executed after MULTI, up to EXEC.
pub(crate) struct Together {
    /// Runs in the chunk, that of EXEC included.
    pub(crate) runs: usize,
    /// Commands beyond the first of their runs.
    pub(crate) more: u64,
    /// EXEC.
    pub(crate) exec: &'static Command,
}

/// Executes the runs that follow MULTI, up to EXEC; `None` if they must be queued.
#[cold]
pub(crate) fn execute_together(ctx: &mut Ctx<'_>, conditions: &Conditions, rest: Rest<'_>) -> Option<Together> {
    let Rest { chunk, part, next, .. } = rest;
    let planned = &chunk.planned[part.first + next..part.first + part.len];
    let session = &ctx.session;
    let is_plain =
        session.states == States::QUEUES && session.reply_mode == ReplyMode::On && session.watching.is_none();
    if !is_plain || !conditions.admit_together(ctx) {
        return None;
    }
    let len = planned.iter().take_while(|run| is_simple(run)).count();
    let end = planned.get(len).filter(|end| end.times == 1 && end.args.1 - end.args.0 == 1)?;
    let exec = end.command.filter(|command| command.is_exec())?;
    let runs = &planned[..len];
    let (first, last) = (runs.first()?, runs.last()?);
    let db = ctx.commit.db();
    let hashes = &chunk.hashes[first.hashes.0 as usize..last.hashes.1 as usize];
    if ctx.engine.cluster.as_ref().is_some_and(|cluster| !cluster.is_free(hashes)) {
        return None;
    }
    if ctx.commit.lock_all(hashes.iter().map(|&hash| (db, hash))).is_err() {
        // EXEC tries again.
        return None;
    }
    if let Some(transaction) = ctx.session.end_transaction() {
        ctx.commit.keep_transaction(transaction);
    }
    let more = runs.iter().map(|run| u64::from(run.times) - 1).sum::<u64>();
    let commands = len + more as usize;
    (0..commands).for_each(|_| ctx.out.simple("QUEUED"));
    ctx.out.array(commands);
    execute_runs(ctx, runs, rest);
    Some(Together { runs: len + 1, more, exec })
}

/// Whether a run may be a part of such a transaction.
fn is_simple(run: &Planned) -> bool {
    let is_short = |command: &Command| command.is_simple && (run.args.1 - run.args.0) as usize <= SHORT_ARGS_MAX;
    run.command.is_some_and(is_short)
}

/// Executes runs whose locks are held as one commit.
fn execute_runs(ctx: &mut Ctx<'_>, runs: &[Planned], rest: Rest<'_>) {
    // The changes of earlier commands must not be logged again with this one's.
    let changes_before = std::mem::take(&mut ctx.changes);
    let mut changes = 0;
    let (engine, thread) = (ctx.engine, ctx.thread);
    ctx.commit.begin_nested();
    let mut inner = Ctx::new(engine, thread, &mut *ctx.session, &mut *ctx.out, &mut *ctx.commit);
    for run in runs {
        inner.argv = rest.argv(run);
        let hashes = &rest.chunk.hashes[run.hashes.0 as usize..run.hashes.1 as usize];
        inner.planned = PlannedKeys { first: run.first_key, step: run.step, hashes, shard: run.shard };
        let Some(command) = run.command else { continue };
        inner.command = command;
        for _ in 0..run.times {
            execute_queued(&mut inner);
            changes += std::mem::take(&mut inner.changes);
        }
    }
    if ctx.commit.end_nested().is_err() {
        cold_path();
        tracing::error!("A transaction has worked on a key that it has not locked");
    }
    engine.stats.threads[thread].changes.add(changes);
    finish(ctx);
    ctx.changes = changes_before;
}

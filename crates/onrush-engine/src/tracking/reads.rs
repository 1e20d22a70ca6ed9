//! Noting what a client reads that tracks keys.

use onrush_store::KeyHash;

use super::mode::Mode;
use crate::command::find_keys::find_keys;
use crate::command::{Flags, Group};
use crate::ctx::Ctx;
use crate::planned_keys::PlannedKeys;
use crate::session::States;

/// Keys thrown out of a full table for one that comes in.
const THROWN_OUT_MAX: usize = 100;

/// Notes the keys that the present command has read, if its client tracks them. Their locks are held. O(keys).
#[cold]
pub(crate) fn note_reads(ctx: &mut Ctx<'_>) {
    let (command, client) = (ctx.command, ctx.session.handle.id);
    // What scripts read is noted command by command.
    let reads = command.flags.contains(Flags::READONLY)
        && !command.flags.contains(Flags::PUBSUB)
        && command.spec.group != Group::Scripting;
    if !reads || !ctx.session.handle.tracking.mode().tracks_reads() {
        return;
    }
    let PlannedKeys { first, step, hashes, .. } = ctx.planned;
    if command.plan.is_some() && !command.flags.contains(Flags::MOVABLEKEYS) && !hashes.is_empty() {
        let indexes = (first as usize..).step_by(step as usize);
        hashes.iter().zip(indexes).for_each(|(&hash, index)| note(ctx, ctx.arg(index), hash, client));
    } else if command.has_keys() {
        for key in find_keys(command, &ctx.argv).unwrap_or_default() {
            let key = ctx.arg(key.index);
            note(ctx, key, ctx.engine.keyspace.hash(key), client);
        }
    }
}

fn note(ctx: &mut Ctx<'_>, key: &[u8], hash: KeyHash, client: u64) {
    let tracking = &ctx.engine.tracking;
    tracking.table.note(key, hash, client);
    if tracking.is_over_limit() {
        ctx.commit.forget_read(key, hash, THROWN_OUT_MAX);
    }
}

/// Ends what CLIENT CACHING has said about the present command, if that is one that it was about.
#[cold]
pub(crate) fn end_caching(ctx: &Ctx<'_>) {
    let tracking = &ctx.session.handle.tracking;
    if !tracking.mode().contains(Mode::CACHING) {
        return;
    }
    // A subcommand of CLIENT does not end it, not even one that is refused; only one that does not exist.
    let commands = &ctx.engine.commands;
    let parent = commands.resolve(&ctx.argv).ok().and_then(|command| command.parent);
    let is_over = parent.is_none_or(|id| commands.command(id).spec.name != "client");
    // It is about all commands of a transaction, and about what a client waits for.
    if is_over && !ctx.session.states.contains(States::QUEUES) && ctx.session.waiter.is_none() {
        tracking.remove(Mode::CACHING);
    }
}

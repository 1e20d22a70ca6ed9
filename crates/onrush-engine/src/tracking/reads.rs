//! Noting the reads of clients that track keys.

use onrush_store::KeyHash;

use super::mode::Mode;
use crate::batch::planned_keys::PlannedKeys;
use crate::clients::session::States;
use crate::command::find_keys::keys_of;
use crate::command::{Flags, Group};
use crate::ctx::Ctx;

/// Keys dropped from a full table for one new key.
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
    if command.has_only_fixed_keys() && !hashes.is_empty() {
        let indexes = (first as usize..).step_by(step as usize);
        hashes.iter().zip(indexes).for_each(|(&hash, index)| note(ctx, ctx.arg(index), hash, client));
    } else if command.has_keys() {
        for key in keys_of(command, ctx.argv) {
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

/// Ends the effect of CLIENT CACHING, if the present command is the one that it applied to.
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

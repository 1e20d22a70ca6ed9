//! Whether the client's user may execute a command: looked up where commands are admitted, queued, executed by EXEC,
//! called by scripts, and executed for clients that have waited.

use std::sync::Arc;

use crate::batch::argv::Argv;
use crate::batch::chunk::{Chunk, Planned};
use crate::clients::session::States;
use crate::command::Command;
use crate::commands::acl::log::denial_of;
use crate::ctx::Ctx;
use crate::error::CommandError;
use crate::observe::acl_log::{Context, Denial};
use crate::observe::errors::ErrorCounts;
use crate::users::check::Denied;

/// Whether the client may execute a command with the context's arguments. Without limits a look at a flag.
#[inline]
pub(crate) fn is_permitted(ctx: &Ctx<'_>, command: &Command) -> bool {
    !ctx.session.states.contains(States::RESTRICTED) || is_within_limits(ctx, command)
}

#[inline(never)]
fn is_within_limits(ctx: &Ctx<'_>, command: &Command) -> bool {
    ctx.session.limits().is_none_or(|rights| rights.check(command, &ctx.argv).is_ok())
}

/// Whether the client may execute all short ones of the planned commands; the others are looked at when they are
/// executed. `input` and `owned` are those of the commands.
pub(crate) fn are_permitted(
    ctx: &Ctx<'_>,
    planned: &[Planned],
    chunk: &Chunk,
    input: &[u8],
    owned: &[Arc<Vec<u8>>],
) -> bool {
    let Some(rights) = ctx.session.limits() else { return true };
    planned.iter().all(|run| {
        run.command.is_none_or(|command| {
            let ranges = &chunk.args[run.args.0 as usize..run.args.1 as usize];
            !command.is_short() || rights.allow_at_a_glance(command, &Argv::new(&input[run.start..], ranges, owned))
        })
    })
}

/// Why the client must not execute a command with these arguments, if that is so, and what is to be noted of it.
fn denial(ctx: &Ctx<'_>, command: &Command, argv: &Argv<'_>, context: Context) -> Option<(Denied, Denial)> {
    let denied = ctx.session.limits()?.check(command, argv).err()?;
    Some((denied, denial_of(ctx, command, argv, denied, context)))
}

/// The error for a command that the client must not execute. ACL LOG shows it.
#[cold]
pub(crate) fn not_permitted(ctx: &Ctx<'_>, command: &Command) -> Option<CommandError> {
    let context = if ctx.session.states.contains(States::QUEUES) { Context::Multi } else { Context::TopLevel };
    let (denied, denial) = denial(ctx, command, &ctx.argv, context)?;
    ctx.engine.note_denial(denial);
    Some(CommandError::bytes([b"NOPERM ", &*message(ctx, command, denied)].concat()))
}

/// The error for a command that a script calls, but its client must not execute; `errors` get to know it.
#[cold]
pub(crate) fn not_permitted_in_script(
    ctx: &Ctx<'_>,
    command: &Command,
    argv: &Argv<'_>,
    errors: &mut ErrorCounts,
) -> Option<CommandError> {
    let (denied, denial) = denial(ctx, command, argv, Context::Script)?;
    errors.denied(denial);
    Some(CommandError::bytes([b"ERR ACL failure in script: ", &*message(ctx, command, denied)].concat()))
}

/// The error for a queued command that the client must not execute any more, and what is to be counted.
#[cold]
pub(crate) fn no_longer_permitted(ctx: &Ctx<'_>, command: &Command) -> Option<(CommandError, ErrorCounts)> {
    let (denied, denial) = denial(ctx, command, &ctx.argv, Context::Multi)?;
    let reason = match denied {
        Denied::Command => "no permission to execute the command or subcommand",
        Denied::Key(_) => "no permission to touch the specified keys",
        Denied::Channel(_) => "no permission to access one of the channels used as arguments",
    };
    let error = CommandError::text(format!(
        "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is \
         no longer allowed for the following reason: {reason}"
    ));
    let mut errors = ErrorCounts::default();
    errors.error(error.code());
    errors.rejected(command.id);
    errors.denied(denial);
    Some((error, errors))
}

/// What errors say of a denial: not which key it is about.
fn message(ctx: &Ctx<'_>, command: &Command, denied: Denied) -> Vec<u8> {
    match denied {
        Denied::Command => {
            let user = ctx.session.handle.user();
            let what = format!(" has no permissions to run the '{}' command", command.full_name);
            [b"User ", user.name(), what.as_bytes()].concat()
        }
        Denied::Key(_) => b"No permissions to access a key".to_vec(),
        Denied::Channel(_) => b"No permissions to access a channel".to_vec(),
    }
}

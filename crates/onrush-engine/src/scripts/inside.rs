//! Executing a command inside of a script.

use onrush_resp::Reply;

use crate::batch::argv::Argv;
use crate::command::Command;
use crate::ctx::Ctx;
use crate::messages::show::show_of_script;
use crate::observe::errors::ErrorCounts;
use crate::transactions::inside;

/// Executes a command that a script calls, inside of the script's commit. The log records its effects as its own; its
/// reply, which may be an error, is appended to `out` and counted in `errors`. Returns true if the command was not
/// executed because it takes long.
pub(super) fn execute_called(
    outer: &mut Ctx<'_>,
    command: &'static Command,
    argv: Argv<'_>,
    is_recorded: bool,
    changes: &mut u64,
    errors: &mut ErrorCounts,
    out: &mut Reply,
) -> bool {
    let mut ctx = Ctx::new(outer.engine, outer.thread, &mut *outer.session, out, &mut *outer.commit);
    (ctx.argv, ctx.command, ctx.in_script) = (argv, command, true);
    ctx.engine.stats.threads[ctx.thread].commands[command.id as usize].calls.add(1);
    let stop = inside::execute_inside(&mut ctx, is_recorded);
    if let Some(stop) = &stop {
        errors.error(stop.error().code());
        errors.failed(command.id, 1);
    }
    *changes += ctx.changes;
    let takes_long = stop.is_some_and(|stop| stop.is_put_off());
    // Only now, so that SELECT is shown in the database that it has selected. A command that takes long is shown where it
    // is executed.
    if ctx.engine.messages.has_monitors() && !takes_long {
        show_of_script(&mut ctx);
    }
    takes_long
}

//! Executing a command inside of a script.

use onrush_resp::Reply;

use crate::argv::Argv;
use crate::command::table::Command;
use crate::ctx::Ctx;
use crate::inside;
use crate::messages::show::show_of_script;

/// Executes a command that a script calls, inside of the script's commit, which has the keyspace. Its effects are recorded as
/// its own; its reply, an error or not, is appended to `out`.
pub(super) fn execute_called(
    outer: &mut Ctx<'_>,
    command: &'static Command,
    argv: Argv<'_>,
    is_recorded: bool,
    out: &mut Reply,
) {
    let mut ctx = Ctx::new(outer.engine, outer.thread, &mut *outer.session, out, &mut *outer.commit);
    (ctx.argv, ctx.command) = (argv, command);
    let stats = &ctx.engine.stats.threads[ctx.thread];
    stats.commands[command.id as usize].calls.add(1);
    if ctx.engine.messages.has_monitors() {
        show_of_script(&ctx);
    }
    if inside::execute_inside(&mut ctx, is_recorded).is_some() {
        ctx.commit.take_refused();
    }
    stats.changes.add(ctx.changes);
}

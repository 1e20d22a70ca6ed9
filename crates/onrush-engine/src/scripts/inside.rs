//! Executing a command inside of a script.

use onrush_resp::Reply;

use crate::argv::Argv;
use crate::command::table::Command;
use crate::ctx::Ctx;
use crate::messages::monitors::show_of_script;

/// Executes a command that a script calls, inside of the script's commit, which has the keyspace. Its effects are recorded as
/// its own; its reply, an error or not, is appended to `out`.
pub(super) fn execute_inside(
    outer: &mut Ctx<'_>,
    command: &'static Command,
    argv: Argv<'_>,
    is_recorded: bool,
    out: &mut Reply,
) {
    let mut ctx = Ctx::new(outer.engine, outer.thread, &mut *outer.session, out, &mut *outer.commit);
    (ctx.argv, ctx.command) = (argv, command);
    let mark = ctx.out.mark();
    let stats = &ctx.engine.stats.threads[ctx.thread];
    let counters = &stats.commands[command.id as usize];
    counters.calls.add(1);
    if ctx.engine.messages.has_monitors() {
        show_of_script(&ctx);
    }
    if let Err(error) = (command.handler)(&mut ctx) {
        ctx.commit.take_refused();
        ctx.out.rewind(mark);
        ctx.out.error_bytes(error.as_bytes());
        counters.failed.add(1);
    }
    stats.changes.add(ctx.changes);
    ctx.commit.end_inside(&argv, if is_recorded { ctx.changes } else { 0 });
}

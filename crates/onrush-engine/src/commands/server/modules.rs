//! MODULE: there are no modules.

use crate::command::replies;
use crate::ctx::{CommandResult, Ctx};
use crate::error::CommandError;

const NO_MODULES: CommandError = CommandError::fixed("ERR MODULE command not allowed. This server has no modules.");

/// `MODULE LIST`
pub(crate) fn module_list(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.out.array(0);
    Ok(())
}

/// `MODULE LOAD`, `MODULE LOADEX`, `MODULE UNLOAD`: refused
pub(crate) fn module_refused(_: &mut Ctx<'_>) -> CommandResult {
    Err(NO_MODULES.into())
}

/// `MODULE HELP`
pub(crate) fn module_help(ctx: &mut Ctx<'_>) -> CommandResult {
    replies::help(&ctx.engine.commands, ctx.command, ctx.out);
    Ok(())
}

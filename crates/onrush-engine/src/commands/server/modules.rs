//! MODULE: there are no modules.

use crate::ctx::{CommandResult, Ctx};
use crate::error::CommandError;

const NO_MODULES: CommandError = CommandError::fixed("ERR MODULE command not allowed. This server has no modules.");

/// `MODULE LOAD`, `MODULE LOADEX`, `MODULE UNLOAD`: refused
pub(crate) fn module_refused(_: &mut Ctx<'_>) -> CommandResult {
    Err(NO_MODULES.into())
}

//! CLUSTER and the commands of its clients: this server belongs to no cluster.

pub(crate) mod specs;

use crate::ctx::{CommandResult, Ctx};
use crate::error::CommandError;

const NO_CLUSTER: CommandError = CommandError::fixed("ERR This instance has cluster support disabled");

/// `CLUSTER …`, `READONLY`, `READWRITE`, `ASKING`
pub(crate) fn disabled(_: &mut Ctx<'_>) -> CommandResult {
    Err(NO_CLUSTER.into())
}

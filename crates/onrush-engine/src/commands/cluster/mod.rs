//! CLUSTER and the commands of its clients.

pub(crate) mod change;
pub(crate) mod connection;
pub(crate) mod keys;
pub(crate) mod moves;
pub(crate) mod slot_stats;
pub(crate) mod specs;
pub(crate) mod views;

use crate::cluster::clustering::Clustering;
use crate::ctx::Ctx;
use crate::error::CommandError;

const NO_CLUSTER: CommandError = CommandError::fixed("ERR This instance has cluster support disabled");

/// The cluster that this server is a node of.
///
/// # Errors
/// There is none.
fn cluster(ctx: &Ctx<'_>) -> Result<&'static Clustering, CommandError> {
    ctx.engine.cluster.as_ref().ok_or(NO_CLUSTER)
}

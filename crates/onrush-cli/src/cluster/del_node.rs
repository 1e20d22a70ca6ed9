//! `--cluster del-node`: removes a node without slots.

use super::context::Context;
use super::log;
use super::view::Cluster;
use crate::fail::Fail;

/// Runs the command.
///
/// # Errors
/// When there is no such node, it has slots, or one is gone or refuses.
pub fn run(context: &Context<'_>) -> Result<(), Fail> {
    let (address, id) = (context.address()?, &context.args[1]);
    log::info(format!(">>> Removing node {id} from cluster {}:{}\n", address.host, address.port));
    let mut cluster = Cluster::load(context, &address)?;
    let found = cluster.find(id);
    let leaving = found.ok_or_else(|| Fail::new(format!("[ERR] No such node ID {id}")))?;
    if !cluster.nodes[leaving].own.slots.is_empty() {
        let place = cluster.nodes[leaving].place();
        return Err(Fail::new(format!("[ERR] Node {place} is not empty! Reshard data away and try again.")));
    }
    log::info(">>> Sending CLUSTER FORGET messages to the cluster...\n");
    let id = cluster.nodes[leaving].own.id.clone();
    for index in (0..cluster.nodes.len()).filter(|index| *index != leaving) {
        if cluster.nodes[index].own.replicates.as_deref() == Some(&id) {
            adopt(&mut cluster, index, leaving)?;
        }
        cluster.nodes[index].ask(&["CLUSTER", "FORGET", &id])?;
    }
    log::info(">>> Sending CLUSTER RESET SOFT to the deleted node.\n");
    cluster.nodes[leaving].ask(&["CLUSTER", "RESET", "SOFT"]).map(drop)
}

/// Gives a replica another primary.
fn adopt(cluster: &mut Cluster, replica: usize, leaving: usize) -> Result<(), Fail> {
    let Some(primary) = cluster.least_replicated(Some(leaving)) else {
        return Err(Fail::new("[ERR] There is no other master for the replicas of this node."));
    };
    let (place, primary_place) = (cluster.nodes[replica].place(), cluster.nodes[primary].place());
    log::info(format!(">>> {place} as replica of {primary_place}\n"));
    let id = cluster.nodes[primary].own.id.clone();
    cluster.nodes[replica].replicate(&id)?;
    cluster.nodes[primary].replicas_len += 1;
    cluster.nodes[replica].own.replicates = Some(id);
    Ok(())
}

//! `--cluster info`: keys, slots and replicas of the primaries.

use super::context::Context;
use super::log;
use super::slots::SLOTS;
use super::view::Cluster;
use crate::fail::Fail;

/// Runs the command.
///
/// # Errors
/// When a node is gone.
pub fn run(context: &Context<'_>) -> Result<(), Fail> {
    show(&mut context.load()?)
}

/// Shows a line for each primary, and the sums.
///
/// # Errors
/// When a node is gone.
pub fn show(cluster: &mut Cluster) -> Result<(), Fail> {
    let (mut keys, mut primaries) = (0, 0);
    for index in cluster.primaries() {
        let node = &mut cluster.nodes[index];
        let size = node.size()?;
        let (place, slots, replicas) = (node.place(), node.own.slots.len(), node.replicas_len);
        let short_id = node.own.id.get(..8).unwrap_or(&node.own.id);
        log::plain(format!("{place} ({short_id}...) -> {size} keys | {slots} slots | {replicas} slaves.\n"));
        (keys, primaries) = (keys + size, primaries + 1);
    }
    log::success(format!("[OK] {keys} keys in {primaries} masters.\n"));
    log::plain(format!("{:.2} keys per slot on average.\n", keys as f64 / f64::from(SLOTS)));
    Ok(())
}

//! `--cluster rebalance`: moves slots until each primary has its share.

use super::check::Check;
use super::check::sound;
use super::context::Context;
use super::log;
use super::migrate::{self, Way};
use super::plan::rebalance::{self, Load, Transfer};
use super::plan::reshard;
use super::view::Cluster;
use crate::fail::Fail;

/// Runs the command.
///
/// # Errors
/// When a weight makes no sense, the cluster has problems, or a node is gone or refuses.
pub fn run(context: &Context<'_>) -> Result<(), Fail> {
    let mut cluster = context.load()?;
    let weights = weights(context, &cluster)?;
    let refusal = "*** Please fix your cluster problems before rebalancing";
    sound(context, &mut cluster, Check { is_quiet: true, repairs: false }, refusal)?;
    let loads = loads(context, &cluster, &weights);
    let Some(transfers) = rebalance::plan(&loads, context.settings.threshold) else {
        let threshold = context.settings.threshold;
        log::warn(format!("*** No rebalancing needed! All nodes are within the {threshold:.2}% threshold.\n"));
        return Ok(());
    };
    let total = rebalance::total_weight(&loads);
    log::info(format!(">>> Rebalancing across {} nodes. Total weight = {total:.2}\n", loads.len()));
    transfers.into_iter().try_for_each(|transfer| perform(context, &mut cluster, transfer))
}

/// A weight for each node.
fn weights(context: &Context<'_>, cluster: &Cluster) -> Result<Vec<f32>, Fail> {
    let mut weights = vec![1.0; cluster.nodes.len()];
    for given in &context.settings.weights {
        let parsed = given.split_once('=').and_then(|(id, weight)| Some((id, weight.parse::<f32>().ok()?)));
        let sensible = parsed.filter(|(_, weight)| weight.is_finite() && *weight >= 0.0);
        let (id, weight) = sensible.ok_or_else(|| Fail::new(format!("*** invalid input {given}")))?;
        let node = with_prefix(cluster, id).ok_or_else(|| Fail::new(format!("*** No such master node {id}")))?;
        weights[node] = weight;
    }
    Ok(weights)
}

/// The primary whose id starts so.
fn with_prefix(cluster: &Cluster, id: &str) -> Option<usize> {
    cluster.primaries().into_iter().find(|node| !id.is_empty() && cluster.nodes[*node].own.id.starts_with(id))
}

fn loads(context: &Context<'_>, cluster: &Cluster, weights: &[f32]) -> Vec<Load> {
    let load = |node: usize| Load { node, slots: cluster.nodes[node].own.slots.len(), weight: weights[node] };
    let takes_part = |load: &Load| load.slots > 0 || context.settings.use_empty_primaries;
    cluster.primaries().into_iter().map(load).filter(takes_part).collect()
}

fn perform(context: &Context<'_>, cluster: &mut Cluster, transfer: Transfer) -> Result<(), Fail> {
    let Transfer { from, to, slots } = transfer;
    log::plain(format!("Moving {slots} slots from {} to {}\n", cluster.nodes[from].place(), cluster.nodes[to].place()));
    let moves = reshard::table(&[(from, &cluster.nodes[from].own.slots)], slots);
    if context.settings.simulate {
        log::plain("#".repeat(moves.len()));
    } else {
        for one in moves {
            migrate::slot(context, cluster, Way { slot: one.slot, from, to }, false)?;
            log::plain("#");
        }
    }
    log::plain("\n");
    Ok(())
}

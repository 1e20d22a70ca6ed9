//! `--cluster set-timeout`: the node timeout of all nodes.

use super::context::Context;
use super::log::{self, told};
use super::node::Node;
use super::settings::TIMEOUT_MS_MAX;
use super::view::Cluster;
use crate::args::leading_number;
use crate::fail::Fail;

/// A shorter one takes busy nodes for dead.
const TIMEOUT_MS_MIN: i64 = 100;

/// Runs the command.
///
/// # Errors
/// When the timeout is too short or too long, or the cluster cannot be reached. What single nodes refuse is shown.
pub fn run(context: &Context<'_>) -> Result<(), Fail> {
    let address = context.address()?;
    let timeout_ms = leading_number(context.args[1].as_bytes());
    if timeout_ms < TIMEOUT_MS_MIN {
        return Err(told("Setting a node timeout of less than 100 milliseconds is a bad idea."));
    }
    if timeout_ms > TIMEOUT_MS_MAX {
        return Err(told(format!("A node timeout is at most {TIMEOUT_MS_MAX} milliseconds.")));
    }
    let mut cluster = Cluster::load(context, &address)?;
    log::info(">>> Reconfiguring node timeout in every cluster node...\n");
    let (mut set, mut failed) = (0, 0);
    for node in &mut cluster.nodes {
        let place = node.place();
        match reconfigure(node, timeout_ms) {
            Ok(()) => {
                log::warn(format!("*** New timeout set for {place}\n"));
                set += 1;
            }
            Err(error) => {
                log::error(format!("ERR setting node-timeout for {place}: {error}\n"));
                failed += 1;
            }
        }
    }
    log::info(format!(">>> New node timeout set. {set} OK, {failed} ERR.\n"));
    Ok(())
}

fn reconfigure(node: &mut Node, timeout_ms: i64) -> Result<(), Fail> {
    let timeout = timeout_ms.to_string();
    for words in [&["CONFIG", "SET", "cluster-node-timeout", &timeout][..], &["CONFIG", "REWRITE"]] {
        if let Some(error) = node.call(words)?.error() {
            return Err(Fail::new(error));
        }
    }
    Ok(())
}

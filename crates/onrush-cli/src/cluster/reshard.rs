//! `--cluster reshard`: moves a number of slots to one node.

use super::check::Check;
use super::check::sound;
use super::context::Context;
use super::log::{self, told};
use super::migrate::{self, Way};
use super::plan::reshard::{self, Move};
use super::prompt;
use super::slots::SLOTS;
use super::view::Cluster;
use crate::fail::Fail;

/// Runs the command.
///
/// # Errors
/// When the cluster has problems, a node is gone or refuses, or nobody answers a question.
pub fn run(context: &Context<'_>) -> Result<(), Fail> {
    let mut cluster = context.load()?;
    let refusal = "*** Please fix your cluster problems before resharding";
    sound(context, &mut cluster, Check::default(), refusal).map_err(told)?;
    let count = count(context)?;
    let to = receiver(context, &cluster)?;
    let from = sources(context, &cluster, to)?;
    log::plain(format!("\nReady to move {count} slots.\n  Source nodes:\n"));
    from.iter().for_each(|node| log::plain(cluster.nodes[*node].description(4)));
    log::plain(format!("  Destination node:\n{}", cluster.nodes[to].description(4)));
    let sets: Vec<_> = from.iter().map(|node| (*node, &cluster.nodes[*node].own.slots)).collect();
    let moves = reshard::table(&sets, count);
    show(&cluster, &moves);
    let question = "Do you want to proceed with the proposed reshard plan (yes/no)? ";
    if !context.settings.yes && prompt::line(question)? != "yes" {
        return Err(Fail::silent());
    }
    for Move { slot, from } in moves {
        migrate::slot(context, &mut cluster, Way { slot, from, to }, true)?;
    }
    Ok(())
}

fn show(cluster: &Cluster, moves: &[Move]) {
    let line = |one: &Move| format!("    Moving slot {} from {}\n", one.slot, cluster.nodes[one.from].own.id);
    log::plain(format!("  Resharding plan:\n{}", moves.iter().map(line).collect::<String>()));
}

fn count(context: &Context<'_>) -> Result<usize, Fail> {
    let fits = |count: i64| usize::try_from(count).ok().filter(|count| (1..=usize::from(SLOTS)).contains(count));
    let mut count = fits(context.settings.slots);
    while count.is_none() {
        let answer = prompt::line(&format!("How many slots do you want to move (from 1 to {SLOTS})? "))?;
        count = answer.parse().ok().and_then(fits);
    }
    Ok(count.unwrap_or_default())
}

/// The place of a primary with this id; if there is none, says so.
fn primary(cluster: &Cluster, id: &str) -> Option<usize> {
    let found = cluster.find(id).filter(|node| !cluster.nodes[*node].is_replica());
    if found.is_none() {
        log::error(format!("*** The specified node ({id}) is not known or not a master, please retry.\n"));
    }
    found
}

fn receiver(context: &Context<'_>, cluster: &Cluster) -> Result<usize, Fail> {
    if let Some(id) = &context.settings.to {
        return primary(cluster, id).ok_or_else(Fail::silent);
    }
    loop {
        let id = prompt::line("What is the receiving node ID? ")?;
        if let Some(node) = primary(cluster, &id) {
            return Ok(node);
        }
    }
}

fn sources(context: &Context<'_>, cluster: &Cluster, to: usize) -> Result<Vec<usize>, Fail> {
    let sources = match &context.settings.from {
        Some(ids) => given_sources(cluster, ids, to)?,
        None => asked_sources(cluster, to)?,
    };
    if sources.is_empty() {
        return Err(Fail::new("*** No source nodes given, operation aborted."));
    }
    Ok(sources)
}

fn given_sources(cluster: &Cluster, ids: &str, to: usize) -> Result<Vec<usize>, Fail> {
    if ids == "all" {
        return Ok(all_but(cluster, to));
    }
    let mut sources = Vec::new();
    for id in ids.split(',') {
        let node = primary(cluster, id).ok_or_else(Fail::silent)?;
        if node == to {
            return Err(Fail::new("*** It is not possible to use the target node as source node."));
        }
        if !sources.contains(&node) {
            sources.push(node);
        }
    }
    Ok(sources)
}

fn all_but(cluster: &Cluster, to: usize) -> Vec<usize> {
    cluster.primaries().into_iter().filter(|node| *node != to).collect()
}

fn asked_sources(cluster: &Cluster, to: usize) -> Result<Vec<usize>, Fail> {
    log::plain(
        "Please enter all the source node IDs.\n  Type 'all' to use all the nodes as source nodes for the hash \
         slots.\n  Type 'done' once you entered all the source nodes IDs.\n",
    );
    let mut sources = Vec::new();
    loop {
        let answer = prompt::line(&format!("Source node #{}: ", sources.len() + 1))?;
        match answer.as_str() {
            "all" => return Ok(all_but(cluster, to)),
            "done" => return Ok(sources),
            id => match primary(cluster, id) {
                Some(node) if node == to => {
                    log::error("*** It is not possible to use the target node as source node.\n");
                }
                Some(node) if !sources.contains(&node) => sources.push(node),
                _ => {}
            },
        }
    }
}

//! `--cluster add-node`: lets an empty node join.

use super::address::Address;
use super::check::{self, Check};
use super::context::Context;
use super::log;
use super::node::Node;
use super::view::Cluster;
use crate::fail::Fail;
use crate::reply::Reply;

/// Runs the command.
///
/// # Errors
/// When the cluster has problems, the node is not empty, or one is gone or refuses.
pub fn run(context: &Context<'_>) -> Result<(), Fail> {
    let (new, known) = (Address::of_words(&context.args[..1])?, Address::of_words(&context.args[1..])?);
    log::info(format!(">>> Adding node {}:{} to cluster {}:{}\n", new.host, new.port, known.host, known.port));
    let mut cluster = Cluster::load(context, &known)?;
    check::sound(context, &mut cluster, Check::default(), "")?;
    let primary = primary(context, &cluster)?;
    let mut node = open(context, &new)?;
    if primary.is_none() {
        copy_functions(&mut cluster.nodes[0], &mut node)?;
    }
    log::info(format!(">>> Send CLUSTER MEET to node {} to make it join the cluster.\n", node.place()));
    let first = &cluster.nodes[0];
    node.meet(&first.target.host, first.target.port, first.bus_port)?;
    if let Some(primary) = primary {
        let (place, id) = (cluster.nodes[primary].place(), cluster.nodes[primary].own.id.clone());
        cluster.nodes.push(node);
        cluster.wait_until_joined()?;
        log::info(format!(">>> Configure node as replica of {place}.\n"));
        cluster.nodes.last_mut().map_or(Ok(()), |node| node.replicate(&id))?;
    }
    log::success("[OK] New node added correctly.\n");
    Ok(())
}

/// The primary of a node that is to be a replica.
fn primary(context: &Context<'_>, cluster: &Cluster) -> Result<Option<usize>, Fail> {
    if !context.settings.as_replica {
        return Ok(None);
    }
    if let Some(id) = &context.settings.primary_id {
        let found = cluster.find(id);
        return found.map(Some).ok_or_else(|| Fail::new(format!("[ERR] No such master ID {id}")));
    }
    let chosen = cluster.least_replicated(None);
    if let Some(chosen) = chosen {
        log::plain(format!("Automatically selected master {}\n", cluster.nodes[chosen].place()));
    }
    chosen.map(Some).ok_or_else(|| Fail::new("[ERR] The cluster has no master."))
}

fn open(context: &Context<'_>, address: &Address) -> Result<Node, Fail> {
    let opened = Node::open(&context.options.target, address);
    let mut node = opened.map_err(|error| {
        complain!("{error}");
        Fail::new(format!("[ERR] Sorry, can't connect to node {}:{}", address.host, address.port))
    })?;
    node.check_mode()?;
    node.load()?;
    node.check_empty()?;
    Ok(node)
}

/// A new primary gets the functions of the others; replicas get them from their primary.
fn copy_functions(from: &mut Node, to: &mut Node) -> Result<(), Fail> {
    log::info(">>> Getting functions from cluster\n");
    let dump = from.call(&["FUNCTION", "DUMP"])?;
    let Some(functions) = dump.bytes().filter(|_| dump.error().is_none()) else {
        let error = dump.error().unwrap_or_else(|| "NULL reply".to_owned());
        log::info(format!(
            ">>> Failed retrieving Functions from the cluster, skip this step as Redis version do not support function \
             command (error = '{error}')\n"
        ));
        return Ok(());
    };
    let place = to.place();
    log::info(format!(">>> Send FUNCTION LIST to {place} to verify there is no functions in it\n"));
    let list = to.call(&["FUNCTION", "LIST"])?;
    if let Some(error) = list.error() {
        return Err(Fail::new(format!(">>> Failed on CLUSTER LIST (error = '{error}')")));
    }
    if list.items().is_some_and(|functions: &[Reply]| !functions.is_empty()) {
        return Err(Fail::new(
            ">>> New node already contains functions and can not be added to the cluster. Use FUNCTION FLUSH and try \
             again.",
        ));
    }
    log::info(format!(">>> Send FUNCTION RESTORE to {place}\n"));
    match to.call(&[b"FUNCTION", &b"RESTORE"[..], functions])?.error() {
        Some(error) => Err(Fail::new(format!(">>> Failed loading functions to the new node (error = '{error}')"))),
        None => Ok(()),
    }
}

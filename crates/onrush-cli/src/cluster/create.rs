//! `--cluster create`: makes one cluster of nodes that are empty.

use std::time::{Duration, Instant};

use super::address::Address;
use super::check::{self, Check};
use super::context::Context;
use super::log::{self, told};
use super::node::Node;
use super::plan::create::{self, Apart, PRIMARIES_MIN, Roles};
use super::prompt;
use super::view::Cluster;
use crate::fail::Fail;

/// How long a node may take until it knows the node that it is to replicate.
const REPLICATE_MAX: Duration = Duration::from_secs(30);
const REPLICATE_STEP: Duration = Duration::from_millis(100);

/// Runs the command.
///
/// # Errors
/// When a node is gone, not empty, or refuses, there are too few, or nobody answers the question.
pub fn run(context: &Context<'_>) -> Result<(), Fail> {
    let addresses = addresses(context)?;
    let nodes = addresses.iter().map(|address| empty_node(context, address)).collect::<Result<Vec<_>, _>>()?;
    let mut cluster = Cluster { nodes, unreachable_primaries: 0 };
    enough(cluster.nodes.len(), context.settings.replicas)?;
    let roles = planned(&mut cluster, context.settings.replicas);
    cluster.show();
    if !prompt::confirm("Can I set the above configuration?", context.settings.yes)? {
        return Ok(());
    }
    give_slots(&mut cluster, &roles)?;
    join(&mut cluster)?;
    replicate(&mut cluster, &roles)?;
    let mut cluster = Cluster::load(context, &addresses[0])?;
    check::sound(context, &mut cluster, Check::default(), "")
}

fn addresses(context: &Context<'_>) -> Result<Vec<Address>, Fail> {
    let mut addresses: Vec<Address> = Vec::new();
    for word in context.args {
        let address = Address::parse(word).ok_or_else(|| told(format!("Invalid address format: {word}")))?;
        if addresses.contains(&address) {
            return Err(Fail::new(format!("[ERR] Node {word} is given twice.")));
        }
        addresses.push(address);
    }
    Ok(addresses)
}

fn empty_node(context: &Context<'_>, address: &Address) -> Result<Node, Fail> {
    let mut node = Node::open(&context.options.target, address).map_err(told)?;
    node.check_mode()?;
    node.load()?;
    // The port that the user names is right even if the node does not know it.
    node.bus_port = address.bus_port.or(node.bus_port);
    node.check_empty()?;
    node.is_planned = true;
    Ok(node)
}

fn enough(nodes: usize, replicas: usize) -> Result<(), Fail> {
    if create::primaries_len(nodes, replicas) >= PRIMARIES_MIN {
        return Ok(());
    }
    Err(Fail::new(format!(
        "*** ERROR: Invalid configuration for cluster creation.\n*** Redis Cluster requires at least {PRIMARIES_MIN} \
         master nodes.\n*** This is not possible with {nodes} nodes and {replicas} replicas per node.\n*** At least {} \
         nodes are required.",
        replicas.saturating_add(1).saturating_mul(PRIMARIES_MIN)
    )))
}

/// Plans the roles, tells them, and notes them in the nodes.
fn planned(cluster: &mut Cluster, replicas: usize) -> Roles {
    log::info(format!(">>> Performing hash slots allocation on {} nodes...\n", cluster.nodes.len()));
    let hosts: Vec<String> = cluster.nodes.iter().map(|node| node.target.host.clone()).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let mut roles = create::roles(&hosts, replicas);
    for (place, share) in roles.primaries.iter().enumerate() {
        log::plain(format!("Master[{place}] -> Slots {} - {}\n", share.first, share.last));
        cluster.nodes[share.node].own.slots = (share.first..=share.last).collect();
    }
    for (place, pair) in roles.pairs.iter().enumerate() {
        if place == roles.wanted_len {
            log::plain("Adding extra replicas...\n");
        }
        let (replica, primary) = (cluster.nodes[pair.replica].place(), cluster.nodes[pair.primary].place());
        log::plain(format!("Adding replica {replica} to {primary}\n"));
    }
    tell_apart(create::set_apart(&hosts, &mut roles.pairs));
    for pair in &roles.pairs {
        cluster.nodes[pair.replica].own.replicates = Some(cluster.nodes[pair.primary].own.id.clone());
    }
    roles
}

fn tell_apart(apart: Apart) {
    if apart != Apart::Already {
        log::info(">>> Trying to optimize slaves allocation for anti-affinity\n");
    }
    match apart {
        Apart::Already => {}
        Apart::Perfectly => log::success("[OK] Perfect anti-affinity obtained!\n"),
        Apart::NotFromPrimaries => log::warn("[WARNING] Some slaves are in the same host as their master\n"),
        Apart::NotFromEachOther => log::warn("[WARNING] Some slaves of the same master are in the same host\n"),
    }
}

fn give_slots(cluster: &mut Cluster, roles: &Roles) -> Result<(), Fail> {
    for share in &roles.primaries {
        let mut words = vec!["CLUSTER".to_owned(), "ADDSLOTS".to_owned()];
        words.extend((share.first..=share.last).map(|slot| slot.to_string()));
        cluster.nodes[share.node].ask(&words)?;
    }
    log::info(">>> Nodes configuration updated\n");
    Ok(())
}

fn join(cluster: &mut Cluster) -> Result<(), Fail> {
    log::info(">>> Assign a different config epoch to each node\n");
    for (node, epoch) in cluster.nodes.iter_mut().zip(1..) {
        // A node that has an epoch keeps it: if two are equal, the nodes sort that out.
        node.call(&["CLUSTER", "SET-CONFIG-EPOCH", &i32::to_string(&epoch)])?;
    }
    log::info(">>> Sending CLUSTER MEET messages to join the cluster\n");
    let Some((first, others)) = cluster.nodes.split_first_mut() else { return Ok(()) };
    for node in others {
        node.meet(&first.target.host, first.target.port, first.bus_port)?;
    }
    cluster.wait_until_joined()
}

fn replicate(cluster: &mut Cluster, roles: &Roles) -> Result<(), Fail> {
    for pair in &roles.pairs {
        let id = cluster.nodes[pair.primary].own.id.clone();
        let node = &mut cluster.nodes[pair.replica];
        let started = Instant::now();
        // It may have heard of its primary, but not yet that this one is a primary.
        while let Err(error) = node.replicate(&id) {
            if started.elapsed() > REPLICATE_MAX {
                return Err(error);
            }
            std::thread::sleep(REPLICATE_STEP);
        }
    }
    Ok(())
}

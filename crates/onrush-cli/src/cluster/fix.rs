//! `--cluster fix`: closes open slots, covers slots that nobody serves, and settles who of several owners keeps a slot.
//!
//! It asks the nodes for facts, lets [`plan`](super::plan) decide, and does that.

use super::check::{self, Check};
use super::context::Context;
use super::log;
use super::migrate::{self, Way};
use super::node::Node;
use super::plan::coverage::{self, Uncovered};
use super::plan::open_slot::{self, Facts, Repair};
use super::prompt;
use super::slots::SlotSet;
use super::view::Cluster;
use crate::fail::Fail;

/// Runs the command.
///
/// # Errors
/// When a node is gone, or not all could be repaired.
pub fn run(context: &Context<'_>) -> Result<(), Fail> {
    check::shown(context, Check { is_quiet: false, repairs: true })
}

/// The primaries that claim a slot.
pub fn owners(cluster: &Cluster, slot: u16) -> Vec<usize> {
    cluster.primaries().into_iter().filter(|node| cluster.nodes[*node].own.slots.contains(&slot)).collect()
}

/// Refuses to repair while primaries are gone: their slots would be given away.
fn all_reachable(context: &Context<'_>, cluster: &Cluster, what: &str) -> Result<(), Fail> {
    let gone = cluster.unreachable_primaries;
    if gone == 0 || context.settings.fix_with_unreachable {
        return Ok(());
    }
    Err(Fail::new(format!(
        "*** Fixing {what} with {gone} unreachable masters is dangerous: redis-cli will assume that slots about masters \
         that are not reachable are not covered, and will try to reassign them to the reachable nodes. This can cause \
         data loss and is rarely what you want to do. If you really want to proceed use the \
         --cluster-fix-with-unreachable-masters option."
    )))
}

/// Closes an open slot; whether that was possible.
///
/// # Errors
/// When a node is gone or refuses.
pub fn open_slot(context: &Context<'_>, cluster: &mut Cluster, slot: u16) -> Result<bool, Fail> {
    log::info(format!(">>> Fixing open slot {slot}\n"));
    all_reachable(context, cluster, "open slots")?;
    let mut facts = facts(cluster, slot)?;
    let owners = owners(cluster, slot);
    match owners.as_slice() {
        [owner] => facts.owner = Some(*owner),
        _ => choose_owner(cluster, slot, &owners, &mut facts)?,
    }
    repair(context, cluster, slot, &facts)
}

/// Asks the primaries what they say of a slot.
fn facts(cluster: &mut Cluster, slot: u16) -> Result<Facts, Fail> {
    let mut facts = Facts::default();
    let (mut migrating, mut importing) = (Vec::new(), Vec::new());
    for index in cluster.primaries() {
        let keys = cluster.nodes[index].count_keys(slot)?;
        let node = &cluster.nodes[index];
        let target = node.own.migrating.iter().find(|open| open.slot == slot).map(|open| open.peer.clone());
        let place = node.place();
        facts.keys.push((index, keys));
        let imports = node.own.importing.iter().any(|open| open.slot == slot);
        if let Some(target) = target {
            migrating.push(place);
            facts.migrating.push((index, cluster.find(&target)));
        } else if imports || keys > 0 && !node.own.slots.contains(&slot) {
            if !imports {
                log::warn(format!("*** Found keys about slot {slot} in node {place}!\n"));
            }
            importing.push(place);
            facts.importing.push(index);
        }
    }
    for (state, places) in [("migrating", migrating), ("importing", importing)] {
        if !places.is_empty() {
            log::plain(format!("Set as {state} in: {}\n", places.join(",")));
        }
    }
    Ok(facts)
}

/// Makes the node with most keys the only owner. Others that claim the slot give it up and count as importing.
fn choose_owner(cluster: &mut Cluster, slot: u16, owners: &[usize], facts: &mut Facts) -> Result<(), Fail> {
    log::info(">>> No single clear owner for the slot, selecting an owner by # of keys...\n");
    let candidates: Vec<(usize, u64)> =
        facts.keys.iter().copied().filter(|(node, _)| owners.is_empty() || owners.contains(node)).collect();
    let chosen = coverage::richest(&candidates);
    let owner = chosen.ok_or_else(|| Fail::new("[ERR] Can't select a slot owner. Impossible to fix."))?;
    log::warn(format!("*** Configuring {} as the slot owner\n", cluster.nodes[owner].place()));
    cluster.nodes[owner].set_slot(slot, &["STABLE"])?;
    cluster.nodes[owner].claim_slot(slot)?;
    facts.owner = Some(owner);
    facts.migrating.retain(|(node, _)| *node != owner);
    facts.importing.retain(|node| *node != owner);
    let owner_id = cluster.nodes[owner].own.id.clone();
    for other in open_slot::others(owners, owner) {
        give_up(&mut cluster.nodes[other], slot, &owner_id)?;
        facts.migrating.retain(|(node, _)| *node != other);
        if !facts.importing.contains(&other) {
            facts.importing.push(other);
        }
    }
    Ok(())
}

/// Makes a node that claims a slot give it up, so that MIGRATE still works there.
fn give_up(node: &mut Node, slot: u16, owner_id: &str) -> Result<(), Fail> {
    // It may have heard of the owner already, and then has no slot to delete.
    node.call(&["CLUSTER", "DELSLOTS", &slot.to_string()])?;
    node.set_slot(slot, &["IMPORTING", owner_id])?;
    node.own.slots.remove(&slot);
    Ok(())
}

fn repair(context: &Context<'_>, cluster: &mut Cluster, slot: u16, facts: &Facts) -> Result<bool, Fail> {
    match open_slot::decide(facts) {
        Repair::Finish { from, to, close } => {
            let ends = format!("from {} to {}", cluster.nodes[from].place(), cluster.nodes[to].place());
            log::info(if close.is_empty() {
                format!(">>> Case 1: Moving slot {slot} {ends}\n")
            } else {
                format!(">>> Case 3: Moving slot {slot} {ends} and closing it on all the other importing nodes.\n")
            });
            finish(context, cluster, Way { slot, from, to })?;
            close_on(cluster, slot, &close)?;
        }
        Repair::Gather { owner, from } => {
            let place = cluster.nodes[owner].place();
            log::info(format!(">>> Case 2: Moving all the {slot} slot keys to its owner {place}\n"));
            gather(context, cluster, slot, owner, &from)?;
        }
        Repair::Close { nodes, has_importing } => {
            log::info(match nodes.first() {
                Some(first) if !has_importing => {
                    format!(">>> Case 4: Closing slot {slot} on {}\n", cluster.nodes[*first].place())
                }
                _ => format!(">>> Case 3: Closing slot {slot} on both migrating and importing nodes.\n"),
            });
            close_on(cluster, slot, &nodes)?;
        }
        Repair::Impossible => {
            log::error(impossible(cluster, slot, facts));
            return Ok(false);
        }
    }
    Ok(true)
}

/// Finishes moving a slot; what the ends say of it does not have to be whole.
fn finish(context: &Context<'_>, cluster: &mut Cluster, way: Way) -> Result<(), Fail> {
    let to_id = cluster.nodes[way.to].own.id.clone();
    if !cluster.nodes[way.from].own.slots.contains(&way.slot) {
        // MIGRATE works for a slot that a node gets, or serves.
        cluster.nodes[way.from].set_slot(way.slot, &["IMPORTING", &to_id])?;
    }
    move_keys(context, cluster, way)?;
    migrate::assign(cluster, way.slot, way.to, Some(way.from))?;
    close_on(cluster, way.slot, &[way.from])?;
    cluster.nodes[way.from].own.slots.remove(&way.slot);
    cluster.nodes[way.to].own.slots.insert(way.slot);
    Ok(())
}

/// Moves the keys of a slot, and tells so.
fn move_keys(context: &Context<'_>, cluster: &mut Cluster, way: Way) -> Result<(), Fail> {
    let (from, to) = (cluster.nodes[way.from].place(), cluster.nodes[way.to].place());
    log::plain(format!("Moving slot {} from {from} to {to}: ", way.slot));
    migrate::keys(context, cluster, way, true)?;
    log::plain("\n");
    Ok(())
}

/// Moves the keys of a slot that others have to its owner.
fn gather(context: &Context<'_>, cluster: &mut Cluster, slot: u16, owner: usize, from: &[usize]) -> Result<(), Fail> {
    let owner_id = cluster.nodes[owner].own.id.clone();
    for node in from.iter().copied() {
        cluster.nodes[node].set_slot(slot, &["IMPORTING", &owner_id])?;
        move_keys(context, cluster, Way { slot, from: node, to: owner })?;
        log::info(format!(">>> Setting {slot} as STABLE in {}\n", cluster.nodes[node].place()));
        close_on(cluster, slot, &[node])?;
    }
    migrate::assign(cluster, slot, owner, None)
}

fn close_on(cluster: &mut Cluster, slot: u16, nodes: &[usize]) -> Result<(), Fail> {
    nodes.iter().try_for_each(|node| cluster.nodes[*node].set_slot(slot, &["STABLE"]))
}

fn impossible(cluster: &Cluster, slot: u16, facts: &Facts) -> String {
    let places = |nodes: &mut dyn Iterator<Item = usize>| {
        nodes.map(|node| cluster.nodes[node].place()).collect::<Vec<_>>().join(",")
    };
    let migrating = places(&mut facts.migrating.iter().map(|(node, _)| *node));
    let importing = places(&mut facts.importing.iter().copied());
    let owner = places(&mut facts.owner.into_iter());
    format!(
        "[ERR] Sorry, redis-cli can't fix this slot yet (work in progress). Slot {slot} is set as migrating in \
         {migrating}, as importing in {importing}, owner is {owner}\n"
    )
}

/// Covers slots that nobody serves; whether all are.
///
/// # Errors
/// When a node is gone or refuses, or nobody answers a question.
pub fn coverage(context: &Context<'_>, cluster: &mut Cluster, missing: &[u16]) -> Result<bool, Fail> {
    all_reachable(context, cluster, "slots coverage")?;
    log::info(">>> Fixing slots coverage...\n");
    let mut slots = Vec::new();
    for slot in missing.iter().copied() {
        let primaries = cluster.primaries();
        let mut keys = keys_of(cluster, slot, &primaries)?;
        keys.retain(|(_, keys)| *keys > 0);
        slots.push(Uncovered { slot, keys });
    }
    let sorted = coverage::sort(slots);
    let all = cover_empty(cluster, &sorted.empty)? && cover_single(cluster, &sorted.single)?;
    Ok(all && cover_several(context, cluster, &sorted.several)?)
}

/// How many keys of a slot each of these nodes has.
fn keys_of(cluster: &mut Cluster, slot: u16, nodes: &[usize]) -> Result<Vec<(usize, u64)>, Fail> {
    nodes.iter().map(|node| Ok((*node, cluster.nodes[*node].count_keys(slot)?))).collect()
}

/// Names slots and asks; redis-cli asks in spite of `--cluster-yes`, and so do we: what is done here can lose data.
fn asked(slots: impl Iterator<Item = u16>, which: &str, question: &str) -> Result<bool, Fail> {
    let set: SlotSet = slots.collect();
    if set.is_empty() {
        return Ok(true);
    }
    let each: Vec<String> = set.iter().map(|slot| format!("[{slot}]")).collect();
    log::plain(format!("The following uncovered slots {which}:\n{}\n", each.join(",")));
    prompt::confirm(question, false)
}

fn cover_empty(cluster: &mut Cluster, slots: &[u16]) -> Result<bool, Fail> {
    let question = "Fix these slots by covering with a random node?";
    if !asked(slots.iter().copied(), "have no keys across the cluster", question)? {
        return Ok(false);
    }
    let mut sizes: Vec<(usize, usize)> =
        cluster.primaries().into_iter().map(|node| (node, cluster.nodes[node].own.slots.len())).collect();
    coverage::deal(slots, &mut sizes).into_iter().try_for_each(|(slot, node)| cover(cluster, slot, node))?;
    Ok(true)
}

fn cover_single(cluster: &mut Cluster, slots: &[(u16, usize)]) -> Result<bool, Fail> {
    let question = "Fix these slots by covering with those nodes?";
    if !asked(slots.iter().map(|(slot, _)| *slot), "have keys in just one node", question)? {
        return Ok(false);
    }
    slots.iter().try_for_each(|(slot, node)| cover(cluster, *slot, *node))?;
    Ok(true)
}

fn cover(cluster: &mut Cluster, slot: u16, node: usize) -> Result<(), Fail> {
    log::info(format!(">>> Covering slot {slot} with {}\n", cluster.nodes[node].place()));
    cluster.nodes[node].claim_slot(slot)
}

fn cover_several(context: &Context<'_>, cluster: &mut Cluster, slots: &[Uncovered]) -> Result<bool, Fail> {
    let question = "Fix these slots by moving keys into a single node?";
    if !asked(slots.iter().map(|one| one.slot), "have keys in multiple nodes", question)? {
        return Ok(false);
    }
    for Uncovered { slot, keys } in slots {
        let Some(owner) = coverage::richest(keys) else { continue };
        log::info(format!(">>> Covering slot {slot} moving keys to {}\n", cluster.nodes[owner].place()));
        cluster.nodes[owner].claim_slot(*slot)?;
        let from: Vec<usize> = keys.iter().map(|(node, _)| *node).filter(|node| *node != owner).collect();
        gather(context, cluster, *slot, owner, &from)?;
    }
    Ok(true)
}

/// Leaves a slot to the one of its owners that has most keys of it.
///
/// # Errors
/// When a node is gone or refuses.
pub fn multiple_owners(
    context: &Context<'_>,
    cluster: &mut Cluster,
    slot: u16,
    owners: &[usize],
) -> Result<bool, Fail> {
    log::info(format!(">>> Fixing multiple owners for slot {slot}...\n"));
    let keys = keys_of(cluster, slot, owners)?;
    let Some(owner) = coverage::richest(&keys) else {
        log::error(format!("Failed to fix multiple owners for slot {slot}\n"));
        return Ok(false);
    };
    log::info(format!(">>> Setting slot {slot} owner: {}\n", cluster.nodes[owner].place()));
    cluster.nodes[owner].claim_slot(slot)?;
    let owner_id = cluster.nodes[owner].own.id.clone();
    let others = open_slot::others(owners, owner);
    for other in others.iter().copied() {
        give_up(&mut cluster.nodes[other], slot, &owner_id)?;
    }
    gather(context, cluster, slot, owner, &others)?;
    Ok(true)
}

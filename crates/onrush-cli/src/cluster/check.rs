//! `--cluster check`: whether nodes agree, slots are open, and all slots are served.

use std::collections::BTreeSet;

use super::context::Context;
use super::fix;
use super::info;
use super::log;
use super::nodes_text::OpenSlot;
use super::slots::{SLOTS, SlotSet};
use super::view::Cluster;
use crate::fail::Fail;

/// What a check does beside.
#[derive(Clone, Copy, Default)]
pub struct Check {
    /// Does not show the nodes.
    pub is_quiet: bool,
    /// Repairs what it finds.
    pub repairs: bool,
}

/// Runs the command.
///
/// # Errors
/// When a node is gone, or the cluster has problems.
pub fn run(context: &Context<'_>) -> Result<(), Fail> {
    shown(context, Check::default())
}

/// Shows the cluster and checks it.
///
/// # Errors
/// When a node is gone, or the cluster has problems that stay.
pub fn shown(context: &Context<'_>, check: Check) -> Result<(), Fail> {
    let mut cluster = context.load()?;
    info::show(&mut cluster)?;
    sound(context, &mut cluster, check, "")
}

/// Checks a cluster; whether it is sound, after repairs if there are any.
///
/// # Errors
/// When a node is gone, or a repair is refused.
pub fn check(context: &Context<'_>, cluster: &mut Cluster, check: Check) -> Result<bool, Fail> {
    log::info(format!(">>> Performing Cluster Check (using node {})\n", cluster.nodes[0].place()));
    let agree = cluster.settle()?;
    if !check.is_quiet {
        cluster.show();
    }
    match agree {
        true => log::success("[OK] All nodes agree about slots configuration.\n"),
        false => log::error("[ERR] Nodes don't agree about configuration!\n"),
    }
    let closed = no_open_slots(context, cluster, check.repairs)?;
    let covered = all_covered(context, cluster, check.repairs)?;
    let single = !context.settings.search_multiple_owners || single_owners(context, cluster, check.repairs)?;
    // Repairs settle what nodes disagree about, which takes them a moment to hear of.
    Ok((agree || check.repairs) && closed && covered && single)
}

fn no_open_slots(context: &Context<'_>, cluster: &mut Cluster, repairs: bool) -> Result<bool, Fail> {
    log::info(">>> Check for open slots...\n");
    let mut open = BTreeSet::new();
    for node in &cluster.nodes {
        for (list, state) in [(&node.own.migrating, "migrating"), (&node.own.importing, "importing")] {
            if !list.is_empty() {
                let slots = joined(list.iter().map(|OpenSlot { slot, .. }| slot));
                log::error(format!("[WARNING] Node {} has slots in {state} state {slots}.\n", node.place()));
                open.extend(list.iter().map(|one| one.slot));
            }
        }
    }
    if open.is_empty() {
        return Ok(true);
    }
    log::error(format!("[WARNING] The following slots are open: {}.\n", joined(open.iter())));
    if !repairs {
        return Ok(false);
    }
    let mut all = true;
    for slot in open {
        all &= fix::open_slot(context, cluster, slot)?;
    }
    Ok(all)
}

fn joined<'a>(slots: impl Iterator<Item = &'a u16>) -> String {
    slots.map(u16::to_string).collect::<Vec<_>>().join(",")
}

fn all_covered(context: &Context<'_>, cluster: &mut Cluster, repairs: bool) -> Result<bool, Fail> {
    log::info(">>> Check slots coverage...\n");
    let mut covered = SlotSet::new();
    cluster.nodes.iter().for_each(|node| covered.extend(&node.own.slots));
    if covered.len() == usize::from(SLOTS) {
        log::success(format!("[OK] All {SLOTS} slots covered.\n"));
        return Ok(true);
    }
    log::error(format!("[ERR] Not all {SLOTS} slots are covered by nodes.\n\n"));
    if !repairs {
        return Ok(false);
    }
    let missing: Vec<u16> = (0..SLOTS).filter(|slot| !covered.contains(slot)).collect();
    fix::coverage(context, cluster, &missing)
}

fn single_owners(context: &Context<'_>, cluster: &mut Cluster, repairs: bool) -> Result<bool, Fail> {
    log::info(">>> Check for multiple slot owners...\n");
    let (mut all, mut found) = (true, false);
    for slot in 0..SLOTS {
        let owners = fix::owners(cluster, slot);
        if owners.len() < 2 {
            continue;
        }
        found = true;
        log::warn(format!("[WARNING] Slot {slot} has {} owners:\n", owners.len()));
        owners.iter().for_each(|owner| log::plain(format!("    {}\n", cluster.nodes[*owner].place())));
        all &= repairs && fix::multiple_owners(context, cluster, slot, &owners)?;
    }
    if !found {
        log::success("[OK] No multiple owners found.\n");
    }
    Ok(all)
}

/// Checks a cluster, which has to be sound.
///
/// # Errors
/// `refusal` when it has problems that stay.
pub fn sound(context: &Context<'_>, cluster: &mut Cluster, how: Check, refusal: &str) -> Result<(), Fail> {
    if check(context, cluster, how)? { Ok(()) } else { Err(Fail::new(refusal)) }
}

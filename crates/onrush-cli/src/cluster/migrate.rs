//! Moving a slot with its keys from one node to another.

use std::time::Duration;

use super::context::Context;
use super::log;
use super::node::Node;
use super::view::Cluster;
use crate::fail::Fail;
use crate::reply::Reply;
use crate::target::Target;

/// What a replica says to SETSLOT: a node that was a primary when the cluster was looked at.
const ONLY_WITH_PRIMARIES: &str = "Please use SETSLOT only with masters";
/// The digest of a key that does not exist.
const NO_KEY: &str = "0000000000000000000000000000000000000000";

/// A slot on its way, by the places of nodes.
#[derive(Clone, Copy)]
pub struct Way {
    /// The slot.
    pub slot: u16,
    /// The node that has it.
    pub from: usize,
    /// The node that gets it.
    pub to: usize,
}

/// Moves a slot and its keys. With `is_told`, shows the slot, and a dot for each key.
///
/// # Errors
/// When a node is gone or refuses, or a key with another value is in the way; the slot may stay open then.
pub fn slot(context: &Context<'_>, cluster: &mut Cluster, way: Way, is_told: bool) -> Result<(), Fail> {
    let Some((from, to)) = cluster.two(way.from, way.to) else { return Ok(()) };
    if is_told {
        log::plain(format!("Moving slot {} from {} to {}: ", way.slot, from.place(), to.place()));
    }
    to.set_slot(way.slot, &["IMPORTING", &from.own.id])?;
    from.set_slot(way.slot, &["MIGRATING", &to.own.id])?;
    keys(context, cluster, way, is_told)?;
    if is_told {
        log::plain("\n");
    }
    assign(cluster, way.slot, way.to, Some(way.from))?;
    cluster.nodes[way.from].own.slots.remove(&way.slot);
    cluster.nodes[way.to].own.slots.insert(way.slot);
    Ok(())
}

/// Tells all primaries who the owner of a slot is: first the owner, then the node that had it, then the others. In this
/// order no node sends clients to one that does not know yet that it is the owner.
///
/// # Errors
/// When a node is gone or refuses.
pub fn assign(cluster: &mut Cluster, slot: u16, owner: usize, before: Option<usize>) -> Result<(), Fail> {
    let id = cluster.nodes[owner].own.id.clone();
    let first = std::iter::once(owner).chain(before);
    let rest = cluster.primaries().into_iter().filter(|node| *node != owner && Some(*node) != before);
    for node in first.chain(rest) {
        match cluster.nodes[node].set_slot(slot, &["NODE", &id]) {
            Err(error) if !error.to_string().contains(ONLY_WITH_PRIMARIES) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Moves the keys of a slot, and leaves the slot's owner as it is.
///
/// # Errors
/// When a node is gone or refuses, or a key with another value is in the way.
pub fn keys(context: &Context<'_>, cluster: &mut Cluster, way: Way, is_told: bool) -> Result<(), Fail> {
    let Some((from, to)) = cluster.two(way.from, way.to) else { return Ok(()) };
    let (slot, count) = (way.slot.to_string(), context.settings.pipeline.to_string());
    loop {
        let keys = from.ask(&["CLUSTER", "GETKEYSINSLOT", &slot, &count])?.strings();
        if keys.is_empty() {
            return Ok(());
        }
        some(context, from, to, &keys)?;
        if is_told {
            log::plain(".".repeat(keys.len()));
        }
    }
}

/// Moves these keys. One that is there already is overwritten if its value is the same, or `--cluster-replace` says so.
fn some(context: &Context<'_>, from: &mut Node, to: &mut Node, keys: &[Vec<u8>]) -> Result<(), Fail> {
    let reply = send(context, from, &to.target, keys, false)?;
    let Some(error) = reply.error() else { return Ok(()) };
    log::plain("\n");
    if !error.contains("BUSYKEY") {
        return Err(from.refusal(&error));
    }
    log::warn("*** Target key exists\n");
    if !context.settings.replace {
        log::warn("*** Checking key values on both nodes...\n");
        same_values(from, to, keys)?;
    }
    log::warn("*** Replacing target keys...\n");
    match send(context, from, &to.target, keys, true)?.error() {
        Some(error) => Err(from.refusal(&error)),
        None => Ok(()),
    }
}

fn send(context: &Context<'_>, from: &mut Node, to: &Target, keys: &[Vec<u8>], replaces: bool) -> Result<Reply, Fail> {
    let limit_ms = context.settings.timeout_ms;
    let mut words = command(to, b"", limit_ms);
    words.extend(replaces.then(|| b"REPLACE".to_vec()));
    words.push(b"KEYS".to_vec());
    words.extend_from_slice(keys);
    from.call_long(&words, Duration::from_millis(limit_ms))
}

/// MIGRATE to a node with the login there; `key` is empty if KEYS follows.
pub fn command(to: &Target, key: &[u8], limit_ms: u64) -> Vec<Vec<u8>> {
    let (host, port) = (to.host.clone().into_bytes(), to.port.to_string().into_bytes());
    let mut words = vec![b"MIGRATE".to_vec(), host, port, key.to_vec(), b"0".to_vec()];
    words.push(limit_ms.to_string().into_bytes());
    match (&to.user, &to.password) {
        (Some(user), Some(password)) if !user.is_empty() => {
            words.extend([b"AUTH2".to_vec(), user.clone(), password.clone()]);
        }
        (_, Some(password)) => words.extend([b"AUTH".to_vec(), password.clone()]),
        _ => {}
    }
    words
}

/// Checks that keys that are on both nodes have the same values.
fn same_values(from: &mut Node, to: &mut Node, keys: &[Vec<u8>]) -> Result<(), Fail> {
    let mut differing = Vec::new();
    for key in keys {
        let digests = digest(from, key).and_then(|own| Ok((own, digest(to, key)?)));
        let (own, other) = digests.inspect_err(|_| log::error("*** Value check failed!\n"))?;
        if own != other && own != NO_KEY && other != NO_KEY {
            differing.push(format!("    - {}\n", String::from_utf8_lossy(key)));
        }
    }
    if differing.is_empty() {
        return Ok(());
    }
    Err(Fail::new(format!(
        "*** Found {} key(s) in both source node and target node having different values.\n    Source node: {}\n    \
         Target node: {}\n    Keys(s):\n{}Please fix the above key(s) manually and try again or relaunch the command \n\
         with --cluster-replace option to force key overriding.",
        differing.len(),
        from.place(),
        to.place(),
        differing.concat()
    )))
}

fn digest(node: &mut Node, key: &[u8]) -> Result<String, Fail> {
    let reply = node.ask(&[b"DEBUG", &b"DIGEST-VALUE"[..], key])?;
    Ok(reply.items().and_then(|items| items.first()).map(Reply::text).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_login_goes_along() {
        let shown = |target: &Target| {
            let words = command(target, b"k", 5);
            words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>().join(" ")
        };
        let mut target = Target { host: "h".into(), port: 7000, ..Target::default() };
        assert_eq!(shown(&target), "MIGRATE h 7000 k 0 5");
        target.password = Some(b"p".to_vec());
        assert_eq!(shown(&target), "MIGRATE h 7000 k 0 5 AUTH p");
        target.user = Some(b"u".to_vec());
        assert_eq!(shown(&target), "MIGRATE h 7000 k 0 5 AUTH2 u p");
    }
}

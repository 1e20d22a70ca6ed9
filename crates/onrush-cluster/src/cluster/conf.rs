//! From and to the file of nodes.

use super::Cluster;
use super::actions::Now;
use super::gossip::is_ip;
use super::nodes::{Ix, MYSELF, Node, Nodes};
use super::options::Options;
use super::random::Random;
use super::receive::EPOCH_MAX;
use super::takeover::vote::Predecessor;
use crate::node::{Address, Flags, NodeId};
use crate::nodes_conf::{Move, NodeLine, NodesConf};

/// Flags that come back from the file.
const KEPT: Flags =
    Flags::PRIMARY.union(Flags::REPLICA).union(Flags::FAILED).union(Flags::NO_ADDRESS).union(Flags::MYSELF);

/// Why a file of nodes is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// No line says which node this is, or several do.
    #[error("exactly one node must have the flag myself")]
    Myself,
    /// Two lines are of the same node, or there are too many.
    #[error("node {0} has two lines, or is one of too many")]
    Twice(NodeId),
    /// Two lines claim a slot.
    #[error("slot {0} has two owners")]
    Slot(u16),
    /// An epoch is higher than any cluster can count.
    #[error("epoch {0} is too high")]
    Epoch(u64),
}

impl Cluster {
    /// The node of a file.
    ///
    /// # Errors
    /// The file does not say which node this is, or contradicts itself.
    pub fn restore(options: Options, seed: u64, conf: &NodesConf, now: Now) -> Result<Self, RestoreError> {
        let mut random = Random::new(seed);
        let mut own = conf.nodes.iter().filter(|line| line.flags.contains(Flags::MYSELF));
        let (Some(myself), None) = (own.next(), own.next()) else { return Err(RestoreError::Myself) };
        let node = node_of(myself, &options, &mut random, now);
        let mut cluster = Self::with(options, random, Nodes::new(node));
        cluster.begin(now);
        for line in conf.nodes.iter().filter(|line| !line.flags.contains(Flags::MYSELF)) {
            let node = node_of(line, &cluster.options, &mut cluster.random, now);
            cluster.nodes.add(node).ok_or(RestoreError::Twice(line.id))?;
        }
        cluster.restore_links(conf)?;
        cluster.restore_epochs(conf)?;
        cluster.slots.migrating = moves_of(myself, false);
        cluster.slots.importing = moves_of(myself, true);
        cluster.apply_options();
        cluster.notice(format!("Node configuration loaded, I'm {}", cluster.my_id()));
        cluster.state.must_update = true;
        cluster.save(true);
        cluster.routes_changed();
        Ok(cluster)
    }

    /// What lines say of each other, and of slots.
    fn restore_links(&mut self, conf: &NodesConf) -> Result<(), RestoreError> {
        for line in &conf.nodes {
            let Some(ix) = self.find(line.id) else { continue };
            if let Some(primary) = line.primary.filter(|id| *id != line.id && line.flags.contains(Flags::REPLICA)) {
                self.restore_primary(ix, primary);
            }
            for slot in line.slots.iter().cloned().flatten() {
                if self.slots.owner(slot).is_some() {
                    return Err(RestoreError::Slot(slot));
                }
                self.assign(slot, Some(ix));
            }
        }
        Ok(())
    }

    fn restore_primary(&mut self, ix: Ix, primary: NodeId) {
        self.nodes[ix].primary = Some(primary);
        if let Some(owner) = self.find(primary) {
            self.nodes[owner].flags.insert(Flags::MIGRATE_TO);
        }
    }

    fn restore_epochs(&mut self, conf: &NodesConf) -> Result<(), RestoreError> {
        let highest = conf.nodes.iter().map(|line| line.config_epoch).max().unwrap_or(0);
        let highest = highest.max(conf.current_epoch).max(conf.last_vote_epoch);
        if highest > EPOCH_MAX {
            return Err(RestoreError::Epoch(highest));
        }
        self.current_epoch = highest;
        self.last_vote_epoch = conf.last_vote_epoch;
        self.predecessor = Predecessor::of(conf.predecessor, self.now.mono_ms);
        for slots in &conf.orphaned {
            let unknown = slots.iter().filter(|slot| self.slots.owner(*slot).is_none()).collect();
            self.slots.orphan(unknown, self.now.mono_ms);
        }
        for slot in conf.unclaimed.iter() {
            if let Some(owner) = self.slots.owner(slot).filter(|ix| *ix != MYSELF) {
                self.slots.unclaimed.add(slot);
                self.nodes[owner].claims_all = false;
            }
        }
        Ok(())
    }

    /// What the file of nodes is to hold. O(slots and nodes).
    pub fn nodes_conf(&self) -> NodesConf {
        let lines = self.nodes.iter().filter(|(_, node)| !node.has(Flags::HANDSHAKE));
        NodesConf {
            nodes: lines.map(|(ix, node)| self.file_line(ix, node)).collect(),
            current_epoch: self.current_epoch,
            last_vote_epoch: self.last_vote_epoch,
            predecessor: self.predecessor.node.map(|(id, _)| id),
            orphaned: self.slots.orphaned(),
            unclaimed: self.slots.unclaimed.clone(),
        }
    }

    fn file_line(&self, ix: Ix, node: &Node) -> NodeLine {
        let mut line = self.line(ix, node);
        line.hostname = Some(node.hostname.clone());
        line.fields.push(("shard-id".to_owned(), node.shard.to_string()));
        if !node.nodename.is_empty() {
            line.fields.push(("nodename".to_owned(), node.nodename.clone()));
        }
        let other = if self.options.tls_cluster { "tcp-port" } else { "tls-port" };
        line.fields.push((other.to_owned(), node.address.other_port.to_string()));
        line
    }

    /// A node's line in CLUSTER NODES.
    pub(super) fn line(&self, ix: Ix, node: &Node) -> NodeLine {
        let wall = |time_ms: Option<u64>| time_ms.map_or(0, |time_ms| self.wall_ms(time_ms).cast_signed());
        NodeLine {
            id: node.id,
            address: node.address.clone(),
            hostname: (!node.hostname.is_empty()).then(|| node.hostname.clone()),
            fields: Vec::new(),
            flags: node.flags,
            primary: node.primary,
            ping_sent_ms: wall(node.ping_sent_ms),
            pong_received_ms: wall(node.pong_received_ms),
            config_epoch: self.shown_epoch(node),
            is_connected: ix == MYSELF || self.link_to(ix).is_some(),
            slots: node.slots.ranges(),
            moves: if ix == MYSELF { self.moves() } else { Vec::new() },
        }
    }

    fn moves(&self) -> Vec<Move> {
        let go = self.slots.migrating.iter().map(|(slot, other)| Move { slot: *slot, comes: false, other: *other });
        let come = self.slots.importing.iter().map(|(slot, other)| Move { slot: *slot, comes: true, other: *other });
        let mut moves: Vec<Move> = go.chain(come).collect();
        moves.sort_by_key(|one| one.slot);
        moves
    }
}

fn moves_of(line: &NodeLine, comes: bool) -> std::collections::BTreeMap<u16, NodeId> {
    line.moves.iter().filter(|one| one.comes == comes).map(|one| (one.slot, one.other)).collect()
}

fn node_of(line: &NodeLine, options: &Options, random: &mut Random, now: Now) -> Node {
    let field = |name: &str| line.fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
    let shard = field("shard-id").and_then(|shard| shard.parse().ok()).unwrap_or_else(|| random.id());
    let other = field(if options.tls_cluster { "tcp-port" } else { "tls-port" });
    let other_port = other.and_then(|port| port.parse().ok()).unwrap_or(0);
    let mut flags = line.flags & KEPT;
    if !flags.contains(Flags::REPLICA) {
        flags.insert(Flags::PRIMARY);
    }
    if !is_ip(&line.address.ip) && !flags.contains(Flags::MYSELF) {
        flags.insert(Flags::NO_ADDRESS);
    }
    let address = Address { other_port, ..line.address.clone() };
    let mut node = Node::new(line.id, flags, address, shard, now.mono_ms);
    node.hostname = line.hostname.clone().unwrap_or_default();
    node.nodename = field("nodename").unwrap_or_default().to_owned();
    // A replica's line has its primary's epoch, which would be too high for it once it is a primary again.
    node.config_epoch = if flags.contains(Flags::REPLICA) { 0 } else { line.config_epoch };
    node.failed_ms = now.mono_ms;
    node
}

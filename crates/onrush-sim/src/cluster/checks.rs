//! What has to be true, always and in the end.

use std::collections::{HashMap, HashSet};

use onrush_cluster::cluster::view::Role;
use onrush_cluster::cluster::{Cluster, LinkId};
use onrush_cluster::message::{Body, Message};
use onrush_cluster::node::{Flags, NodeId};
use onrush_cluster::nodes_conf::NodeLine;
use onrush_cluster::slots::{SLOTS, SlotSet};

use super::world::{Broken, World};

/// After all agree they are watched for so many node timeouts.
const WATCHED_TIMEOUTS: u64 = 3;

/// Two primaries with the same epoch hear of each other within so much time, and so many node timeouts, after the healing.
const COLLISION_MS: u64 = 5_000;
const COLLISION_TIMEOUTS: u64 = 5;

/// What has been seen.
#[derive(Default)]
pub struct Checks {
    /// Who voted in an epoch, and for which node.
    votes: HashMap<(NodeId, u64), usize>,
    /// Who won the election of an epoch.
    wins: HashMap<u64, NodeId>,
    agreed_ms: Option<u64>,
    /// Replicas that wait until they may ask for votes.
    pub about_to_ask: Vec<usize>,
}

/// What a node thinks of another one, but for times.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Opinion {
    id: NodeId,
    flags: u16,
    primary: Option<NodeId>,
    epoch: u64,
    slots: Vec<(u16, u16)>,
}

impl World {
    /// A message goes out: no node votes twice in an epoch.
    pub fn check_sent(&mut self, node: usize, links: &[LinkId], message: &Message) -> Result<(), Broken> {
        match message.body {
            Body::AuthRequest => self.shown.elections += 1,
            Body::AuthAck => return self.check_vote(node, links, message),
            _ => {}
        }
        Ok(())
    }

    fn check_vote(&mut self, node: usize, links: &[LinkId], message: &Message) -> Result<(), Broken> {
        let (voter, epoch) = (message.header.sender, message.header.current_epoch);
        for link in links {
            let conn = self.nodes[node].conns.get(link).and_then(|(id, end)| {
                let conn = self.network.conns.get(id)?;
                Some(conn.sockets[1 - *end].node)
            });
            let Some(candidate) = conn else { continue };
            if let Some(before) = self.checks.votes.insert((voter, epoch), candidate) {
                return Err(format!(
                    "node {node} votes twice in epoch {epoch}: for node {before}, and for {candidate}"
                ));
            }
        }
        Ok(())
    }

    /// What a node logs tells of its elections.
    pub fn check_log(&mut self, node: usize, text: &str) -> Result<(), Broken> {
        if text.starts_with("Failover election won") {
            self.check_win(node)
        } else if text.starts_with("All master replication stream processed") {
            self.check_offset(node)
        } else {
            if text.starts_with("Start of election delayed") {
                self.checks.about_to_ask.push(node);
            } else if text.starts_with("Starting a failover election") {
                self.isolate_rivals(node);
            }
            Ok(())
        }
    }

    /// No epoch has two winners.
    fn check_win(&mut self, node: usize) -> Result<(), Broken> {
        let Some(cluster) = &self.nodes[node].cluster else { return Ok(()) };
        let (id, epoch) = (cluster.my_id(), cluster.my_config_epoch());
        self.shown.wins += 1;
        match self.checks.wins.insert(epoch, id).filter(|before| *before != id) {
            Some(before) => Err(format!("{before} and {id} (node {node}) both win epoch {epoch}")),
            None => Ok(()),
        }
    }

    /// A replica that takes over by hand has all that its primary, which holds its clients, has.
    fn check_offset(&self, node: usize) -> Result<(), Broken> {
        let data = &self.nodes[node].data;
        let Some(primary) = data.primary.map(|primary| &self.nodes[primary]) else { return Ok(()) };
        let is_held = primary.cluster.is_some() && primary.data.paused_until_ms > self.now_ms;
        match is_held && primary.data.offset != data.offset {
            true => Err(format!("node {node} takes over at {} of {} bytes", data.offset, primary.data.offset)),
            false => Ok(()),
        }
    }

    /// Of two primaries that claim a slot in the same epoch one takes another epoch as soon as it hears of the other.
    fn check_claims(&self) -> Result<(), Broken> {
        let timeout_ms = self.plan.node_timeout_ms;
        if self.now_ms < self.plan.quiet_at_ms() + COLLISION_MS + COLLISION_TIMEOUTS * timeout_ms {
            return Ok(());
        }
        let mut claims: HashMap<u64, (usize, SlotSet)> = HashMap::new();
        for (nth, node) in self.nodes.iter().enumerate() {
            let Some((epoch, slots)) = node.cluster.as_ref().and_then(claim) else { continue };
            if let Some((other, others)) = claims.get(&epoch)
                && let Some(slot) = slots.iter().find(|slot| others.has(*slot))
            {
                return Err(format!("nodes {other} and {nth} both claim slot {slot} in epoch {epoch}"));
            }
            claims.insert(epoch, (nth, slots));
        }
        Ok(())
    }

    /// Whether the run has ended well: all agree, and have for some time.
    pub fn is_over(&mut self) -> Result<bool, Broken> {
        self.check_claims()?;
        let quiet_ms = self.plan.quiet_at_ms();
        let Err(why) = self.agree() else {
            let agreed_ms = *self.checks.agreed_ms.get_or_insert(self.now_ms);
            self.shown.healed_ms = agreed_ms - quiet_ms;
            let watched_ms = if self.plan.faults_ms == 0 { 0 } else { WATCHED_TIMEOUTS * self.plan.node_timeout_ms };
            return Ok(self.now_ms - agreed_ms >= watched_ms);
        };
        if self.checks.agreed_ms.take().is_some() {
            self.note(&format!("no agreement any more: {why}"));
        }
        if self.now_ms - quiet_ms > self.plan.bound_ms() {
            return Err(format!(
                "no agreement {} ms after the healing: {why}\n{}",
                self.now_ms - quiet_ms,
                self.views()
            ));
        }
        Ok(false)
    }

    /// All nodes think the same of all, and each slot is served.
    fn agree(&self) -> Result<(), String> {
        if self.operator.is_busy() {
            return Err("the operator has something to do".to_owned());
        }
        let mut all: Option<Vec<Opinion>> = None;
        for (nth, node) in self.nodes.iter().enumerate() {
            let cluster = node.cluster.as_ref().ok_or_else(|| format!("node {nth} is down"))?;
            if !cluster.is_up() {
                return Err(format!("node {nth} says that the cluster is down"));
            }
            let opinions = opinions(cluster);
            match &all {
                None => all = Some(opinions),
                Some(first) if *first != opinions => return Err(format!("nodes 0 and {nth} differ")),
                Some(_) => {}
            }
        }
        self.check_opinions(&all.unwrap_or_default())
    }

    fn check_opinions(&self, all: &[Opinion]) -> Result<(), String> {
        if all.len() != self.nodes.len() {
            return Err(format!("{} nodes are known", all.len()));
        }
        let bad = Flags::MAYBE_FAILED | Flags::FAILED | Flags::NO_ADDRESS;
        if let Some(one) = all.iter().find(|one| one.flags & bad.bits() != 0) {
            return Err(format!("{} is bad", one.id));
        }
        let covered: usize =
            all.iter().flat_map(|one| &one.slots).map(|(first, last)| usize::from(last - first) + 1).sum();
        if covered != usize::from(SLOTS) {
            return Err(format!("{covered} slots are covered"));
        }
        let mut epochs = HashSet::new();
        match all.iter().filter(|one| !one.slots.is_empty()).find(|one| !epochs.insert(one.epoch)) {
            Some(one) => Err(format!("two primaries have epoch {}", one.epoch)),
            None => Ok(()),
        }
    }

    fn views(&self) -> String {
        let view = |(nth, node): (usize, &super::node::Node)| {
            let text = node.cluster.as_ref().map_or("down\n".to_owned(), Cluster::nodes_text);
            format!("node {nth}:\n{text}")
        };
        self.nodes.iter().enumerate().map(view).collect()
    }

    /// Notes a change of a node's role.
    pub fn check_role(&mut self, node: usize) {
        let Some(cluster) = &self.nodes[node].cluster else { return };
        let is_primary = cluster.role() == Role::Primary;
        if is_primary != self.nodes[node].was_primary {
            self.nodes[node].was_primary = is_primary;
            self.note(&format!("{node:>3} is a {} now", if is_primary { "primary" } else { "replica" }));
        }
    }
}

/// The epoch and the slots of a primary, as it says itself.
fn claim(cluster: &Cluster) -> Option<(u64, SlotSet)> {
    let slots = own_slots(cluster);
    (!slots.is_empty()).then(|| (cluster.my_config_epoch(), slots))
}

/// The slots of a node, as it says itself.
pub fn own_slots(cluster: &Cluster) -> SlotSet {
    let routes = cluster.routes();
    (0..SLOTS).filter(|slot| routes.owners[usize::from(*slot)] == routes.myself).collect()
}

fn opinions(cluster: &Cluster) -> Vec<Opinion> {
    let told = Flags::PRIMARY | Flags::REPLICA | Flags::MAYBE_FAILED | Flags::FAILED | Flags::NO_ADDRESS;
    let opinion = |line: &NodeLine| Opinion {
        id: line.id,
        flags: (line.flags & told).bits(),
        primary: line.primary,
        // Without slots an epoch means nothing; a node may have lost it.
        epoch: if line.slots.is_empty() { 0 } else { line.config_epoch },
        slots: line.slots.iter().map(|range| (*range.start(), *range.end())).collect(),
    };
    let mut all: Vec<Opinion> = cluster.nodes_conf().nodes.iter().map(opinion).collect();
    all.sort();
    all
}

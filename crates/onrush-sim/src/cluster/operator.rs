//! An operator: forms the cluster, replaces nodes that lost their disk, and moves slots.

use onrush_cluster::cluster::Cluster;
use onrush_cluster::cluster::view::{NO_NODE, Role};
use onrush_cluster::node::NodeId;
use onrush_cluster::slots::SLOTS;
use onrush_store::Random;

use super::checks::own_slots;
use super::hand_overs::HandOver;
use super::plan::{BUS_PORT, PORT, Plan, ip};
use super::world::{Broken, World};

/// How far a new cluster is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Forming {
    Slots,
    Replicas,
    Done,
}

/// What an operator has to do.
pub struct Operator {
    forming: Forming,
    newcomer: Option<usize>,
    /// Nodes that are not to come back.
    gone: Vec<NodeId>,
    slot_to_move: Option<u16>,
    /// Slots that are handed over.
    pub hand_over: Option<HandOver>,
}

impl Operator {
    /// One with a cluster to form, or none.
    pub fn new(plan: &Plan) -> Self {
        let forming = if plan.meets { Forming::Slots } else { Forming::Done };
        Self { forming, newcomer: None, gone: Vec::new(), slot_to_move: None, hand_over: None }
    }

    /// Whether there is something to do that the cluster cannot do without.
    pub fn is_busy(&self) -> bool {
        self.forming != Forming::Done
            || self.newcomer.is_some()
            || self.slot_to_move.is_some()
            || self.hand_over.is_some()
    }

    /// A node has lost its name.
    pub fn replace(&mut self, node: usize, id: NodeId) {
        self.newcomer = Some(node);
        self.gone.push(id);
    }

    /// A slot is to move to another shard.
    pub fn begin_move(&mut self, random: &mut Random) {
        self.slot_to_move = Some(random.below(usize::from(SLOTS)) as u16);
    }
}

impl World {
    /// The operator looks, and does what is next.
    pub fn operate(&mut self) -> Result<(), Broken> {
        match self.operator.forming {
            Forming::Slots => self.form()?,
            Forming::Replicas => self.add_replicas()?,
            Forming::Done => {}
        }
        if let Some(node) = self.operator.newcomer {
            self.join(node)?;
        }
        self.forget_gone()?;
        self.meet_lonely()?;
        if let Some(slot) = self.operator.slot_to_move.take_if(|_| !self.is_quiet) {
            self.move_slot(slot)?;
        }
        if self.is_quiet {
            self.operator.slot_to_move = None;
            self.end_moves()?;
        }
        Ok(())
    }

    fn ids(&self) -> Vec<Option<NodeId>> {
        self.nodes.iter().map(|node| node.cluster.as_ref().map(Cluster::my_id)).collect()
    }

    fn is_awake(&self, node: usize) -> bool {
        self.nodes[node].is_awake(self.now_ms)
    }

    /// Whether a node runs, and takes itself for a primary.
    pub fn is_primary(&self, node: usize) -> bool {
        self.nodes[node].cluster.as_ref().is_some_and(|cluster| cluster.role() == Role::Primary)
    }

    fn form(&mut self) -> Result<(), Broken> {
        if self.nodes.iter().any(|node| node.cluster.is_none()) {
            return Ok(());
        }
        for shard in 0..self.plan.shards {
            let slots: Vec<u16> = self.plan.slots(shard).collect();
            self.act(shard, |cluster, now, _| cluster.set_config_epoch(shard as i64 + 1, now))?;
            self.act(shard, |cluster, now, _| cluster.add_slots(&slots, now))?;
        }
        for node in 1..self.nodes.len() {
            self.meet(0, node)?;
        }
        self.operator.forming = Forming::Replicas;
        Ok(())
    }

    fn meet(&mut self, node: usize, other: usize) -> Result<(), Broken> {
        let address = ip(other, self.nodes[other].moves);
        let bus_port = Some(i64::from(BUS_PORT));
        self.act(node, |cluster, now, _| cluster.meet(&address, i64::from(PORT), bus_port, now)).map(drop)
    }

    fn add_replicas(&mut self) -> Result<(), Broken> {
        let ids = self.ids();
        let knows_all = |cluster: &Cluster| ids.iter().all(|id| id.is_some_and(|id| cluster.has_node(id)));
        let strangers: Vec<usize> =
            (1..self.nodes.len()).filter(|nth| !self.nodes[*nth].cluster.as_ref().is_some_and(knows_all)).collect();
        for node in &strangers {
            if !self.knows(0, *node) {
                self.meet(0, *node)?;
            }
        }
        if !strangers.is_empty() {
            return Ok(());
        }
        let mut is_done = true;
        for node in self.plan.shards..self.nodes.len() {
            if self.is_primary(node) && !self.has_slots(node) {
                is_done = false;
                let first = self.plan.shard(node);
                let is_still = self.is_primary(first) && self.has_slots(first);
                let primary = if is_still { first } else { self.random.below(self.nodes.len()) };
                self.follow_someone(node, primary)?;
            }
        }
        if is_done {
            self.operator.forming = Forming::Done;
        }
        Ok(())
    }

    fn knows(&self, node: usize, other: usize) -> bool {
        let id = self.ids()[other];
        self.nodes[node].cluster.as_ref().is_some_and(|cluster| id.is_some_and(|id| cluster.has_node(id)))
    }

    fn has_slots(&self, node: usize) -> bool {
        self.nodes[node].cluster.as_ref().is_some_and(|cluster| !own_slots(cluster).is_empty())
    }

    /// A node follows another one, if that is a primary with slots.
    fn follow_someone(&mut self, node: usize, primary: usize) -> Result<(), Broken> {
        let Some(id) = self.ids()[primary].filter(|_| self.is_primary(primary) && self.has_slots(primary)) else {
            return Ok(());
        };
        if self.is_awake(node) {
            let result = self.act(node, |cluster, now, host| cluster.replicate(id.as_str(), now, host))?;
            self.note(&format!("{node:>3} is told to follow {primary}: {result:?}"));
        }
        Ok(())
    }

    /// A node with a new name is asked in, and made a replica.
    fn join(&mut self, node: usize) -> Result<(), Broken> {
        if !self.is_awake(node) {
            return Ok(());
        }
        if !self.is_primary(node) || self.has_slots(node) {
            self.operator.newcomer = None;
            return Ok(());
        }
        let Some(id) = self.ids()[node] else { return Ok(()) };
        let helper = self.random.below(self.nodes.len());
        let Some(cluster) = self.nodes[helper].cluster.as_ref().filter(|_| helper != node && self.is_awake(helper))
        else {
            return Ok(());
        };
        if cluster.has_node(id) {
            let target = self.random.below(self.nodes.len());
            self.follow_someone(node, target)
        } else {
            self.meet(helper, node)
        }
    }

    /// A node that has lost what it knew of all others, or knows only addresses that nobody has any more, is asked in again:
    /// nobody else can do anything about it.
    fn meet_lonely(&mut self) -> Result<(), Broken> {
        let is_lonely = |cluster: &Cluster| {
            let lines = cluster.nodes_conf().nodes;
            !lines.iter().any(|line| line.id != cluster.my_id() && line.is_connected)
        };
        for node in 0..self.nodes.len() {
            let helper = self.random.below(self.nodes.len());
            let may_help = self.is_quiet && helper != node && self.operator.forming == Forming::Done;
            if may_help && self.nodes[node].cluster.as_ref().is_some_and(is_lonely) {
                self.meet(helper, node)?;
            }
        }
        Ok(())
    }

    /// Names that are lost are forgotten by all that run, once they own nothing.
    fn forget_gone(&mut self) -> Result<(), Broken> {
        for id in self.operator.gone.clone() {
            for node in 0..self.nodes.len() {
                let knows =
                    self.nodes[node].cluster.as_ref().is_some_and(|cluster| cluster.has_node(id) && !owns(cluster, id));
                if knows && self.is_awake(node) {
                    let result = self.act(node, |cluster, now, _| cluster.forget(id.as_str(), now))?;
                    if matches!(result, Some(Err(_))) {
                        // It follows the node that is lost.
                        let other = self.random.below(self.nodes.len());
                        self.follow_someone(node, other)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Moves a slot as redis-cli does. Whoever does not take part keeps it as it was.
    fn move_slot(&mut self, slot: u16) -> Result<(), Broken> {
        let (from, to) = (self.random.below(self.nodes.len()), self.random.below(self.nodes.len()));
        let (Some(source), Some(target)) = (self.ids()[from], self.ids()[to]) else { return Ok(()) };
        let owns_slot = self.nodes[from].cluster.as_ref().is_some_and(|cluster| own_slots(cluster).has(slot));
        if from == to || !owns_slot || !self.is_awake(to) || !self.is_awake(from) {
            return Ok(());
        }
        self.note(&format!("slot {slot} moves from {from} to {to}"));
        let imports = self.act(to, |cluster, now, _| cluster.set_slot_importing(slot, source.as_str(), now))?;
        let leaves = self.act(from, |cluster, now, _| cluster.set_slot_migrating(slot, target.as_str(), now))?;
        if imports == Some(Ok(())) && leaves == Some(Ok(())) && self.random.below(4) > 0 {
            let run = self.nodes[to].run;
            let has = self.act(to, |cluster, now, host| cluster.set_slot_node(slot, target.as_str(), now, host))?;
            if has != Some(Ok(())) || self.nodes[to].cluster.is_none() || self.nodes[to].run != run {
                return Ok(());
            }
            self.act(from, |cluster, now, host| cluster.set_slot_node(slot, target.as_str(), now, host))?;
        }
        Ok(())
    }

    /// No slot stays on its way.
    fn end_moves(&mut self) -> Result<(), Broken> {
        for node in 0..self.nodes.len() {
            let Some(cluster) = &self.nodes[node].cluster else { continue };
            let routes = cluster.routes();
            for moving in routes.importing.iter().chain(&routes.migrating) {
                self.act(node, |cluster, now, _| cluster.set_slot_stable(moving.slot, now))?;
            }
        }
        Ok(())
    }
}

fn owns(cluster: &Cluster, id: NodeId) -> bool {
    let routes = cluster.routes();
    let place = routes.nodes.iter().position(|node| node.id == id).map_or(NO_NODE, |place| place as u16);
    place != NO_NODE && routes.owners.contains(&place)
}

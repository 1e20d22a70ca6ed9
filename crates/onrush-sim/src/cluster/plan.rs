//! What a run is to be like.

use onrush_cluster::cluster::Options;
use onrush_cluster::node::{Address, Flags, NodeId};
use onrush_cluster::nodes_conf::{NodeLine, NodesConf};
use onrush_cluster::slots::{SLOTS, SlotSet};
use onrush_store::Random;

/// A fault that has to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// Votes go out before they are saved, which the node's next save does.
    VoteBeforeSave,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// How many nodes; drawn if it is not given.
    pub nodes: Option<usize>,
    /// How long faults happen, in simulated milliseconds; drawn if it is not given. 0: the cluster idles for a minute.
    pub faults_ms: Option<u64>,
    /// A fault of our own.
    pub plant: Option<Plant>,
    /// While faults happen, a replica is told to take over by CLUSTER FAILOVER FORCE within so many simulated milliseconds of
    /// the one before, for many elections in little time.
    pub forced_every_ms: Option<u64>,
}

/// How long a cluster without faults is watched.
const IDLE_MS: u64 = 60_000;

/// What was drawn for a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Shards; each has a primary.
    pub shards: usize,
    /// All nodes.
    pub nodes: usize,
    /// Whether nodes meet at the beginning, or know each other already.
    pub meets: bool,
    /// `cluster-node-timeout`.
    pub node_timeout_ms: u64,
    /// The time of a message on its way, at least and at most.
    pub latency_ms: (u64, u64),
    /// How long faults happen.
    pub faults_ms: u64,
    /// Time between two faults, at most.
    pub fault_every_ms: u64,
    /// Of so many events with something to save one ends in a crash between two actions.
    pub crash_one_in: usize,
    /// A fault of our own.
    pub plant: Option<Plant>,
    /// Time between two replicas that are told to take over, at most.
    pub forced_every_ms: Option<u64>,
}

impl Plan {
    /// Draws it.
    pub fn new(random: &mut Random, settings: &Settings) -> Self {
        let shards = 3 + 2 * random.below(3);
        let nodes = settings.nodes.unwrap_or(shards * 2 + random.below(shards + 1));
        let shards = if settings.nodes.is_some() { nodes.div_ceil(2) } else { shards };
        let node_timeout_ms = [500, 1_000, 2_000, 5_000][random.below(4)];
        let slowest_ms = (node_timeout_ms / 4).min([2, 20, 100, 400][random.below(4)]);
        let drawn_ms = 20 * node_timeout_ms + 1_000 * random.below(60) as u64;
        let faults_ms = settings.faults_ms.unwrap_or(drawn_ms);
        Self {
            shards,
            nodes,
            meets: settings.nodes.is_none() && random.below(8) == 0,
            node_timeout_ms: if faults_ms == 0 { 15_000 } else { node_timeout_ms },
            latency_ms: (1, slowest_ms.max(1)),
            faults_ms,
            fault_every_ms: [300, 1_500, 5_000][random.below(3)],
            crash_one_in: [20, 100, 1_000][random.below(3)],
            plant: settings.plant,
            forced_every_ms: settings.forced_every_ms,
        }
    }

    /// How long it takes until everything is healed: nothing more goes wrong from then on.
    pub fn quiet_at_ms(&self) -> u64 {
        if self.faults_ms == 0 { IDLE_MS } else { self.faults_ms }
    }

    /// Until all agree after that, at most: failures are noticed and forgotten, elections are held one after the other, and
    /// a replica that cannot take over has waited for the next time.
    pub fn bound_ms(&self) -> u64 {
        60_000 + 40 * self.node_timeout_ms
    }

    /// The shard of a node.
    pub fn shard(&self, node: usize) -> usize {
        node % self.shards
    }

    /// The slots of a shard.
    pub fn slots(&self, shard: usize) -> std::ops::RangeInclusive<u16> {
        let begin = |shard: usize| (usize::from(SLOTS) * shard / self.shards) as u16;
        begin(shard)..=begin(shard + 1) - 1
    }

    /// The directives of a node.
    pub fn options(&self, node: usize) -> Options {
        Options {
            node_timeout_ms: self.node_timeout_ms,
            // No shard may be without a replica that takes over.
            replica_validity_factor: 0,
            bus_port: BUS_PORT,
            announce_hostname: if node.is_multiple_of(3) { format!("host-{node}") } else { String::new() },
            ..Options::default()
        }
    }

    /// The file of a node that knows the others.
    pub fn conf(&self, ids: &[NodeId], node: usize) -> NodesConf {
        let lines = (0..self.nodes).map(|nth| self.line(ids, nth, nth == node));
        NodesConf {
            nodes: lines.collect(),
            current_epoch: self.shards as u64,
            last_vote_epoch: 0,
            predecessor: None,
            orphaned: Vec::new(),
            unclaimed: SlotSet::new(),
        }
    }

    fn line(&self, ids: &[NodeId], node: usize, is_own: bool) -> NodeLine {
        let shard = self.shard(node);
        let is_primary = node < self.shards;
        let mut flags = if is_primary { Flags::PRIMARY } else { Flags::REPLICA };
        flags.set(Flags::MYSELF, is_own);
        NodeLine {
            id: ids[node],
            address: Address { ip: ip(node, 0), port: PORT, other_port: 0, bus_port: BUS_PORT },
            hostname: None,
            fields: vec![("shard-id".to_owned(), ids[shard].to_string())],
            flags,
            primary: (!is_primary).then(|| ids[shard]),
            ping_sent_ms: 0,
            pong_received_ms: 0,
            config_epoch: shard as u64 + 1,
            is_connected: false,
            slots: if is_primary { vec![self.slots(shard)] } else { Vec::new() },
            moves: Vec::new(),
        }
    }
}

/// The port for clients of all nodes.
pub const PORT: u16 = 6379;

/// The bus port of all nodes.
pub const BUS_PORT: u16 = 16_379;

/// The address of a node that has moved so many times.
pub fn ip(node: usize, moves: u32) -> String {
    format!("10.{}.{}.{}", moves % 256, node / 256, node % 256)
}

/// The node of an address.
pub fn node_at(ip: &str) -> Option<usize> {
    let mut parts = ip.split('.').skip(2).map(|part| part.parse::<usize>().ok());
    Some(parts.next()?? * 256 + parts.next()??)
}

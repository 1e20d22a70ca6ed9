//! All nodes of a cluster that can be reached, found by asking one of them.

use std::time::{Duration, Instant};

use super::address::Address;
use super::context::Context;
use super::log::{self, told};
use super::node::Node;
use super::nodes_text::{Line, signature};
use crate::fail::Fail;
use crate::target::Target;

/// How long nodes may take to hear of each other.
const JOIN_MAX: Duration = Duration::from_secs(60);
/// How long nodes that disagree may take to agree.
const SETTLE_MAX: Duration = Duration::from_secs(3);
/// How often they are asked whether they have.
const JOIN_STEP: Duration = Duration::from_millis(100);
/// How often a dot is shown meanwhile.
const DOT_EVERY: Duration = Duration::from_secs(1);
/// A cluster has no more nodes that we would talk to.
const NODES_MAX: usize = 16_384;

/// The nodes; the one that was asked comes first.
pub struct Cluster {
    /// Those that can be reached.
    pub nodes: Vec<Node>,
    /// Primaries that cannot.
    pub unreachable_primaries: usize,
}

impl Cluster {
    /// Asks a node for all others, and these about themselves.
    ///
    /// # Errors
    /// When that node cannot be reached or is in no cluster.
    pub fn load(context: &Context<'_>, address: &Address) -> Result<Cluster, Fail> {
        let base = &context.options.target;
        let mut first = Node::open(base, address).map_err(told)?;
        first.check_mode()?;
        let others = first.load()?;
        let mut cluster = Cluster { nodes: vec![first], unreachable_primaries: 0 };
        for line in others.into_iter().take(NODES_MAX) {
            match reached(base, &line) {
                Some(node) => cluster.nodes.push(node),
                None => cluster.unreachable_primaries += usize::from(!line.has("slave")),
            }
        }
        cluster.count_replicas();
        Ok(cluster)
    }

    fn count_replicas(&mut self) {
        for index in 0..self.nodes.len() {
            let Some(id) = self.nodes[index].own.replicates.clone() else { continue };
            match self.nodes.iter_mut().find(|node| node.own.id == id) {
                Some(primary) => primary.replicas_len += 1,
                None => {
                    let place = self.nodes[index].place();
                    log::warn(format!("*** WARNING: {place} claims to be slave of unknown node ID {id}.\n"));
                }
            }
        }
    }

    /// The place of the node with this id.
    pub fn find(&self, id: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.own.id.eq_ignore_ascii_case(id))
    }

    /// The places of the primaries.
    pub fn primaries(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|index| !self.nodes[*index].is_replica()).collect()
    }

    /// The place of the primary with the fewest replicas, but for one of them.
    pub fn least_replicated(&self, but: Option<usize>) -> Option<usize> {
        let candidates = self.primaries().into_iter().filter(|index| Some(*index) != but);
        candidates.min_by_key(|index| self.nodes[*index].replicas_len)
    }

    /// Two different nodes of it.
    pub fn two(&mut self, one: usize, other: usize) -> Option<(&mut Node, &mut Node)> {
        self.nodes.get_disjoint_mut([one, other]).ok().map(|[one, other]| (one, other))
    }

    /// Whether all nodes say the same of who serves which slots; gives them a moment to hear of a change.
    ///
    /// # Errors
    /// When a node is gone.
    pub fn settle(&mut self) -> Result<bool, Fail> {
        let started = Instant::now();
        while !self.agrees()? {
            if started.elapsed() > SETTLE_MAX {
                return Ok(false);
            }
            std::thread::sleep(JOIN_STEP);
            self.nodes.iter_mut().try_for_each(|node| node.load().map(drop))?;
        }
        Ok(true)
    }

    /// Whether all nodes say the same of who serves which slots.
    ///
    /// # Errors
    /// When a node is gone.
    pub fn agrees(&mut self) -> Result<bool, Fail> {
        let mut first = None;
        for node in &mut self.nodes {
            let own = signature(&node.nodes()?);
            if *first.get_or_insert_with(|| own.clone()) != own {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits until all nodes know all others and agree about slots.
    ///
    /// # Errors
    /// When they do not in time, or a node is gone.
    pub fn wait_until_joined(&mut self) -> Result<(), Fail> {
        log::plain("Waiting for the cluster to join\n");
        let (started, mut dot) = (Instant::now(), Instant::now());
        while !self.has_joined()? {
            if started.elapsed() > JOIN_MAX {
                return Err(self.not_joined());
            }
            std::thread::sleep(JOIN_STEP);
            if dot.elapsed() >= DOT_EVERY {
                log::plain(".");
                dot = Instant::now();
            }
        }
        log::plain("\n");
        Ok(())
    }

    fn has_joined(&mut self) -> Result<bool, Fail> {
        let known = self.nodes.len();
        for node in &mut self.nodes {
            let lines = node.nodes()?;
            if lines.len() < known || lines.iter().any(|line| line.has("handshake")) {
                return Ok(false);
            }
        }
        self.agrees()
    }

    fn not_joined(&mut self) -> Fail {
        let known = self.nodes.len();
        let lonely = self.nodes.iter_mut().filter_map(|node| {
            let len = node.nodes().map_or(0, |lines| lines.iter().filter(|line| !line.has("handshake")).count());
            (len < known).then(|| format!("\n - Node {} knows {len} of {known} nodes", node.place()))
        });
        let lonely: String = lonely.collect();
        Fail::new(format!(
            "\n[ERR] The nodes have not joined after {} seconds.{lonely}\nCluster bus ports must be reachable by every \
             node.\nRemember that cluster bus ports are different from standard instance ports.",
            JOIN_MAX.as_secs()
        ))
    }

    /// Shows all nodes.
    pub fn show(&self) {
        self.nodes.iter().for_each(|node| log::plain(node.description(0)));
    }
}

/// A node that another one knows; `None`, with the reason shown, if it cannot be reached.
fn reached(base: &Target, line: &Line) -> Option<Node> {
    if line.is_gone() {
        return None;
    }
    let address = line.address.as_ref().filter(|at| !at.host.is_empty())?;
    let open = || {
        let mut node = Node::open(base, address)?;
        node.load()?;
        Ok(node)
    };
    open().inspect_err(|error: &Fail| complain!("{error}")).ok()
}

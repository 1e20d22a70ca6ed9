//! The replies of CLUSTER INFO and CLUSTER NODES.

use std::fmt::Write;

use super::Cluster;
use super::commands::refuse_if;
use super::nodes::{MYSELF, Node};
use crate::node::Flags;

impl Cluster {
    /// CLUSTER INFO, without the line of dropped links, which the server counts. Lines end with CR LF. O(nodes).
    /// `is_followed`: commands follow it already if the cluster is up; until they do, it is not told.
    pub fn info_text(&self, is_followed: bool) -> String {
        let slots_of = |is_wanted: &dyn Fn(&Node) -> bool| -> usize {
            let nodes = self.nodes.iter().map(|(_, node)| node).filter(|node| is_wanted(node));
            nodes.map(|node| usize::from(node.slot_count)).sum()
        };
        let mut out = String::new();
        let lines = [
            ("slots_assigned", self.slots.assigned as u64),
            ("slots_ok", slots_of(&|node| !node.is_silent()) as u64),
            ("slots_pfail", slots_of(&|node| node.has(Flags::MAYBE_FAILED)) as u64),
            ("slots_fail", slots_of(&|node| node.has(Flags::FAILED)) as u64),
            ("known_nodes", self.nodes.len() as u64),
            ("size", self.state.size as u64),
            ("current_epoch", self.current_epoch),
            ("my_epoch", self.shown_epoch(&self.nodes[MYSELF])),
        ];
        let _ = write!(out, "cluster_state:{}\r\n", if self.state.is_up && is_followed { "ok" } else { "fail" });
        for (name, value) in lines {
            let _ = write!(out, "cluster_{name}:{value}\r\n");
        }
        self.stats.write(&mut out);
        out
    }

    /// CLUSTER NODES: a line for each node. O(slots and nodes).
    pub fn nodes_text(&self) -> String {
        self.nodes.iter().map(|(ix, node)| format!("{}\n", self.line(ix, node))).collect()
    }

    /// CLUSTER REPLICAS: a line for each replica of a primary.
    ///
    /// # Errors
    /// The whole error for the client.
    pub fn replicas_text(&self, id: &str) -> Result<Vec<String>, String> {
        let primary = &self.nodes[self.known(id)?];
        refuse_if(primary.is_replica(), "ERR The specified node is not a master")?;
        let replicas = self.nodes.iter().filter(|(_, node)| node.is_replica_of(primary.id));
        Ok(replicas.map(|(ix, node)| self.line(ix, node).to_string()).collect())
    }
}

//! Faults that somebody who tests a cluster asks for.

use super::Cluster;
use super::actions::Now;

impl Cluster {
    /// DEBUG CLUSTERLINK KILL: ends the link to a node, from it, or both (`to`, `from`, `all`), as a fault of the network does.
    ///
    /// # Errors
    /// The node is not known, or the direction is none of these.
    pub fn kill_links(&mut self, id: &str, direction: &str, now: Now) -> Result<(), String> {
        self.begin(now);
        let ix = id.parse().ok().and_then(|id| self.find(id)).ok_or_else(|| format!("ERR Unknown node {id}"))?;
        let (to, from) = (self.nodes[ix].link, self.nodes[ix].inbound);
        let ended = match direction.to_ascii_lowercase().as_str() {
            "to" => [to, None],
            "from" => [from, None],
            "all" => [to, from],
            _ => return Err(format!("ERR Unknown direction {direction}")),
        };
        ended.into_iter().flatten().for_each(|link| self.close_link(link));
        self.end(None);
        Ok(())
    }

    /// DEBUG DROP-CLUSTER-PACKET-FILTER: messages of this type that come are lost from now on; none with a number that is no
    /// type.
    pub fn lose_messages(&mut self, kind: i64) {
        self.loses = u16::try_from(kind).ok();
    }
}

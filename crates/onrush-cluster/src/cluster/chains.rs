//! Replicas of replicas, which a cluster does not have.

use super::Cluster;
use super::nodes::MYSELF;

impl Cluster {
    /// If this node's primary has become a replica, this node follows the same primary.
    pub(super) fn leave_chain(&mut self) {
        let Some(followed) = self.primary_ix().map(|ix| &self.nodes[ix]).filter(|node| node.is_replica()) else {
            return;
        };
        let Some(next) = followed.primary.and_then(|id| self.find(id)) else { return };
        if next == MYSELF || !self.nodes[next].is_primary() {
            return;
        }
        let (from, to) = (followed.label(), self.nodes[next].label());
        self.notice(format!("I'm a sub-replica! Reconfiguring myself from {from} to {to}"));
        self.set_my_primary(next);
    }
}

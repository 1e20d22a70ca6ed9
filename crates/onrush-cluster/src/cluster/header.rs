//! What this node says of itself in each message.

use super::Cluster;
use super::nodes::{Ix, MYSELF, Node};
use super::own_address;
use crate::message::{Header, MessageFlags};
use crate::node::{Flags, NodeId};

/// What a node is, and says of itself and of others.
const TOLD_FLAGS: Flags = Flags::PRIMARY
    .union(Flags::REPLICA)
    .union(Flags::MAYBE_FAILED)
    .union(Flags::FAILED)
    .union(Flags::MYSELF)
    .union(Flags::HANDSHAKE)
    .union(Flags::NO_ADDRESS)
    .union(Flags::MIGRATE_TO)
    .union(Flags::NO_FAILOVER)
    .union(Flags::EXTENSIONS);

/// What is told of a node.
pub(super) fn told_flags(node: &Node) -> Flags {
    node.flags & TOLD_FLAGS
}

impl Cluster {
    /// The header of a message. A replica tells the slots and the epoch of its primary.
    pub(super) fn header(&self) -> Header {
        let myself = &self.nodes[MYSELF];
        let owner = self.primary_ix().map_or(myself, |ix| &self.nodes[ix]);
        Header {
            sender: myself.id,
            address: own_address(&self.options, ""),
            flags: told_flags(myself),
            is_down: !self.state.is_up,
            message_flags: self.message_flags(),
            current_epoch: self.current_epoch,
            config_epoch: owner.config_epoch,
            offset: self.offset,
            slots: self.slots_of_shard(),
            primary: myself.primary,
        }
    }

    fn message_flags(&self) -> MessageFlags {
        let mut flags = MessageFlags::EXTENSIONS;
        flags.set(MessageFlags::PAUSED, self.manual.is_paused);
        flags
    }

    /// The place of this node's primary, if it is a replica of a known node.
    pub(super) fn primary_ix(&self) -> Option<Ix> {
        self.find(self.nodes[MYSELF].primary?)
    }

    pub(super) fn find(&self, id: NodeId) -> Option<Ix> {
        self.nodes.find(id)
    }

    /// The epoch that is shown of a node: its own, or its primary's.
    pub(super) fn shown_epoch(&self, node: &Node) -> u64 {
        let primary = node.primary.and_then(|id| self.find(id));
        primary.map_or(node.config_epoch, |ix| self.nodes[ix].config_epoch)
    }
}

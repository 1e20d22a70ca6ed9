//! What greetings carry besides gossip: names, shards, and nodes that are not to come back.

use super::Cluster;
use super::nodes::{Ix, MYSELF};
use crate::message::Extension;
use crate::node::NodeId;

/// How long CLUSTER FORGET keeps a node out.
pub(super) const BAN_MS: u64 = 60_000;

/// Nodes that are kept out, at most. The oldest ban gives way.
pub const BANS_MAX: usize = 1_000;

/// Bytes of a host name or a name for people, at most.
pub const NAME_LEN_MAX: usize = 255;

/// A node that is kept out.
pub(super) struct Ban {
    id: NodeId,
    until_ms: u64,
}

impl Cluster {
    /// Whether a node is kept out.
    pub(super) fn is_banned(&self, id: NodeId) -> bool {
        self.bans.iter().any(|ban| ban.id == id && ban.until_ms > self.now.mono_ms)
    }

    /// Keeps a node out for a time.
    pub(super) fn ban(&mut self, id: NodeId, time_ms: u64) {
        let until_ms = self.now.mono_ms.saturating_add(time_ms);
        self.bans.retain(|ban| ban.id != id);
        if self.bans.len() >= BANS_MAX {
            self.bans.remove(0);
        }
        self.bans.push(Ban { id, until_ms });
    }

    /// Bans that are over are forgotten.
    pub(super) fn expire_bans(&mut self) {
        let now_ms = self.now.mono_ms;
        self.bans.retain(|ban| ban.until_ms > now_ms);
    }

    /// What this node tells those that take extensions.
    pub(super) fn extensions(&self) -> Vec<Extension> {
        let myself = &self.nodes[MYSELF];
        let mut all = Vec::new();
        if !myself.hostname.is_empty() {
            all.push(Extension::Hostname(myself.hostname.clone()));
        }
        if !myself.nodename.is_empty() {
            all.push(Extension::NodeName(myself.nodename.clone()));
        }
        let left_s = |ban: &Ban| ban.until_ms.saturating_sub(self.now.mono_ms) / 1000;
        let bans = self.bans.iter().filter(|ban| left_s(ban) > 0);
        all.extend(bans.map(|ban| Extension::Forgotten { id: ban.id, ttl_s: left_s(ban) }));
        all.push(Extension::Shard(myself.shard));
        all
    }

    /// What a known node tells. A node that tells nothing has no names, unless it does not know yet that this one takes
    /// extensions.
    pub(super) fn hear_extensions(&mut self, sender: Ix, extensions: &[Extension]) {
        if extensions.is_empty() && self.nodes[sender].tells_shard {
            return;
        }
        let (mut hostname, mut nodename) = ("", "");
        for extension in extensions {
            match extension {
                Extension::Hostname(name) => hostname = name,
                Extension::NodeName(name) => nodename = name,
                Extension::Forgotten { id, ttl_s } => self.hear_forgotten(sender, *id, *ttl_s),
                Extension::Shard(shard) => self.hear_shard(sender, *shard),
                Extension::Other { .. } => {}
            }
        }
        self.hear_names(sender, hostname, nodename);
    }

    fn hear_names(&mut self, sender: Ix, hostname: &str, nodename: &str) {
        let (hostname, nodename) = (checked_name(hostname), checked_name(nodename));
        let node = &mut self.nodes[sender];
        if (node.hostname.as_str(), node.nodename.as_str()) != (hostname, nodename) {
            hostname.clone_into(&mut node.hostname);
            nodename.clone_into(&mut node.nodename);
            self.save(false);
            self.routes_changed();
        }
    }

    fn hear_forgotten(&mut self, sender: Ix, id: NodeId, ttl_s: u64) {
        let Some(ix) = self.find(id) else { return };
        // One that may have slots of this node is still to be heard.
        let is_needed = self.nodes[MYSELF].primary == Some(id) || self.is_target(id);
        if ix != MYSELF && ix != sender && !is_needed {
            self.ban(id, ttl_s.saturating_mul(1000).min(BAN_MS));
            self.remove_node(ix);
        }
    }

    /// A replica is in the shard of its primary, whatever it says.
    fn hear_shard(&mut self, sender: Ix, shard: NodeId) {
        self.nodes[sender].tells_shard = true;
        let primary = self.nodes[sender].primary.and_then(|id| self.find(id));
        let shard = primary.map_or(shard, |ix| self.nodes[ix].shard);
        self.set_shard(sender, shard);
        if self.nodes[MYSELF].primary == Some(self.nodes[sender].id) {
            self.set_shard(MYSELF, shard);
        }
    }

    pub(super) fn set_shard(&mut self, ix: Ix, shard: NodeId) {
        if self.nodes[ix].shard != shard {
            self.nodes[ix].shard = shard;
            self.save(false);
        }
    }
}

/// A name, if it may stand in the file of nodes.
fn checked_name(name: &str) -> &str {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if name.len() <= NAME_LEN_MAX && name.bytes().all(is_letter) { name } else { "" }
}

//! Messages for subscribers at other nodes.

use super::Cluster;
use super::actions::{Host, Now};
use crate::message::{Body, HEADER_LEN};

/// Bytes of messages of channels that may wait for the thread of the bus, which may wait for the disk that the file of nodes is
/// on. A message that is longer waits alone. Less than may wait for one node, which otherwise would get too much at once.
pub const PUBLISHED_MAX: usize = 64 << 20;

/// What of the queue is messages of channels.
#[derive(Default)]
pub(super) struct Published {
    bytes: usize,
    /// Whether the log has been told that there are too many.
    is_told: bool,
}

impl Cluster {
    /// Tells a message of PUBLISH to all nodes, or one of SPUBLISH to those of this node's shard. Above [`PUBLISHED_MAX`] it is
    /// not told: each node gets a message once at most, and clients do not wait for nodes.
    pub fn publish(&mut self, channel: &[u8], message: &[u8], is_sharded: bool, now: Now, host: &dyn Host) {
        self.begin_with(now, host);
        let links = if is_sharded { self.links_to_shard() } else { self.links_to_all() };
        if !links.is_empty() && self.has_room(HEADER_LEN + channel.len() + message.len()) {
            self.send(links, Body::Publish { is_sharded, channel: channel.to_vec(), message: message.to_vec() });
        }
        self.end(Some(host));
    }

    /// Whether a message may wait in the queue, and counts it.
    fn has_room(&mut self, len: usize) -> bool {
        let Published { bytes, is_told } = &mut self.published;
        if *bytes == 0 || *bytes + len <= PUBLISHED_MAX {
            *bytes += len;
            return true;
        }
        if !std::mem::replace(is_told, true) {
            self.warning(format!(
                "More than {PUBLISHED_MAX} bytes of published messages wait for the thread that sends to other nodes: clients \
                 are faster, or the disk of the file of nodes is slow. Further ones are not sent to other nodes until there is room."
            ));
        }
        false
    }
}

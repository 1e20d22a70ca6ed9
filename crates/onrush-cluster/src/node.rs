//! What a node says of itself and of others.

use std::fmt;
use std::str::FromStr;

use bitflags::bitflags;

/// Bytes of a node's name in messages.
pub const NODE_ID_LEN: usize = 40;

/// The name of a node or of a shard: 40 hexadecimal digits, which it keeps for its life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId([u8; NODE_ID_LEN]);

/// Bytes that are no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name has 40 hexadecimal digits")]
pub struct NoNodeId;

impl NodeId {
    /// Forty zeros, which no node draws.
    pub const ZERO: Self = Self([b'0'; NODE_ID_LEN]);

    /// # Errors
    /// They are no 40 digits from 0 to 9 and a to f.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NoNodeId> {
        let id: [u8; NODE_ID_LEN] = bytes.try_into().map_err(|_| NoNodeId)?;
        id.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).then_some(Self(id)).ok_or(NoNodeId)
    }

    /// As in a message.
    pub fn as_bytes(&self) -> &[u8; NODE_ID_LEN] {
        &self.0
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        // Digits are ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl Default for NodeId {
    fn default() -> Self {
        Self::ZERO
    }
}

impl FromStr for NodeId {
    type Err = NoNodeId;

    fn from_str(text: &str) -> Result<Self, NoNodeId> {
        Self::from_bytes(text.as_bytes())
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

bitflags! {
    /// What a node is, and what is thought of it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Flags: u16 {
        /// It has slots, or may have some.
        const PRIMARY = 1;
        /// It follows a primary.
        const REPLICA = 1 << 1;
        /// It does not answer, as far as this node can tell.
        const MAYBE_FAILED = 1 << 2;
        /// A majority of the primaries says so.
        const FAILED = 1 << 3;
        /// The node that says it.
        const MYSELF = 1 << 4;
        /// It has not answered for the first time.
        const HANDSHAKE = 1 << 5;
        /// Its address is not known.
        const NO_ADDRESS = 1 << 6;
        /// It is to be asked in.
        const MEET = 1 << 7;
        /// Replicas of others may become its.
        const MIGRATE_TO = 1 << 8;
        /// It does not take over by itself.
        const NO_FAILOVER = 1 << 9;
        /// It takes extensions.
        const EXTENSIONS = 1 << 10;
        const _ = !0;
    }
}

/// Where a node is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// Its IP address as text; empty: the one that it is connected from.
    pub ip: String,
    /// The port for clients, by TLS if the cluster uses that.
    pub port: u16,
    /// The other port for clients: without TLS if `port` has TLS; 0: there is none.
    pub other_port: u16,
    /// The port of the bus.
    pub bus_port: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_digits() {
        let text = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(text.parse::<NodeId>().unwrap().to_string(), text);
        for wrong in ["", &text[1..], &text.to_uppercase(), &text.replace('0', "\0")] {
            assert_eq!(wrong.parse::<NodeId>(), Err(NoNodeId), "{wrong}");
        }
    }
}

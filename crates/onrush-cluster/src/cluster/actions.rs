//! What goes in and out of the state machine besides messages.

use std::sync::Arc;

use crate::message::Message;
use crate::node::NodeId;

/// The time of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds of a clock that never goes back. All timeouts use it.
    pub mono_ms: u64,
    /// Unix time in milliseconds, for what CLUSTER NODES, the file of nodes and gossip show.
    pub wall_ms: u64,
}

/// A connection of the bus. The state machine draws the ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// The replication link to this node's primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrimaryLink {
    /// Whether it is connected.
    pub is_up: bool,
    /// Milliseconds since the data here was last that of the primary; the most that there is: it never was.
    pub silent_ms: u64,
}

/// What the state machine asks of its server, which answers at once.
pub trait Host {
    /// How far this node is in its history, in bytes: written by a primary, applied by a replica.
    fn replication_offset(&self) -> u64;
    /// The replication link to this node's primary; nothing if this node is a primary.
    fn primary_link(&self) -> PrimaryLink;
    /// How many keys a slot has here.
    fn keys_in_slot(&self, slot: u16) -> u64;
    /// Whether there is any key here.
    fn has_keys(&self) -> bool;
}

/// How much an operator should care.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For those who look for a fault.
    Debug,
    /// Of interest now and then.
    Verbose,
    /// A change of the cluster.
    Notice,
    /// Something is wrong.
    Warning,
}

/// What the server is to do, in the order of the queue. An action that takes time (`Save`) ends before the next begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Connect to a node's bus port, then call `connected`, or `closed` if that fails.
    Connect {
        /// The id of the new link.
        link: LinkId,
        /// The node; a random id until it has told its own.
        node: NodeId,
        /// Its IP address.
        ip: String,
        /// Its bus port.
        bus_port: u16,
    },
    /// Close a link. `closed` need not be called for it; calls with it have no effect.
    Close(LinkId),
    /// Send one message over some links.
    Send {
        /// The links.
        links: Vec<LinkId>,
        /// What to send.
        message: Arc<Message>,
    },
    /// Write [`nodes_conf`](super::Cluster::nodes_conf) to the file. What follows relies on it.
    Save {
        /// Whether it must be on the disk (fsync) before the next action.
        sync: bool,
    },
    /// Who serves which slot has changed, or whether the cluster is up: read [`routes`](super::Cluster::routes) again.
    Routes,
    /// This node is a primary now.
    Primary,
    /// This node replicates from now on, or its primary has another address now.
    ReplicaOf {
        /// The primary.
        node: NodeId,
        /// Whether it was that before: what came from it is as good as it was.
        is_same: bool,
        /// Its IP address.
        ip: String,
        /// Its port without TLS; 0: it has none, or it is not known.
        port: u16,
        /// Its port with TLS; 0: it has none, or it is not known.
        tls_port: u16,
    },
    /// Put something into the stream of this node's replicas, as the message of a PING, before the routes change.
    TellReplicas {
        /// The message.
        text: String,
        /// Whether this node has got slots. Nobody else should hear of them before the replicas: if this node fails just then,
        /// they are to have the slots as well as the keys.
        has_gained: bool,
    },
    /// These slots have gone to another node: their keys here are to be deleted.
    SlotsLost(Vec<u16>),
    /// Hold the writes of clients, until `Unpause` or this time. Nothing else may move the replication offset meanwhile:
    /// nothing expires, and the stream has no pings. The next event tells the replica this offset.
    Pause {
        /// By the clock that never goes back.
        until_mono_ms: u64,
    },
    /// Let the writes of clients go on.
    Unpause,
    /// Give a message from the bus to this node's subscribers.
    Publish {
        /// The channel.
        channel: Vec<u8>,
        /// The message.
        message: Vec<u8>,
        /// Whether it is for subscribers of shard channels.
        is_sharded: bool,
    },
    /// Delete all data: CLUSTER RESET of a replica.
    Flush,
    /// Write to the server's log.
    Log(Level, String),
}

//! The rules of Redis Cluster, without sockets and clocks.
//!
//! [`slots`] says where a key belongs; [`node`] is what one node says of another; [`nodes_conf`] is the
//! file in which a node keeps its cluster; [`message`] is what nodes send each other
//! over the bus, byte for byte as redis-server 7 and 8 do; [`cluster`] is what a node does about them.

pub mod cluster;
pub mod message;
pub mod node;
pub mod nodes_conf;
pub mod slots;

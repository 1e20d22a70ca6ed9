//! The rules of Redis Cluster, without sockets and clocks.
//!
//! [`slots`] says where a key belongs; [`node`] is what one node says of another; [`message`] is what nodes send each other
//! over the bus, byte for byte as redis-server 7 and 8 do.

pub mod message;
pub mod node;
pub mod slots;

//! Sockets: listening, connections, links to other servers.

pub(crate) mod binding;
pub mod connection;
pub(crate) mod listen_change;
pub mod listener;
pub mod metrics;
pub mod peers;
pub mod socket;
pub mod underway;

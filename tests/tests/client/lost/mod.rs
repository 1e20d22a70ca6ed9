//! Connections that are lost, or were thought to be.

mod client_dead_peers;
mod client_reconnect;
mod client_stays;
mod client_upkeep;

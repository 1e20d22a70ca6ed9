//! This node's place in a cluster, as commands need it.
//!
//! Which keys it has stands in [`routes`]; the thread of the bus publishes them while it has the whole keyspace ([`change`]),
//! so that they hold for as long as a thread stays inside of the gate.

pub mod change;
pub mod clustering;
pub mod facts;
pub mod hearing;
pub mod moves;
pub mod node;
pub(crate) mod redirect;
pub(crate) mod refusals;
pub mod routes;
mod slot_bits;
pub(crate) mod slotted;
pub(crate) mod under_way;

#[cfg(test)]
mod tests;

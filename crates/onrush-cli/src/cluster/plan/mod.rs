//! What to do with a cluster, decided from facts alone: nothing here asks a node.

pub mod coverage;
pub mod create;
pub mod open_slot;
pub mod rebalance;
pub mod reshard;

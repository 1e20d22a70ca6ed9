//! Who takes over for whom: failures that nodes report, elections and votes, fail-overs, and the epochs and roles that come of
//! them.

pub(super) mod election;
mod epochs;
pub(super) mod failover;
mod failure;
mod migration;
pub(super) mod roles;
pub(super) mod vote;

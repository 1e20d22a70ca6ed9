//! Replication: Onrush as the replica and as the primary of Redis, and of itself.

mod backlog;
mod broken_links;
mod durability;
mod encrypted;
mod failover;
mod fake_primaries;
mod follows;
mod messages;
mod roles;
mod sentinel;
mod serves;
mod waiting;

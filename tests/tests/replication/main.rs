//! Replication: Onrush as the replica of Redis.

mod fake_primaries;
mod follows;
mod roles;

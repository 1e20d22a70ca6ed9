//! The server around its commands: clients, messages, limits, start and end, other servers.

mod blocking;
mod configuration;
mod connection;
mod debug;
mod eviction;
mod gather;
mod life;
mod long_commands;
mod migrate;
mod monitor;
mod notifications;
mod probes;
mod protocol;
mod pubsub;
mod rounds;
mod seeing_pipelines;
mod slow;
mod start_up;
mod tracking;
mod waiters;

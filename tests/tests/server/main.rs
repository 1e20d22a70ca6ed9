//! The server around its commands: clients, messages, limits, start and end, other servers.

mod blocking;
mod client_memory;
mod configuration;
mod connection;
mod debug;
mod eviction;
mod gather;
mod info_fields;
mod life;
mod long_commands;
mod metrics;
mod migrate;
mod monitor;
mod notifications;
mod probes;
mod protocol;
mod published_faults;
mod pubsub;
mod rounds;
mod seeing_pipelines;
mod slow;
mod start_up;
mod tls;
mod tracking;
mod users;
mod waiters;

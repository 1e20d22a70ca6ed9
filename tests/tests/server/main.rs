//! The server around its commands: clients, messages, limits, start and end, other servers.

mod blocking;
mod client_memory;
mod configuration;
mod connection;
mod debug;
mod eviction;
mod gather;
mod life;
mod long_commands;
mod migrate;
mod notifications;
mod observe;
mod probes;
mod protocol;
mod published_faults;
mod pubsub;
mod rounds;
mod start_up;
mod tls;
mod tracking;
mod users;
mod waiters;
mod worst_names;

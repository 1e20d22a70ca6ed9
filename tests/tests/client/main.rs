//! The client library: against Onrush, both oracles, and servers that behave badly.

mod client;
mod client_blocking;
mod client_cache;
mod client_cache_merging;
mod client_cancellation;
mod client_checker;
mod client_commands;
mod client_dead_peers;
mod client_examples;
mod client_pairing;
mod client_promises;
mod client_reconnect;
mod client_upkeep;
mod fake;
mod redis_crate;
mod tls;

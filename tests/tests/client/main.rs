//! The client library: against Onrush, both oracles, and servers that behave badly.

mod client;
mod client_blocking;
mod client_cache;
mod client_cache_merging;
mod client_cancellation;
mod client_checker;
mod client_commands;
mod client_derive;
mod client_examples;
mod client_leases;
mod client_loading;
mod client_options;
mod client_pairing;
mod client_promises;
mod client_sentinel;
mod client_subscriptions;
mod client_typed;
mod cluster;
mod fake;
mod faults;
mod lost;
mod redis_crate;
mod tls;

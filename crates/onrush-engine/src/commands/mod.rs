//! The commands, a file per family: handlers, and beside them their specs (`*_specs`).

use crate::command::Spec;

pub mod acl;
pub mod acl_log;
mod acl_specs;
pub mod bit_fields;
pub mod bits;
mod bits_specs;
pub mod bounded_counters;
pub mod client;
pub mod cluster;
mod cluster_specs;
pub mod command;
pub mod config;
pub mod connection;
mod connection_specs;
pub mod debug;
pub mod dump;
pub mod expire;
pub mod flush;
pub mod functions;
mod functions_specs;
pub mod geo;
pub mod geo_search;
mod geo_specs;
pub mod hash_expiry;
pub mod hashes;
mod hashes_specs;
pub mod hotkeys;
pub mod hyperloglog;
mod hyperloglog_specs;
pub mod info;
pub mod keys;
mod keys_specs;
pub mod latency;
pub mod lcs;
pub mod lists;
pub mod lists_blocking;
mod lists_specs;
pub mod memory;
pub mod migrate;
pub mod modules;
pub mod persistence;
mod pipeline;
pub mod pubsub;
mod pubsub_specs;
pub mod replication;
mod replication_specs;
pub mod scan;
pub mod scripting;
mod scripting_specs;
pub mod server;
mod server_specs;
pub mod set_algebra;
pub mod sets;
mod sets_specs;
pub mod slowlog;
pub mod sort;
mod sort_specs;
pub mod sorted_set_algebra;
pub mod sorted_set_pops;
pub mod sorted_set_ranges;
pub mod sorted_sets;
mod sorted_sets_specs;
pub mod stream_deletions;
pub mod stream_groups;
pub mod stream_idempotency;
pub mod stream_pending;
pub mod stream_reads;
pub mod stream_releases;
pub mod streams;
mod streams_specs;
pub mod string_conditions;
pub mod strings;
pub mod strings_many;
mod strings_specs;
mod timing_specs;
pub mod tracking;
pub mod transactions;
mod transactions_specs;

/// The specs of all families, in the order in which COMMAND shows them.
pub static FAMILIES: &[&[Spec]] = &[
    strings_specs::SPECS,
    bits_specs::SPECS,
    hyperloglog_specs::SPECS,
    lists_specs::SPECS,
    hashes_specs::SPECS,
    sets_specs::SPECS,
    sorted_sets_specs::SPECS,
    geo_specs::SPECS,
    streams_specs::SPECS,
    sort_specs::SPECS,
    transactions_specs::SPECS,
    keys_specs::SPECS,
    connection_specs::SPECS,
    pubsub_specs::SPECS,
    server_specs::SPECS,
    replication_specs::SPECS,
    cluster_specs::SPECS,
    acl_specs::SPECS,
    timing_specs::SPECS,
    scripting_specs::SPECS,
    functions_specs::SPECS,
];

//! The commands, a folder per family: handlers, and beside them their specs (`specs`).

use crate::command::Spec;

pub mod acl;
pub mod bits;
pub mod cluster;
pub mod connection;
pub mod geo;
pub mod hashes;
pub mod hyperloglog;
pub mod keys;
pub mod lists;
pub mod pubsub;
pub mod scripting;
pub mod server;
pub mod sets;
pub mod sorted_sets;
pub mod streams;
pub mod strings;
pub mod timing;
pub mod transactions;

/// The specs of all families, in the order in which COMMAND shows them.
pub static FAMILIES: &[&[Spec]] = &[
    strings::specs::SPECS,
    bits::specs::SPECS,
    hyperloglog::specs::SPECS,
    lists::specs::SPECS,
    hashes::specs::SPECS,
    sets::specs::SPECS,
    sorted_sets::specs::SPECS,
    geo::specs::SPECS,
    streams::specs::SPECS,
    keys::sort_specs::SPECS,
    transactions::specs::SPECS,
    keys::specs::SPECS,
    connection::specs::SPECS,
    pubsub::specs::SPECS,
    server::specs::SPECS,
    server::replication_specs::SPECS,
    cluster::specs::SPECS,
    acl::specs::SPECS,
    timing::specs::SPECS,
    scripting::specs::SPECS,
    scripting::functions_specs::SPECS,
];

//! The commands, a folder per family: handlers, and beside them their specs (`specs`).

use crate::command::Spec;

pub(crate) mod acl;
pub(crate) mod bits;
pub(crate) mod cluster;
pub(crate) mod connection;
pub(crate) mod geo;
pub(crate) mod hashes;
pub(crate) mod hyperloglog;
pub(crate) mod keys;
pub(crate) mod lists;
pub(crate) mod pubsub;
pub(crate) mod reply;
pub(crate) mod scripting;
pub mod server;
pub(crate) mod sets;
pub(crate) mod sorted_sets;
pub(crate) mod streams;
pub(crate) mod strings;
pub(crate) mod timing;
pub(crate) mod transactions;

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

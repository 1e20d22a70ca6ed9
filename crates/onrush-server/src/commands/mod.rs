//! The commands, a file per family: handlers, and beside them their rows of the command table (`*_specs`).

use crate::command::Spec;

pub mod client;
pub mod command;
pub mod config;
pub mod connection;
mod connection_specs;
pub mod debug;
pub mod expire;
pub mod flush;
pub mod info;
pub mod keys;
mod keys_specs;
pub mod lcs;
pub mod memory;
pub mod scan;
pub mod server;
mod server_specs;
pub mod strings;
mod strings_specs;

/// The rows of all families, in the order in which COMMAND tells them.
pub static FAMILIES: &[&[Spec]] =
    &[strings_specs::SPECS, keys_specs::SPECS, connection_specs::SPECS, server_specs::SPECS];

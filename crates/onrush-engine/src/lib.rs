//! The engine of Onrush: from the bytes that clients send to the replies they get.
//!
//! The way of a batch: [`batch::runner`] decodes, plans and executes what connections have sent, chunk by chunk; a handler in
//! [`commands`] finds its keys through [`commit`] and appends its reply. What threads share is in [`ctx::Engine`]; what commands
//! there are is in [`command`].
//!
//! The engine has no sockets, no files and no threads of its own. The time and randomness come from outside
//! ([`shared::Parts`]); [`process::Process`] provides what commands need of the surrounding program.

pub mod batch;
pub mod blocking;
pub mod clients;
pub mod clock;
pub mod cluster;
pub mod command;
pub mod commands;
pub mod commit;
pub mod ctx;
pub mod encodings;
pub mod error;
pub mod eviction;
pub mod formats;
pub mod gate;
pub mod lazyfree;
pub mod loading;
pub mod long;
pub mod messages;
pub mod observe;
mod part_sort;
pub mod process;
mod ranked;
pub mod replication;
pub mod scripts;
pub mod settings;
pub mod shared;
pub mod snapshot;
mod sync;
pub mod tracking;
pub mod transactions;
pub mod types;
pub mod users;

/// Eviction uses this allocator's counts.
#[cfg(test)]
#[global_allocator]
static GLOBAL: onrush_alloc::Counting = onrush_alloc::Counting::NEW;

//! The engine of Onrush: from the bytes that clients send to the replies they get.
//!
//! The way of a batch: [`runner`] decodes, plans and executes what connections have sent, chunk by chunk; a handler in
//! [`commands`] finds its keys through [`commit`] and appends its reply. What threads share is in [`ctx::Engine`]; what commands
//! there are is in [`command`].
//!
//! The engine has no sockets, no files and no threads of its own. The time and randomness come from outside
//! ([`shared::Parts`]); [`process::Process`] provides what commands need of the surrounding program.

mod acl_log;
mod admission;
pub mod argv;
pub mod batch;
pub mod blocking;
mod chunk;
pub mod client;
pub mod clock;
pub mod command;
pub mod commands;
pub mod commit;
pub mod ctx;
mod decode;
pub mod durability;
pub mod encodings;
pub mod error;
pub mod eviction;
mod execute;
pub mod gate;
pub mod glob;
pub mod histogram;
pub mod hotkeys;
mod inside;
mod kept;
pub mod latency;
pub mod lazyfree;
pub mod loading;
pub mod local;
pub mod long;
pub mod long_double;
pub mod messages;
pub mod offload;
pub mod pipeline;
mod plan;
mod planned_keys;
pub mod process;
pub mod progress;
mod restrictions;
pub mod runner;
pub mod scripts;
pub mod session;
pub mod settings;
pub mod sha256;
pub mod shared;
pub mod slice;
pub mod slow;
pub mod slow_batch;
mod slow_chunk;
pub mod slowlog;
pub mod snapshot;
pub mod stats;
pub mod timing;
mod together;
pub mod tracking;
pub mod transaction;
pub mod types;
pub mod units;
pub mod watched;
pub mod write_refusal;

/// Eviction uses this allocator's counts.
#[cfg(test)]
#[global_allocator]
static GLOBAL: onrush_alloc::Counting = onrush_alloc::Counting::NEW;

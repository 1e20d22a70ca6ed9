//! The Onrush server: listeners, connections, the batch pipeline and the commands.
//!
//! The way of a batch: a [`worker`] goes in rounds; in each, the connections that are ready are read one after the other
//! (`round`), [`batch`] decodes, plans and executes what they sent chunk by chunk, a handler in [`commands`] finds its keys
//! through [`keys`] and answers into the reply buffer, which [`connection`] writes. What threads share is in [`server`]; what commands there are is in [`command`]; from start to end leads
//! [`lifecycle`].
//!
//! `unsafe` stands in [`alloc`] (the counting around the allocator) and [`os`] (a few calls of the system) alone.

pub mod alloc;
pub mod batch;
pub mod blocking;
mod chunk;
pub mod client;
pub mod command;
pub mod commands;
pub mod commit;
pub mod config;
pub mod connection;
pub mod cron;
pub mod ctx;
pub mod decode;
pub mod encodings;
pub mod error;
pub mod eviction;
pub mod execute;
pub mod gate;
pub mod gather;
pub mod glob;
pub mod huge;
pub mod lazyfree;
pub mod lifecycle;
pub mod listener;
pub mod log;
pub mod long_double;
pub mod mailbox;
pub mod offload;
pub mod os;
pub mod plan;
pub mod round;
pub mod scratch;
pub mod server;
pub mod session;
pub mod socket;
pub mod stats;
pub mod watchdog;
pub mod worker;

//! The Onrush server: the process around the engine, with its listeners, connections and configuration.
//!
//! A [`worker`](workers::worker) works in rounds: it reads the ready connections one after the other (`round`), the engine executes
//! their commands, and [`connection`](net::connection) writes the replies. What threads share is in [`server`](process::server); what the engine asks of
//! the process is in [`host`](process::host); [`lifecycle`](process::lifecycle) starts and ends everything.
//!
//! Only [`os`](process::os) (a few system calls) has `unsafe`.

mod cluster;
pub mod config;
mod data;
pub mod log;
pub mod net;
pub mod process;
mod replica;
mod replicas;
mod sync;
pub mod tls;
pub mod workers;

#[global_allocator]
static GLOBAL: onrush_alloc::Counting = onrush_alloc::Counting::NEW;

//! The Onrush server: the process around the engine, with its listeners, connections and configuration.
//!
//! A [`worker`] works in rounds: it reads the ready connections one after the other (`round`), the engine executes
//! their commands, and [`connection`] writes the replies. What threads share is in [`server`]; what the engine asks of
//! the process is in [`host`]; [`lifecycle`] starts and ends everything.
//!
//! Only [`os`] (a few system calls) has `unsafe`.

mod append_only;
mod backoff;
mod binding;
mod busy_poll;
pub mod config;
pub mod connection;
pub mod cron;
mod data_files;
mod files;
pub mod gather;
pub mod host;
pub mod lifecycle;
mod listen_change;
pub mod listener;
mod loading;
pub mod log;
mod log_state;
pub mod mailbox;
pub mod options;
pub mod os;
pub mod peers;
mod place;
mod refusal;
mod replay;
pub mod round;
mod saving;
pub mod scratch;
pub mod server;
mod snapshot_file;
pub mod socket;
mod supervisor;
pub mod underway;
pub mod watchdog;
pub mod worker;

#[global_allocator]
static GLOBAL: onrush_alloc::Counting = onrush_alloc::Counting::NEW;

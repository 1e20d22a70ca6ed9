//! Durability for Onrush: the command log, the append-only files, and the format of snapshots. Has no connections.
//!
//! [`rdb`] is the format of snapshot files. The [`CommandLog`] takes the effects of every commit, in the order of the
//! commits. Without listeners it costs one relaxed load per chunk of commands. [`aof`] writes its records into
//! append-only files, and reads them; it accesses files through [`storage`], which tests replace by one that fails.

#![forbid(unsafe_code)]

pub mod aof;
mod buffer;
mod command_file;
mod effects;
mod log;
pub mod rdb;
pub mod storage;
pub mod threads;

pub use buffer::{Buffer, Held, held_bytes};
pub use command_file::CommandFile;
pub use effects::{Effects, FOR_LOG, FOR_REPLICAS, Plain, Record, push_command};
pub use log::{CommandLog, Sink, SinkId, SlowWork};

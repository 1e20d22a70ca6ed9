//! Durability for Onrush: the command log, and the formats and snapshots that read it. Knows no connections.
//!
//! [`rdb`] is the format of snapshot files. The [`CommandLog`] takes the effects of every commit, in the order in which the commits took place. While nobody
//! listens it costs one relaxed load per chunk of commands. [`aof`] writes what it brings into append-only files, and reads them; it reaches
//! files through [`storage`], in whose place tests put one that fails.

#![forbid(unsafe_code)]

pub mod aof;
mod command_file;
mod effects;
mod log;
pub mod rdb;
pub mod storage;

pub use command_file::CommandFile;
pub use effects::{Effects, Record};
pub use log::{CommandLog, Sink, SinkId, SlowWork};

//! The append-only log: files that have every change, from which the state can be made again.
//!
//! A folder has a base, which is the state at one moment (an RDB file), files with the commands since then, and a manifest that lists
//! them in order. Redis 7 reads and writes the same.
//!
//! - [`Aof`] writes. Its [`Sink`](crate::Sink) takes the records of the command log; it tells which LSN is durable. [`rewrite`](Aof::prepare_rewrite)
//!   replaces everything by a new base.
//! - [`Reader`] reads the files of a [`Manifest`] in order: the base, and the commands in chunks of whole commands.
//! - [`Manifest`] is the list, with the upgrade of the single file of older versions.
//!
//! What is promised: a record is whole or not there, whatever happens while it is written. Files are filled one after the other: a file
//! gets its first byte when all bytes of the one before are synced or replaced by a base, and none any more when a sync of it has failed. So what a crash leaves is always the
//! beginning of what was written. A command or transaction that is cut stands only at the end of the last file that is not empty.
//! What was told durable is there, unless the medium itself loses what it has synced.

mod commands;
mod error;
mod manifest;
mod output;
mod quote;
mod reader;
mod rewrite;
mod scan;
mod segment;
mod sink;
mod syncer;
mod writer;

#[cfg(test)]
mod tests;

pub use commands::{Annotation, Chunk, CommandReader};
pub use error::AofError;
pub use manifest::{Manifest, ManifestFile, base_name, incr_name, is_file_name, manifest_name};
pub use reader::{Content, LogFile, Reader, truncate};
pub use scan::{ARG_LEN_MAX, ARGS_MAX};
pub use writer::{Aof, AofFacts, AofOptions, AofStatus, BUFFER_BYTES_MAX, Failure, FsyncPolicy};

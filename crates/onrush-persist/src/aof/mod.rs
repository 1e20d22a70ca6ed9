//! The append-only log: files with every change, from which the state can be rebuilt.
//!
//! A folder has a base, which is the state at one moment (an RDB file), files with the commands since then, and a
//! manifest that lists them in order. Redis 7 reads and writes the same format.
//!
//! - [`Aof`] writes. Its [`Sink`](crate::Sink) takes the records of the command log, and it reports which LSN is
//!   durable. [`rewrite`](Aof::prepare_rewrite) replaces everything by a new base.
//! - [`Reader`] reads the files of a [`Manifest`] in order: the base, and the commands in chunks of whole commands.
//! - [`Backlog`] reads the files as the stream of commands that replicas get.
//! - [`Manifest`] is the list, with the upgrade of the single file of older versions.
//!
//! Promises: a record is whole or missing, whatever happens while it is written. Files are filled one after the other:
//! a file gets its first byte when all bytes of the file before it are synced or replaced by a base, and no more bytes
//! once a sync of it has failed. So a crash always leaves the beginning of what was written. Only the end of the last
//! file that is not empty can have a cut command or transaction. Everything reported as durable is there, unless the
//! medium itself loses what it has synced.

mod backlog;
mod commands;
mod error;
mod manifest;
mod notes;
mod output;
mod reader;
mod rewrite;
mod scan;
mod segment;
mod sink;
mod stream;
mod syncer;
mod writer;

#[cfg(test)]
mod tests;

pub use backlog::{Backlog, LoadedStreams};
pub use commands::{Annotation, Chunk, CommandReader, Found};
pub use error::AofError;
pub use manifest::{Manifest, ManifestFile, base_name, incr_name, is_file_name, manifest_name};
pub use notes::{DataPlace, Note, StreamPlace};
pub use reader::{Content, LogFile, Reader, truncate};
pub use rewrite::{REWRITE_NAME, Strays};
pub use scan::{ARG_LEN_MAX, ARGS_MAX};
pub use stream::{NoCommand, Part, StreamScan};
pub use writer::{Aof, AofFacts, AofOptions, AofStatus, BUFFER_BYTES_MAX, Failure, FsyncPolicy, Health};

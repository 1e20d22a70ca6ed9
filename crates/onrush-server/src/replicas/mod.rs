//! Serving replicas: sending them all data, and the stream behind it.
//!
//! A connection that has sent PSYNC leaves its worker for the thread `replicas`, which owns the sockets of all replicas
//! ([`link`]) and never waits for one of them. It takes the stream from the history's kept bytes, or, for a replica that
//! is far behind, from a file ([`spool`]). All data goes through another file ([`payload`]), which a snapshot without a
//! fork writes and any number of replicas read while it grows. It does not wait for a disk either: what reads, makes and
//! closes these files is a thread beside it ([`files`]).

mod files;
pub(crate) mod link;
mod payload;
mod service;
mod spool;
mod thread;

pub use payload::PayloadOutput;
pub use service::Service;
pub use thread::{GETACK, count_good, start};

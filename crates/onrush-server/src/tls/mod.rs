//! TLS: what the `tls-*` directives say, as configurations of rustls, and the encrypted byte stream of a client.
//!
//! [`Contexts`] are made from a [`Config`](crate::config::Config) at start and again by CONFIG SET; connections keep those that they began
//! with. One of its two configurations is for clients that connect, the other for connections that this server opens to
//! other servers. A [`handshake`] runs on a thread of its own ([`service`]), so that no worker waits for one or spends
//! its time on keys. What comes out is a [`stream::TlsStream`], which the connection's worker reads and writes.

mod chain;
mod context;
pub mod errors;
mod files;
pub mod handshake;
pub mod service;
mod sessions;
pub mod stream;
mod suites;
#[cfg(test)]
mod testing;

pub use context::{Contexts, is_used};

/// The longest TLS record on the wire, in bytes: 2^14 of data, 256 of overhead (2,048 in TLS 1.2) and the header.
pub const RECORD_LEN_MAX: usize = (1 << 14) + 2048 + 5;

//! The Redis serialization protocol, both directions, without I/O.
//!
//! A server turns the bytes of a connection into commands with [`Decoder`]: each call yields one command
//! as argument *ranges* over the caller's query buffer, so nothing is copied and nothing is allocated per
//! command. Replies are appended to a [`Reply`], the reply buffer, which speaks RESP2 or RESP3 and carries
//! large values by reference.
//!
//! A client turns the bytes of a connection into replies with [`ReplyReader`], which passes their parts to a
//! [`ReplyVisitor`] or only counts them, or with [`ReplyDecoder`], which builds values of the client's own type.
//!
//! The feature `server`, which is on by default, has the server's side.
//!
//! Promises:
//! - decoding does not depend on how the bytes were cut into reads;
//! - every limit is a named field of [`Limits`] and has Redis's default; those of replies are [`reply_limits`];
//! - malformed input is a [`ProtocolError`] with Redis's text, or a [`ReplyError`], never a panic.
//!
//! The format is described in the Redis documentation under "Redis serialization protocol specification".

#![forbid(unsafe_code)]

// The server needs newer Rust than clients do.
#[cfg(feature = "server")]
#[allow(clippy::incompatible_msrv)]
mod decode;
mod element;
#[cfg(feature = "server")]
mod grisu;
mod inline;
mod number;
mod read;
#[cfg(feature = "server")]
#[allow(clippy::incompatible_msrv)]
mod reply;
mod tree;
#[cfg(feature = "server")]
mod version;
mod words;

#[cfg(feature = "server")]
pub use decode::{ArgRange, Decoded, Decoder, Limits, ProtocolError, TLS_HANDSHAKE};
pub use element::{AggregateKind, BulkKind, ReplyError, Scalar, reply_limits};
pub use inline::{InlineArgs, split_inline};
pub use number::{format_long_double, parse_f64, parse_i64};
#[cfg(feature = "server")]
pub use number::{push_double, push_shortest};
pub use read::{Ended, ReplyReader, ReplyVisitor};
#[cfg(feature = "server")]
pub use reply::{Mark, Proto, Reply};
pub use tree::{FromReply, ReplyDecoder};
#[cfg(feature = "server")]
pub use version::{REDIS_VERSION, REDIS_VERSION_NUM};
pub use words::{push_quoted, quoted, quoted_if_needed, split_words, unquoted};

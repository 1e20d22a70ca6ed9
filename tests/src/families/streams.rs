//! Streams.

use super::Family;

/// Streams.
pub const STREAMS: Family =
    Family { name: "streams", args: &[], pipelined: true, reset: &[], lines: &[(1, "TYPE key")] };

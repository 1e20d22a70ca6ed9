//! What strings and scores can hold: bits, HyperLogLogs, geohashes, integers.

pub mod bitmap;
pub(crate) mod bytes;
pub mod geo;
pub mod hyperloglog;
pub(crate) mod int;

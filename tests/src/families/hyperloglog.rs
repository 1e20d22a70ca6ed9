//! HyperLogLogs.

use super::Family;

/// HyperLogLogs.
pub const HYPERLOGLOG: Family =
    Family { name: "hyperloglog", args: &[], pipelined: true, reset: &[], lines: &[(1, "TYPE key")] };

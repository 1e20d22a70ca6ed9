//! Geo indexes.

use super::Family;

/// Geo indexes.
pub const GEO: Family = Family { name: "geo", args: &[], pipelined: true, reset: &[], lines: &[(1, "TYPE key")] };

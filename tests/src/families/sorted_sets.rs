//! Sorted sets.

use super::Family;

/// Sorted sets.
pub const SORTED_SETS: Family =
    Family { name: "sorted-sets", args: &[], pipelined: true, reset: &[], lines: &[(1, "TYPE key")] };

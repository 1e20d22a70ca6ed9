//! SORT on lists, sets and sorted sets.

use super::Family;

/// SORT on lists, sets and sorted sets.
pub const SORT: Family = Family { name: "sort", args: &[], pipelined: true, reset: &[], lines: &[(1, "TYPE key")] };

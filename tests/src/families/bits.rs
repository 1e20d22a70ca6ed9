//! Bitmaps and bit fields.

use super::Family;

/// Bitmaps and bit fields.
pub const BITS: Family = Family { name: "bits", args: &[], pipelined: true, reset: &[], lines: &[(1, "TYPE key")] };

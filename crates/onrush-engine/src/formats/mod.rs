//! Patterns, numbers and digests in the forms that Redis gives them.

pub mod glob;
pub mod long_double;
pub mod sha256;
pub mod units;

//! Rows of the command table: the HyperLogLog commands.

use crate::command::spec::Spec;

/// The HyperLogLog commands.
pub static SPECS: &[Spec] = &[];

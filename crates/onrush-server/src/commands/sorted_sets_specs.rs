//! Rows of the command table: the sorted-set commands.

use crate::command::spec::Spec;

/// The sorted-set commands.
pub static SPECS: &[Spec] = &[];

//! Rows of the command table: the bit commands.

use crate::command::spec::Spec;

/// The bit commands.
pub static SPECS: &[Spec] = &[];

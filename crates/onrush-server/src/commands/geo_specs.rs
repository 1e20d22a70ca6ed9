//! Rows of the command table: the geo commands.

use crate::command::spec::Spec;

/// The geo commands.
pub static SPECS: &[Spec] = &[];

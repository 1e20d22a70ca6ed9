//! Rows of the command table: the sort commands.

use crate::command::spec::Spec;

/// The sort commands.
pub static SPECS: &[Spec] = &[];

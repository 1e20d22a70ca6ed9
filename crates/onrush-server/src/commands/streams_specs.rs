//! Rows of the command table: the stream commands.

use crate::command::spec::Spec;

/// The stream commands.
pub static SPECS: &[Spec] = &[];

//! Making libraries of functions from their texts.

use std::sync::Arc;

use super::{Library, Policy, thread};
use crate::ctx::Engine;
use crate::error::CommandError;

/// Compiles a library and runs it so that it registers its functions.
///
/// # Errors
/// The text is not a library, or its code fails.
pub(crate) fn compile(engine: &'static Engine, text: &[u8]) -> Result<Arc<Library>, CommandError> {
    let name = Library::read_name(text)?;
    let id = Library::next_id();
    let loaded = thread::load(engine, &name, id, text);
    let functions = loaded.map_err(|problem| CommandError::bytes([b"ERR ", problem.as_slice()].concat()))?;
    Ok(Arc::new(Library::new(id, name, text.to_vec(), functions)))
}

/// Loads a library from a file.
///
/// # Errors
/// Those of [`compile`]; or the policy refuses the library.
pub(crate) fn load_library(engine: &'static Engine, text: &[u8], policy: Policy) -> Result<(), CommandError> {
    let library = compile(engine, text)?;
    engine.scripts.libraries.add(vec![library], policy)
}

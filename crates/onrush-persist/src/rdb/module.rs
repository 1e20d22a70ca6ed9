//! Data of modules: identified and skipped, never decoded.
//!
//! It consists of the module's identifier and pieces, each after a number that gives its type, and ends with a 0.

use super::ModuleId;
use super::cursor::{Cursor, Result};

const END: u64 = 0;
const SIGNED: u64 = 1;
const UNSIGNED: u64 = 2;
const FLOAT: u64 = 3;
const DOUBLE: u64 = 4;
const STRING: u64 = 5;

/// Skips a value of a module; returns the module's identifier.
pub(crate) fn skip_value(cursor: &mut Cursor<'_>) -> Result<ModuleId> {
    let id = ModuleId(cursor.number()?);
    skip_pieces(cursor)?;
    Ok(id)
}

/// Skips data that a module has written beside its keys; returns the module's identifier.
pub(crate) fn skip_aux(cursor: &mut Cursor<'_>) -> Result<ModuleId> {
    let id = ModuleId(cursor.number()?);
    if cursor.number()? != UNSIGNED {
        return Err(cursor.malformed("data of a module that does not say when it is to be read"));
    }
    cursor.number()?;
    skip_pieces(cursor)?;
    Ok(id)
}

fn skip_pieces(cursor: &mut Cursor<'_>) -> Result<()> {
    loop {
        match cursor.number()? {
            END => return Ok(()),
            SIGNED | UNSIGNED => drop(cursor.number()?),
            FLOAT => drop(cursor.take(4)?),
            DOUBLE => drop(cursor.take(8)?),
            STRING => cursor.skip_string()?,
            _ => return Err(cursor.malformed("data of a module of an unknown form")),
        }
    }
}

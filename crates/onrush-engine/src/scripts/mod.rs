//! Scripts and libraries of functions: their sources, which all threads share, and how they are run.
//!
//! Every thread has an interpreter of its own ([`thread`]), which compiles what it runs and has not compiled yet.

mod cache;
mod dump;
mod host;
mod inside;
mod libraries;
mod lzf;
mod running;
pub(crate) mod thread;

pub(crate) use cache::{Cache, Script};
pub(crate) use dump::{Bad, dump, restore};
pub(crate) use host::{Rules, ScriptHost};
pub(crate) use libraries::{Libraries, Library, Policy};
pub(crate) use running::{Running, What};

use crate::command::Flags;
use crate::ctx::Ctx;
use crate::error::{self, CommandError};
use onrush_lua::FunctionFlags;

/// What all threads share of scripts.
#[derive(Default)]
pub struct Scripts {
    /// Sources of scripts.
    pub(crate) cache: Cache,
    /// Libraries of functions.
    pub(crate) libraries: Libraries,
    /// The one that runs.
    pub(crate) running: Running,
}

const WRITES: CommandError = CommandError::fixed("ERR Can not execute a script with write flag using *_ro command.");

/// What a script may do, by its flags and by how it was called; takes the keyspace for it. `flags` is `None` of a script without
/// a shebang: of such a one nothing is known.
///
/// # Errors
/// It must not run; or the commit puts it off.
pub(crate) fn begin(ctx: &mut Ctx<'_>, flags: Option<FunctionFlags>) -> Result<Rules, CommandError> {
    let is_read_only = ctx.command.flags.contains(Flags::READONLY);
    let has = |flag| flags.is_some_and(|flags| flags.contains(flag));
    let is_full = ctx.commit.is_stuck();
    if flags.is_some() && !has(FunctionFlags::NO_WRITES) {
        if is_read_only {
            return Err(WRITES);
        }
        if is_full && !has(FunctionFlags::ALLOW_OOM) {
            return Err(error::OUT_OF_MEMORY);
        }
    }
    ctx.commit.lock_keyspace()?;
    Ok(Rules {
        is_read_only: is_read_only || has(FunctionFlags::NO_WRITES),
        is_full: is_full && !has(FunctionFlags::ALLOW_OOM),
    })
}

//! What the script or function that a command calls declares of itself.

use onrush_lua::FunctionFlags;

use super::{Script, read_sha, thread};
use crate::batch::argv::Argv;
use crate::command::Command;
use crate::ctx::Engine;

/// Whether a command calls a script or a function with the flag `no-writes`. O(length of the script).
#[cold]
pub(crate) fn writes_nothing(engine: &'static Engine, command: &Command, argv: &Argv<'_>) -> bool {
    declared(engine, command, argv).is_some_and(|flags| flags.contains(FunctionFlags::NO_WRITES))
}

/// The flags of the script or function that a command calls; `None` if it calls none, or one that is not known or
/// declares nothing. O(length of the script).
#[cold]
pub(crate) fn declared(engine: &'static Engine, command: &Command, argv: &Argv<'_>) -> Option<FunctionFlags> {
    if !command.runs_program() || argv.len() < 2 {
        return None;
    }
    let (name, called) = (command.spec.name, argv.get(1));
    if name.starts_with("fcall") {
        engine.scripts.libraries.function(called).map(|(library, function)| library.functions[function].flags)
    } else if name.starts_with("evalsha") {
        read_sha(called).and_then(|sha| thread::find(engine, &sha)).and_then(|script| script.flags)
    } else {
        Script::flags_of(called)
    }
}

//! Whether a pause holds back a command: CLIENT PAUSE, or a log or snapshot that takes no more.

use crate::batch::argv::Argv;
use crate::command::{Command, Flags};
use crate::ctx::Engine;
use crate::scripts::declared::writes_nothing;
use crate::settings::Pause;
use crate::transactions::transaction::Transaction;

/// Whether `pause` holds back a command, which is EXEC if there is a `transaction`. O(commands of the transaction).
#[cold]
pub(crate) fn is_held_back(
    engine: &'static Engine,
    pause: Pause,
    command: &Command,
    argv: &Argv<'_>,
    transaction: Option<&Transaction>,
) -> bool {
    if !command.accepts(argv.len()) {
        // It is refused.
        return false;
    }
    if pause.holds_back(flags_of(engine, command, argv)) {
        return true;
    }
    // Most transactions can be judged as a whole.
    let Some(queued) = transaction.filter(|queued| pause.holds_back(queued.flags())) else { return false };
    let mut commands = queued.commands().map(|(id, argv, _)| (engine.commands.command(id), argv));
    commands.any(|(command, argv)| pause.holds_back(flags_of(engine, command, &argv)))
}

/// The flags of a command; of one that calls a script or function which declares that it does not write, as of a read.
fn flags_of(engine: &'static Engine, command: &Command, argv: &Argv<'_>) -> Flags {
    let effects = Flags::WRITE | Flags::MAY_REPLICATE;
    if command.flags.intersects(effects) && writes_nothing(engine, command, argv) {
        return command.flags - effects;
    }
    command.flags
}

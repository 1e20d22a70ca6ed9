//! DEBUG COMMAND-LOG: a file of commands that produce the data.

use std::path::Path;

use onrush_persist::CommandFile;

use crate::commands::server::debug::for_each_entry;
use crate::commit::rebuild;
use crate::ctx::{CommandResult, Ctx};
use crate::error::CommandError;

const IS_ON: CommandError = CommandError::fixed("ERR the command log is being written already");
const IS_OFF: CommandError = CommandError::fixed("ERR the command log is not being written");

/// `DEBUG COMMAND-LOG START path`: writes all keys as commands, as of one moment, and then every change. The thread for
/// long commands makes the commands while it has the whole keyspace; the log's thread writes them. O(data), also in memory.
pub(crate) fn start(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.leave_worker()?;
    let path = String::from_utf8_lossy(ctx.arg(3)).into_owned();
    if ctx.engine.debug_log.lock().is_some() {
        return Err(IS_ON.into());
    }
    let created = ctx.outside_of_gate(|engine| engine.process.create_file(Path::new(&path)));
    let file = created.map_err(|error| told(&path, &error))?;
    ctx.commit.lock_keyspace()?;
    let mut attached = ctx.engine.debug_log.lock();
    if attached.is_some() {
        return Err(IS_ON.into());
    }
    let mut file = CommandFile::new(file);
    for_each_entry(ctx, |db, entry| rebuild(entry, &mut |args| file.command(db as u32, args)));
    let id = ctx.engine.log.attach(Box::new(file)).map_err(|error| told(&path, &error))?;
    *attached = Some(id);
    ctx.reply_ok()
}

/// `DEBUG COMMAND-LOG STOP`
pub(crate) fn stop(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.leave_worker()?;
    ctx.commit.lock_keyspace()?;
    let id = ctx.engine.debug_log.lock().take().ok_or(IS_OFF)?;
    let file = ctx.engine.log.detach(id);
    let finished = ctx.outside_of_gate(|_| file.map_or(Ok(()), |mut file| file.finish()));
    finished.map_err(|error| told("the command log", &error))?;
    ctx.reply_ok()
}

fn told(path: &str, error: &std::io::Error) -> CommandError {
    CommandError::text(format!("ERR {path}: {error}"))
}

//! Subcommands of DEBUG that redis-server has and this server has not.

use crate::ctx::{CommandResult, Ctx};
use crate::error::CommandError;

/// One of them.
pub(crate) struct NotDone {
    name: &'static str,
    /// Arguments that it has at least, the words `DEBUG` and its name included.
    argc_min: usize,
    /// The argument that asks for what is so anyway.
    harmless: Option<&'static str>,
    /// Why it is an error otherwise.
    why: &'static str,
}

const fn no(name: &'static str, argc_min: usize, why: &'static str) -> NotDone {
    NotDone { name, argc_min, harmless: None, why }
}

/// A switch with a position that stands for what this server does.
const fn switch(name: &'static str, harmless: &'static str, why: &'static str) -> NotDone {
    NotDone { name, argc_min: 3, harmless: Some(harmless), why }
}

const NO_INSIDE: &str = "it is of the inside of another server";
const NO_TABLES: &str = "values and keys are not kept in Redis's structures";
const NO_RESTART: &str = "the process does not start itself again";

const ALL: &[NotDone] = &[
    switch("aof-flush-sleep", "0", "the append-only file is written by a thread of its own"),
    no("config-rewrite-force-all", 2, "CONFIG REWRITE writes what differs from the defaults"),
    no("crash-and-recover", 2, NO_RESTART),
    switch("dict-resizing", "1", "the table of a shard is small and grows at once"),
    no("htstats", 3, NO_TABLES),
    no("htstats-key", 3, NO_TABLES),
    no("internal_secret", 2, NO_INSIDE),
    switch("keysizes-hist-assert", "0", "there is no histogram of the sizes of keys"),
    no("jmap", 2, "the allocator is not jemalloc"),
    no("leak", 3, "memory is not lost on purpose"),
    no("listpack", 3, NO_TABLES),
    no("mallctl", 3, "the allocator is not jemalloc"),
    no("mallctl-str", 3, "the allocator is not jemalloc"),
    no("mark-internal-client", 2, NO_INSIDE),
    switch("pause-cron", "0", "background work is done by several threads"),
    no("quicklist", 3, NO_TABLES),
    switch("repl-pause", "clear", "a full copy of the data is sent in another way"),
    no("replicate", 3, "replicas get what commands have done, and nothing else"),
    no("replybuffer", 4, "a connection holds no buffer while it has nothing to send"),
    no("restart", 2, NO_RESTART),
    no("script", 3, "SCRIPT EXISTS tells which scripts there are"),
    switch("set-disable-deny-scripts", "0", "what scripts may not call would break the promises of this server"),
    switch("set-skip-checksum-validation", "0", "checksums are always checked, but for `rdbchecksum no`"),
    no("stringmatch-test", 2, "patterns are tested without a server"),
    no("structsize", 2, NO_TABLES),
];

/// The one that the present command names, if it has enough arguments.
pub(crate) fn find(ctx: &Ctx<'_>) -> Option<&'static NotDone> {
    ALL.iter().find(|not_done| ctx.is(1, not_done.name) && ctx.argc() >= not_done.argc_min)
}

/// OK if the command asks for what is so anyway.
///
/// # Errors
/// Otherwise, with the reason.
pub(crate) fn reply(ctx: &mut Ctx<'_>, not_done: &'static NotDone) -> CommandResult {
    if not_done.harmless.is_some_and(|position| ctx.argc() == 3 && ctx.is(2, position)) {
        return ctx.reply_ok();
    }
    let name = not_done.name.to_ascii_uppercase();
    Err(CommandError::text(format!("ERR DEBUG {name} is not supported: {}", not_done.why)).into())
}

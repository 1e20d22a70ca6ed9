//! FUNCTION, FCALL.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use onrush_lua::Registered;

use crate::batch::argv::Argv;
use crate::commands::reply::Fields;
use crate::commands::scripting::{number_of_keys, run_with_host};
use crate::ctx::{CommandResult, Ctx, Engine};
use crate::error::{self, CommandError};
use crate::formats::glob::glob_match;
use crate::messages::show::show_script;
use crate::scripts::habit::{Habit, Known};
use crate::scripts::host::rules;
use crate::scripts::proof::Proof;
use crate::scripts::{Bad, Libraries, Library, LibraryCounts, Policy, compile, dump, restore, thread};

const NOT_FOUND: CommandError = CommandError::fixed("ERR Function not found");
const BAD_KEYS: CommandError = CommandError::fixed("ERR Bad number of keys provided");
const NO_LIBRARY: CommandError = CommandError::fixed("ERR Library not found");
const NO_PATTERN: CommandError = CommandError::fixed("ERR library name argument was not given");
const FLUSH_OPTION: CommandError = CommandError::fixed("ERR FUNCTION FLUSH only supports SYNC|ASYNC option");
const BAD_POLICY: CommandError =
    CommandError::fixed("ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.");
const BAD_FOOTER: CommandError = CommandError::fixed("ERR DUMP payload version or checksum are wrong");
const NO_FUNCTION: CommandError = CommandError::fixed("ERR given type is not a function");
const PRE_GA: CommandError = CommandError::fixed("ERR Pre-GA function format not supported");
const BAD_TEXT: CommandError = CommandError::fixed("ERR Failed loading library payload");

/// `FCALL function numkeys [key [key ...]] [arg [arg ...]]`, and FCALL_RO
pub(crate) fn fcall(ctx: &mut Ctx<'_>) -> CommandResult {
    show_script(ctx);
    let (library, function) = ctx.engine.scripts.libraries.function(ctx.arg(1)).ok_or(NOT_FOUND)?;
    let keys = number_of_keys(ctx, BAD_KEYS)?;
    let rules = rules(ctx, Some(library.functions[function].flags))?;
    let engine = ctx.engine;
    let known = Known { proof: Proof::default(), habit: &library.habits[function] };
    run_with_host(ctx, known, rules, keys, |keys, args, host, out| {
        thread::call(engine, &library, function, keys, args, host, out)
    })
}

/// Calls `choose` with what is known of the function that a call of FCALL will run; returns its result.
pub(crate) fn with_known<R>(engine: &'static Engine, argv: &Argv<'_>, choose: impl FnOnce(Known<'_>) -> R) -> R {
    let proof = Proof::default();
    match engine.scripts.libraries.function(argv.get(1)) {
        Some((library, function)) => choose(Known { proof, habit: &library.habits[function] }),
        None => choose(Known { proof, habit: &Habit::default() }),
    }
}

/// `FUNCTION LOAD [REPLACE] function-code`
pub(crate) fn function_load(ctx: &mut Ctx<'_>) -> CommandResult {
    let last = ctx.argc() - 1;
    let mut policy = Policy::Append;
    for index in 2..last {
        if !ctx.is(index, "REPLACE") {
            return Err(quoting("ERR Unknown option given: ", ctx.arg(index)).into());
        }
        policy = Policy::Replace;
    }
    let text = ctx.arg(last);
    let name = Library::read_name(text)?;
    if policy == Policy::Append && ctx.engine.scripts.libraries.has(&name) {
        return Err(CommandError::bytes([b"ERR Library '", name.as_slice(), b"' already exists"].concat()).into());
    }
    // It runs the library's code.
    ctx.leave_worker()?;
    let library = compile(ctx.engine, text)?;
    in_one_order(ctx)?;
    ctx.engine.scripts.libraries.add(vec![library], policy)?;
    ctx.changed_keyspace(1);
    // The server that executes the log may already have the library.
    ctx.log_instead(&[b"FUNCTION", b"LOAD", b"REPLACE", text]);
    ctx.reply_bulk(&name)
}

/// `FUNCTION DELETE library-name`
pub(crate) fn function_delete(ctx: &mut Ctx<'_>) -> CommandResult {
    in_one_order(ctx)?;
    if !ctx.engine.scripts.libraries.remove(ctx.arg(2)) {
        return Err(NO_LIBRARY.into());
    }
    log_all(ctx);
    ctx.reply_ok()
}

/// Takes the whole keyspace until this command has its place in the log: so changes of libraries are executed and
/// logged in one order. Nothing has been changed yet.
fn in_one_order(ctx: &mut Ctx<'_>) -> CommandResult {
    Ok(ctx.commit.lock_keyspace()?)
}

/// Logs the present libraries: the server that executes the log may still have earlier ones.
fn log_all(ctx: &mut Ctx<'_>) {
    ctx.changed_keyspace(1);
    if ctx.is_logged() {
        let payload = dump_all(ctx);
        ctx.log_instead(&[b"FUNCTION", b"RESTORE", &payload, b"FLUSH"]);
    }
}

/// A payload of all libraries.
fn dump_all(ctx: &Ctx<'_>) -> Vec<u8> {
    dump(&ctx.engine.scripts.libraries.all(), ctx.engine.settings.rdb_compression.load(Relaxed))
}

/// `FUNCTION FLUSH [ASYNC | SYNC]`
pub(crate) fn function_flush(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.argc() > 3 {
        return Err(ctx.wrong_subcommand().into());
    }
    if ctx.argc() == 3 && !ctx.is(2, "SYNC") && !ctx.is(2, "ASYNC") {
        return Err(FLUSH_OPTION.into());
    }
    in_one_order(ctx)?;
    ctx.engine.scripts.libraries.clear();
    ctx.changed_keyspace(1);
    ctx.reply_ok()
}

/// An error that ends with the argument the client sent; line ends at its end are left out.
fn quoting(text: &str, arg: &[u8]) -> CommandError {
    let arg = error::quoted(arg);
    let len = arg.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
    CommandError::bytes([text.as_bytes(), &arg[..len]].concat())
}

/// `FUNCTION LIST [LIBRARYNAME library-name-pattern] [WITHCODE]`
pub(crate) fn function_list(ctx: &mut Ctx<'_>) -> CommandResult {
    let (mut pattern, mut with_code) = (None, false);
    let mut rest = ctx.rest(2);
    while let Some(word) = rest.peek() {
        if !with_code && rest.take("WITHCODE") {
            with_code = true;
        } else if pattern.is_none() && rest.take("LIBRARYNAME") {
            if rest.is_empty() {
                return Err(NO_PATTERN.into());
            }
            pattern = Some(rest.next_arg());
        } else {
            return Err(quoting("ERR Unknown argument ", word).into());
        }
    }
    let mut libraries = ctx.engine.scripts.libraries.all();
    libraries.retain(|library| pattern.is_none_or(|pattern| glob_match(pattern, &library.name, true)));
    ctx.out.array(libraries.len());
    for library in libraries {
        ctx.out.map(if with_code { 4 } else { 3 });
        ctx.out.bulk_field("library_name", &library.name);
        ctx.out.bulk_field("engine", "LUA");
        ctx.out.bulk(b"functions");
        ctx.out.array(library.functions.len());
        library.functions.iter().for_each(|function| describe(ctx, function));
        if with_code {
            ctx.out.bulk_field("library_code", &library.text);
        }
    }
    Ok(())
}

fn describe(ctx: &mut Ctx<'_>, function: &Registered) {
    ctx.out.map(3);
    ctx.out.bulk_field("name", &function.name);
    ctx.out.bulk(b"description");
    match &function.description {
        Some(description) => ctx.out.bulk(description),
        None => ctx.out.null(),
    }
    ctx.out.bulk(b"flags");
    ctx.out.set(function.flags.names().count());
    function.flags.names().for_each(|name| ctx.out.simple(name));
}

/// `FUNCTION STATS`: a script runs alone, so no script runs while this is executed.
pub(crate) fn function_stats(ctx: &mut Ctx<'_>) -> CommandResult {
    let LibraryCounts { libraries, functions, .. } = ctx.engine.scripts.libraries.count();
    ctx.out.map(2);
    ctx.out.bulk(b"running_script");
    match ctx.engine.scripts.running.what() {
        Some(what) => {
            ctx.out.map(3);
            ctx.out.bulk_field("name", what.function.as_deref().unwrap_or_default());
            ctx.out.bulk(b"command");
            ctx.out.array(what.command.len());
            what.command.iter().for_each(|arg| ctx.out.bulk(arg));
            ctx.out.int_field("duration_ms", (ctx.engine.clock.now() - what.started).as_millis() as i64);
        }
        None => ctx.out.null(),
    }
    ctx.out.bulk(b"engines");
    ctx.out.map(1);
    ctx.out.bulk(b"LUA");
    ctx.out.map(2);
    ctx.out.int_field("libraries_count", libraries as i64);
    ctx.out.int_field("functions_count", functions as i64);
    Ok(())
}

/// `FUNCTION DUMP`
pub(crate) fn function_dump(ctx: &mut Ctx<'_>) -> CommandResult {
    let payload = dump_all(ctx);
    ctx.reply_bulk(&payload)
}

/// `FUNCTION RESTORE serialized-value [FLUSH | APPEND | REPLACE]`
pub(crate) fn function_restore(ctx: &mut Ctx<'_>) -> CommandResult {
    let policy = match ctx.argc() {
        3 => Policy::Append,
        4 if ctx.is(3, "APPEND") => Policy::Append,
        4 if ctx.is(3, "REPLACE") => Policy::Replace,
        4 if ctx.is(3, "FLUSH") => Policy::Flush,
        4 => return Err(BAD_POLICY.into()),
        _ => return Err(ctx.wrong_subcommand().into()),
    };
    let (texts, bad) = restore(ctx.arg(2)).map_err(unreadable)?;
    ctx.leave_worker()?;
    let restored = Libraries::default();
    let mut libraries = Vec::with_capacity(texts.len());
    for text in &texts {
        let library = compile(ctx.engine, text)?;
        restored.add(vec![Arc::clone(&library)], Policy::Append)?;
        libraries.push(library);
    }
    if let Some(bad) = bad {
        return Err(unreadable(bad).into());
    }
    in_one_order(ctx)?;
    let present = &ctx.engine.scripts.libraries;
    if policy == Policy::Append
        && let Some(library) = libraries.iter().find(|library| present.has(&library.name))
    {
        return Err(CommandError::bytes([b"ERR Library ", library.name.as_slice(), b" already exists"].concat()).into());
    }
    present.add(libraries, policy)?;
    log_all(ctx);
    ctx.reply_ok()
}

fn unreadable(bad: Bad) -> CommandError {
    match bad {
        Bad::Footer => BAD_FOOTER,
        Bad::Kind => NO_FUNCTION,
        Bad::PreGa => PRE_GA,
        Bad::Text => BAD_TEXT,
    }
}

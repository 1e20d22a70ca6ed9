//! EVAL and its variants, SCRIPT.

pub(crate) mod functions;
pub(crate) mod functions_specs;
pub(crate) mod specs;

use std::rc::Rc;

use onrush_lua::{Ended, Sha1Hex, sha1_hex};
use onrush_resp::{Reply, parse_i64};

use crate::batch::argv::Argv;
use crate::batch::execute::count_earlier;
use crate::blocking::waiter::OnTimeout;
use crate::ctx::{CommandResult, Ctx, Engine};
use crate::error::{self, CommandError, Stop};
use crate::messages::show::show_script;
use crate::observe::errors::ErrorCounts;
use crate::scripts::habit::{Habit, Known, Scope, TEXT_BYTES_MAX};
use crate::scripts::host::{Rules, ScriptHost, rules};
use crate::scripts::proof::Proof;
use crate::scripts::thread::{self, Found};
use crate::scripts::{Script, read_sha};

const NO_SCRIPT: CommandError = CommandError::fixed("NOSCRIPT No matching script. Please use EVAL.");
const TOO_MANY_KEYS: CommandError = CommandError::fixed("ERR Number of keys can't be greater than number of args");
const NEGATIVE_KEYS: CommandError = CommandError::fixed("ERR Number of keys can't be negative");
const FLUSH_OPTION: CommandError = CommandError::fixed("ERR SCRIPT FLUSH only support SYNC|ASYNC option");
const NO_DEBUGGER: CommandError = CommandError::fixed("ERR there is no debugger of scripts");
const DEBUG_MODE: CommandError = CommandError::fixed("ERR Use SCRIPT DEBUG YES/SYNC/NO");

/// The argument with the number of keys.
const NUMKEYS: usize = 2;

/// `EVAL script numkeys [key [key ...]] [arg [arg ...]]`, and EVAL_RO
pub(crate) fn eval(ctx: &mut Ctx<'_>) -> CommandResult {
    show_script(ctx);
    let keys = number_of_keys(ctx, error::NOT_INTEGER)?;
    let text = ctx.arg(1);
    let sha = sha1_hex(text);
    let script = match thread::find(ctx.engine, &sha) {
        Some(script) => script,
        None => add(ctx, sha, text, false)?,
    };
    run(ctx, &script, keys)
}

/// `EVALSHA sha1 numkeys [key [key ...]] [arg [arg ...]]`, and EVALSHA_RO
pub(crate) fn evalsha(ctx: &mut Ctx<'_>) -> CommandResult {
    show_script(ctx);
    // An argument that cannot be a SHA-1 is refused first, as in Redis.
    let sha = read_sha(ctx.arg(1)).ok_or(NO_SCRIPT)?;
    let keys = number_of_keys(ctx, error::NOT_INTEGER)?;
    let script = thread::find(ctx.engine, &sha).ok_or(NO_SCRIPT)?;
    run(ctx, &script, keys)
}

/// The number of keys of a call of a script or function. `not_integer`: the error if it is not an integer.
#[inline]
pub(super) fn number_of_keys(ctx: &Ctx<'_>, not_integer: CommandError) -> Result<usize, CommandError> {
    let keys = parse_i64(ctx.arg(NUMKEYS)).ok_or(not_integer)?;
    let given = ctx.argc() - NUMKEYS - 1;
    match usize::try_from(keys) {
        Ok(keys) if keys <= given => Ok(keys),
        Ok(_) => Err(TOO_MANY_KEYS),
        Err(_) => Err(NEGATIVE_KEYS),
    }
}

/// Compiles a script and adds it to the cache.
///
/// # Errors
/// It is not Lua; or it is too long for a worker.
fn add(ctx: &mut Ctx<'_>, sha: Sha1Hex, text: &[u8], is_loaded: bool) -> Result<Rc<Found>, Stop> {
    if text.len() > TEXT_BYTES_MAX {
        ctx.leave_worker()?;
    }
    let script = Script::new(sha, text, is_loaded, &ctx.engine.commands)?;
    let added = thread::add(ctx.engine, script, ctx.now_ms());
    added.map_err(|problem| {
        let text = [b"ERR Error compiling script (new function): ", problem.as_slice()].concat();
        CommandError::bytes(text).into()
    })
}

fn run(ctx: &mut Ctx<'_>, script: &Found, keys: usize) -> CommandResult {
    script.touch(ctx.now_ms());
    let rules = rules(ctx, script.flags)?;
    let known = Known { proof: script.proof, habit: &script.habit };
    run_with_host(ctx, known, rules, keys, |keys, args, host, out| thread::run(script, keys, args, host, out))
}

/// Some of the arguments of a call.
pub(super) struct List<'a> {
    argv: Argv<'a>,
    rest: std::ops::Range<usize>,
}

impl<'a> Iterator for List<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.rest.next().map(|index| self.argv.get(index))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rest.size_hint()
    }
}

impl ExactSizeIterator for List<'_> {}

/// The keys and the other arguments of a call.
fn lists<'a>(ctx: &Ctx<'a>, keys: usize) -> (List<'a>, List<'a>) {
    let argv = ctx.argv;
    let first_arg = NUMKEYS + 1 + keys;
    (List { argv, rest: NUMKEYS + 1..first_arg }, List { argv, rest: first_arg..argv.len() })
}

/// Calls `choose` with what is known of the script that a call of EVAL or, if `is_sha`, of EVALSHA will run; returns
/// its result. O(length of the text).
pub(super) fn with_known<R>(
    engine: &'static Engine,
    argv: &Argv<'_>,
    is_sha: bool,
    choose: impl FnOnce(Known<'_>) -> R,
) -> R {
    let sha = if is_sha { read_sha(argv.get(1)) } else { Some(sha1_hex(argv.get(1))) };
    match sha.and_then(|sha| thread::find(engine, &sha)) {
        Some(script) => choose(Known { proof: script.proof, habit: &script.habit }),
        None => choose(Known { proof: Proof::default(), habit: &Habit::default() }),
    }
}

/// Runs a script inside of the present command, with the locks that it is known to need. If it needs more, it runs
/// again with more.
pub(super) fn run_with_host<'a>(
    ctx: &mut Ctx<'a>,
    known: Known<'_>,
    rules: Rules,
    keys: usize,
    run: impl Fn(List<'a>, List<'a>, &mut ScriptHost<'_, 'a>, &mut Reply) -> Ended,
) -> CommandResult {
    if !ctx.commit.is_nested() {
        if known.proof.is_brief {
            ctx.commit.watch().is_brief = true;
        } else {
            count_earlier(ctx);
        }
    }
    loop {
        let scope = lock(ctx, known, keys)?;
        let (keys, args) = lists(ctx, keys);
        // The commands inside have their own reply buffers; this command's buffer is out of the context meanwhile.
        let mut out = std::mem::take(ctx.out);
        let mark = out.mark();
        let mut host = ScriptHost::new(ctx, known.habit, rules, scope);
        let ended = run(keys, args, &mut host, &mut out);
        let again = host.finish();
        *ctx.out = out;
        match again {
            None => {}
            Some(Stop::Undeclared) if !ctx.commit.is_nested() => {
                ctx.out.rewind(mark);
                continue;
            }
            // If it is in a transaction, that begins anew.
            Some(stop) => return Err(stop),
        }
        // The log records the effects of the commands inside as theirs.
        ctx.logs_itself();
        return match ended {
            Ended::Finished => Ok(()),
            Ended::Failed { message, is_known: true } => {
                // The error was counted when the command answered it.
                ctx.out.error_bytes(&message);
                let mut errors = ErrorCounts::default();
                errors.failed(ctx.command.id, 1);
                ctx.commit.count_errors(errors);
                Ok(())
            }
            Ended::Failed { message, .. } | Ended::Aborted { message, .. } => Err(CommandError::bytes(message).into()),
        };
    }
}

/// Locks what a script is known to need.
///
/// # Errors
/// The script is to be executed later, or elsewhere.
fn lock(ctx: &mut Ctx<'_>, known: Known<'_>, keys: usize) -> Result<Scope, Stop> {
    if ctx.commit.is_nested() {
        // The transaction has locked the keys that its scripts are known to need.
        let has_undo = ctx.commit.has_undo();
        return Ok(match ctx.commit.has_keyspace() {
            true => Scope::Keyspace { has_undo },
            false => Scope::Declared { has_undo },
        });
    }
    let scope = known.habit.scope(known.proof, ctx.commit.may_go_elsewhere());
    match scope {
        Scope::Declared { .. } => {
            let (db, keyspace) = (ctx.commit.db(), &ctx.engine.keyspace);
            let (keys, _) = lists(ctx, keys);
            ctx.commit.lock_all(keys.map(|key| (db, keyspace.hash(key))))?;
        }
        Scope::Keyspace { .. } => ctx.commit.lock_keyspace()?,
        Scope::Elsewhere => return Err(Stop::Elsewhere),
    }
    Ok(scope)
}

/// `SCRIPT LOAD script`
pub(crate) fn script_load(ctx: &mut Ctx<'_>) -> CommandResult {
    let text = ctx.arg(2);
    let sha = sha1_hex(text);
    add(ctx, sha, text, true)?;
    ctx.reply_bulk(&sha)
}

/// `SCRIPT EXISTS sha1 [sha1 ...]`
pub(crate) fn script_exists(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.out.array(ctx.argc() - 2);
    for index in 2..ctx.argc() {
        let sha = read_sha(ctx.arg(index));
        let is_there = sha.is_some_and(|sha| ctx.engine.scripts.cache.get(&sha).is_some());
        ctx.out.int(i64::from(is_there));
    }
    Ok(())
}

/// `SCRIPT FLUSH [ASYNC | SYNC]`
pub(crate) fn script_flush(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.argc() > 3 || (ctx.argc() == 3 && !ctx.is(2, "SYNC") && !ctx.is(2, "ASYNC")) {
        return Err(FLUSH_OPTION.into());
    }
    ctx.engine.scripts.cache.clear();
    ctx.reply_ok()
}

/// `SCRIPT KILL`, `FUNCTION KILL`: ends the busy script or, if `function`, the busy function. The client gets its reply when that has ended.
pub(super) fn kill(ctx: &mut Ctx<'_>, function: bool) -> CommandResult {
    let engine = ctx.engine;
    let waits = engine.offload.is_there() && !ctx.session.deny_blocking;
    engine.scripts.running.kill(function, || match waits {
        true => ctx.block_without_keys(None, OnTimeout::Never),
        false => Ok(None),
    })?;
    if !waits {
        ctx.out.ok();
    }
    Ok(())
}

/// `SCRIPT DEBUG <YES | SYNC | NO>`
pub(crate) fn script_debug(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.is(2, "NO") {
        return ctx.reply_ok();
    }
    Err(if ctx.is(2, "YES") || ctx.is(2, "SYNC") { NO_DEBUGGER.into() } else { DEBUG_MODE.into() })
}

//! Commands of a transaction: queued by their connection, executed inside of the commit of EXEC.

use std::hint::cold_path;

use onrush_resp::parse_i64;

use crate::batch::admission::{admit, program_refusal, refuse};
use crate::batch::execute::{is_http, note_timed};
use crate::batch::permission::no_longer_permitted;
use crate::clients::session::States;
use crate::cluster::under_way::look_before_queue;
use crate::command::find_keys::find_keys;
use crate::command::{Command, Flags};
use crate::commands::connection::refusal_of_replay;
use crate::commit::Commit;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError, Stop};
use crate::messages::show::show;
use crate::observe::errors::ErrorCounts;
use crate::observe::slow::{note_slow, one_of};
use crate::tracking::reads::note_reads;
use crate::transactions::transaction::Transaction;

const NOT_IN_MULTI: CommandError = CommandError::fixed("ERR Command not allowed inside a transaction");

/// Queues the present command after MULTI; `None` if it must be executed at once. `full`: memory is over its limit.
///
/// # Errors
/// The error to reply with: the command is not queued, and EXEC is refused.
pub(crate) fn queue(ctx: &mut Ctx<'_>, planned: Option<&'static Command>, full: bool) -> Option<CommandResult> {
    let command = match planned.map_or_else(|| ctx.engine.resolve(ctx.session, &ctx.argv), Ok) {
        Ok(command) => command,
        // This ends the connection.
        Err(_) if is_http(ctx.arg(0)) => return None,
        Err(error) => return Some(Err(refuse(ctx, error).into())),
    };
    if command.flags.contains(Flags::NOT_QUEUED) {
        return None;
    }
    // Planning has checked the number of arguments.
    let is_limited = ctx.session.states.intersects(States::LOGGED_OUT | States::RESTRICTED)
        || !ctx.commit.has_entered()
        || ctx.commit.have_routes_changed()
        || ctx.engine.may_restrict_writes()
        || ctx.session.monitor.is_some();
    if (planned.is_none() || is_limited || command.flags.contains(Flags::PROTECTED))
        && let Err(error) = admit(ctx, command, false)
    {
        return Some(Err(refuse(ctx, error).into()));
    }
    if planned.is_none()
        && ctx.engine.cluster.is_some()
        && let Err(error) = look_before_queue(ctx, command)
    {
        return Some(Err(refuse(ctx, error).into()));
    }
    Some(queue_command(ctx, command, full))
}

fn queue_command(ctx: &mut Ctx<'_>, command: &'static Command, full: bool) -> CommandResult {
    if ctx.session.is_replay
        && command.spec.name == "select"
        && let Some(error) = refusal_of_replay(ctx)
    {
        return Err(refuse(ctx, error).into());
    }
    if (full || command.flags.contains(Flags::NO_MULTI))
        && let Some(error) = queue_refusal(ctx, command, full)
    {
        ctx.engine.stats.threads[ctx.thread].commands[command.id as usize].rejected.add(1);
        return Err(refuse(ctx, error).into());
    }
    let Some(mut transaction) = ctx.session.transaction.take() else { return Ok(()) };
    transaction.push(command.id, command.flags, &ctx.argv, ctx.planned);
    transaction.count_slow(u32::from(!command.is_short()));
    note_keys(ctx, command, &mut transaction);
    ctx.session.show_transaction(&transaction);
    ctx.session.transaction = Some(transaction);
    ctx.out.simple("QUEUED");
    Ok(())
}

#[cold]
fn queue_refusal(ctx: &Ctx<'_>, command: &Command, full: bool) -> Option<CommandError> {
    if full && command.is_denied_oom() {
        Some(error::OUT_OF_MEMORY)
    } else if command.flags.contains(Flags::NO_MULTI) {
        Some(NOT_IN_MULTI)
    } else {
        program_refusal(ctx, command, full)
    }
}

/// Notes the keys that the present command, one of a transaction, may work on.
fn note_keys(ctx: &Ctx<'_>, command: &Command, transaction: &mut Transaction) {
    // Planned keys are queued with the command.
    let are_planned = command.has_only_fixed_keys() && !ctx.planned.hashes.is_empty();
    if command.runs_program() {
        // EXEC finds out what the script needs beside the keys that it is given.
        note_named(ctx, command, transaction);
        transaction.is_program();
    } else if command.flags.contains(Flags::OTHER_KEYS) {
        transaction.need_keyspace();
    } else if are_planned {
        // There are no other keys.
    } else if command.has_keys() {
        note_named(ctx, command, transaction);
    } else if command.spec.name == "select" && command.parent.is_none() {
        let wanted = parse_i64(ctx.arg(1)).and_then(|db| usize::try_from(db).ok());
        if let Some(db) = wanted.filter(|db| *db < ctx.engine.keyspace.databases()) {
            transaction.select(db as u32);
        }
    } else if !command.names_all_keys {
        transaction.need_keyspace();
    }
}

/// Adds the keys that the present command names to the transaction.
fn note_named(ctx: &Ctx<'_>, command: &Command, transaction: &mut Transaction) {
    match find_keys(command, &ctx.argv) {
        Ok(found) => transaction.add_keys(found.into_iter().map(|key| ctx.engine.keyspace.hash(ctx.arg(key.index)))),
        // The command will fail, or has keys that its specs do not name.
        Err(_) => transaction.need_keyspace(),
    }
}

/// How the execution of a transaction ended.
pub(crate) enum Executed {
    /// All of it was executed.
    AsAWhole,
    /// A command asked for a key that was not locked. What it did to the key is dropped.
    WithoutAKey,
    /// It was undone: it needs more than it has ([`Stop::Undeclared`]), or takes long, or changes an entry that is too
    /// large to be kept ([`Stop::Elsewhere`]).
    NotAtAll(Stop),
}

/// Executes the commands of a transaction and appends an array of their replies. Its locks must be held.
/// `has_undo`: it can be undone until its end.
pub(crate) fn execute_all(ctx: &mut Ctx<'_>, transaction: &Transaction, has_undo: bool) -> Executed {
    let (engine, thread) = (ctx.engine, ctx.thread);
    let stats = &engine.stats.threads[thread];
    ctx.out.array(transaction.len());
    ctx.commit.begin_nested();
    if has_undo {
        ctx.commit.begin_undo();
    }
    let denied_blocking = std::mem::replace(&mut ctx.session.deny_blocking, true);
    // The disk is judged once, so that no transaction is torn in two.
    let admits_writes = transaction.flags().contains(Flags::WRITE) || engine.write_restriction(&*ctx.session).is_none();
    let mut inner = Ctx::new(engine, thread, &mut *ctx.session, &mut *ctx.out, &mut *ctx.commit);
    inner.admits_writes = admits_writes;
    let (mut changes, mut timed) = (0, Timed::default());
    let is_monitored = engine.messages.has_monitors();
    let mut stopped = None;
    for (at, (id, argv, planned)) in transaction.commands().enumerate() {
        let command = engine.commands.command(id);
        (inner.command, inner.argv, inner.planned) = (command, argv, planned);
        let stop = if command.is_short() && !engine.settings.timing.may_time_each() {
            execute_queued(&mut inner)
        } else {
            cold_path();
            timed.execute(&mut inner, at)
        };
        if is_monitored {
            show(&mut inner);
        }
        changes += std::mem::take(&mut inner.changes);
        if has_undo && let Some(reason) = stops(inner.commit, stop) {
            stopped = Some(reason);
            break;
        }
    }
    ctx.session.deny_blocking = denied_blocking;
    if let Some(reason) = stopped {
        ctx.commit.undo();
        ctx.commit.end_undo();
        // A transaction that went outside is executed again.
        let _ = ctx.commit.end_nested();
        return Executed::NotAtAll(reason);
    }
    ctx.commit.end_undo();
    let ended = ctx.commit.end_nested();
    ctx.executing.note(ctx.command.id);
    stats.changes.add(changes);
    stats.commands_processed.add(transaction.len() as u64);
    timed.count(ctx, transaction);
    if ended.is_ok() { Executed::AsAWhole } else { Executed::WithoutAKey }
}

/// Why a transaction that can be undone must begin anew, if it must.
fn stops(commit: &Commit, stop: Option<Stop>) -> Option<Stop> {
    match stop {
        _ if commit.tells_too_much() => Some(Stop::Elsewhere),
        Some(Stop::Elsewhere | Stop::Later) => Some(Stop::Elsewhere),
        stop => commit.went_outside().or(stop.filter(|stop| *stop == Stop::Undeclared)),
    }
}

/// Commands of a transaction that are timed one by one. All others are timed together.
#[derive(Default)]
struct Timed {
    /// Their places and times.
    commands: Vec<(usize, u64)>,
    nanos: u64,
}

impl Timed {
    /// Executes the command of a context, at this place of its transaction.
    fn execute(&mut self, ctx: &mut Ctx<'_>, at: usize) -> Option<Stop> {
        let (started, reply_at) = (ctx.engine.clock.now(), ctx.out.len());
        ctx.started = started;
        let stop = execute_queued(ctx);
        let nanos = (ctx.engine.clock.now() - started).as_nanos() as u64;
        note_timed(ctx, nanos, ctx.out.len().saturating_sub(reply_at));
        self.commands.push((at, nanos));
        self.nanos += nanos;
        stop
    }

    /// Counts all commands of the transaction, which `ctx` has executed.
    fn count(&self, ctx: &Ctx<'_>, transaction: &Transaction) {
        let (stats, timing) = (&ctx.engine.stats.threads[ctx.thread], &ctx.engine.settings.timing);
        let took_ns = (ctx.engine.clock.now() - ctx.started).as_nanos() as u64;
        let (rest_ns, rest_len) =
            (took_ns.saturating_sub(self.nanos), (transaction.len() - self.commands.len()) as u64);
        let each_ns = rest_ns / rest_len.max(1);
        let mut timed = self.commands.iter().peekable();
        let mut ids = transaction.ids().enumerate().peekable();
        while let Some((at, id)) = ids.next() {
            let count = |times, nanos| stats.commands[id as usize].count(times, nanos, timing.tracks());
            if let Some((_, nanos)) = timed.next_if(|(place, _)| *place == at) {
                count(1, *nanos);
                continue;
            }
            // Equal commands in a row are counted together.
            let next_timed = timed.peek().map_or(usize::MAX, |(place, _)| *place);
            let mut times = 1;
            while ids.next_if(|(at, next)| *next == id && *at < next_timed).is_some() {
                times += 1;
            }
            count(times, each_ns * times);
        }
        if rest_len > 0 && timing.is_long_for_chunk(rest_ns) {
            note_slow(ctx.engine, &ctx.session.handle, rest_ns, || {
                vec![b"EXEC".to_vec(), one_of(rest_len).into_bytes()]
            });
        }
    }
}

/// Executes the command of a context inside of the commit of EXEC; returns what has stopped it, if something has.
pub(crate) fn execute_queued(ctx: &mut Ctx<'_>) -> Option<Stop> {
    ctx.executing.note(ctx.command.id);
    // A command before this one may have taken rights.
    ctx.session.look_at_rights(&ctx.engine.users);
    if ctx.session.states.contains(States::RESTRICTED)
        && let Some((error, errors)) = no_longer_permitted(ctx, ctx.command)
    {
        ctx.out.error_bytes(error.as_bytes());
        ctx.commit.count_errors(errors);
        return None;
    }
    let stop = execute_inside(ctx, true)?;
    cold_path();
    let mut errors = ErrorCounts::default();
    errors.error(stop.error().code());
    errors.failed(ctx.command.id, 1);
    ctx.commit.count_errors(errors);
    Some(stop)
}

/// Executes the command of a context inside of another commit, which records its effects if `is_recorded`. What has
/// stopped it becomes its reply, and is returned; the caller counts it.
pub(crate) fn execute_inside(ctx: &mut Ctx<'_>, is_recorded: bool) -> Option<Stop> {
    let mark = ctx.out.mark();
    let stop = (ctx.command.handler)(ctx).err();
    if let Some(stop) = &stop {
        cold_path();
        ctx.out.rewind(mark);
        ctx.out.error_bytes(stop.error().as_bytes());
    }
    if ctx.session.states.contains(States::TRACKS) {
        note_reads(ctx);
    }
    let changes = if is_recorded { ctx.changes } else { 0 };
    if changes > 0 && ctx.engine.commands.is_renamed() {
        ctx.log_by_original_name();
    }
    ctx.commit.end_inside(&ctx.argv, changes);
    stop
}

//! Commands of a transaction: queued by their connection, executed inside of the commit of EXEC.

use std::hint::cold_path;

use crate::admission::admit;
use crate::command::{Command, Flags};
use crate::commit::Refused;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError};
use crate::execute::{fail, note_timed};
use crate::messages::monitors::show;
use crate::session::Session;
use crate::transaction::Transaction;
use crate::watch::note_slow;

const NOT_IN_MULTI: CommandError = CommandError::fixed("ERR Command not allowed inside a transaction");

/// Queues the present command behind MULTI; `None` if it is one that is executed at once. `full`: memory is not within its
/// limit.
///
/// # Errors
/// The error to reply with: the command is not queued, and EXEC is refused.
pub(crate) fn queue(ctx: &mut Ctx<'_>, planned: Option<&'static Command>, full: bool) -> Option<CommandResult> {
    let command = match planned.map_or_else(|| ctx.engine.commands.resolve(&ctx.argv), Ok) {
        Ok(command) => command,
        Err(error) => return Some(Err(refuse(ctx, error))),
    };
    if command.flags.contains(Flags::NOT_QUEUED) {
        return None;
    }
    // Planning has seen that the number of arguments is right.
    if (planned.is_none() || !ctx.session.is_authenticated() || !ctx.commit.has_entered())
        && let Err(error) = admit(ctx, command, false)
    {
        return Some(Err(refuse(ctx, error)));
    }
    Some(queue_command(ctx, command, full))
}

fn queue_command(ctx: &mut Ctx<'_>, command: &'static Command, full: bool) -> CommandResult {
    if full || command.flags.contains(Flags::NO_MULTI) {
        cold_path();
        // What is queued takes memory, whatever the command does.
        let error = if full { error::OUT_OF_MEMORY } else { NOT_IN_MULTI };
        ctx.engine.stats.threads[ctx.thread].commands[command.id as usize].rejected.add(1);
        return Err(refuse(ctx, error));
    }
    let Some(mut transaction) = ctx.session.transaction.take() else { return Ok(()) };
    transaction.push(ctx, command);
    ctx.session.show_transaction(&transaction);
    ctx.session.transaction = Some(transaction);
    ctx.out.simple("QUEUED");
    Ok(())
}

/// Whether a command executes a transaction.
pub(crate) fn is_exec(command: &Command) -> bool {
    command.spec.name == "exec" && command.parent.is_none()
}

/// Ends a transaction because EXEC is refused with `error`; returns what is replied.
#[cold]
pub(crate) fn abort(ctx: &mut Ctx<'_>, error: &CommandError) -> CommandError {
    ctx.session.end_transaction();
    ctx.session.unwatch(ctx.engine);
    let reason = error.as_bytes();
    let reason = reason.strip_prefix(b"ERR ").unwrap_or(reason);
    CommandError::bytes([b"EXECABORT Transaction discarded because of: ", reason].concat())
}

/// Notes that a command is refused with `error`, which is returned: if it was sent behind MULTI, EXEC is refused too.
#[cold]
pub(crate) fn refuse(ctx: &mut Ctx<'_>, error: CommandError) -> CommandError {
    if let Some(transaction) = &mut ctx.session.transaction {
        transaction.fail();
    }
    error
}

/// Executes the commands of a transaction, whose locks are held, and appends an array of their replies.
///
/// # Errors
/// A command asked for a key that was not locked. What it did to it is dropped.
pub(crate) fn execute_all(ctx: &mut Ctx<'_>, transaction: &Transaction) -> Result<(), Refused> {
    let (engine, thread) = (ctx.engine, ctx.thread);
    let stats = &engine.stats.threads[thread];
    ctx.out.array(transaction.len());
    ctx.commit.begin_nested();
    let denied_blocking = std::mem::replace(&mut ctx.session.deny_blocking, true);
    let mut inner = Ctx::new(engine, thread, &mut *ctx.session, &mut *ctx.out, &mut *ctx.commit);
    let (mut changes, mut timed) = (0, Timed::default());
    let is_monitored = engine.messages.has_monitors();
    for (at, (command, argv, planned)) in transaction.commands().enumerate() {
        (inner.command, inner.argv, inner.planned) = (command, argv, planned);
        if command.is_short() && !engine.settings.watch.may_time_each() {
            execute_inside(&mut inner);
        } else {
            cold_path();
            timed.execute(&mut inner, at);
        }
        if is_monitored {
            show(&inner);
        }
        changes += std::mem::take(&mut inner.changes);
    }
    ctx.session.deny_blocking = denied_blocking;
    let ended = ctx.commit.end_nested();
    ctx.executing.note(ctx.command.id);
    stats.changes.add(changes);
    stats.commands_processed.add(transaction.len() as u64);
    timed.count(ctx, transaction);
    ended
}

/// Commands of a transaction that are timed one by one. The time of the others is taken all together.
#[derive(Default)]
struct Timed {
    /// Their places, and what they took.
    commands: Vec<(usize, u64)>,
    nanos: u64,
}

impl Timed {
    /// Executes the command of a context, at this place of its transaction.
    fn execute(&mut self, ctx: &mut Ctx<'_>, at: usize) {
        let (started, reply_at) = (ctx.engine.clock.now(), ctx.out.len());
        execute_inside(ctx);
        let nanos = (ctx.engine.clock.now() - started).as_nanos() as u64;
        note_timed(ctx, nanos, ctx.out.len().saturating_sub(reply_at));
        self.commands.push((at, nanos));
        self.nanos += nanos;
    }

    /// Counts all commands of the transaction, which `ctx` has executed.
    fn count(&self, ctx: &Ctx<'_>, transaction: &Transaction) {
        let (stats, watch) = (&ctx.engine.stats.threads[ctx.thread], &ctx.engine.settings.watch);
        let took_ns = (ctx.engine.clock.now() - ctx.started).as_nanos() as u64;
        let (rest_ns, rest_len) =
            (took_ns.saturating_sub(self.nanos), (transaction.len() - self.commands.len()) as u64);
        let each_ns = rest_ns / rest_len.max(1);
        let mut timed = self.commands.iter().peekable();
        for (at, (command, ..)) in transaction.commands().enumerate() {
            let nanos = timed.next_if(|(place, _)| *place == at).map_or(each_ns, |(_, nanos)| *nanos);
            stats.commands[command.id as usize].count(1, nanos, watch.tracks());
        }
        if rest_len > 0 && watch.is_long_for_chunk(rest_ns) {
            let text = format!("(one of {rest_len} commands, or all together)");
            note_slow(ctx.engine, &ctx.session.handle, rest_ns, || vec![b"EXEC".to_vec(), text.into_bytes()]);
        }
    }
}

/// Executes the command of a context inside of another commit. An error becomes its reply.
fn execute_inside(ctx: &mut Ctx<'_>) {
    let mark = ctx.out.mark();
    ctx.executing.note(ctx.command.id);
    if let Err(error) = (ctx.command.handler)(ctx) {
        cold_path();
        ctx.engine.stats.threads[ctx.thread].commands[ctx.command.id as usize].failed.add(1);
        fail(ctx, mark, &error);
    }
    ctx.commit.end_inside(&ctx.argv, ctx.changes);
}

/// A transaction, and what it needs of its session, on its way to another thread.
pub(crate) struct Carried {
    transaction: Box<Transaction>,
    watching: Option<Box<crate::watched::Watching>>,
}

impl Carried {
    /// Takes a session's transaction along, if there is one; the session goes on as if it was over.
    pub(crate) fn take(session: &mut Session) -> Option<Self> {
        let transaction = session.end_transaction()?;
        if let Some(db) = transaction.final_db() {
            session.db = db;
        }
        Some(Self { transaction, watching: session.watching.take() })
    }

    /// The flags of its commands together.
    pub(crate) fn flags(&self) -> Flags {
        self.transaction.flags()
    }

    /// Gives it to the session that executes EXEC.
    pub(crate) fn give(self, session: &mut Session) {
        session.resume_transaction(self.transaction);
        session.watching = self.watching;
    }
}

//! Whether a command may be executed now: only this module decides it.
//!
//! Before each command of a connection: unread replies, a shard that is held for long, CLIENT PAUSE
//! ([`Conditions::stop`]). Then, for the command itself: its number of arguments, the password, memory and more
//! ([`admit`]). A refusal after MULTI breaks the transaction ([`refuse`], [`abort`]).

use std::sync::atomic::Ordering::Relaxed;

use onrush_lua::FunctionFlags;
use onrush_store::Shard;

use crate::batch::chunk::Planned;
use crate::batch::paused::is_held_back;
use crate::batch::permission::{is_permitted, not_permitted};
use crate::batch::slice::SliceEnd;
use crate::clients::session::{ReplyMode, Session, States};
use crate::cluster::redirect::redirect;
use crate::cluster::refusals::is_redirect;
use crate::command::Flags;
use crate::command::table::Command;
use crate::commit::Commit;
use crate::ctx::{Ctx, Engine};
use crate::error::{self, CommandError};
use crate::eviction::state::Memory;
use crate::scripts::declared::declared;
use crate::settings::Pause;
use crate::shared::Shared;

const DEBUG_REFUSED: CommandError = CommandError::fixed(
    "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a \
     local connection, otherwise you need to set this option in the configuration file, and then restart the server.",
);

/// Conditions for all commands of a chunk; a command that is not short may change them.
pub(crate) struct Conditions {
    reply_limit: usize,
    pause: Pause,
    /// Whether commands wait for the end of a script that takes too long, because `busy-reply-threshold` is 0: they are
    /// not refused then.
    waits_for_script: bool,
    /// Whether a command may be held back for one of these reasons.
    may_hold_back: bool,
    /// Whether commands that use memory must be refused.
    pub(crate) full: bool,
    /// Whether the server refuses commands as a whole.
    pub(crate) restricts: bool,
    /// Whether clients may not write: this is a replica, or has too few of them.
    refuses_writes: bool,
    /// Whether what commands cost is counted by slot.
    pub(crate) counts_slots: bool,
    /// Whether short commands are executed one by one: each is timed, or may be refused because a script takes too long or
    /// its slot has gone to another node since it was planned.
    one_by_one: bool,
}

/// Most arguments of a command that counts as short.
pub(crate) const SHORT_ARGS_MAX: usize = 128;

impl Conditions {
    /// The present conditions; evicts if too much memory is in use. No locks may be held.
    pub(crate) fn now(engine: &Engine, commit: &mut Commit) -> Self {
        commit.note_pause(engine.pause(commit.now_ms()));
        let pause = engine.holds_back(commit.now_ms());
        let waits_for_script = !commit.has_entered() && engine.settings.busy_reply_ms.load(Relaxed) == 0;
        Self {
            reply_limit: engine.settings.reply_limit_bytes.load(Relaxed),
            pause,
            waits_for_script,
            restricts: engine.restricts(),
            refuses_writes: engine.replication.role.refuses_writes(),
            may_hold_back: pause != Pause::None || !commit.has_entered(),
            counts_slots: engine.settings.counts_slots(),
            full: commit.has_entered() && commit.keep_within_memory() == Memory::Stuck,
            one_by_one: commit.choose_timing()
                || !commit.has_entered()
                || engine.restricts()
                || commit.have_routes_changed(),
        }
    }

    /// Why the connection must stop before the next command, if it must.
    #[inline(always)]
    pub(crate) fn stop(&self, ctx: &Ctx<'_>, next: &Planned) -> Option<SliceEnd> {
        if ctx.out.len() >= self.reply_limit {
            ctx.engine.stats.threads[ctx.thread].reply_limit_pauses.add(1);
            Some(SliceEnd::ReplyLimit)
        } else if next.shard.is_some_and(Shard::is_held_long) && ctx.commit.has_entered() {
            Some(SliceEnd::HeldLong)
        } else if self.may_hold_back {
            self.hold_back(ctx, next.command)
        } else {
            None
        }
    }

    #[cold]
    fn hold_back(&self, ctx: &Ctx<'_>, planned: Option<&'static Command>) -> Option<SliceEnd> {
        // Nobody would send again what is refused to a replay.
        if self.waits_for_script || ctx.session.is_replay && !ctx.commit.has_entered() {
            let command = planned.or_else(|| ctx.engine.resolve(ctx.session, &ctx.argv).ok());
            let is_allowed = command.is_none_or(|command| command.flags.contains(Flags::ALLOW_BUSY));
            return (!is_allowed).then_some(SliceEnd::HeldLong);
        }
        if ctx.session.is_replay {
            return None;
        }
        let is_import = ctx.session.is_importing();
        let pause = if is_import { ctx.engine.holds_back_imports(ctx.now_ms()) } else { self.pause };
        held_back(ctx, pause, planned).then_some(SliceEnd::Paused)
    }

    /// Whether equal commands may be executed as one run: not if one of them may fail, be logged or have to wait.
    #[inline]
    pub(crate) fn admit_run(&self, ctx: &Ctx<'_>, run: &Planned, plain: bool) -> bool {
        self.pause == Pause::None
            && !run.shard.is_some_and(Shard::is_held_long)
            && !ctx.commit.is_observed()
            && !ctx.engine.messages.has_monitors()
            && (plain || ctx.session.states.is_empty())
            && ctx.session.reply_mode == ReplyMode::On
            && !self.one_by_one
            && !(self.full && run.command.is_some_and(Command::is_denied_oom))
            && !(self.refuses_writes(ctx) && run.command.is_some_and(|command| command.flags.contains(Flags::WRITE)))
    }

    /// Whether the commands of a transaction may be executed where they stand.
    pub(crate) fn admit_together(&self, ctx: &Ctx<'_>) -> bool {
        self.pause == Pause::None
            && !self.full
            && !self.one_by_one
            && !self.refuses_writes(ctx)
            && !ctx.engine.messages.has_monitors()
            && ctx.out.len() < self.reply_limit
    }

    /// Whether any short command may be executed: its connection is in no special state, memory is within its limit,
    /// and nothing times or shows each command.
    #[inline]
    pub(crate) fn admit_all_short(&self, ctx: &Ctx<'_>) -> bool {
        ctx.session.states.is_empty() && self.admit_all_short_but_for_rights(ctx)
    }

    /// As [`Self::admit_all_short`], whatever the state of the connection is.
    #[inline]
    pub(crate) fn admit_all_short_but_for_rights(&self, ctx: &Ctx<'_>) -> bool {
        !self.full && !self.one_by_one && !ctx.engine.messages.has_monitors() && !self.refuses_writes(ctx)
    }

    /// Whether the client may not write.
    #[inline]
    fn refuses_writes(&self, ctx: &Ctx<'_>) -> bool {
        self.refuses_writes && !ctx.session.is_replay
    }
}

/// Whether a command is short, and may be executed as such. `all`: [`Conditions::admit_all_short`]; `full`: memory is not within
/// its limit.
#[inline(always)]
pub(crate) fn admit_short(ctx: &Ctx<'_>, command: &Command, all: bool, full: bool) -> bool {
    command.is_short() && ctx.argc() <= SHORT_ARGS_MAX && (all || admit_this_short(ctx, command, full))
}

#[cold]
fn admit_this_short(ctx: &Ctx<'_>, command: &Command, full: bool) -> bool {
    let may_write = ctx.session.is_replay || !ctx.engine.replication.role.refuses_writes();
    let is_seen = ctx.commit.times_each() || ctx.engine.messages.has_monitors() || ctx.engine.restricts();
    (ctx.session.states - States::HEARS - States::TRACKS - States::RESTRICTED - States::ASKS).is_empty()
        && !is_seen
        && (may_write || !command.flags.contains(Flags::WRITE))
        && !(full && command.is_denied_oom())
        && ctx.commit.has_entered()
        && !ctx.commit.have_routes_changed()
        && is_permitted(ctx, command)
}

/// Whether the session may execute a command with these arguments. `full`: memory is not within its limit. If several
/// reasons are against it, the error is that of redis-server, which looks for them in this order.
///
/// # Errors
/// The error to reply with, which is counted.
pub(crate) fn admit(ctx: &Ctx<'_>, command: &Command, full: bool) -> Result<(), CommandError> {
    let stats = &ctx.engine.stats.threads[ctx.thread];
    let refused = if !command.accepts(ctx.argv.len()) {
        command.wrong_arity()
    } else if command.flags.contains(Flags::PROTECTED)
        && !ctx.engine.process.allows_debug(ctx.session.handle.is_local())
    {
        DEBUG_REFUSED
    } else if !ctx.session.is_authenticated() && !command.flags.contains(Flags::NO_AUTH) {
        error::NO_AUTH
    } else if ctx.session.states.contains(States::RESTRICTED)
        && !(ctx.session.states.contains(States::QUEUES) && command.flags.contains(Flags::NO_MULTI))
        && let Some(refusal) = not_permitted(ctx, command)
    {
        refusal
    } else if ctx.engine.cluster.is_some()
        && let Some(elsewhere) = redirect(ctx, command)
    {
        elsewhere
    } else if full && command.is_denied_oom() {
        error::OUT_OF_MEMORY
    } else if let Some(refusal) = ctx.engine.restriction(command, ctx.session) {
        refusal
    } else if (full || ctx.engine.may_restrict_writes())
        && let Some(refusal) = program_refusal(ctx, command, full)
    {
        refusal
    } else if ctx.session.states.contains(States::SUBSCRIBED) && !may_subscriber(command) {
        not_for_subscribers(command)
    } else if let Some(refusal) = ctx.engine.stale_refusal(command, ctx.session) {
        refusal
    } else if let Some(refusal) = ctx.engine.loading_refusal(command, ctx.session) {
        refusal
    } else if !ctx.commit.has_entered() && !command.flags.contains(Flags::ALLOW_BUSY) {
        // A server that loads data is not merely busy, although that may have the whole keyspace for long.
        ctx.engine.busy_refusal()
    } else if ctx.session.monitor.is_some() && reaches_keys(ctx, command) {
        error::NOT_FOR_MONITORS
    } else {
        return Ok(());
    };
    stats.commands[command.id as usize].rejected.add(1);
    Err(refused)
}

/// Why a command must not call its script or function: this declares flags, and by them it writes, which is refused now,
/// or uses memory, which is `full`. One that declares nothing is refused at the first command that does so.
#[cold]
pub(crate) fn program_refusal(ctx: &Ctx<'_>, command: &Command, full: bool) -> Option<CommandError> {
    let flags = declared(ctx.engine, command, &ctx.argv)?;
    if flags.contains(FunctionFlags::NO_WRITES) {
        None
    } else if full && !flags.contains(FunctionFlags::ALLOW_OOM) {
        Some(error::OUT_OF_MEMORY)
    } else {
        ctx.engine.write_restriction(ctx.session)
    }
}

/// Ends a transaction because EXEC is refused with `error`; returns the reply.
#[cold]
pub(crate) fn abort(ctx: &mut Ctx<'_>, error: &CommandError) -> CommandError {
    abort_session(ctx.session, ctx.engine, error)
}

/// As [`abort`], but the client is to hear where the transaction belongs.
#[cold]
pub(crate) fn abort_here(ctx: &mut Ctx<'_>, error: CommandError) -> CommandError {
    if !is_redirect(&error) {
        return abort(ctx, &error);
    }
    ctx.session.end_transaction();
    ctx.session.unwatch(&ctx.engine.watched);
    error
}

/// As [`abort`], for a session whose EXEC is not executed.
#[cold]
pub(crate) fn abort_session(session: &mut Session, shared: &Shared, error: &CommandError) -> CommandError {
    session.end_transaction();
    session.unwatch(&shared.watched);
    let reason = error.as_bytes();
    let reason = reason.strip_prefix(b"ERR ").unwrap_or(reason);
    CommandError::bytes([b"EXECABORT Transaction discarded because of: ", reason].concat())
}

/// Notes that a command is refused with `error`, and returns the error: if the command came after MULTI, EXEC is
/// refused too.
#[cold]
pub(crate) fn refuse(ctx: &mut Ctx<'_>, error: CommandError) -> CommandError {
    if let Some(transaction) = &mut ctx.session.transaction {
        transaction.fail();
    }
    error
}

/// Whether a client with subscriptions in RESP2 may send a command.
fn may_subscriber(command: &Command) -> bool {
    command.flags.contains(Flags::PUBSUB | Flags::NOSCRIPT) || command.flags.contains(Flags::FOR_SUBSCRIBERS)
}

fn not_for_subscribers(command: &Command) -> CommandError {
    CommandError::text(format!(
        "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
        command.full_name
    ))
}

/// Whether a command may read or change keys; an EXEC does if one of its commands does.
fn reaches_keys(ctx: &Ctx<'_>, command: &Command) -> bool {
    let reaching = Flags::READONLY | Flags::WRITE | Flags::MAY_REPLICATE;
    let queued = || ctx.session.transaction.as_ref().map_or(Flags::empty(), |transaction| transaction.flags());
    command.flags.intersects(reaching) || command.is_exec() && queued().intersects(reaching)
}

/// Whether a pause applies to a command.
#[cold]
fn held_back(ctx: &Ctx<'_>, pause: Pause, planned: Option<&'static Command>) -> bool {
    if matches!(pause, Pause::None | Pause::All) {
        return pause == Pause::All;
    }
    // Planning does not look up subcommands.
    let command = planned.or_else(|| ctx.engine.resolve(ctx.session, &ctx.argv).ok());
    command.is_some_and(|command| {
        let transaction = ctx.session.transaction.as_deref().filter(|_| command.is_exec());
        is_held_back(ctx.engine, pause, command, &ctx.argv, transaction)
    })
}

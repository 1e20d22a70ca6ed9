//! The script host: the engine's side of a script that runs.

use std::hint::cold_path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use onrush_lua::{FunctionFlags, Host, Interrupt, LogLevel};
use onrush_resp::{ArgRange, Reply};

use super::What;
use super::habit::{Habit, Scope};
use super::inside::execute_called;
use crate::batch::argv::Argv;
use crate::batch::permission::not_permitted_in_script;
use crate::blocking::serve::refuse_waiting;
use crate::clients::session::States;
use crate::cluster::redirect::{GoesOn, refusal_in_script};
use crate::cluster::slotted::slot_of;
use crate::command::{Command, Flags};
use crate::ctx::Ctx;
use crate::error::{self, CommandError, Stop};
use crate::long::offload::Task;
use crate::observe::errors::ErrorCounts;
use crate::replication::role::PRIMARY_DOWN;

/// What a script may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// It must not change anything.
    pub(crate) is_read_only: bool,
    /// It must not use more memory, unless it has changed something already.
    pub(crate) is_full: bool,
    /// It may look at no data, as that may be old.
    pub(crate) is_stale: bool,
    /// In a cluster it keeps to one slot.
    pub(crate) keeps_to_slot: bool,
}

const UNKNOWN: CommandError = CommandError::fixed("ERR Unknown Redis command called from script");
const WRONG_ARITY: CommandError = CommandError::fixed("ERR Wrong number of args calling Redis command from script");
const NOT_ALLOWED: CommandError = CommandError::fixed("ERR This Redis command is not allowed from script");
const ON_STALE_DATA: CommandError = CommandError::fixed("ERR Can not execute the command on a stale replica");
const READ_ONLY: CommandError = CommandError::fixed("ERR Write commands are not allowed from read-only scripts.");
/// No client sees this: the script ends here.
const BEGINS_ANEW: CommandError = CommandError::fixed("ERR the script begins anew");
const NO_CLUSTER: CommandError = CommandError::fixed("ERR Can not run script on cluster, 'no-cluster' flag is set.");
const WRITES: CommandError = CommandError::fixed("ERR Can not execute a script with write flag using *_ro command.");

/// What a script may do, by its flags and by how it was called. `flags` is `None` for a script without a shebang, which
/// declares nothing.
///
/// # Errors
/// It must not run.
pub(crate) fn rules(ctx: &Ctx<'_>, flags: Option<FunctionFlags>) -> Result<Rules, CommandError> {
    let is_read_only = ctx.command.flags.contains(Flags::READONLY);
    let has = |flag| flags.is_some_and(|flags| flags.contains(flag));
    if ctx.engine.cluster.is_some() && has(FunctionFlags::NO_CLUSTER) {
        return Err(NO_CLUSTER);
    }
    let is_stale = ctx.engine.is_stale(ctx.session);
    if is_stale && !has(FunctionFlags::ALLOW_STALE) {
        return Err(PRIMARY_DOWN);
    }
    let is_full = ctx.commit.is_stuck();
    if flags.is_some() && !has(FunctionFlags::NO_WRITES) {
        if is_read_only {
            return Err(WRITES);
        }
        if is_full && !has(FunctionFlags::ALLOW_OOM) {
            return Err(error::OUT_OF_MEMORY);
        }
        if !ctx.admits_writes
            && let Some(refusal) = ctx.engine.write_refusal()
        {
            return Err(refusal);
        }
    }
    Ok(Rules {
        is_read_only: is_read_only || has(FunctionFlags::NO_WRITES),
        is_full: is_full && !has(FunctionFlags::ALLOW_OOM),
        is_stale,
        keeps_to_slot: flags.is_some() && !has(FunctionFlags::ALLOW_CROSS_SLOT_KEYS),
    })
}

/// The host of a script. Its commit has the locks that the script is known to need.
pub(crate) struct ScriptHost<'a, 'c> {
    ctx: &'a mut Ctx<'c>,
    habit: &'a Habit,
    /// The client's database; selected again at the end.
    db: u32,
    denied_blocking: bool,
    rules: Rules,
    is_outermost: bool,
    /// Whether it has the locks of some keys only.
    is_scoped: bool,
    has_written: bool,
    /// The slot of the keys that it has worked on, in a cluster.
    slot: Option<u16>,
    /// Whether it has done what cannot be done twice.
    has_effects: bool,
    is_recorded: bool,
    changes: u64,
    /// Errors of its commands and in its reply, which do not count if it is executed again.
    errors: ErrorCounts,
    /// Whether its reply has an error that no command has answered.
    returns_own_error: bool,
    /// Why the script was stopped in order to execute it again: [`Stop::Undeclared`] or [`Stop::Elsewhere`].
    again: Option<Stop>,
    /// Whether it is marked as busy.
    is_told: bool,
    /// Whether it must end because it was about to write after SCRIPT KILL.
    is_killed: bool,
    /// Whether the command that it has called last is not short.
    calls_slow: bool,
}

/// Longest run of a script on a worker. A script that takes longer is executed again from its beginning on the thread
/// for long commands, so that the worker is free again.
const ON_WORKER_MAX: Duration = Duration::from_millis(5);

/// With a `busy-reply-threshold` of 0, commands wait for scripts as long as these take. But workers serve their
/// connections outside of the gate after this time, so that clients can end a script.
const WITHOUT_THRESHOLD_MS: u64 = 5_000;

const KILLED_SCRIPT: &[u8] = b"ERR Error running script: Script killed by user with SCRIPT KILL.";
const KILLED_FUNCTION: &[u8] = b"ERR Error running script: Script killed by user with FUNCTION KILL.";

impl<'a, 'c> ScriptHost<'a, 'c> {
    /// Begins a script. The commit has the locks of its scope.
    pub(crate) fn new(ctx: &'a mut Ctx<'c>, habit: &'a Habit, rules: Rules, scope: Scope) -> Self {
        let db = ctx.session.db;
        let denied_blocking = std::mem::replace(&mut ctx.session.deny_blocking, true);
        // Inside of a transaction the commit is nested already.
        let is_outermost = !ctx.commit.is_nested();
        let is_scoped = matches!(scope, Scope::Declared { .. });
        if is_outermost {
            ctx.commit.begin_nested();
            if let Scope::Declared { has_undo: true } | Scope::Keyspace { has_undo: true } = scope {
                ctx.commit.begin_undo();
            }
        }
        let slot = ctx.engine.cluster.is_some().then(|| slot_of(ctx.command, &ctx.argv)).flatten();
        Self {
            ctx,
            habit,
            db,
            denied_blocking,
            rules,
            is_outermost,
            is_scoped,
            has_written: false,
            slot: slot.map(|slotted| slotted.slot),
            has_effects: false,
            is_recorded: true,
            changes: 0,
            errors: ErrorCounts::default(),
            returns_own_error: false,
            again: None,
            is_told: false,
            is_killed: false,
            calls_slow: false,
        }
    }

    /// Ends the script and gives the commit back to the outer command. If the script must be executed again, its
    /// effects have been undone; returns why.
    pub(crate) fn finish(mut self) -> Option<Stop> {
        let errors = std::mem::take(&mut self.errors);
        let ctx = &mut *self.ctx;
        if self.is_outermost {
            if self.again.is_some() && ctx.commit.has_undo() {
                ctx.commit.undo();
            }
            ctx.commit.end_undo();
            // A script that went outside is executed again.
            let _ = ctx.commit.end_nested();
        }
        ctx.session.deny_blocking = self.denied_blocking;
        if ctx.session.db != self.db {
            ctx.select(self.db);
        }
        if self.again.is_none() {
            if self.is_outermost {
                ctx.engine.stats.threads[ctx.thread].changes.add(self.changes);
            } else {
                ctx.changes += self.changes;
            }
            if !errors.is_empty() {
                ctx.commit.count_errors(errors);
            }
        }
        self.again.take()
    }

    /// The end of a script that SCRIPT KILL or FUNCTION KILL has asked for.
    fn killed(&self) -> Interrupt {
        Interrupt::Abort(if self.is_function() { KILLED_FUNCTION } else { KILLED_SCRIPT }.to_vec())
    }

    fn is_function(&self) -> bool {
        self.ctx.command.spec.name.starts_with("fcall")
    }

    /// Describes what runs, for other clients.
    fn what(&self) -> What {
        What {
            function: self.is_function().then(|| self.ctx.arg(1).to_vec()),
            command: self.ctx.argv.iter().map(<[u8]>::to_vec).collect(),
            started: self.ctx.started,
        }
    }

    /// Whether the script may call a command.
    fn admit(&mut self, command: &Command, argv: &Argv<'_>) -> Result<(), CommandError> {
        if !command.accepts(argv.len()) {
            return Err(WRONG_ARITY);
        }
        if command.flags.contains(Flags::NOSCRIPT) {
            return Err(NOT_ALLOWED);
        }
        if self.rules.is_stale && !command.flags.contains(Flags::STALE) {
            return Err(ON_STALE_DATA);
        }
        if self.ctx.session.states.contains(States::RESTRICTED)
            && let Some(refusal) = not_permitted_in_script(self.ctx, command, argv, &mut self.errors)
        {
            return Err(refusal);
        }
        if self.rules.is_read_only && command.flags.intersects(Flags::WRITE | Flags::MAY_REPLICATE) {
            return Err(READ_ONLY);
        }
        if self.has_written {
            // A script that has begun to write is not torn in two, whatever happens to the disk meanwhile.
            return Ok(());
        }
        let writes = command.flags.contains(Flags::WRITE);
        if writes
            && !self.ctx.admits_writes
            && let Some(refusal) = self.ctx.engine.write_restriction(self.ctx.session)
        {
            return Err(refusal);
        }
        if let Some(refusal) = self.ctx.engine.loading_refusal(command, self.ctx.session) {
            return Err(refusal);
        }
        if self.rules.is_full && command.is_denied_oom() {
            return Err(error::OUT_OF_MEMORY);
        }
        Ok(())
    }

    /// In a cluster a script calls commands only about keys that are here.
    fn keep_to_slot(&mut self, command: &Command, argv: &Argv<'_>) -> Result<(), CommandError> {
        if self.ctx.engine.cluster.is_none() {
            return Ok(());
        }
        let goes_on = match self.slot {
            _ if self.has_written => GoesOn::WithAll,
            Some(slot) if !self.is_outermost => GoesOn::With(slot),
            _ => GoesOn::No,
        };
        let slot = self.rules.keeps_to_slot.then_some(&mut self.slot);
        refusal_in_script(self.ctx, command, argv, slot, goes_on).map_or(Ok(()), Err)
    }

    fn execute(&mut self, argv: Argv<'_>, reply: &mut Reply) -> Result<(), CommandError> {
        let Ok(command) = self.ctx.engine.commands.resolve(&argv) else {
            self.errors.error(UNKNOWN.code());
            return Err(UNKNOWN);
        };
        if let Err(refusal) = self.admit(command, &argv).and_then(|()| self.keep_to_slot(command, &argv)) {
            self.errors.error(refusal.code());
            self.errors.rejected(command.id);
            return Err(refusal);
        }
        self.calls_slow = !command.is_short();
        let writes = command.flags.contains(Flags::WRITE);
        if !command.names_all_keys && !self.goes_on_uncovered(writes) {
            return Err(BEGINS_ANEW);
        }
        self.has_effects |= command.flags.intersects(Flags::WRITE | Flags::MAY_REPLICATE);
        if writes && !self.has_written {
            if self.is_told && !self.ctx.engine.scripts.running.may_write() {
                self.is_killed = true;
                return Ok(());
            }
            self.has_written = true;
        }
        let (has_changed, mark) = (self.changes > 0, reply.mark());
        let (changes, errors) = (&mut self.changes, &mut self.errors);
        let takes_long = execute_called(self.ctx, command, argv, self.is_recorded, changes, errors, reply);
        if takes_long || self.ctx.commit.tells_too_much() {
            cold_path();
            self.stop(Stop::Elsewhere);
        } else if let Some(outside) = self.ctx.commit.went_outside() {
            if has_changed && !self.ctx.commit.has_undo() {
                // The proof does not hold.
                tracing::error!("A script has worked on a key that it was not given, and cannot be undone");
                reply.rewind(mark);
                return Err(error::UNDECLARED);
            }
            self.stop(outside);
        }
        Ok(())
    }

    /// The script begins anew.
    fn stop(&mut self, stop: Stop) {
        self.habit.note(&stop);
        self.again = Some(stop);
    }

    /// Whether the script may go on with a command that may work on keys that it does not name.
    fn goes_on_uncovered(&mut self, writes: bool) -> bool {
        let has_undo = self.ctx.commit.has_undo();
        if self.is_scoped || writes && has_undo {
            // For an undo only entries are kept that are changed one by one.
            self.stop(if writes { Stop::Elsewhere } else { Stop::Undeclared });
        }
        self.again.is_none()
    }
}

impl Drop for ScriptHost<'_, '_> {
    /// Also after a panic: no script is marked as busy any more.
    fn drop(&mut self) {
        let engine = self.ctx.engine;
        if !self.is_told || !engine.scripts.running.end() {
            return;
        }
        if !self.is_outermost {
            // Other scripts may follow in the transaction.
            engine.scripts.running.answer_early(engine);
        }
        if self.ctx.thread != engine.long_thread() {
            engine.offload.post(Task::Run(Box::new(|| engine.scripts.running.answer(engine))));
        }
    }
}

impl Host for ScriptHost<'_, '_> {
    fn call(&mut self, bytes: &[u8], args: &[ArgRange], reply: &mut Reply) -> Interrupt {
        if let Err(problem) = self.execute(Argv::new(bytes, args, &[]), reply) {
            reply.error_bytes(problem.as_bytes());
        }
        if self.is_killed {
            return self.killed();
        }
        if self.again.is_some() {
            return Interrupt::Abort(Vec::new());
        }
        // Between two such commands the script may be too short to be asked.
        if std::mem::take(&mut self.calls_slow) { self.interrupt() } else { Interrupt::GoOn }
    }

    fn log(&mut self, level: LogLevel, message: &[u8]) {
        let message = String::from_utf8_lossy(message);
        match level {
            LogLevel::Debug => tracing::debug!("{message}"),
            LogLevel::Verbose | LogLevel::Notice => tracing::info!("{message}"),
            LogLevel::Warning => tracing::warn!("{message}"),
        }
    }

    fn set_replication(&mut self, flags: u8) {
        self.is_recorded = flags != 0;
    }

    fn may_execute(&mut self, args: &[&[u8]]) -> Option<bool> {
        let command = self.ctx.engine.commands.resolve(args).ok()?;
        Some(self.ctx.session.limits().is_none_or(|rights| rights.check(command, args).is_ok()))
    }

    fn returns_error(&mut self, message: &[u8], is_known: bool) {
        let command = self.ctx.command.id;
        if is_known {
            // As in Redis, each of them counts as a failure.
            self.errors.failed(command, 1);
        } else {
            self.errors.error(error::code(message));
            if !std::mem::replace(&mut self.returns_own_error, true) {
                self.errors.failed(command, 1);
            }
        }
    }

    fn interrupt(&mut self) -> Interrupt {
        let ctx = &*self.ctx;
        let running = &ctx.engine.scripts.running;
        let took = ctx.engine.clock.now() - ctx.started;
        let may_restart = ctx.commit.has_undo() || (self.is_outermost && !self.has_effects);
        if may_restart && ctx.commit.may_go_elsewhere() {
            if took > ON_WORKER_MAX {
                self.stop(Stop::Elsewhere);
                return Interrupt::Abort(Vec::new());
            }
            return Interrupt::GoOn;
        }
        let threshold_ms = ctx.engine.settings.busy_reply_ms.load(Relaxed);
        if self.is_told {
            if running.is_to_end() {
                return self.killed();
            }
        } else if took.as_millis() as u64 >= if threshold_ms == 0 { WITHOUT_THRESHOLD_MS } else { threshold_ms } {
            let end = if self.ctx.session.is_replay { "SHUTDOWN NOSAVE" } else { "SCRIPT KILL or FUNCTION KILL" };
            tracing::warn!("A script is still running past busy-reply-threshold. It can be ended with {end}");
            running.take_too_long(self.has_written, self.what());
            if threshold_ms > 0 && ctx.thread == ctx.engine.long_thread() {
                refuse_waiting(ctx.engine);
            }
            self.is_told = true;
        }
        Interrupt::GoOn
    }
}

//! The engine as scripts see it.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use onrush_lua::{FunctionFlags, Host, Interrupt, LogLevel};
use onrush_resp::{ArgRange, Reply};

use super::What;
use super::inside::execute_called;
use crate::argv::Argv;
use crate::command::Flags;
use crate::ctx::Ctx;
use crate::error::{self, CommandError};

/// What a script may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// It must not change anything.
    pub(crate) is_read_only: bool,
    /// It must not use more memory, unless it has changed something already.
    pub(crate) is_full: bool,
}

const WRITES: CommandError = CommandError::fixed("ERR Can not execute a script with write flag using *_ro command.");

/// What a script may do, by its flags and by how it was called; takes the keyspace for it. `flags` is `None` of a script without
/// a shebang: of such a one nothing is known.
///
/// # Errors
/// It must not run; or the commit puts it off.
pub(crate) fn begin(ctx: &mut Ctx<'_>, flags: Option<FunctionFlags>) -> Result<Rules, CommandError> {
    let is_read_only = ctx.command.flags.contains(Flags::READONLY);
    let has = |flag| flags.is_some_and(|flags| flags.contains(flag));
    let is_full = ctx.commit.is_stuck();
    if flags.is_some() && !has(FunctionFlags::NO_WRITES) {
        if is_read_only {
            return Err(WRITES);
        }
        if is_full && !has(FunctionFlags::ALLOW_OOM) {
            return Err(error::OUT_OF_MEMORY);
        }
    }
    ctx.commit.lock_keyspace()?;
    Ok(Rules {
        is_read_only: is_read_only || has(FunctionFlags::NO_WRITES),
        is_full: is_full && !has(FunctionFlags::ALLOW_OOM),
    })
}

/// The host of a script that runs with the whole keyspace.
pub(crate) struct ScriptHost<'a, 'c> {
    ctx: &'a mut Ctx<'c>,
    /// The client's database, which is selected again in the end.
    db: u32,
    denied_blocking: bool,
    rules: Rules,
    is_outermost: bool,
    has_written: bool,
    is_recorded: bool,
    /// Whether it was ended to be executed elsewhere from its beginning.
    goes_elsewhere: bool,
}

/// So long a script runs on a worker. One that takes longer and has written nothing is executed again from its beginning on the
/// thread for long commands, so that its worker goes on.
const ON_WORKER_MAX: Duration = Duration::from_millis(5);

const KILLED_SCRIPT: &[u8] = b"ERR Error running script: Script killed by user with SCRIPT KILL.";
const KILLED_FUNCTION: &[u8] = b"ERR Error running script: Script killed by user with FUNCTION KILL.";

impl<'a, 'c> ScriptHost<'a, 'c> {
    /// Begins a script. The commit has the keyspace.
    pub(crate) fn new(ctx: &'a mut Ctx<'c>, rules: Rules) -> Self {
        let db = ctx.session.db;
        let denied_blocking = std::mem::replace(&mut ctx.session.deny_blocking, true);
        // Inside of a transaction the commit is nested already.
        let is_outermost = !ctx.commit.is_nested();
        if is_outermost {
            ctx.commit.begin_nested();
        }
        Self {
            ctx,
            db,
            denied_blocking,
            rules,
            is_outermost,
            has_written: false,
            is_recorded: true,
            goes_elsewhere: false,
        }
    }

    /// Ends the script: the commit is the outer command's again. Says whether the script is to be executed elsewhere.
    pub(crate) fn finish(self) -> bool {
        if self.is_outermost {
            // With the whole keyspace every key is declared.
            let _ = self.ctx.commit.end_nested();
        }
        self.ctx.session.deny_blocking = self.denied_blocking;
        if self.ctx.session.db != self.db {
            self.ctx.select(self.db);
        }
        self.goes_elsewhere
    }

    fn is_function(&self) -> bool {
        self.ctx.command.spec.name.starts_with("fcall")
    }

    /// What runs, for those who ask.
    fn what(&self) -> What {
        What {
            function: self.is_function().then(|| self.ctx.arg(1).to_vec()),
            command: self.ctx.argv.iter().map(<[u8]>::to_vec).collect(),
            started: self.ctx.started,
        }
    }

    fn execute(&mut self, argv: Argv<'_>, reply: &mut Reply) -> Result<(), &'static [u8]> {
        let Ok(command) = self.ctx.engine.commands.resolve(&argv) else {
            return Err(b"ERR Unknown Redis command called from script");
        };
        if !command.accepts(argv.len()) {
            return Err(b"ERR Wrong number of args calling Redis command from script");
        }
        if command.flags.contains(Flags::NOSCRIPT) {
            return Err(b"ERR This Redis command is not allowed from script");
        }
        let writes = command.flags.contains(Flags::WRITE);
        if writes && self.rules.is_read_only {
            return Err(b"ERR Write commands are not allowed from read-only scripts.");
        }
        if self.rules.is_full && !self.has_written && command.is_denied_oom() {
            return Err(OUT_OF_MEMORY);
        }
        // What others were told cannot be taken back either.
        self.has_written |= writes || command.flags.contains(Flags::MAY_REPLICATE);
        execute_called(self.ctx, command, argv, self.is_recorded, reply);
        Ok(())
    }
}

impl Drop for ScriptHost<'_, '_> {
    /// Also after a panic: nobody is told any more that a script takes too long.
    fn drop(&mut self) {
        self.ctx.engine.scripts.running.end();
    }
}

const OUT_OF_MEMORY: &[u8] = b"OOM command not allowed when used memory > 'maxmemory'.";

impl Host for ScriptHost<'_, '_> {
    fn call(&mut self, multibulk: &[u8], args: &[ArgRange], reply: &mut Reply) -> Interrupt {
        debug_assert_eq!(error::OUT_OF_MEMORY.as_bytes(), OUT_OF_MEMORY);
        if let Err(problem) = self.execute(Argv::new(multibulk, args, &[]), reply) {
            reply.error_bytes(problem);
        }
        Interrupt::GoOn
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
        // Every user may do everything.
        self.ctx.engine.commands.resolve(args).ok().map(|_| true)
    }

    fn interrupt(&mut self) -> Interrupt {
        let ctx = &*self.ctx;
        let running = &ctx.engine.scripts.running;
        let took = ctx.engine.clock.now() - ctx.started;
        let has_way_back = self.is_outermost && !self.has_written;
        if has_way_back && took > ON_WORKER_MAX && ctx.commit.may_go_elsewhere() {
            self.goes_elsewhere = true;
            return Interrupt::Abort(Vec::new());
        }
        let threshold_ms = ctx.engine.settings.busy_reply_ms.load(Relaxed);
        if threshold_ms > 0 && took.as_millis() as u64 >= threshold_ms {
            if running.is_to_end() && !self.has_written {
                return Interrupt::Abort(if self.is_function() { KILLED_FUNCTION } else { KILLED_SCRIPT }.to_vec());
            }
            running.take_too_long(self.has_written, || self.what());
        }
        Interrupt::GoOn
    }
}

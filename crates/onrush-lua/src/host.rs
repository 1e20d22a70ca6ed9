//! The interface through which scripts reach the engine.

use onrush_resp::{ArgRange, Reply};

/// The engine, as a running script sees it.
pub trait Host {
    /// Executes a command and appends its one reply, in the protocol that `reply` speaks. An error is also a reply.
    ///
    /// `args` are its arguments: ranges of `bytes`.
    fn call(&mut self, bytes: &[u8], args: &[ArgRange], reply: &mut Reply) -> Interrupt;

    /// `redis.log`
    fn log(&mut self, level: LogLevel, message: &[u8]);

    /// `redis.set_repl`: where the effects of the following commands go, as the sum of the `REPL_*` numbers (0 to 3).
    fn set_replication(&mut self, flags: u8);

    /// `redis.acl_check_cmd`: whether the user may execute a command; `None` if there is no such command.
    fn may_execute(&mut self, args: &[&[u8]]) -> Option<bool>;

    /// The script returns an error in its reply: a message with its code. `is_known`: a command has answered it before.
    fn returns_error(&mut self, message: &[u8], is_known: bool);

    /// Whether the script may go on; called about every 10,000 Lua instructions.
    fn interrupt(&mut self) -> Interrupt;
}

/// Whether a script may go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// It may.
    GoOn,
    /// It ends now, and no code in it can catch that. The reason is an error message with its code.
    Abort(Vec<u8>),
}

/// Levels of `redis.log`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// `redis.LOG_DEBUG`
    Debug,
    /// `redis.LOG_VERBOSE`
    Verbose,
    /// `redis.LOG_NOTICE`
    Notice,
    /// `redis.LOG_WARNING`
    Warning,
}

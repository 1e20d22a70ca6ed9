//! The script that runs now: whether it takes too long for other clients, and whether it must end.
//!
//! A script has the whole keyspace, so at most one runs at a time. While it is *busy*, that is, past
//! `busy-reply-threshold`, no command waits for it: workers refuse all commands without entering the gate, except those
//! that can end the script.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use parking_lot::Mutex;

use crate::error::CommandError;

const BUSY_SCRIPT: CommandError =
    CommandError::fixed("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.");
const BUSY_FUNCTION: CommandError =
    CommandError::fixed("BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.");
const NOT_BUSY: CommandError = CommandError::fixed("NOTBUSY No scripts in execution right now.");
const UNKILLABLE: CommandError = CommandError::fixed(
    "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script \
     termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
);

/// What runs.
#[derive(Clone, Debug)]
pub(crate) struct What {
    /// The function, if it is one.
    pub(crate) function: Option<Vec<u8>>,
    /// The command's arguments.
    pub(crate) command: Vec<Vec<u8>>,
    /// When it began.
    pub(crate) started: Instant,
}

/// See the module's text.
#[derive(Default)]
pub(crate) struct Running {
    is_busy: AtomicBool,
    is_function: AtomicBool,
    has_written: AtomicBool,
    is_to_end: AtomicBool,
    what: Mutex<Option<What>>,
}

impl Running {
    /// Whether a script takes too long.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy.load(Relaxed)
    }

    /// Marks the script that runs as busy. `has_written`: it has executed a command that writes. `what` describes it,
    /// and is called the first time only.
    pub(crate) fn take_too_long(&self, has_written: bool, what: impl FnOnce() -> What) {
        self.has_written.store(has_written, Relaxed);
        if self.is_busy() {
            return;
        }
        let what = what();
        self.is_function.store(what.function.is_some(), Relaxed);
        *self.what.lock() = Some(what);
        tracing::warn!(
            "A script is still running past busy-reply-threshold. It can be ended with SCRIPT KILL or FUNCTION KILL"
        );
        self.is_busy.store(true, Relaxed);
    }

    /// Whether SCRIPT KILL has asked for the end of the running script, which has written nothing.
    pub(crate) fn is_to_end(&self) -> bool {
        self.is_to_end.load(Relaxed)
    }

    /// Notes the end of the script.
    pub(crate) fn end(&self) {
        if self.is_busy() {
            self.is_busy.store(false, Relaxed);
            self.is_to_end.store(false, Relaxed);
            *self.what.lock() = None;
        }
    }

    /// What runs, if it takes too long.
    pub(crate) fn what(&self) -> Option<What> {
        self.what.lock().clone()
    }

    /// The error that other commands get while it is busy.
    pub(crate) fn refusal(&self) -> CommandError {
        if self.is_function.load(Relaxed) { BUSY_FUNCTION } else { BUSY_SCRIPT }
    }

    /// Ends the running script: SCRIPT KILL, or FUNCTION KILL for a function.
    ///
    /// # Errors
    /// No script is busy; the busy script is of the other kind; or it has written something.
    pub(crate) fn kill(&self, function: bool) -> Result<(), CommandError> {
        if !self.is_busy() {
            return Err(NOT_BUSY);
        }
        if self.is_function.load(Relaxed) != function {
            return Err(self.refusal());
        }
        if self.has_written.load(Relaxed) {
            return Err(UNKILLABLE);
        }
        self.is_to_end.store(true, Relaxed);
        Ok(())
    }
}

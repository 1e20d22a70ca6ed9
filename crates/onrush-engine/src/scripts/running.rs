//! The script that runs now: whether it takes too long for other clients, and whether it must end.
//!
//! Scripts that keep to their keys run side by side. One that takes long has the whole keyspace, so at most one is *busy*,
//! that is, past `busy-reply-threshold`. Meanwhile no command waits for it: workers refuse all commands without entering
//! the gate, except those that can end the script.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use parking_lot::Mutex;

use crate::blocking::waiter::Waiter;
use crate::error::{CommandError, Stop};
use crate::shared::Shared;

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

/// The busy script.
struct Busy {
    what: What,
    has_written: bool,
    is_to_end: bool,
}

#[derive(Default)]
struct State {
    busy: Option<Busy>,
    /// Clients that have asked for the end of the script, and wait for it.
    killers: Vec<Arc<Waiter>>,
    /// Such clients whose script has ended.
    unanswered: Vec<Arc<Waiter>>,
}

/// See the module's text.
#[derive(Default)]
pub(crate) struct Running {
    is_busy: AtomicBool,
    is_function: AtomicBool,
    state: Mutex<State>,
}

impl Running {
    /// Whether a script takes too long.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy.load(Relaxed)
    }

    /// Marks the script that runs as busy. `has_written`: it has executed a command that writes.
    pub(crate) fn take_too_long(&self, has_written: bool, what: What) {
        self.is_function.store(what.function.is_some(), Relaxed);
        self.state.lock().busy = Some(Busy { what, has_written, is_to_end: false });
        self.is_busy.store(true, Relaxed);
    }

    /// Whether SCRIPT KILL has asked for the end of the busy script.
    pub(crate) fn is_to_end(&self) -> bool {
        self.state.lock().busy.as_ref().is_some_and(|busy| busy.is_to_end)
    }

    /// Notes that the busy script is about to write. Returns false if it must end instead: from now on it either ends or
    /// cannot be killed.
    pub(crate) fn may_write(&self) -> bool {
        let mut state = self.state.lock();
        let Some(busy) = &mut state.busy else { return true };
        busy.has_written |= !busy.is_to_end;
        busy.has_written
    }

    /// Notes the end of the busy script; returns whether clients wait for that. [`Running::answer`] comes when its locks
    /// have gone back.
    pub(crate) fn end(&self) -> bool {
        let mut state = self.state.lock();
        state.busy = None;
        self.is_busy.store(false, Relaxed);
        let killers = std::mem::take(&mut state.killers);
        state.unanswered.extend(killers);
        !state.unanswered.is_empty()
    }

    /// Replies to the clients that have killed a script that has ended. No locks may be held.
    pub(crate) fn answer(&self, shared: &'static Shared) {
        let unanswered = std::mem::take(&mut self.state.lock().unanswered);
        for killer in unanswered {
            killer.finish(shared, |out| out.ok());
        }
    }

    /// As [`Running::answer`], while locks are held: waits for none, and leaves clients for later whose state is locked.
    pub(crate) fn answer_early(&self, shared: &'static Shared) {
        let unanswered = std::mem::take(&mut self.state.lock().unanswered);
        let is_locked = |killer: &Arc<Waiter>| !killer.try_finish(shared, |out| out.ok());
        let later: Vec<_> = unanswered.into_iter().filter(is_locked).collect();
        self.state.lock().unanswered.extend(later);
    }

    /// What runs, if it takes too long.
    pub(crate) fn what(&self) -> Option<What> {
        self.state.lock().busy.as_ref().map(|busy| busy.what.clone())
    }

    /// The error that other commands get while it is busy.
    pub(crate) fn refusal(&self) -> CommandError {
        if self.is_function.load(Relaxed) { BUSY_FUNCTION } else { BUSY_SCRIPT }
    }

    /// Ends the busy script: SCRIPT KILL, or FUNCTION KILL for a function. `wait` makes the client wait for that end, if
    /// it can.
    ///
    /// # Errors
    /// No script is busy; the busy script is of the other kind; or it has written something.
    pub(crate) fn kill(
        &self,
        function: bool,
        wait: impl FnOnce() -> Result<Option<Arc<Waiter>>, Stop>,
    ) -> Result<(), Stop> {
        let mut state = self.state.lock();
        let Some(busy) = &mut state.busy else { return Err(NOT_BUSY.into()) };
        if busy.has_written {
            return Err(UNKILLABLE.into());
        }
        if busy.what.function.is_some() != function {
            return Err(self.refusal().into());
        }
        busy.is_to_end = true;
        state.killers.extend(wait()?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(has_written: bool) -> Running {
        let running = Running::default();
        running.take_too_long(has_written, What { function: None, command: Vec::new(), started: Instant::now() });
        running
    }

    #[test]
    fn a_script_that_is_to_end_writes_nothing_more() {
        let running = busy(false);
        running.kill(false, || Ok(None)).expect("it can be killed");
        assert!(running.is_to_end() && !running.may_write());
        let running = busy(false);
        assert!(running.may_write());
        assert_eq!(running.kill(false, || Ok(None)), Err(UNKILLABLE.into()));
        assert_eq!(busy(true).kill(false, || Ok(None)), Err(UNKILLABLE.into()));
    }

    #[test]
    fn a_late_kill_does_not_hit_the_next_script() {
        let running = busy(false);
        running.kill(false, || Ok(None)).expect("it can be killed");
        running.end();
        assert_eq!(running.kill(false, || Ok(None)), Err(NOT_BUSY.into()));
        running.take_too_long(false, What { function: None, command: Vec::new(), started: Instant::now() });
        assert!(!running.is_to_end());
    }
}

//! Errors on the stack: messages, the end of a script from outside, panics, the place of the code that failed.

use std::any::Any;
use std::ffi::{CStr, c_char, c_int};

use onrush_lua_sys as ffi;

use super::{Kind, Outcome, Raised, Stack};
use crate::host::Interrupt;

/// Lua's message when it gets no memory; the state holds this string from its beginning.
const NOT_ENOUGH_MEMORY: &[u8] = b"not enough memory";

impl<'s> Stack<'s> {
    /// Leaves a message as the error, with the place of the running Lua function in front.
    #[cold]
    pub(crate) fn raise(&self, message: impl AsRef<[u8]>) -> Raised {
        self.push_where(1);
        self.push_bytes(message.as_ref());
        self.join();
        Raised
    }

    /// Leaves a message as the error, without a place.
    #[cold]
    pub(crate) fn raise_plain(&self, message: impl AsRef<[u8]>) -> Raised {
        self.push_bytes(message.as_ref());
        Raised
    }

    /// Leaves a table with `err` as the error, as `redis.*` functions do.
    #[cold]
    pub(crate) fn raise_table(&self, message: impl AsRef<[u8]>) -> Raised {
        self.push_error_table(message.as_ref());
        Raised
    }

    /// Pushes a table with `err`.
    pub(crate) fn push_error_table(&self, message: &[u8]) {
        self.push_text_table("err", message);
    }

    /// Leaves the error of a wrong argument, which names the function as its caller does.
    #[cold]
    pub(crate) fn bad_argument(&self, nth: i32, problem: &str) -> Raised {
        let name = self.name_of_running();
        let name = name.as_deref().map_or("?".into(), String::from_utf8_lossy);
        self.raise(format!("bad argument #{nth} to '{name}' ({problem})"))
    }

    /// # Errors
    /// `is_wrong`: leaves a table with the problem.
    pub(crate) fn refuse_if(&self, is_wrong: bool, problem: &str) -> Result<(), Raised> {
        if is_wrong { Err(self.raise_table(problem)) } else { Ok(()) }
    }

    /// # Errors
    /// `is_wrong`: leaves the error of a wrong argument.
    #[inline]
    pub(crate) fn refuse_argument_if(&self, is_wrong: bool, nth: i32, problem: &str) -> Result<(), Raised> {
        if is_wrong { Err(self.bad_argument(nth, problem)) } else { Ok(()) }
    }

    /// Leaves the error of an argument of a wrong type.
    #[cold]
    pub(crate) fn wrong_type(&self, nth: i32, expected: &str) -> Raised {
        self.bad_argument(nth, &format!("{expected} expected, got {}", self.kind(nth).name()))
    }

    /// Whether argument `nth` is there, and not nil.
    pub(crate) fn is_given(&self, nth: i32) -> bool {
        !matches!(self.kind(nth), Kind::None | Kind::Nil)
    }

    /// Argument `nth` as a string or number.
    ///
    /// # Errors
    /// The argument is neither.
    pub(crate) fn check_text(&self, nth: i32) -> Result<&'s [u8], Raised> {
        self.text(nth).ok_or_else(|| self.wrong_type(nth, "string"))
    }

    /// Argument `nth` as a number.
    ///
    /// # Errors
    /// The argument is not a number.
    #[inline]
    pub(crate) fn check_number(&self, nth: i32) -> Result<f64, Raised> {
        self.number(nth).ok_or_else(|| self.wrong_type(nth, "number"))
    }

    /// Checks that memory is within its limit.
    ///
    /// # Errors
    /// Memory is over its limit.
    #[inline]
    pub(crate) fn check_memory(&self) -> Result<(), Raised> {
        if self.anchor.heap.is_over() { Err(self.raise_no_memory()) } else { Ok(()) }
    }

    #[cold]
    fn raise_no_memory(&self) -> Raised {
        self.anchor.heap.take_over();
        self.raise_plain(NOT_ENOUGH_MEMORY)
    }

    /// Handles a function of ours that has failed or has gone over the memory limit.
    #[cold]
    pub(super) fn finish(&self, outcome: Outcome) -> c_int {
        if self.anchor.heap.is_over() {
            self.set_top(0);
            self.raise_no_memory();
            return -1;
        }
        outcome.map_or(-1, |results| results as c_int)
    }

    /// Ends the script because of a panic, and keeps the panic until then.
    #[cold]
    pub(super) fn hold_panic(&self, panic: Box<dyn Any + Send>) -> c_int {
        self.anchor.panic.set(Some(panic));
        self.abort(b"ERR internal error".to_vec());
        -1
    }

    /// The panic that ended the script, if one did.
    pub(crate) fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.anchor.panic.take()
    }

    /// Leaves an error on the stack that nothing in the script can catch.
    #[cold]
    pub(crate) fn abort(&self, reason: Vec<u8>) -> Raised {
        self.push_error_table(&reason);
        self.anchor.aborted.borrow_mut().get_or_insert(reason);
        Raised
    }

    /// Code that catches an error must call this first.
    ///
    /// # Errors
    /// The script has been ended from outside.
    #[inline]
    pub(crate) fn check_aborted(&self) -> Result<(), Raised> {
        match &*self.anchor.aborted.borrow() {
            None => Ok(()),
            Some(reason) => {
                self.push_error_table(reason);
                Err(Raised)
            }
        }
    }

    /// Why the script was ended from outside, if it was.
    pub(crate) fn take_aborted(&self) -> Option<Vec<u8>> {
        self.anchor.aborted.borrow_mut().take()
    }

    /// Whether the script must end; if so, the error is on the stack.
    pub(super) fn ask_host(&self) -> bool {
        if self.check_aborted().is_err() {
            return true;
        }
        match self.host(|host| host.interrupt()) {
            Some(Interrupt::Abort(reason)) => {
                self.abort(reason);
                true
            }
            _ => false,
        }
    }

    /// Counts work of our own code, in about the time of one Lua instruction each, and asks the host from time to time
    /// whether the script may go on. Loops that a script makes long call this; there is space for three values.
    ///
    /// # Errors
    /// The script must end.
    #[inline]
    pub(crate) fn work(&self, steps: usize) -> Result<(), Raised> {
        // SAFETY: changes a count of the state.
        if unsafe { ffi::onrush_lua_spend(self.state, steps) } != 0 && self.ask_host() {
            return Err(Raised);
        }
        Ok(())
    }

    /// Pushes `name:line:` of the Lua function at a level above the running one, or an empty string.
    pub(crate) fn push_where(&self, level: i32) {
        // SAFETY: pushes one string.
        unsafe { ffi::luaL_where(self.state, level) }
    }

    /// The source and line of the Lua code that raised an error, as its handler sees it.
    pub(crate) fn place_of_error(&self) -> Option<(Vec<u8>, i32)> {
        let mut place = self.debug(1, c"Sl")?;
        if place.what == b"C" {
            place = self.debug(2, c"Sl")?;
        }
        Some((place.source, place.line))
    }

    fn name_of_running(&self) -> Option<Vec<u8>> {
        self.debug(0, c"n")?.name
    }

    fn debug(&self, level: i32, what: &CStr) -> Option<Place> {
        // SAFETY: Lua fills in the requested fields; a null pointer is a valid value for the others.
        unsafe {
            let mut debug: ffi::lua_Debug = std::mem::zeroed();
            if ffi::lua_getstack(self.state, level, &mut debug) == 0
                || ffi::lua_getinfo(self.state, what.as_ptr(), &mut debug) == 0
            {
                return None;
            }
            let text = |text: *const c_char| (!text.is_null()).then(|| CStr::from_ptr(text).to_bytes().to_vec());
            Some(Place {
                name: text(debug.name),
                what: text(debug.what).unwrap_or_default(),
                source: text(debug.source).unwrap_or_default(),
                line: debug.currentline,
            })
        }
    }
}

struct Place {
    name: Option<Vec<u8>>,
    what: Vec<u8>,
    source: Vec<u8>,
    line: i32,
}

//! Code on the stack: calls, compilation, libraries, collection of garbage.

use std::ffi::{CStr, c_int};
use std::ptr;

use onrush_lua_sys as ffi;

use super::entry::{MATCHING, Pieces, hook, matching, read};
use super::{Kind, Raised, SLOTS, Stack, TOP};

/// Lua instructions between two questions to the host whether the script may go on.
const INSTRUCTIONS_BETWEEN_QUESTIONS: c_int = 10_000;

impl<'s> Stack<'s> {
    /// Calls the function below the topmost `args` values under protection. Its results, or the error, take their
    /// place. A handler is a function that gets the error first.
    ///
    /// # Errors
    /// The function raised an error.
    #[inline]
    pub(crate) fn call(&self, args: i32, handler: Option<i32>) -> Result<(), Raised> {
        self.call_for(args, ffi::LUA_MULTRET, handler)
    }

    /// As [`Stack::call`], with exactly `results` results.
    #[inline]
    pub(crate) fn call_for(&self, args: i32, results: i32, handler: Option<i32>) -> Result<(), Raised> {
        let depth = self.anchor.heap.begin_lua();
        // SAFETY: a function and so many arguments are on the stack. No error comes out of a protected call.
        let status = unsafe { ffi::lua_pcall(self.state, args, results, handler.unwrap_or(0)) };
        self.anchor.heap.end_lua(depth);
        if status == ffi::LUA_OK { Ok(()) } else { Err(Raised) }
    }

    /// Pushes a function compiled from a text, or an error message. Precompiled code counts as a text with errors.
    ///
    /// # Errors
    /// The text is not Lua.
    pub(crate) fn compile(&self, code: &[u8], name: &CStr) -> Result<(), Raised> {
        let mut padded = Vec::new();
        let mut code = code;
        if code.first() == Some(&ffi::LUA_SIGNATURE[0]) {
            // Behind a blank it does not look like compiled code any more.
            padded.push(b' ');
            padded.extend_from_slice(code);
            code = &padded;
        }
        // SAFETY: Lua compiles under protection and copies what it keeps.
        let status = unsafe { ffi::luaL_loadbuffer(self.state, code.as_ptr().cast(), code.len(), name.as_ptr()) };
        if status == ffi::LUA_OK { Ok(()) } else { Err(Raised) }
    }

    /// As [`Stack::compile`], for a text that a function returns in pieces, the last one nil or empty. The function is
    /// the only value on the stack.
    ///
    /// # Errors
    /// The text is not Lua, or the function failed.
    pub(crate) fn compile_from(&self, function: i32, name: &CStr) -> Result<(), Raised> {
        debug_assert!(self.top() == 1 && function == 1);
        // The present piece stays on the stack while Lua reads it.
        self.push_nil();
        let mut pieces = Pieces { holds_one: false, is_first: true };
        // SAFETY: `read` keeps to the contract of readers, and `pieces` lives until this returns.
        let status = unsafe { ffi::lua_load(self.state, read, ptr::from_mut(&mut pieces).cast(), name.as_ptr()) };
        if status == ffi::LUA_OK { Ok(()) } else { Err(Raised) }
    }

    /// Calls the function at index 1 for the next piece of a text, and puts the piece at index 2.
    pub(super) fn next_piece(&self, pieces: &mut Pieces) -> Result<&'s [u8], Raised> {
        if std::mem::take(&mut pieces.holds_one) {
            return Ok(self.bytes(2).unwrap_or_default());
        }
        if !self.has_space(SLOTS) {
            return Err(self.raise_plain("stack overflow"));
        }
        self.push_value(1);
        let called = self.call_for(0, 1, None);
        self.check_aborted()?;
        called?;
        match self.kind(TOP) {
            Kind::Nil => {
                self.pop(1);
                return Ok(b"");
            }
            Kind::String | Kind::Number => {}
            _ => return Err(self.raise_plain("reader function must return a string")),
        }
        let piece = self.text(TOP).unwrap_or_default();
        // SAFETY: there are values at both places.
        unsafe { ffi::lua_replace(self.state, 2) };
        if std::mem::take(&mut pieces.is_first) && piece.first() == Some(&ffi::LUA_SIGNATURE[0]) {
            // Behind a blank it does not look like compiled code any more.
            pieces.holds_one = true;
            return Ok(b" ");
        }
        Ok(piece)
    }

    /// Puts the standard libraries, except io, package and debug, into the globals.
    pub(crate) fn open_libraries(&self) {
        type Open = unsafe extern "C-unwind" fn(*mut ffi::lua_State) -> c_int;
        let libraries: [(Open, &CStr); 5] = [
            (ffi::luaopen_base, c""),
            (ffi::luaopen_table, c"table"),
            (ffi::luaopen_string, c"string"),
            (ffi::luaopen_math, c"math"),
            (ffi::luaopen_os, c"os"),
        ];
        for (open, name) in libraries {
            // SAFETY: this is how the manual calls them: with their name, from the empty stack of a new state. Only
            // allocation can fail in them, and it is granted now.
            unsafe {
                ffi::lua_pushcclosure(self.state, open, 0);
                ffi::lua_pushlstring_(self.state, name.as_ptr(), name.to_bytes().len());
                ffi::lua_call(self.state, 1, 0);
            }
        }
    }

    /// Bounds the patterns of the string library, which is the table on top.
    pub(crate) fn bound_patterns(&self) {
        let bounded: [ffi::lua_CFunction; MATCHING.len()] =
            [matching::<0>, matching::<1>, matching::<2>, matching::<3>];
        for (nth, name) in MATCHING.iter().enumerate() {
            self.get_field(TOP, name);
            // SAFETY: there is a value on top; the new function keeps to the contract of Lua's.
            unsafe {
                self.anchor.matching[nth].set(ffi::lua_tocfunction(self.state, TOP));
                self.pop(1);
                ffi::lua_pushcclosure(self.state, bounded[nth], 0);
            }
            self.set_field(-2, name);
        }
        // An older name of the same function.
        self.get_field(TOP, "gmatch");
        self.set_field(-2, "gfind");
    }

    /// Sets the hook that asks the host from time to time whether the script may go on.
    pub(crate) fn set_hook(&self) {
        // SAFETY: `hook` keeps to the contract of hooks: it returns or raises an error.
        unsafe { ffi::lua_sethook(self.state, Some(hook), ffi::LUA_MASKCOUNT, INSTRUCTIONS_BETWEEN_QUESTIONS) };
    }

    /// Frees everything that nothing refers to. O(memory in use).
    pub(crate) fn collect(&self) {
        // SAFETY: there are no finalizers, so no code runs.
        unsafe { ffi::lua_gc(self.state, ffi::LUA_GCCOLLECT, 0) };
    }

    /// Advances the collection by `size` steps; returns whether that ended a cycle.
    pub(crate) fn collect_step(&self, size: i32) -> bool {
        // SAFETY: as above.
        unsafe { ffi::lua_gc(self.state, ffi::LUA_GCSTEP, size) != 0 }
    }
}

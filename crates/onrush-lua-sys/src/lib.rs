//! Lua 5.1 with its known faults mended, and the bindings to it.
//!
//! The build takes the C sources of the crate `lua-src`, changes them as `build/patches.rs` tells, and links them below
//! the bindings of `mlua-sys`. What the changes add to the C interface is declared here.

use std::ffi::{c_char, c_int};

pub use mlua_sys::*;

unsafe extern "C-unwind" {
    /// Sets the secret that decides where strings are in the table of all strings. Crafted strings that meet in one
    /// place would make that table slow.
    ///
    /// # Safety
    /// No state exists: the strings of one would not be found again.
    pub fn onrush_lua_seed(first: u64, second: u64);

    /// Counts work of native code, in about the time of one Lua instruction each, as if Lua code had run. Returns
    /// whether the count of the hook has run out; then it begins anew, and the caller must do what the hook does.
    ///
    /// # Safety
    /// `state` is a state.
    pub fn onrush_lua_spend(state: *mut lua_State, work: usize) -> c_int;

    /// Pops a table, and has the table at an index stand in for it: strings that are no keys of the latter are looked
    /// up in the former first, before the metatable is.
    ///
    /// # Safety
    /// Both are tables, and the registry keeps the one on top as long as there is the other one.
    pub fn onrush_lua_stand_for(state: *mut lua_State, index: c_int);

    /// Whether a table may have more than the elements of its array part.
    ///
    /// # Safety
    /// There is a table at the index.
    pub fn onrush_lua_has_fields(state: *mut lua_State, index: c_int) -> c_int;

    /// The type of a value. Fills in `text` and `len` for a string, `number` for a number.
    ///
    /// # Safety
    /// `state` is a state. The text lives as long as the string.
    pub fn onrush_lua_look(
        state: *mut lua_State,
        index: c_int,
        text: *mut *const c_char,
        len: *mut usize,
        number: *mut lua_Number,
    ) -> c_int;

    /// Stores a copy of a text as element `nth` of a list.
    ///
    /// # Safety
    /// There is a table at the index, which counts from the bottom of the stack, and space for a value.
    pub fn onrush_lua_set_text(state: *mut lua_State, index: c_int, nth: c_int, text: *const c_char, len: usize);
}

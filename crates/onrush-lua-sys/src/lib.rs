//! Lua 5.1 with its known faults mended, and the bindings to it.
//!
//! The build takes the C sources of the crate `lua-src`, changes them as `build/patches.rs` tells, and links them below
//! the bindings of `mlua-sys`. What the changes add to the C interface is declared here.

use std::ffi::c_int;

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
}

//! The functions that Lua calls: the entries of our functions, of the hook and of the reader of texts.

use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use onrush_lua_sys as ffi;

use super::{Outcome, Raised, Stack};

/// The entry of one of our functions.
pub(super) unsafe extern "C-unwind" fn enter<F: Function>(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua calls this with one of our states. Before an error leaves this frame, `run` has returned and every
    // owned value is dropped.
    unsafe {
        let results = run::<F>(state);
        if results < 0 { ffi::lua_error(state) } else { results }
    }
}

/// Runs one of our functions; negative if it left an error on the stack.
#[inline(always)]
fn run<F: Function>(state: *mut ffi::lua_State) -> c_int {
    const { assert!(size_of::<F>() == 0, "a function of ours owns nothing") };
    let stack = Stack::of(state);
    // SAFETY: a zero-sized type that is `Copy` has one value, and `push_function` got it.
    let function = unsafe { NonNull::<F>::dangling().read() };
    let heap = &stack.anchor.heap;
    heap.enter();
    let outcome = catch_unwind(AssertUnwindSafe(|| function(&stack)));
    let results = match outcome {
        Ok(Ok(results)) if !heap.is_over() => results as c_int,
        Ok(outcome) => stack.finish(outcome),
        Err(panic) => stack.hold_panic(panic),
    };
    heap.leave();
    results
}

/// Functions of Lua's string library that match patterns. Each repeating item of a pattern uses some of the thread's
/// stack.
pub(super) const MATCHING: [&str; 4] = ["find", "match", "gmatch", "gsub"];

/// Most repeating items of a pattern.
const REPEATS_MAX: usize = 1_000;

/// Lua's own function, unless the pattern is too complex for it.
///
/// Errors of Lua's own function jump over this frame, which owns nothing.
pub(super) unsafe extern "C-unwind" fn matching<const NTH: usize>(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua calls this with one of our states. Lua's own function is called as Lua would call it: with its
    // arguments on the stack of a function. When its errors leave this frame, nothing in the frame owns anything.
    unsafe {
        if is_too_complex::<NTH>(state) {
            ffi::luaL_error(state, c"pattern too complex".as_ptr());
        }
        match Stack::of(state).anchor.matching[NTH].get() {
            Some(original) => original(state),
            None => 0,
        }
    }
}

fn is_too_complex<const NTH: usize>(state: *mut ffi::lua_State) -> bool {
    // Of these functions, only `find` can be told to look for the text itself.
    const IS_PLAIN: i32 = 4;
    let stack = Stack::of(state);
    let is_plain = || MATCHING[NTH] == "find" && stack.truth(IS_PLAIN);
    let Some(pattern) = stack.bytes(2) else { return false };
    let repeats = || pattern.iter().filter(|byte| matches!(byte, b'*' | b'+' | b'-' | b'?')).count();
    pattern.len() > REPEATS_MAX && !is_plain() && repeats() > REPEATS_MAX
}

/// The progress of reading a text in pieces.
pub(super) struct Pieces {
    /// Whether there is a piece that Lua has not read yet.
    pub(super) holds_one: bool,
    pub(super) is_first: bool,
}

/// Passes the next piece of a text to Lua.
pub(super) unsafe extern "C-unwind" fn read(
    state: *mut ffi::lua_State,
    pieces: *mut c_void,
    len: *mut usize,
) -> *const c_char {
    // SAFETY: `compile_from` has passed its `Pieces`, which no other code uses meanwhile. When an error leaves this
    // frame, nothing in the frame owns anything.
    unsafe {
        match Stack::of(state).next_piece(&mut *pieces.cast()) {
            Ok(piece) => {
                *len = piece.len();
                piece.as_ptr().cast()
            }
            Err(Raised) => ffi::lua_error(state),
        }
    }
}

/// Asks the host whether the script may go on.
pub(super) unsafe extern "C-unwind" fn hook(state: *mut ffi::lua_State, _: *mut ffi::lua_Debug) {
    if ask(state) {
        // SAFETY: nothing in this frame owns anything; the error is on the stack.
        unsafe { ffi::lua_error(state) }
    }
}

/// Whether the script must end; if so, the error is on the stack.
fn ask(state: *mut ffi::lua_State) -> bool {
    let stack = Stack::of(state);
    stack.anchor.heap.enter();
    let asked = catch_unwind(AssertUnwindSafe(|| stack.ask_host()));
    let ends = match asked {
        Ok(ends) => ends,
        Err(panic) => stack.hold_panic(panic) < 0,
    };
    stack.anchor.heap.leave();
    ends
}

/// A function of ours that Lua code can call.
pub(crate) trait Function: Fn(&Stack<'_>) -> Outcome + Copy + 'static {}
impl<F: Fn(&Stack<'_>) -> Outcome + Copy + 'static> Function for F {}

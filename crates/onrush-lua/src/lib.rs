//! Runs Lua scripts as Redis does, without a server around them.
//!
//! An [`Interpreter`] belongs to one thread. It compiles scripts and libraries of functions, keeps them compiled, and
//! runs them with keys, arguments and a [`Host`], which executes the commands that they call. The result of a script is
//! appended to a reply. Scripts run in a sandbox: they share no state with each other, have no access to files, and
//! have a memory limit.
//!
//! Start reading at [`interpreter`](Interpreter); `stack` is the only file that touches Lua itself.

mod api;
#[cfg(test)]
mod attacks;
mod base;
mod bits;
mod calls;
#[cfg(test)]
mod faults;
mod functions;
mod heap;
mod host;
mod interpreter;
mod json;
mod lists;
mod msgpack;
mod number;
mod packing;
mod random;
mod sandbox;
mod sha;
mod stack;
#[cfg(test)]
mod test_host;
mod to_lua;
mod to_resp;
mod unfold;
mod world;

pub use functions::{BAD_NAME, FunctionFlags, Registered, is_name};
pub use host::{Host, Interrupt, LogLevel};
pub use interpreter::{Compiled, Ended, Interpreter, Limits};
pub use lists::Lists;
pub use number::push_general;
pub use sha::{Sha1Hex, ShaHasher, sha1_hex};

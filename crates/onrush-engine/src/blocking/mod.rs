//! Clients that wait for keys: BLPOP and its like.
//!
//! A handler that finds nothing to reply with registers its client on its keys, while it holds their locks, and its
//! connection stops executing. A command that changes such a key runs to its end, gives its locks back and then
//! executes the waiters' commands for them, the longest waiting first ([`serve`]). So a waiter has its elements before
//! the reply of the command that brought them is sent.
//!
//! Nothing is executed for a client that can no longer get the reply: CLIENT KILL ends the waiting before it replies,
//! and serving a client first checks whether its peer has closed the socket.
//!
//! Lock order: a waiter's state is locked outside of all shards, the table of waiters inside.

mod block;
pub(crate) mod ending;
pub(crate) mod serve;
mod state;
pub mod waiter;
pub mod waiters;

pub(crate) use block::Block;
pub(crate) use block::offload;
pub use ending::{kill, unblock_all};

//! Clients that wait for keys: BLPOP and its like.
//!
//! A handler that finds nothing to reply with registers its client on its keys, while it holds their locks, and its
//! connection stops executing. A command that changes such a key runs to its end, gives its locks back and then
//! executes the waiters' commands on their behalf, who waited longest first ([`serve`]). So a waiter has its elements
//! before the reply of the command that brought them is sent.
//!
//! Nothing is executed for a client that cannot get the reply any more: CLIENT KILL ends the waiting before it replies, and a
//! socket whose peer has closed it is noticed before its client is served.
//!
//! Lock order: a waiter's state is locked outside of all shards, the table of waiters inside.

mod block;
mod ending;
pub(crate) mod serve;
pub mod waiter;
pub mod waiters;

pub use block::Block;
pub(crate) use block::offload;
pub use ending::kill;

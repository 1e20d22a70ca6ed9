//! The command table: the single source of what commands exist and what is true of them.
//!
//! Each family of commands has a file of rows ([`Spec`]) beside its handlers. At start [`CommandTable::new`] gathers
//! the rows, numbers them and derives what the batch planner and COMMAND need. Start reading at [`spec`] for what a
//! row says and at [`table`] for how a name becomes a command.

pub mod argument;
mod key_spec;
pub mod keys;
mod name_index;
pub mod replies;
pub mod spec;
pub mod syntax;
pub mod table;

pub use spec::{Flags, Group, KeySpec, Spec, flags};
pub use table::{Argv, Command, CommandTable, KeyRange};

//! The command table: the single source of which commands exist and of their properties.
//!
//! Each family of commands has a file of specs ([`Spec`]) beside its handlers. At start [`CommandTable::new`] gathers
//! the specs, numbers them and derives what the batch planner and COMMAND need. [`spec`] explains what a spec says,
//! [`table`] how a name becomes a command.

pub mod argument;
pub mod find_keys;
pub mod flags;
pub mod key_spec;
pub(crate) mod name_index;
pub mod replies;
pub(crate) mod rest_of_args;
pub mod spec;
pub mod syntax;
pub mod table;
pub(crate) mod words;

pub use flags::Flags;
pub(crate) use key_spec::KeyRange;
pub(crate) use rest_of_args::RestOfArgs;
pub(crate) use spec::{Group, Spec};
pub use table::{Command, CommandTable};

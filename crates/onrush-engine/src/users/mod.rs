//! Users: who may log in, and which commands they may execute on which keys and channels.
//!
//! [`directory::Users`] has all of them by name. A [`user::User`] keeps its name while its [`rights::Rights`] are replaced;
//! whoever acts for a client takes them over when the epoch has moved on ([`held`]). [`check`] decides about a command;
//! [`rules`] reads the rules, in the language of Redis 7.2. What a session holds does not know the command table.

pub(crate) mod check;
pub(crate) mod commands;
pub mod directory;
pub mod file;
mod glances;
pub(crate) mod held;
pub mod making;
pub(crate) mod rights;
pub mod rule_error;
pub(crate) mod rules;
pub(crate) mod selector;
mod text;
pub mod user;

//! The process: its start and end, its configuration, what it asks of the system.

pub(crate) mod ending;
mod files;
pub mod host;
pub mod lifecycle;
pub mod options;
pub mod os;
pub mod server;
pub(crate) mod supervisor;

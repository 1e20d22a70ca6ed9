//! Arguments, commands and replies as Rust values.

pub(crate) mod args;
pub(crate) mod cmd;
pub(crate) mod encode;
pub(crate) mod from_value;
#[cfg(feature = "json")]
pub mod json;
pub(crate) mod pipeline;
pub(crate) mod value;

//! Arguments, commands and replies as Rust values.

pub(crate) mod args;
pub(crate) mod cmd;
#[cfg(any(feature = "uuid", feature = "chrono", feature = "time"))]
mod conversions;
#[cfg(feature = "derive")]
pub mod derived;
pub(crate) mod encode;
pub(crate) mod from_value;
#[cfg(feature = "json")]
pub mod json;
pub(crate) mod pipeline;
pub(crate) mod value;

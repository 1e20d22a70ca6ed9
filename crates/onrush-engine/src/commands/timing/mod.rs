//! The commands that show what takes time.

pub mod hotkeys;
pub mod latency;
pub(crate) mod pipeline;
pub mod slowlog;
pub(crate) mod specs;

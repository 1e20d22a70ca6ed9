//! The commands that show what takes time.

pub(crate) mod hotkeys;
pub(crate) mod latency;
pub(crate) mod pipeline;
pub(crate) mod slowlog;
pub(crate) mod specs;

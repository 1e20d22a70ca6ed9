//! What the engine tells of itself: counters, times, slow logs, hot keys, slots, how clients pipeline.

pub(crate) mod acl_log;
pub(crate) mod errors;
pub mod histogram;
pub mod hotkeys;
pub mod latency;
pub(crate) mod latest;
pub mod pipeline;
pub mod progress;
pub mod slots;
pub mod slow;
pub mod slow_batch;
pub(crate) mod slow_chunk;
pub mod slowlog;
pub mod stats;
pub(crate) mod stopwatch;
pub mod timing;

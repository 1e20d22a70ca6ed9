//! Tests that measure time or memory, or use the whole machine. Run with `--test-threads=1`.

mod audit;
mod chaos;
mod large;
mod large_log;
mod memory;
mod pipelining;
mod siege;
mod tracing;

//! Commands that take long: the way to their thread, and what it does.

pub mod offload;
pub mod worker;

//! What the lock of a shard is made of. The models put loom's types in the place of these.

pub(crate) use std::sync::atomic;
pub(crate) use std::{hint, thread};

//! What threads meet at in the modules that have a model: the models put loom's types in the place of these.

pub(crate) use std::sync::atomic;

pub(crate) use parking_lot::Mutex;

//! What the planner knows of the keys of a command.

use onrush_store::{KeyHash, Shard};

/// The keys of the present command that the planner has hashed.
#[derive(Clone, Copy, Default)]
pub(crate) struct PlannedKeys<'a> {
    /// Index of the first key.
    pub first: u32,
    /// Distance between keys.
    pub step: u32,
    /// Their hashes.
    pub hashes: &'a [KeyHash],
    /// The shard of the only key.
    pub(crate) shard: Option<&'static Shard>,
}

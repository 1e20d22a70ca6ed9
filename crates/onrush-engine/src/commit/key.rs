//! A key as handlers pass it around.

use onrush_store::{KeyHash, Shard};

/// A key and its hash.
#[derive(Clone, Copy)]
pub struct Key<'k> {
    /// Its bytes.
    pub bytes: &'k [u8],
    /// Its hash in the keyspace.
    pub hash: KeyHash,
    /// Its shard in the database that the chunk was planned for, if the planner found it.
    pub(crate) shard: Option<&'static Shard>,
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.bytes == other.bytes
    }
}

impl Eq for Key<'_> {}

//! Streams: append-only logs of entries with identifiers.

use crate::Encoding;
use crate::compact::{Compact, Form};

/// An append-only log of entries with identifiers.
#[derive(Clone, Debug, Default)]
#[repr(transparent)]
pub struct Stream(Compact<Vec<u64>>);

impl Stream {
    /// Number of entries.
    pub fn len(&self) -> usize {
        match self.0.form() {
            Form::Packed(packed) => packed.len(),
            Form::Large(large) => large.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The encoding, as OBJECT ENCODING reports it.
    pub fn encoding(&self) -> Encoding {
        Encoding::Listpack
    }

    /// Bytes allocated.
    pub fn size_bytes(&self) -> usize {
        0
    }

    /// About how many allocations freeing it gives back.
    pub fn free_effort(&self) -> usize {
        1
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
    }
}

//! Sorted sets: unique members ordered by score.

use crate::Encoding;
use crate::compact::{Compact, Form};

/// Unique members ordered by score.
#[derive(Clone, Debug, Default)]
#[repr(transparent)]
pub struct SortedSet(Compact<Vec<u64>>);

impl SortedSet {
    /// Number of members.
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

impl PartialEq for SortedSet {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
    }
}

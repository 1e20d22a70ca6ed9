//! How many values of tables are written at most: tables that contain the same table many times could unfold to any
//! number.

use crate::heap::Heap;

/// Memory of a value in a table, in bytes, without what the value refers to. Tables that contain no table twice have no
/// more values than memory in use has room for.
const BYTES_PER_VALUE: usize = 16;

/// A value more for so many bytes that scripts may use: tables may contain others a few times.
const BYTES_PER_REPEATED_VALUE: usize = 128;

/// Values that may still be written.
pub(crate) struct ValuesLeft(usize);

impl ValuesLeft {
    /// All that tables in this memory may unfold to.
    pub(crate) fn new(heap: &Heap) -> Self {
        Self(heap.used_bytes() / BYTES_PER_VALUE + heap.max_bytes() / BYTES_PER_REPEATED_VALUE)
    }

    /// Takes one; false if none is left.
    #[inline]
    #[must_use]
    pub(crate) fn take(&mut self) -> bool {
        let left = self.0.checked_sub(1);
        self.0 = left.unwrap_or_default();
        left.is_some()
    }
}

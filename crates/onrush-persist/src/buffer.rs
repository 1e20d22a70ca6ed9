//! Memory of records and snapshots on their way to files. It is counted apart: it is no data, so a server that has too much
//! data must not count it.

use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};

static HELD_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Bytes that the process has allocated for records and snapshots on their way to files. Bytes count from before they are
/// allocated until after they are freed.
pub fn held_bytes() -> usize {
    HELD_BYTES.load(Ordering::Acquire)
}

/// A number of bytes that [`held_bytes`] counts until it is dropped.
#[derive(Default)]
pub struct Held(usize);

impl Held {
    /// Counts so many bytes.
    pub fn new(bytes: usize) -> Self {
        let mut held = Self::default();
        held.set(bytes);
        held
    }

    /// Counts another number of bytes from now on.
    pub fn set(&mut self, bytes: usize) {
        match bytes.checked_sub(self.0) {
            Some(0) => {}
            Some(more) => _ = HELD_BYTES.fetch_add(more, Ordering::AcqRel),
            None => _ = HELD_BYTES.fetch_sub(self.0 - bytes, Ordering::AcqRel),
        }
        self.0 = bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Bytes whose memory [`held_bytes`] counts.
#[derive(Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    /// Dropped after the bytes, so that they count until they are freed.
    held: Held,
}

impl Buffer {
    /// Makes room for so many bytes more.
    #[inline]
    pub(crate) fn reserve(&mut self, more: usize) {
        if self.bytes.capacity() - self.bytes.len() < more {
            self.grow(more);
        }
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        let capacity = (self.bytes.len() + more).max(2 * self.bytes.capacity());
        self.held.set(capacity);
        self.bytes.reserve_exact(capacity - self.bytes.len());
    }

    /// Appends bytes.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    /// The bytes, to append `more` at most.
    #[inline]
    pub(crate) fn room_for(&mut self, more: usize) -> &mut Vec<u8> {
        self.reserve(more);
        &mut self.bytes
    }

    /// Keeps the first bytes only.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    /// Drops the bytes; the memory stays.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Bytes that it has memory for.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Gives memory beyond so many bytes back.
    pub(crate) fn shrink_to(&mut self, bytes_max: usize) {
        self.bytes.shrink_to(bytes_max);
        self.held.set(self.bytes.capacity());
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        let held = Held::new(bytes.capacity());
        Self { bytes, held }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl io::Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_counts_all_that_it_has_allocated() {
        let mut buffer = Buffer::default();
        assert_eq!(buffer.held.0, 0);
        for len in [1, 100, 70_000, 3] {
            buffer.extend_from_slice(&vec![7; len]);
            assert_eq!(buffer.held.0, buffer.bytes.capacity());
        }
        assert_eq!(buffer.len(), 70_104);
        buffer.truncate(10);
        buffer.shrink_to(50);
        assert!(buffer.held.0 == buffer.bytes.capacity() && buffer.held.0 < 70_000);
        buffer.clear();
        buffer.shrink_to(0);
        assert_eq!(buffer.held.0, 0);
        let buffer = Buffer::from(Vec::with_capacity(1 << 20));
        assert!(held_bytes() >= 1 << 20);
        assert_eq!(buffer.held.0, buffer.bytes.capacity());
    }
}

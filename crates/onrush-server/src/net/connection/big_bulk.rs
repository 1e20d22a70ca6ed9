//! An argument that is read straight into the buffer that will hold the value.

use std::io::{self, ErrorKind};

use onrush_alloc::huge;

/// The room of a large argument grows by this factor while growing copies it, by two when it does not.
const BIG_BULK_GROWTH: usize = 4;

/// An argument that is read straight into the buffer that will hold the value.
pub(super) struct BigBulk {
    pub(super) buf: Vec<u8>,
    pub(super) len: usize,
}

impl BigBulk {
    /// Bytes of the complete argument and the end of its line.
    pub(super) fn total(&self) -> usize {
        self.len + 2
    }

    /// Makes room if there is none: memory is allocated as bytes arrive.
    pub(super) fn make_room(&mut self) -> io::Result<()> {
        let capacity = self.buf.capacity();
        if self.buf.len() < capacity {
            return Ok(());
        }
        let grown =
            if capacity < huge::BYTES_MIN { (capacity * BIG_BULK_GROWTH).min(huge::BYTES_MIN) } else { capacity * 2 };
        let more = grown.min(self.total()) - self.buf.len();
        self.buf.try_reserve_exact(more).map_err(|_| {
            tracing::warn!("Closing a client: no memory for its argument of {} bytes", self.len);
            ErrorKind::OutOfMemory.into()
        })
    }
}

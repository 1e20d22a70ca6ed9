//! Buffers of a thread, used by the connection that runs.

use crate::batch::READ_LEN_MAX;
use crate::chunk::Chunk;
use crate::connection::CARRY_LEN_MAX;
use crate::keys::Keys;

/// Reply buffers a thread keeps for reuse, and the largest it keeps, in bytes.
const SPARE_REPLIES_MAX: usize = 64;
const SPARE_REPLY_BYTES_MAX: usize = 256 * 1024;

/// Buffers of a thread, used by the connection that runs.
pub struct Scratch {
    /// The present chunk.
    pub(crate) chunk: Chunk,
    /// Reply buffers that are not in use.
    pub(crate) replies: ReplyBuffers,
    /// The thread's way into the keyspace, outside of slices; made at the first one, and again after a panic.
    pub(crate) keys: Option<Box<Keys>>,
    /// Where sockets are read into while their connection holds no unfinished command.
    pub read: Vec<u8>,
}

impl Scratch {
    /// Empty buffers.
    pub(crate) fn new() -> Self {
        Self {
            chunk: Chunk::default(),
            replies: ReplyBuffers::default(),
            keys: None,
            read: vec![0; READ_LEN_MAX + CARRY_LEN_MAX],
        }
    }
}

/// Reply buffers that are not in use, kept for the next batch.
#[derive(Default)]
pub struct ReplyBuffers(Vec<Vec<u8>>);

impl ReplyBuffers {
    /// An empty reply buffer, used before if there is one.
    #[inline]
    pub fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_else(|| Vec::with_capacity(16 * 1024))
    }

    /// Keeps an empty reply buffer for the next batch.
    #[inline]
    pub fn give(&mut self, buffer: Vec<u8>) {
        if self.0.len() < SPARE_REPLIES_MAX && (1..=SPARE_REPLY_BYTES_MAX).contains(&buffer.capacity()) {
            self.0.push(buffer);
        }
    }
}

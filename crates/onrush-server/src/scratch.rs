//! Buffers of a thread, used by the connection that runs.

use crate::batch::READ_LEN_MAX;
use crate::chunk::Chunk;
use crate::commit::Commit;
use crate::connection::CARRY_LEN_MAX;

/// Bytes that a list of a thread keeps for its next use; a larger one is given back after its use.
pub(crate) const KEPT_BYTES_MAX: usize = 64 * 1024;

/// Gives a list's memory back if it is more than [`KEPT_BYTES_MAX`]; whatever is in it is dropped then.
pub(crate) fn shrink<T>(list: &mut Vec<T>) {
    if list.capacity() * size_of::<T>() > KEPT_BYTES_MAX {
        *list = Vec::new();
    }
}

/// Reply buffers a thread keeps for reuse, and the largest it keeps, in bytes.
const SPARE_REPLIES_MAX: usize = 64;
const SPARE_REPLY_BYTES_MAX: usize = 256 * 1024;

/// A reply buffer as it is made, in bytes; only such ones are kept for long.
const REPLY_BYTES: usize = 16 * 1024;

/// Buffers of a thread, used by the connection that runs.
pub struct Scratch {
    /// The present chunk.
    pub(crate) chunk: Chunk,
    /// Reply buffers that are not in use.
    pub(crate) replies: ReplyBuffers,
    /// The thread's way into the keyspace, outside of slices; made at the first one, and again after a panic.
    pub(crate) keys: Option<Box<Commit>>,
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

    /// Gives memory back that is not needed all the time. To be called now and then, between rounds.
    pub(crate) fn tend(&mut self) {
        self.replies.0.retain(|buffer| buffer.capacity() <= REPLY_BYTES);
        if let Some(keys) = &mut self.keys {
            keys.shrink();
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
        self.0.pop().unwrap_or_else(|| Vec::with_capacity(REPLY_BYTES))
    }

    /// Keeps an empty reply buffer for the next batch.
    #[inline]
    pub fn give(&mut self, buffer: Vec<u8>) {
        if self.0.len() < SPARE_REPLIES_MAX && (1..=SPARE_REPLY_BYTES_MAX).contains(&buffer.capacity()) {
            self.0.push(buffer);
        }
    }
}

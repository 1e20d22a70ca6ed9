//! What a worker executes with, and its buffers.

use onrush_engine::batch::runner::Runner;

use crate::process::server::Server;

/// Bytes read from a socket at once.
pub const READ_LEN_MAX: usize = 128 * 1024;

/// An unfinished command of up to this many bytes is moved to the thread's read buffer for the next read; a longer
/// one stays in the connection's query buffer.
pub const CARRY_LEN_MAX: usize = 16 * 1024;

/// Reply buffers a thread keeps for reuse, and the largest it keeps, in bytes.
const SPARE_REPLIES_MAX: usize = 64;
const SPARE_REPLY_BYTES_MAX: usize = 256 * 1024;

/// The initial size of a reply buffer, in bytes; only buffers of this size are kept for long.
const REPLY_BYTES: usize = 16 * 1024;

/// What a worker executes with, used by the connection that runs.
pub struct Scratch {
    /// The runner of chunks.
    pub runner: Runner,
    /// Reply buffers that are not in use.
    pub replies: ReplyBuffers,
    /// Where sockets are read into while their connection holds no unfinished command.
    pub read: Vec<u8>,
}

impl Scratch {
    /// Empty buffers, for a thread with this number.
    pub fn new(server: &'static Server, thread: usize) -> Self {
        Self {
            runner: Runner::new(server, thread),
            replies: ReplyBuffers::default(),
            read: vec![0; READ_LEN_MAX + CARRY_LEN_MAX],
        }
    }

    /// Gives back memory that is not always needed. Call this now and then, between rounds.
    pub fn tend(&mut self) {
        self.replies.0.retain(|buffer| buffer.capacity() <= REPLY_BYTES);
        self.runner.commit().shrink();
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

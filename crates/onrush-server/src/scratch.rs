//! Buffers of a thread, used by the connection that runs.

use onrush_resp::ArgRange;
use onrush_store::{KeyHash, Shard};

use crate::batch::READ_LEN_MAX;
use crate::connection::CARRY_LEN_MAX;
use crate::keys::Keys;
use crate::plan::{CHUNK_LEN_MAX, Members, Planned};
use crate::round::Lists;

/// Reply buffers a thread keeps for reuse, and the largest it keeps, in bytes.
const SPARE_REPLIES_MAX: usize = 64;
const SPARE_REPLY_BYTES_MAX: usize = 256 * 1024;

/// Buffers of a thread, used by the connection that runs.
pub struct Scratch {
    /// The commands of the present chunk.
    pub(crate) planned: Vec<Planned>,
    /// Their arguments.
    pub(crate) args: Vec<ArgRange>,
    /// The hashes of their keys.
    pub(crate) hashes: Vec<KeyHash>,
    /// Shards of the keys, for prefetching.
    pub(crate) targets: Vec<(&'static Shard, KeyHash)>,
    /// Members of collections, likewise.
    pub(crate) members: Members,
    spare_replies: Vec<Vec<u8>>,
    pub(crate) lists: Lists,
    /// The thread's way into the keyspace, outside of slices; made at the first one, and again after a panic.
    pub(crate) keys: Option<Box<Keys>>,
    /// Where sockets are read into while their connection holds no unfinished command.
    pub read: Vec<u8>,
}

impl Scratch {
    /// Empty buffers.
    pub(crate) fn new() -> Self {
        Self {
            planned: Vec::with_capacity(CHUNK_LEN_MAX),
            args: Vec::new(),
            hashes: Vec::new(),
            targets: Vec::new(),
            members: Members::default(),
            spare_replies: Vec::new(),
            lists: Lists::default(),
            keys: None,
            read: vec![0; READ_LEN_MAX + CARRY_LEN_MAX],
        }
    }

    /// Forgets the last chunk.
    #[inline]
    pub(crate) fn clear_chunk(&mut self) {
        self.planned.clear();
        self.args.clear();
        self.hashes.clear();
        self.targets.clear();
        self.members.commands.clear();
        self.members.hashes.clear();
    }

    /// An empty reply buffer, used before if there is one.
    pub fn take_reply_buffer(&mut self) -> Vec<u8> {
        self.spare_replies.pop().unwrap_or_else(|| Vec::with_capacity(16 * 1024))
    }

    /// Keeps an empty reply buffer for the next batch.
    pub fn give_reply_buffer(&mut self, buffer: Vec<u8>) {
        if self.spare_replies.len() < SPARE_REPLIES_MAX && (1..=SPARE_REPLY_BYTES_MAX).contains(&buffer.capacity()) {
            self.spare_replies.push(buffer);
        }
    }
}

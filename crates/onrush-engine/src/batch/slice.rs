//! How the work on a connection's input ends.

use onrush_resp::ProtocolError;

/// Why a slice of work ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum SliceEnd {
    /// No complete command is left.
    #[default]
    InputUsedUp,
    /// The next argument, `len` bytes, is to be read into a buffer of its own; what is there of it starts at `at`
    /// behind the consumed bytes.
    NeedBulk {
        /// Position of its first byte behind the consumed bytes.
        at: usize,
        /// Its length.
        len: usize,
    },
    /// Too many replies are unread.
    ReplyLimit,
    /// Others must have their turn.
    TimeUp,
    /// CLIENT PAUSE holds the next command back.
    Paused,
    /// The last command waits for keys.
    Blocked,
    /// The connection closes when the replies are written.
    Close,
    /// The next command wants a shard that is held for long.
    HeldLong,
    /// The chunk was full; there may be more behind it.
    ChunkFull,
    /// The input is not RESP: the client gets an error, and the connection closes.
    Malformed(ProtocolError),
}

/// What a slice of work did.
#[derive(Default)]
pub struct SliceResult {
    /// Bytes of the input that are done with.
    pub consumed: usize,
    /// Why it ended.
    pub end: SliceEnd,
    /// The bytes of a command that was taken from the input but not executed: they go before the rest of the input.
    pub requeue: Option<Box<[u8]>>,
    /// The time of its last chunk, in Unix milliseconds.
    pub ended_ms: i64,
    /// Commands executed.
    pub commands: u32,
}

//! Error replies of commands.

use std::borrow::Cow;

/// An error reply: the whole line behind `-`, code included. Clients match on these texts, so they are Redis's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", String::from_utf8_lossy(.0))]
pub struct CommandError(Cow<'static, [u8]>);

impl CommandError {
    /// An error with a fixed text.
    pub const fn fixed(text: &'static str) -> Self {
        Self(Cow::Borrowed(text.as_bytes()))
    }

    /// An error with a text that was made at run time.
    pub fn text(text: impl Into<String>) -> Self {
        Self(Cow::Owned(text.into().into_bytes()))
    }

    /// An error that quotes bytes a client sent.
    pub fn bytes(text: Vec<u8>) -> Self {
        Self(Cow::Owned(text))
    }

    /// An error with a part of what a client sent between two texts, as [`quoted`] shows it.
    pub fn quoting(before: &str, sent: &[u8], after: &str) -> Self {
        Self::bytes([before.as_bytes(), quoted(sent), after.as_bytes()].concat())
    }

    /// The line.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The word by which INFO counts the error.
    pub fn code(&self) -> &[u8] {
        code(&self.0)
    }
}

/// Most bytes of a code.
const CODE_LEN_MAX: usize = 30;

/// The word by which INFO counts an error with this text: the first one, if others follow and it is short.
pub(crate) fn code(text: &[u8]) -> &[u8] {
    let is_end = |&byte: &u8| matches!(byte, b' ' | b'\r' | b'\n');
    match text.iter().take(CODE_LEN_MAX + 1).position(is_end) {
        Some(len) => &text[..len],
        None => b"ERR",
    }
}

/// The part of a client's text that an error quotes: as in Redis, whose texts are C strings, a NUL ends it.
pub fn quoted(bytes: &[u8]) -> &[u8] {
    &bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())]
}

/// Why a handler ends without a reply of its own. What it has appended is dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// This is the reply.
    Error(CommandError),
    /// Another thread holds what the command needs for long: it is executed again from its beginning when that is done.
    Later,
    /// It takes long: the thread for long commands executes it from its beginning.
    Elsewhere,
    /// It runs inside of another commit and needs a key that was not declared: the outer command handles this.
    Undeclared,
    /// It is executed for a client that waits, and that must keep waiting.
    Waits,
}

impl Stop {
    /// Whether the command is to be executed later, or elsewhere.
    pub(crate) fn is_put_off(&self) -> bool {
        matches!(self, Stop::Later | Stop::Elsewhere)
    }

    /// The error that stands for it.
    pub fn error(&self) -> &CommandError {
        match self {
            Stop::Error(error) => error,
            Stop::Undeclared => const { &UNDECLARED },
            Stop::Later | Stop::Elsewhere | Stop::Waits => const { &PUT_OFF },
        }
    }
}

impl<E: Into<CommandError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Stop::Error(error.into())
    }
}

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub const $name: CommandError = CommandError::fixed($text);)*
    };
}

errors! {
    /// A command inside of another commit asked for a key that was not declared; no client sees this.
    UNDECLARED = "ERR the key was not declared";
    /// A command was postponed; no client sees this.
    PUT_OFF = "ERR the command is executed later";
    /// The key holds another type.
    WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value";
    /// An option is unknown, repeated or contradicts another.
    SYNTAX = "ERR syntax error";
    /// An argument or a value is not an `i64`.
    NOT_INTEGER = "ERR value is not an integer or out of range";
    /// An argument or a value is not a number.
    NOT_FLOAT = "ERR value is not a valid float";
    /// A number is too large or too small.
    OUT_OF_RANGE = "ERR value is out of range";
    /// An argument must be positive and is not.
    NOT_POSITIVE = "ERR value is out of range, must be positive";
    /// An increment would leave the range of an `i64`.
    OVERFLOW = "ERR increment or decrement would overflow";
    /// A sum would be no number, or infinite.
    NOT_FINITE = "ERR increment would produce NaN or Infinity";
    /// A required key does not exist.
    NO_SUCH_KEY = "ERR no such key";
    /// A database number out of range.
    DB_INDEX = "ERR DB index is out of range";
    /// A source and a destination are one key.
    SAME_OBJECT = "ERR source and destination objects are the same";
    /// A string would grow over `proto-max-bulk-len`.
    STRING_TOO_LONG = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    /// A command has the whole keyspace for longer than `busy-reply-threshold`.
    BUSY_KEYSPACE = "BUSY Redis is busy with a command that has the whole keyspace. Try again, or call SHUTDOWN NOSAVE.";
    /// The connection has not authenticated.
    NO_AUTH = "NOAUTH Authentication required.";
    /// A client that monitors wants keys: for Redis it is a replica.
    NOT_FOR_MONITORS = "ERR Replica can't interact with the keyspace";
    /// Memory is at its limit.
    OUT_OF_MEMORY = "OOM command not allowed when used memory > 'maxmemory'.";
    /// The command's arguments do not form keys.
    OFFSET_OUT_OF_RANGE = "ERR offset is out of range";
}

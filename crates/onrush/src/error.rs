//! Errors: what went wrong, and what became of the command.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::sync::Arc;

/// What every fallible function here returns.
pub type RedisResult<T> = Result<T, RedisError>;

/// What kind of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The server answered with an error.
    Server(ServerErrorKind),
    /// The connection could not be made, or broke.
    Io,
    /// No reply came within the configured timeout, or there was no connection in that time.
    Timeout,
    /// The server sent bytes that are not RESP.
    Parse,
    /// The reply does not fit the requested Rust type.
    UnexpectedReturnType,
    /// The server refused the user name or password.
    AuthenticationFailed,
    /// A URL or an option makes no sense.
    InvalidClientConfig,
    /// The library was used in a way that cannot work; the message tells what to do instead.
    Client,
    /// The connection was closed for good.
    Closed,
    /// The server is no primary, or none any more, though Sentinels have told it; see
    /// [`ConnectionAddr::Sentinel`](crate::ConnectionAddr::Sentinel).
    NoPrimary,
}

/// The server's error codes that programs act upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerErrorKind {
    /// `ERR`, `WRONGTYPE`, and any code not listed here.
    ResponseError,
    /// `EXECABORT`: a command of the transaction was refused when queued, so none was run.
    ExecAbort,
    /// `LOADING`: the server is still loading its data set.
    BusyLoading,
    /// `NOSCRIPT`: the script is not known there.
    NoScript,
    /// `MOVED`: the key's slot is elsewhere.
    Moved,
    /// `ASK`: the key's slot is being moved.
    Ask,
    /// `TRYAGAIN`: a command with several keys met a slot that is being moved.
    TryAgain,
    /// `CLUSTERDOWN`.
    ClusterDown,
    /// `CROSSSLOT`: the keys are not in one slot.
    CrossSlot,
    /// `MASTERDOWN`: the replica has lost its primary.
    MasterDown,
    /// `READONLY`: a write to a replica.
    ReadOnly,
    /// `NOTBUSY`: no script to kill.
    NotBusy,
    /// `NOPERM`: the user may not do that.
    NoPerm,
    /// `NOAUTH`: log in first.
    NoAuth,
    /// `WRONGTYPE`: the key holds another type.
    WrongType,
    /// `BUSY`: a script or function is running.
    Busy,
    /// `OOM`: no memory left for a write.
    OutOfMemory,
}

/// What became of a command whose reply did not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fate {
    /// The server cannot have executed it: its last byte was never passed to the operating system.
    NotSent,
    /// It was sent, and the connection ended before its reply: it may or may not have been executed.
    Unknown,
    /// The server replied; the error is in the reply or in reading it.
    Replied,
}

/// An error reply: a code, usually in capitals, and a text.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerError {
    line: Box<str>,
}

impl ServerError {
    /// From the line the server sent, without the leading `-`.
    pub fn new(line: impl Into<Box<str>>) -> ServerError {
        ServerError { line: line.into() }
    }

    /// The first word: `ERR`, `WRONGTYPE`, `NOSCRIPT`, …
    pub fn code(&self) -> &str {
        self.line.split(' ').next().unwrap_or("")
    }

    /// The text after the code, if any.
    pub fn details(&self) -> Option<&str> {
        self.line.split_once(' ').map(|(_, details)| details)
    }

    /// Code and text as sent.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// Whether it says what the server cannot do now, but may do soon.
    pub(crate) fn is_passing(&self) -> bool {
        use ServerErrorKind::*;
        matches!(self.kind(), Busy | BusyLoading | TryAgain | MasterDown | ClusterDown)
    }

    /// The code as an enum.
    pub fn kind(&self) -> ServerErrorKind {
        use ServerErrorKind::*;
        match self.code() {
            "EXECABORT" => ExecAbort,
            "LOADING" => BusyLoading,
            "NOSCRIPT" => NoScript,
            "MOVED" => Moved,
            "ASK" => Ask,
            "TRYAGAIN" => TryAgain,
            "CLUSTERDOWN" => ClusterDown,
            "CROSSSLOT" => CrossSlot,
            "MASTERDOWN" => MasterDown,
            "READONLY" => ReadOnly,
            "NOTBUSY" => NotBusy,
            "NOPERM" => NoPerm,
            "NOAUTH" => NoAuth,
            "WRONGTYPE" => WrongType,
            "BUSY" => Busy,
            "OOM" => OutOfMemory,
            _ => ResponseError,
        }
    }
}

impl fmt::Debug for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({})", self.line)
    }
}

impl std::error::Error for ServerError {}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

/// An error of this library. Small and cheap to clone.
#[derive(Clone)]
pub struct RedisError {
    repr: Box<Repr>,
}

#[derive(Clone)]
struct Repr {
    kind: ErrorKind,
    message: Cow<'static, str>,
    fate: Fate,
    /// The message is an error reply.
    is_reply: bool,
    /// Its cause, if it is not a reply itself.
    source: Option<Source>,
}

#[derive(Clone)]
enum Source {
    Io(Arc<io::Error>),
    Reply(Arc<ServerError>),
}

impl RedisError {
    /// An error of the given kind. Its [`Fate`] follows from the kind: `NotSent` for wrong use and configuration, else
    /// `Replied`.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> RedisError {
        let fate = match kind {
            ErrorKind::Server(_) | ErrorKind::UnexpectedReturnType | ErrorKind::Parse => Fate::Replied,
            _ => Fate::NotSent,
        };
        let is_reply = matches!(kind, ErrorKind::Server(_));
        RedisError { repr: Box::new(Repr { kind, message: message.into(), fate, is_reply, source: None }) }
    }

    /// An error of the given kind that the server has replied.
    pub(crate) fn reply(kind: ErrorKind, error: ServerError) -> RedisError {
        let mut made = RedisError::new(kind, String::from(error.line)).with_fate(Fate::Replied);
        made.repr.is_reply = true;
        made
    }

    pub(crate) fn with_fate(mut self, fate: Fate) -> RedisError {
        self.repr.fate = fate;
        self
    }

    /// The error of another attempt, after earlier ones with that fate: a command that may have been executed once
    /// stays unknown.
    pub(crate) fn after(self, earlier: Fate) -> RedisError {
        if earlier == Fate::Unknown { self.with_fate(Fate::Unknown) } else { self }
    }

    /// A timeout that this error is the cause of.
    pub(crate) fn delayed(&self, what: &str) -> RedisError {
        let mut error = RedisError::new(ErrorKind::Timeout, format!("{what}: {}", self.repr.message));
        error.repr.source = if self.repr.is_reply {
            Some(Source::Reply(Arc::new(ServerError::new(&*self.repr.message))))
        } else {
            self.repr.source.clone()
        };
        error
    }

    /// The same error with the name of its server; error replies do not need one.
    pub(crate) fn at(mut self, server: impl fmt::Display) -> RedisError {
        if !self.repr.is_reply {
            self.repr.message = format!("{server}: {}", self.repr.message).into();
        }
        self
    }

    pub(crate) fn closed() -> RedisError {
        RedisError::new(ErrorKind::Closed, "the connection is closed")
    }

    /// What kind of thing went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.repr.kind
    }

    /// What became of the command this error stands for.
    pub fn fate(&self) -> Fate {
        self.repr.fate
    }

    /// The first word of the server's error (`ERR`, `WRONGTYPE`, `NOAUTH`, …), if this is a server's error or was
    /// caused by one when connecting.
    pub fn code(&self) -> Option<&str> {
        match &self.repr.source {
            Some(Source::Reply(error)) => Some(error.code()),
            _ if self.repr.is_reply => Some(self.repr.message.split(' ').next().unwrap_or("")),
            _ => None,
        }
    }

    /// The server's error as it was sent, if this is one.
    pub(crate) fn line(&self) -> Option<&str> {
        self.repr.is_reply.then_some(&*self.repr.message)
    }

    /// The text after the server's error code, or the library's message.
    pub fn detail(&self) -> Option<&str> {
        if self.repr.is_reply {
            return self.repr.message.split_once(' ').map(|(_, detail)| detail);
        }
        Some(&self.repr.message)
    }

    /// Whether the network or the peer broke the connection.
    pub fn is_io_error(&self) -> bool {
        self.repr.kind == ErrorKind::Io
    }

    /// Whether it took too long.
    pub fn is_timeout(&self) -> bool {
        self.repr.kind == ErrorKind::Timeout
    }

    /// Whether the connection is gone, for whatever reason.
    pub fn is_connection_dropped(&self) -> bool {
        matches!(
            self.repr.kind,
            ErrorKind::Io | ErrorKind::Closed | ErrorKind::Timeout | ErrorKind::Parse | ErrorKind::NoPrimary
        )
    }

    /// Whether the server is loading its data, so that it has executed nothing.
    pub(crate) fn is_loading(&self) -> bool {
        match self.repr.kind {
            ErrorKind::Server(ServerErrorKind::BusyLoading) => true,
            // It has begun to load between a transaction's commands and their EXEC.
            ErrorKind::Server(ServerErrorKind::ExecAbort) => self.repr.message.contains("because of: LOADING"),
            _ => false,
        }
    }

    /// Whether no server listens at the address.
    pub fn is_connection_refusal(&self) -> bool {
        let Some(Source::Io(error)) = &self.repr.source else { return false };
        matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
    }
}

impl From<ServerError> for RedisError {
    fn from(error: ServerError) -> RedisError {
        let kind = match error.kind() {
            ServerErrorKind::NoAuth => ErrorKind::AuthenticationFailed,
            kind => ErrorKind::Server(kind),
        };
        RedisError::reply(kind, error)
    }
}

impl From<io::Error> for RedisError {
    fn from(error: io::Error) -> RedisError {
        let mut made = RedisError::new(ErrorKind::Io, error.to_string());
        made.repr.source = Some(Source::Io(Arc::new(error)));
        made
    }
}

impl PartialEq for RedisError {
    fn eq(&self, other: &RedisError) -> bool {
        self.repr.kind == other.repr.kind
            && self.repr.message == other.repr.message
            && self.repr.fate == other.repr.fate
    }
}

impl fmt::Debug for RedisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisError")
            .field("kind", &self.repr.kind)
            .field("fate", &self.repr.fate)
            .field("message", &self.repr.message)
            .finish()
    }
}

impl fmt::Display for RedisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repr.message)?;
        match (self.repr.kind, self.repr.fate) {
            (ErrorKind::Io | ErrorKind::Timeout | ErrorKind::Closed, Fate::NotSent) => {
                f.write_str(" (the command was not sent)")
            }
            (_, Fate::Unknown) => f.write_str(" (the command was sent; whether it was executed is unknown)"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for RedisError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.repr.source.as_ref()? {
            Source::Io(error) => Some(&**error),
            Source::Reply(error) => Some(&**error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_error_has_code_and_detail() {
        let error = RedisError::from(ServerError::new("WRONGTYPE Operation against a key"));
        assert_eq!(error.kind(), ErrorKind::Server(ServerErrorKind::WrongType));
        assert_eq!(error.code(), Some("WRONGTYPE"));
        assert_eq!(error.detail(), Some("Operation against a key"));
        assert_eq!(error.fate(), Fate::Replied);
    }

    #[test]
    fn the_text_says_what_became_of_the_command() {
        let error = RedisError::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(error.clone().with_fate(Fate::NotSent).to_string().ends_with("(the command was not sent)"));
        assert!(error.with_fate(Fate::Unknown).to_string().contains("unknown"));
    }
}

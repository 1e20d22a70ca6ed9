//! Errors that end a run.

use std::io;
use std::path::Path;
use std::time::Duration;

/// Why a run ended, in the words that the user sees.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection, in redis-benchmark's words.
    #[error("Could not connect to Redis at {target}: {reason}")]
    Unreachable { target: String, reason: String },
    /// The server refuses a connection's greeting, or a question beside the load.
    #[error("{0}")]
    Refused(String),
    /// A command of the load was answered with an error.
    #[error("Error from server{at}: {text}")]
    Reply { at: String, text: String },
    #[error("Server closed the connection")]
    Closed,
    #[error("the server's reply is no RESP: {0}")]
    NotResp(#[from] onrush_resp::ReplyError),
    #[error("the server sent more replies than it got commands")]
    TooManyReplies,
    #[error("no connection to {target} for {for_ms} ms: {reason}")]
    GivenUp { target: String, for_ms: u128, reason: String },
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{file}: {error}")]
    File { file: String, error: io::Error },
    /// With `--data-verify`.
    #[error("{wrong} of {replies} replies are not the data of their keys; the first is that of {key}")]
    Wrong { wrong: u64, replies: u64, key: String },
    #[error("the plot: {0}")]
    Plot(String),
    /// The options make no sense together, or name something that does not exist.
    #[error("{0}")]
    Options(String),
    /// More than one, each on a line.
    #[error("{}", lines(.0))]
    Several(Vec<Error>),
}

fn lines(errors: &[Error]) -> String {
    errors.iter().map(Error::to_string).collect::<Vec<_>>().join("\n")
}

impl Error {
    /// A file could not be read or written.
    pub fn file(path: &Path, error: io::Error) -> Error {
        Error::File { file: path.display().to_string(), error }
    }

    /// All errors of several steps, none of which stopped the next ones.
    ///
    /// # Errors
    /// If there is one.
    pub fn all(done: impl IntoIterator<Item = Result<(), Error>>) -> Result<(), Error> {
        let mut errors: Vec<Error> = done.into_iter().filter_map(Result::err).collect();
        match errors.len() {
            0 | 1 => errors.pop().map_or(Ok(()), Err),
            _ => Err(Error::Several(errors)),
        }
    }

    /// Whether the connection broke, so that a new one may help.
    pub fn is_of_connection(&self) -> bool {
        matches!(self, Error::Closed | Error::Io(_))
    }

    /// Whether the cluster does not serve for now.
    pub fn is_of_cluster(&self) -> bool {
        matches!(self, Error::Reply { text, .. } if text.starts_with("CLUSTERDOWN"))
    }

    /// The error after connecting has failed for this time.
    pub fn given_up(target: &impl ToString, after: Duration, cause: &Error) -> Error {
        Error::GivenUp { target: target.to_string(), for_ms: after.as_millis(), reason: cause.to_string() }
    }
}

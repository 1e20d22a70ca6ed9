//! Errors of the log's files.

use std::fmt;
use std::io;

use crate::rdb::RdbError;

/// Why the files of an append-only log cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AofError {
    /// The system failed.
    #[error("{file}: {error}")]
    Io {
        /// The file or the folder.
        file: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The manifest is not valid.
    #[error("line {line} of the manifest: {reason}")]
    Manifest {
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// There are files of a log, but no manifest that says in which order.
    #[error("{file} is not in the folder, but files of a log are, such as {found}")]
    NoManifest {
        /// The manifest.
        file: String,
        /// One of the files.
        found: String,
    },
    /// The manifest names a file that does not exist.
    #[error("{file} is in the manifest but not in the folder")]
    Missing {
        /// The file.
        file: String,
    },
    /// The last file that is not empty ends in the middle of a command or of a transaction. This happens if the process
    /// or the machine dies during a write. The file may be cut there ([`truncate`](super::truncate)).
    #[error("{file} ends in the middle of a command: its first {valid_len} of {len} bytes are whole")]
    Truncated {
        /// The file.
        file: String,
        /// Up to where everything is whole.
        valid_len: u64,
        /// The length of the file.
        len: u64,
    },
    /// A base in the form of an RDB file is damaged.
    #[error("{file}: {error}")]
    Rdb {
        /// The file.
        file: String,
        /// What is wrong with it.
        #[source]
        error: RdbError,
    },
    /// A file has bytes that belong to no command, or ends in the middle of a command although other files follow.
    #[error("{file} is damaged at byte {at}: expected {expected}, found {}", shown(.found))]
    Corrupt {
        /// The file.
        file: String,
        /// Up to where everything is whole.
        valid_len: u64,
        /// Where the bytes are.
        at: u64,
        /// What was expected there.
        expected: &'static str,
        /// The first bytes found there.
        found: Vec<u8>,
    },
}

impl AofError {
    pub(crate) fn io(file: impl fmt::Display) -> impl FnOnce(io::Error) -> AofError {
        move |error| AofError::Io { file: file.to_string(), error }
    }
}

fn shown(found: &[u8]) -> String {
    if found.is_empty() { "its end".to_owned() } else { format!("\"{}\"", found.escape_ascii()) }
}

impl From<AofError> for io::Error {
    fn from(error: AofError) -> Self {
        match error {
            AofError::Io { file, error } => io::Error::new(error.kind(), format!("{file}: {error}")),
            other => io::Error::new(io::ErrorKind::InvalidData, other),
        }
    }
}

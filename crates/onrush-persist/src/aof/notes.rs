//! Notes in a file of commands: where the data stands in the history that replicas follow.
//!
//! A note is an annotation, a line that begins with `#`, as Redis 7 skips it. From [`Note::Stream`] on, the commands behind
//! it are the bytes of the stream that replicas get, in which other notes stand for what is not in the file. So the file is
//! a backlog. [`Note::Place`] is written by a replica: the data in front of it is that of its primary's stream up to there.

use std::sync::Arc;

use crate::effects::{FOR_LOG, Record};

/// How a note begins.
const PREFIX: &[u8] = b"#REPL:";

/// The greatest offset or length: no stream is longer, and files may be made up.
const BYTES_MAX: u64 = 1 << 62;

/// Digits of the identifier of a history.
const ID_LEN: usize = 40;

/// A note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// `AT id offset`: the stream of this history goes on behind it, at this offset, and says its database first.
    Stream {
        /// The history.
        id: String,
        /// Bytes of its stream in front of this place.
        offset: u64,
    },
    /// `DATA id offset db`: the data is that of this history at this offset, whose stream has selected this database.
    Place {
        /// The history.
        id: String,
        /// Bytes of its stream that were executed.
        offset: u64,
        /// The database of the stream.
        db: u32,
    },
    /// `OMIT len`: bytes of the stream that change no data.
    Omitted(u64),
    /// `MULTI`: the stream has this command here.
    Multi,
    /// `EXEC`: the stream has this command here.
    Exec,
}

impl Note {
    /// The note that a record of the log is.
    pub fn of(record: Record<'_>) -> Option<Self> {
        let (_, line) = record.commands().next().filter(|(db, _)| *db == FOR_LOG)?;
        Self::parse(line)
    }

    /// The line, with its end.
    pub fn line(&self) -> String {
        let text = match self {
            Self::Stream { id, offset } => format!("AT {id} {offset}"),
            Self::Place { id, offset, db } => format!("DATA {id} {offset} {db}"),
            Self::Omitted(len) => format!("OMIT {len}"),
            Self::Multi => "MULTI".to_owned(),
            Self::Exec => "EXEC".to_owned(),
        };
        format!("#REPL:{text}\r\n")
    }

    /// The note of a line; `None` if it is another annotation.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(line.strip_prefix(PREFIX)?.trim_ascii_end()).ok()?;
        let words: Vec<&str> = text.split(' ').collect();
        let id = |id: &str| (id.len() == ID_LEN).then(|| id.to_owned());
        let bytes = |number: &str| number.parse().ok().filter(|bytes| *bytes <= BYTES_MAX);
        match words[..] {
            ["AT", of, offset] => Some(Self::Stream { id: id(of)?, offset: bytes(offset)? }),
            ["DATA", of, offset, db] => Some(Self::Place { id: id(of)?, offset: bytes(offset)?, db: db.parse().ok()? }),
            ["OMIT", len] => Some(Self::Omitted(bytes(len)?)),
            ["MULTI"] => Some(Self::Multi),
            ["EXEC"] => Some(Self::Exec),
            _ => None,
        }
    }
}

/// A place to begin at is kept for about each of so many bytes of the stream.
pub(super) const PLACE_EVERY: u64 = 4 << 20;

/// MULTI and EXEC as they are in the stream and in a file.
pub const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
/// See [`MULTI`].
pub const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// Where bytes of a stream are in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamPlace {
    /// The name of the file.
    pub file: Arc<str>,
    /// The byte of the file behind the note.
    pub at: u64,
    /// Bytes of the stream in front of it.
    pub offset: u64,
}

/// Where the data of a file stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataPlace {
    /// The history.
    pub id: String,
    /// Bytes of its stream that the data has.
    pub offset: u64,
    /// The database of the stream.
    pub db: u32,
    /// Whether the stream was this server's own.
    pub is_own: bool,
}

/// Follows where the data stands, command by command and note by note.
#[derive(Debug, Default)]
pub(super) struct Follow {
    now: Option<DataPlace>,
    /// `now` before the transaction that is open; nothing if no commands frame it, so that it cannot be cut off.
    before: Option<DataPlace>,
    is_open: bool,
    /// Whether there was a note, or a command that does not only select a database.
    pub has_any: bool,
    /// Where a stream without gaps up to here begins in the file, or goes on behind each [`PLACE_EVERY`], and its offsets there.
    pub streams: Vec<(u64, u64)>,
    /// Where the last note of a replica ends in the file, if no stream begins behind it.
    pub data_end: Option<u64>,
}

impl Follow {
    /// A whole command, and where it ends in the file.
    pub fn command(&mut self, bytes: &[u8], end: u64) {
        self.has_any |= selected(bytes).is_none();
        let Some(now) = &mut self.now else { return };
        if !now.is_own {
            // Nobody knows how much of the stream the command is.
            self.now = None;
            return;
        }
        now.offset = now.offset.saturating_add(bytes.len() as u64);
        if let Some(db) = selected(bytes) {
            now.db = db;
        }
        if self.streams.last().is_some_and(|(_, offset)| now.offset - offset >= PLACE_EVERY) {
            self.streams.push((end, now.offset));
        }
    }

    /// A note, and where it ends in the file.
    pub fn note(&mut self, note: Note, end: u64) {
        self.has_any = true;
        match note {
            Note::Stream { id, offset } => {
                if self.now.as_ref().is_none_or(|now| !now.is_own || now.offset != offset) {
                    self.streams.clear();
                }
                self.streams.push((end, offset));
                self.now = Some(DataPlace { id, offset, db: 0, is_own: true });
                self.is_open = false;
                self.data_end = None;
            }
            Note::Place { id, offset, db } => {
                self.streams.clear();
                self.now = Some(DataPlace { id, offset, db, is_own: false });
                self.is_open = false;
                self.data_end = Some(end);
            }
            Note::Omitted(len) => self.grow(len),
            Note::Multi => {
                self.begin();
                self.before = None;
                self.grow(MULTI.len() as u64);
            }
            Note::Exec => {
                self.grow(EXEC.len() as u64);
                self.end();
            }
        }
    }

    fn grow(&mut self, len: u64) {
        if let Some(now) = self.now.as_mut().filter(|now| now.is_own) {
            now.offset = now.offset.saturating_add(len);
        }
    }

    /// A transaction begins.
    pub fn begin(&mut self) {
        if !self.is_open {
            self.is_open = true;
            self.before = self.now.clone();
        }
    }

    /// It ends.
    pub fn end(&mut self) {
        self.is_open = false;
    }

    /// Where the data stands, if a transaction that has no end is cut off; `None` if that is not known.
    pub fn place(&self) -> Option<&DataPlace> {
        if self.is_open { self.before.as_ref() } else { self.now.as_ref() }
    }
}

/// The database that a command selects.
fn selected(command: &[u8]) -> Option<u32> {
    let rest = command.strip_prefix(b"*2\r\n$6\r\n")?;
    let (name, rest) = rest.split_at_checked(6)?;
    if !name.eq_ignore_ascii_case(b"SELECT") {
        return None;
    }
    let text = std::str::from_utf8(rest.strip_prefix(b"\r\n$")?).ok()?;
    text.split("\r\n").nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let id = "a".repeat(40);
        for note in [
            Note::Stream { id: id.clone(), offset: 7 },
            Note::Place { id, offset: BYTES_MAX, db: 15 },
            Note::Omitted(14),
            Note::Multi,
            Note::Exec,
        ] {
            assert_eq!(Note::parse(note.line().as_bytes()), Some(note));
        }
        for other in [
            "#TS:12\r\n",
            "#REPL:\r\n",
            "#REPL:AT short 1\r\n",
            "#REPL:OMIT x\r\n",
            "#REPL:OMIT 9000000000000000000\r\n",
        ] {
            assert_eq!(Note::parse(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn the_database_of_a_stream_is_seen() {
        assert_eq!(selected(b"*2\r\n$6\r\nselect\r\n$2\r\n12\r\n"), Some(12));
        assert_eq!(selected(b"*2\r\n$6\r\nEXISTS\r\n$2\r\n12\r\n"), None);
        assert_eq!(selected(b"*2\r\n$6\r\nSEL"), None);
    }
}

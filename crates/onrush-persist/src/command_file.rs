//! A file of commands: the changes, as a client would send them.

use std::io::{self, BufWriter, Write};

use crate::Sink;
use crate::effects::{Effects, Record};

/// Writes the commands of records into a file, one after the other, with a SELECT wherever the database changes.
///
/// A server that reads the file's bytes as its input ends with the same data. The bounds of commits are not marked.
pub struct CommandFile {
    file: BufWriter<Box<dyn Write + Send>>,
    /// The database of the last command; `None` at the beginning.
    db: Option<u32>,
    scratch: Effects,
    /// The first error; after it nothing more is written.
    error: Option<io::Error>,
}

impl CommandFile {
    /// Writes into `file`, which is empty.
    pub fn new(file: Box<dyn Write + Send>) -> Self {
        Self { file: BufWriter::new(file), db: None, scratch: Effects::default(), error: None }
    }

    /// Writes a command that is not part of a record.
    pub fn command(&mut self, db: u32, args: &[&[u8]]) {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.command(db, args.iter().copied());
        scratch.close(0);
        self.record(scratch.record(0));
        scratch.clear(0);
        self.scratch = scratch;
    }

    fn write(&mut self, db: u32, command: &[u8]) -> io::Result<()> {
        if self.db != Some(db) {
            let number = db.to_string();
            write!(self.file, "*2\r\n$6\r\nSELECT\r\n${}\r\n{number}\r\n", number.len())?;
            self.db = Some(db);
        }
        self.file.write_all(command)
    }
}

impl Sink for CommandFile {
    fn record(&mut self, record: Record<'_>) {
        for (db, command) in record.commands() {
            if self.error.is_none()
                && let Err(error) = self.write(db, command)
            {
                self.error = Some(error);
            }
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.file.flush(),
        }
    }
}

//! A file of commands: the changes, as a client would send them.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::effects::{Effects, Record};
use crate::{Buffer, Sink, SlowWork};

/// Bytes that wait to be written, at most. If more come, the file ends there.
const WAITING_BYTES_MAX: usize = 1 << 30;

/// Writes the commands of records into a file, one after the other, with a SELECT wherever the database changes.
///
/// A server that reads the file's bytes as its input ends with the same data. The bounds of commits are not marked. The
/// thread of the command log writes; until then the commands wait in memory.
pub struct CommandFile {
    output: Arc<Output>,
    /// The database of the last command; `None` at the beginning.
    db: Option<u32>,
    scratch: Effects,
}

/// What the command log's thread writes.
struct Output {
    waiting: Mutex<Waiting>,
    file: Mutex<Box<dyn Write + Send>>,
}

#[derive(Default)]
struct Waiting {
    bytes: Buffer,
    /// The first error; after it nothing more is written.
    error: Option<io::Error>,
}

impl Waiting {
    fn push(&mut self, bytes: &[u8]) {
        if self.error.is_none() && self.bytes.len() + bytes.len() > WAITING_BYTES_MAX {
            self.error = Some(io::Error::other("the commands come faster than they can be written"));
        }
        if self.error.is_none() {
            self.bytes.extend_from_slice(bytes);
        }
    }
}

impl Output {
    /// Writes what waits.
    fn write(&self) {
        let mut file = self.file.lock();
        let bytes = std::mem::take(&mut self.waiting.lock().bytes);
        if let Err(error) = file.write_all(&bytes) {
            self.waiting.lock().error.get_or_insert(error);
        }
    }
}

impl SlowWork for Output {
    fn work(&self) -> Option<Duration> {
        self.write();
        None
    }
}

impl CommandFile {
    /// Writes into `file`, which is empty.
    pub fn new(file: Box<dyn Write + Send>) -> Self {
        let output = Output { waiting: Mutex::default(), file: Mutex::new(file) };
        Self { output: Arc::new(output), db: None, scratch: Effects::default() }
    }

    /// Takes a command that is not part of a record.
    pub fn command(&mut self, db: u32, args: &[&[u8]]) {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.command(db, args.iter().copied());
        scratch.close(0);
        self.record(scratch.record(0));
        scratch.clear(0);
        self.scratch = scratch;
    }
}

impl Sink for CommandFile {
    fn record(&mut self, record: Record<'_>) {
        let mut waiting = self.output.waiting.lock();
        for (db, command) in record.commands() {
            if self.db != Some(db) {
                let number = db.to_string();
                waiting.push(format!("*2\r\n$6\r\nSELECT\r\n${}\r\n{number}\r\n", number.len()).as_bytes());
                self.db = Some(db);
            }
            waiting.push(command);
        }
    }

    fn slow_work(&self) -> Option<Arc<dyn SlowWork>> {
        Some(Arc::clone(&self.output) as Arc<dyn SlowWork>)
    }

    /// Writes the rest.
    fn finish(&mut self) -> io::Result<()> {
        self.output.write();
        let error = self.output.waiting.lock().error.take();
        match error {
            Some(error) => Err(error),
            None => self.output.file.lock().flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CommandLog;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A disk that takes nothing before it gets a signal, and tells what it has taken.
    struct Hanging(Receiver<()>, Sender<Vec<u8>>);

    impl Write for Hanging {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().map_err(io::Error::other)?;
            self.1.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn submit(log: &CommandLog, args: &[&[u8]]) {
        let mut effects = Effects::default();
        effects.command(0, args.iter().copied());
        log.close(&mut effects);
        log.submit(&mut effects);
    }

    #[test]
    fn nobody_waits_for_a_disk_that_hangs() {
        let ((go, gone), (tell, told)) = (channel(), channel());
        let mut file = CommandFile::new(Box::new(Hanging(gone, tell)));
        file.command(3, &[b"SET", b"a", b"1"]);
        let log = CommandLog::new();
        let id = log.attach(Box::new(file)).unwrap();
        // The log's thread hangs in the first write by now or later, and the flush waits for neither.
        log.wake();
        submit(&log, &[b"PING"]);
        log.flush();
        let mut sink = log.detach(id).expect("it was attached");
        for _ in 0..9 {
            go.send(()).expect("the disk is there");
        }
        sink.finish().unwrap();
        let text: Vec<u8> = told.try_iter().flatten().collect();
        let wanted = "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n\
                      *2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*1\r\n$4\r\nPING\r\n";
        assert_eq!(String::from_utf8_lossy(&text), wanted);
    }

    #[test]
    fn an_error_is_told_at_the_end() {
        let (go, gone) = channel();
        let (tell, _told) = channel();
        drop(go);
        let mut file = CommandFile::new(Box::new(Hanging(gone, tell)));
        file.command(0, &[b"PING"]);
        assert!(file.finish().is_err());
    }
}

//! All data for replicas: a file that grows while they read it.

use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Acquire, Ordering::Release};

use onrush_engine::replication::history::{Epoch, Position};
use onrush_engine::snapshot::output::{NoResult, Output};
use onrush_persist::rdb::FileWriter;
use parking_lot::Mutex;

use super::files::{Files, LargeFile};
use crate::data::unnamed::unnamed_file;
use crate::process::server::Server;

/// Bytes that are written at once.
const BUFFER_LEN: usize = 256 << 10;

/// The data of one snapshot.
pub struct Payload {
    file: LargeFile,
    /// What ends it for those who are not told its length: 40 bytes that nobody can guess.
    mark: String,
    /// Bytes in the file.
    len: AtomicU64,
    state: AtomicU8,
    /// Where in the stream the data is, once that is known, and the history's epoch then.
    cut: Mutex<Option<(Position, Epoch)>>,
}

/// How far a payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    Grows,
    IsWhole,
    HasFailed,
}

impl Payload {
    /// One without data.
    ///
    /// # Errors
    /// The system cannot create its file.
    pub(super) fn new(dir: &Path, mark: String, files: &Files) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            file: LargeFile::new(unnamed_file(dir)?, files),
            mark,
            len: AtomicU64::new(0),
            state: AtomicU8::new(State::Grows as u8),
            cut: Mutex::new(None),
        }))
    }

    /// What ends it for those who are not told its length.
    pub(super) fn mark(&self) -> String {
        self.mark.clone()
    }

    pub(super) fn state(&self) -> State {
        match self.state.load(Acquire) {
            0 => State::Grows,
            1 => State::IsWhole,
            _ => State::HasFailed,
        }
    }

    pub(super) fn set_state(&self, state: State) {
        self.state.store(state as u8, Release);
    }

    /// Bytes that can be read.
    pub(super) fn len(&self) -> u64 {
        self.len.load(Acquire)
    }

    /// Where in the stream the data is, and the history's epoch then.
    pub(super) fn cut(&self) -> Option<(Position, Epoch)> {
        self.cut.lock().clone()
    }

    /// Appends up to `max` of the bytes from a place on.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn read(&self, at: u64, max: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let len = usize::try_from(self.len() - at).unwrap_or(usize::MAX).min(max);
        let before = out.len();
        out.resize(before + len, 0);
        self.file.read_exact_at(&mut out[before..], at)
    }
}

/// Writes to the file, in large pieces.
struct Pieces {
    payload: Arc<Payload>,
    buffer: Vec<u8>,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_LEN {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let at = self.payload.len();
        self.payload.file.write_all_at(&self.buffer, at)?;
        self.payload.len.store(at + self.buffer.len() as u64, Release);
        self.buffer.clear();
        Ok(())
    }
}

/// A snapshot's way into a payload.
pub struct PayloadOutput {
    server: &'static Server,
    payload: Arc<Payload>,
    version: u16,
    writer: Option<FileWriter<Pieces>>,
}

impl PayloadOutput {
    /// For the replicas that wait.
    ///
    /// # Errors
    /// None waits.
    pub fn new(server: &'static Server) -> io::Result<Self> {
        Ok(Self { server, payload: server.host.replicas.wanted()?, version: 0, writer: None })
    }

    fn writer(&mut self) -> io::Result<&mut FileWriter<Pieces>> {
        if self.writer.is_none() {
            let pieces = Pieces { payload: Arc::clone(&self.payload), buffer: Vec::with_capacity(BUFFER_LEN) };
            let has_checksum = self.server.host.config.read().rdbchecksum;
            self.writer = Some(FileWriter::new(pieces, self.version, has_checksum)?);
        }
        self.writer.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn settle(&mut self) -> io::Result<u64> {
        self.writer()?;
        if let Some(writer) = self.writer.take() {
            writer.finish()?.flush()?;
        }
        Ok(self.payload.len())
    }

    fn end(&self, state: State) {
        self.payload.set_state(state);
        self.server.host.replicas.ring();
    }
}

impl Output for PayloadOutput {
    /// The keyspace is locked: here the stream begins for those who get this data.
    fn begin(&mut self, version: u16) -> io::Result<()> {
        self.version = version;
        *self.payload.cut.lock() = Some(self.server.replication.cut(self.server.engine())?);
        self.server.host.replicas.ring();
        Ok(())
    }

    fn write(&mut self, items: &[u8]) -> io::Result<()> {
        self.writer()?.write(items)?;
        self.server.host.replicas.ring();
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<u64> {
        let result = self.settle();
        self.end(if result.is_ok() { State::IsWhole } else { State::HasFailed });
        result
    }

    fn abandon(self: Box<Self>, _: &NoResult) {
        self.end(State::HasFailed);
    }
}

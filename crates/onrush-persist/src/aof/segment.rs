//! A file of commands while it is written, and how records become bytes.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;

use super::notes::{EXEC, MULTI, Note};
use crate::buffer::Buffer;
use crate::effects::{FOR_LOG, FOR_REPLICAS, Plain, Record, SharedBytes};
use crate::storage::StorageFile;

/// A file of commands and the records on the way to it.
pub(super) struct Segment {
    /// Each new file has a greater one.
    pub id: u64,
    pub file: Arc<dyn StorageFile>,
    /// Bytes in the file.
    pub size: u64,
    /// Whether it has no record that changes data.
    is_empty: bool,
    /// Bytes of records that no thread has taken to write yet, and that come before the buffer's.
    before: VecDeque<Pending>,
    /// Bytes of the newest records.
    pub buffer: Buffer,
    /// Bytes to be written next; empty here while a thread writes them.
    pub pending: Pending,
    /// Bytes of records that are not in the file.
    pub unwritten: usize,
    /// The newest record that belongs into this file or an earlier one.
    pub last_lsn: u64,
    /// Records up to this one are in files.
    pub written_lsn: u64,
    /// Records up to this one are on the medium.
    pub synced_lsn: u64,
    pub synced_size: u64,
    /// Whether no sync of it has failed.
    pub is_trusted: bool,
    frame: Frame,
}

/// Bytes taken from the buffer to be written.
#[derive(Default)]
pub(super) struct Pending {
    pub bytes: Bytes,
    /// How many of them are in the file.
    pub at: usize,
    /// The last record that ends in them or before.
    pub lsn: u64,
}

/// Bytes of records.
pub(super) enum Bytes {
    /// Copies of small ones.
    Copied(Buffer),
    /// A large one.
    Shared(SharedBytes),
}

impl Default for Bytes {
    fn default() -> Self {
        Bytes::Copied(Buffer::default())
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Copied(bytes) => bytes,
            Bytes::Shared(bytes) => bytes,
        }
    }
}

impl Pending {
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// Takes the bytes; none are left.
    pub fn take(&mut self) -> Bytes {
        self.at = 0;
        std::mem::take(&mut self.bytes)
    }
}

/// What the file already says.
#[derive(Default)]
struct Frame {
    db: Option<u32>,
    unix_s: u64,
}

impl Segment {
    /// A file that has `size` bytes, for the records after `lsn`.
    pub fn new(id: u64, file: Arc<dyn StorageFile>, size: u64, lsn: u64) -> Self {
        Segment {
            id,
            file,
            size,
            is_empty: size == 0,
            before: VecDeque::new(),
            buffer: Buffer::default(),
            pending: Pending::default(),
            unwritten: 0,
            last_lsn: lsn,
            written_lsn: lsn,
            synced_lsn: lsn,
            synced_size: size,
            is_trusted: true,
            frame: Frame::default(),
        }
    }

    /// Notes that what is in the file is no record, but the choice of database 0 if there is anything.
    pub fn behind_head(mut self) -> Self {
        self.is_empty = true;
        self.frame.db = (self.size > 0).then_some(0);
        self
    }

    /// Whether the file has no record that changes data, nor will get one of those that have come.
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// As [`Segment::record`], for many. O(bytes).
    pub fn plain(&mut self, plain: Plain<'_>, unix_s: Option<u64>) -> u64 {
        self.is_empty = false;
        self.note_time(unix_s);
        let bytes = plain.bytes();
        let streamed = self.select(plain.db) + bytes.len();
        self.push(bytes);
        self.last_lsn = plain.last_lsn();
        streamed as u64
    }

    fn note_time(&mut self, unix_s: Option<u64>) {
        if let Some(unix_s) = unix_s
            && unix_s > self.frame.unix_s
        {
            self.frame.unix_s = unix_s;
            self.push(format!("#TS:{unix_s}\r\n").as_bytes());
        }
    }

    /// Appends a record to the buffer; `unix_s` is the time to note before it, if times are noted. What of the stream of
    /// replicas changes no data is noted. Returns the bytes that the record has in that stream. O(bytes), but that large records
    /// are not copied.
    pub fn record(&mut self, record: Record<'_>, unix_s: Option<u64>) -> u64 {
        let changes = record.changes();
        self.is_empty &= changes == 0;
        if changes > 0 {
            self.note_time(unix_s);
        }
        let is_transaction = record.commands().len() > 1;
        // One that changes data with one command needs no frame here.
        let is_framed = changes > 1;
        let mut streamed = 0;
        for (index, part) in record.parts().enumerate() {
            match part.db {
                FOR_LOG => {
                    self.frame.db = None;
                    self.push(part.bytes());
                    continue;
                }
                FOR_REPLICAS => {}
                db => streamed += self.select(db),
            }
            if index == 0 && is_transaction {
                streamed += self.frame(is_framed, MULTI, &Note::Multi);
            }
            let len = part.bytes().len();
            streamed += len;
            match part.shared() {
                _ if part.db == FOR_REPLICAS => self.push(Note::Omitted(len as u64).line().as_bytes()),
                None => self.push(part.bytes()),
                Some(bytes) => self.share(bytes),
            }
        }
        if is_transaction {
            streamed += self.frame(is_framed, EXEC, &Note::Exec);
        }
        self.last_lsn = record.lsn;
        streamed as u64
    }

    fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        self.unwritten += bytes.len();
    }

    /// Appends a command of the stream's frame, or a note in its place; returns the bytes of the stream.
    fn frame(&mut self, is_framed: bool, command: &[u8], note: &Note) -> usize {
        if is_framed {
            self.push(command);
        } else {
            self.push(note.line().as_bytes());
        }
        command.len()
    }

    /// Puts bytes of the record that is being taken behind the buffer's.
    fn share(&mut self, bytes: SharedBytes) {
        self.unwritten += bytes.len();
        let buffer = Bytes::Copied(std::mem::take(&mut self.buffer));
        let pieces = [buffer, Bytes::Shared(bytes)].map(|bytes| Pending { bytes, at: 0, lsn: self.last_lsn });
        self.before.extend(pieces.into_iter().filter(|piece| !piece.rest().is_empty()));
    }

    /// Takes the bytes to be written next.
    pub fn take(&mut self, spare: &mut Buffer) -> Pending {
        if !self.pending.rest().is_empty() {
            return std::mem::take(&mut self.pending);
        }
        self.before.pop_front().unwrap_or_else(|| {
            let buffer = std::mem::replace(&mut self.buffer, std::mem::take(spare));
            Pending { bytes: Bytes::Copied(buffer), at: 0, lsn: self.last_lsn }
        })
    }

    /// Selects a database; returns the bytes of that.
    fn select(&mut self, db: u32) -> usize {
        if self.frame.db == Some(db) {
            return 0;
        }
        self.frame.db = Some(db);
        let mut number = itoa::Buffer::new();
        let number = number.format(db);
        let command = format!("*2\r\n$6\r\nSELECT\r\n${}\r\n{number}\r\n", number.len());
        self.push(command.as_bytes());
        command.len()
    }

    /// Whether all its records are in the file.
    pub fn is_written(&self) -> bool {
        self.unwritten == 0
    }

    /// Whether all its records are on the medium.
    pub fn is_synced(&self) -> bool {
        self.is_trusted && self.is_written() && self.synced_size == self.size
    }
}

//! Reading files: from any source, in batches of whole items.
//!
//! A file is `REDIS` and a version of four digits, items, and the opcode of its end; since version 5 the CRC-64 of all
//! bytes before follows, the lowest byte first, or 0 if it was not computed.

use std::io::Read;

use super::cursor::{Cursor, Result};
use super::item::{Framed, Items, frame};
use super::{RdbError, VERSION_MAX, crc64, kind};

/// About the size of a batch, unless one value is larger.
const BATCH_LEN: usize = 1 << 20;

const HEADER_LEN: usize = 9;
const CHECKSUM_LEN: usize = 8;
const VERSION_WITH_CHECKSUM: u32 = 5;

/// A part of a file that begins and ends between two items. [`FileReader::next_batch`] reuses its memory.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    /// How many of the bytes are whole items.
    len: usize,
    /// Where the bytes begin in the file.
    at: u64,
    /// The database of its first keys.
    db: u64,
}

impl Batch {
    /// Its items.
    pub fn items(&self) -> Items<'_> {
        Items::new(Cursor::new(&self.bytes[..self.len], self.at), self.db)
    }

    /// Its length in bytes.
    pub fn len_bytes(&self) -> usize {
        self.len
    }
}

/// Cuts a file into batches.
///
/// One thread reads, and any number of others decode: a batch can be decoded alone. The reader skips values without
/// decoding them. Memory: about a megabyte for each batch, or the size of the largest value, since values are never
/// cut. Whatever length a file claims, memory is allocated only for bytes that have arrived.
///
/// ```
/// use onrush_persist::rdb::{Batch, FileReader, Item};
///
/// let file = b"REDIS0003\xfe\x00\x00\x03key\x05value\xff";
/// let mut reader = FileReader::new(&file[..])?;
/// let mut batch = Batch::default();
/// while reader.next_batch(&mut batch)? {
///     let mut items = batch.items();
///     while let Some(item) = items.next()? {
///         if let Item::Key(key) = item {
///             assert_eq!(&*key.name, b"key");
///         }
///     }
/// }
/// # Ok::<(), onrush_persist::rdb::RdbError>(())
/// ```
#[derive(Debug)]
pub struct FileReader<R> {
    input: R,
    version: u32,
    /// Bytes that have been read and belong to the next batch.
    ahead: Vec<u8>,
    /// Where `ahead` begins in the file.
    at: u64,
    db: u64,
    sum: u64,
    checks_sum: bool,
    is_at_end: bool,
}

impl<R: Read> FileReader<R> {
    /// Reads the beginning of a file.
    ///
    /// # Errors
    /// It is not an RDB file, or its version is unknown.
    pub fn new(mut input: R) -> Result<Self> {
        let mut header = Vec::new();
        input.by_ref().take(HEADER_LEN as u64).read_to_end(&mut header)?;
        let digits = header.strip_prefix(b"REDIS").ok_or(RdbError::Signature)?;
        if digits.len() < 4 {
            return Err(RdbError::Truncated { at: header.len() as u64 });
        }
        let version = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        let version = version.ok_or(RdbError::Signature)?;
        if !(1..=u32::from(VERSION_MAX)).contains(&version) {
            return Err(RdbError::Version(version));
        }
        let sum = crc64::crc64(&header);
        let at = HEADER_LEN as u64;
        Ok(FileReader { input, version, ahead: Vec::new(), at, db: 0, sum, checks_sum: true, is_at_end: false })
    }

    /// Does not compute the checksum.
    pub fn without_checksum(mut self) -> Self {
        self.checks_sum = false;
        self
    }

    /// The version of the file's format.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// How many bytes of the file the batches have had so far.
    pub fn offset(&self) -> u64 {
        self.at
    }

    /// Fills `batch` with the next items; `false` at the end of the file, after its checksum has been checked.
    ///
    /// # Errors
    /// The source fails; the bytes are not items, or end within one; the checksum is wrong. Then `batch` has the whole
    /// items before the error.
    pub fn next_batch(&mut self, batch: &mut Batch) -> Result<bool> {
        batch.bytes.clear();
        batch.bytes.shrink_to(4 * BATCH_LEN);
        (batch.len, batch.at, batch.db) = (0, self.at, self.db);
        if self.is_at_end {
            return Ok(false);
        }
        batch.bytes.append(&mut self.ahead);
        let mut has_more = true;
        loop {
            let items_len = self.frame(batch)?;
            if self.is_at_end && self.version < VERSION_WITH_CHECKSUM {
                // Otherwise damage in the version of a newer file could hide its checksum.
                batch.bytes.reserve(CHECKSUM_LEN + 1);
                self.input.by_ref().take(CHECKSUM_LEN as u64 + 1).read_to_end(&mut batch.bytes)?;
                if batch.bytes.len() - items_len == CHECKSUM_LEN {
                    let what = "a checksum, which no file of this version has";
                    return Err(RdbError::Malformed { at: batch.at + items_len as u64, what });
                }
            }
            let is_full = batch.len > 0 && batch.bytes.len() >= BATCH_LEN;
            if self.is_at_end || is_full {
                self.hand_over(batch, items_len);
                return Ok(batch.len > 0);
            }
            if !has_more {
                return Err(RdbError::Truncated { at: batch.at + batch.bytes.len() as u64 });
            }
            // An incomplete value is examined again once its bytes have doubled.
            let wanted = BATCH_LEN.max(batch.bytes.len());
            batch.bytes.reserve(wanted);
            let read = self.input.by_ref().take(wanted as u64).read_to_end(&mut batch.bytes)?;
            has_more = read == wanted;
        }
    }

    /// Finds the whole items, and checks the sum at the end of the file. Returns how many bytes are used up.
    fn frame(&mut self, batch: &mut Batch) -> Result<usize> {
        let bytes = &batch.bytes[batch.len..];
        let mut cursor = Cursor::new(bytes, batch.at + batch.len as u64);
        let mut framed_len = 0;
        let end = loop {
            match frame(&mut cursor) {
                Ok(Framed::Item) => {}
                Ok(Framed::Db(db)) => self.db = db,
                Ok(Framed::End) => break true,
                Err(RdbError::Truncated { .. }) => break false,
                Err(error) => {
                    batch.len += framed_len;
                    return Err(error);
                }
            }
            framed_len = cursor.taken();
        };
        let has_sum = self.version >= VERSION_WITH_CHECKSUM;
        let sum = match end {
            true if !has_sum => Some([0; CHECKSUM_LEN]),
            true => cursor.array().ok(),
            false => None,
        };
        if self.checks_sum {
            self.sum = crc64::update(self.sum, &bytes[..framed_len]);
        }
        batch.len += framed_len;
        let Some(stored) = sum else { return Ok(batch.len) };
        self.is_at_end = true;
        let (stored, computed) = (u64::from_le_bytes(stored), crc64::update(self.sum, &[kind::END]));
        if self.checks_sum && stored != 0 && stored != computed {
            return Err(RdbError::Checksum { stored, computed });
        }
        Ok(batch.len + 1 + if has_sum { CHECKSUM_LEN } else { 0 })
    }

    /// Keeps the bytes after the first `done_len` for the next batch.
    fn hand_over(&mut self, batch: &mut Batch, done_len: usize) {
        self.ahead.extend_from_slice(&batch.bytes[done_len..]);
        batch.bytes.truncate(batch.len);
        self.at = batch.at + done_len as u64;
    }

    /// The rest after the end of the file: bytes that have been read already, and the source.
    pub fn into_rest(self) -> (Vec<u8>, R) {
        (self.ahead, self.input)
    }
}

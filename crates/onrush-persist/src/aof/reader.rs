//! Reads the files of a log in order.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::commands::CommandReader;
use super::{AofError, Manifest};
use crate::rdb::FileReader;
use crate::storage::{Input, Storage};

/// How the name of a base ends that is an RDB file: without its beginning it is damaged, not a file of commands.
const RDB_SUFFIX: &str = ".rdb";

/// How an RDB file begins.
const RDB_MAGIC: &[u8] = b"REDIS";

/// Goes through the files of a log in the order of loading.
pub struct Reader {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    files: Vec<Entry>,
    next: usize,
}

struct Entry {
    name: String,
    len: u64,
    is_base: bool,
}

/// A file of a log.
pub struct LogFile {
    /// Its name in the folder.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Its length in bytes.
    pub len: u64,
    /// Whether it is the base.
    pub is_base: bool,
    /// Whether all files after it are empty, so that an incomplete end may be cut off.
    pub is_last: bool,
    /// What it holds.
    pub content: Content,
}

/// What a file of a log holds.
pub enum Content {
    /// The state at one moment. Commands may follow it: see [`LogFile::behind`].
    Rdb(FileReader<Input>),
    /// Commands.
    Commands(CommandReader),
}

impl Reader {
    /// Checks that all files exist.
    ///
    /// # Errors
    /// [`AofError::Missing`], or the system's.
    pub fn new(storage: Arc<dyn Storage>, dir: &Path, manifest: &Manifest) -> Result<Self, AofError> {
        let mut files = Vec::new();
        let base = manifest.base.iter().map(|file| (file, true));
        for (file, is_base) in base.chain(manifest.incrs.iter().map(|file| (file, false))) {
            let path = dir.join(&file.name);
            let len = storage.len(&path).map_err(AofError::io(path.display()))?;
            let len = len.ok_or_else(|| AofError::Missing { file: file.name.clone() })?;
            files.push(Entry { name: file.name.clone(), len, is_base });
        }
        Ok(Reader { storage, dir: dir.to_path_buf(), files, next: 0 })
    }

    /// The bytes of all files.
    pub fn len_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len).sum()
    }

    /// Opens the next file; `None` after the last.
    ///
    /// # Errors
    /// The system's; a base that begins as an RDB file does but is not one.
    pub fn next_file(&mut self) -> Result<Option<LogFile>, AofError> {
        let Some(Entry { name, len, is_base }) = self.files.get(self.next) else { return Ok(None) };
        self.next += 1;
        let is_last = self.files[self.next..].iter().all(|file| file.len == 0);
        LogFile::open(&*self.storage, self.dir.join(name), *len, *is_base, is_last).map(Some)
    }
}

impl LogFile {
    /// Opens one file. Only a base may begin with an RDB file.
    ///
    /// # Errors
    /// As for [`Reader::next_file`].
    pub fn open(
        storage: &dyn Storage,
        path: PathBuf,
        len: u64,
        is_base: bool,
        is_last: bool,
    ) -> Result<LogFile, AofError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut input = storage.read(&path).map_err(AofError::io(path.display()))?;
        let mut head = Vec::new();
        if is_base {
            let read = input.by_ref().take(RDB_MAGIC.len() as u64).read_to_end(&mut head);
            read.map_err(AofError::io(path.display()))?;
        }
        let content = if head == RDB_MAGIC || is_base && name.ends_with(RDB_SUFFIX) {
            let whole: Input = Box::new(io::Cursor::new(head).chain(input));
            let rdb = FileReader::new(whole).map_err(|error| AofError::Rdb { file: name.clone(), error })?;
            Content::Rdb(rdb)
        } else {
            Content::Commands(CommandReader::new(input, head, 0, name.clone(), is_last))
        };
        Ok(LogFile { name, path, len, is_base, is_last, content })
    }

    /// The commands after an RDB file that has been read to its end: a base of Redis 4 to 6 may have some.
    pub fn behind(name: String, is_last: bool, rdb: FileReader<Input>) -> CommandReader {
        let offset = rdb.offset();
        let (ahead, input) = rdb.into_rest();
        CommandReader::new(input, ahead, offset, name, is_last)
    }
}

/// Cuts a file after its first `len` bytes, and syncs it: the repair for [`AofError::Truncated`], with its `valid_len`.
///
/// # Errors
/// The system's.
pub fn truncate(storage: &dyn Storage, path: &Path, len: u64) -> Result<(), AofError> {
    storage.truncate(path, len).map_err(AofError::io(path.display()))
}

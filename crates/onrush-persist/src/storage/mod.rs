//! The required parts of a file system, as a trait: so tests can replace it by one that fails and crashes on demand.

mod disk;
#[cfg(any(test, feature = "faults"))]
pub mod faulty;

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

pub use disk::{Disk, not_a_file, open_file};

/// A file that is written at its end.
pub trait StorageFile: Send + Sync {
    /// Appends; returns how many of the bytes are in the file now, which may be fewer than `bytes` has.
    ///
    /// # Errors
    /// The system's. Usually none of the bytes are in the file then; [`StorageFile::len`] tells.
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Waits until everything that has been written, and the length, would survive a loss of power.
    ///
    /// # Errors
    /// The system's. After an error, a later success proves nothing about earlier bytes: the system may have dropped
    /// them.
    fn sync(&self) -> io::Result<()>;

    /// The length in bytes.
    ///
    /// # Errors
    /// The system's.
    fn len(&self) -> io::Result<u64>;

    /// Whether it has no bytes.
    ///
    /// # Errors
    /// The system's.
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }
}

/// Bytes of a file, from its beginning.
pub type Input = Box<dyn Read + Send>;

/// A file system. Every error is the system's.
#[allow(clippy::missing_errors_doc, reason = "they are all the system's")]
pub trait Storage: Send + Sync {
    /// Makes an empty file; replaces an existing one.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>>;

    /// Opens an existing file to append to it.
    fn append(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>>;

    /// Opens an existing file to read it.
    fn read(&self, path: &Path) -> io::Result<Input>;

    /// Opens an existing file to read it from its byte `at` on.
    fn read_at(&self, path: &Path, at: u64) -> io::Result<Input> {
        let mut input = self.read(path)?;
        io::copy(&mut input.by_ref().take(at), &mut io::sink())?;
        Ok(input)
    }

    /// Cuts a file after its first `len` bytes, and syncs it.
    fn truncate(&self, path: &Path, len: u64) -> io::Result<()>;

    /// Renames a file; replaces an existing file of the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// The names of the files in a folder.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Makes a folder if it does not exist.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// Waits until the names in a folder would survive a loss of power: files made, renamed and removed.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// The length of a file; `None` if there is none.
    fn len(&self, path: &Path) -> io::Result<Option<u64>>;
}

/// Writes all bytes; a file that takes none is an error.
///
/// # Errors
/// The file's. Some of the bytes may be in the file then.
pub fn write_all(file: &dyn StorageFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(len) => bytes = &bytes[len..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The folder that a path is in.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

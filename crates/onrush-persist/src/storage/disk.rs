//! The file system of the machine.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use super::{Input, Storage, StorageFile};

/// The file system of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

/// Opens an existing file to read it.
///
/// # Errors
/// The system's; or it is a fifo, a socket or a device, whose reader could wait for ever.
pub fn open_file(path: &Path) -> io::Result<File> {
    refuse_special(path)?;
    File::open(path)
}

/// Fails if `path` is a fifo, a socket or a device. What is not there, or is a folder, the system refuses by itself.
fn refuse_special(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() && !metadata.is_dir() => Err(not_a_file()),
        _ => Ok(()),
    }
}

/// The error for a fifo, a socket or a device in the place of a file.
pub fn not_a_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file, but a fifo, a socket or a device")
}

/// Opened for appending, so every write goes to the end.
struct DiskFile(File);

impl StorageFile for DiskFile {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        (&self.0).write(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

impl Storage for Disk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        // Truncation and appending exclude each other for OpenOptions.
        refuse_special(path)?;
        File::create(path)?;
        self.append(path)
    }

    fn append(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        refuse_special(path)?;
        Ok(Arc::new(DiskFile(OpenOptions::new().append(true).open(path)?)))
    }

    fn read(&self, path: &Path) -> io::Result<Input> {
        Ok(Box::new(open_file(path)?))
    }

    fn read_at(&self, path: &Path, at: u64) -> io::Result<Input> {
        let mut file = open_file(path)?;
        file.seek(SeekFrom::Start(at))?;
        Ok(Box::new(file))
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        refuse_special(path)?;
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_len(len)?;
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            // A name that is not valid text is not one of ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        match fs::create_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
            done => done,
        }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn len(&self, path: &Path) -> io::Result<Option<u64>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some(metadata.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

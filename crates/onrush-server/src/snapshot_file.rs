//! Files of snapshots: written under another name, made safe, then given their name.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use onrush_engine::snapshot::output::Output;
use onrush_persist::rdb::FileWriter;

/// So many bytes are written before they are made safe: otherwise the disk would get them all at the end
/// (`rdb-save-incremental-fsync`).
const SYNC_BYTES: u64 = 4 << 20;

/// How a file is written.
#[derive(Clone, Copy, Debug)]
pub struct FileOptions {
    /// `rdbchecksum`.
    pub has_checksum: bool,
    /// `rdb-save-incremental-fsync`.
    pub syncs_often: bool,
    /// Whether it is an RDB file; otherwise it has commands.
    pub is_rdb: bool,
}

/// What writes.
enum Writer {
    /// It has not begun, or has ended.
    None(Option<File>),
    Rdb(FileWriter<File>),
    Commands(File),
}

/// A file that is being written.
pub struct SnapshotFile {
    temporary: PathBuf,
    target: PathBuf,
    options: FileOptions,
    writer: Writer,
    len: u64,
    synced_len: u64,
}

impl SnapshotFile {
    /// Makes a file beside `target`, which it is to become.
    ///
    /// # Errors
    /// The system's.
    pub fn create(target: PathBuf, options: FileOptions) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let temporary = target.with_file_name(format!("temp-{}-{number}.rdb", std::process::id()));
        let file = File::create(&temporary)?;
        Ok(Self { temporary, target, options, writer: Writer::None(Some(file)), len: 0, synced_len: 0 })
    }

    /// The name that it is to have.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Ends it, makes it safe, and gives it its name. Returns its length in bytes.
    ///
    /// # Errors
    /// The system's.
    pub fn settle(&mut self) -> io::Result<u64> {
        let file = match std::mem::replace(&mut self.writer, Writer::None(None)) {
            Writer::None(_) => return Err(io::Error::other("nothing was written")),
            Writer::Rdb(writer) => writer.finish()?,
            Writer::Commands(file) => file,
        };
        file.sync_all()?;
        let len = file.metadata()?.len();
        drop(file);
        fs::rename(&self.temporary, &self.target)?;
        sync_folder(&self.target)?;
        Ok(len)
    }

    /// Removes it.
    pub fn remove(&self) {
        // It may never have come to be.
        let _ = fs::remove_file(&self.temporary);
    }

    fn file(&mut self) -> io::Result<&mut File> {
        match &mut self.writer {
            Writer::None(_) => Err(io::Error::other("it has not begun")),
            Writer::Rdb(writer) => Ok(writer.output_mut()),
            Writer::Commands(file) => Ok(file),
        }
    }
}

/// Makes the names in the folder of a file safe.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

impl Output for SnapshotFile {
    fn begin(&mut self, version: u16) -> io::Result<()> {
        let Writer::None(file) = &mut self.writer else { return Err(io::Error::other("it has begun before")) };
        let Some(file) = file.take() else { return Err(io::Error::other("it has ended")) };
        self.writer = match self.options.is_rdb {
            true => Writer::Rdb(FileWriter::new(file, version, self.options.has_checksum)?),
            false => Writer::Commands(file),
        };
        Ok(())
    }

    fn write(&mut self, items: &[u8]) -> io::Result<()> {
        match &mut self.writer {
            Writer::Rdb(writer) => writer.write(items)?,
            _ => self.file()?.write_all(items)?,
        }
        self.len += items.len() as u64;
        if self.options.syncs_often && self.len - self.synced_len >= SYNC_BYTES {
            self.synced_len = self.len;
            self.file()?.sync_data()?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<u64> {
        let finished = self.settle();
        if finished.is_err() {
            self.remove();
        }
        finished
    }

    fn abandon(self: Box<Self>) {
        self.remove();
    }
}

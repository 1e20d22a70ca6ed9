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
}

/// A file that is being written.
pub struct SnapshotFile {
    temporary: PathBuf,
    target: PathBuf,
    options: FileOptions,
    file: Option<File>,
    writer: Option<FileWriter<File>>,
    synced_bytes: u64,
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
        Ok(Self { temporary, target, options, file: Some(file), writer: None, synced_bytes: 0 })
    }

    fn settle(&mut self) -> io::Result<u64> {
        let Some(writer) = self.writer.take() else { return Err(io::Error::other("nothing was written")) };
        let file = writer.finish()?;
        file.sync_all()?;
        let len = file.metadata()?.len();
        drop(file);
        fs::rename(&self.temporary, &self.target)?;
        sync_folder(&self.target)?;
        Ok(len)
    }

    fn remove(&self) {
        // It may never have come to be.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Makes the names in the folder of a file safe.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

impl Output for SnapshotFile {
    fn begin(&mut self, version: u16) -> io::Result<()> {
        let Some(file) = self.file.take() else { return Err(io::Error::other("it has begun before")) };
        self.writer = Some(FileWriter::new(file, version, self.options.has_checksum)?);
        Ok(())
    }

    fn write(&mut self, items: &[u8]) -> io::Result<()> {
        let Some(writer) = &mut self.writer else { return Err(io::Error::other("it has not begun")) };
        writer.write(items)?;
        if self.options.syncs_often && writer.len_bytes() - self.synced_bytes >= SYNC_BYTES {
            self.synced_bytes = writer.len_bytes();
            let file = writer.output_mut();
            file.flush()?;
            file.sync_data()?;
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

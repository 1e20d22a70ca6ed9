//! A file of a snapshot as the engine's output.

use std::io;
use std::path::Path;
use std::sync::Arc;

use onrush_engine::snapshot::output::{NoResult, Output};
use onrush_persist::rdb::SnapshotFile;
use onrush_persist::storage::StorageFile;

/// See the module's text.
pub struct FileOutput {
    file: SnapshotFile,
    /// The version of the format, until the first bytes are written.
    version: Option<u16>,
}

impl FileOutput {
    /// Writes into `file`, which has just been created.
    pub fn new(file: SnapshotFile) -> Self {
        Self { file, version: None }
    }

    /// The file's name when it is complete.
    pub fn target(&self) -> &Path {
        self.file.target()
    }

    /// Completes the file, which then has its name; returns its length in bytes.
    ///
    /// # Errors
    /// The system's.
    pub fn settle(&mut self) -> io::Result<u64> {
        self.write_start()?;
        self.file.settle()
    }

    /// Removes the file.
    pub fn remove(&self) {
        self.file.remove();
    }

    fn write_start(&mut self) -> io::Result<()> {
        self.version.take().map_or(Ok(()), |version| self.file.begin(version))
    }
}

impl Output for FileOutput {
    /// The keyspace is locked, so this does not wait for the disk.
    fn begin(&mut self, version: u16) -> io::Result<()> {
        self.version = Some(version);
        Ok(())
    }

    fn write(&mut self, items: &[u8]) -> io::Result<()> {
        self.write_start()?;
        self.file.write(items)
    }

    fn take_due_sync(&mut self) -> Option<Arc<dyn StorageFile>> {
        self.file.take_due_sync()
    }

    fn finish(mut self: Box<Self>) -> io::Result<u64> {
        let finished = self.settle();
        if finished.is_err() {
            self.remove();
        }
        finished
    }

    fn abandon(self: Box<Self>, _: &NoResult) {
        self.remove();
    }
}

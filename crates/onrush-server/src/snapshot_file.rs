//! A file of a snapshot as the engine's output.

use std::io;
use std::sync::Arc;

use onrush_engine::snapshot::output::{NoResult, Output};
use onrush_persist::rdb::SnapshotFile;
use onrush_persist::storage::StorageFile;

/// See the module's text.
pub struct FileOutput(pub SnapshotFile);

impl Output for FileOutput {
    fn begin(&mut self, version: u16) -> io::Result<()> {
        self.0.begin(version)
    }

    fn write(&mut self, items: &[u8]) -> io::Result<()> {
        self.0.write(items)
    }

    fn take_due_sync(&mut self) -> Option<Arc<dyn StorageFile>> {
        self.0.take_due_sync()
    }

    fn finish(mut self: Box<Self>) -> io::Result<u64> {
        let finished = self.0.settle();
        if finished.is_err() {
            self.0.remove();
        }
        finished
    }

    fn abandon(self: Box<Self>, _: &NoResult) {
        self.0.remove();
    }
}

//! A file of a snapshot: written under another name, synced, then renamed.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::FileWriter;
use crate::storage::{Storage, StorageFile, parent, write_all};

/// Bytes written between two syncs: without them the disk would get all bytes at the end
/// (`rdb-save-incremental-fsync`).
const SYNC_BYTES: u64 = if cfg!(test) { 4 << 10 } else { 4 << 20 };

/// How a file is written.
#[derive(Clone, Copy, Debug)]
pub struct FileOptions {
    /// `rdbchecksum`.
    pub has_checksum: bool,
    /// `rdb-save-incremental-fsync`.
    pub syncs_often: bool,
    /// Whether it is an RDB file; otherwise it holds commands.
    pub is_rdb: bool,
}

struct Bytes(Arc<dyn StorageFile>);

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

enum Writer {
    /// The file has not begun, or has ended.
    None,
    Rdb(FileWriter<Bytes>),
    Commands,
}

/// A file that is being written. Under its final name there is always the old file or the complete new one.
pub struct SnapshotFile {
    storage: Arc<dyn Storage>,
    temporary: PathBuf,
    target: PathBuf,
    options: FileOptions,
    file: Arc<dyn StorageFile>,
    writer: Writer,
    len: u64,
    synced_len: u64,
}

impl SnapshotFile {
    /// Makes a temporary file beside `target`; it will replace `target`.
    ///
    /// # Errors
    /// The system's, as for the other functions.
    pub fn create(storage: Arc<dyn Storage>, target: PathBuf, options: FileOptions) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let temporary = target.with_file_name(format!("temp-{}-{number}.rdb", process::id()));
        let file = storage.create(&temporary)?;
        Ok(Self { storage, temporary, target, options, file, writer: Writer::None, len: 0, synced_len: 0 })
    }

    /// Its final name.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Writes the header before the items.
    pub fn begin(&mut self, version: u16) -> io::Result<()> {
        self.writer = match self.options.is_rdb {
            true => Writer::Rdb(FileWriter::new(Bytes(Arc::clone(&self.file)), version, self.options.has_checksum)?),
            false => Writer::Commands,
        };
        Ok(())
    }

    /// Writes whole items, or commands. O(bytes).
    pub fn write(&mut self, items: &[u8]) -> io::Result<()> {
        match &mut self.writer {
            Writer::None => return Err(io::Error::other("it has not begun")),
            Writer::Rdb(writer) => writer.write(items)?,
            Writer::Commands => write_all(&*self.file, items)?,
        }
        self.len += items.len() as u64;
        Ok(())
    }

    /// The file, if so much was written since the last call that a sync is due. The caller syncs it when no thread
    /// waits for it; if the sync fails, the snapshot has failed.
    pub fn take_due_sync(&mut self) -> Option<Arc<dyn StorageFile>> {
        let is_due = self.options.syncs_often && self.len - self.synced_len >= SYNC_BYTES;
        is_due.then(|| {
            self.synced_len = self.len;
            Arc::clone(&self.file)
        })
    }

    /// Ends it, syncs it, and gives it its final name. Returns its length in bytes.
    pub fn settle(&mut self) -> io::Result<u64> {
        match std::mem::replace(&mut self.writer, Writer::None) {
            Writer::None => return Err(io::Error::other("nothing was written")),
            Writer::Rdb(writer) => _ = writer.finish()?,
            Writer::Commands => {}
        }
        self.file.sync()?;
        let len = self.file.len()?;
        self.storage.rename(&self.temporary, &self.target)?;
        self.storage.sync_dir(parent(&self.target))?;
        Ok(len)
    }

    /// Removes it.
    pub fn remove(&self) {
        // The file may not exist, and the next start removes any leftovers.
        let _ = self.storage.remove(&self.temporary);
    }
}

/// Removes files of snapshots that were not completed because their process was killed. `is_alive`: whether a process
/// may still be writing. Returns their names. O(files in the folder).
pub fn remove_leftovers(storage: &dyn Storage, dir: &Path, is_alive: impl Fn(u32) -> bool) -> io::Result<Vec<String>> {
    let is_leftover = |name: &String| {
        let rest = name.strip_prefix("temp-");
        let rest = rest.and_then(|rest| rest.strip_suffix(".rdb").or_else(|| rest.strip_suffix(".incr.aof")));
        let numbers = rest.and_then(|rest| rest.split_once('-'));
        let numbers = numbers.and_then(|(pid, number)| Some((pid.parse().ok()?, number.parse::<u64>().ok()?)));
        numbers.is_some_and(|(pid, _)| !is_alive(pid))
    };
    let mut names = storage.list(dir)?;
    names.retain(is_leftover);
    for name in &names {
        storage.remove(&dir.join(name))?;
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::super::{Batch, Encoder, FileReader, KeyRecord, Text, VERSION_DEFAULT};
    use super::*;
    use crate::storage::faulty::{Fault, FaultKind, Faulty};

    const TARGET: &str = "data/dump.rdb";

    /// Blocks of items; the first one names the version of the data.
    fn blocks(version: u8) -> Vec<Vec<u8>> {
        let block = |index: u8| {
            let mut encoder = Encoder::new(false);
            let name = [b"key".as_slice(), &[version, index]].concat();
            let key = KeyRecord { name: &name, expires_at_ms: None, idle_s: None, freq: None };
            encoder.key(&key).string(Text::Bytes(&[version; 2000]));
            encoder.take()
        };
        (0..8).map(block).collect()
    }

    fn save(system: &Faulty, version: u8, is_rdb: bool) -> io::Result<u64> {
        let options = FileOptions { has_checksum: true, syncs_often: true, is_rdb };
        let mut file = SnapshotFile::create(Arc::new(system.clone()), PathBuf::from(TARGET), options)?;
        let mut write = || {
            file.begin(VERSION_DEFAULT)?;
            for block in blocks(version) {
                file.write(&block)?;
                if let Some(due) = file.take_due_sync() {
                    due.sync()?;
                }
            }
            file.settle()
        };
        let written = write();
        if written.is_err() {
            file.remove();
        }
        written
    }

    /// The version of the data in the file. Checks that the file is whole.
    fn version_of(system: &Faulty, is_rdb: bool) -> u8 {
        let bytes = system.bytes(Path::new(TARGET)).expect("a file");
        let mut items = &bytes[..];
        if is_rdb {
            let (mut reader, mut batch) = (FileReader::new(items).expect("a header"), Batch::default());
            while reader.next_batch(&mut batch).expect("a whole file, its checksum too") {}
            items = &items[b"REDIS0010".len()..items.len() - b"\xff".len() - size_of::<u64>()];
        }
        [1, 2].into_iter().find(|version| blocks(*version).concat() == items).expect("one of the two, whole")
    }

    fn temporaries(system: &Faulty) -> Vec<String> {
        let mut names = system.list(Path::new("data")).expect("names");
        names.retain(|name| name.starts_with("temp-"));
        names
    }

    /// Replaces a file with a fault at each operation: afterwards there is the old file or the new one.
    fn every_fault(is_rdb: bool) {
        let old = || {
            let system = Faulty::new();
            save(&system, 1, is_rdb).expect("nothing fails");
            (system.operations(), system)
        };
        let (first, system) = old();
        save(&system, 2, is_rdb).expect("nothing fails");
        let operations = system.operations();
        assert!(operations - first > 10, "{operations}");
        let crashes = [FaultKind::Crash].into_iter().chain((0..6).map(FaultKind::CrashPartly));
        let kinds = [FaultKind::ShortWrite, FaultKind::NoSpace, FaultKind::Io].into_iter().chain(crashes);
        for (at, kind) in (first..operations).flat_map(|at| kinds.clone().map(move |kind| (at, kind))) {
            for times in [1, 3] {
                let (_, system) = old();
                system.set_fault(Some(Fault { at, times, kind }));
                let is_saved = save(&system, 2, is_rdb).is_ok();
                let is_crash = matches!(kind, FaultKind::Crash | FaultKind::CrashPartly(_));
                if !is_crash {
                    let left = temporaries(&system);
                    assert!(times > 1 || left.is_empty(), "{left:?} after {kind:?} at {at}");
                    let found = version_of(&system, is_rdb);
                    assert!(found == 2 || !is_saved, "{kind:?} at {at}");
                    system.crash(FaultKind::Crash);
                }
                let system = system.restart();
                let found = version_of(&system, is_rdb);
                assert!(found == 2 || !is_saved, "{kind:?} at {at}: what was saved is gone");
                remove_leftovers(&system, Path::new("data"), |_| false).expect("nothing fails");
                assert!(temporaries(&system).is_empty());
                save(&system, 2, is_rdb).expect("nothing fails any more");
                assert_eq!(version_of(&system, is_rdb), 2);
            }
        }
    }

    #[test]
    fn whatever_fails_there_is_the_old_file_or_the_new_one() {
        every_fault(true);
        every_fault(false);
    }

    #[test]
    fn leftovers_are_those_of_processes_that_are_gone() {
        let system = Faulty::new();
        for name in ["temp-7-0.rdb", "temp-8-12.rdb", "temp-8.rdb", "temp-8-x.rdb", "dump.rdb", "temp-rewrite.aof"] {
            system.create(&Path::new("data").join(name)).expect("a file");
        }
        let removed = remove_leftovers(&system, Path::new("data"), |pid| pid == 7).expect("nothing fails");
        assert_eq!(removed, ["temp-8-12.rdb"]);
        let kept = ["dump.rdb", "temp-7-0.rdb", "temp-8-x.rdb", "temp-8.rdb", "temp-rewrite.aof"];
        assert_eq!(system.list(Path::new("data")).expect("names"), kept);
    }
}

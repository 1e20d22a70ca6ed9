//! A file system in memory that fails or crashes at the operation a test names, and keeps track of what is synced.
//!
//! A crash is a loss of power: a file has the bytes that its last sync covered, and a folder the names of its last
//! sync. With [`FaultKind::CrashPartly`] some later data survives too: the beginning of a file's new bytes, and the
//! first of a folder's changes or (odd numbers) any of them. Not modelled: later bytes that survive where earlier ones
//! do not.
//!
//! After a failed sync, the bytes that it should have covered never become durable, and neither do later bytes,
//! although later syncs succeed: this is how systems behave that drop pages they could not write.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Input, Storage, StorageFile, parent};

/// What happens at an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A write takes half of its bytes, and the next faulty operations fail with ENOSPC. An operation other than a
    /// write fails with EIO.
    ShortWrite,
    /// A write takes all of its bytes and fails with EIO all the same. Other operations just fail.
    WholeWrite,
    /// ENOSPC.
    NoSpace,
    /// EIO.
    Io,
    /// The power fails before the operation: unsynced data is lost. Every operation fails until [`Faulty::restart`].
    Crash,
    /// As [`FaultKind::Crash`], but a part of the unsynced data survives; the number chooses which.
    CrashPartly(u64),
}

/// A fault at some operations. Writes, syncs, renames, removals, and making and cutting files and folders count, from 0.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The first operation that it strikes.
    pub at: u64,
    /// How many operations it strikes; a crash is for good.
    pub times: u64,
    /// What happens.
    pub kind: FaultKind,
}

/// The file system. Clones share it.
#[derive(Clone, Default)]
pub struct Faulty {
    world: Arc<Mutex<World>>,
    /// How many crashes there were before this handle: older ones are dead.
    life: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Inode(usize);

#[derive(Default)]
struct Content {
    live: Vec<u8>,
    durable: Vec<u8>,
    /// A sync has failed: nothing more becomes durable.
    is_poisoned: bool,
}

/// A change of a folder.
enum Change {
    Set(PathBuf, Inode),
    Remove(PathBuf),
    /// Happens as a whole, when the folder of the new name is synced.
    Rename(PathBuf, PathBuf, Inode),
}

impl Change {
    fn dir(&self) -> &Path {
        let (Change::Set(path, _) | Change::Remove(path) | Change::Rename(_, path, _)) = self;
        parent(path)
    }
}

#[derive(Default)]
struct World {
    files: Vec<Content>,
    live: BTreeMap<PathBuf, Inode>,
    durable: BTreeMap<PathBuf, Inode>,
    /// Changes of folders since their last sync, in order.
    changes: Vec<Change>,
    fault: Option<Fault>,
    operations: u64,
    life: u64,
    is_down: bool,
}

struct FaultyFile {
    system: Faulty,
    inode: Inode,
}

fn down() -> io::Error {
    io::Error::other("the power is off")
}

impl Faulty {
    /// An empty file system that works. All folders exist, even without [`Storage::create_dir`].
    pub fn new() -> Self {
        Faulty::default()
    }

    /// Sets the fault that strikes, or none.
    pub fn set_fault(&self, fault: Option<Fault>) {
        self.world.lock().fault = fault;
    }

    /// Number of operations so far.
    pub fn operations(&self) -> u64 {
        self.world.lock().operations
    }

    /// Crashes now.
    pub fn crash(&self, kind: FaultKind) {
        self.world.lock().crash(kind);
    }

    /// A new handle to the file system, which works again after a crash. Older handles and their files are dead.
    pub fn restart(&self) -> Faulty {
        let mut world = self.world.lock();
        world.life += 1;
        world.is_down = false;
        world.fault = None;
        Faulty { world: Arc::clone(&self.world), life: world.life }
    }

    /// The bytes of a file, if there is one.
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let world = self.world.lock();
        world.live.get(path).map(|inode| world.files[inode.0].live.clone())
    }

    /// Does an operation, unless it is struck.
    fn operate<T>(
        &self,
        operation: impl FnOnce(&mut World) -> io::Result<T>,
        struck: impl FnOnce(&mut World, FaultKind) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut world = self.look()?;
        let number = world.operations;
        world.operations += 1;
        match world.fault {
            Some(Fault { at, times, kind }) if (at..at.saturating_add(times)).contains(&number) => {
                let kind = if kind == FaultKind::ShortWrite && number > at { FaultKind::NoSpace } else { kind };
                if matches!(kind, FaultKind::Crash | FaultKind::CrashPartly(_)) {
                    world.crash(kind);
                    return Err(down());
                }
                struck(&mut world, kind)
            }
            _ => operation(&mut world),
        }
    }

    fn look(&self) -> io::Result<parking_lot::MutexGuard<'_, World>> {
        let world = self.world.lock();
        if world.is_down || world.life != self.life { Err(down()) } else { Ok(world) }
    }
}

fn fail<T>(_: &mut World, kind: FaultKind) -> io::Result<T> {
    // ENOSPC or EIO.
    Err(io::Error::from_raw_os_error(if kind == FaultKind::NoSpace { 28 } else { 5 }))
}

impl World {
    fn find(&self, path: &Path) -> io::Result<Inode> {
        self.live.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn crash(&mut self, kind: FaultKind) {
        if let FaultKind::CrashPartly(seed) = kind {
            let changes = std::mem::take(&mut self.changes);
            let kept = part(seed, changes.len());
            for (index, change) in changes.into_iter().enumerate() {
                // The first of them, or any.
                let survives = if seed % 2 == 0 { index < kept } else { part(seed ^ index as u64, 1) == 1 };
                if survives {
                    apply(&mut self.durable, change);
                }
            }
        }
        for (index, file) in self.files.iter_mut().enumerate() {
            let mut kept = file.durable.len();
            if let FaultKind::CrashPartly(seed) = kind
                && !file.is_poisoned
                && file.live.starts_with(&file.durable)
            {
                kept += part(seed ^ (index as u64 + 1), file.live.len() - file.durable.len());
                file.durable.extend_from_slice(&file.live[file.durable.len()..kept]);
            }
            file.live = file.durable[..kept].to_vec();
            file.is_poisoned = false;
        }
        self.changes.clear();
        self.live = self.durable.clone();
        self.is_down = true;
    }
}

/// A number of 0 to `len` that `seed` chooses.
fn part(seed: u64, len: usize) -> usize {
    let mixed = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed >> 32) % (len as u64 + 1)) as usize
}

fn apply(names: &mut BTreeMap<PathBuf, Inode>, change: Change) {
    match change {
        Change::Set(path, inode) => drop(names.insert(path, inode)),
        Change::Remove(path) => drop(names.remove(&path)),
        Change::Rename(from, to, inode) => {
            names.remove(&from);
            names.insert(to, inode);
        }
    }
}

impl StorageFile for FaultyFile {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let write = |world: &mut World, bytes: &[u8]| {
            world.files[self.inode.0].live.extend_from_slice(bytes);
            Ok(bytes.len())
        };
        self.system.operate(
            |world| write(world, bytes),
            |world, kind| match kind {
                FaultKind::ShortWrite if bytes.len() > 1 => write(world, &bytes[..bytes.len() / 2]),
                FaultKind::WholeWrite => write(world, bytes).and_then(|_| fail(world, kind)),
                kind => fail(world, kind),
            },
        )
    }

    fn sync(&self) -> io::Result<()> {
        self.system.operate(
            |world| {
                let file = &mut world.files[self.inode.0];
                if !file.is_poisoned {
                    file.durable.clone_from(&file.live);
                }
                Ok(())
            },
            |world, kind| {
                world.files[self.inode.0].is_poisoned = true;
                fail(world, kind)
            },
        )
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.system.look()?.files[self.inode.0].live.len() as u64)
    }
}

/// Reads a file that may still grow.
struct FaultyInput {
    system: Faulty,
    inode: Inode,
    at: usize,
}

impl Read for FaultyInput {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let world = self.system.look()?;
        let rest = world.files[self.inode.0].live.get(self.at..).unwrap_or_default();
        let len = rest.len().min(into.len());
        into[..len].copy_from_slice(&rest[..len]);
        self.at += len;
        Ok(len)
    }
}

impl Storage for Faulty {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        let create = |world: &mut World| {
            if let Ok(inode) = world.find(path) {
                let file = &mut world.files[inode.0];
                file.live.clear();
                // All data that could not be written is gone.
                file.is_poisoned = false;
                return Ok(inode);
            }
            world.files.push(Content::default());
            let inode = Inode(world.files.len() - 1);
            world.live.insert(path.to_path_buf(), inode);
            world.changes.push(Change::Set(path.to_path_buf(), inode));
            Ok(inode)
        };
        let inode = self.operate(create, fail)?;
        Ok(Arc::new(FaultyFile { system: self.clone(), inode }))
    }

    fn append(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        let inode = self.look()?.find(path)?;
        Ok(Arc::new(FaultyFile { system: self.clone(), inode }))
    }

    fn read(&self, path: &Path) -> io::Result<Input> {
        let inode = self.look()?.find(path)?;
        Ok(Box::new(FaultyInput { system: self.clone(), inode, at: 0 }))
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        let truncate = |world: &mut World| {
            let inode = world.find(path)?;
            let file = &mut world.files[inode.0];
            file.live.truncate(len as usize);
            file.durable.clone_from(&file.live);
            Ok(())
        };
        self.operate(truncate, fail)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let rename = |world: &mut World| {
            let inode = world.find(from)?;
            world.live.remove(from);
            world.live.insert(to.to_path_buf(), inode);
            world.changes.push(Change::Rename(from.to_path_buf(), to.to_path_buf(), inode));
            Ok(())
        };
        self.operate(rename, fail)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let remove = |world: &mut World| {
            world.find(path)?;
            world.live.remove(path);
            world.changes.push(Change::Remove(path.to_path_buf()));
            Ok(())
        };
        self.operate(remove, fail)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let world = self.look()?;
        let inside = world.live.keys().filter(|path| parent(path) == dir);
        Ok(inside.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    fn create_dir(&self, _: &Path) -> io::Result<()> {
        self.operate(|_| Ok(()), fail)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let sync = |world: &mut World| {
            let (synced, later): (Vec<Change>, Vec<Change>) =
                std::mem::take(&mut world.changes).into_iter().partition(|change| change.dir() == dir);
            world.changes = later;
            synced.into_iter().for_each(|change| apply(&mut world.durable, change));
            Ok(())
        };
        self.operate(sync, fail)
    }

    fn len(&self, path: &Path) -> io::Result<Option<u64>> {
        let world = self.look()?;
        Ok(world.live.get(path).map(|inode| world.files[inode.0].live.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::write_all;

    #[test]
    fn a_crash_takes_what_was_not_synced() {
        let system = Faulty::new();
        let (a, b) = (Path::new("d/a"), Path::new("d/b"));
        let file = system.create(a).unwrap();
        write_all(&*file, b"one").unwrap();
        file.sync().unwrap();
        system.crash(FaultKind::Crash);
        let system = system.restart();
        assert_eq!(system.bytes(a), None, "its name was not synced");
        assert!(file.write(b"x").is_err(), "a file of an earlier life");

        let file = system.create(a).unwrap();
        write_all(&*file, b"one").unwrap();
        file.sync().unwrap();
        system.sync_dir(Path::new("d")).unwrap();
        write_all(&*file, b"two").unwrap();
        system.rename(a, b).unwrap();
        assert_eq!(system.bytes(b).unwrap(), b"onetwo");
        system.crash(FaultKind::Crash);
        let system = system.restart();
        assert_eq!((system.bytes(a).unwrap(), system.bytes(b)), (b"one".to_vec(), None));
    }

    #[test]
    fn a_part_of_what_was_not_synced_may_survive() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let system = Faulty::new();
            let file = system.create(Path::new("d/a")).unwrap();
            system.sync_dir(Path::new("d")).unwrap();
            write_all(&*file, b"123").unwrap();
            system.crash(FaultKind::CrashPartly(seed));
            seen.insert(system.restart().bytes(Path::new("d/a")).unwrap());
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [&b""[..], b"1", b"12", b"123"]);
    }

    #[test]
    fn faults_strike_the_operations_they_name_and_a_failed_sync_is_for_good() {
        let system = Faulty::new();
        let file = system.create(Path::new("d/a")).unwrap();
        system.sync_dir(Path::new("d")).unwrap();
        system.set_fault(Some(Fault { at: 2, times: 2, kind: FaultKind::ShortWrite }));
        assert_eq!(file.write(b"1234").unwrap(), 2);
        assert!(file.sync().is_err());
        assert_eq!(system.operations(), 4);
        write_all(&*file, b"34").unwrap();
        file.sync().unwrap();
        system.crash(FaultKind::Crash);
        assert_eq!(system.restart().bytes(Path::new("d/a")).unwrap(), b"");
    }
}

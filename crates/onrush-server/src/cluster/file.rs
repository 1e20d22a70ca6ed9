//! The file of nodes (`cluster-config-file`): read at the start, replaced as a whole, and used by one node only.
//!
//! What need not be on the disk at once goes to a file beside it, `nodes.conf.soon`, without waiting for the disk: it survives
//! the end of the process. Within a second the file of nodes takes it over; a file that is replaced without being synced could
//! be empty after a failure of the machine.
//!
//! The file beside it begins with a line that says which text of the file of nodes it follows, by length and checksum, and
//! which text comes after the line. At the start it is read instead if both are so. Otherwise it does not count: the file of
//! nodes has been replaced by what is newer and the process was killed before the other one was removed, or an operator has
//! deleted or restored the file of nodes, or a failure of the machine has cut the other one.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use onrush_cluster::nodes_conf::NodesConf;
use onrush_persist::rdb::crc64::crc64;
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};

use crate::config::{os_reason, replace_file};

/// See the module's text.
pub(super) struct NodesFile {
    path: PathBuf,
    /// The present file, locked.
    locked: Mutex<File>,
    beside: Mutex<Beside>,
}

/// What the file beside the file of nodes is about.
#[derive(Default)]
struct Beside {
    /// The text of the file of nodes; `None`: there is none, or it is not known.
    follows: Option<Mark>,
    /// Since when there is something newer beside it.
    newer_since: Option<Instant>,
    /// Whether the process ends.
    is_over: bool,
}

/// Tells a text from others.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mark {
    len: usize,
    crc: u64,
}

impl Mark {
    fn of(text: &str) -> Self {
        Self { len: text.len(), crc: crc64(text.as_bytes()) }
    }
}

/// What the names of the file beside it, and of that file while it is written, end with.
const SOON_SUFFIX: &str = ".soon";
const TEMPORARY_SUFFIX: &str = ".soon.tmp";

/// For so long the newest text may be beside the file of nodes.
const SOON: Duration = Duration::from_secs(1);

impl NodesFile {
    /// Takes the file, which is made if there is none.
    ///
    /// # Errors
    /// Another node uses it, or the system's.
    pub(super) fn take(name: &str) -> Result<Self, String> {
        let path = PathBuf::from(name);
        let failed = |error: &dyn std::fmt::Display| format!("Can't open {name} in order to acquire a lock: {error}");
        let file = File::options().create(true).append(true).read(true).open(&path);
        let file = file.map_err(|error| failed(&os_reason(&error)))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => format!(
                "Sorry, the cluster configuration file {name} is already used by a different Redis Cluster node. Please \
                 make sure that different nodes use different cluster configuration files."
            ),
            _ => failed(&error),
        })?;
        Ok(Self { path, locked: Mutex::new(file), beside: Mutex::default() })
    }

    /// What it says; `None`: it is new.
    ///
    /// # Errors
    /// It cannot be read or understood.
    pub(super) fn read(&self) -> Result<Option<NodesConf>, String> {
        let shown = self.path.display();
        let text = std::fs::read_to_string(&self.path).map_err(|error| format!("Can't read {shown}: {error}"))?;
        if text.is_empty() {
            return Ok(None);
        }
        let follows = Mark::of(&text);
        let soon = std::fs::read_to_string(self.beside(SOON_SUFFIX)).ok();
        let newer = soon.and_then(|soon| NodesConf::parse(text_after(&soon, follows)?).ok());
        let newer_since = newer.is_some().then(Instant::now);
        *self.beside.lock() = Beside { follows: Some(follows), newer_since, is_over: false };
        if newer.is_some() {
            return Ok(newer);
        }
        NodesConf::parse(&text)
            .map(Some)
            .map_err(|error| format!("Unrecoverable error: corrupted cluster config file \"{shown}\": {error}"))
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        name.into()
    }

    /// Replaces it; with `sync` it is on the disk then, else within a second, when [`NodesFile::is_due`] says so.
    ///
    /// # Errors
    /// The system's. What was written last is what is read, or this text if only the end has failed.
    pub(super) fn write(&self, text: &str, sync: bool) -> io::Result<()> {
        let mut beside = self.beside.lock();
        if beside.is_over {
            return Err(io::Error::other("the process ends"));
        }
        match beside.follows.filter(|_| !sync) {
            Some(follows) => {
                self.write_soon(text, follows)?;
                beside.newer_since.get_or_insert_with(Instant::now);
                Ok(())
            }
            None => self.write_synced(text, &mut beside),
        }
    }

    /// Replaces the file beside it as a whole: if the disk is full, the former one stays.
    fn write_soon(&self, text: &str, follows: Mark) -> io::Result<()> {
        let temporary = self.beside(TEMPORARY_SUFFIX);
        let whole = first_line(follows, Mark::of(text)) + text;
        let written = std::fs::write(&temporary, whole);
        written.and_then(|()| std::fs::rename(&temporary, self.beside(SOON_SUFFIX))).inspect_err(|_| {
            // A part of it takes space that may be needed.
            let _ = std::fs::remove_file(&temporary);
        })
    }

    /// The file beside it goes only when this text is on the disk: until then it may have the newest text that there is.
    fn write_synced(&self, text: &str, beside: &mut Beside) -> io::Result<()> {
        let mark = Mark::of(text);
        if beside.newer_since.is_some() && beside.follows == Some(mark) {
            // It follows this very text, so it would be read instead. The text is on the disk already.
            remove(&self.beside(SOON_SUFFIX))?;
        }
        // If it fails nobody knows which text is there, and nothing can follow it.
        beside.follows = None;
        replace_file(&self.path, text.as_bytes())?;
        remove(&self.beside(SOON_SUFFIX))?;
        let file = File::open(&self.path)?;
        // Nobody else knows the new file yet.
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        *self.locked.lock() = file;
        (beside.follows, beside.newer_since) = (Some(mark), None);
        Ok(())
    }

    /// Has the file of nodes take over what is newer beside it, and writes nothing any more: the process ends, and redis-server may
    /// come after it.
    ///
    /// # Errors
    /// The system's. What is newer stays beside it.
    pub(super) fn end(&self) -> io::Result<()> {
        let mut beside = self.beside.lock();
        beside.is_over = true;
        let Some(follows) = beside.follows.filter(|_| beside.newer_since.is_some()) else { return Ok(()) };
        let soon = std::fs::read_to_string(self.beside(SOON_SUFFIX))?;
        match text_after(&soon, follows) {
            Some(text) => self.write_synced(text, &mut beside),
            None => Ok(()),
        }
    }

    /// Whether it is time to write it with `sync`. Not while it is being written.
    pub(super) fn is_due(&self) -> bool {
        let is_old = |since: Instant| since.elapsed() >= SOON;
        self.beside.try_lock().is_some_and(|beside| beside.newer_since.is_some_and(is_old))
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The first line of the file beside the file of nodes.
fn first_line(follows: Mark, text: Mark) -> String {
    format!("follows {} {:016x} with {} {:016x}\n", follows.len, follows.crc, text.len, text.crc)
}

/// The text after the first line, if that is of this text and follows that one.
fn text_after(soon: &str, follows: Mark) -> Option<&str> {
    let (_, text) = soon.split_once('\n')?;
    soon.starts_with(&first_line(follows, Mark::of(text))).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that goes with its test, and the name of the file of nodes in there.
    struct Dir(PathBuf, String);

    impl Dir {
        fn new(test: &str, name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("onrush-nodes-{test}-{}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            let path = dir.join(name).to_str().unwrap().to_owned();
            Self(dir, path)
        }

        /// As a process that starts.
        fn take(&self) -> NodesFile {
            NodesFile::take(&self.1).unwrap()
        }

        fn soon(&self) -> String {
            format!("{}{SOON_SUFFIX}", self.1)
        }

        /// The epoch that a process reads which starts now; the one before has been killed.
        fn epoch(&self) -> Option<u64> {
            self.take().read().unwrap().map(|conf| conf.current_epoch)
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn text(epoch: u64) -> String {
        let id = "0123456789012345678901234567890123456789";
        format!(
            "{id} 127.0.0.1:7000@17000 myself,master - 0 0 0 connected\nvars currentEpoch {epoch} lastVoteEpoch 0\n"
        )
    }

    /// A process has written the text 1 with sync and the text 2 without, and is killed.
    fn killed(test: &str) -> Dir {
        let dir = Dir::new(test, "nodes.conf");
        assert_eq!(dir.epoch(), None);
        let file = dir.take();
        file.write(&text(1), true).unwrap();
        file.write(&text(2), false).unwrap();
        drop(file);
        assert_eq!(dir.epoch(), Some(2));
        dir
    }

    #[test]
    fn what_is_written_soon_is_read_and_taken_over() {
        let dir = killed("soon");
        let file = dir.take();
        assert!(file.read().unwrap().is_some() && !file.is_due());
        assert!(file.beside.lock().newer_since.is_some());
        file.write(&text(3), false).unwrap();
        drop(file);
        assert_eq!(dir.epoch(), Some(3), "it follows the same text");
        let file = dir.take();
        file.read().unwrap();
        file.write(&text(4), true).unwrap();
        assert!(!file.is_due() && !Path::new(&dir.soon()).exists());
        drop(file);
        assert_eq!(dir.epoch(), Some(4));
    }

    #[test]
    fn at_the_end_the_file_of_nodes_has_it_all() {
        let dir = Dir::new("end", "nodes.conf");
        let file = dir.take();
        file.write(&text(1), true).unwrap();
        file.write(&text(2), false).unwrap();
        file.end().unwrap();
        assert!(!Path::new(&dir.soon()).exists());
        assert_eq!(std::fs::read_to_string(&dir.1).unwrap(), text(2));
        assert!(file.write(&text(3), false).is_err() && file.end().is_ok());
        drop(file);
        assert_eq!(dir.epoch(), Some(2));
    }

    #[test]
    fn what_was_written_soon_does_not_count_if_it_is_cut_or_changed() {
        let dir = killed("cut");
        let whole = std::fs::read(dir.soon()).unwrap();
        for len in 0..whole.len() {
            std::fs::write(dir.soon(), &whole[..len]).unwrap();
            assert_eq!(dir.epoch(), Some(1), "{len}");
        }
        let zeros = [&whole[..whole.len() - 30], &[0; 30]].concat();
        std::fs::write(dir.soon(), zeros).unwrap();
        assert_eq!(dir.epoch(), Some(1));
    }

    #[test]
    fn a_new_file_of_nodes_is_on_the_disk_at_once() {
        let dir = Dir::new("new", "nodes.conf");
        let file = dir.take();
        assert!(file.read().unwrap().is_none());
        file.write(&text(1), false).unwrap();
        assert_eq!(std::fs::read_to_string(&dir.1).unwrap(), text(1));
    }

    #[test]
    fn a_kill_after_any_step_leaves_the_newest_text() {
        let dir = killed("steps");
        // The temporary file is there, or a part of it.
        std::fs::write(format!("{}{TEMPORARY_SUFFIX}", dir.1), "follows").unwrap();
        assert_eq!(dir.epoch(), Some(2));
        let soon = std::fs::read(dir.soon()).unwrap();
        let file = dir.take();
        file.read().unwrap();
        file.write(&text(3), true).unwrap();
        drop(file);
        // The file of nodes is replaced, and the older one beside it is still there.
        std::fs::write(dir.soon(), soon).unwrap();
        assert_eq!(dir.epoch(), Some(3));
        let file = dir.take();
        file.read().unwrap();
        file.write(&text(4), false).unwrap();
        drop(file);
        assert_eq!(dir.epoch(), Some(4));
    }

    #[test]
    fn a_file_of_nodes_that_cannot_be_replaced_loses_nothing() {
        // The name is too long for the temporary file of a replacement, but not for the file beside it.
        let dir = Dir::new("full", &"n".repeat(240));
        std::fs::write(&dir.1, text(1)).unwrap();
        let file = dir.take();
        file.read().unwrap();
        file.write(&text(2), false).unwrap();
        assert!(file.write(&text(3), true).is_err());
        assert!(file.write(&text(4), false).is_err(), "what it would follow is not known");
        assert!(file.beside.lock().newer_since.is_some());
        drop(file);
        assert_eq!(dir.epoch(), Some(2));
        // The text that is in the file of nodes already: what is beside it goes first.
        let file = dir.take();
        file.read().unwrap();
        assert!(file.write(&text(1), true).is_err());
        drop(file);
        assert_eq!(dir.epoch(), Some(1));
    }

    #[test]
    fn what_cannot_be_written_soon_leaves_what_was_written_before() {
        let dir = killed("way");
        let file = dir.take();
        file.read().unwrap();
        let temporary = format!("{}{TEMPORARY_SUFFIX}", dir.1);
        std::fs::create_dir(&temporary).unwrap();
        assert!(file.write(&text(3), false).is_err());
        assert_eq!(text_after(&std::fs::read_to_string(dir.soon()).unwrap(), Mark::of(&text(1))), Some(&*text(2)));
        std::fs::remove_dir(&temporary).unwrap();
        file.write(&text(3), false).unwrap();
        drop(file);
        assert_eq!(dir.epoch(), Some(3));
        // The same for the file itself.
        let file = dir.take();
        file.read().unwrap();
        std::fs::remove_file(dir.soon()).unwrap();
        std::fs::create_dir(dir.soon()).unwrap();
        assert!(file.write(&text(4), false).is_err() && !Path::new(&temporary).exists());
        drop(file);
        assert_eq!(dir.epoch(), Some(1));
    }

    #[test]
    fn a_deleted_or_restored_file_of_nodes_is_not_undone_by_what_is_beside_it() {
        let dir = killed("operator");
        std::fs::remove_file(&dir.1).unwrap();
        assert_eq!(dir.epoch(), None);
        assert_eq!(dir.epoch(), None, "the first start was killed at once");
        std::fs::write(&dir.1, text(7)).unwrap();
        assert_eq!(dir.epoch(), Some(7));
        // Also while the node runs.
        let file = dir.take();
        file.read().unwrap();
        std::fs::write(&dir.1, text(8)).unwrap();
        file.write(&text(9), false).unwrap();
        drop(file);
        assert_eq!(dir.epoch(), Some(8));
        std::fs::write(&dir.1, text(7)).unwrap();
        assert_eq!(dir.epoch(), Some(9), "it is what it was");
    }
}

//! Rewriting: a new base takes the place of what came before it.
//!
//! 1. [`Aof::prepare_rewrite`] makes a file for later records and lists it in the manifest.
//! 2. [`Aof::switch`], called while no thread changes data, directs records to that file: it gets the changes after
//!    this moment.
//! 3. The caller saves the state of that moment into a file.
//! 4. [`Aof::finish_rewrite`] lists this file as the base and removes everything before; or [`Aof::abort_rewrite`]
//!    leaves all files as they are.
//!
//! After a crash between any two steps, the files in the manifest have everything.

use std::io::{self, Read};
use std::path::Path;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::manifest::{Manifest, ManifestFile, base_name, incr_name, make_dir, manifest_name};
use super::segment::Segment;
use super::writer::{AofStatus, Inner};
use super::{Aof, AofError};
use crate::storage::{Storage, StorageFile, write_all};

/// The name of a base before it gets its place.
pub const REWRITE_NAME: &str = "temp-rewrite.aof";

/// The manifest and the names in use.
pub(super) struct Rewriting {
    /// The manifest as last stored.
    pub manifest: Manifest,
    base_seq: u64,
    incr_seq: u64,
    /// Files that no manifest names once a new one is stored.
    garbage: Vec<String>,
}

/// What a log that begins writes at once: its records are to find a disk that takes bytes.
const HEAD: &[u8] = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n";

/// The number of a file that has no place in the log yet.
const NO_PLACE: u64 = 0;

/// A name that no other file has, for a file of commands of a log without a base. Nothing in it counts, so it must not look
/// like a part of a log; a later process removes it ([`remove_leftovers`](crate::rdb::remove_leftovers)).
fn temporary_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("temp-{}-{}.incr.aof", process::id(), COUNT.fetch_add(1, Relaxed))
}

/// A file for later records.
pub(super) struct Prepared {
    pub incr: ManifestFile,
    pub file: Arc<dyn StorageFile>,
    /// Bytes in it that are no record.
    pub head_len: u64,
}

/// Files that look like parts of the log, but that its manifest does not name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Strays {
    /// They had nothing that other files do not have, and are gone.
    pub removed: Vec<String>,
    /// They are still there.
    pub kept: Vec<String>,
}

/// The moment from which records go to a new file.
#[derive(Clone)]
pub(super) struct Switched {
    /// The first segment after the future base.
    pub segment: u64,
    /// The base will have everything up to this LSN.
    pub at_lsn: u64,
    pub incr: ManifestFile,
}

impl Rewriting {
    /// Goes on from a manifest. No file gets the name of one that is in the folder: a log that has ended may still write
    /// it. O(files in the folder).
    ///
    /// # Errors
    /// The system's.
    pub fn new(storage: &dyn Storage, dir: &Path, name: &str, manifest: Manifest) -> Result<Self, AofError> {
        let (mut base_seq, mut incr_seq) = manifest.last_seqs();
        for file in storage.list(dir).map_err(AofError::io(dir.display()))? {
            match split_name(&file, name) {
                Some((seq, INCR_KIND)) => incr_seq = incr_seq.max(seq),
                Some((seq, _)) => base_seq = base_seq.max(seq),
                None => {}
            }
        }
        Ok(Rewriting { manifest, base_seq, incr_seq, garbage: Vec::new() })
    }

    /// The name of the next file for commands. Even after a failure no other file gets this name: a partly stored manifest
    /// may have it.
    pub fn next_incr(&mut self, name: &str) -> ManifestFile {
        self.incr_seq += 1;
        ManifestFile { name: incr_name(name, self.incr_seq), seq: self.incr_seq }
    }

    /// Makes the next file for commands; its name is durable.
    pub fn make_incr(&mut self, storage: &dyn Storage, dir: &Path, name: &str) -> Result<Prepared, AofError> {
        let incr = self.next_incr(name);
        self.make(storage, dir, incr, b"")
    }

    /// Stores a manifest that has one more file of commands.
    pub fn list_incr(
        &mut self,
        storage: &dyn Storage,
        dir: &Path,
        name: &str,
        incr: ManifestFile,
    ) -> Result<(), AofError> {
        let mut manifest = self.manifest.clone();
        manifest.incrs.push(incr.clone());
        if let Err(error) = manifest.store(storage, dir, name) {
            self.garbage.push(incr.name);
            return Err(error);
        }
        self.manifest = manifest;
        Ok(())
    }

    /// Makes a file for the commands of a log without a base, which gets its name with the base.
    pub fn make_first(&mut self, storage: &dyn Storage, dir: &Path) -> Result<Prepared, AofError> {
        self.make(storage, dir, ManifestFile { name: temporary_name(), seq: NO_PLACE }, HEAD)
    }

    fn make(
        &mut self,
        storage: &dyn Storage,
        dir: &Path,
        incr: ManifestFile,
        head: &[u8],
    ) -> Result<Prepared, AofError> {
        let path = dir.join(&incr.name);
        let make = || {
            let file = storage.create(&path)?;
            write_all(&*file, head)?;
            file.sync()?;
            storage.sync_dir(dir)?;
            Ok(file)
        };
        match make() {
            Ok(file) => Ok(Prepared { incr, file, head_len: head.len() as u64 }),
            Err(error) => {
                // No manifest has ever named it.
                if storage.remove(&path).is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
                    self.garbage.push(incr.name.clone());
                }
                Err(AofError::io(path.display())(error))
            }
        }
    }

    /// Removes what failed rewrites have left. A manifest that could not be stored may name it, so the present one is
    /// stored first.
    ///
    /// # Errors
    /// The system's. Another rewrite would only leave more.
    pub fn clean(&mut self, storage: &dyn Storage, dir: &Path, name: &str) -> Result<(), AofError> {
        if self.garbage.is_empty() {
            return Ok(());
        }
        // The log has no manifest before its first base.
        if self.manifest != Manifest::default() {
            self.manifest.store(storage, dir, name)?;
        }
        self.remove_history(storage, dir, name);
        Ok(())
    }

    /// Removes files of the log that the manifest does not name, and unfinished ones: a process that was killed during
    /// a rewrite has left them. Files that may have what no other file has stay. O(files in the folder).
    pub fn sweep(&self, storage: &dyn Storage, dir: &Path, name: &str) -> Strays {
        let is_named = |file: &str| {
            let history = self.manifest.history.iter();
            self.manifest.files().chain(history).any(|named| named.name == file)
        };
        let mut names = storage.list(dir).unwrap_or_default();
        names.retain(|file| is_made_for(file, name) && !is_named(file));
        let base_seq = self.manifest.base.as_ref().map(|base| base.seq);
        let is_superseded = |file: &String| match split_name(file, name) {
            None => true,
            // Files that a finished rewrite has replaced are in the history until they are gone.
            Some((_, INCR_KIND)) => has_no_commands(storage, &dir.join(file)),
            // One that got its place, but no line in the manifest.
            Some((seq, _)) => base_seq.is_some_and(|base_seq| seq > base_seq),
        };
        let (mut removed, kept): (Vec<_>, Vec<_>) = names.into_iter().partition(is_superseded);
        // One that cannot be removed is tried again at the next start.
        removed.retain(|file| storage.remove(&dir.join(file)).is_ok());
        Strays { removed, kept }
    }

    /// Removes files that no longer belong to the log. Files that cannot be removed are tried again after the next
    /// rewrite.
    pub fn remove_history(&mut self, storage: &dyn Storage, dir: &Path, name: &str) {
        let is_gone = |file: &str| match storage.remove(&dir.join(file)) {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if self.manifest == Manifest::default() {
            // Before the first base, a manifest that could not be stored to its end may name them.
            let Ok(stored) = Manifest::load(storage, dir, name) else { return };
            let is_named = |file: &str| stored.iter().flat_map(Manifest::files).any(|named| named.name == file);
            self.garbage.retain(|file| is_named(file) || !is_gone(file));
            return;
        }
        let manifest = &self.manifest;
        self.garbage.retain(|file| !manifest.files().any(|named| named.name == *file) && !is_gone(file));
        if self.manifest.history.is_empty() {
            return;
        }
        let mut manifest = self.manifest.clone();
        manifest.history.retain(|file| !is_gone(&file.name));
        if manifest.store(storage, dir, name).is_ok() {
            self.manifest = manifest;
        }
    }
}

/// Whether a file of commands is known to have none: nothing, or a few notes.
fn has_no_commands(storage: &dyn Storage, path: &Path) -> bool {
    const NOTES_LEN_MAX: u64 = 1 << 10;
    if !storage.len(path).is_ok_and(|len| len.is_some_and(|len| len <= NOTES_LEN_MAX)) {
        return false;
    }
    let mut bytes = Vec::new();
    let is_read = storage.read(path).and_then(|file| file.take(NOTES_LEN_MAX + 1).read_to_end(&mut bytes)).is_ok();
    is_read
        && bytes.len() as u64 <= NOTES_LEN_MAX
        && bytes.split_inclusive(|byte| *byte == b'\n').all(|line| line.starts_with(b"#"))
}

/// Whether a rewrite of the log `name` makes files with this name.
fn is_made_for(file: &str, name: &str) -> bool {
    if file == REWRITE_NAME || file.strip_prefix("temp-").is_some_and(|rest| rest == manifest_name(name)) {
        return true;
    }
    split_name(file, name).is_some()
}

const INCR_KIND: &str = "incr.aof";

/// The number and the kind of a file of the log `name`; `None` if it is none.
fn split_name<'a>(file: &'a str, name: &str) -> Option<(u64, &'a str)> {
    let (seq, kind) = file.strip_prefix(name)?.strip_prefix('.')?.split_once('.')?;
    let is_number = !seq.is_empty() && seq.bytes().all(|byte| byte.is_ascii_digit());
    let is_known = matches!(kind, "base.rdb" | "base.aof" | INCR_KIND);
    // A number beyond all others is not ours.
    if is_number && is_known { Some((seq.parse().ok()?, kind)) } else { None }
}

fn refused(reason: &'static str) -> AofError {
    AofError::Io { file: "the append-only log".into(), error: io::Error::other(reason) }
}

impl Aof {
    /// Makes the file for later records and lists it. May take long; no thread waits for it. If an aborted rewrite has
    /// left such a file, that one is used, also if records go there already but none has come.
    ///
    /// # Errors
    /// A rewrite is under way; the log has ended; the system's. Then the log goes on as before.
    pub fn prepare_rewrite(&self) -> Result<(), AofError> {
        let inner = &*self.inner;
        let mut rewriting = inner.rewriting.lock();
        inner.refuse_ended()?;
        if inner.state.lock().is_rewriting {
            return Err(refused("a rewrite is under way"));
        }
        // Somebody may have removed it with all that is in it.
        make_dir(&*inner.storage, &inner.dir)?;
        rewriting.clean(&*inner.storage, &inner.dir, &inner.name)?;
        let is_ready = {
            let state = inner.state.lock();
            // While the log works, records come before the switch, so it needs a new file in any case.
            let works = state.is_listed && state.segments.iter().all(|segment| segment.is_trusted);
            let is_left = rewriting.manifest.incrs.len() > 1 || !state.is_listed;
            state.prepared.is_some() || !works && is_left && state.has_empty_file()
        };
        if !is_ready {
            // Without a base of its own the log is not what the manifest lists.
            let is_listed = inner.state.lock().is_listed;
            let prepared = match is_listed {
                true => {
                    let prepared = rewriting.make_incr(&*inner.storage, &inner.dir, &inner.name)?;
                    rewriting.list_incr(&*inner.storage, &inner.dir, &inner.name, prepared.incr.clone())?;
                    prepared
                }
                false => rewriting.make_first(&*inner.storage, &inner.dir)?,
            };
            inner.state.lock().prepared = Some(prepared);
        }
        inner.state.lock().is_rewriting = true;
        // The new file gets its first byte only when this one is synced: this leaves little to sync at that time.
        inner.write_and_sync();
        Ok(())
    }

    /// Directs the records after `at_lsn` to the prepared file. No thread may be in the keyspace, and the log must have
    /// all records up to `at_lsn` ([`CommandLog::flush`](crate::CommandLog::flush)). O(1); waits for no file.
    ///
    /// # Errors
    /// Nothing has been prepared; after a failed rewrite, records have come since.
    pub fn switch(&self, at_lsn: u64) -> Result<(), AofError> {
        let mut state = self.inner.state.lock();
        let state = &mut *state;
        if !state.is_rewriting {
            return Err(refused("no rewrite has been prepared"));
        }
        debug_assert!(
            state.segments.back().is_none_or(|before| before.last_lsn <= at_lsn),
            "a record has overtaken the switch"
        );
        let Some(Prepared { incr, file, head_len }) = state.prepared.take() else {
            // The base will have the records in it, which must not be there twice.
            if !state.has_empty_file() {
                return Err(refused("records have come to the file of a rewrite that failed"));
            }
            let (Some(last), Some(incr)) = (state.segments.back(), state.last_incr.clone()) else {
                return Err(refused("no rewrite has been prepared"));
            };
            state.switched = Some(Switched { segment: last.id, at_lsn, incr });
            return Ok(());
        };
        let id = state.segments_made;
        state.segments_made += 1;
        state.segments.push_back(Segment::new(id, file, head_len, at_lsn).behind_head());
        let before = state.last_incr.replace(incr.clone());
        if !state.is_listed {
            state.outdated.extend(before.map(|before| before.name));
        }
        state.switched = Some(Switched { segment: id, at_lsn, incr });
        Ok(())
    }

    /// Makes the file at `base` the base of the log and removes older files. The file must have the state at the LSN of
    /// the switch, as an RDB file or as commands, and must be synced; it is moved into the folder. When this returns,
    /// everything up to that LSN is durable.
    ///
    /// # Errors
    /// Records have not been switched; the log has ended; the system's. Then the rewrite can be aborted; the file at
    /// `base` may be gone.
    pub fn finish_rewrite(&self, base: &Path, is_rdb: bool) -> Result<(), AofError> {
        self.finish(base, is_rdb, true)
    }

    /// As [`Aof::finish_rewrite`], for a log to which no record will ever come: it has no file for them.
    ///
    /// # Errors
    /// As of [`Aof::finish_rewrite`].
    pub fn finish_copy(&self, base: &Path, is_rdb: bool) -> Result<(), AofError> {
        self.finish(base, is_rdb, false)?;
        self.remove_files();
        Ok(())
    }

    fn finish(&self, base: &Path, is_rdb: bool, has_commands: bool) -> Result<(), AofError> {
        let inner = &*self.inner;
        let mut rewriting = inner.rewriting.lock();
        inner.refuse_ended()?;
        let switched = inner.state.lock().switched.clone();
        let Some(mut switched) = switched else { return Err(refused("records go to the old file")) };
        if has_commands && switched.incr.seq == NO_PLACE {
            inner.give_place(&mut rewriting, &mut switched)?;
        }
        rewriting.base_seq += 1;
        let seq = rewriting.base_seq;
        let file = ManifestFile { name: base_name(&inner.name, seq, is_rdb), seq };
        let incr = has_commands.then_some(&switched.incr);
        let base_len = match inner.list(base, &rewriting.manifest, &file, incr) {
            Ok((manifest, len)) => {
                rewriting.manifest = manifest;
                len
            }
            Err(error) => {
                rewriting.garbage.push(file.name);
                return Err(error);
            }
        };
        inner.replace(&switched, base_len);
        let incrs = &rewriting.manifest.incrs;
        inner.state.lock().streams.keep_files(|file| incrs.iter().any(|incr| incr.name == file));
        rewriting.garbage.append(&mut inner.state.lock().outdated);
        rewriting.remove_history(&*inner.storage, &inner.dir, &inner.name);
        drop(rewriting);
        inner.wake();
        Ok(())
    }

    /// Gives a rewrite up: all files stay as they are. Records still go to the present file. A log that has no base yet
    /// ([`Aof::begin`]) stays without one until the next rewrite is finished.
    pub fn abort_rewrite(&self) {
        let mut state = self.inner.state.lock();
        state.switched = None;
        state.is_rewriting = false;
    }
}

impl Aof {
    /// Removes the files of a log that was begun, if it has no base and no record will ever come.
    pub fn discard(&self) {
        if !self.has_base() {
            self.remove_files();
        }
    }

    /// Removes the files for records, to which none will ever come.
    fn remove_files(&self) {
        let mut rewriting = self.inner.rewriting.lock();
        let mut state = self.inner.state.lock();
        state.switched = None;
        let made = state.prepared.take().map(|prepared| prepared.incr).into_iter().chain(state.last_incr.take());
        rewriting.garbage.extend(made.map(|incr| incr.name));
        rewriting.garbage.append(&mut state.outdated);
        drop(state);
        rewriting.remove_history(&*self.inner.storage, &self.inner.dir, &self.inner.name);
    }
}

impl Inner {
    /// A log that has ended stores no manifest: another one may be in the folder by now. The caller holds the lock of
    /// the manifest.
    fn refuse_ended(&self) -> Result<(), AofError> {
        if self.state.lock().is_stopping { Err(refused("the log has ended")) } else { Ok(()) }
    }

    /// Gives the file for commands of a log that gets its first base its name. The manifest makes it durable.
    fn give_place(&self, rewriting: &mut Rewriting, switched: &mut Switched) -> Result<(), AofError> {
        let incr = rewriting.next_incr(&self.name);
        let (from, to) = (self.dir.join(&switched.incr.name), self.dir.join(&incr.name));
        self.storage.rename(&from, &to).map_err(AofError::io(from.display()))?;
        let mut state = self.state.lock();
        state.streams.rename(&switched.incr.name, &incr.name);
        switched.incr = incr.clone();
        state.last_incr = Some(incr);
        state.switched = Some(switched.clone());
        Ok(())
    }

    /// Moves a base to its place and stores the manifest that begins with it. Returns the manifest and the length of the base.
    fn list(
        &self,
        base: &Path,
        before: &Manifest,
        file: &ManifestFile,
        incr: Option<&ManifestFile>,
    ) -> Result<(Manifest, u64), AofError> {
        let path = self.dir.join(&file.name);
        let place = || {
            let len = self.storage.len(base)?.ok_or(io::ErrorKind::NotFound)?;
            self.storage.rename(base, &path)?;
            self.storage.sync_dir(&self.dir)?;
            Ok(len)
        };
        let len = place().map_err(AofError::io(base.display()))?;
        let mut manifest = before.clone();
        let kept = manifest.incrs.iter().position(|other| Some(other) == incr);
        let incrs = match kept {
            Some(at) => manifest.incrs.split_off(at),
            None => incr.into_iter().cloned().collect(),
        };
        manifest.history.extend(manifest.base.take());
        manifest.history.append(&mut manifest.incrs);
        manifest.incrs = incrs;
        manifest.base = Some(file.clone());
        manifest.store(&*self.storage, &self.dir, &self.name)?;
        Ok((manifest, len))
    }

    /// Notes that the new base is in place: files from before the switch no longer count.
    fn replace(&self, switched: &Switched, base_len: u64) {
        let _syncing = self.syncing.lock();
        let writing = self.writing.lock();
        let mut state = self.state.lock();
        state.segments.retain(|segment| segment.id >= switched.segment);
        state.base_lsn = state.base_lsn.max(switched.at_lsn);
        state.is_listed = true;
        state.is_rewriting = false;
        state.switched = None;
        state.other_size = base_len;
        state.base_size = base_len + state.segments.iter().map(|segment| segment.size).sum::<u64>();
        if state.segments.iter().all(|segment| segment.is_trusted) {
            // A lasting failure will be reported again.
            state.status = AofStatus::Ok;
            state.retry_at = None;
        }
        state.note_fill();
        let written = state.written_lsn();
        drop(state);
        drop(writing);
        self.written.fetch_max(written, std::sync::atomic::Ordering::AcqRel);
        self.tell_durable();
        self.tell_health();
        self.progress.notify_all();
    }
}

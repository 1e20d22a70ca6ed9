//! Files with a part of the stream that replicas still lack, and that memory has no room for.
//!
//! A thread of its own writes them: a disk that hangs holds it, and nobody else.

use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use onrush_engine::replication::history::Taken;
use onrush_persist::threads;
use parking_lot::{Condvar, Mutex};

use super::files::{Files, LargeFile};
use crate::data::unnamed::unnamed_file;
use crate::process::server::Server;

/// Bytes of a file. One that no replica lacks any more is given back to the disk.
const SEGMENT_LEN: u64 = 64 << 20;

/// Bytes of all files.
const SPOOL_BYTES_MAX: u64 = 64 << 30;

/// Bytes of the disk that are left to others.
const FREE_BYTES_MIN: u64 = 1 << 30;

/// How long nothing is written after an error.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A file and the part of the stream in it.
struct Segment {
    file: Arc<LargeFile>,
    start: u64,
    end: u64,
}

#[derive(Default)]
struct Parts {
    /// The [`onrush_engine::replication::history::Epoch::lineage`] of the history that all of it is of.
    lineage: u64,
    /// In the order of the stream, without gaps.
    segments: VecDeque<Segment>,
    /// What comes behind them, and is being written.
    piece: Option<Arc<Taken>>,
    /// Whether the thread is to look.
    is_rung: bool,
}

impl Parts {
    fn first(&self) -> Option<u64> {
        let piece = self.piece.as_ref().map(|piece| piece.start);
        self.segments.front().map(|segment| segment.start).or(piece)
    }
}

/// What the spool has of the stream at a place.
pub(super) enum Found {
    Nothing,
    /// So many bytes, which were appended.
    Bytes(usize),
    /// Bytes in a file.
    InFile(InFile),
}

/// Where bytes are in a file.
pub(super) struct InFile {
    file: Arc<LargeFile>,
    at: u64,
    len: usize,
}

impl InFile {
    /// Appends them.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn read(&self, out: &mut Vec<u8>) -> io::Result<()> {
        let before = out.len();
        out.resize(before + self.len, 0);
        self.file.read_exact_at(&mut out[before..], self.at)
    }
}

/// See the module's text.
pub(super) struct Spool {
    parts: Mutex<Parts>,
    rung: Condvar,
    files: Files,
}

impl Spool {
    fn new(files: &Files) -> Self {
        Self { parts: Mutex::default(), rung: Condvar::new(), files: files.clone() }
    }

    /// Where it begins, if there is anything of this lineage in it.
    pub(super) fn first(&self, lineage: u64) -> Option<u64> {
        let parts = self.parts.lock();
        parts.first().filter(|_| parts.lineage == lineage)
    }

    /// Has what memory has no room for written.
    pub(super) fn ring(&self) {
        self.parts.lock().is_rung = true;
        self.rung.notify_one();
    }

    /// Starts the thread, which ends with the process.
    ///
    /// # Errors
    /// The system has none to give.
    pub(super) fn start(server: &'static Server, files: &Files) -> io::Result<Arc<Self>> {
        let spool = Arc::new(Self::new(files));
        let served = Arc::clone(&spool);
        threads::start("spool", move || served.serve(server))?;
        Ok(spool)
    }

    fn serve(&self, server: &'static Server) {
        loop {
            let mut parts = self.parts.lock();
            while !std::mem::take(&mut parts.is_rung) {
                self.rung.wait(&mut parts);
            }
            drop(parts);
            let history = &server.replication.history;
            while self.take(|| history.take_oldest()) {
                let dir = PathBuf::from(&server.host.config.read().dir);
                if let Err(error) = self.write(&dir) {
                    tracing::error!("Can't write the stream for replicas that are behind: {error}");
                    self.give_up(|piece| history.give_back(piece));
                    std::thread::sleep(RETRY_AFTER);
                } else {
                    history.note_taken(server.clock.unix_ms());
                }
            }
        }
    }

    /// Takes a piece over. Whoever does not find it in memory any more finds it here.
    fn take(&self, oldest: impl FnOnce() -> Option<Taken>) -> bool {
        let mut parts = self.parts.lock();
        let Some(piece) = oldest() else { return false };
        let is_next =
            parts.lineage == piece.lineage && parts.segments.back().is_none_or(|last| last.end == piece.start);
        if !is_next {
            parts.segments.clear();
        }
        parts.lineage = piece.lineage;
        parts.piece = Some(Arc::new(piece));
        true
    }

    /// Gives the piece back that could not be written. Whoever looks for it finds it in either place.
    fn give_up(&self, give_back: impl FnOnce(Taken)) {
        let mut parts = self.parts.lock();
        if let Some(piece) = parts.piece.take().and_then(Arc::into_inner) {
            give_back(piece);
        }
    }

    /// Writes the piece. Nothing is locked meanwhile.
    ///
    /// # Errors
    /// The system's; there is too much in the files, or too little is left of the disk.
    fn write(&self, dir: &Path) -> io::Result<()> {
        let (piece, begins, last) = {
            let parts = self.parts.lock();
            let Some(piece) = parts.piece.clone() else { return Ok(()) };
            let last = parts.segments.back().filter(|last| last.end - last.start < SEGMENT_LEN);
            (piece, parts.first(), last.map(|last| (Arc::clone(&last.file), last.start)))
        };
        let (file, start) = match last {
            Some(last) => last,
            None => {
                if begins.is_some_and(|begins| piece.start - begins >= SPOOL_BYTES_MAX) {
                    return Err(io::Error::other(format!("replicas lack more than {SPOOL_BYTES_MAX} bytes")));
                }
                let disk = rustix::fs::statvfs(dir)?;
                if disk.f_bavail.saturating_mul(disk.f_frsize) < FREE_BYTES_MIN + SEGMENT_LEN {
                    return Err(io::Error::other(format!(
                        "less than {FREE_BYTES_MIN} bytes of the disk would be left"
                    )));
                }
                (Arc::new(LargeFile::new(unnamed_file(dir)?, &self.files)), piece.start)
            }
        };
        file.write_all_at(&piece.bytes, piece.start - start)?;
        let end = piece.start + piece.bytes.len() as u64;
        let mut parts = self.parts.lock();
        match parts.segments.back_mut().filter(|last| last.start == start) {
            Some(last) => last.end = end,
            None => parts.segments.push_back(Segment { file, start, end }),
        }
        parts.piece = None;
        Ok(())
    }

    /// Looks for up to `max` bytes from a place of the stream on. Appends them to `out` if they are in no file yet.
    pub(super) fn find(&self, lineage: u64, from: u64, max: usize, out: &mut Vec<u8>) -> Found {
        let parts = self.parts.lock();
        if parts.lineage != lineage {
            return Found::Nothing;
        }
        let at = parts.segments.partition_point(|segment| segment.end <= from);
        let Some(segment) = parts.segments.get(at) else {
            let Some(piece) = &parts.piece else { return Found::Nothing };
            let skip = from.checked_sub(piece.start).and_then(|skip| usize::try_from(skip).ok());
            let bytes = skip.and_then(|skip| piece.bytes.get(skip..)).unwrap_or_default();
            let len = bytes.len().min(max);
            out.extend_from_slice(&bytes[..len]);
            return if len > 0 { Found::Bytes(len) } else { Found::Nothing };
        };
        if segment.start > from {
            return Found::Nothing;
        }
        let len = usize::try_from(segment.end - from).unwrap_or(usize::MAX).min(max);
        Found::InFile(InFile { file: Arc::clone(&segment.file), at: from - segment.start, len })
    }

    /// Nobody lacks anything before this place.
    pub(super) fn forget_before(&self, lacked: Option<u64>) {
        let mut parts = self.parts.lock();
        // What is written now goes into the last one.
        let kept = usize::from(parts.piece.is_some());
        let is_over = |segment: &Segment| lacked.is_none_or(|lacked| lacked >= segment.end);
        while parts.segments.len() > kept && parts.segments.front().is_some_and(is_over) {
            parts.segments.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spool() -> Spool {
        Spool::new(&Files::start(|| {}).unwrap())
    }

    /// How many bytes it has there, up to `max`, which are appended.
    fn read(spool: &Spool, from: u64, max: usize, out: &mut Vec<u8>) -> usize {
        let before = out.len();
        if let Found::InFile(bytes) = spool.find(0, from, max, out) {
            bytes.read(out).unwrap();
        }
        out.len() - before
    }

    fn taken(start: u64, bytes: &[u8]) -> Option<Taken> {
        Some(Taken { lineage: 0, start, bytes: bytes.to_vec() })
    }

    fn push(spool: &Spool, start: u64, bytes: &[u8]) {
        assert!(spool.take(|| taken(start, bytes)));
        spool.write(&std::env::temp_dir()).unwrap();
    }

    #[test]
    fn what_was_put_in_is_read_from_any_place() {
        let spool = spool();
        assert_eq!((spool.first(0), read(&spool, 0, 9, &mut Vec::new())), (None, 0));
        push(&spool, 100, b"abc");
        assert!(spool.take(|| taken(103, b"def")));
        let mut out = Vec::new();
        assert_eq!(read(&spool, 101, 2, &mut out), 2);
        assert_eq!(read(&spool, 103, 99, &mut out), 3, "though it is not written yet");
        assert_eq!(out, b"bcdef");
        spool.write(&std::env::temp_dir()).unwrap();
        assert_eq!(read(&spool, 104, 99, &mut out), 2);
        assert_eq!(read(&spool, 106, 9, &mut out), 0);
        assert_eq!(read(&spool, 99, 9, &mut out), 0);
        push(&spool, 200, b"x");
        assert_eq!(spool.first(0), Some(200), "bytes that do not follow begin anew");
        spool.forget_before(Some(200));
        assert_eq!(spool.first(0), Some(200));
        spool.forget_before(Some(201));
        assert_eq!(spool.first(0), None);
        push(&spool, 300, b"xyz");
        assert!(spool.take(|| taken(303, b"more")));
        let mut back = None;
        spool.give_up(|piece| back = Some(piece.start));
        assert_eq!((back, spool.first(0)), (Some(303), Some(300)), "what was written before stays");
        assert_eq!((spool.first(1), read(&spool, 300, 9, &mut out)), (None, 3));
        assert!(matches!(spool.find(1, 300, 9, &mut out), Found::Nothing));
        assert!(spool.take(|| Some(Taken { lineage: 1, start: 303, bytes: b"other".to_vec() })));
        assert_eq!((spool.first(0), spool.first(1)), (None, Some(303)), "another history");
    }

    #[test]
    fn what_nobody_lacks_is_given_back() {
        let spool = spool();
        let piece = vec![b'x'; 1 << 20];
        let pieces = 2 * (SEGMENT_LEN >> 20) + 1;
        (0..pieces).for_each(|nth| push(&spool, nth << 20, &piece));
        assert_eq!(spool.parts.lock().segments.len(), 3);
        let mut out = Vec::new();
        assert_eq!(read(&spool, SEGMENT_LEN - 1, 9, &mut out), 1, "up to the end of a file");
        assert_eq!(read(&spool, SEGMENT_LEN, 9, &mut out), 9);
        spool.forget_before(Some(SEGMENT_LEN + 1));
        assert_eq!(spool.parts.lock().segments.len(), 2);
        assert_eq!(spool.first(0), Some(SEGMENT_LEN));
        assert!(spool.take(|| taken(pieces << 20, &piece)));
        spool.forget_before(None);
        assert_eq!(spool.parts.lock().segments.len(), 1, "the one that is written");
        spool.write(&std::env::temp_dir()).unwrap();
        spool.forget_before(None);
        assert_eq!(spool.first(0), None);
    }
}

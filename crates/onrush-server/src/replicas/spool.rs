//! Files with a part of the stream that replicas still lack, and that memory has no room for.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::data::unnamed::unnamed_file;

/// Bytes of a file. One that no replica lacks any more is given back to the disk.
const SEGMENT_LEN: u64 = 64 << 20;

/// Bytes of all files.
const SPOOL_BYTES_MAX: u64 = 64 << 30;

/// Bytes of the disk that are left to others.
const FREE_BYTES_MIN: u64 = 1 << 30;

/// A file and the part of the stream in it.
struct Segment {
    file: File,
    start: u64,
    end: u64,
}

/// See the module's text.
#[derive(Default)]
pub(super) struct Spool {
    /// In the order of the stream, without gaps.
    segments: VecDeque<Segment>,
}

impl Spool {
    /// Where it begins, if there is anything in it.
    pub(super) fn start(&self) -> Option<u64> {
        self.segments.front().map(|segment| segment.start)
    }

    fn end(&self) -> Option<u64> {
        self.segments.back().map(|segment| segment.end)
    }

    /// Adds bytes that begin at a place of the stream: behind what it has, or anew.
    ///
    /// # Errors
    /// The system's; there is too much in it, or too little is left of the disk.
    pub(super) fn push(&mut self, dir: &Path, start: u64, bytes: &[u8]) -> io::Result<()> {
        if self.end().is_some_and(|end| end != start) {
            self.segments.clear();
        }
        if self.segments.back().is_none_or(|last| last.end - last.start >= SEGMENT_LEN) {
            if self.start().is_some_and(|first| start - first >= SPOOL_BYTES_MAX) {
                return Err(io::Error::other(format!("replicas lack more than {SPOOL_BYTES_MAX} bytes")));
            }
            let disk = rustix::fs::statvfs(dir)?;
            if disk.f_bavail.saturating_mul(disk.f_frsize) < FREE_BYTES_MIN + SEGMENT_LEN {
                return Err(io::Error::other(format!("less than {FREE_BYTES_MIN} bytes of the disk would be left")));
            }
            self.segments.push_back(Segment { file: unnamed_file(dir)?, start, end: start });
        }
        if let Some(last) = self.segments.back_mut() {
            last.file.write_all_at(bytes, last.end - last.start)?;
            last.end += bytes.len() as u64;
        }
        Ok(())
    }

    /// Appends up to `max` bytes from a place of the stream on to `out`; returns how many: none if it does not have them.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn read(&self, from: u64, max: usize, out: &mut Vec<u8>) -> io::Result<usize> {
        let at = self.segments.partition_point(|segment| segment.end <= from);
        let Some(segment) = self.segments.get(at).filter(|segment| segment.start <= from) else { return Ok(0) };
        let len = usize::try_from(segment.end - from).unwrap_or(usize::MAX).min(max);
        let before = out.len();
        out.resize(before + len, 0);
        let read = segment.file.read_exact_at(&mut out[before..], from - segment.start);
        if read.is_err() {
            out.truncate(before);
        }
        read.map(|()| len)
    }

    /// Nobody lacks anything before this place.
    pub(super) fn forget_before(&mut self, lacked: Option<u64>) {
        let is_over = |segment: &Segment| lacked.is_none_or(|lacked| lacked >= segment.end);
        while self.segments.front().is_some_and(is_over) {
            self.segments.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_read_from_any_place() {
        let (mut spool, dir) = (Spool::default(), std::env::temp_dir());
        assert_eq!((spool.start(), spool.read(0, 9, &mut Vec::new()).unwrap()), (None, 0));
        spool.push(&dir, 100, b"abc").unwrap();
        spool.push(&dir, 103, b"def").unwrap();
        let mut out = Vec::new();
        assert_eq!(spool.read(101, 2, &mut out).unwrap(), 2);
        assert_eq!(spool.read(103, 99, &mut out).unwrap(), 3);
        assert_eq!(out, b"bcdef");
        assert_eq!(spool.read(106, 9, &mut out).unwrap(), 0);
        assert_eq!(spool.read(99, 9, &mut out).unwrap(), 0);
        spool.push(&dir, 200, b"x").unwrap();
        assert_eq!(spool.start(), Some(200), "bytes that do not follow begin anew");
        spool.forget_before(Some(200));
        assert_eq!(spool.start(), Some(200));
        spool.forget_before(Some(201));
        assert_eq!(spool.start(), None);
    }

    #[test]
    fn what_nobody_lacks_is_given_back() {
        let (mut spool, dir) = (Spool::default(), std::env::temp_dir());
        let piece = vec![b'x'; 1 << 20];
        let pieces = 2 * (SEGMENT_LEN >> 20) + 1;
        (0..pieces).for_each(|nth| spool.push(&dir, nth << 20, &piece).unwrap());
        assert_eq!(spool.segments.len(), 3);
        let mut out = Vec::new();
        assert_eq!(spool.read(SEGMENT_LEN - 1, 9, &mut out).unwrap(), 1, "up to the end of a file");
        assert_eq!(spool.read(SEGMENT_LEN, 9, &mut out).unwrap(), 9);
        spool.forget_before(Some(SEGMENT_LEN + 1));
        assert_eq!((spool.segments.len(), spool.start()), (2, Some(SEGMENT_LEN)));
        spool.forget_before(None);
        assert_eq!(spool.start(), None);
    }
}

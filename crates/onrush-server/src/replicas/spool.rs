//! A file with a part of the stream that replicas still lack, and that memory has no room for.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::data::unnamed::unnamed_file;

/// See the module's text.
#[derive(Default)]
pub(super) struct Spool {
    file: Option<File>,
    /// The part of the stream: from here, and up to there.
    start: u64,
    end: u64,
}

impl Spool {
    /// Where it begins, if there is anything in it.
    pub(super) fn start(&self) -> Option<u64> {
        self.file.as_ref().map(|_| self.start)
    }

    /// Adds bytes that begin at a place of the stream: behind what it has, or anew.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn push(&mut self, dir: &Path, start: u64, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() || self.end != start {
            self.file = Some(unnamed_file(dir)?);
            (self.start, self.end) = (start, start);
        }
        if let Some(file) = &self.file {
            file.write_all_at(bytes, self.end - self.start)?;
            self.end += bytes.len() as u64;
        }
        Ok(())
    }

    /// Appends up to `max` bytes from a place of the stream on to `out`; returns how many: none if it does not have them.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn read(&self, from: u64, max: usize, out: &mut Vec<u8>) -> io::Result<usize> {
        let Some(file) = self.file.as_ref().filter(|_| (self.start..self.end).contains(&from)) else { return Ok(0) };
        let len = usize::try_from(self.end - from).unwrap_or(usize::MAX).min(max);
        let before = out.len();
        out.resize(before + len, 0);
        let read = file.read_exact_at(&mut out[before..], from - self.start);
        if read.is_err() {
            out.truncate(before);
        }
        read.map(|()| len)
    }

    /// Nobody lacks anything before this place.
    pub(super) fn forget_before(&mut self, lacked: Option<u64>) {
        if lacked.is_none_or(|lacked| lacked >= self.end) {
            *self = Self::default();
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
}

//! The files as the stream of commands that replicas get.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;

use super::notes::{DataPlace, EXEC, MULTI, Note, PLACE_EVERY, StreamPlace};
use super::scan::ARG_LEN_MAX;
use super::writer::Inner;
use super::{Aof, CommandReader};
use crate::storage::Input;

/// Most places; with more, the first are given up.
const PLACES_MAX: usize = 1 << 20;

/// Bytes read from a file at once.
const READ_LEN: usize = 64 << 10;

/// Longest line between values.
const LINE_LEN_MAX: usize = 1024;

/// About the most bytes of a command that stands for bytes that are not in the files.
const FILLER_LEN: u64 = 16 << 10;

/// Where the stream is in the files: one history without gaps.
#[derive(Debug, Default)]
pub(super) struct Streams {
    places: VecDeque<StreamPlace>,
    /// Where the stream ends.
    end: u64,
}

impl Streams {
    /// The stream goes on at this place; what does not end there is given up.
    pub fn begin(&mut self, place: StreamPlace) {
        if place.offset != self.end {
            self.places.clear();
        }
        self.end = place.offset;
        self.push(place);
    }

    fn push(&mut self, place: StreamPlace) {
        if self.places.back() == Some(&place) {
            return;
        }
        if self.places.len() == PLACES_MAX {
            self.places.pop_front();
        }
        self.places.push_back(place);
    }

    /// More bytes of the stream are in the file, up to its byte `at`.
    pub fn grow(&mut self, bytes: u64, at: u64) {
        self.end += bytes;
        if let Some(last) = self.places.back()
            && self.end - last.offset >= PLACE_EVERY
        {
            let file = Arc::clone(&last.file);
            self.push(StreamPlace { file, at, offset: self.end });
        }
    }

    /// What is in the files is no stream from here on.
    pub fn give_up(&mut self) {
        self.places.clear();
    }

    pub fn rename(&mut self, from: &str, to: &str) {
        let to: Arc<str> = to.into();
        self.places.iter_mut().filter(|place| &*place.file == from).for_each(|place| place.file = Arc::clone(&to));
    }

    /// Files of other names are gone.
    pub fn keep_files(&mut self, is_left: impl Fn(&str) -> bool) {
        while self.places.front().is_some_and(|place| !is_left(&place.file)) {
            self.places.pop_front();
        }
    }

    /// The first offset.
    pub fn start(&self) -> Option<u64> {
        self.places.front().map(|place| place.offset)
    }

    /// The last place at or before this offset.
    fn find(&self, offset: u64) -> Option<&StreamPlace> {
        let behind = self.places.partition_point(|place| place.offset <= offset);
        (offset <= self.end).then(|| self.places.get(behind.checked_sub(1)?)).flatten()
    }

    /// The first place in the file after this one, which may have been removed; `None` if it is the last.
    fn after(&self, file: &str) -> Option<&StreamPlace> {
        self.places.back().filter(|last| &*last.file != file)?;
        let of_file = self.places.iter().rposition(|place| &*place.file == file);
        self.places.get(of_file.map_or(0, |of_file| of_file + 1))
    }
}

/// What files that are loaded say of the history that replicas follow.
#[derive(Debug, Default)]
pub struct LoadedStreams {
    streams: Streams,
    place: Option<DataPlace>,
}

impl LoadedStreams {
    /// Adds the next file, of which `commands` have been read.
    pub fn add(&mut self, file: &str, commands: &CommandReader) {
        if commands.is_silent() {
            return;
        }
        let file: Arc<str> = file.into();
        self.place = commands.data_place().cloned();
        if commands.streams().is_empty() {
            self.streams.give_up();
        }
        for (at, offset) in commands.streams() {
            let place = StreamPlace { file: Arc::clone(&file), at: *at, offset: *offset };
            match self.streams.places.back().filter(|last| last.file == file) {
                None => self.streams.begin(place),
                Some(_) => {
                    self.streams.end = place.offset;
                    self.streams.push(place);
                }
            }
        }
        match &self.place {
            Some(place) if place.is_own => self.streams.end = place.offset,
            _ => self.streams.give_up(),
        }
    }

    /// Where the data stands in that history; `None` if the files do not say it.
    pub fn place(&self) -> Option<&DataPlace> {
        self.place.as_ref()
    }
}

impl Aof {
    /// The first offset of the stream that the files still have, if they have it without a gap up to now.
    pub fn stream_start(&self) -> Option<u64> {
        self.inner.state.lock().streams.start()
    }

    /// Takes over where the stream is in the files that were loaded. Call this before records come.
    pub fn set_streams(&self, loaded: LoadedStreams) {
        self.inner.state.lock().streams = loaded.streams;
    }

    /// No stream is read from the files that there are.
    pub fn give_up_streams(&self) {
        self.inner.state.lock().streams.give_up();
    }

    /// Reads the stream from `offset` on; `None` if the files do not have it. Reads at most some megabytes.
    ///
    /// # Errors
    /// The system's; there is no command at this offset.
    pub fn backlog(&self, offset: u64) -> io::Result<Option<Backlog>> {
        let inner = &self.inner;
        let Some(place) = inner.state.lock().streams.find(offset).cloned() else { return Ok(None) };
        let input = inner.storage.read_at(&inner.dir.join(&*place.file), place.at)?;
        let mut backlog = Backlog {
            inner: Arc::clone(inner),
            input,
            file: place.file,
            raw: Vec::new(),
            at: 0,
            scan: Scan::default(),
            omitted: 0,
            offset: place.offset,
        };
        let mut skipped = Vec::new();
        while backlog.offset < offset {
            skipped.clear();
            let wanted = usize::try_from(offset - backlog.offset).unwrap_or(usize::MAX).min(READ_LEN);
            if backlog.read(&mut skipped, wanted)? == 0 {
                return Ok(None);
            }
        }
        if backlog.offset > offset {
            return Err(corrupt("bytes that are not in the files"));
        }
        Ok(Some(backlog))
    }
}

/// Reads the stream from the files, in which no-operations stand for what changes no data.
pub struct Backlog {
    inner: Arc<Inner>,
    input: Input,
    file: Arc<str>,
    /// Bytes of the file, used up before `at`.
    raw: Vec<u8>,
    at: usize,
    scan: Scan,
    /// Bytes that a note stands for and that are still to come.
    omitted: u64,
    /// Where the next byte stands in the stream.
    offset: u64,
}

/// Where in a command the bytes are.
#[derive(Clone, Copy, Debug, Default)]
struct Scan {
    /// Arguments of the command that have not begun.
    arguments: u64,
    /// Bytes of the argument, with the end of its line.
    value: u64,
}

impl Backlog {
    /// Where the next byte stands in the stream.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether the next byte is the stream's own, not one of what stands for others.
    pub fn is_exact(&self) -> bool {
        self.omitted == 0
    }

    /// Appends about `wanted` bytes of the stream, fewer at its end; more only for a command that stands for others. Returns how
    /// many: none if no more is in the files now.
    ///
    /// # Errors
    /// The system's; the file goes on with what is no command; the next file is gone.
    pub fn read(&mut self, into: &mut Vec<u8>, wanted: usize) -> io::Result<usize> {
        let before = into.len();
        while into.len() - before < wanted {
            let room = wanted - (into.len() - before);
            if self.omitted > 0 {
                let filled = fill(self.omitted, into)?;
                self.omitted -= filled;
                self.offset += filled;
            } else if !self.take(into, room)? && self.read_more()? == 0 && !self.next_file()? {
                break;
            }
        }
        Ok(into.len() - before)
    }

    fn read_more(&mut self) -> io::Result<usize> {
        self.raw.drain(..self.at);
        self.at = 0;
        self.input.by_ref().take(READ_LEN as u64).read_to_end(&mut self.raw)
    }

    /// Goes on with the next file if this one has no more to come.
    fn next_file(&mut self) -> io::Result<bool> {
        let (next, is_left) = {
            let state = self.inner.state.lock();
            let streams = &state.streams;
            (streams.after(&self.file).cloned(), streams.places.iter().rev().any(|place| place.file == self.file))
        };
        let is_whole = self.at == self.raw.len() && self.scan.arguments == 0 && self.scan.value == 0;
        let Some(next) = next.filter(|next| is_whole && next.offset == self.offset) else {
            // What is not written yet will come, but not to a file that was removed.
            return if is_left { Ok(false) } else { Err(corrupt("the rest of this stream")) };
        };
        self.input = self.inner.storage.read_at(&self.inner.dir.join(&*next.file), next.at)?;
        self.file = next.file;
        Ok(true)
    }

    /// Takes bytes of the stream, at most `room` and some, from what was read; `false` if more must be read.
    fn take(&mut self, into: &mut Vec<u8>, room: usize) -> io::Result<bool> {
        let before = into.len();
        while into.len() - before < room && self.omitted == 0 {
            let rest = &self.raw[self.at..];
            if self.scan.value > 0 {
                let len = rest.len().min(usize::try_from(self.scan.value).unwrap_or(usize::MAX));
                if len == 0 {
                    break;
                }
                into.extend_from_slice(&rest[..len]);
                self.scan.value -= len as u64;
                self.at += len;
                self.offset += len as u64;
                continue;
            }
            let Some(end) = rest.iter().take(LINE_LEN_MAX).position(|byte| *byte == b'\n') else {
                if rest.len() >= LINE_LEN_MAX {
                    return Err(corrupt("a command"));
                }
                break;
            };
            let line = &rest[..=end];
            self.at += line.len();
            if line[0] == b'#' && self.scan.arguments == 0 {
                let frame = match Note::parse(line) {
                    Some(Note::Multi) => MULTI,
                    Some(Note::Exec) => EXEC,
                    Some(Note::Omitted(len)) => {
                        self.omitted = len;
                        continue;
                    }
                    Some(Note::Stream { offset, .. }) if offset == self.offset => continue,
                    Some(Note::Place { .. } | Note::Stream { .. }) => {
                        return Err(corrupt("more of this stream"));
                    }
                    None => continue,
                };
                into.extend_from_slice(frame);
                self.offset += frame.len() as u64;
                continue;
            }
            let number = std::str::from_utf8(line[1..].trim_ascii_end()).ok().and_then(|text| text.parse::<u64>().ok());
            let number = number.ok_or_else(|| corrupt("a command"))?;
            match (line[0], self.scan.arguments) {
                (b'*', 0) => self.scan.arguments = number,
                (b'$', 1..) if number <= ARG_LEN_MAX as u64 => {
                    self.scan.arguments -= 1;
                    self.scan.value = number + 2;
                }
                _ => return Err(corrupt("a command")),
            }
            into.extend_from_slice(line);
            self.offset += line.len() as u64;
        }
        Ok(into.len() > before || self.omitted > 0)
    }
}

/// Appends commands that change nothing and have `len` bytes, or fewer if that is very many; returns how many.
fn fill(len: u64, into: &mut Vec<u8>) -> io::Result<u64> {
    const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
    let len = if len > 2 * FILLER_LEN { FILLER_LEN } else { len };
    let ping = |argument: u64| {
        let mut command = format!("*2\r\n$4\r\nPING\r\n${argument}\r\n").into_bytes();
        command.resize(command.len() + argument as usize, b'.');
        command.extend_from_slice(b"\r\n");
        command
    };
    // Each digit of the argument's length is a byte too.
    let exact =
        (1..=5).filter_map(|digits| len.checked_sub(19 + digits)).map(ping).find(|ping| ping.len() as u64 == len);
    match (len, exact) {
        (_, Some(ping)) => into.extend_from_slice(&ping),
        (14, _) => into.extend_from_slice(PING),
        (16, _) => into.extend_from_slice(b"*1\r\n$6\r\nDBSIZE\r\n"),
        (30.., _) => {
            into.extend_from_slice(PING);
            return Ok(PING.len() as u64);
        }
        _ => return Err(corrupt("a note of omitted commands")),
    }
    Ok(len)
}

fn corrupt(expected: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the append-only file does not have {expected} here"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_omitted_keeps_its_length() {
        for len in [14, 16].into_iter().chain(20..3_000).chain([32_768, 32_769, 100_000, 1_000_030]) {
            let (mut into, mut left) = (Vec::new(), len);
            while left > 0 {
                left -= fill(left, &mut into).unwrap();
            }
            assert_eq!(into.len() as u64, len);
            let mut rest = &into[..];
            while let Some(command) = super::super::scan::command_len(rest) {
                rest = &rest[command..];
            }
            assert!(rest.is_empty(), "{len}");
        }
        for len in [1, 13, 15, 17, 19] {
            assert!(fill(len, &mut Vec::new()).is_err(), "{len}");
        }
    }

    #[test]
    fn a_gap_gives_up_what_came_before() {
        let place = |file: &str, at, offset| StreamPlace { file: file.into(), at, offset };
        let mut streams = Streams::default();
        streams.begin(place("1", 0, 100));
        streams.grow(50, 50);
        streams.begin(place("2", 7, 150));
        assert_eq!(streams.find(149), Some(&place("1", 0, 100)));
        assert_eq!(streams.find(150), Some(&place("2", 7, 150)));
        assert_eq!((streams.find(99), streams.find(151)), (None, None));
        assert_eq!(streams.after("1"), Some(&place("2", 7, 150)));
        streams.begin(place("2", 60, 151));
        assert_eq!(streams.find(150), None);
        streams.grow(PLACE_EVERY, 70);
        assert_eq!(streams.find(u64::MAX), None);
        assert_eq!(streams.find(151 + PLACE_EVERY), Some(&place("2", 70, 151 + PLACE_EVERY)));
        streams.rename("2", "3");
        streams.keep_files(|file| file == "3");
        assert_eq!(streams.find(151), Some(&place("3", 60, 151)));
        streams.keep_files(|_| false);
        assert_eq!(streams.find(151), None);
    }
}

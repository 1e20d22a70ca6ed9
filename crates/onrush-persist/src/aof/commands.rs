//! Commands of a file, in chunks of whole commands and whole transactions.

use std::io::Read;

use super::AofError;
use super::notes::{DataPlace, Follow, Note};
use super::scan::{Frame, Step, Wrong, command_len, long_arguments, name_of, step};
use crate::storage::Input;

/// Bytes read at once, and about the size of a chunk.
const CHUNK_LEN: usize = 1 << 20;

/// Most bytes of damage that an error shows.
const FOUND_LEN_MAX: usize = 16;

/// A time noted in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// Where to cut the file to remove everything from this time on: before the annotation, or before the transaction
    /// around it.
    pub at: u64,
    /// The time in Unix seconds.
    pub unix_s: u64,
}

/// Whole commands, one after the other. [`CommandReader::next_chunk`] reuses its memory.
#[derive(Debug, Default)]
pub struct Chunk {
    bytes: Vec<u8>,
    commands: usize,
    annotations: Vec<Annotation>,
    places: Places,
}

/// Where bytes stand in the file, although what is between commands is left out: from a position in the bytes on, and from
/// a place in the file on, both go on alike.
#[derive(Debug, Default)]
struct Places(Vec<(usize, u64)>);

impl Places {
    /// The bytes from `position` on stand at `place` of the file.
    fn note(&mut self, position: usize, place: u64) {
        let follows = |&(at, from): &(usize, u64)| from + (position - at) as u64 == place;
        if !self.0.last().is_some_and(follows) {
            self.0.push((position, place));
        }
    }

    fn find(&self, position: usize) -> u64 {
        let index = self.0.partition_point(|(at, _)| *at <= position).saturating_sub(1);
        self.0.get(index).map_or(0, |(at, place)| place + (position - at) as u64)
    }
}

/// One of a chunk's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// Where it begins in the file.
    pub at: u64,
    /// Its name, as it stands there.
    pub name: &'a [u8],
}

impl Chunk {
    /// The commands as multibulks. A transaction is complete, from MULTI to its EXEC.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of commands, MULTI and EXEC included.
    pub fn commands(&self) -> usize {
        self.commands
    }

    /// Command `index`. O(bytes before it).
    pub fn command(&self, index: usize) -> Option<Found<'_>> {
        let mut at = 0;
        for _ in 0..index {
            at += command_len(&self.bytes[at..])?;
        }
        let name = name_of(&self.bytes[at..])?;
        Some(Found { at: self.places.find(at), name })
    }

    /// The bytes in pieces: each argument of at least `len_min` bytes begins a new one. A decoder that gets one piece after
    /// the other reads such an argument into a buffer of its own. O(arguments).
    pub fn pieces(&self, len_min: usize) -> impl Iterator<Item = &[u8]> {
        let mut ends = Vec::new();
        let mut at = 0;
        while let Some(len) = command_len(&self.bytes[at..]) {
            ends.extend(long_arguments(&self.bytes[at..at + len], len_min).into_iter().map(|begin| at + begin));
            at += len;
        }
        ends.push(self.bytes.len());
        let mut start = 0;
        ends.into_iter().map(move |end| &self.bytes[std::mem::replace(&mut start, end)..end])
    }

    /// The times noted before, between and after the commands.
    pub fn annotations(&self) -> &[Annotation] {
        &self.annotations
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(4 * CHUNK_LEN);
        self.commands = 0;
        self.annotations.clear();
        self.places.0.clear();
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.annotations.is_empty()
    }
}

/// Reads the commands of one file. Memory: about two megabytes, and the size of the largest command or transaction.
pub struct CommandReader {
    input: Input,
    file: String,
    is_last: bool,
    /// Bytes that have been read.
    buf: Vec<u8>,
    /// How many of them are used up.
    at: usize,
    /// Where `buf` begins in the file.
    start: u64,
    is_at_end: bool,
    /// A transaction whose EXEC has not been read yet.
    open: Option<Open>,
    follow: Box<Follow>,
}

struct Open {
    /// Where its MULTI begins in the file.
    at: u64,
    bytes: Vec<u8>,
    commands: usize,
    places: Places,
}

impl CommandReader {
    /// Reads the bytes `ahead`, which begin at `offset` of the file, and then `input`. `is_last`: no file comes after
    /// this one, so it may end in the middle of a command.
    pub fn new(input: Input, ahead: Vec<u8>, offset: u64, file: String, is_last: bool) -> Self {
        CommandReader {
            input,
            file,
            is_last,
            buf: ahead,
            at: 0,
            start: offset,
            is_at_end: false,
            open: None,
            follow: Box::default(),
        }
    }

    /// How many bytes of the file have been returned or skipped.
    pub fn offset(&self) -> u64 {
        self.start + self.at as u64
    }

    /// Length of the part in which every command and transaction is complete.
    pub fn valid_len(&self) -> u64 {
        self.open.as_ref().map_or(self.offset(), |open| open.at)
    }

    /// Where the data stands in the history that replicas follow, behind what was returned; `None` if the file does not say
    /// it.
    pub fn data_place(&self) -> Option<&DataPlace> {
        self.follow.place()
    }

    /// Places of the file at which the last stream of replicas can be read, and its offsets there.
    pub fn streams(&self) -> &[(u64, u64)] {
        &self.follow.streams
    }

    /// Whether what was returned changes no data, and says nothing of where it stands.
    pub(super) fn is_silent(&self) -> bool {
        !self.follow.has_any
    }

    /// The place of the file behind the last note of a replica, if no stream begins behind it.
    pub fn data_end(&self) -> Option<u64> {
        self.follow.data_end
    }

    /// Fills `chunk` with the next commands, about a megabyte or one command or transaction; `false` at the end of the file. O(bytes).
    ///
    /// # Errors
    /// [`AofError::Truncated`] and [`AofError::Corrupt`], once everything before has been returned; the system's.
    pub fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, AofError> {
        chunk.clear();
        self.buf.drain(..self.at);
        self.start += self.at as u64;
        self.at = 0;
        while chunk.bytes.len() < CHUNK_LEN {
            match step(&self.buf[self.at..]) {
                Ok(Step::Incomplete) if !self.is_at_end => self.read()?,
                Ok(Step::Incomplete) if !chunk.is_empty() => break,
                Ok(Step::Incomplete) if self.at == self.buf.len() && self.open.is_none() => return Ok(false),
                Ok(Step::Incomplete) if has_commands_within(&self.buf[self.at..]) => {
                    let wrong = Wrong { at: 0, expected: "a command that ends before the whole commands behind it" };
                    return Err(self.wrong(wrong)?);
                }
                Ok(Step::Incomplete) => return Err(self.truncated(0)),
                Ok(Step::Annotation { len, unix_s }) => {
                    chunk.annotations.extend(unix_s.map(|unix_s| Annotation { at: self.valid_len(), unix_s }));
                    if let Some(note) = Note::parse(&self.buf[self.at..self.at + len]) {
                        self.follow.note(note, self.offset() + len as u64);
                    }
                    self.at += len;
                }
                Ok(Step::Command { len, frame }) => match self.take(len, frame, chunk) {
                    Ok(()) => {}
                    Err(_) if !chunk.is_empty() => break,
                    Err(wrong) => return Err(self.wrong(wrong)?),
                },
                Err(_) if !chunk.is_empty() => break,
                Err(wrong) => return Err(self.wrong(wrong)?),
            }
        }
        Ok(true)
    }

    /// Adds a whole command to the chunk, or to the open transaction.
    fn take(&mut self, len: usize, frame: Frame, chunk: &mut Chunk) -> Result<(), Wrong> {
        let at = self.offset();
        let bytes = &self.buf[self.at..self.at + len];
        match (frame, &mut self.open) {
            (Frame::Begin, Some(_)) => return Err(Wrong { at: 0, expected: "EXEC before the next MULTI" }),
            (Frame::End, None) => return Err(Wrong { at: 0, expected: "MULTI before EXEC" }),
            (Frame::Begin, None) => {
                self.open = Some(Open { at, bytes: bytes.to_vec(), commands: 1, places: Places(vec![(0, at)]) });
            }
            (Frame::None | Frame::Alien, None) => {
                chunk.places.note(chunk.bytes.len(), at);
                chunk.bytes.extend_from_slice(bytes);
                chunk.commands += 1;
            }
            (Frame::None | Frame::Alien | Frame::End, Some(open)) => {
                open.places.note(open.bytes.len(), at);
                open.bytes.extend_from_slice(bytes);
                open.commands += 1;
            }
        }
        if frame == Frame::Begin {
            self.follow.begin();
        }
        self.follow.command(bytes, at + len as u64);
        self.at += len;
        if frame == Frame::End {
            self.follow.end();
        }
        if frame == Frame::End
            && let Some(mut open) = self.open.take()
        {
            let before = chunk.bytes.len();
            open.places.0.iter().for_each(|(position, place)| chunk.places.note(before + position, *place));
            if before == 0 {
                chunk.bytes = open.bytes;
            } else {
                chunk.bytes.append(&mut open.bytes);
            }
            chunk.commands += open.commands;
        }
        Ok(())
    }

    /// Reads more. First drops the bytes that are used up. An incomplete command is examined again once its bytes have
    /// doubled.
    fn read(&mut self) -> Result<(), AofError> {
        self.buf.drain(..self.at);
        self.start += self.at as u64;
        self.at = 0;
        let wanted = CHUNK_LEN.max(self.buf.len());
        self.buf.shrink_to(wanted * 2);
        let read = self.input.by_ref().take(wanted as u64).read_to_end(&mut self.buf);
        self.is_at_end = read.map_err(AofError::io(&self.file))? < wanted;
        Ok(())
    }

    fn truncated(&self, more: u64) -> AofError {
        let (file, valid_len) = (self.file.clone(), self.valid_len());
        let len = self.start + self.buf.len() as u64 + more;
        if self.is_last {
            return AofError::Truncated { file, valid_len, len };
        }
        let expected = "the rest of a command or transaction, since other files follow";
        AofError::Corrupt { file, valid_len, at: len, expected, found: Vec::new() }
    }

    /// The error for what is wrong here. Zeros up to the end of the file are a part that the system had no time to
    /// write.
    fn wrong(&mut self, Wrong { at, expected }: Wrong) -> Result<AofError, AofError> {
        let (at, rest) = (self.offset() + at as u64, &self.buf[self.at + at..]);
        let found = rest[..rest.len().min(FOUND_LEN_MAX)].to_vec();
        if is_zero(rest) {
            let (mut more, mut piece, mut is_zeros) = (0, Vec::new(), true);
            while is_zeros {
                let read = self.input.by_ref().take(CHUNK_LEN as u64).read_to_end(&mut piece);
                if read.map_err(AofError::io(&self.file))? == 0 {
                    return Ok(self.truncated(more));
                }
                more += piece.len() as u64;
                is_zeros = is_zero(&piece);
                piece.clear();
            }
        }
        Ok(AofError::Corrupt { file: self.file.clone(), valid_len: self.valid_len(), at, expected, found })
    }
}

/// Whether an incomplete command is damaged, not cut: a length in it is too large if whole commands stand inside of it up
/// to the end of the file. O(bytes).
fn has_commands_within(bytes: &[u8]) -> bool {
    const BETWEEN: &[u8] = b"\r\n*";
    /// Places to look at: those in values may be no beginnings of commands.
    const PLACES_MAX: usize = 64;
    let ends_with_commands = |mut rest: &[u8]| {
        let mut commands = 0;
        while let Some(len) = command_len(rest) {
            (rest, commands) = (&rest[len..], commands + 1);
        }
        commands > 0 && matches!(step(rest), Ok(Step::Incomplete))
    };
    let places = bytes.windows(BETWEEN.len()).enumerate().filter(|(_, window)| *window == BETWEEN);
    places.take(PLACES_MAX).any(|(at, _)| ends_with_commands(&bytes[at + 2..]))
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

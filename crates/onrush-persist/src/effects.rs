//! Effects: the changes of commits, as commands of the protocol, in a buffer of the thread that made them.

use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::buffer::{Buffer, Held};

/// Parts of records from this length on are shared, not copied: to copy gigabytes takes seconds.
pub(crate) const LARGE_LEN: usize = 1 << 20;

/// Most bytes of a header: its kind, a number, the end of its line, and that of the argument behind it.
const HEADER_LEN_MAX: usize = 1 + 20 + 2 + 2;

/// In place of a database: a command that changes no data and is for replicas alone, such as PUBLISH. The append-only file
/// does not get it.
pub const FOR_REPLICAS: u32 = u32::MAX;

/// In place of a database: a note of the append-only file ([`Note`](crate::aof::Note)), alone in its record. What comes next
/// says its database again, also in the stream of replicas, which does not get it.
pub const FOR_LOG: u32 = u32::MAX - 1;

/// A command: its database and where it ends.
struct Command {
    db: u32,
    end: usize,
}

/// A closed record: its LSN and where its commands end.
struct Closed {
    lsn: u64,
    commands_end: usize,
}

/// The records of one thread that the log has not merged yet, and the one that is open.
///
/// A record holds the effects of one commit: commands that belong together. Its first command opens it; it is closed
/// with its log sequence number (LSN) while the commit still holds its locks.
#[derive(Default)]
pub struct Effects {
    bytes: Buffer,
    /// The bytes once they are shared; then no more come.
    shared: Option<Arc<Buffer>>,
    commands: Vec<Command>,
    closed: Vec<Closed>,
    /// The memory of `commands`.
    held: Held,
}

/// The effects of one commit.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// Its place in the order of all commits: 1, 2, 3 and so on, without gaps.
    pub lsn: u64,
    effects: &'a Effects,
    first: usize,
    end: usize,
}

impl<'a> Record<'a> {
    /// Its commands, each with its database, as multibulks of the protocol.
    pub fn commands(&self) -> impl ExactSizeIterator<Item = (u32, &'a [u8])> + use<'a> {
        let effects = self.effects;
        (self.first..self.end).map(move |index| {
            (effects.commands[index].db, &effects.bytes()[effects.start_of(index)..effects.commands[index].end])
        })
    }

    /// How many of its commands change data. O(commands).
    pub(crate) fn changes(&self) -> usize {
        self.effects.commands[self.first..self.end].iter().filter(|command| command.db < FOR_LOG).count()
    }

    /// Its commands in parts, each for one database or reader. O(commands).
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part<'a>> + use<'a> {
        let effects = self.effects;
        let parts = effects.commands[self.first..self.end].chunk_by(|one, next| one.db == next.db);
        let mut first = self.first;
        parts.map(move |commands| {
            let range = effects.start_of(first)..commands.last().map_or(0, |command| command.end);
            first += commands.len();
            Part { db: commands[0].db, effects, range }
        })
    }
}

/// Records of one thread, one after the other in the order of all commits, each of one command that changes data, all for one
/// database.
#[derive(Clone, Copy)]
pub struct Plain<'a> {
    /// The database.
    pub db: u32,
    lsn: u64,
    effects: &'a Effects,
    first: usize,
    end: usize,
}

impl<'a> Plain<'a> {
    /// The commands as multibulks. O(1).
    pub fn bytes(&self) -> &'a [u8] {
        let start = self.effects.record_start(self.first);
        let end = self.effects.record_start(self.end);
        &self.effects.bytes()[self.effects.start_of(start)..self.effects.start_of(end)]
    }

    /// How many there are; at least one.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.end - self.first
    }

    /// The place of the last one.
    pub fn last_lsn(&self) -> u64 {
        self.lsn + self.len() as u64 - 1
    }

    /// One by one.
    pub fn records(&self) -> impl Iterator<Item = Record<'a>> + use<'a> {
        let effects = self.effects;
        (self.first..self.end).map(move |index| effects.record(index))
    }
}

/// What comes next of a thread's records.
pub(crate) enum Next<'a> {
    Plain(Plain<'a>),
    Record(Record<'a>),
}

/// Commands for one database that follow each other in a record.
pub(crate) struct Part<'a> {
    /// Their database.
    pub db: u32,
    effects: &'a Effects,
    range: Range<usize>,
}

impl Part<'_> {
    /// The commands as multibulks.
    pub fn bytes(&self) -> &[u8] {
        &self.effects.bytes()[self.range.clone()]
    }

    /// The bytes as a share of what the effects have, if they are many and shared at all.
    pub fn shared(&self) -> Option<SharedBytes> {
        let bytes = self.effects.shared.as_ref().filter(|_| self.range.len() >= LARGE_LEN)?;
        Some(SharedBytes { bytes: Arc::clone(bytes), range: self.range.clone() })
    }
}

/// A part of bytes that others have, too.
pub(crate) struct SharedBytes {
    bytes: Arc<Buffer>,
    range: Range<usize>,
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.range.clone()]
    }
}

/// Appends a command as a multibulk. O(bytes).
#[inline]
pub fn push_command<'a>(out: &mut Vec<u8>, args: impl ExactSizeIterator<Item = &'a [u8]>) {
    push_header(out, b'*', args.len());
    for arg in args {
        push_arg(out, arg);
    }
}

#[inline]
fn push_arg(out: &mut Vec<u8>, arg: &[u8]) {
    push_header(out, b'$', arg.len());
    out.extend_from_slice(arg);
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn push_header(out: &mut Vec<u8>, kind: u8, number: usize) {
    match number {
        0..10 => out.extend_from_slice(&[kind, b'0' + number as u8, b'\r', b'\n']),
        10..100 => {
            let digits = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
            out.extend_from_slice(&[kind, digits[0], digits[1], b'\r', b'\n']);
        }
        _ => {
            out.push(kind);
            out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
}

impl Effects {
    /// Adds a command to the open record. O(bytes).
    #[inline]
    pub fn command<'a>(&mut self, db: u32, args: impl ExactSizeIterator<Item = &'a [u8]>) {
        push_header(self.bytes.room_for(HEADER_LEN_MAX), b'*', args.len());
        for arg in args {
            push_arg(self.bytes.room_for(HEADER_LEN_MAX + arg.len()), arg);
        }
        self.end_command(db);
    }

    #[inline]
    fn end_command(&mut self, db: u32) {
        if self.commands.len() == self.commands.capacity() {
            self.grow();
        }
        self.commands.push(Command { db, end: self.bytes.len() });
    }

    #[cold]
    fn grow(&mut self) {
        let len = self.commands.len();
        self.held.set(2 * (len + 1) * size_of::<Command>());
        self.commands.reserve_exact(len + 2);
    }

    /// As [`Effects::command`], for a command that is already a multibulk.
    #[inline]
    pub fn encoded(&mut self, db: u32, multibulk: &[u8]) {
        self.bytes.extend_from_slice(multibulk);
        self.end_command(db);
    }

    /// Commands in the open record.
    #[inline]
    pub fn open_len(&self) -> usize {
        self.commands.len() - self.closed.last().map_or(0, |closed| closed.commands_end)
    }

    /// Drops all but the first `len` commands of the open record.
    pub fn truncate_open(&mut self, len: usize) {
        let keep = self.closed.last().map_or(0, |closed| closed.commands_end) + len;
        self.commands.truncate(keep);
        self.bytes.truncate(self.commands.last().map_or(0, |command| command.end));
    }

    /// Closes the open record.
    #[inline]
    pub(crate) fn close(&mut self, lsn: u64) {
        self.closed.push(Closed { lsn, commands_end: self.commands.len() });
    }

    /// Bytes of all commands.
    pub fn len_bytes(&self) -> usize {
        self.bytes().len()
    }

    fn bytes(&self) -> &[u8] {
        self.shared.as_deref().unwrap_or(&self.bytes)
    }

    /// Where command `index` begins.
    fn start_of(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.commands[before].end)
    }

    /// Makes large records ready to be shared, if there are any; else the memory stays for others. All records are closed,
    /// and no more come until [`Effects::clear`]. O(records).
    pub(crate) fn share(&mut self) {
        let mut start = 0;
        let has_large = self.bytes.len() >= LARGE_LEN
            && self.closed.iter().any(|closed| {
                let end = self.start_of(closed.commands_end);
                end - std::mem::replace(&mut start, end) >= LARGE_LEN
            });
        if has_large {
            self.shared = Some(Arc::new(std::mem::take(&mut self.bytes)));
        }
    }

    /// Whether there is no closed record.
    pub fn is_empty(&self) -> bool {
        self.closed.is_empty()
    }

    /// The LSN of closed record `index`.
    pub(crate) fn lsn(&self, index: usize) -> Option<u64> {
        self.closed.get(index).map(|closed| closed.lsn)
    }

    /// Closed record `index`.
    pub(crate) fn record(&self, index: usize) -> Record<'_> {
        let Closed { lsn, commands_end } = self.closed[index];
        Record { lsn, effects: self, first: self.record_start(index), end: commands_end }
    }

    /// The first command of closed record `index`.
    fn record_start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.closed[before].commands_end)
    }

    /// Closed record `index` if its LSN is this one, with as many of those behind it as are like it. O(what it returns).
    pub(crate) fn next(&self, index: usize, lsn: u64) -> Option<Next<'_>> {
        let closed = self.closed.get(index..).filter(|closed| closed.first().is_some_and(|first| first.lsn == lsn))?;
        let start = self.record_start(index);
        // A record without commands is none of them.
        let db = self.commands.get(start).map_or(FOR_LOG, |command| command.db);
        let is_plain = |nth: usize, closed: &Closed| {
            closed.lsn == lsn + nth as u64
                && closed.commands_end == start + nth + 1
                && self.commands[start + nth].db == db
        };
        let can_be = db < FOR_LOG && self.shared.is_none();
        let count =
            if can_be { (0..).zip(closed).take_while(|(nth, closed)| is_plain(*nth, closed)).count() } else { 0 };
        Some(match count {
            0 => Next::Record(self.record(index)),
            _ => Next::Plain(Plain { db, lsn, effects: self, first: index, end: index + count }),
        })
    }

    /// Bytes of memory, while nothing is shared.
    pub(crate) fn capacity_bytes(&self) -> usize {
        let commands = self.commands.capacity() * size_of::<Command>();
        self.bytes.capacity() + commands + self.closed.capacity() * size_of::<Closed>()
    }

    /// Drops all records; keeps at most `kept_bytes_max` bytes of memory for each of its parts.
    pub(crate) fn clear(&mut self, kept_bytes_max: usize) {
        self.shared = None;
        self.bytes.clear();
        self.commands.clear();
        self.closed.clear();
        self.bytes.shrink_to(kept_bytes_max);
        self.commands.shrink_to(kept_bytes_max / size_of::<Command>());
        self.held.set(self.commands.capacity() * size_of::<Command>());
        self.closed.shrink_to(kept_bytes_max / size_of::<Closed>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_parts_for_one_database_are_shared_and_small_ones_are_not() {
        let mut effects = Effects::default();
        let large = vec![b'x'; LARGE_LEN];
        for (db, arg) in [(0, &large[..]), (0, b"y"), (1, b"z"), (0, &large[..])] {
            effects.command(db, [arg].into_iter());
        }
        effects.close(1);
        effects.command(2, [&b"next"[..]].into_iter());
        effects.close(2);
        let kinds = |effects: &Effects| -> Vec<(u32, usize, bool)> {
            effects.record(0).parts().map(|part| (part.db, part.bytes().len(), part.shared().is_some())).collect()
        };
        let len = LARGE_LEN + "*1\r\n$1048576\r\n\r\n".len();
        assert_eq!(kinds(&effects), [(0, len + 11, false), (1, 11, false), (0, len, false)]);
        let (before, all) = (effects.len_bytes(), effects.bytes().to_vec());
        effects.share();
        assert_eq!(kinds(&effects), [(0, len + 11, true), (1, 11, false), (0, len, true)]);
        assert_eq!((effects.len_bytes(), effects.bytes() == &all[..]), (before, true));
        let last: Vec<SharedBytes> = effects.record(0).parts().filter_map(|part| part.shared()).collect();
        assert_eq!(
            effects.record(1).parts().next().map(|part| part.bytes().to_vec()),
            Some(all[before - 14..].to_vec())
        );
        effects.clear(0);
        // Many small records share nothing.
        for lsn in 3..20 {
            effects.command(0, [&large[..LARGE_LEN / 8]].into_iter());
            effects.close(lsn);
        }
        effects.share();
        assert!(effects.len_bytes() > LARGE_LEN && effects.shared.is_none());
        assert_eq!([&last[0][..], b"*1\r\n$1\r\nz\r\n", &last[1]].concat(), all[..before - 14]);
    }

    #[test]
    fn records_of_one_command_each_come_together_and_all_others_alone() {
        let mut effects = Effects::default();
        let mut record = |lsn, dbs: &[u32]| {
            dbs.iter().for_each(|db| effects.command(*db, [&b"A"[..]].into_iter()));
            effects.close(lsn);
        };
        let records: [(u64, &[u32]); 10] = [
            (1, &[0]),
            (2, &[0]),
            (3, &[0, 0]),
            (4, &[0]),
            (5, &[1]),
            (6, &[1]),
            (8, &[1]),
            (9, &[FOR_REPLICAS]),
            (10, &[FOR_LOG]),
            (11, &[2, 3]),
        ];
        records.iter().for_each(|(lsn, dbs)| record(*lsn, dbs));
        record(12, &[]);
        let (mut index, mut seen) = (0, Vec::new());
        while let Some(lsn) = effects.lsn(index) {
            assert!(effects.next(index, lsn + 1).is_none());
            let count = match effects.next(index, lsn).unwrap() {
                Next::Record(record) => {
                    assert_eq!(record.lsn, lsn);
                    0
                }
                Next::Plain(plain) => {
                    let each: Vec<u8> =
                        plain.records().flat_map(|record| texts(record)[0].1.clone().into_bytes()).collect();
                    assert_eq!(String::from_utf8_lossy(plain.bytes()).replace("\r\n", " ").into_bytes(), each);
                    assert_eq!(plain.last_lsn(), lsn + plain.len() as u64 - 1);
                    plain.len()
                }
            };
            seen.push(count);
            index += count.max(1);
        }
        assert_eq!(seen, [2, 0, 1, 2, 1, 0, 0, 0, 0]);
    }

    fn texts(record: Record<'_>) -> Vec<(u32, String)> {
        record.commands().map(|(db, bytes)| (db, String::from_utf8_lossy(bytes).replace("\r\n", " "))).collect()
    }

    #[test]
    fn commands_are_multibulks_whatever_their_lengths() {
        let mut effects = Effects::default();
        let long = vec![b'x'; 123];
        let args: [&[u8]; 3] = [b"SET", &[b'k'; 12], &long];
        effects.command(0, args.into_iter());
        effects.close(1);
        let text = texts(effects.record(0)).remove(0).1;
        assert_eq!(text, format!("*3 $3 SET $12 kkkkkkkkkkkk $123 {} ", "x".repeat(123)));
    }

    #[test]
    fn records_hold_the_commands_between_two_closings() {
        let mut effects = Effects::default();
        let one = |effects: &mut Effects, db, word: &'static str| effects.command(db, [word.as_bytes()].into_iter());
        one(&mut effects, 0, "A");
        one(&mut effects, 3, "B");
        assert_eq!((effects.open_len(), effects.is_empty()), (2, true));
        effects.close(7);
        one(&mut effects, 0, "C");
        one(&mut effects, 0, "D");
        effects.truncate_open(1);
        assert_eq!(effects.open_len(), 1);
        effects.close(9);
        assert_eq!((effects.lsn(0), effects.lsn(1), effects.lsn(2)), (Some(7), Some(9), None));
        assert_eq!(texts(effects.record(0)), [(0, "*1 $1 A ".into()), (3, "*1 $1 B ".into())]);
        assert_eq!(texts(effects.record(1)), [(0, "*1 $1 C ".into())]);
        effects.clear(0);
        assert_eq!((effects.open_len(), effects.is_empty(), effects.len_bytes()), (0, true, 0));
    }
}

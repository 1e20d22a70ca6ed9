//! Effects: the changes of commits, as commands of the protocol, in a buffer of the thread that made them.

use crate::buffer::{Buffer, Held};

/// Most bytes of a header: its kind, a number, the end of its line, and that of the argument behind it.
const HEADER_LEN_MAX: usize = 1 + 20 + 2 + 2;

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
            let start = index.checked_sub(1).map_or(0, |before| effects.commands[before].end);
            let Command { db, end } = effects.commands[index];
            (db, &effects.bytes[start..end])
        })
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
        self.bytes.len()
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
        let first = index.checked_sub(1).map_or(0, |before| self.closed[before].commands_end);
        Record { lsn, effects: self, first, end: commands_end }
    }

    /// Drops all records; keeps at most `kept_bytes_max` bytes of memory.
    pub(crate) fn clear(&mut self, kept_bytes_max: usize) {
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

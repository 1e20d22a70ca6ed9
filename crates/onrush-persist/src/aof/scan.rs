//! Finds where commands end in a file's bytes. The checks are strict: bytes that no writer produces are damage.

use std::ops::Range;

/// Most arguments of a command: as many as a client may send, as in Redis.
pub const ARGS_MAX: usize = i32::MAX as usize;
/// Most bytes of an argument: more than any memory holds. What a client may send is less, and can be set
/// (`proto-max-bulk-len`), also to less than what the file was written with.
pub const ARG_LEN_MAX: usize = 1 << 47;
/// Most bytes of an annotation.
const ANNOTATION_LEN_MAX: usize = 1024;

/// The role of a command in framing other commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    None,
    Begin,
    End,
    /// It is about the connection that it comes over or the server, and changes no data: none stands in a stream.
    Alien,
}

/// What is at a place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Command {
        len: usize,
        frame: Frame,
    },
    Annotation {
        len: usize,
        unix_s: Option<u64>,
    },
    /// More bytes are needed to tell.
    Incomplete,
}

/// The bytes at a place are wrong.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub at: usize,
    pub expected: &'static str,
}

/// How far a command was examined of which bytes are missing.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Arguments in all; 0: that is not known yet.
    count: usize,
    /// Arguments that are whole, and where they end.
    whole: usize,
    end: usize,
    name: Range<usize>,
}

/// Examines the first command or annotation of `bytes`. O(arguments).
pub(super) fn step(bytes: &[u8]) -> Result<Step, Wrong> {
    resume(bytes, &mut Progress::default())
}

/// As [`step`], for bytes of which the beginning was examined before. O(arguments that were not whole then).
pub(super) fn resume(bytes: &[u8], progress: &mut Progress) -> Result<Step, Wrong> {
    match bytes.first() {
        None => Ok(Step::Incomplete),
        Some(b'*') => command(bytes, progress),
        Some(b'#') => annotation(bytes),
        Some(_) => Err(Wrong { at: 0, expected: "* or #, the beginning of a command or of an annotation" }),
    }
}

/// The length of the whole command that `bytes` begin with; `None` if there is none. O(arguments).
pub(super) fn command_len(bytes: &[u8]) -> Option<usize> {
    match step(bytes) {
        Ok(Step::Command { len, .. }) => Some(len),
        _ => None,
    }
}

/// The name of the command that `bytes` begin with.
pub(super) fn name_of(bytes: &[u8]) -> Option<&[u8]> {
    command_len(bytes)?;
    let mut first = None;
    let _ = arguments(bytes, &mut Progress::default(), |index, argument| {
        if index == 0 {
            first = Some(argument);
        }
    });
    bytes.get(first?)
}

/// Where the arguments of a whole command begin that have at least `len_min` bytes.
pub(super) fn long_arguments(command: &[u8], len_min: usize) -> Vec<usize> {
    let mut begins = Vec::new();
    let _ = arguments(command, &mut Progress::default(), |_, argument| {
        if argument.len() >= len_min {
            begins.push(argument.start);
        }
    });
    begins
}

fn command(bytes: &[u8], progress: &mut Progress) -> Result<Step, Wrong> {
    let mut name = progress.name.clone();
    let is_whole = arguments(bytes, progress, |index, argument| {
        if index == 0 {
            name = argument;
        }
    })?;
    progress.name = name;
    if !is_whole {
        return Ok(Step::Incomplete);
    }
    let Progress { count, end: len, name, .. } = std::mem::take(progress);
    let name = &bytes[name];
    let frame = match count {
        1 if name.eq_ignore_ascii_case(b"MULTI") => Frame::Begin,
        1 if name.eq_ignore_ascii_case(b"EXEC") => Frame::End,
        _ if is_alien(name) => Frame::Alien,
        _ => Frame::None,
    };
    Ok(Step::Command { len, frame })
}

/// See [`Frame::Alien`].
#[inline]
fn is_alien(name: &[u8]) -> bool {
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    let Some(first) = name.first().filter(|_| name.len() >= 4) else { return false };
    match first.to_ascii_lowercase() {
        b'a' => is("AUTH") || is("ASKING"),
        b'c' => is("CLIENT"),
        b'd' => is("DISCARD"),
        b'f' => is("FAILOVER"),
        b'h' => is("HELLO"),
        b'm' => is("MONITOR"),
        b'p' => is("PSYNC") || is("PSUBSCRIBE") || is("PUNSUBSCRIBE"),
        b'q' => is("QUIT"),
        b'r' => is("RESET") || is("READONLY") || is("READWRITE") || is("REPLICAOF"),
        b's' => ["SYNC", "SLAVEOF", "SHUTDOWN", "SUBSCRIBE", "SSUBSCRIBE", "SUNSUBSCRIBE"].into_iter().any(is),
        b'u' => is("UNWATCH") || is("UNSUBSCRIBE"),
        b'w' => is("WAIT") || is("WATCH") || is("WAITAOF"),
        _ => false,
    }
}

/// Calls `each` with the number and the place of each argument from where `progress` is, and moves that on; returns whether
/// the command is whole.
fn arguments(bytes: &[u8], progress: &mut Progress, mut each: impl FnMut(usize, Range<usize>)) -> Result<bool, Wrong> {
    if progress.count == 0 {
        let expected = "a number of arguments from 1 to 2147483647 and the end of the line";
        let Some(count) = number(bytes, 0, ARGS_MAX, expected)? else { return Ok(false) };
        if count.value == 0 {
            return Err(Wrong { at: 1, expected: "a number of arguments from 1 to 2147483647" });
        }
        (progress.count, progress.end) = (count.value, count.end);
    }
    while progress.whole < progress.count {
        let at = progress.end;
        match bytes.get(at) {
            None => return Ok(false),
            Some(b'$') => {}
            Some(_) => return Err(Wrong { at, expected: "$, the beginning of an argument" }),
        }
        let Some(len) = number(bytes, at, ARG_LEN_MAX, "the length of an argument and the end of the line")? else {
            return Ok(false);
        };
        let end = len.end + len.value;
        if !line_end(bytes, end, "the end of the argument")? {
            return Ok(false);
        }
        each(progress.whole, len.end..end);
        (progress.whole, progress.end) = (progress.whole + 1, end + 2);
    }
    Ok(true)
}

struct Number {
    value: usize,
    /// Where the next line begins.
    end: usize,
}

/// Most digits of a number: those of [`ARG_LEN_MAX`].
const DIGITS_MAX: usize = 15;

/// The number after the byte at `at`, up to the end of the line; `None` if the line has no end yet.
fn number(bytes: &[u8], at: usize, max: usize, expected: &'static str) -> Result<Option<Number>, Wrong> {
    let digits = &bytes[at + 1..];
    let mut value = 0;
    for (index, byte) in digits.iter().enumerate() {
        let here = at + 1 + index;
        match byte {
            b'0'..=b'9' => {
                value = value * 10 + usize::from(byte - b'0');
                if value > max || index >= DIGITS_MAX {
                    return Err(Wrong { at: at + 1, expected });
                }
            }
            _ if index == 0 => return Err(Wrong { at: here, expected }),
            _ => return Ok(line_end(bytes, here, expected)?.then_some(Number { value, end: here + 2 })),
        }
    }
    Ok(None)
}

/// Whether there is a line end at `at`; false if the bytes end before it.
fn line_end(bytes: &[u8], at: usize, expected: &'static str) -> Result<bool, Wrong> {
    match bytes.get(at..) {
        None | Some([] | [b'\r']) => Ok(false),
        Some([b'\r', b'\n', ..]) => Ok(true),
        Some([b'\r', ..]) => Err(Wrong { at: at + 1, expected }),
        Some(_) => Err(Wrong { at, expected }),
    }
}

fn annotation(bytes: &[u8]) -> Result<Step, Wrong> {
    let line = &bytes[..bytes.len().min(ANNOTATION_LEN_MAX)];
    let Some(end) = line.iter().position(|byte| *byte == b'\n') else {
        let is_too_long = line.len() == ANNOTATION_LEN_MAX;
        let wrong = Wrong { at: 0, expected: "an annotation of at most 1024 bytes" };
        return if is_too_long { Err(wrong) } else { Ok(Step::Incomplete) };
    };
    let text = line[..end].strip_suffix(b"\r").ok_or(Wrong { at: end, expected: "the end of the annotation" })?;
    let unix_s = match text.strip_prefix(b"#TS:") {
        None => None,
        Some(digits) => {
            let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
            Some(number.ok_or(Wrong { at: 4, expected: "a time in seconds" })?)
        }
    };
    Ok(Step::Annotation { len: end + 1, unix_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_annotations_are_found() {
        let one = |bytes: &[u8]| step(bytes).unwrap();
        let frame = |frame, len| Step::Command { len, frame };
        assert_eq!(one(b"*1\r\n$1\r\nA\r\n*"), frame(Frame::None, 11));
        assert_eq!(one(b"*2\r\n$3\r\nSET\r\n$0\r\n\r\n"), frame(Frame::None, 19));
        assert_eq!(one(b"*1\r\n$5\r\nmulti\r\n"), frame(Frame::Begin, 15));
        assert_eq!(one(b"*1\r\n$4\r\nEXEC\r\n"), frame(Frame::End, 14));
        assert_eq!(one(b"*2\r\n$4\r\nEXEC\r\n$0\r\n\r\n"), frame(Frame::None, 20));
        assert_eq!(one(b"*1\r\n$5\r\nReset\r\n"), frame(Frame::Alien, 15));
        assert_eq!(one(b"*1\r\n$6\r\nRESETS\r\n"), frame(Frame::None, 16));
        assert_eq!(one(b"#TS:12\r\n*1"), Step::Annotation { len: 8, unix_s: Some(12) });
        assert_eq!(one(b"#x\r\n"), Step::Annotation { len: 4, unix_s: None });
        for whole in [&b"*2\r\n$3\r\nSET\r\n$12\r\n123456789012\r\n"[..], b"#TS:12345\r\n"] {
            (0..whole.len()).for_each(|len| assert_eq!(one(&whole[..len]), Step::Incomplete));
        }
    }

    #[test]
    fn what_is_no_command_is_told_with_its_place() {
        let at = |bytes: &[u8]| step(bytes).unwrap_err().at;
        assert_eq!(at(b"SET a b\r\n"), 0);
        assert_eq!(at(b"*0\r\n"), 1);
        assert_eq!(at(b"*-1\r\n"), 1);
        assert_eq!(at(b"*+1\r\n"), 1);
        assert_eq!(at(b"*2147483648\r\n"), 1);
        assert_eq!(at(b"*1\n$1"), 2);
        assert_eq!(at(b"*1\r$1"), 3);
        assert_eq!(at(b"*1\r\n:1\r\n"), 4);
        assert_eq!(at(b"*1\r\n$140737488355329\r\n"), 5);
        assert_eq!(at(b"*1\r\n$0000000000000001\r\n"), 5);
        assert_eq!(at(b"*1\r\n$1\r\nAB\r\n"), 9);
        assert_eq!(at(b"*1\r\n$1\r\nA\rB"), 10);
        assert_eq!(at(b"#TS:x\r\n"), 4);
        assert_eq!(at(b"#TS:1\n"), 5);
        assert_eq!(at(&[b'#'; 1024]), 0);
    }
}

//! Commands from bytes.

use std::hint::cold_path;
use std::sync::Arc;

use crate::inline::{InlineArgs, split_inline};
use crate::number::parse_i64;

/// The place of an argument: a range relative to the first byte of its command, or an owned argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgRange {
    start: u32,
    len: u32,
}

/// `len` of an [`ArgRange`] that names an owned argument instead of a range.
const OWNED: u32 = u32::MAX;

impl ArgRange {
    /// A range of the query buffer, `start` relative to the first byte of the command.
    #[inline]
    pub fn new(start: usize, len: usize) -> Self {
        Self { start: start as u32, len: len as u32 }
    }

    /// The owned argument with this index in the list of the command's owned arguments.
    pub fn owned(index: usize) -> Self {
        Self { start: index as u32, len: OWNED }
    }

    /// Where a range ends, relative to the first byte of the command.
    #[inline]
    pub fn end(self) -> usize {
        debug_assert!(self.owned_index().is_none());
        self.start as usize + self.len as usize
    }

    /// The index among the command's owned arguments, if this is one.
    #[inline]
    pub fn owned_index(self) -> Option<usize> {
        (self.len == OWNED).then_some(self.start as usize)
    }

    /// The bytes: a part of `command`, the query buffer from the first byte of the command on, or one of `owned`.
    #[inline(always)]
    pub fn of<'a>(self, command: &'a [u8], owned: &'a [Arc<Vec<u8>>]) -> &'a [u8] {
        if self.len == OWNED {
            return &owned[self.start as usize];
        }
        &command[self.start as usize..][..self.len as usize]
    }
}

/// What a client may send. The defaults are Redis's.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Longest inline command, and longest line that holds a count, in bytes.
    pub inline_len_max: usize,
    /// Most arguments of one command.
    pub multibulk_len_max: i64,
    /// Longest argument in bytes (`proto-max-bulk-len`).
    pub bulk_len_max: i64,
    /// An incomplete argument of at least this length in bytes is requested with [`Decoded::NeedBulk`].
    pub big_bulk_len_min: usize,
    /// Whether the connection must still authenticate: then at most 10 arguments of 16 KB are allowed.
    pub unauthenticated: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            inline_len_max: 64 * 1024,
            multibulk_len_max: i64::from(i32::MAX),
            bulk_len_max: 512 * 1024 * 1024,
            big_bulk_len_min: 32 * 1024,
            unauthenticated: false,
        }
    }
}

/// Room for arguments of unfinished commands that a decoder keeps between commands.
const PARTIAL_KEPT_MAX: usize = 64;

/// How every TLS connection begins: a handshake record of any version since SSL 3.
pub const TLS_HANDSHAKE: &[u8] = b"\x16\x03";

const UNAUTHENTICATED_MULTIBULK_LEN_MAX: i64 = 10;
const UNAUTHENTICATED_BULK_LEN_MAX: i64 = 16 * 1024;

/// Why a byte stream is not RESP. The text is the one that Redis sends after `ERR `.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// An inline command without an end.
    #[error("Protocol error: too big inline request")]
    TooBigInline,
    /// `*` without the end of its line.
    #[error("Protocol error: too big mbulk count string")]
    TooBigMultibulkCount,
    /// `$` without the end of its line.
    #[error("Protocol error: too big bulk count string")]
    TooBigBulkCount,
    /// The number of arguments is not a number, or too large.
    #[error("Protocol error: invalid multibulk length")]
    InvalidMultibulkLength,
    /// The length of an argument is not a number, negative, or over `proto-max-bulk-len`.
    #[error("Protocol error: invalid bulk length")]
    InvalidBulkLength,
    /// More than ten arguments before authentication.
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthenticatedMultibulkLength,
    /// An argument of more than 16 KB before authentication.
    #[error("Protocol error: unauthenticated bulk length")]
    UnauthenticatedBulkLength,
    /// An argument that does not start with `$`.
    #[error("Protocol error: expected '$', got '{}'", *.0 as char)]
    ExpectedDollar(u8),
    /// Quotes in an inline command that do not close.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    /// A TLS handshake in place of a command.
    #[error("Protocol error: this port does not speak TLS")]
    Tls,
    /// The arguments of one command take more than 4 GB of query buffer.
    #[error("Protocol error: too big command")]
    TooBigCommand,
}

impl ProtocolError {
    /// The text. A byte that it quotes is unchanged: [`Display`](std::fmt::Display) shows a byte beyond ASCII as UTF-8.
    pub fn to_bytes(self) -> Vec<u8> {
        match self {
            Self::ExpectedDollar(byte) => [b"Protocol error: expected '$', got '", &[byte][..], b"'"].concat(),
            other => other.to_string().into_bytes(),
        }
    }
}

/// What one call of [`Decoder::decode`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded {
    /// A command of at least one argument; it takes `len` bytes of the query buffer.
    Command {
        /// Bytes to consume.
        len: usize,
    },
    /// An empty line or an empty multibulk: no command, no reply; it takes `len` bytes.
    Nothing {
        /// Bytes to consume.
        len: usize,
    },
    /// More bytes are needed.
    Incomplete,
    /// The next argument is large and incomplete. The caller reads its `len` bytes and the two bytes after them into a
    /// buffer of its own, which begins with the bytes from `at` on, and passes it to [`Decoder::supply_owned`]. The
    /// bytes from `at` on no longer belong to the query buffer.
    NeedBulk {
        /// Position of the first byte of the argument, relative to the first byte of the command.
        at: usize,
        /// Length of the argument in bytes.
        len: usize,
    },
}

/// An incremental command decoder: one for each connection.
///
/// It remembers its place in an incomplete command, so it reads no byte twice, however finely a stream is cut. All
/// positions are relative to the first byte of the command, so the caller may move the bytes between calls.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Arguments still to come of the present multibulk; 0 between commands.
    missing: u32,
    /// Length of the argument whose header was read already.
    bulk_len: Option<usize>,
    /// Bytes of the present command that are decoded.
    pos: usize,
    /// Arguments of the present command found in earlier calls.
    partial: Vec<ArgRange>,
    /// Owned arguments of the present command.
    owned: Vec<Arc<Vec<u8>>>,
}

impl Decoder {
    /// A decoder at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets an unfinished command: the next call starts at the first byte of a command.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Whether part of a command was read.
    pub fn in_command(&self) -> bool {
        self.missing > 0
    }

    /// Bytes held by the arguments of an unfinished command outside the query buffer.
    pub fn held_bytes(&self) -> usize {
        self.partial.capacity() * size_of::<ArgRange>() + self.owned.iter().map(|arg| arg.capacity()).sum::<usize>()
    }

    /// Takes the owned arguments of the last complete command.
    #[inline]
    pub fn take_owned(&mut self) -> Vec<Arc<Vec<u8>>> {
        std::mem::take(&mut self.owned)
    }

    /// Whether the last complete command has owned arguments.
    #[inline]
    pub fn has_owned(&self) -> bool {
        !self.owned.is_empty()
    }

    /// Supplies the argument that [`Decoded::NeedBulk`] requested, without the two bytes after it.
    pub fn supply_owned(&mut self, argument: Vec<u8>) {
        debug_assert!(self.missing > 0 && self.bulk_len == Some(argument.len()));
        self.partial.push(ArgRange::owned(self.owned.len()));
        self.owned.push(Arc::new(argument));
        self.bulk_len = None;
        self.missing -= 1;
    }

    /// Decodes one command from `buf`, which starts at the first byte of the command, and appends its arguments
    /// to `args`. Unless a command is returned `args` is left as it was.
    ///
    /// # Errors
    /// The stream is not RESP; the connection cannot go on.
    #[inline]
    pub fn decode(&mut self, buf: &[u8], args: &mut Vec<ArgRange>, limits: &Limits) -> Result<Decoded, ProtocolError> {
        if self.missing == 0 && self.pos == 0 {
            if let Some(len) = decode_short(buf, args) {
                return Ok(Decoded::Command { len });
            }
            cold_path();
            match buf.first() {
                None => return Ok(Decoded::Incomplete),
                Some(b'*') => {}
                Some(_) => return self.decode_inline(buf, args, limits),
            }
            let Some((count, next)) = header(buf, 0).transpose()? else {
                return self.long_or_incomplete(buf, limits, ProtocolError::TooBigMultibulkCount);
            };
            let count = count.filter(|&n| n <= limits.multibulk_len_max);
            let count = count.ok_or(ProtocolError::InvalidMultibulkLength)?;
            if limits.unauthenticated && count > UNAUTHENTICATED_MULTIBULK_LEN_MAX {
                return Err(ProtocolError::UnauthenticatedMultibulkLength);
            }
            if count <= 0 {
                return Ok(Decoded::Nothing { len: next });
            }
            self.missing = count as u32;
            self.pos = next;
        }
        self.decode_bulks(buf, args, limits)
    }

    #[inline]
    fn decode_bulks(
        &mut self,
        buf: &[u8],
        args: &mut Vec<ArgRange>,
        limits: &Limits,
    ) -> Result<Decoded, ProtocolError> {
        let first = args.len();
        if !self.partial.is_empty() {
            self.resume(args);
        }
        while self.missing > 0 {
            let len = match self.bulk_len {
                Some(len) => len,
                None => match self.bulk_header(buf, limits) {
                    Ok(Some(len)) => len,
                    Ok(None) => {
                        self.suspend(args, first);
                        return Ok(Decoded::Incomplete);
                    }
                    Err(error) => {
                        args.truncate(first);
                        return Err(error);
                    }
                },
            };
            if buf.len() < self.pos + len + 2 {
                self.bulk_len = Some(len);
                self.suspend(args, first);
                if len >= limits.big_bulk_len_min {
                    return Ok(Decoded::NeedBulk { at: self.pos, len });
                }
                return Ok(Decoded::Incomplete);
            }
            if self.pos + len >= OWNED as usize {
                args.truncate(first);
                return Err(ProtocolError::TooBigCommand);
            }
            args.push(ArgRange::new(self.pos, len));
            self.pos += len + 2;
            self.bulk_len = None;
            self.missing -= 1;
        }
        let len = self.pos;
        self.pos = 0;
        if self.partial.capacity() > PARTIAL_KEPT_MAX {
            cold_path();
            self.partial = Vec::new();
        }
        Ok(Decoded::Command { len })
    }

    /// Goes on with the kept arguments of the present command.
    fn resume(&mut self, args: &mut Vec<ArgRange>) {
        if args.is_empty() {
            // A swap avoids a copy at every read if a command has very many arguments.
            std::mem::swap(args, &mut self.partial);
        } else {
            args.append(&mut self.partial);
        }
    }

    /// Keeps the arguments from `first` on until more bytes arrive.
    fn suspend(&mut self, args: &mut Vec<ArgRange>, first: usize) {
        if first == 0 && args.len() > PARTIAL_KEPT_MAX {
            std::mem::swap(args, &mut self.partial);
            args.clear();
        } else {
            self.partial.extend(args.drain(first..));
        }
    }

    /// The `$` line at the present position: the length it announces, `None` if the line is incomplete.
    #[inline]
    fn bulk_header(&mut self, buf: &[u8], limits: &Limits) -> Result<Option<usize>, ProtocolError> {
        let Some((len, next)) = header(buf, self.pos).transpose()? else {
            if buf.len() - self.pos.min(buf.len()) > limits.inline_len_max
                && find_line_end(b'\r', &buf[self.pos..]).is_none()
            {
                return Err(ProtocolError::TooBigBulkCount);
            }
            return Ok(None);
        };
        if buf[self.pos] != b'$' {
            return Err(ProtocolError::ExpectedDollar(buf[self.pos]));
        }
        let len = len.filter(|&n| n >= 0 && n <= limits.bulk_len_max).ok_or(ProtocolError::InvalidBulkLength)?;
        if limits.unauthenticated && len > UNAUTHENTICATED_BULK_LEN_MAX {
            return Err(ProtocolError::UnauthenticatedBulkLength);
        }
        self.pos = next;
        Ok(Some(len as usize))
    }

    fn long_or_incomplete(&self, buf: &[u8], limits: &Limits, error: ProtocolError) -> Result<Decoded, ProtocolError> {
        if buf.len() > limits.inline_len_max && find_line_end(b'\r', buf).is_none() {
            return Err(error);
        }
        Ok(Decoded::Incomplete)
    }

    #[cold]
    fn decode_inline(
        &mut self,
        buf: &[u8],
        args: &mut Vec<ArgRange>,
        limits: &Limits,
    ) -> Result<Decoded, ProtocolError> {
        if buf.starts_with(TLS_HANDSHAKE) {
            // The client waits for an answer, and may never send the end of a line.
            return Err(ProtocolError::Tls);
        }
        let Some(end) = find_line_end(b'\n', buf) else {
            if buf.len() > limits.inline_len_max {
                return Err(ProtocolError::TooBigInline);
            }
            return Ok(Decoded::Incomplete);
        };
        let line = &buf[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let len = end + 1;
        match split_inline(line).ok_or(ProtocolError::UnbalancedQuotes)? {
            InlineArgs::Plain(words) if words.is_empty() => return Ok(Decoded::Nothing { len }),
            InlineArgs::Quoted(words) if words.is_empty() => return Ok(Decoded::Nothing { len }),
            InlineArgs::Plain(words) => {
                args.extend(words.iter().map(|&(start, end)| ArgRange::new(start, end - start)));
            }
            InlineArgs::Quoted(words) => {
                args.extend((0..words.len()).map(ArgRange::owned));
                self.owned = words.into_iter().map(Arc::new).collect();
            }
        }
        Ok(Decoded::Command { len })
    }
}

/// Decodes a complete command of at most nine arguments of at most 99 bytes each, which is within every limit: nearly
/// all commands of nearly all pipelines. For anything else it returns `None` and leaves `args` as it was.
#[inline]
fn decode_short(buf: &[u8], args: &mut Vec<ArgRange>) -> Option<usize> {
    let &[b'*', count @ b'1'..=b'9', b'\r', _, ..] = buf else { return None };
    let first = args.len();
    let mut pos = 4;
    for _ in b'0'..count {
        let (len, start) = match buf.get(pos..pos + 6) {
            Some(&[b'$', a @ b'0'..=b'9', b'\r', _, _, _]) => ((a - b'0') as usize, pos + 4),
            Some(&[b'$', a @ b'1'..=b'9', b @ b'0'..=b'9', b'\r', _, _]) => {
                ((a - b'0') as usize * 10 + (b - b'0') as usize, pos + 5)
            }
            _ => {
                cold_path();
                args.truncate(first);
                return None;
            }
        };
        pos = start + len + 2;
        if pos > buf.len() {
            cold_path();
            args.truncate(first);
            return None;
        }
        args.push(ArgRange::new(start, len));
    }
    Some(pos)
}

/// A complete header line: its number (`None` if it is not one) and the position after the line.
type Header = (Option<i64>, usize);

/// The line at `pos`: a type byte, a number, CR and any byte (as in Redis, which takes it for LF).
#[inline]
fn header(buf: &[u8], pos: usize) -> Option<Result<Header, ProtocolError>> {
    // Nearly every header has one or two digits.
    if let Some(&[_, a, b'\r', _]) = buf.get(pos..pos + 4)
        && a.is_ascii_digit()
    {
        return Some(Ok((Some(i64::from(a - b'0')), pos + 4)));
    }
    if let Some(&[_, a, b, b'\r', _]) = buf.get(pos..pos + 5)
        && a.is_ascii_digit()
        && a != b'0'
        && b.is_ascii_digit()
    {
        return Some(Ok((Some(i64::from(a - b'0') * 10 + i64::from(b - b'0')), pos + 5)));
    }
    long_header(buf, pos)
}

/// Where a line ends. A line with a NUL in it has no end, as in Redis, which searches with C's `strchr`: the decoder
/// waits for more bytes up to the limit of a line.
fn find_line_end(end: u8, bytes: &[u8]) -> Option<usize> {
    memchr::memchr2(end, 0, bytes).filter(|&at| bytes[at] == end)
}

fn long_header(buf: &[u8], pos: usize) -> Option<Result<Header, ProtocolError>> {
    let rest = buf.get(pos..)?;
    let end = find_line_end(b'\r', rest)?;
    if end + 1 >= rest.len() {
        return None;
    }
    let number = rest.get(1..end).and_then(parse_i64);
    Some(Ok((number, pos + end + 2)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Commands = Vec<Vec<Vec<u8>>>;

    /// Feeds a stream in the given pieces as a connection does and collects the commands.
    fn feed(stream: &[u8], cuts: &[usize], limits: &Limits) -> (Commands, Option<ProtocolError>) {
        let mut decoder = Decoder::new();
        let (mut commands, mut buf, mut args) = (Vec::new(), Vec::new(), Vec::new());
        let mut rest = stream;
        let mut cuts = cuts.iter().cycle();
        let mut big: Option<(Vec<u8>, usize)> = None;
        loop {
            if let Some((mut held, len)) = big.take() {
                let take = (len + 2 - held.len()).min(rest.len());
                held.extend_from_slice(&rest[..take]);
                rest = &rest[take..];
                if held.len() < len + 2 {
                    return (commands, None);
                }
                held.truncate(len);
                decoder.supply_owned(held);
            }
            args.clear();
            match decoder.decode(&buf, &mut args, limits) {
                Ok(Decoded::Command { len }) => {
                    let owned = decoder.take_owned();
                    commands.push(args.iter().map(|arg| arg.of(&buf, &owned).to_vec()).collect());
                    buf.drain(..len);
                }
                Ok(Decoded::Nothing { len }) => drop(buf.drain(..len)),
                Ok(Decoded::NeedBulk { at, len }) => {
                    big = Some((buf.split_off(at), len));
                }
                Ok(Decoded::Incomplete) if rest.is_empty() => return (commands, None),
                Ok(Decoded::Incomplete) => {
                    let take = (*cuts.next().unwrap()).clamp(1, rest.len());
                    buf.extend_from_slice(&rest[..take]);
                    rest = &rest[take..];
                }
                Err(error) => return (commands, Some(error)),
            }
        }
    }

    fn whole(stream: &[u8]) -> (Commands, Option<ProtocolError>) {
        feed(stream, &[usize::MAX], &Limits::default())
    }

    fn encode(command: &[Vec<u8>]) -> Vec<u8> {
        let mut out = format!("*{}\r\n", command.len()).into_bytes();
        for arg in command {
            out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            out.extend_from_slice(arg);
            out.extend_from_slice(b"\r\n");
        }
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        #[test]
        fn decoding_does_not_depend_on_the_cuts(
            commands in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..6), 0..20),
            cuts in prop::collection::vec(1usize..64, 1..20),
            big_bulk_len_min in 16usize..300,
        ) {
            let stream: Vec<u8> = commands.iter().flat_map(|command| encode(command)).collect();
            let limits = Limits { big_bulk_len_min, ..Limits::default() };
            prop_assert_eq!(feed(&stream, &cuts, &limits), (commands, None));
        }

        #[test]
        fn any_bytes_give_the_same_answer_whole_and_cut(
            stream in prop::collection::vec(
                prop_oneof![Just(b'*'), Just(b'$'), Just(b'\r'), Just(b'\n'), Just(b'1'), Just(b'3'), Just(b'"'), any::<u8>()], 0..200),
            cuts in prop::collection::vec(1usize..16, 1..20),
        ) {
            prop_assert_eq!(feed(&stream, &cuts, &Limits::default()), whole(&stream));
        }
    }

    #[test]
    fn inline_and_multibulk_mix() {
        let (commands, error) = whole(b"PING\r\n*1\r\n$4\r\nPING\r\n\r\n*0\r\n*-1\r\nECHO \"a b\"\nGET x\n");
        assert_eq!(error, None);
        let commands: Vec<String> = commands
            .iter()
            .map(|c| c.iter().map(|a| String::from_utf8_lossy(a)).collect::<Vec<_>>().join("|"))
            .collect();
        assert_eq!(commands, ["PING", "PING", "ECHO|a b", "GET|x"]);
    }

    #[test]
    fn protocol_errors_carry_the_texts_of_redis() {
        for (stream, text) in [
            (&b"*a\r\n"[..], "Protocol error: invalid multibulk length"),
            (b"*3000000000\r\n", "Protocol error: invalid multibulk length"),
            (b"*1\r\n+OK\r\n", "Protocol error: expected '$', got '+'"),
            (b"*1\r\n$-1\r\n", "Protocol error: invalid bulk length"),
            (b"*1\r\n$536870913\r\n", "Protocol error: invalid bulk length"),
            (b"GET \"a\r\n", "Protocol error: unbalanced quotes in request"),
            (b"\x16\x03\x01", "Protocol error: this port does not speak TLS"),
        ] {
            assert_eq!(whole(stream).1.map(|e| e.to_string()).as_deref(), Some(text));
        }
        let long = vec![b'1'; 70_000];
        assert_eq!(whole(&[b"*", &long[..]].concat()).1, Some(ProtocolError::TooBigMultibulkCount));
        assert_eq!(whole(&[b"*1\r\n$", &long[..]].concat()).1, Some(ProtocolError::TooBigBulkCount));
        assert_eq!(whole(&long).1, Some(ProtocolError::TooBigInline));
    }

    #[test]
    fn unauthenticated_connections_have_tight_limits() {
        let limits = Limits { unauthenticated: true, ..Limits::default() };
        let many = feed(b"*11\r\n", &[100], &limits).1;
        assert_eq!(many, Some(ProtocolError::UnauthenticatedMultibulkLength));
        let long = feed(b"*1\r\n$16385\r\n", &[100], &limits).1;
        assert_eq!(long, Some(ProtocolError::UnauthenticatedBulkLength));
    }

    #[test]
    fn a_line_with_a_nul_is_waited_for_up_to_the_limit() {
        let limits = Limits { inline_len_max: 20, ..Limits::default() };
        let (inline, multibulk, bulk) =
            (ProtocolError::TooBigInline, ProtocolError::TooBigMultibulkCount, ProtocolError::TooBigBulkCount);
        for (line, error) in [("PING\0\r\n", inline), ("*1\0\r\n", multibulk), ("*1\r\n$4\0\r\n", bulk)] {
            let short = format!("{line}PING\r\n");
            assert_eq!(feed(short.as_bytes(), &[100], &limits), (vec![], None), "{line:?}");
            let long = format!("{line}{}", "x".repeat(20));
            assert_eq!(feed(long.as_bytes(), &[100], &limits), (vec![], Some(error)), "{line:?}");
        }
    }

    #[test]
    fn an_unexpected_byte_is_quoted_as_it_came() {
        assert_eq!(ProtocolError::ExpectedDollar(0xff).to_bytes(), b"Protocol error: expected '$', got '\xff'");
    }
}

//! Replies as values of the caller's type.

use std::borrow::Cow;

use crate::element::{AggregateKind, BulkKind, Head, ReplyError, Scalar, short_head};
use crate::read::{LINE_END, OK, ReplyReader, ReplyVisitor};

/// Elements and bytes for which room is made in advance; more room is made as they arrive.
const RESERVED_ITEMS_MAX: usize = 128;
const RESERVED_BYTES_MAX: usize = 64 << 10;

/// A type that replies are turned into.
pub trait FromReply: Sized {
    /// An element of one line.
    fn scalar(scalar: Scalar<'_>) -> Self;

    /// The status `OK`, which most replies are.
    #[inline]
    fn okay() -> Self {
        Self::scalar(Scalar::Status(b"OK"))
    }

    /// A string; owned if it came in pieces.
    fn bulk(kind: BulkKind, bytes: Cow<'_, [u8]>) -> Self;

    /// An aggregate of any kind but [`Attribute`](AggregateKind::Attribute). A map's keys and values come in turns.
    fn aggregate(kind: AggregateKind, elements: Vec<Self>) -> Self;

    /// An element with attributes, whose keys and values come in turns. By default the attributes are dropped.
    fn attributed(self, attributes: Vec<Self>) -> Self {
        drop(attributes);
        self
    }
}

/// Turns bytes that arrive in pieces into replies of type `R`, in time linear in their length.
#[derive(Debug)]
pub struct ReplyDecoder<R> {
    reader: ReplyReader,
    builder: Builder<R>,
}

/// Aggregates that have begun, and the string that has.
#[derive(Debug)]
struct Builder<R> {
    open: Vec<Open<R>>,
    bulk: Vec<u8>,
    /// The length that `bulk` will have.
    bulk_len: usize,
    whole: Option<R>,
}

#[derive(Debug)]
struct Open<R> {
    /// Whether the elements are attributes of the next element.
    are_attributes: bool,
    elements: Vec<R>,
}

impl<R> Default for ReplyDecoder<R> {
    fn default() -> ReplyDecoder<R> {
        let builder = Builder { open: Vec::new(), bulk: Vec::new(), bulk_len: 0, whole: None };
        ReplyDecoder { reader: ReplyReader::new(), builder }
    }
}

impl<R: FromReply> ReplyDecoder<R> {
    /// A decoder at the start of a reply.
    pub fn new() -> ReplyDecoder<R> {
        ReplyDecoder::default()
    }

    /// Reads from `input[*at..]` and moves `at` to the first unread byte. `None` if no reply ended: all of the input
    /// was read, and the next call goes on with the bytes that follow.
    ///
    /// # Errors
    /// As [`ReplyReader::read`].
    #[inline(always)]
    pub fn next(&mut self, input: &[u8], at: &mut usize) -> Result<Option<R>, ReplyError> {
        let usual = if self.reader.is_between() { usual(&input[*at..]) } else { None };
        if let Some((reply, len)) = usual {
            *at += len;
            return Ok(Some(reply));
        }
        self.next_of_any_kind(input, at)
    }

    /// Skips up to `max` statuses `OK` that are whole replies, and moves `at` past them; returns how many they were.
    #[inline]
    pub fn okays(&self, input: &[u8], at: &mut usize, max: usize) -> usize {
        if !self.reader.is_between() {
            return 0;
        }
        let okays = input[*at..].chunks_exact(OK.len()).take(max).take_while(|reply| *reply == OK).count();
        *at += okays * OK.len();
        okays
    }

    /// Skips up to `max` whole replies that are the status `OK` or a short integer, and moves `at` past them; returns how
    /// many they were.
    #[inline]
    pub fn small(&self, input: &[u8], at: &mut usize, max: usize) -> usize {
        if !self.reader.is_between() {
            return 0;
        }
        let (mut rest, mut count) = (&input[*at..], 0);
        while count < max {
            let Some(behind) = rest.strip_prefix(OK).or_else(|| behind_integer(rest)) else { break };
            (rest, count) = (behind, count + 1);
        }
        *at = input.len() - rest.len();
        count
    }

    #[inline(never)]
    fn next_of_any_kind(&mut self, input: &[u8], at: &mut usize) -> Result<Option<R>, ReplyError> {
        let ended = self.reader.read(input, at, &mut self.builder)?;
        Ok(ended.and_then(|_| self.builder.whole.take()))
    }
}

/// A reply of one of the kinds that most replies are, and its length: the status `OK`, an integer, or a string that is
/// there as a whole. `None` for all others.
#[inline(always)]
fn usual<R: FromReply>(input: &[u8]) -> Option<(R, usize)> {
    match input.first()? {
        b'+' => input.starts_with(OK).then(|| (R::okay(), OK.len())),
        b':' | b'$' => match short_head(input)? {
            (Head::Scalar(scalar), len) => Some((R::scalar(scalar), len)),
            (Head::Bulk(kind, len), from) => {
                let bytes = input.get(from..from.checked_add(len)?)?;
                let ends = input[from + len..].starts_with(LINE_END);
                ends.then(|| (R::bulk(kind, Cow::Borrowed(bytes)), from + len + LINE_END.len()))
            }
            (Head::Aggregate(..), _) => None,
        },
        _ => None,
    }
}

/// What follows an integer of at most 18 digits, without a sign, that is there as a whole; `None` for anything else.
#[inline(always)]
fn behind_integer(input: &[u8]) -> Option<&[u8]> {
    let digits = input.strip_prefix(b":")?;
    let mut count = 0;
    while let Some(eight) = digits[count..].first_chunk::<8>() {
        let found = leading_digits(*eight);
        count += found;
        if found < 8 {
            break;
        }
        if count > 16 {
            return None;
        }
    }
    if count == 0 || count > 18 {
        return None;
    }
    digits[count..].strip_prefix(LINE_END)
}

/// How many of the bytes before the first other one are digits.
#[inline(always)]
fn leading_digits(bytes: [u8; 8]) -> usize {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let zeroed = u64::from_le_bytes(bytes) ^ (EACH * u64::from(b'0'));
    // Only a digit leaves the highest bit of its byte unset: 9 + 0x76 = 0x7f. No sum carries into the next byte.
    let others = (((zeroed & (EACH * 0x7f)) + EACH * 0x76) | zeroed) & (EACH * 0x80);
    others.trailing_zeros() as usize / 8
}

impl<R: FromReply> Builder<R> {
    #[inline]
    fn add(&mut self, mut reply: R) {
        while let Some(innermost) = self.open.last_mut() {
            if !innermost.are_attributes {
                return innermost.elements.push(reply);
            }
            reply = reply.attributed(std::mem::take(&mut innermost.elements));
            self.open.pop();
        }
        self.whole = Some(reply);
    }
}

impl<R: FromReply> ReplyVisitor for Builder<R> {
    #[inline]
    fn scalar(&mut self, scalar: Scalar<'_>) {
        self.add(R::scalar(scalar));
    }

    #[inline]
    fn bulk(&mut self, kind: BulkKind, bytes: &[u8]) {
        self.add(R::bulk(kind, Cow::Borrowed(bytes)));
    }

    fn bulk_begins(&mut self, _: BulkKind, len: usize) {
        self.bulk_len = len;
        self.bulk = Vec::with_capacity(len.min(RESERVED_BYTES_MAX));
    }

    fn bulk_part(&mut self, part: &[u8]) {
        let (len, missing) = (self.bulk.len(), self.bulk_len - self.bulk.len());
        if self.bulk.capacity() - len < part.len() {
            // Room for twice the bytes so far, and never for more than will come.
            self.bulk.reserve_exact(missing.min(len.max(part.len())));
        }
        self.bulk.extend_from_slice(part);
    }

    fn bulk_ends(&mut self, kind: BulkKind) {
        let bytes = std::mem::take(&mut self.bulk);
        self.add(R::bulk(kind, Cow::Owned(bytes)));
    }

    fn open(&mut self, _: AggregateKind, len: usize) {
        self.open.push(Open { are_attributes: false, elements: Vec::with_capacity(len.min(RESERVED_ITEMS_MAX)) });
    }

    fn close(&mut self, kind: AggregateKind) {
        if kind == AggregateKind::Attribute {
            if let Some(innermost) = self.open.last_mut() {
                innermost.are_attributes = true;
            }
            return;
        }
        if let Some(Open { elements, .. }) = self.open.pop() {
            self.add(R::aggregate(kind, elements));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reply that has only the size of its buffer.
    #[derive(Debug)]
    struct Room(usize);

    impl FromReply for Room {
        fn scalar(_: Scalar<'_>) -> Room {
            Room(0)
        }

        fn bulk(_: BulkKind, bytes: Cow<'_, [u8]>) -> Room {
            Room(bytes.into_owned().capacity())
        }

        fn aggregate(_: AggregateKind, elements: Vec<Room>) -> Room {
            Room(elements.capacity())
        }
    }

    #[test]
    fn memory_is_taken_as_bytes_arrive() {
        let mut decoder = ReplyDecoder::<Room>::new();
        assert!(decoder.next(b"*4000000000\r\n$4000000000\r\nabc", &mut 0).unwrap().is_none());
        assert!(decoder.builder.open[0].elements.capacity() <= RESERVED_ITEMS_MAX);
        for piece in 0..1_000 {
            assert!(decoder.next(&[b'x'; 1_000], &mut 0).unwrap().is_none());
            assert!(decoder.builder.bulk.capacity() <= RESERVED_BYTES_MAX.max(2 * (piece + 1) * 1_000 + 6));
        }
    }

    #[test]
    fn statuses_are_skipped_only_between_replies_and_only_so_many() {
        let mut decoder = ReplyDecoder::<Room>::new();
        let mut at = 0;
        assert_eq!(decoder.okays(b"+OK\r\n+OK\r\n+OK\r\n", &mut at, 2), 2);
        assert_eq!((at, decoder.okays(b"+OK\r\n:1\r\n", &mut 0, 9)), (10, 1));
        assert_eq!((decoder.okays(b"+OKAY\r\n", &mut 0, 9), decoder.okays(b"+OK\r", &mut 0, 9)), (0, 0));
        assert!(decoder.next(b"$10\r\n", &mut 0).unwrap().is_none());
        assert_eq!(decoder.okays(b"+OK\r\n+OK\r\n", &mut 0, 9), 0, "they belong to a string");
        assert_eq!(decoder.next(b"+OK\r\n+OK\r\n\r\n", &mut 0).unwrap().map(|room| room.0), Some(10));
    }

    #[test]
    fn small_replies_are_skipped_if_they_are_whole() {
        let small = |input: &[u8], max| {
            let mut at = 0;
            (ReplyDecoder::<Room>::new().small(input, &mut at, max), at)
        };
        let after = b":1\r\n+OK\r\n:1234567\r\n:123456789012345678\r\n$-1\r\n";
        assert_eq!(small(after, 9), (4, after.len() - 5));
        assert_eq!(small(after, 3), (3, 4 + 5 + 10));
        // What is no short integer, or not there as a whole, is left to be read.
        for other in [
            "",
            ":",
            ":\r\n        ",
            ":1",
            ":1\r",
            ":-1\r\n     ",
            ":+1\r\n     ",
            ":1x\r\n     ",
            ":1:\r\n     ",
            ":1/\r\n     ",
            ":1\u{b1}\r\n     ",
            ":1234567890123456789\r\n        ",
            ":12345678\n\r        ",
            "+OKAY\r\n",
        ] {
            assert_eq!(small(other.as_bytes(), 9), (0, 0), "{other:?}");
            assert_eq!(small(format!("+OK\r\n{other}").as_bytes(), 9), (1, 5), "{other:?}");
        }
        for number in [0, 9, 10, 99_999_999, 100_000_000, 9_999_999_999_999_999, 999_999_999_999_999_999_u64] {
            for behind in ["", ":", "+OK", "$3\r\nabc\r\n"] {
                let line = format!(":{number}\r\n{behind}");
                // Close to the end of the input it may be left to be read.
                let (count, at) = small(line.as_bytes(), 1);
                assert_eq!(at, count * (line.len() - behind.len()), "{line:?}");
                assert!(count == 1 || behind.len() < 8, "{line:?}");
            }
        }
        for byte in 0..=255u8 {
            let digits = if byte.is_ascii_digit() { 8 } else { 3 };
            assert_eq!(leading_digits([b'0', b'9', b'5', byte, b'1', b'2', b'3', b'4']), digits, "{byte}");
        }
    }

    #[test]
    fn a_string_in_pieces_takes_its_length() {
        let mut decoder = ReplyDecoder::<Room>::new();
        assert!(decoder.next(b"$1000000\r\n", &mut 0).unwrap().is_none());
        for _ in 0..1_000 {
            assert!(decoder.next(&[b'x'; 1_000], &mut 0).unwrap().is_none());
        }
        assert_eq!(decoder.next(b"\r\n", &mut 0).unwrap().map(|room| room.0), Some(1_000_000));
    }
}

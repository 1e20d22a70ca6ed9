//! The elements of replies: their types, their limits, and the line that each starts with.

use std::str::FromStr;

/// Limits of replies. Memory is allocated as bytes arrive, never by the length that a server announces.
pub mod reply_limits {
    /// Deepest nesting of aggregates, attributes included. Dropping a tree of replies recurses, so the depth has a
    /// bound.
    pub const DEPTH_MAX: usize = 128;
    /// The most elements of one aggregate; in a map, each key and each value counts.
    pub const AGGREGATE_LEN_MAX: u64 = u32::MAX as u64;
    /// The longest bulk string in bytes. Longer than `proto-max-bulk-len`, since DUMP and scripts can reply with more.
    pub const BULK_LEN_MAX: u64 = u32::MAX as u64;
    /// The longest status, error, double or big number in bytes.
    pub const LINE_LEN_MAX: usize = 16 << 20;
    /// The longest line of any other kind in bytes: more than a marker, a sign, 20 digits and the line end need.
    pub const HEADER_LEN_MAX: usize = 64;
}

/// Why bytes are not a reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyError {
    /// A reply starts with a byte that stands for no type.
    #[error("got \"{}\" as reply type byte", .0.escape_ascii())]
    Marker(u8),
    /// A line has no end within the limits, or ends without a carriage return.
    #[error("a line without an end")]
    LineEnd,
    /// A bulk string is longer or shorter than announced.
    #[error("a bulk string that does not end where it should")]
    BulkEnd,
    /// Not a number where one is required, or a number that does not fit.
    #[error("'{0}' is no number")]
    Number(String),
    /// A negative length, or one beyond the limits.
    #[error("a length of {0}")]
    Length(i64),
    /// A boolean other than `t` and `f`.
    #[error("a boolean that is neither t nor f")]
    Boolean,
    /// A null with more bytes in its line.
    #[error("a null that holds something")]
    Null,
    /// Aggregates nest too deep.
    #[error("aggregates nest deeper than {}", reply_limits::DEPTH_MAX)]
    Depth,
}

/// A reply, or an element of one, that is a single line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar<'a> {
    /// A one-line status.
    Status(&'a [u8]),
    /// A one-line error with its code.
    Error(&'a [u8]),
    /// A whole number.
    Integer(i64),
    /// A floating-point number.
    Double {
        /// As the server wrote it.
        digits: &'a [u8],
        /// Its value.
        value: f64,
    },
    /// A whole number of any size, as the server wrote it: digits, with an optional sign.
    BigNumber(&'a [u8]),
    /// True or false.
    Boolean(bool),
    /// No value, in any of the spellings of RESP2 and RESP3.
    Null,
}

/// The kind of a string with a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkKind {
    /// Bytes of any kind.
    String,
    /// An error.
    Error,
    /// Three bytes that name the format, a colon, and the text. There are at least those four bytes.
    Verbatim,
}

/// The kind of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateKind {
    /// An ordered list.
    Array,
    /// A list of distinct elements.
    Set,
    /// Keys and values in turns.
    Map,
    /// A message that answers no command, unless it is inside of another aggregate.
    Push,
    /// Keys and values in turns, about the element that follows. Not an element itself.
    Attribute,
}

/// The content of the line that an element starts with.
pub enum Head<'a> {
    /// The element is the line.
    Scalar(Scalar<'a>),
    /// A string of this many bytes follows.
    Bulk(BulkKind, usize),
    /// This many elements follow.
    Aggregate(AggregateKind, usize),
}

/// The bytes of the format of a verbatim string and its colon.
pub const VERBATIM_HEAD_LEN: usize = 4;
/// Any number of at most this many digits fits into 64 bits.
const SHORT_DIGITS_MAX: usize = 18;

pub fn is_marker(byte: u8) -> bool {
    b"+-:$*_,#(!=~%>|".contains(&byte)
}

/// The longest line with this marker, in bytes, marker included.
pub fn line_len_max(marker: u8) -> usize {
    match marker {
        b'+' | b'-' | b',' | b'(' => reply_limits::LINE_LEN_MAX,
        _ => reply_limits::HEADER_LEN_MAX,
    }
}

/// The head of a string, an array or an integer in its usual form, and its length with the end of the line. `None` for
/// any other line, and for an incomplete one.
#[inline]
pub fn short_head(input: &[u8]) -> Option<(Head<'static>, usize)> {
    let (&marker, rest) = input.split_first()?;
    if !matches!(marker, b'$' | b'*' | b':') {
        return None;
    }
    let mut number = 0;
    for (index, &byte) in rest.iter().take(SHORT_DIGITS_MAX + 1).enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            if index == 0 || byte != b'\r' || rest.get(index + 1) != Some(&b'\n') {
                return None;
            }
            let head = match marker {
                b':' => Head::Scalar(Scalar::Integer(number)),
                b'$' => Head::Bulk(BulkKind::String, within(number, reply_limits::BULK_LEN_MAX)?),
                _ => Head::Aggregate(AggregateKind::Array, within(number, reply_limits::AGGREGATE_LEN_MAX)?),
            };
            return Some((head, index + 3));
        }
        if index < SHORT_DIGITS_MAX {
            number = number * 10 + i64::from(digit);
        }
    }
    None
}

/// The head in a line. The line must come without its newline.
pub fn head(line: &[u8]) -> Result<Head<'_>, ReplyError> {
    let Some((&marker, body)) = line.split_first() else { return Err(ReplyError::Marker(b'\n')) };
    if !is_marker(marker) {
        return Err(ReplyError::Marker(marker));
    }
    if line.len() > line_len_max(marker) {
        return Err(ReplyError::LineEnd);
    }
    let body = body.strip_suffix(b"\r").ok_or(ReplyError::LineEnd)?;
    Ok(Head::Scalar(match marker {
        b'+' => Scalar::Status(body),
        b'-' => Scalar::Error(body),
        b':' => Scalar::Integer(number(body)?),
        b',' => Scalar::Double { digits: body, value: number(body)? },
        b'(' if is_whole_number(body) => Scalar::BigNumber(body),
        b'(' => return Err(no_number(body)),
        b'#' => match body {
            b"t" => Scalar::Boolean(true),
            b"f" => Scalar::Boolean(false),
            _ => return Err(ReplyError::Boolean),
        },
        b'_' if body.is_empty() => Scalar::Null,
        b'_' => return Err(ReplyError::Null),
        _ => return announced(marker, number(body)?),
    }))
}

/// What follows a line with a length.
fn announced(marker: u8, number: i64) -> Result<Head<'static>, ReplyError> {
    let is_nullable = !matches!(marker, b'>' | b'|');
    if number == -1 && is_nullable {
        return Ok(Head::Scalar(Scalar::Null));
    }
    let bulk = |kind| within(number, reply_limits::BULK_LEN_MAX).map(|len| Head::Bulk(kind, len));
    let aggregate = |kind, width: usize| {
        let len = within(number, reply_limits::AGGREGATE_LEN_MAX / width as u64)?;
        Some(Head::Aggregate(kind, len * width))
    };
    let head = match marker {
        b'$' => bulk(BulkKind::String),
        b'!' => bulk(BulkKind::Error),
        b'=' => bulk(BulkKind::Verbatim).filter(|_| number >= VERBATIM_HEAD_LEN as i64),
        b'*' => aggregate(AggregateKind::Array, 1),
        b'~' => aggregate(AggregateKind::Set, 1),
        b'>' => aggregate(AggregateKind::Push, 1),
        b'%' => aggregate(AggregateKind::Map, 2),
        _ => aggregate(AggregateKind::Attribute, 2),
    };
    head.ok_or(ReplyError::Length(number))
}

#[inline]
fn within(number: i64, max: u64) -> Option<usize> {
    u64::try_from(number).ok().filter(|&number| number <= max).and_then(|number| usize::try_from(number).ok())
}

fn number<T: FromStr>(digits: &[u8]) -> Result<T, ReplyError> {
    let parsed = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    parsed.ok_or_else(|| no_number(digits))
}

fn is_whole_number(body: &[u8]) -> bool {
    let digits = body.strip_prefix(b"-").or_else(|| body.strip_prefix(b"+")).unwrap_or(body);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

fn no_number(digits: &[u8]) -> ReplyError {
    let shown = &digits[..digits.len().min(reply_limits::HEADER_LEN_MAX)];
    ReplyError::Number(shown.escape_ascii().to_string())
}

//! Replies as the server wrote them, byte by byte.
//!
//! A client library wants numbers and text, so `onrush::Value` keeps a double as `f64` and a status as UTF-8. A command
//! line has to show what the server sent: the digits of a double, the bytes of an error. Hence a type of its own.

use std::fmt;

/// How deep aggregates may nest; dropping a reply recurses.
const DEPTH_MAX: usize = 128;
/// The longest line of a header, in bytes.
const LINE_LEN_MAX: usize = 1 << 20;
/// Room made ahead of an aggregate's elements, whatever length the server announces.
const RESERVE_MAX: usize = 1024;

/// One reply or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A one-line status.
    Status(Vec<u8>),
    /// An error with its code.
    Error(Vec<u8>),
    /// A whole number.
    Integer(i64),
    /// Bytes of any kind.
    Bulk(Vec<u8>),
    /// Text, without the three letters of its format.
    Verbatim(Vec<u8>),
    /// No value.
    Nil,
    /// A floating-point number in the server's digits.
    Double(Vec<u8>),
    /// True or false.
    Bool(bool),
    /// A whole number of any size in the server's digits.
    BigNumber(Vec<u8>),
    /// An ordered list.
    Array(Vec<Reply>),
    /// A list of distinct replies.
    Set(Vec<Reply>),
    /// Pairs.
    Map(Vec<(Reply, Reply)>),
    /// A message sent unasked.
    Push(Vec<Reply>),
}

impl Reply {
    /// The bytes of a string of any kind.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Reply::Status(text) | Reply::Bulk(text) | Reply::Verbatim(text) => Some(text),
            Reply::Double(text) | Reply::BigNumber(text) => Some(text),
            _ => None,
        }
    }

    /// The text of a string of any kind, with what is no UTF-8 replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes().unwrap_or_default()).into_owned()
    }

    /// A whole number, sent as one or as digits.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Reply::Integer(number) => Some(*number),
            other => std::str::from_utf8(other.bytes()?).ok()?.parse().ok(),
        }
    }

    /// The elements of a list of any kind.
    pub fn items(&self) -> Option<&[Reply]> {
        match self {
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => Some(items),
            _ => None,
        }
    }

    /// The pairs of a map, or of a flat list as RESP2 sends it.
    pub fn pairs(&self) -> Vec<(&Reply, &Reply)> {
        match self {
            Reply::Map(pairs) => pairs.iter().map(|(key, value)| (key, value)).collect(),
            other => other.items().unwrap_or_default().chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect(),
        }
    }

    /// The text of an error reply.
    pub fn error(&self) -> Option<String> {
        match self {
            Reply::Error(text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        }
    }
}

/// Bytes that are no RESP.
#[derive(Debug)]
pub struct Malformed(String);

impl fmt::Display for Malformed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Protocol error, {}", self.0)
    }
}

fn malformed<T>(what: impl Into<String>) -> Result<T, Malformed> {
    Err(Malformed(what.into()))
}

#[derive(Clone, Copy)]
enum Kind {
    Array,
    Set,
    Map,
    Push,
    Attribute,
}

struct Frame {
    kind: Kind,
    left: usize,
    items: Vec<Reply>,
}

enum Element {
    Whole(Reply),
    Open(Kind, usize),
}

/// Reads one reply after the other from a growing buffer, in time linear in its length. Attributes are dropped.
#[derive(Default)]
pub struct Decoder {
    stack: Vec<Frame>,
}

impl Decoder {
    /// Reads from `input[*at..]` and moves `at` past what it took. `None` means: come again with more bytes.
    ///
    /// # Errors
    /// When the bytes are no RESP; the decoder is of no more use then.
    pub fn next(&mut self, input: &[u8], at: &mut usize) -> Result<Option<Reply>, Malformed> {
        loop {
            let mut reply = match element(input, at)? {
                None => return Ok(None),
                Some(Element::Whole(reply)) => reply,
                Some(Element::Open(kind, left)) => {
                    if self.stack.len() >= DEPTH_MAX {
                        return malformed(format!("aggregates nest deeper than {DEPTH_MAX}"));
                    }
                    self.stack.push(Frame { kind, left, items: Vec::with_capacity(left.min(RESERVE_MAX)) });
                    if left > 0 {
                        continue;
                    }
                    match self.close() {
                        Some(reply) => reply,
                        None => continue,
                    }
                }
            };
            loop {
                let Some(frame) = self.stack.last_mut() else { return Ok(Some(reply)) };
                frame.items.push(reply);
                frame.left -= 1;
                if frame.left > 0 {
                    break;
                }
                match self.close() {
                    Some(closed) => reply = closed,
                    None => break,
                }
            }
        }
    }

    /// Closes the innermost aggregate; `None` for attributes, which the reply they are about follows.
    fn close(&mut self) -> Option<Reply> {
        let Frame { kind, items, .. } = self.stack.pop()?;
        Some(match kind {
            Kind::Array => Reply::Array(items),
            Kind::Set => Reply::Set(items),
            Kind::Push => Reply::Push(items),
            Kind::Map => {
                let mut items = items.into_iter();
                Reply::Map(std::iter::from_fn(|| Some((items.next()?, items.next()?))).collect())
            }
            Kind::Attribute => return None,
        })
    }
}

fn element(input: &[u8], at: &mut usize) -> Result<Option<Element>, Malformed> {
    let rest = &input[*at..];
    let Some(&marker) = rest.first() else { return Ok(None) };
    if !b"+-:$*_,#(!=~%>|".contains(&marker) {
        let shown = char::from(marker).escape_default();
        return malformed(format!("got \"{shown}\" as reply type byte"));
    }
    let Some(newline) = memchr::memchr(b'\n', rest) else {
        return if rest.len() > LINE_LEN_MAX { malformed("a line without end") } else { Ok(None) };
    };
    let line = &rest[1..newline];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line_end = *at + newline + 1;
    let whole = |reply| Ok(Some(Element::Whole(reply)));
    let taken = match marker {
        b'+' => whole(Reply::Status(line.to_vec())),
        b'-' => whole(Reply::Error(line.to_vec())),
        b':' => whole(Reply::Integer(number(line)?)),
        b'_' => whole(Reply::Nil),
        b',' => whole(Reply::Double(line.to_vec())),
        b'(' => whole(Reply::BigNumber(line.to_vec())),
        b'#' if line == b"t" || line == b"f" => whole(Reply::Bool(line == b"t")),
        b'#' => malformed("a boolean that is neither t nor f"),
        b'$' | b'!' | b'=' => return bulk(input, at, marker, line_end, number(line)?),
        _ => {
            let len = number(line)?;
            match (len, usize::try_from(len)) {
                (-1, _) => whole(Reply::Nil),
                (_, Err(_)) => malformed(format!("an aggregate of length {len}")),
                (_, Ok(len)) => Ok(Some(match marker {
                    b'*' => Element::Open(Kind::Array, len),
                    b'~' => Element::Open(Kind::Set, len),
                    b'>' => Element::Open(Kind::Push, len),
                    b'%' => Element::Open(Kind::Map, len.saturating_mul(2)),
                    _ => Element::Open(Kind::Attribute, len.saturating_mul(2)),
                })),
            }
        }
    };
    *at = line_end;
    taken
}

fn bulk(input: &[u8], at: &mut usize, marker: u8, start: usize, len: i64) -> Result<Option<Element>, Malformed> {
    if len == -1 {
        *at = start;
        return Ok(Some(Element::Whole(Reply::Nil)));
    }
    let Ok(len) = usize::try_from(len) else { return malformed(format!("a string of length {len}")) };
    let end = start.saturating_add(len);
    if input.len() < end.saturating_add(2) {
        return Ok(None);
    }
    if &input[end..end + 2] != b"\r\n" {
        return malformed("a string that does not end where it should");
    }
    let bytes = &input[start..end];
    *at = end + 2;
    Ok(Some(Element::Whole(match marker {
        b'$' => Reply::Bulk(bytes.to_vec()),
        b'!' => Reply::Error(bytes.to_vec()),
        _ => Reply::Verbatim(bytes.get(4..).unwrap_or_default().to_vec()),
    })))
}

fn number(digits: &[u8]) -> Result<i64, Malformed> {
    let parsed = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    parsed.ok_or_else(|| Malformed(format!("'{}' is no number", String::from_utf8_lossy(digits))))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(bytes: &[u8]) -> Reply {
        let mut decoder = Decoder::default();
        let mut at = 0;
        let reply = decoder.next(bytes, &mut at).unwrap().unwrap();
        assert_eq!(at, bytes.len());
        reply
    }

    #[test]
    fn every_type_decodes_to_its_bytes() {
        assert_eq!(decode(b"+\xff\r\n"), Reply::Status(b"\xff".to_vec()));
        assert_eq!(decode(b",3.10\r\n"), Reply::Double(b"3.10".to_vec()));
        assert_eq!(decode(b"=7\r\ntxt:a\nb\r\n"), Reply::Verbatim(b"a\nb".to_vec()));
        assert_eq!(decode(b"!5\r\nERR a\r\n"), Reply::Error(b"ERR a".to_vec()));
        assert_eq!(decode(b"*-1\r\n"), Reply::Nil);
        assert_eq!(decode(b"|1\r\n+k\r\n:1\r\n:2\r\n"), Reply::Integer(2));
        assert_eq!(decode(b"%1\r\n+k\r\n~1\r\n#t\r\n"), {
            Reply::Map(vec![(Reply::Status(b"k".to_vec()), Reply::Set(vec![Reply::Bool(true)]))])
        });
    }

    #[test]
    fn a_reply_cut_anywhere_comes_out_the_same() {
        let bytes = b"*3\r\n$3\r\nabc\r\n|1\r\n+a\r\n+b\r\n*1\r\n:5\r\n%1\r\n+k\r\n_\r\n";
        let expected = decode(bytes);
        for step in 1..bytes.len() {
            let (mut decoder, mut at, mut end) = (Decoder::default(), 0, 0);
            let reply = loop {
                end = (end + step).min(bytes.len());
                if let Some(reply) = decoder.next(&bytes[..end], &mut at).unwrap() {
                    break reply;
                }
            };
            assert_eq!(reply, expected, "in steps of {step}");
        }
    }

    fn wire() -> impl Strategy<Value = Vec<u8>> {
        let leaf = prop_oneof![
            "[+,(-][ -~]{0,12}\r\n".prop_map(String::into_bytes),
            any::<i64>().prop_map(|number| format!(":{number}\r\n").into_bytes()),
            prop::collection::vec(any::<u8>(), 0..30)
                .prop_map(|bytes| { [format!("${}\r\n", bytes.len()).into_bytes(), bytes, b"\r\n".to_vec()].concat() }),
            prop::sample::select(vec![&b"_\r\n"[..], b"$-1\r\n", b"*-1\r\n", b"#t\r\n"]).prop_map(<[u8]>::to_vec),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            (prop::sample::select(b"*~%>".to_vec()), prop::collection::vec(inner, 0..6)).prop_map(
                |(marker, mut parts)| {
                    if marker == b'%' && parts.len() % 2 == 1 {
                        parts.pop();
                    }
                    let len = if marker == b'%' { parts.len() / 2 } else { parts.len() };
                    [format!("{}{len}\r\n", char::from(marker)).into_bytes(), parts.concat()].concat()
                },
            )
        })
    }

    proptest! {
        /// What one reads as a reply, the other counts as one.
        #[test]
        fn decoder_and_scanner_agree(replies in prop::collection::vec(wire(), 0..8), step in 1usize..40) {
            let bytes = replies.concat();
            let (mut decoder, mut at, mut decoded) = (Decoder::default(), 0, Vec::new());
            while let Some(reply) = decoder.next(&bytes, &mut at).unwrap() {
                decoded.push(reply);
            }
            prop_assert_eq!(decoded.len(), replies.len());
            let mut scanner = crate::pipe::Scanner::new([0; 20]);
            for part in bytes.chunks(step) {
                scanner.feed(part, |_, _| ()).unwrap();
            }
            let counted = decoded.iter().filter(|reply| !matches!(reply, Reply::Push(_))).count() as u64;
            let errors = decoded.iter().filter(|reply| matches!(reply, Reply::Error(_))).count() as u64;
            prop_assert_eq!((scanner.replies, scanner.errors), (counted, errors));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(prop::sample::select(b"*$+-:%>|=!#_,(~-0123\r\nat".to_vec()), 0..60)) {
            let (mut decoder, mut at) = (Decoder::default(), 0);
            while let Ok(Some(_)) = decoder.next(&bytes, &mut at) {}
            let _ = crate::pipe::Scanner::new([0; 20]).feed(&bytes, |_, _| ());
        }
    }

    #[test]
    fn what_is_no_resp_is_an_error() {
        for bytes in [&b"hello\r\n"[..], b":x\r\n", b"$-2\r\n", b"$1\r\nabc", b"#x\r\n", b"*-7\r\n"] {
            assert!(Decoder::default().next(bytes, &mut 0).is_err(), "{bytes:?}");
        }
        assert!(Decoder::default().next(&b"*1\r\n".repeat(200), &mut 0).is_err());
    }
}

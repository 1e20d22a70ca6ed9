//! Reading replies: where a raw reply ends, what it contains, and how to show it to a person.
//!
//! Written apart from the server's own RESP code on purpose, so that one mistake cannot hide in both.

use std::fmt;

use crate::argv::quote;

/// A decoded RESP2 or RESP3 reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `+`: a status line.
    Status(Vec<u8>),
    /// `-`, or RESP3's `!`: an error line.
    Error(Vec<u8>),
    /// `:`.
    Int(i64),
    /// `$`.
    Bulk(Vec<u8>),
    /// `$-1`, `*-1` or RESP3's `_`; holds the first byte, since they are not the same on the wire.
    Null(u8),
    /// `*`.
    Array(Vec<Value>),
    /// `%`: keys and values one after the other.
    Map(Vec<(Value, Value)>),
    /// `~`.
    Set(Vec<Value>),
    /// `>`: out of band.
    Push(Vec<Value>),
    /// `,`: as it was spelled.
    Double(Vec<u8>),
    /// `#`.
    Bool(bool),
    /// `(`: as it was spelled.
    BigNumber(Vec<u8>),
    /// `=`: with its three-letter format in front.
    Verbatim(Vec<u8>),
    /// `|`: attributes and the reply they belong to.
    Attributed(Vec<(Value, Value)>, Box<Value>),
}

impl Value {
    /// Decodes one complete raw reply. Errors: bytes that are not RESP, or that do not end where the reply ends.
    pub fn parse(raw: &[u8]) -> Result<Value, String> {
        let mut rest = raw;
        let value = parse_value(&mut rest)?.ok_or("the reply is not complete")?;
        if rest.is_empty() { Ok(value) } else { Err("bytes behind the reply".into()) }
    }

    /// Whether this is an error reply.
    pub fn is_error(&self) -> bool {
        matches!(self, Value::Error(_))
    }

    /// The items of an array, set or push; `None` for anything else.
    pub fn items(&self) -> Option<&[Value]> {
        match self {
            Value::Array(items) | Value::Set(items) | Value::Push(items) => Some(items),
            _ => None,
        }
    }

    /// The bytes of a status, error, bulk, double, big number or verbatim reply.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Status(b) | Value::Error(b) | Value::Bulk(b) => Some(b),
            Value::Double(b) | Value::BigNumber(b) => Some(b),
            Value::Verbatim(b) => Some(b.get(4..).unwrap_or(b)),
            _ => None,
        }
    }

    /// The bytes as text, lossily; empty for replies without bytes.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes().unwrap_or_default()).into_owned()
    }

    /// Pairs of a map, or of a flat array of even length as RESP2 sends maps.
    pub fn pairs(&self) -> Option<Vec<(Value, Value)>> {
        match self {
            Value::Map(pairs) => Some(pairs.clone()),
            Value::Array(items) if items.len() % 2 == 0 => {
                Some(items.chunks(2).map(|p| (p[0].clone(), p[1].clone())).collect())
            }
            _ => None,
        }
    }
}

/// The length of the first complete reply in `buf`, or `None` when more bytes are needed.
///
/// A reply with attributes in front ends where the reply itself ends. Errors: bytes that are no RESP.
pub fn reply_len(buf: &[u8]) -> Result<Option<usize>, String> {
    let mut at = 0;
    let mut replies_left = 1usize;
    while replies_left > 0 {
        let Some(line_len) = buf[at..].iter().position(|&b| b == b'\n') else {
            return Ok(None);
        };
        let line = &buf[at..at + line_len + 1];
        let header = header(line)?;
        at += line.len();
        replies_left -= 1;
        match header {
            Header::Line => {}
            Header::Blob(len) => {
                if buf.len() < at + len + 2 {
                    return Ok(None);
                }
                if &buf[at + len..at + len + 2] != b"\r\n" {
                    return Err(format!("a bulk of {len} bytes does not end with CRLF"));
                }
                at += len + 2;
            }
            Header::Nested(count) => replies_left += count,
            // The attributes are followed by the reply that this one slot stands for.
            Header::Attributes(count) => replies_left += count + 1,
        }
    }
    Ok(Some(at))
}

enum Header {
    Line,
    Blob(usize),
    Nested(usize),
    Attributes(usize),
}

fn header(line: &[u8]) -> Result<Header, String> {
    let bad = || format!("no RESP: {}", quote(line, 80));
    let body = line.strip_suffix(b"\r\n").ok_or_else(bad)?;
    let (&kind, body) = body.split_first().ok_or_else(bad)?;
    if b"+-:_,#(".contains(&kind) {
        return Ok(Header::Line);
    }
    let count = number(body).ok_or_else(bad)?;
    if count == -1 && (kind == b'$' || kind == b'*') {
        return Ok(Header::Line);
    }
    let count = usize::try_from(count).map_err(|_| bad())?;
    match kind {
        b'$' | b'!' | b'=' => Ok(Header::Blob(count)),
        b'*' | b'~' | b'>' => Ok(Header::Nested(count)),
        b'%' => Ok(Header::Nested(count * 2)),
        b'|' => Ok(Header::Attributes(count * 2)),
        _ => Err(bad()),
    }
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn parse_value(rest: &mut &[u8]) -> Result<Option<Value>, String> {
    let Some(line_len) = rest.iter().position(|&b| b == b'\n') else {
        return Ok(None);
    };
    let line = &rest[..line_len + 1];
    let header = header(line)?;
    *rest = &rest[line.len()..];
    let (kind, body) = (line[0], &line[1..line.len() - 2]);
    let bad = || format!("no RESP: {}", quote(line, 80));
    Ok(Some(match header {
        Header::Line => match kind {
            b'+' => Value::Status(body.to_vec()),
            b'-' => Value::Error(body.to_vec()),
            b':' => Value::Int(number(body).ok_or_else(bad)?),
            b',' => Value::Double(body.to_vec()),
            b'(' => Value::BigNumber(body.to_vec()),
            b'#' => Value::Bool(body == b"t"),
            _ => Value::Null(kind),
        },
        Header::Blob(len) => {
            let Some(blob) = rest.get(..len) else {
                return Ok(None);
            };
            let blob = blob.to_vec();
            *rest = rest.get(len + 2..).ok_or_else(bad)?;
            match kind {
                b'$' => Value::Bulk(blob),
                b'!' => Value::Error(blob),
                _ => Value::Verbatim(blob),
            }
        }
        Header::Nested(count) => {
            let Some(items) = parse_items(rest, count)? else {
                return Ok(None);
            };
            match kind {
                b'*' => Value::Array(items),
                b'~' => Value::Set(items),
                b'>' => Value::Push(items),
                _ => Value::Map(paired(items)),
            }
        }
        Header::Attributes(count) => {
            let Some(items) = parse_items(rest, count)? else {
                return Ok(None);
            };
            let Some(value) = parse_value(rest)? else {
                return Ok(None);
            };
            Value::Attributed(paired(items), Box::new(value))
        }
    }))
}

fn parse_items(rest: &mut &[u8], count: usize) -> Result<Option<Vec<Value>>, String> {
    let mut items = Vec::new();
    for _ in 0..count {
        match parse_value(rest)? {
            Some(item) => items.push(item),
            None => return Ok(None),
        }
    }
    Ok(Some(items))
}

fn paired(items: Vec<Value>) -> Vec<(Value, Value)> {
    let mut items = items.into_iter();
    let mut pairs = Vec::new();
    while let (Some(key), Some(value)) = (items.next(), items.next()) {
        pairs.push((key, value));
    }
    pairs
}

/// One line per value, nested values indented, long strings cut.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_value(f, self, 0)
    }
}

fn write_value(f: &mut fmt::Formatter<'_>, value: &Value, depth: usize) -> fmt::Result {
    let pad = "  ".repeat(depth);
    let items = |f: &mut fmt::Formatter<'_>, name: &str, items: &[Value]| {
        write!(f, "{pad}({name} of {})", items.len())?;
        for item in items.iter().take(60) {
            writeln!(f)?;
            write_value(f, item, depth + 1)?;
        }
        if items.len() > 60 { write!(f, "\n{pad}  …") } else { Ok(()) }
    };
    let pairs = |f: &mut fmt::Formatter<'_>, name: &str, pairs: &[(Value, Value)]| {
        write!(f, "{pad}({name} of {})", pairs.len())?;
        for (key, value) in pairs.iter().take(60) {
            writeln!(f)?;
            write_value(f, key, depth + 1)?;
            writeln!(f, " =>")?;
            write_value(f, value, depth + 2)?;
        }
        Ok(())
    };
    match value {
        Value::Status(b) => write!(f, "{pad}(status) {}", quote(b, 400)),
        Value::Error(b) => write!(f, "{pad}(error) {}", quote(b, 400)),
        Value::Int(n) => write!(f, "{pad}(integer) {n}"),
        Value::Bulk(b) => write!(f, "{pad}(bulk of {}) {}", b.len(), quote(b, 400)),
        Value::Null(kind) => write!(f, "{pad}(null {})", *kind as char),
        Value::Array(i) => items(f, "array", i),
        Value::Set(i) => items(f, "set", i),
        Value::Push(i) => items(f, "push", i),
        Value::Map(p) => pairs(f, "map", p),
        Value::Double(b) => write!(f, "{pad}(double) {}", quote(b, 100)),
        Value::Bool(b) => write!(f, "{pad}(boolean) {b}"),
        Value::BigNumber(b) => write!(f, "{pad}(big number) {}", quote(b, 100)),
        Value::Verbatim(b) => write!(f, "{pad}(verbatim of {}) {}", b.len(), quote(b, 400)),
        Value::Attributed(p, v) => {
            pairs(f, "attributes", p)?;
            writeln!(f)?;
            write_value(f, v, depth)
        }
    }
}

/// Lines of a reply that are shown.
const PRETTY_LINES_MAX: usize = 80;

/// Shows a raw reply to a person; bytes that are no RESP are shown quoted.
pub fn pretty(raw: &[u8]) -> String {
    match Value::parse(raw) {
        Ok(value) => {
            let text = value.to_string();
            match text.match_indices('\n').nth(PRETTY_LINES_MAX) {
                Some((end, _)) => format!("{}\n…", &text[..end]),
                None => text,
            }
        }
        Err(reason) => format!("({reason}) {}", quote(raw, 400)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLIES: [&[u8]; 12] = [
        b"+OK\r\n",
        b"-ERR no\r\n",
        b":-12\r\n",
        b"$-1\r\n",
        b"$0\r\n\r\n",
        b"*-1\r\n",
        b"*2\r\n*1\r\n:1\r\n$2\r\n\r\n\r\n",
        b"%1\r\n+a\r\n~2\r\n#t\r\n,1.5\r\n",
        b"|1\r\n+ttl\r\n:3\r\n*1\r\n_\r\n",
        b">2\r\n+message\r\n=7\r\ntxt:abc\r\n",
        b"(123456789012345678901234567890\r\n",
        b"*0\r\n",
    ];

    #[test]
    fn a_reply_ends_exactly_where_it_ends() {
        for raw in REPLIES {
            for cut in 0..raw.len() {
                assert_eq!(reply_len(&raw[..cut]).unwrap(), None, "{}", quote(raw, 80));
            }
            let mut more = raw.to_vec();
            more.extend_from_slice(b"+next\r\n");
            assert_eq!(reply_len(&more).unwrap(), Some(raw.len()));
            Value::parse(raw).unwrap();
        }
    }

    #[test]
    fn bytes_that_are_no_resp_are_refused() {
        assert!(reply_len(b"hello\r\n").is_err());
        assert!(reply_len(b"$3\r\nabcd\r\n").is_err());
        assert!(reply_len(b"$-2\r\n").is_err());
        assert!(reply_len(b"+OK\n").is_err());
    }
}

//! Reading replies: RESP2 and RESP3, cut into reads anywhere.

use crate::error::{ErrorKind, RedisError, RedisResult, ServerError};
use crate::value::{Attribute, PushInfo, Value, VerbatimFormat};

/// How deep aggregates may nest. Dropping a [`Value`] recurses, so the depth must have a bound.
pub const DEPTH_MAX: usize = 128;
/// The longest one-line reply, in bytes.
pub const LINE_LEN_MAX: usize = 1 << 20;
/// The longest bulk string, in bytes: Redis's own limit for what a client may store.
pub const BULK_LEN_MAX: usize = 512 << 20;
/// Room made ahead of an aggregate's elements, whatever length the server announces.
const RESERVE_MAX: usize = 1024;

/// Reads one reply after the other from a growing buffer.
///
/// Elements of an aggregate are taken as they arrive, so a long reply in many reads costs time linear in its length.
#[derive(Debug, Default)]
pub struct Parser {
    stack: Vec<Frame>,
    needed: usize,
}

#[derive(Debug)]
enum Kind {
    Array,
    Set,
    Map,
    Push,
    Attribute,
    /// The reply that the pairs are about.
    Attributed(Vec<(Value, Value)>),
}

#[derive(Debug)]
struct Frame {
    kind: Kind,
    left: usize,
    items: Vec<Value>,
}

/// What one element's header says.
enum Element {
    Whole(Value),
    Open(Kind, usize),
}

fn malformed(what: impl std::fmt::Display) -> RedisError {
    RedisError::new(ErrorKind::Parse, format!("the server broke the protocol: {what}"))
}

impl Parser {
    /// A parser at the start of a reply.
    pub fn new() -> Parser {
        Parser::default()
    }

    /// Reads from `input[*at..]` and moves `at` past what it took. `None` means: come again with more bytes after the
    /// same ones. After an error the parser is of no more use.
    ///
    /// # Errors
    /// [`ErrorKind::Parse`] when the bytes are no RESP or pass a limit.
    #[inline]
    pub fn next(&mut self, input: &[u8], at: &mut usize) -> RedisResult<Option<Value>> {
        if self.stack.is_empty() && input[*at..].starts_with(b"+OK\r\n") {
            *at += 5;
            return Ok(Some(Value::Okay));
        }
        self.next_element(input, at)
    }

    /// How many bytes from `at` on the next element is known to need; 0 when not known.
    pub fn needed(&self) -> usize {
        self.needed
    }

    fn next_element(&mut self, input: &[u8], at: &mut usize) -> RedisResult<Option<Value>> {
        self.needed = 0;
        loop {
            let value = match self.element(input, at)? {
                None => return Ok(None),
                Some(Element::Whole(value)) => value,
                Some(Element::Open(kind, left)) => {
                    if self.stack.len() >= DEPTH_MAX {
                        return Err(malformed(format_args!("aggregates nest deeper than {DEPTH_MAX}")));
                    }
                    self.stack.push(Frame { kind, left, items: Vec::with_capacity(left.min(RESERVE_MAX)) });
                    if left > 0 {
                        continue;
                    }
                    match self.close() {
                        Some(value) => value,
                        None => continue,
                    }
                }
            };
            if let Some(value) = self.add(value) {
                return Ok(Some(value));
            }
        }
    }

    /// Puts a complete value into the innermost open aggregate, closing what is full; gives it back at the top.
    fn add(&mut self, mut value: Value) -> Option<Value> {
        loop {
            let Some(frame) = self.stack.last_mut() else { return Some(value) };
            frame.items.push(value);
            frame.left -= 1;
            if frame.left > 0 {
                return None;
            }
            value = self.close()?;
        }
    }

    /// Closes the innermost aggregate. `None` for an attribute, which goes on with the reply it is about.
    fn close(&mut self) -> Option<Value> {
        let Frame { kind, items, .. } = self.stack.pop()?;
        Some(match kind {
            Kind::Array => Value::Array(items),
            Kind::Set => Value::Set(items),
            Kind::Map => Value::Map(pairs(items)),
            Kind::Push => Value::Push(Box::new(PushInfo::from_parts(items))),
            Kind::Attribute => {
                self.stack.push(Frame { kind: Kind::Attributed(pairs(items)), left: 1, items: Vec::new() });
                return None;
            }
            Kind::Attributed(attributes) => {
                let data = items.into_iter().next().unwrap_or(Value::Nil);
                Value::Attribute(Box::new(Attribute { data, attributes }))
            }
        })
    }

    fn element(&mut self, input: &[u8], at: &mut usize) -> RedisResult<Option<Element>> {
        let Some(rest) = input.get(*at..) else { return Ok(None) };
        let Some((line, line_end)) = line(rest)? else { return Ok(None) };
        let Some((&marker, body)) = line.split_first() else { return Err(malformed("an empty line")) };
        let value = match marker {
            b'+' if body == b"OK" => Value::Okay,
            b'+' => Value::SimpleString(text(body)),
            b'-' => Value::ServerError(ServerError::new(text(body))),
            b':' => Value::Int(integer(body)?),
            b'$' | b'!' | b'=' => return self.bulk(marker, body, rest, line_end, at),
            b'*' | b'~' | b'%' | b'>' | b'|' => {
                let element = aggregate(marker, body)?;
                *at += line_end;
                return Ok(Some(element));
            }
            b'_' if body.is_empty() => Value::Nil,
            b'#' => match body {
                b"t" => Value::Boolean(true),
                b"f" => Value::Boolean(false),
                _ => return Err(malformed("a boolean is t or f")),
            },
            b',' => Value::Double(double(body)?),
            b'(' => big_number(body)?,
            _ => return Err(malformed(format_args!("a reply starts with '{}'", marker.escape_ascii()))),
        };
        *at += line_end;
        Ok(Some(Element::Whole(value)))
    }

    fn bulk(
        &mut self,
        marker: u8,
        len: &[u8],
        rest: &[u8],
        start: usize,
        at: &mut usize,
    ) -> RedisResult<Option<Element>> {
        let len = match integer(len)? {
            -1 if marker == b'$' => {
                *at += start;
                return Ok(Some(Element::Whole(Value::Nil)));
            }
            len => usize::try_from(len).map_err(|_| malformed("a bulk string of negative length"))?,
        };
        if len > BULK_LEN_MAX {
            return Err(malformed(format_args!("a bulk string of {len} bytes")));
        }
        let end = start + len;
        if rest.len() < end + 2 {
            self.needed = end + 2;
            return Ok(None);
        }
        if &rest[end..end + 2] != b"\r\n" {
            return Err(malformed("a bulk string without its end of line"));
        }
        let bytes = &rest[start..end];
        let value = match marker {
            b'$' => Value::BulkString(bytes.to_vec()),
            b'!' => Value::ServerError(ServerError::new(text(bytes))),
            _ => verbatim(bytes)?,
        };
        *at += end + 2;
        Ok(Some(Element::Whole(value)))
    }
}

/// The first line without its end, and where the next one starts.
#[inline]
fn line(rest: &[u8]) -> RedisResult<Option<(&[u8], usize)>> {
    match memchr::memchr(b'\r', rest) {
        Some(end) if end > LINE_LEN_MAX => Err(malformed("a line without an end")),
        Some(end) => match rest.get(end + 1) {
            Some(b'\n') => Ok(Some((&rest[..end], end + 2))),
            Some(_) => Err(malformed("a carriage return inside a line")),
            None => Ok(None),
        },
        None if rest.len() > LINE_LEN_MAX => Err(malformed("a line without an end")),
        None => Ok(None),
    }
}

fn aggregate(marker: u8, len: &[u8]) -> RedisResult<Element> {
    let len = match integer(len)? {
        -1 if marker == b'*' => return Ok(Element::Whole(Value::Nil)),
        len => usize::try_from(len).map_err(|_| malformed("an aggregate of negative length"))?,
    };
    let doubled =
        len.checked_mul(2).filter(|&len| len <= isize::MAX as usize).ok_or_else(|| malformed("an aggregate too long"));
    Ok(match marker {
        b'*' => Element::Open(Kind::Array, len),
        b'~' => Element::Open(Kind::Set, len),
        b'>' => Element::Open(Kind::Push, len),
        b'%' => Element::Open(Kind::Map, doubled?),
        _ => Element::Open(Kind::Attribute, doubled?),
    })
}

fn pairs(items: Vec<Value>) -> Vec<(Value, Value)> {
    let mut items = items.into_iter();
    std::iter::from_fn(|| Some((items.next()?, items.next()?))).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[inline]
fn integer(digits: &[u8]) -> RedisResult<i64> {
    let (negative, digits) = match digits.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, digits),
    };
    let bad = || malformed("a number that is none");
    if digits.is_empty() {
        return Err(bad());
    }
    let mut number: i64 = 0;
    for &byte in digits {
        let digit = i64::from(byte.wrapping_sub(b'0'));
        if digit > 9 {
            return Err(bad());
        }
        // Downwards, since the least number has no positive counterpart.
        number = number.checked_mul(10).and_then(|number| number.checked_sub(digit)).ok_or_else(bad)?;
    }
    if negative { Ok(number) } else { number.checked_neg().ok_or_else(bad) }
}

fn double(body: &[u8]) -> RedisResult<f64> {
    let text = std::str::from_utf8(body).map_err(|_| malformed("a double that is none"))?;
    text.parse().map_err(|_| malformed("a double that is none"))
}

fn big_number(body: &[u8]) -> RedisResult<Value> {
    let digits = body.strip_prefix(b"-").or_else(|| body.strip_prefix(b"+")).unwrap_or(body);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(malformed("a big number that is none"));
    }
    Ok(Value::BigNumber(text(body)))
}

fn verbatim(bytes: &[u8]) -> RedisResult<Value> {
    let (Some(&[a, b, c, b':']), Some(body)) = (bytes.first_chunk::<4>(), bytes.get(4..)) else {
        return Err(malformed("a verbatim string without its format"));
    };
    let format = match &[a, b, c] {
        b"txt" => VerbatimFormat::Text,
        b"mkd" => VerbatimFormat::Markdown,
        other => VerbatimFormat::Other(*other),
    };
    Ok(Value::VerbatimString { format, text: text(body) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse_all(input: &[u8]) -> RedisResult<Vec<Value>> {
        let (mut parser, mut at, mut values) = (Parser::new(), 0, Vec::new());
        while let Some(value) = parser.next(input, &mut at)? {
            values.push(value);
        }
        Ok(values)
    }

    /// Feeds the input in pieces, dropping what was taken, as a connection does.
    fn parse_cut(input: &[u8], cuts: &[usize]) -> RedisResult<Vec<Value>> {
        let (mut parser, mut values, mut held) = (Parser::new(), Vec::new(), Vec::new());
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (input.len() + 1)).collect();
        cuts.push(input.len());
        cuts.sort_unstable();
        let mut from = 0;
        for cut in cuts {
            held.extend_from_slice(&input[from..cut]);
            from = cut;
            let mut at = 0;
            while let Some(value) = parser.next(&held, &mut at)? {
                values.push(value);
            }
            held.drain(..at);
        }
        Ok(values)
    }

    fn encode(value: &Value, out: &mut Vec<u8>) {
        let line = |out: &mut Vec<u8>, text: String| out.extend_from_slice(format!("{text}\r\n").as_bytes());
        match value {
            Value::Nil => line(out, "_".into()),
            Value::Int(number) => line(out, format!(":{number}")),
            Value::BulkString(bytes) => {
                line(out, format!("${}", bytes.len()));
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
            }
            Value::SimpleString(text) => line(out, format!("+{text}")),
            Value::Okay => line(out, "+OK".into()),
            Value::ServerError(error) => line(out, format!("-{error}")),
            Value::Array(items) | Value::Set(items) => {
                let marker = if matches!(value, Value::Set(_)) { '~' } else { '*' };
                line(out, format!("{marker}{}", items.len()));
                items.iter().for_each(|item| encode(item, out));
            }
            Value::Map(pairs) => {
                line(out, format!("%{}", pairs.len()));
                for (key, value) in pairs {
                    encode(key, out);
                    encode(value, out);
                }
            }
            Value::Double(number) => line(out, format!(",{number}")),
            Value::Boolean(truth) => line(out, format!("#{}", if *truth { 't' } else { 'f' })),
            Value::BigNumber(digits) => line(out, format!("({digits}")),
            Value::VerbatimString { text, .. } => {
                line(out, format!("={}", text.len() + 4));
                line(out, format!("txt:{text}"));
            }
            Value::Push(push) => {
                line(out, format!(">{}", push.data.len() + 1));
                line(out, "$7\r\nmessage".into());
                push.data.iter().for_each(|item| encode(item, out));
            }
            Value::Attribute(attribute) => {
                line(out, format!("|{}", attribute.attributes.len()));
                for (key, value) in &attribute.attributes {
                    encode(key, out);
                    encode(value, out);
                }
                encode(&attribute.data, out);
            }
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Nil),
            Just(Value::Okay),
            any::<i64>().prop_map(Value::Int),
            proptest::collection::vec(any::<u8>(), 0..40).prop_map(Value::BulkString),
            "[a-z ]{0,9}".prop_map(Value::SimpleString),
            "ERR [a-z ]{0,9}".prop_map(|line| Value::ServerError(ServerError::new(line))),
            (-1e9..1e9f64).prop_map(Value::Double),
            any::<bool>().prop_map(Value::Boolean),
            "-?[0-9]{20,30}".prop_map(Value::BigNumber),
            "[a-z\r\n]{0,9}".prop_map(|text| Value::VerbatimString { format: VerbatimFormat::Text, text }),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            let list = proptest::collection::vec(inner.clone(), 0..6);
            let pairs = proptest::collection::vec((inner.clone(), inner.clone()), 0..4);
            prop_oneof![
                list.clone().prop_map(Value::Array),
                list.clone().prop_map(Value::Set),
                list.prop_map(|data| Value::Push(Box::new(PushInfo { kind: crate::value::PushKind::Message, data }))),
                pairs.clone().prop_map(Value::Map),
                (inner, pairs)
                    .prop_map(|(data, attributes)| Value::Attribute(Box::new(Attribute { data, attributes }))),
            ]
        })
    }

    proptest! {
        #[test]
        fn replies_read_the_same_wherever_they_are_cut(
            values in proptest::collection::vec(any_value(), 1..4),
            cuts in proptest::collection::vec(any::<usize>(), 0..12),
        ) {
            let mut bytes = Vec::new();
            values.iter().for_each(|value| {
                // "OK" as a status has its own variant.
                encode(value, &mut bytes)
            });
            prop_assert_eq!(&parse_cut(&bytes, &cuts).unwrap(), &values);
            prop_assert_eq!(&parse_all(&bytes).unwrap(), &values);
        }

        #[test]
        fn any_bytes_are_an_error_or_wait_but_never_a_panic(
            bytes in proptest::collection::vec(
                prop_oneof![any::<u8>(), proptest::sample::select(b"+-:$*~%>|_#,(=!\r\n0123".to_vec())], 0..200),
            cuts in proptest::collection::vec(any::<usize>(), 0..6),
        ) {
            let whole = parse_all(&bytes);
            let cut = parse_cut(&bytes, &cuts);
            if let (Ok(whole), Ok(cut)) = (&whole, &cut) {
                prop_assert_eq!(format!("{whole:?}"), format!("{cut:?}"));
            } else {
                prop_assert_eq!(whole.is_err(), cut.is_err());
            }
        }
    }

    #[test]
    fn nulls_of_both_protocols_are_nil() {
        assert_eq!(parse_all(b"$-1\r\n*-1\r\n_\r\n").unwrap(), vec![Value::Nil, Value::Nil, Value::Nil]);
    }

    #[test]
    fn the_least_and_the_greatest_integer_are_read() {
        let input = format!(":{}\r\n:{}\r\n:+7\r\n", i64::MIN, i64::MAX);
        let want = vec![Value::Int(i64::MIN), Value::Int(i64::MAX), Value::Int(7)];
        assert_eq!(parse_all(input.as_bytes()).unwrap(), want);
        assert!(parse_all(b":9223372036854775808\r\n").is_err());
    }

    #[test]
    fn a_claimed_length_reserves_nothing_and_too_long_a_one_is_refused() {
        assert!(parse_all(b"*9223372036854775807\r\n").unwrap().is_empty());
        assert!(parse_all(b"$9223372036854775807\r\n").is_err());
        assert!(parse_all(b"%9223372036854775807\r\n").is_err());
    }

    #[test]
    fn nesting_has_a_bound() {
        assert!(parse_all(&b"*1\r\n".repeat(DEPTH_MAX)).is_ok());
        assert!(parse_all(&b"*1\r\n".repeat(DEPTH_MAX + 1)).is_err());
    }

    #[test]
    fn special_doubles_are_read() {
        let values = parse_all(b",inf\r\n,-inf\r\n,1.5e3\r\n,nan\r\n").unwrap();
        assert_eq!(
            values[..3],
            [Value::Double(f64::INFINITY), Value::Double(f64::NEG_INFINITY), Value::Double(1500.0)]
        );
        assert!(matches!(values[3], Value::Double(number) if number.is_nan()));
    }

    #[test]
    fn an_incomplete_bulk_tells_how_many_bytes_it_needs() {
        let mut parser = Parser::new();
        assert_eq!(parser.next(b"$1000\r\nab", &mut 0), Ok(None));
        assert_eq!(parser.needed(), 1009);
    }
}

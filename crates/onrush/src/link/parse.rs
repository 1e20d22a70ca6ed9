//! Replies as [`Value`]s. Reading them is `onrush-resp`'s.

use std::borrow::Cow;

use onrush_resp::{AggregateKind, BulkKind, FromReply, ReplyDecoder, ReplyError, Scalar};

use crate::error::{ErrorKind, RedisError, RedisResult, ServerError};
use crate::values::value::{Attribute, PushInfo, Value, VerbatimFormat, pairs};

/// Reads one reply after the other from bytes that arrive in pieces, in time linear in their length.
#[derive(Debug, Default)]
pub struct Parser {
    decoder: ReplyDecoder<Value>,
}

impl Parser {
    /// A parser at the start of a reply.
    pub fn new() -> Parser {
        Parser::default()
    }

    /// Reads from `input[*at..]` and moves `at` past what it took. `None` means that all of the input was read: call it
    /// again with the bytes that follow. After an error the parser must not be used again.
    ///
    /// # Errors
    /// [`ErrorKind::Parse`] when the bytes are not RESP or pass a limit.
    #[inline(always)]
    pub fn next(&mut self, input: &[u8], at: &mut usize) -> RedisResult<Option<Value>> {
        match self.decoder.next(input, at) {
            Ok(value) => Ok(value),
            Err(error) => Err(malformed(error)),
        }
    }

    /// Skips up to `max` statuses `OK` and moves `at` past them; returns how many they were.
    #[inline]
    pub fn okays(&self, input: &[u8], at: &mut usize, max: usize) -> usize {
        self.decoder.okays(input, at, max)
    }

    /// Skips up to `max` replies that are the status `OK` or a short integer and moves `at` past them; returns how many
    /// they were.
    #[inline]
    pub(crate) fn small(&self, input: &[u8], at: &mut usize, max: usize) -> usize {
        self.decoder.small(input, at, max)
    }
}

#[cold]
fn malformed(error: ReplyError) -> RedisError {
    RedisError::new(ErrorKind::Parse, format!("the server broke the protocol: {error}"))
}

impl FromReply for Value {
    #[inline]
    fn scalar(scalar: Scalar<'_>) -> Value {
        match scalar {
            Scalar::Status(b"OK") => Value::Okay,
            Scalar::Status(line) => Value::SimpleString(text(line)),
            Scalar::Error(line) => Value::ServerError(ServerError::new(text(line))),
            Scalar::Integer(number) => Value::Int(number),
            Scalar::Double { value, .. } => Value::Double(value),
            Scalar::BigNumber(digits) => Value::BigNumber(text(digits)),
            Scalar::Boolean(truth) => Value::Boolean(truth),
            Scalar::Null => Value::Nil,
        }
    }

    #[inline]
    fn okay() -> Value {
        Value::Okay
    }

    #[inline]
    fn bulk(kind: BulkKind, bytes: Cow<'_, [u8]>) -> Value {
        match kind {
            BulkKind::String => Value::BulkString(bytes.into_owned()),
            BulkKind::Error => Value::ServerError(ServerError::new(text(&bytes))),
            BulkKind::Verbatim => verbatim(&bytes),
        }
    }

    fn aggregate(kind: AggregateKind, elements: Vec<Value>) -> Value {
        match kind {
            AggregateKind::Set => Value::Set(elements),
            AggregateKind::Map => Value::Map(pairs(elements)),
            AggregateKind::Push => Value::Push(Box::new(PushInfo::from_parts(elements))),
            AggregateKind::Array | AggregateKind::Attribute => Value::Array(elements),
        }
    }

    fn attributed(self, attributes: Vec<Value>) -> Value {
        match self {
            // A push with attributes is still a push, and an error an error.
            Value::Push(_) | Value::ServerError(_) => self,
            data => Value::Attribute(Box::new(Attribute { data, attributes: pairs(attributes) })),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Three bytes name the format; a colon follows them.
fn verbatim(bytes: &[u8]) -> Value {
    let (format, body) = bytes.split_first_chunk::<3>().unwrap_or((b"   ", bytes));
    let format = match format {
        b"txt" => VerbatimFormat::Text,
        b"mkd" => VerbatimFormat::Markdown,
        other => VerbatimFormat::Other(*other),
    };
    Value::VerbatimString { format, text: text(body.get(1..).unwrap_or_default()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_all(input: &[u8]) -> RedisResult<Vec<Value>> {
        let (mut parser, mut at, mut values) = (Parser::new(), 0, Vec::new());
        while let Some(value) = parser.next(input, &mut at)? {
            values.push(value);
        }
        Ok(values)
    }

    #[test]
    fn every_type_has_its_value() {
        let bulk = |text: &str| Value::BulkString(text.into());
        for (input, value) in [
            (&b"+OK\r\n"[..], Value::Okay),
            (b"+a\xff\r\n", Value::SimpleString("a\u{fffd}".into())),
            (b"-ERR no\r\n", Value::ServerError(ServerError::new("ERR no"))),
            (b"!6\r\nERR no\r\n", Value::ServerError(ServerError::new("ERR no"))),
            (b":-7\r\n", Value::Int(-7)),
            (b"$3\r\na\xff\n\r\n", Value::BulkString(b"a\xff\n".to_vec())),
            (b"$-1\r\n", Value::Nil),
            (b"*-1\r\n", Value::Nil),
            (b"_\r\n", Value::Nil),
            (b",1.5e3\r\n", Value::Double(1500.0)),
            (b",-inf\r\n", Value::Double(f64::NEG_INFINITY)),
            (b"#t\r\n", Value::Boolean(true)),
            (b"(-12345678901234567890\r\n", Value::BigNumber("-12345678901234567890".into())),
            (b"=7\r\ntxt:a\nb\r\n", Value::VerbatimString { format: VerbatimFormat::Text, text: "a\nb".into() }),
            (b"=4\r\nabc:\r\n", Value::VerbatimString { format: VerbatimFormat::Other(*b"abc"), text: "".into() }),
            (b"*2\r\n$1\r\na\r\n*0\r\n", Value::Array(vec![bulk("a"), Value::Array(vec![])])),
            (b"~1\r\n:1\r\n", Value::Set(vec![Value::Int(1)])),
            (b"%1\r\n$1\r\na\r\n:1\r\n", Value::Map(vec![(bulk("a"), Value::Int(1))])),
            (
                b"|1\r\n$1\r\na\r\n:1\r\n:2\r\n",
                Value::Attribute(Box::new(Attribute {
                    data: Value::Int(2),
                    attributes: vec![(bulk("a"), Value::Int(1))],
                })),
            ),
        ] {
            assert_eq!(parse_all(input), Ok(vec![value]), "{}", input.escape_ascii());
        }
        assert!(matches!(parse_all(b",nan\r\n").unwrap()[..], [Value::Double(number)] if number.is_nan()));
    }

    #[test]
    fn a_push_stays_one_with_attributes() {
        let push = PushInfo::from_parts(vec![Value::SimpleString("message".into()), Value::Int(1)]);
        let input = b"|1\r\n+a\r\n+b\r\n>2\r\n+message\r\n:1\r\n";
        assert_eq!(parse_all(input), Ok(vec![Value::Push(Box::new(push))]));
    }

    #[test]
    fn an_error_stays_one_with_attributes() {
        let error = Value::ServerError(ServerError::new("ERR no"));
        assert_eq!(parse_all(b"|1\r\n+a\r\n+b\r\n-ERR no\r\n"), Ok(vec![error]));
    }

    #[test]
    fn what_is_no_reply_is_an_error_of_its_kind() {
        let error = parse_all(b"HTTP/1.1 400\r\n").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Parse);
        assert_eq!(error.to_string(), "the server broke the protocol: got \"H\" as reply type byte");
    }
}

//! Replies as the server wrote them, byte by byte.
//!
//! A client library wants numbers and text, so `onrush::Value` keeps a double as `f64` and a status as UTF-8. A command
//! line has to show what the server sent: the digits of a double, the bytes of an error. Hence a type of its own.

use std::borrow::Cow;

use onrush_resp::{AggregateKind, BulkKind, FromReply, ReplyDecoder, Scalar};

use crate::fail::Fail;

/// Reads replies that arrive in pieces.
pub type Decoder = ReplyDecoder<Reply>;

/// The bytes that tell a verbatim string's format.
const FORMAT_LEN: usize = 4;

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

    /// A number of things; 0 if it is none.
    pub fn count(&self) -> u64 {
        self.integer().unwrap_or(0).max(0).unsigned_abs()
    }

    /// The elements of a list of any kind.
    pub fn items(&self) -> Option<&[Reply]> {
        match self {
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => Some(items),
            _ => None,
        }
    }

    /// The bytes of those elements that are strings.
    pub fn strings(&self) -> Vec<Vec<u8>> {
        self.items().unwrap_or_default().iter().filter_map(|item| item.bytes().map(<[u8]>::to_vec)).collect()
    }

    /// The pairs of a map, or of a flat list as RESP2 sends it.
    pub fn pairs(&self) -> Vec<(&Reply, &Reply)> {
        match self {
            Reply::Map(pairs) => pairs.iter().map(|(key, value)| (key, value)).collect(),
            other => other.items().unwrap_or_default().chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect(),
        }
    }

    /// The reply, unless it is an error.
    ///
    /// # Errors
    /// Its text for the user.
    pub fn granted(self) -> Result<Reply, Fail> {
        match self.error() {
            Some(error) => Err(Fail::new(format!("Error: {error}"))),
            None => Ok(self),
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

/// Attributes are dropped, as redis-cli does.
impl FromReply for Reply {
    fn scalar(scalar: Scalar<'_>) -> Reply {
        match scalar {
            Scalar::Status(text) => Reply::Status(text.to_vec()),
            Scalar::Error(text) => Reply::Error(text.to_vec()),
            Scalar::Integer(number) => Reply::Integer(number),
            Scalar::Double { digits, .. } => Reply::Double(digits.to_vec()),
            Scalar::BigNumber(digits) => Reply::BigNumber(digits.to_vec()),
            Scalar::Boolean(truth) => Reply::Bool(truth),
            Scalar::Null => Reply::Nil,
        }
    }

    fn bulk(kind: BulkKind, bytes: Cow<'_, [u8]>) -> Reply {
        match kind {
            BulkKind::String => Reply::Bulk(bytes.into_owned()),
            BulkKind::Error => Reply::Error(bytes.into_owned()),
            BulkKind::Verbatim => Reply::Verbatim(bytes.get(FORMAT_LEN..).unwrap_or_default().to_vec()),
        }
    }

    fn aggregate(kind: AggregateKind, elements: Vec<Reply>) -> Reply {
        match kind {
            AggregateKind::Set => Reply::Set(elements),
            AggregateKind::Push => Reply::Push(elements),
            AggregateKind::Map => {
                let mut elements = elements.into_iter();
                Reply::Map(std::iter::from_fn(|| Some((elements.next()?, elements.next()?))).collect())
            }
            AggregateKind::Array | AggregateKind::Attribute => Reply::Array(elements),
        }
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(decode(b"(12345678901234567890\r\n"), Reply::BigNumber(b"12345678901234567890".to_vec()));
        assert_eq!(decode(b"=7\r\ntxt:a\nb\r\n"), Reply::Verbatim(b"a\nb".to_vec()));
        assert_eq!(decode(b"!5\r\nERR a\r\n"), Reply::Error(b"ERR a".to_vec()));
        assert_eq!(decode(b"*-1\r\n"), Reply::Nil);
        assert_eq!(decode(b"|1\r\n+k\r\n:1\r\n:2\r\n"), Reply::Integer(2));
        assert_eq!(decode(b">1\r\n$1\r\na\r\n"), Reply::Push(vec![Reply::Bulk(b"a".to_vec())]));
        assert_eq!(decode(b"%1\r\n+k\r\n~1\r\n#t\r\n"), {
            Reply::Map(vec![(Reply::Status(b"k".to_vec()), Reply::Set(vec![Reply::Bool(true)]))])
        });
    }
}

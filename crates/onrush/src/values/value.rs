//! Replies: the types of RESP2 and RESP3 as one enum.

use std::fmt::{self, Write as _};

use crate::error::{ErrorKind, RedisError, RedisResult, ServerError};

/// One reply, or a part of one.
///
/// RESP2 servers use the first seven kinds only; the rest are RESP3's. An error inside an aggregate (one command of a
/// transaction, say) stays where it is as [`Value::ServerError`]; an error as a whole reply becomes a [`RedisError`]
/// wherever this library returns a `Result`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// No value: a null bulk, a null array or RESP3's null.
    Nil,
    /// A whole number.
    Int(i64),
    /// Bytes of any kind.
    BulkString(Vec<u8>),
    /// A one-line status other than `OK`.
    SimpleString(String),
    /// The status `OK`.
    Okay,
    /// An ordered list of replies.
    Array(Vec<Value>),
    /// An error, with its code and text.
    ServerError(ServerError),
    /// Pairs in the server's order.
    Map(Vec<(Value, Value)>),
    /// A list of distinct replies.
    Set(Vec<Value>),
    /// A floating-point number.
    Double(f64),
    /// True or false.
    Boolean(bool),
    /// A whole number too big for 64 bits, as its decimal digits.
    BigNumber(String),
    /// Text with a hint how to show it.
    VerbatimString {
        /// How to show the text.
        format: VerbatimFormat,
        /// The text itself.
        text: String,
    },
    /// A message the server sent unasked.
    Push(Box<PushInfo>),
    /// A reply with pairs of information about it.
    Attribute(Box<Attribute>),
}

/// How to show a [`Value::VerbatimString`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VerbatimFormat {
    /// `txt`: plain text.
    Text,
    /// `mkd`: Markdown.
    Markdown,
    /// Any other three bytes.
    Other([u8; 3]),
}

/// A message the server sent unasked: pub/sub, invalidation of cached keys, and the like.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PushInfo {
    /// What it tells.
    pub kind: PushKind,
    /// The parts after the kind.
    pub data: Vec<Value>,
}

/// What a push message tells.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PushKind {
    /// The connection was lost; messages from here to [`Resubscribed`](PushKind::Resubscribed) may be missing. Made by
    /// the client.
    Disconnection,
    /// The connection was made again, and with it all subscriptions that the server has not refused. Made by the
    /// client.
    Resubscribed,
    /// This receiver fell behind and that many messages were dropped. Made by the client.
    Lagged(u64),
    /// Keys this client may have cached have changed; no data means all keys.
    Invalidate,
    /// A message on a channel.
    Message,
    /// A message on a channel matching a pattern.
    PMessage,
    /// A message on a shard channel.
    SMessage,
    /// Confirms a subscription to a channel.
    Subscribe,
    /// Confirms the end of a subscription to a channel. When the server refuses to make a subscription again after a
    /// reconnect, the client makes this message, or the one for patterns or shard channels, with the error after the
    /// name.
    Unsubscribe,
    /// Confirms a subscription to a pattern.
    PSubscribe,
    /// Confirms the end of a subscription to a pattern.
    PUnsubscribe,
    /// Confirms a subscription to a shard channel.
    SSubscribe,
    /// Confirms the end of a subscription to a shard channel.
    SUnsubscribe,
    /// Anything else, by the server's name for it.
    Other(Box<str>),
}

/// A reply with information about it (RESP3's attribute type).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Attribute {
    /// The reply.
    pub data: Value,
    /// The information.
    pub attributes: Vec<(Value, Value)>,
}

impl PushKind {
    /// The kind by the server's name for it.
    pub(crate) fn from_name(name: &[u8]) -> PushKind {
        match name {
            b"invalidate" => PushKind::Invalidate,
            b"message" => PushKind::Message,
            b"pmessage" => PushKind::PMessage,
            b"smessage" => PushKind::SMessage,
            b"subscribe" => PushKind::Subscribe,
            b"unsubscribe" => PushKind::Unsubscribe,
            b"psubscribe" => PushKind::PSubscribe,
            b"punsubscribe" => PushKind::PUnsubscribe,
            b"ssubscribe" => PushKind::SSubscribe,
            b"sunsubscribe" => PushKind::SUnsubscribe,
            other => PushKind::Other(String::from_utf8_lossy(other).into()),
        }
    }

    /// Whether it tells that a subscription has begun or ended.
    pub(crate) fn is_confirmation(&self) -> bool {
        use PushKind::*;
        matches!(self, Subscribe | PSubscribe | SSubscribe | Unsubscribe | PUnsubscribe | SUnsubscribe)
    }

    /// Whether the server sends it unasked, any number of times.
    pub(crate) fn is_news(&self) -> bool {
        self.is_message() || matches!(self, PushKind::Invalidate | PushKind::Other(_))
    }

    /// Whether it carries a published message.
    pub(crate) fn is_message(&self) -> bool {
        matches!(self, PushKind::Message | PushKind::PMessage | PushKind::SMessage)
    }
}

impl PushInfo {
    /// Splits the kind off the parts of a push, or of the array that RESP2 sends instead.
    pub(crate) fn from_parts(mut parts: Vec<Value>) -> PushInfo {
        if parts.is_empty() {
            return PushInfo { kind: PushKind::Other("".into()), data: parts };
        }
        let kind = PushKind::from_name(parts.remove(0).as_bytes().unwrap_or_default());
        PushInfo { kind, data: parts }
    }
}

impl Value {
    /// The bytes of a string of any kind, else `None`.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::BulkString(bytes) => Some(bytes),
            Value::SimpleString(text) => Some(text.as_bytes()),
            Value::Okay => Some(b"OK"),
            Value::VerbatimString { text, .. } => Some(text.as_bytes()),
            Value::BigNumber(digits) => Some(digits.as_bytes()),
            Value::Attribute(attribute) => attribute.data.as_bytes(),
            _ => None,
        }
    }

    /// The elements of an array, a set or a push, the pairs of a map one after the other; `Nil` has none. Returns the
    /// value as the error if it is not an aggregate.
    pub fn into_sequence(self) -> Result<Vec<Value>, Value> {
        match self {
            Value::Array(items) | Value::Set(items) => Ok(items),
            Value::Map(pairs) => Ok(pairs.into_iter().flat_map(|(key, value)| [key, value]).collect()),
            Value::Nil => Ok(Vec::new()),
            Value::Push(push) => Ok(push.data),
            Value::Attribute(attribute) => attribute.data.into_sequence(),
            other => Err(other),
        }
    }

    /// The pairs of a map, or of a flat array of even length, as RESP2 sends maps.
    pub fn into_map(self) -> Result<Vec<(Value, Value)>, Value> {
        match self {
            Value::Map(pairs) => Ok(pairs),
            Value::Nil => Ok(Vec::new()),
            Value::Attribute(attribute) => attribute.data.into_map(),
            Value::Array(items) if items.len() % 2 == 0 => Ok(pairs(items)),
            other => Err(other),
        }
    }

    /// Turns an error at the top into `Err`; errors inside aggregates stay.
    #[inline]
    pub fn into_result(self) -> RedisResult<Value> {
        match self {
            Value::ServerError(error) => Err(error.into()),
            other => Ok(other),
        }
    }

    /// Turns the first error, at the top or in the elements of an aggregate, into `Err`.
    pub fn extract_error(self) -> RedisResult<Value> {
        match self {
            Value::ServerError(error) => Err(error.into()),
            Value::Array(items) => Self::extract_errors(items).map(Value::Array),
            Value::Set(items) => Self::extract_errors(items).map(Value::Set),
            Value::Map(pairs) => pairs
                .into_iter()
                .map(|(key, value)| Ok((key.extract_error()?, value.extract_error()?)))
                .collect::<RedisResult<_>>()
                .map(Value::Map),
            other => Ok(other),
        }
    }

    fn extract_errors(items: Vec<Value>) -> RedisResult<Vec<Value>> {
        if items.iter().any(|item| matches!(item, Value::ServerError(_) | Value::Array(_) | Value::Map(_))) {
            return items.into_iter().map(Value::extract_error).collect();
        }
        Ok(items)
    }

    /// Drops it: at once if it has no memory of its own, as most replies to writes have none.
    #[inline]
    pub(crate) fn discard(self) {
        if matches!(self, Value::Okay | Value::Nil | Value::Int(_)) {
            std::mem::forget(self);
        }
    }

    /// The memory that it takes, in bytes, without the allocator's overhead. Linear in its parts.
    #[inline]
    pub(crate) fn memory_len(&self) -> usize {
        size_of::<Value>()
            + match self {
                Value::Okay | Value::Nil | Value::Int(_) | Value::Double(_) | Value::Boolean(_) => 0,
                Value::BulkString(bytes) => bytes.len(),
                other => other.parts_len(),
            }
    }

    /// Whether a server says by it, or by a part of it as for a transaction, that it does not know a script.
    pub(crate) fn tells_unknown_script(&self) -> bool {
        match self {
            Value::ServerError(error) => error.code() == "NOSCRIPT",
            Value::Array(replies) => replies.iter().any(Value::tells_unknown_script),
            _ => false,
        }
    }

    fn parts_len(&self) -> usize {
        let all = |values: &[Value]| values.iter().map(Value::memory_len).sum::<usize>();
        let pairs = |pairs: &[(Value, Value)]| -> usize {
            pairs.iter().map(|(key, value)| key.memory_len() + value.memory_len()).sum()
        };
        match self {
            Value::SimpleString(text) | Value::BigNumber(text) | Value::VerbatimString { text, .. } => text.len(),
            Value::ServerError(error) => error.line().len(),
            Value::Array(items) | Value::Set(items) => all(items),
            Value::Map(items) => pairs(items),
            Value::Push(push) => size_of::<PushInfo>() + all(&push.data),
            Value::Attribute(attribute) => attribute.data.memory_len() + pairs(&attribute.attributes),
            _ => 0,
        }
    }

    /// A short name of the kind, for messages.
    pub(crate) fn kind_name(&self) -> &'static str {
        match self {
            Value::Nil => "nil",
            Value::Int(_) => "an integer",
            Value::BulkString(_) => "a bulk string",
            Value::SimpleString(_) | Value::Okay => "a status",
            Value::Array(_) => "an array",
            Value::ServerError(_) => "an error",
            Value::Map(_) => "a map",
            Value::Set(_) => "a set",
            Value::Double(_) => "a double",
            Value::Boolean(_) => "a boolean",
            Value::BigNumber(_) => "a big number",
            Value::VerbatimString { .. } => "a verbatim string",
            Value::Push(_) => "a push",
            Value::Attribute(_) => "an attribute",
        }
    }

    /// The error for a reply that does not fit the requested type; shows the beginning of the value, whatever its size.
    pub(crate) fn mismatch(&self, wanted: &str) -> RedisError {
        let mut shown = Shown::default();
        // Fails where it is cut.
        let _ = self.show(&mut shown);
        RedisError::new(
            ErrorKind::UnexpectedReturnType,
            format!("the reply is {}, which is no {wanted}: {}", self.kind_name(), shown.text),
        )
    }

    fn show(&self, out: &mut Shown) -> fmt::Result {
        let head = |bytes: &[u8]| bytes[..bytes.len().min(SHOWN_MAX)].escape_ascii().to_string();
        match self {
            Value::BulkString(bytes) => write!(out, "\"{}\"", head(bytes)),
            Value::SimpleString(text) | Value::BigNumber(text) | Value::VerbatimString { text, .. } => {
                out.write_str(text)
            }
            Value::Okay => out.write_str("OK"),
            Value::ServerError(error) => out.write_str(error.line()),
            Value::Array(items) | Value::Set(items) => Value::show_all(items, out),
            Value::Map(pairs) => {
                out.write_str("{")?;
                for (index, (key, value)) in pairs.iter().enumerate() {
                    out.write_str(if index == 0 { "" } else { ", " })?;
                    key.show(out)?;
                    out.write_str(": ")?;
                    value.show(out)?;
                }
                out.write_str("}")
            }
            Value::Push(push) => Value::show_all(&push.data, out),
            Value::Attribute(attribute) => attribute.data.show(out),
            Value::Nil => out.write_str("nil"),
            Value::Int(number) => write!(out, "{number}"),
            Value::Double(number) => write!(out, "{number}"),
            Value::Boolean(truth) => write!(out, "{truth}"),
        }
    }

    fn show_all(items: &[Value], out: &mut Shown) -> fmt::Result {
        out.write_str("[")?;
        for (index, item) in items.iter().enumerate() {
            out.write_str(if index == 0 { "" } else { ", " })?;
            item.show(out)?;
        }
        out.write_str("]")
    }
}

/// Every two values as a pair.
pub(crate) fn pairs(items: Vec<Value>) -> Vec<(Value, Value)> {
    let mut items = items.into_iter();
    std::iter::from_fn(|| Some((items.next()?, items.next()?))).collect()
}

/// How many characters of a value an error shows.
const SHOWN_MAX: usize = 80;

/// The beginning of what is written to it; writing more fails.
#[derive(Default)]
struct Shown {
    text: String,
    chars: usize,
}

impl fmt::Write for Shown {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        for char in more.chars() {
            if self.chars == SHOWN_MAX {
                self.text.push('…');
                return Err(fmt::Error);
            }
            self.chars += 1;
            self.text.push(char);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_fits_in_32_bytes() {
        assert!(size_of::<Value>() <= 32, "{}", size_of::<Value>());
    }

    #[test]
    fn a_flat_array_of_even_length_is_a_map() {
        let flat = Value::Array(vec![Value::Int(1), Value::Int(2)]);
        assert_eq!(flat.into_map(), Ok(vec![(Value::Int(1), Value::Int(2))]));
        assert!(Value::Array(vec![Value::Int(1)]).into_map().is_err());
    }

    #[test]
    fn an_error_inside_an_aggregate_stays_until_extracted() {
        let reply = Value::Array(vec![Value::Okay, Value::ServerError(ServerError::new("ERR no"))]);
        assert!(reply.clone().into_result().is_ok());
        assert_eq!(reply.extract_error().unwrap_err().code(), Some("ERR"));
    }

    #[test]
    fn an_error_shows_the_beginning_of_what_does_not_fit() {
        let bulk = |text: &str| Value::BulkString(text.into());
        let map = Value::Map(vec![(bulk("a"), Value::Int(1))]);
        for (value, shown) in [
            (Value::Nil, "is nil, which is no i64: nil"),
            (bulk("a\n"), "is a bulk string, which is no i64: \"a\\n\""),
            (Value::Array(vec![bulk("a"), Value::Okay, map]), "is an array, which is no i64: [\"a\", OK, {\"a\": 1}]"),
        ] {
            let error = value.mismatch("i64").to_string();
            assert!(error.ends_with(shown), "{error}");
        }
        let long = bulk(&"x".repeat(200)).mismatch("i64").to_string();
        assert!(long.ends_with(&format!(": \"{}…", "x".repeat(79))), "{long}");
    }

    #[test]
    fn what_does_not_fit_is_not_written_out_whole() {
        let large = Value::BulkString(vec![0; 64 << 20]);
        let list = Value::Array(vec![Value::Int(1); 1 << 20]);
        let started = std::time::Instant::now();
        assert!(large.mismatch("i64").to_string().len() < 300 && list.mismatch("i64").to_string().len() < 300);
        // Writing it out takes seconds.
        assert!(started.elapsed() < std::time::Duration::from_millis(100), "{:?}", started.elapsed());
    }
}

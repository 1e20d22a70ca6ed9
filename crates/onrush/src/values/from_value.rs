//! Replies as Rust values.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use crate::error::{ErrorKind, RedisError, RedisResult};
use crate::values::value::Value;

/// A type that a reply can be turned into.
///
/// An error reply never gets here: it becomes an `Err` before. Maps are accepted as RESP3 sends them and as the flat
/// arrays of RESP2; numbers also as strings, since many commands send them so.
pub trait FromRedisValue: Sized {
    /// Converts one reply.
    ///
    /// # Errors
    /// [`ErrorKind::UnexpectedReturnType`] when the reply does not fit, or the
    /// server's error when a part of the reply is one.
    fn from_redis_value(value: Value) -> RedisResult<Self>;

    /// Converts the elements of an aggregate.
    ///
    /// # Errors
    /// That of the first element that does not fit.
    fn from_redis_values(values: Vec<Value>) -> RedisResult<Vec<Self>> {
        values.into_iter().map(Self::from_redis_value).collect()
    }

    /// Turns a bulk string into a list. Only bytes can.
    #[doc(hidden)]
    fn list_from_bulk(bytes: Vec<u8>) -> Result<Vec<Self>, Vec<u8>> {
        Err(bytes)
    }
}

/// Converts one reply; the type is usually known from where the result goes.
///
/// # Errors
/// As [`FromRedisValue::from_redis_value`].
pub fn from_redis_value<T: FromRedisValue>(value: Value) -> RedisResult<T> {
    T::from_redis_value(value)
}

impl FromRedisValue for Value {
    fn from_redis_value(value: Value) -> RedisResult<Value> {
        Ok(value)
    }
}

impl FromRedisValue for () {
    fn from_redis_value(value: Value) -> RedisResult<()> {
        value.into_result().map(drop)
    }
}

fn wrong_len(len: usize, wanted: &str) -> RedisError {
    RedisError::new(ErrorKind::UnexpectedReturnType, format!("the reply has {len} elements, which makes no {wanted}"))
}

fn parse<T: std::str::FromStr>(value: &Value, wanted: &str) -> RedisResult<T> {
    let text = value.as_bytes().and_then(|bytes| std::str::from_utf8(bytes).ok());
    text.and_then(|text| text.trim().parse().ok()).ok_or_else(|| value.mismatch(wanted))
}

/// Strips attributes from a value and turns an error inside an aggregate into `Err`.
fn plain(value: Value) -> RedisResult<Value> {
    match value {
        Value::Attribute(attribute) => plain(attribute.data),
        other => other.into_result(),
    }
}

macro_rules! integers {
    ($($kind:ty)*) => {$(
        impl FromRedisValue for $kind {
            fn from_redis_value(value: Value) -> RedisResult<$kind> {
                let value = plain(value)?;
                let wanted = stringify!($kind);
                match value {
                    Value::Int(number) => <$kind>::try_from(number).map_err(|_| value.mismatch(wanted)),
                    Value::Double(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
                        <$kind>::try_from(number as i64).map_err(|_| value.mismatch(wanted))
                    }
                    Value::Boolean(truth) => Ok(<$kind>::from(truth)),
                    _ => parse(&value, wanted),
                }
            }
        }
    )*};
}

integers!(i8 i16 i32 i64 i128 isize u16 u32 u64 u128 usize);

impl FromRedisValue for u8 {
    fn from_redis_value(value: Value) -> RedisResult<u8> {
        let value = plain(value)?;
        match value {
            Value::Int(number) => u8::try_from(number).map_err(|_| value.mismatch("u8")),
            _ => parse(&value, "u8"),
        }
    }

    fn list_from_bulk(bytes: Vec<u8>) -> Result<Vec<u8>, Vec<u8>> {
        Ok(bytes)
    }
}

macro_rules! floats {
    ($($kind:ty)*) => {$(
        impl FromRedisValue for $kind {
            fn from_redis_value(value: Value) -> RedisResult<$kind> {
                match plain(value)? {
                    Value::Int(number) => Ok(number as $kind),
                    Value::Double(number) => Ok(number as $kind),
                    other => parse(&other, stringify!($kind)),
                }
            }
        }
    )*};
}

floats!(f32 f64);

impl FromRedisValue for bool {
    fn from_redis_value(value: Value) -> RedisResult<bool> {
        match plain(value)? {
            Value::Boolean(truth) => Ok(truth),
            Value::Int(number) => Ok(number != 0),
            Value::Nil => Ok(false),
            Value::Okay => Ok(true),
            other => match other.as_bytes() {
                Some(b"1" | b"true") => Ok(true),
                Some(b"0" | b"false") => Ok(false),
                _ => Err(other.mismatch("bool")),
            },
        }
    }
}

impl FromRedisValue for String {
    fn from_redis_value(value: Value) -> RedisResult<String> {
        match plain(value)? {
            Value::BulkString(bytes) => String::from_utf8(bytes)
                .map_err(|error| Value::BulkString(error.into_bytes()).mismatch("String (it is not UTF-8)")),
            Value::Okay => Ok("OK".to_owned()),
            Value::SimpleString(text) | Value::VerbatimString { text, .. } | Value::BigNumber(text) => Ok(text),
            Value::Int(number) => Ok(number.to_string()),
            Value::Double(number) => Ok(number.to_string()),
            other => Err(other.mismatch("String")),
        }
    }
}

macro_rules! by_string {
    ($($kind:ty)*) => {$(
        impl FromRedisValue for $kind {
            fn from_redis_value(value: Value) -> RedisResult<$kind> {
                String::from_redis_value(value).map(Into::into)
            }
        }
    )*};
}

by_string!(Box<str> Arc<str>);

/// The buffer that the reply was read into becomes the value: nothing is copied.
impl FromRedisValue for bytes::Bytes {
    fn from_redis_value(value: Value) -> RedisResult<bytes::Bytes> {
        match plain(value)? {
            Value::BulkString(bytes) => Ok(bytes.into()),
            Value::Okay => Ok(bytes::Bytes::from_static(b"OK")),
            Value::SimpleString(text) | Value::VerbatimString { text, .. } | Value::BigNumber(text) => Ok(text.into()),
            other => Err(other.mismatch("Bytes")),
        }
    }
}

impl FromRedisValue for char {
    fn from_redis_value(value: Value) -> RedisResult<char> {
        parse(&plain(value)?, "char")
    }
}

impl<T: FromRedisValue> FromRedisValue for Option<T> {
    fn from_redis_value(value: Value) -> RedisResult<Option<T>> {
        match value {
            Value::Nil => Ok(None),
            Value::Attribute(attribute) if attribute.data == Value::Nil => Ok(None),
            other => T::from_redis_value(other).map(Some),
        }
    }
}

impl<T: FromRedisValue> FromRedisValue for Vec<T> {
    fn from_redis_value(value: Value) -> RedisResult<Vec<T>> {
        match plain(value)? {
            Value::BulkString(bytes) => {
                T::list_from_bulk(bytes).map_err(|bytes| Value::BulkString(bytes).mismatch("list"))
            }
            // For a list of tuples, pairs stay pairs with either protocol.
            Value::Map(pairs) => {
                T::from_redis_values(pairs.into_iter().map(|(key, value)| Value::Array(vec![key, value])).collect())
            }
            other => match other.into_sequence() {
                Ok(items) => T::from_redis_values(items),
                Err(other) => match other.as_bytes().map(<[u8]>::to_vec) {
                    Some(bytes) => T::list_from_bulk(bytes).map_err(|_| other.mismatch("list")),
                    None => Err(other.mismatch("list")),
                },
            },
        }
    }
}

impl<T: FromRedisValue, const N: usize> FromRedisValue for [T; N] {
    fn from_redis_value(value: Value) -> RedisResult<[T; N]> {
        let items = Vec::<T>::from_redis_value(value)?;
        let len = items.len();
        items.try_into().map_err(|_| wrong_len(len, &format!("list of {N}")))
    }
}

fn pairs<K: FromRedisValue, V: FromRedisValue>(value: Value) -> RedisResult<Vec<(K, V)>> {
    let value = plain(value)?;
    if let Value::Array(items) = value {
        return FromRedisValue::from_redis_values(items);
    }
    let pairs = value.into_map().map_err(|value| value.mismatch("map"))?;
    pairs.into_iter().map(|(key, value)| Ok((K::from_redis_value(key)?, V::from_redis_value(value)?))).collect()
}

macro_rules! collections {
    ($([$($params:tt)*] $kind:ty = $items:path;)*) => {$(
        impl<$($params)*> FromRedisValue for $kind {
            fn from_redis_value(value: Value) -> RedisResult<Self> {
                Ok($items(value)?.into_iter().collect())
            }
        }
    )*};
}

collections! {
    [K: FromRedisValue + Eq + Hash, V: FromRedisValue, S: BuildHasher + Default] HashMap<K, V, S> = pairs;
    [K: FromRedisValue + Ord, V: FromRedisValue] BTreeMap<K, V> = pairs;
    [T: FromRedisValue + Eq + Hash, S: BuildHasher + Default] HashSet<T, S> = Vec::from_redis_value;
    [T: FromRedisValue + Ord] BTreeSet<T> = Vec::from_redis_value;
}

macro_rules! tuples {
    ($first:ident $($rest:ident)*) => {
        impl<$first: FromRedisValue, $($rest: FromRedisValue),*> FromRedisValue for ($first, $($rest,)*) {
            fn from_redis_value(value: Value) -> RedisResult<Self> {
                let items = plain(value)?.into_sequence().map_err(|value| value.mismatch("tuple"))?;
                let len = items.len();
                let mut items = items.into_iter();
                let width = [stringify!($first) $(, stringify!($rest))*].len();
                let short = || wrong_len(len, &format!("tuple of {width}"));
                let tuple = (
                    $first::from_redis_value(items.next().ok_or_else(short)?)?,
                    $($rest::from_redis_value(items.next().ok_or_else(short)?)?,)*
                );
                if items.next().is_some() { Err(short()) } else { Ok(tuple) }
            }

            fn from_redis_values(values: Vec<Value>) -> RedisResult<Vec<Self>> {
                let nested = |value: &Value| matches!(value, Value::Array(_) | Value::Set(_) | Value::Map(_));
                if values.iter().all(nested) {
                    return values.into_iter().map(Self::from_redis_value).collect();
                }
                // A flat list: as many elements as the tuple has make one.
                let mut tuples = Vec::new();
                let mut values = values.into_iter().peekable();
                let width = [stringify!($first) $(, stringify!($rest))*].len();
                while values.peek().is_some() {
                    tuples.push(Self::from_redis_value(Value::Array(values.by_ref().take(width).collect()))?);
                }
                Ok(tuples)
            }
        }
        tuples!($($rest)*);
    };
    () => {};
}

tuples!(A B C D E F G H I J K L);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::value::Attribute;

    #[test]
    fn nothing_with_attributes_is_nothing() {
        let nil = || Value::Attribute(Box::new(Attribute { data: Value::Nil, attributes: Vec::new() }));
        assert_eq!(from_redis_value::<Option<String>>(nil()), Ok(None));
        assert_eq!(from_redis_value::<Vec<Option<i64>>>(Value::Array(vec![nil()])), Ok(vec![None]));
    }

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn a_map_reads_the_same_from_both_protocols() {
        let flat = Value::Array(vec![bulk("a"), bulk("1"), bulk("b"), bulk("2")]);
        let map = Value::Map(vec![(bulk("a"), Value::Int(1)), (bulk("b"), Value::Int(2))]);
        let want = BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]);
        assert_eq!(from_redis_value::<BTreeMap<String, i32>>(flat.clone()).unwrap(), want);
        assert_eq!(from_redis_value::<BTreeMap<String, i32>>(map.clone()).unwrap(), want);
        let want = vec![("a".to_owned(), 1), ("b".to_owned(), 2)];
        assert_eq!(from_redis_value::<Vec<(String, i32)>>(flat).unwrap(), want);
        assert_eq!(from_redis_value::<Vec<(String, i32)>>(map).unwrap(), want);
    }

    #[test]
    fn pairs_may_be_nested_as_resp3_sends_scores() {
        let nested = Value::Array(vec![Value::Array(vec![bulk("a"), Value::Double(1.5)])]);
        assert_eq!(from_redis_value::<Vec<(String, f64)>>(nested.clone()).unwrap(), [("a".to_owned(), 1.5)]);
        assert_eq!(from_redis_value::<HashMap<String, f64>>(nested).unwrap()["a"], 1.5);
    }

    #[test]
    fn bytes_come_back_whole_and_nil_is_none() {
        assert_eq!(from_redis_value::<Vec<u8>>(bulk("ab\0")).unwrap(), b"ab\0");
        assert_eq!(from_redis_value::<Option<Vec<u8>>>(Value::Nil).unwrap(), None);
        assert_eq!(from_redis_value::<Option<i64>>(bulk("12")).unwrap(), Some(12));
    }

    #[test]
    fn shared_bytes_are_the_reply_itself_and_no_copy() {
        let reply = b"some bytes".to_vec();
        let at = reply.as_ptr();
        let bytes: bytes::Bytes = from_redis_value(Value::BulkString(reply)).unwrap();
        assert_eq!((bytes.as_ptr(), &bytes[..]), (at, &b"some bytes"[..]));
        let list = Value::Array(vec![bulk("a"), Value::Nil]);
        assert_eq!(from_redis_value::<Vec<Option<bytes::Bytes>>>(list).unwrap(), [Some("a".into()), None]);
        assert!(from_redis_value::<bytes::Bytes>(Value::Nil).is_err());
        assert_eq!(crate::ToRedisArgs::to_redis_args(&bytes), [b"some bytes"]);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        assert!(from_redis_value::<i64>(Value::Nil).is_err());
        assert!(from_redis_value::<u8>(Value::Int(300)).is_err());
        assert!(from_redis_value::<(i64, i64)>(Value::Array(vec![Value::Int(1)])).is_err());
        assert!(from_redis_value::<Vec<(i64, i64)>>(Value::Array(vec![Value::Int(1)])).is_err());
        assert!(from_redis_value::<String>(Value::BulkString(vec![0xff])).is_err());
        assert!(from_redis_value::<Vec<i64>>(bulk("5")).is_err());
    }
}

//! JSON as arguments and replies, by `serde_json`; with the feature `json`.
//!
//! [`serde_json::Value`] is an argument, its text, and a reply. Your own types are read as [`Json`], and written by
//! [`to_arg`], which fails if a value has no JSON form:
//!
//! ```no_run
//! # async fn example(con: onrush::Connection) -> onrush::RedisResult<()> {
//! use onrush::{AsyncCommands, Json, json};
//! use std::collections::BTreeMap;
//! let user = BTreeMap::from([("name", "Ada"), ("city", "London")]);
//! let () = con.set("user:1", json::to_arg(&user)?).await?;
//! let Json(user): Json<BTreeMap<String, String>> = con.get("user:1").await?;
//! # let _ = user;
//! # Ok(())
//! # }
//! ```

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as JsonValue;

use crate::error::{ErrorKind, RedisError, RedisResult};
use crate::values::args::{RedisWrite, ToRedisArgs, ToSingleRedisArg};
use crate::values::from_value::FromRedisValue;
use crate::values::value::Value;

/// A value read from the JSON text of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Json<T>(pub T);

/// The JSON text of a value, as an argument.
///
/// # Errors
/// [`ErrorKind::Client`] when the value has no JSON form, such as a map whose keys are no strings.
pub fn to_arg<T: Serialize + ?Sized>(value: &T) -> RedisResult<String> {
    let failed = |error| RedisError::new(ErrorKind::Client, format!("the value has no JSON form: {error}"));
    serde_json::to_string(value).map_err(failed)
}

impl<T: DeserializeOwned> FromRedisValue for Json<T> {
    fn from_redis_value(value: Value) -> RedisResult<Json<T>> {
        let value = value.into_result()?;
        let bytes = value.as_bytes().ok_or_else(|| value.mismatch("JSON text"))?;
        serde_json::from_slice(bytes).map(Json).map_err(|error| value.mismatch(&format!("JSON of that type ({error})")))
    }
}

impl ToSingleRedisArg for JsonValue {}

impl ToRedisArgs for JsonValue {
    fn write_redis_args<W: RedisWrite + ?Sized>(&self, out: &mut W) {
        out.write_arg(self.to_string().as_bytes());
    }
}

/// A string is read as JSON text. Other replies become numbers, booleans, lists, and, if all keys of a map are strings,
/// objects. Nil becomes null: request an `Option` to distinguish a missing key from a null.
impl FromRedisValue for JsonValue {
    fn from_redis_value(value: Value) -> RedisResult<JsonValue> {
        let list = |items: Vec<Value>| items.into_iter().map(JsonValue::from_redis_value).collect::<RedisResult<_>>();
        Ok(match value.into_result()? {
            Value::Nil => JsonValue::Null,
            Value::Int(number) => number.into(),
            Value::Double(number) => number.into(),
            Value::Boolean(truth) => truth.into(),
            Value::Array(items) | Value::Set(items) => JsonValue::Array(list(items)?),
            Value::Map(pairs) => {
                let pair = |(key, value)| Ok((String::from_redis_value(key)?, JsonValue::from_redis_value(value)?));
                JsonValue::Object(pairs.into_iter().map(pair).collect::<RedisResult<_>>()?)
            }
            text => Json::from_redis_value(text)?.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::from_value::from_redis_value;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn values_go_out_as_text_and_come_back() {
        let value = json!({"a": [1, 2.5, null], "b": "ü\n"});
        let args = value.to_redis_args();
        assert_eq!(args.len(), 1);
        assert_eq!(from_redis_value::<JsonValue>(Value::BulkString(args[0].clone())).unwrap(), value);
        let reply = Value::Array(vec![Value::Int(1), Value::Nil, bulk("[true]")]);
        assert_eq!(from_redis_value::<JsonValue>(reply).unwrap(), json!([1, null, [true]]));
        assert_eq!(from_redis_value::<Option<JsonValue>>(Value::Nil).unwrap(), None);
        assert_eq!(from_redis_value::<Vec<JsonValue>>(Value::Array(vec![bulk("1")])).unwrap(), [json!(1)]);
    }

    #[test]
    fn types_are_read_and_what_does_not_fit_is_told() {
        let Json(read): Json<BTreeMap<String, i32>> = from_redis_value(bulk(r#"{"a":1}"#)).unwrap();
        assert_eq!(read["a"], 1);
        let error = from_redis_value::<Json<Vec<i32>>>(bulk(r#"{"a":1}"#)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedReturnType);
        assert!(
            from_redis_value::<Json<i32>>(Value::Nil).is_err() && from_redis_value::<JsonValue>(bulk("{")).is_err()
        );
        assert_eq!(to_arg(&read).unwrap(), r#"{"a":1}"#);
        assert_eq!(to_arg(&BTreeMap::from([((1, 2), 3)])).unwrap_err().kind(), ErrorKind::Client);
    }
}

//! The `redis` crate's connection trait, for code that was written for it.

use redis::{RedisFuture, aio};

use crate::connection::Connection;
use crate::connection::gate::Packed;
use crate::error::{ErrorKind, RedisError};
use crate::values::cmd::Caching;
use crate::values::value::{PushKind, Value, VerbatimFormat};

impl aio::ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a redis::Cmd) -> RedisFuture<'a, redis::Value> {
        Box::pin(async move {
            let bytes = cmd.get_packed_command();
            let packed = Packed::foreign(&bytes).and_then(|packed| packed.checked(1)).map_err(to_error)?;
            let cache = self.inner.shared.cache();
            if let Some(look) = cache.and_then(|cache| cache.look(packed.bytes(), Caching::Default)) {
                return to_value(self.read_cached(look).await.map_err(to_error)?);
            }
            to_value(self.request_apart(packed, false).await.map_err(to_error)?)
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        cmd: &'a redis::Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<redis::Value>> {
        Box::pin(async move {
            let bytes = cmd.get_packed_pipeline();
            // A transaction needs the reply of its last command only: EXEC.
            let is_transaction = offset > 0 && count == 1;
            let parsed = if is_transaction { Packed::foreign_transaction(&bytes) } else { Packed::foreign(&bytes) };
            let packed = parsed.and_then(|packed| packed.checked(offset + count)).map_err(to_error)?;
            if packed.count() == 0 {
                return Ok(Vec::new());
            }
            let outcome = self.request_batch(packed, is_transaction, &[]).await.map_err(to_error)?;
            if let Some(broken) = outcome.broken {
                return Err(to_error(broken.error_at(bytes.len())));
            }
            outcome.replies.into_iter().skip(offset).map(to_value).collect()
        })
    }

    fn get_db(&self) -> i64 {
        self.inner.connector.info.db
    }
}

fn to_error(error: RedisError) -> redis::RedisError {
    if let Some(line) = error.line() {
        // The crate makes its errors from what goes over the wire.
        let parsed = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).and_then(redis::Value::extract_error);
        if let Err(error) = parsed {
            return error;
        }
    }
    match error.kind() {
        ErrorKind::Io | ErrorKind::Closed => std::io::Error::new(std::io::ErrorKind::BrokenPipe, error).into(),
        ErrorKind::Timeout => std::io::Error::new(std::io::ErrorKind::TimedOut, error).into(),
        _ => (redis::ErrorKind::Client, "the onrush connection", error.to_string()).into(),
    }
}

fn to_value(value: Value) -> redis::RedisResult<redis::Value> {
    let all = |items: Vec<Value>| items.into_iter().map(to_value).collect::<redis::RedisResult<Vec<_>>>();
    let pairs = |pairs: Vec<(Value, Value)>| {
        pairs.into_iter().map(|(key, value)| Ok((to_value(key)?, to_value(value)?))).collect::<redis::RedisResult<_>>()
    };
    Ok(match value {
        Value::Nil => redis::Value::Nil,
        Value::Int(number) => redis::Value::Int(number),
        Value::BulkString(bytes) => redis::Value::BulkString(bytes),
        Value::SimpleString(text) => redis::Value::SimpleString(text),
        Value::Okay => redis::Value::Okay,
        Value::Array(items) => redis::Value::Array(all(items)?),
        Value::ServerError(error) => {
            // The crate makes its errors from what goes over the wire.
            return redis::parse_redis_value(format!("-{}\r\n", error.line()).as_bytes());
        }
        Value::Map(items) => redis::Value::Map(pairs(items)?),
        Value::Set(items) => redis::Value::Set(all(items)?),
        Value::Double(number) => redis::Value::Double(number),
        Value::Boolean(truth) => redis::Value::Boolean(truth),
        Value::BigNumber(digits) => return redis::parse_redis_value(format!("({digits}\r\n").as_bytes()),
        Value::VerbatimString { format, text } => redis::Value::VerbatimString {
            format: match format {
                VerbatimFormat::Text => redis::VerbatimFormat::Text,
                VerbatimFormat::Markdown => redis::VerbatimFormat::Markdown,
                VerbatimFormat::Other(other) => {
                    redis::VerbatimFormat::Unknown(String::from_utf8_lossy(&other).into_owned())
                }
            },
            text,
        },
        Value::Push(push) => redis::Value::Push {
            kind: match push.kind {
                PushKind::Invalidate => redis::PushKind::Invalidate,
                PushKind::Message => redis::PushKind::Message,
                PushKind::PMessage => redis::PushKind::PMessage,
                PushKind::SMessage => redis::PushKind::SMessage,
                other => redis::PushKind::Other(format!("{other:?}")),
            },
            data: all(push.data)?,
        },
        Value::Attribute(attribute) => redis::Value::Attribute {
            data: Box::new(to_value(attribute.data)?),
            attributes: pairs(attribute.attributes)?,
        },
    })
}

//! The `redis` crate's connection trait, for code that was written for it.

use redis::{RedisFuture, aio};

use crate::connection::{Connection, ConnectionLike};
use crate::error::{ErrorKind, RedisError, RedisResult};
use crate::values::cmd::Cmd;
use crate::values::pipeline::Pipeline;
use crate::values::value::{PushKind, Value, VerbatimFormat};

impl aio::ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a redis::Cmd) -> RedisFuture<'a, redis::Value> {
        Box::pin(async move {
            let command = Cmd::foreign(cmd.get_packed_command()).ok_or_else(malformed)?;
            to_value(self.send_command(&command).await.map_err(to_error)?)
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
            if offset > 0 && count == 1 {
                let pipeline = Pipeline::foreign_transaction(&bytes, offset - 1).ok_or_else(malformed)?;
                let results = self.send_pipeline(&pipeline).await.map_err(to_error)?;
                return Ok(vec![results.map_or(Ok(redis::Value::Nil), exec_reply)?]);
            }
            let pipeline = Pipeline::foreign(bytes, offset.saturating_add(count)).ok_or_else(malformed)?;
            let results = self.send_pipeline(&pipeline).await.map_err(to_error)?.unwrap_or_default();
            results.into_iter().skip(offset).map(to_reply).collect()
        })
    }

    fn get_db(&self) -> i64 {
        self.inner.connector.info.db
    }
}

fn malformed() -> redis::RedisError {
    to_error(RedisError::new(ErrorKind::Client, "these bytes are no commands, or not as many as was said"))
}

/// The reply to EXEC. If it was refused, the error of the command that was at fault.
fn exec_reply(results: Vec<RedisResult<Value>>) -> redis::RedisResult<redis::Value> {
    let is_refusal =
        |result: &RedisResult<Value>| result.as_ref().is_err_and(|error| error.code() == Some("EXECABORT"));
    if results.iter().any(is_refusal) {
        let at_fault = results.iter().find(|result| !is_refusal(result) && result.is_err()).or(results.first());
        if let Some(Err(error)) = at_fault {
            return Err(to_error(error.clone()));
        }
    }
    results.into_iter().map(to_reply).collect::<redis::RedisResult<_>>().map(redis::Value::Array)
}

/// A server's error is a reply too; any other one is that of the whole pipeline.
fn to_reply(result: RedisResult<Value>) -> redis::RedisResult<redis::Value> {
    match result {
        Ok(value) => to_value(value),
        Err(error) => match error.line() {
            Some(line) => server_error(line),
            None => Err(to_error(error)),
        },
    }
}

/// The crate makes its errors from what goes over the wire.
fn server_error(line: &str) -> redis::RedisResult<redis::Value> {
    redis::parse_redis_value(format!("-{line}\r\n").as_bytes())
}

fn to_error(error: RedisError) -> redis::RedisError {
    if let Some(line) = error.line() {
        if let Err(error) = server_error(line).and_then(redis::Value::extract_error) {
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
        Value::ServerError(error) => return server_error(error.line()),
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

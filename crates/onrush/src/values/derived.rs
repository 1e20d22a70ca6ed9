//! What the code of derives calls.

use crate::error::{ErrorKind, RedisError, RedisResult};
use crate::values::args::{RedisWrite, ToSingleRedisArg};
use crate::values::from_value::FromRedisValue;
use crate::values::value::Value;

/// The fields of a hash or of a stream's entry.
#[derive(Debug)]
pub struct Fields(Vec<(Value, Value)>);

impl Fields {
    /// From a map, or a flat list as RESP2 sends it.
    ///
    /// # Errors
    /// The reply is neither.
    pub fn of(value: Value) -> RedisResult<Fields> {
        value.into_result()?.into_map().map(Fields).map_err(|value| value.mismatch("struct: a map"))
    }

    /// A field's value: the last, if there are several; nil if there is none.
    ///
    /// # Errors
    /// The value does not fit the type.
    pub fn take<T: FromRedisValue>(&mut self, name: &str) -> RedisResult<T> {
        let value = self.find(name).unwrap_or(Value::Nil);
        T::from_redis_value(value).map_err(|error| about(name, &error))
    }

    /// The same, and the default if there is none.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn take_or_default<T: FromRedisValue + Default>(&mut self, name: &str) -> RedisResult<T> {
        match self.find(name) {
            Some(value) => T::from_redis_value(value).map_err(|error| about(name, &error)),
            None => Ok(T::default()),
        }
    }

    fn find(&mut self, name: &str) -> Option<Value> {
        let mut latest = self.0.iter_mut().rev();
        let (_, value) = latest.find(|(other, _)| other.as_bytes() == Some(name.as_bytes()))?;
        Some(std::mem::replace(value, Value::Nil))
    }
}

fn about(name: &str, error: &RedisError) -> RedisError {
    let why = error.detail().unwrap_or_default();
    RedisError::new(ErrorKind::UnexpectedReturnType, format!("the field '{name}': {why}"))
}

/// Writes a field's name and value; neither if the value is `None`.
pub fn write_field<T: ToSingleRedisArg + ?Sized, W: RedisWrite + ?Sized>(name: &str, value: &T, out: &mut W) {
    if value.num_of_args() > 0 {
        out.write_arg(name.as_bytes());
        value.write_redis_args(out);
    }
}

//! The replies to the misses of an MGET.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::cache::Ticket;
use crate::cache::flight::Flight;
use crate::connection::sink::Broken;
use crate::error::RedisError;
use crate::values::value::Value;

/// One reply to CLIENT CACHING if that is needed, MGET's, and each key's time to live.
#[derive(Debug)]
pub(crate) struct Gather {
    /// How many replies it still waits for.
    pub left: usize,
    pub keys: Vec<(Ticket, Arc<Flight>)>,
    /// MGET's reply.
    pub values: Value,
    pub done: oneshot::Sender<Result<Value, Broken>>,
}

impl Gather {
    /// Tells those who wait for any of the keys that no reply comes.
    pub(crate) fn fail(&self, error: &RedisError) {
        self.keys.iter().for_each(|(_, flight)| flight.fail(error));
    }

    /// Takes a reply; returns MGET's when all have come.
    pub(crate) fn reply(&mut self, value: Value) -> Option<Value> {
        let keys_len = self.keys.len();
        self.left -= 1;
        if self.left == keys_len {
            self.values = value;
        } else if self.left < keys_len {
            self.settle(keys_len - 1 - self.left, &value);
        } else if matches!(value, Value::ServerError(_)) {
            self.keys.iter().for_each(|(ticket, _)| ticket.void());
        }
        (self.left == 0).then(|| std::mem::replace(&mut self.values, Value::Nil))
    }

    /// Keeps a key's value, and passes it to the tasks that wait for it.
    fn settle(&self, index: usize, ttl: &Value) {
        let Value::Array(values) = &self.values else { return };
        let (Some(value), (ticket, flight)) = (values.get(index), &self.keys[index]) else { return };
        let (has_value, is_there) = (*value != Value::Nil, *ttl != Value::Int(-2));
        if has_value == is_there {
            ticket.keep(value, Some(ttl));
        }
        // MGET returns nil for keys of other types, GET an error.
        if has_value || !is_there {
            flight.land(value);
        }
    }
}

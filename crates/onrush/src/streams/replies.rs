//! Replies of the commands on streams, the same from RESP2 and RESP3.

use std::collections::HashMap;
use std::hash::Hash;

use crate::error::RedisResult;
use crate::values::from_value::{FromRedisValue, from_redis_value};
use crate::values::value::Value;

/// An entry: its identifier and its fields.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StreamId {
    /// The identifier.
    pub id: String,
    /// Names and values in the order they were added; a name may come more than once.
    pub fields: Vec<(Value, Value)>,
    /// Whether the entry itself has been deleted and only its identifier is left, as for an entry that is still
    /// pending.
    pub deleted: bool,
}

impl StreamId {
    /// The first value of a name, if there is one and it fits the type.
    pub fn get<T: FromRedisValue>(&self, name: &str) -> Option<T> {
        from_redis_value(self.value(name)?.clone()).ok()
    }

    /// Whether there is a field of that name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The fields as a map; for a name that comes more than once, the last value.
    ///
    /// # Errors
    /// A name or value does not fit its type.
    pub fn to_map<K: FromRedisValue + Eq + Hash, V: FromRedisValue>(&self) -> RedisResult<HashMap<K, V>> {
        let fields = self.fields.iter().cloned();
        fields.map(|(name, value)| Ok((from_redis_value(name)?, from_redis_value(value)?))).collect()
    }

    /// The fields as a struct that derives [`FromRedisValue`] (with the feature `derive`), or as a map.
    ///
    /// # Errors
    /// A field is missing or does not fit.
    pub fn read<T: FromRedisValue>(&self) -> RedisResult<T> {
        from_redis_value(Value::Map(self.fields.clone()))
    }

    fn value(&self, name: &str) -> Option<&Value> {
        let mut fields = self.fields.iter();
        fields.find(|(other, _)| other.as_bytes() == Some(name.as_bytes())).map(|(_, value)| value)
    }
}

impl FromRedisValue for StreamId {
    fn from_redis_value(value: Value) -> RedisResult<StreamId> {
        // With JUSTID there is nothing but the identifier.
        if value.as_bytes().is_some() {
            return Ok(StreamId { id: from_redis_value(value)?, ..StreamId::default() });
        }
        let (id, fields): (String, Value) = from_redis_value(value)?;
        let deleted = fields == Value::Nil;
        let fields = fields.into_map().map_err(|fields| fields.mismatch("list of fields"))?;
        Ok(StreamId { id, fields, deleted })
    }
}

/// The entries of a list. Deleted entries, which older servers send as nil, are left out.
fn entries(value: Value) -> RedisResult<Vec<StreamId>> {
    Ok(from_redis_value::<Vec<Option<StreamId>>>(value)?.into_iter().flatten().collect())
}

/// What XRANGE and XREVRANGE answer.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StreamRangeReply {
    /// The entries.
    pub ids: Vec<StreamId>,
}

impl FromRedisValue for StreamRangeReply {
    fn from_redis_value(value: Value) -> RedisResult<StreamRangeReply> {
        entries(value).map(|ids| StreamRangeReply { ids })
    }
}

/// What XCLAIM answers.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StreamClaimReply {
    /// The entries claimed.
    pub ids: Vec<StreamId>,
}

impl FromRedisValue for StreamClaimReply {
    fn from_redis_value(value: Value) -> RedisResult<StreamClaimReply> {
        entries(value).map(|ids| StreamClaimReply { ids })
    }
}

/// A stream and entries of it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StreamKey {
    /// The stream's key.
    pub key: String,
    /// The entries.
    pub ids: Vec<StreamId>,
}

/// What XREAD and XREADGROUP answer. No entries at all is an answer without streams.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StreamReadReply {
    /// The streams that have entries.
    pub keys: Vec<StreamKey>,
}

impl FromRedisValue for StreamReadReply {
    fn from_redis_value(value: Value) -> RedisResult<StreamReadReply> {
        let streams: Vec<(String, Value)> = match value {
            Value::Nil => Vec::new(),
            streams => from_redis_value(streams)?,
        };
        let keys = streams.into_iter().map(|(key, ids)| Ok(StreamKey { key, ids: entries(ids)? }));
        Ok(StreamReadReply { keys: keys.collect::<RedisResult<_>>()? })
    }
}

/// What XAUTOCLAIM answers.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StreamAutoClaimReply {
    /// Where to go on; `0-0` after the last.
    pub next_stream_id: String,
    /// The entries claimed.
    pub claimed: Vec<StreamId>,
    /// Pending entries that have been deleted; they are no longer pending. Servers before 7.0 do not list them.
    pub deleted_ids: Vec<String>,
}

impl FromRedisValue for StreamAutoClaimReply {
    fn from_redis_value(value: Value) -> RedisResult<StreamAutoClaimReply> {
        let mut parts = from_redis_value::<Vec<Value>>(value)?.into_iter();
        let mut part = || parts.next().unwrap_or(Value::Nil);
        Ok(StreamAutoClaimReply {
            next_stream_id: from_redis_value(part())?,
            claimed: entries(part())?,
            deleted_ids: from_redis_value(part())?,
        })
    }
}

/// A consumer that has entries pending, and how many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamPendingConsumer {
    /// Its name.
    pub name: String,
    /// How many entries.
    pub pending: usize,
}

/// What is pending in a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamPendingData {
    /// How many entries.
    pub count: usize,
    /// The first of them.
    pub start_id: String,
    /// The last of them.
    pub end_id: String,
    /// The consumers they belong to.
    pub consumers: Vec<StreamPendingConsumer>,
}

/// What XPENDING answers without a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamPendingReply {
    /// Nothing is pending.
    #[default]
    Empty,
    /// Something is.
    Data(StreamPendingData),
}

impl StreamPendingReply {
    /// How many entries are pending.
    pub fn count(&self) -> usize {
        match self {
            StreamPendingReply::Empty => 0,
            StreamPendingReply::Data(data) => data.count,
        }
    }
}

impl FromRedisValue for StreamPendingReply {
    fn from_redis_value(value: Value) -> RedisResult<StreamPendingReply> {
        type Parts = (usize, Option<String>, Option<String>, Option<Vec<(String, usize)>>);
        let (count, start_id, end_id, consumers): Parts = from_redis_value(value)?;
        if count == 0 {
            return Ok(StreamPendingReply::Empty);
        }
        let consumers = consumers.unwrap_or_default().into_iter();
        Ok(StreamPendingReply::Data(StreamPendingData {
            count,
            start_id: start_id.unwrap_or_default(),
            end_id: end_id.unwrap_or_default(),
            consumers: consumers.map(|(name, pending)| StreamPendingConsumer { name, pending }).collect(),
        }))
    }
}

/// A pending entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamPendingId {
    /// Its identifier.
    pub id: String,
    /// The consumer it was delivered to.
    pub consumer: String,
    /// Milliseconds since it was delivered last.
    pub last_delivered_ms: u64,
    /// How often it was delivered.
    pub times_delivered: u64,
}

/// What XPENDING answers with a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamPendingCountReply {
    /// The pending entries.
    pub ids: Vec<StreamPendingId>,
}

impl FromRedisValue for StreamPendingCountReply {
    fn from_redis_value(value: Value) -> RedisResult<StreamPendingCountReply> {
        let rows: Vec<(String, String, u64, u64)> = from_redis_value(value)?;
        let ids = rows.into_iter().map(|(id, consumer, last_delivered_ms, times_delivered)| StreamPendingId {
            id,
            consumer,
            last_delivered_ms,
            times_delivered,
        });
        Ok(StreamPendingCountReply { ids: ids.collect() })
    }
}

/// The parts of an answer by their names.
struct Named(Vec<(Value, Value)>);

impl Named {
    fn new(value: Value) -> RedisResult<Named> {
        value.into_map().map(Named).map_err(|value| value.mismatch("map"))
    }

    /// Takes a part; a part that an older server does not send is the type's default.
    fn take<T: FromRedisValue + Default>(&mut self, name: &str) -> RedisResult<T> {
        match self.0.iter().position(|(other, _)| other.as_bytes() == Some(name.as_bytes())) {
            Some(at) => from_redis_value(self.0.swap_remove(at).1),
            None => Ok(T::default()),
        }
    }
}

/// What XINFO STREAM answers.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StreamInfoStreamReply {
    /// How many entries there are.
    pub length: usize,
    /// How many keys the tree has that holds them.
    pub radix_tree_keys: usize,
    /// How many nodes that tree has.
    pub radix_tree_nodes: usize,
    /// How many consumer groups there are.
    pub groups: usize,
    /// The identifier that was given last.
    pub last_generated_id: String,
    /// The greatest identifier that was deleted.
    pub max_deleted_entry_id: String,
    /// How many entries were ever added.
    pub entries_added: u64,
    /// The first entry as recorded by the server, as long as none was deleted from the middle.
    pub recorded_first_entry_id: String,
    /// The first entry, if there is one.
    pub first_entry: Option<StreamId>,
    /// The last entry, if there is one.
    pub last_entry: Option<StreamId>,
}

impl FromRedisValue for StreamInfoStreamReply {
    fn from_redis_value(value: Value) -> RedisResult<StreamInfoStreamReply> {
        let mut parts = Named::new(value)?;
        Ok(StreamInfoStreamReply {
            length: parts.take("length")?,
            radix_tree_keys: parts.take("radix-tree-keys")?,
            radix_tree_nodes: parts.take("radix-tree-nodes")?,
            groups: parts.take("groups")?,
            last_generated_id: parts.take("last-generated-id")?,
            max_deleted_entry_id: parts.take("max-deleted-entry-id")?,
            entries_added: parts.take("entries-added")?,
            recorded_first_entry_id: parts.take("recorded-first-entry-id")?,
            first_entry: parts.take("first-entry")?,
            last_entry: parts.take("last-entry")?,
        })
    }
}

/// A consumer group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamInfoGroup {
    /// Its name.
    pub name: String,
    /// How many consumers it has.
    pub consumers: usize,
    /// How many entries are pending.
    pub pending: usize,
    /// The entry it was given last.
    pub last_delivered_id: String,
    /// How many entries it has read, if the server knows.
    pub entries_read: Option<u64>,
    /// How many entries it must still read, if the server knows.
    pub lag: Option<u64>,
}

impl FromRedisValue for StreamInfoGroup {
    fn from_redis_value(value: Value) -> RedisResult<StreamInfoGroup> {
        let mut parts = Named::new(value)?;
        Ok(StreamInfoGroup {
            name: parts.take("name")?,
            consumers: parts.take("consumers")?,
            pending: parts.take("pending")?,
            last_delivered_id: parts.take("last-delivered-id")?,
            entries_read: parts.take("entries-read")?,
            lag: parts.take("lag")?,
        })
    }
}

/// What XINFO GROUPS answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamInfoGroupsReply {
    /// The groups.
    pub groups: Vec<StreamInfoGroup>,
}

impl FromRedisValue for StreamInfoGroupsReply {
    fn from_redis_value(value: Value) -> RedisResult<StreamInfoGroupsReply> {
        from_redis_value(value).map(|groups| StreamInfoGroupsReply { groups })
    }
}

/// A consumer of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamInfoConsumer {
    /// Its name.
    pub name: String,
    /// How many entries it has pending.
    pub pending: usize,
    /// Milliseconds since it asked for entries last.
    pub idle_ms: u64,
    /// Milliseconds since it last got entries, if the server sends it; -1 for never.
    pub inactive_ms: Option<i64>,
}

impl FromRedisValue for StreamInfoConsumer {
    fn from_redis_value(value: Value) -> RedisResult<StreamInfoConsumer> {
        let mut parts = Named::new(value)?;
        Ok(StreamInfoConsumer {
            name: parts.take("name")?,
            pending: parts.take("pending")?,
            idle_ms: parts.take("idle")?,
            inactive_ms: parts.take("inactive")?,
        })
    }
}

/// What XINFO CONSUMERS answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamInfoConsumersReply {
    /// The consumers.
    pub consumers: Vec<StreamInfoConsumer>,
}

impl FromRedisValue for StreamInfoConsumersReply {
    fn from_redis_value(value: Value) -> RedisResult<StreamInfoConsumersReply> {
        from_redis_value(value).map(|consumers| StreamInfoConsumersReply { consumers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn entry(id: &str) -> Value {
        Value::Array(vec![bulk(id), Value::Array(vec![bulk("f"), bulk("1"), bulk("f"), bulk("2")])])
    }

    #[test]
    fn streams_read_the_same_from_both_protocols() {
        let ids = Value::Array(vec![entry("1-0"), Value::Array(vec![bulk("2-0"), Value::Nil])]);
        let two = Value::Array(vec![Value::Array(vec![bulk("s"), ids.clone()])]);
        let three = Value::Map(vec![(bulk("s"), ids)]);
        let read: StreamReadReply = from_redis_value(two).unwrap();
        assert_eq!(read, from_redis_value(three).unwrap());
        let ids = &read.keys[0].ids;
        assert_eq!((ids[0].get::<i32>("f"), ids[0].len(), ids[0].contains_key("g")), (Some(1), 2, false));
        assert_eq!(ids[0].to_map::<String, i32>().unwrap()["f"], 2);
        assert!(ids[1].deleted && ids[1].is_empty() && !ids[0].deleted);
        assert_eq!(from_redis_value::<StreamReadReply>(Value::Nil).unwrap(), StreamReadReply::default());
    }

    #[test]
    fn claims_and_pending_entries_are_read() {
        let reply = Value::Array(vec![bulk("0-0"), Value::Array(vec![entry("1-0"), Value::Nil]), Value::Array(vec![])]);
        let claimed: StreamAutoClaimReply = from_redis_value(reply).unwrap();
        assert_eq!((claimed.next_stream_id.as_str(), claimed.claimed.len()), ("0-0", 1));
        let just = from_redis_value::<StreamClaimReply>(Value::Array(vec![bulk("1-0")])).unwrap();
        assert_eq!(just.ids[0].id, "1-0");
        let none = Value::Array(vec![Value::Int(0), Value::Nil, Value::Nil, Value::Nil]);
        assert_eq!(from_redis_value::<StreamPendingReply>(none).unwrap(), StreamPendingReply::Empty);
        let consumers = Value::Array(vec![Value::Array(vec![bulk("c"), bulk("2")])]);
        let some = Value::Array(vec![Value::Int(2), bulk("1-0"), bulk("2-0"), consumers]);
        let StreamPendingReply::Data(data) = from_redis_value(some).unwrap() else { panic!("something is pending") };
        assert_eq!((data.count, data.consumers[0].pending), (2, 2));
    }
}

//! Commands that become several: those for all primaries, and those whose keys are in several slots.

use std::collections::BTreeMap;

use crate::cluster::Inner;
use crate::cluster::keys::{Combine, Keys, each_key, spec_of};
use crate::cluster::odd::cross_slot;
use crate::cluster::place::Place;
use crate::cluster::slot::slot;
use crate::error::{ErrorKind, RedisError, RedisResult};
use crate::values::encode::{args_of, encoded};
use crate::values::pipeline::Pipeline;
use crate::values::value::Value;

/// A pipeline with parts in place of such commands.
#[derive(Debug, Default)]
pub(crate) struct Expanded {
    pub pipeline: Pipeline,
    pub places: Vec<Place>,
    /// For each of the original commands, how its result is made.
    joins: Vec<Join>,
}

/// How the result of a command is made from those of the next parts.
#[derive(Debug)]
enum Join {
    One,
    /// Of so many nodes.
    Nodes(usize, Combine),
    /// Of so many parts, each of which has the keys at these places.
    Parts(Vec<Vec<usize>>, Split),
    /// It has none: it was not sent.
    Refused(RedisError),
}

/// How parts of a command that was split by slot become one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Split {
    /// MGET: values at the places of their keys.
    Values,
    /// MSET: OK.
    Okay,
    /// The sum of counts.
    Count,
}

impl Inner {
    /// The pipeline with parts in place of commands without a slot. O(bytes x primaries) for those.
    pub(crate) fn expand(&self, pipeline: &Pipeline, places: &[Place]) -> Expanded {
        let mut expanded = Expanded::default();
        for (index, place) in places.iter().enumerate() {
            let encoded = pipeline.command(index);
            let join = match *place {
                Place::ALL => self.to_all(&mut expanded, pipeline, index),
                Place::CROSS => self.split(&mut expanded, encoded, pipeline.is_idempotent(index)),
                place => {
                    expanded.add(encoded, pipeline.is_idempotent(index), place);
                    Join::One
                }
            };
            expanded.joins.push(join);
        }
        expanded.pipeline.scripts.clone_from(&pipeline.scripts);
        expanded
    }

    fn to_all(&self, expanded: &mut Expanded, pipeline: &Pipeline, index: usize) -> Join {
        let encoded = pipeline.command(index);
        let combine = match spec_of(encoded).all {
            None | Some(Combine::Scan) => {
                let text = "SCAN goes through all nodes one after the other: send it as a command of its own";
                return Join::Refused(RedisError::new(ErrorKind::Client, text));
            }
            Some(combine) => combine,
        };
        let primaries = self.routes.lock().primaries();
        for (_, slot) in &primaries {
            expanded.add(encoded, pipeline.is_idempotent(index), Place::of_slot(*slot));
        }
        Join::Nodes(primaries.len(), combine)
    }

    fn split(&self, expanded: &mut Expanded, whole: &[u8], idempotent: bool) -> Join {
        let Some((split, step)) = split_of(whole).filter(|_| self.config.split) else {
            return Join::Refused(cross_slot());
        };
        let args: Vec<&[u8]> = args_of(whole).collect();
        let mut parts: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
        for (nth, key) in args[1..].iter().step_by(step).enumerate() {
            parts.entry(slot(key)).or_default().push(nth);
        }
        for (slot, keys) in &parts {
            let own = keys.iter().flat_map(|nth| args.iter().skip(1 + nth * step).take(step)).copied();
            let part: Vec<&[u8]> = args[..1].iter().copied().chain(own).collect();
            expanded.add(&encoded(&part), idempotent, Place::of_slot(*slot));
        }
        Join::Parts(parts.into_values().collect(), split)
    }
}

/// How a command may be split, and how many arguments belong to a key.
fn split_of(encoded: &[u8]) -> Option<(Split, usize)> {
    let name = args_of(encoded).next()?.to_ascii_uppercase();
    match name.as_slice() {
        b"MGET" => Some((Split::Values, 1)),
        b"MSET" if args_of(encoded).count() % 2 == 1 => Some((Split::Okay, 2)),
        b"DEL" | b"UNLINK" | b"EXISTS" | b"TOUCH" => Some((Split::Count, 1)),
        _ => None,
    }
}

impl Expanded {
    fn add(&mut self, encoded: &[u8], idempotent: bool, place: Place) {
        self.pipeline.add_encoded(encoded, idempotent);
        self.places.push(place);
    }

    /// The results of the original commands, from those of the parts.
    pub(crate) fn join(self, results: Vec<RedisResult<Value>>) -> Vec<RedisResult<Value>> {
        let mut results = results.into_iter();
        let join = |join| match join {
            Join::One => results.next().unwrap_or(Ok(Value::Nil)),
            Join::Nodes(count, combine) => combined(results.by_ref().take(count).collect(), combine),
            Join::Parts(parts, split) => joined(results.by_ref().take(parts.len()).collect(), &parts, split),
            Join::Refused(error) => Err(error),
        };
        self.joins.into_iter().map(join).collect()
    }
}

fn joined(results: Vec<RedisResult<Value>>, parts: &[Vec<usize>], split: Split) -> RedisResult<Value> {
    let replies = results.into_iter().collect::<RedisResult<Vec<_>>>()?;
    match split {
        Split::Okay => Ok(Value::Okay),
        Split::Count => Ok(sum(&replies)),
        Split::Values => {
            let mut values = vec![Value::Nil; parts.iter().map(Vec::len).sum()];
            for (reply, keys) in replies.into_iter().zip(parts) {
                let Value::Array(found) = reply else { return Err(reply.mismatch("list of values")) };
                keys.iter().zip(found).for_each(|(nth, value)| values[*nth] = value);
            }
            Ok(Value::Array(values))
        }
    }
}

/// One reply from those of all nodes; the first error, if there is any.
fn combined(results: Vec<RedisResult<Value>>, combine: Combine) -> RedisResult<Value> {
    let mut replies = results.into_iter().collect::<RedisResult<Vec<_>>>()?;
    Ok(match combine {
        Combine::Same | Combine::Scan => replies.drain(..).next().unwrap_or(Value::Nil),
        Combine::Any => replies.into_iter().find(|reply| *reply != Value::Nil).unwrap_or(Value::Nil),
        Combine::Sum => sum(&replies),
        Combine::Concat => Value::Array(replies.into_iter().flat_map(elements).collect()),
        Combine::AllSet => all_set(&replies),
        Combine::SumByName => sum_by_name(replies),
    })
}

fn sum(replies: &[Value]) -> Value {
    Value::Int(replies.iter().filter_map(int).fold(0, i64::saturating_add))
}

fn int(value: &Value) -> Option<i64> {
    if let Value::Int(int) = value { Some(*int) } else { None }
}

fn elements(reply: Value) -> Vec<Value> {
    match reply {
        Value::Array(values) | Value::Set(values) => values,
        Value::Map(pairs) => pairs.into_iter().flat_map(|(name, value)| [name, value]).collect(),
        _ => Vec::new(),
    }
}

fn all_set(replies: &[Value]) -> Value {
    let lists: Vec<Vec<Value>> = replies.iter().cloned().map(elements).collect();
    let len = lists.iter().map(Vec::len).min().unwrap_or(0);
    let is_set = |nth: usize| lists.iter().all(|list| list[nth] == Value::Int(1));
    Value::Array((0..len).map(|nth| Value::Int(is_set(nth).into())).collect())
}

fn sum_by_name(replies: Vec<Value>) -> Value {
    let mut lists = replies.into_iter().map(elements);
    let mut sums = lists.next().unwrap_or_default();
    for list in lists {
        for (sum, more) in sums.iter_mut().zip(list) {
            if let (Value::Int(sum), Value::Int(more)) = (sum, more) {
                *sum = sum.saturating_add(more);
            }
        }
    }
    Value::Array(sums)
}

/// The slot of a transaction: that of all keys in it; `None` if it has no keys.
///
/// # Errors
/// CROSSSLOT, and commands that go to all nodes.
pub(crate) fn slot_of_all(pipeline: &Pipeline) -> RedisResult<Option<u16>> {
    let (mut found, mut is_cross) = (None, false);
    for index in 0..pipeline.len() {
        let spec = spec_of(pipeline.command(index));
        let is_ping = args_of(pipeline.command(index)).next().is_some_and(|name| name.eq_ignore_ascii_case(b"PING"));
        if spec.all.is_some() && !is_ping {
            let text = "a transaction runs on one node of a cluster, but a command in it is for all of them";
            return Err(RedisError::new(ErrorKind::Client, text));
        }
        let keys = if is_ping { Keys::None } else { spec.keys };
        each_key(pipeline.command(index), keys, |key| {
            let slot = slot(key);
            is_cross |= found.is_some_and(|other| other != slot);
            found = Some(slot);
        });
    }
    if is_cross { Err(cross_slot()) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ServerError;

    fn ints(values: &[i64]) -> Value {
        Value::Array(values.iter().map(|value| Value::Int(*value)).collect())
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn replies_of_nodes_become_one() {
        let of = |replies: &[Value], combine| combined(replies.iter().cloned().map(Ok).collect(), combine).unwrap();
        assert_eq!(of(&[Value::Int(1), Value::Int(2)], Combine::Sum), Value::Int(3));
        assert_eq!(of(&[ints(&[1]), ints(&[2, 3])], Combine::Concat), ints(&[1, 2, 3]));
        assert_eq!(of(&[ints(&[1, 1, 0]), ints(&[1, 0, 0])], Combine::AllSet), ints(&[1, 0, 0]));
        assert_eq!(of(&[Value::Nil, text("k"), text("l")], Combine::Any), text("k"));
        assert_eq!(of(&[Value::Okay, Value::Okay], Combine::Same), Value::Okay);
        let named = |count| Value::Array(vec![text("c"), Value::Int(count)]);
        assert_eq!(of(&[named(1), named(2)], Combine::SumByName), named(3));
        let refused = vec![Ok(Value::Okay), Err(ServerError::new("ERR no").into())];
        assert_eq!(combined(refused, Combine::Same).unwrap_err().code(), Some("ERR"));
    }

    #[test]
    fn values_return_to_the_places_of_their_keys() {
        let parts = [vec![1, 2], vec![0]];
        let replies = vec![Ok(Value::Array(vec![text("b"), text("c")])), Ok(Value::Array(vec![text("a")]))];
        let all = Value::Array(vec![text("a"), text("b"), text("c")]);
        assert_eq!(joined(replies, &parts, Split::Values), Ok(all));
    }
}

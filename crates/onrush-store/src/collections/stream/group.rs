//! Consumer groups: which entries consumers got and have not acknowledged.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::StreamId;
use super::ids::{IdMap, IdSet};

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The consumer that has it, by [`Group::name_of`], so that its name is there once; `None` if it was given back.
    pub consumer: Option<Arc<[u8]>>,
    /// When it was delivered last, in Unix milliseconds.
    pub delivered_ms: i64,
    /// How often it was delivered; at most [`Pending::COUNT_MAX`].
    pub count: u64,
}

impl Pending {
    /// The greatest count that replies can hold.
    pub const COUNT_MAX: u64 = i64::MAX as u64;

    /// An entry without a consumer: the next claim gets it.
    pub fn released(count: u64) -> Self {
        Self { consumer: None, delivered_ms: 0, count }
    }

    /// Time since its last delivery, in milliseconds; `None` if no consumer has it.
    pub fn idle_ms(&self, now_ms: i64) -> Option<i64> {
        self.consumer.is_some().then(|| (now_ms - self.delivered_ms).max(0))
    }

    /// Whether it is idle for at least some milliseconds, or no consumer has it.
    pub fn is_idle_for(&self, min_ms: i64, now_ms: i64) -> bool {
        self.idle_ms(now_ms).is_none_or(|idle| idle >= min_ms)
    }

    /// The delivery count after one more delivery.
    pub fn next_count(&self) -> u64 {
        (self.count + 1).min(Self::COUNT_MAX)
    }
}

/// A member of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consumer {
    /// When it was last active, in Unix milliseconds.
    pub seen_ms: i64,
    /// When it last got entries, in Unix milliseconds; -1 if never.
    pub active_ms: i64,
    /// What it has.
    pub pending: IdSet,
}

/// A consumer group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// The last entry that was delivered.
    pub last_id: StreamId,
    /// Entries delivered since the stream's first; `None` if that is unknown.
    pub entries_read: Option<u64>,
    /// What was delivered and not acknowledged.
    pub pending: IdMap<Pending>,
    /// The members by name.
    pub consumers: BTreeMap<Arc<[u8]>, Consumer>,
}

impl Group {
    /// A copy of the group as it is now. Both share the pending entries, part by part. O(members + pending / 100).
    pub(super) fn freeze(&mut self) -> Self {
        let freeze = |(name, consumer): (&Arc<[u8]>, &mut Consumer)| {
            (Arc::clone(name), Consumer { pending: consumer.pending.freeze(), ..*consumer })
        };
        let consumers = self.consumers.iter_mut().map(freeze).collect();
        Group { pending: self.pending.freeze(), consumers, ..*self }
    }

    /// Takes back the parts that no other copy shares any more. O(members + pending / 100).
    pub(super) fn thaw(&mut self) {
        self.pending.thaw();
        self.consumers.values_mut().for_each(|consumer| consumer.pending.thaw());
    }

    /// A member, made if it is not there; returns whether it was made. O(log members).
    pub fn consumer(&mut self, name: &[u8], now_ms: i64) -> bool {
        let is_new = !self.consumers.contains_key(name);
        if is_new {
            let consumer = Consumer { seen_ms: now_ms, active_ms: -1, pending: IdSet::default() };
            self.consumers.insert(name.into(), consumer);
        }
        is_new
    }

    /// The name of a member, as its entries have it. O(log members).
    pub fn name_of(&self, name: &[u8]) -> Option<Arc<[u8]>> {
        self.consumers.get_key_value(name).map(|(name, _)| Arc::clone(name))
    }

    /// Gives an entry to a member, or to none, whichever had it before. O(log pending).
    pub fn assign(&mut self, id: StreamId, pending: Pending) {
        if let Some(before) = self.pending.get(&id)
            && before.consumer != pending.consumer
        {
            Self::take_from(&mut self.consumers, before.consumer.as_deref(), id);
        }
        if let Some(name) = &pending.consumer
            && let Some(consumer) = self.consumers.get_mut(name)
        {
            consumer.pending.insert(id);
        }
        self.pending.insert(id, pending);
    }

    /// Notes that the member that has an entry gets it again; returns how often it has been delivered by now, or `None`
    /// if it is not pending. O(log pending).
    pub fn deliver_again(&mut self, id: StreamId, now_ms: i64) -> Option<u64> {
        let pending = self.pending.get_mut(&id)?;
        pending.delivered_ms = now_ms;
        pending.count = (pending.count + 1).min(Pending::COUNT_MAX);
        Some(pending.count)
    }

    fn take_from(consumers: &mut BTreeMap<Arc<[u8]>, Consumer>, name: Option<&[u8]>, id: StreamId) {
        if let Some(consumer) = name.and_then(|name| consumers.get_mut(name)) {
            consumer.pending.remove(&id);
        }
    }

    /// Takes an entry off the list; returns whether it was pending. O(log pending).
    pub fn acknowledge(&mut self, id: StreamId) -> bool {
        let Some(pending) = self.pending.remove(&id) else { return false };
        Self::take_from(&mut self.consumers, pending.consumer.as_deref(), id);
        true
    }

    /// Removes a member and its pending entries; returns how many those were, `None` if there is no such member. O(its
    /// pending entries).
    pub fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let consumer = self.consumers.remove(name)?;
        consumer.pending.iter().for_each(|id| _ = self.pending.remove(id));
        Some(consumer.pending.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_is_given_back_belongs_to_nobody_and_may_be_claimed_at_once() {
        let id = StreamId { ms: 1, seq: 0 };
        let mut group = Group::default();
        // An empty name is a member's name, not the absence of a member.
        [&b"a"[..], b""].into_iter().for_each(|name| _ = group.consumer(name, 0));
        let of = |group: &Group| group.consumers.values().map(|consumer| consumer.pending.len()).collect::<Vec<_>>();
        group.assign(id, Pending { consumer: Some(b"a"[..].into()), delivered_ms: 5, count: 2 });
        assert_eq!((of(&group), group.pending[&id].idle_ms(9)), (vec![0, 1], Some(4)));
        group.assign(id, Pending::released(1));
        assert_eq!((of(&group), group.pending[&id].idle_ms(9)), (vec![0, 0], None));
        assert!(group.pending[&id].is_idle_for(i64::MAX, 9));
        group.assign(id, Pending { consumer: Some([].into()), delivered_ms: 0, count: Pending::COUNT_MAX });
        assert_eq!((of(&group), group.pending[&id].next_count()), (vec![1, 0], Pending::COUNT_MAX));
        assert!(group.acknowledge(id));
        assert_eq!((of(&group), group.pending.len()), (vec![0, 0], 0));
    }
}

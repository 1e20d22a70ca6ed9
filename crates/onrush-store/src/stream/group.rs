//! Consumer groups: who was given which entries and has not acknowledged them.

use std::collections::{BTreeMap, BTreeSet};

use super::StreamId;

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Who has it.
    pub consumer: Vec<u8>,
    /// When it was delivered last, in Unix milliseconds.
    pub delivered_ms: i64,
    /// How often it was delivered.
    pub count: u64,
}

/// A member of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consumer {
    /// When it was last heard of, in Unix milliseconds.
    pub seen_ms: i64,
    /// When it last got entries, in Unix milliseconds; -1 if never.
    pub active_ms: i64,
    /// What it has.
    pub pending: BTreeSet<StreamId>,
}

/// A consumer group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// The last entry that was delivered.
    pub last_id: StreamId,
    /// Entries delivered since the stream's first; `None` if that cannot be told.
    pub entries_read: Option<u64>,
    /// What was delivered and not acknowledged.
    pub pending: BTreeMap<StreamId, Pending>,
    /// The members by name.
    pub consumers: BTreeMap<Vec<u8>, Consumer>,
}

impl Group {
    /// A member, made if it is not there; says whether it was made. O(log members).
    pub fn consumer(&mut self, name: &[u8], now_ms: i64) -> bool {
        let is_new = !self.consumers.contains_key(name);
        if is_new {
            let consumer = Consumer { seen_ms: now_ms, active_ms: -1, pending: BTreeSet::new() };
            self.consumers.insert(name.to_vec(), consumer);
        }
        is_new
    }

    /// Gives an entry to a member, whoever had it before. O(log pending).
    pub fn assign(&mut self, id: StreamId, pending: Pending) {
        if let Some(consumer) = self.consumers.get_mut(&pending.consumer) {
            consumer.pending.insert(id);
        }
        let name = pending.consumer.clone();
        if let Some(before) = self.pending.insert(id, pending)
            && before.consumer != name
            && let Some(consumer) = self.consumers.get_mut(&before.consumer)
        {
            consumer.pending.remove(&id);
        }
    }

    /// Takes an entry off the list; says whether it was pending. O(log pending).
    pub fn acknowledge(&mut self, id: StreamId) -> bool {
        let Some(pending) = self.pending.remove(&id) else { return false };
        if let Some(consumer) = self.consumers.get_mut(&pending.consumer) {
            consumer.pending.remove(&id);
        }
        true
    }

    /// Removes a member with all it has; returns how much that was, if there is such a member. O(what it has).
    pub fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let consumer = self.consumers.remove(name)?;
        consumer.pending.iter().for_each(|id| _ = self.pending.remove(id));
        Some(consumer.pending.len())
    }
}

//! Streams: append-only logs of entries with identifiers.

mod group;
mod idempotency;
mod ids;
mod node;
mod nodes;
mod references;

use std::collections::BTreeMap;

use crate::{Encoding, StreamLimits};
pub use group::{Consumer, Group, Pending};
pub use idempotency::{Idempotency, Recorded, Tracked};
pub use ids::{IdMap, IdSet};
use node::Node;
pub use node::StreamEntry;
use nodes::{BLOCK_LEN_MAX, Nodes, Place};
pub use references::References;

/// An entry's identifier: a time in milliseconds and a sequence number within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Milliseconds, usually since the Unix epoch.
    pub ms: u64,
    /// Which one within the millisecond.
    pub seq: u64,
}

impl StreamId {
    /// The least identifier, which no entry has.
    pub const MIN: Self = StreamId { ms: 0, seq: 0 };

    /// The greatest one.
    pub const MAX: Self = StreamId { ms: u64::MAX, seq: u64::MAX };

    /// The next greater one, if there is one.
    pub fn next(self) -> Option<Self> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => self.ms.checked_add(1).map(|ms| StreamId { ms, seq: 0 }),
        }
    }

    /// The next smaller one, if there is one.
    pub fn previous(self) -> Option<Self> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => self.ms.checked_sub(1).map(|ms| StreamId { ms, seq: u64::MAX }),
        }
    }
}

impl std::fmt::Display for StreamId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// How far a stream is trimmed at its old end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trim {
    /// This many entries remain.
    MaxLen(u64),
    /// Only entries from this identifier on remain.
    MinId(StreamId),
}

/// An append-only log of entries with identifiers.
#[derive(Clone, Debug, Default)]
#[repr(transparent)]
pub struct Stream(Box<Log>);

#[derive(Clone, Debug, Default)]
struct Log {
    nodes: Nodes,
    len: u64,
    last_id: StreamId,
    max_deleted_id: StreamId,
    entries_added: u64,
    groups: BTreeMap<Vec<u8>, Group>,
    /// Made when a producer first uses it.
    idempotency: Option<Box<Idempotency>>,
}

impl Stream {
    /// Number of entries. O(1).
    pub fn len(&self) -> usize {
        self.0.len as usize
    }

    /// Whether there are none. O(1).
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// The encoding, as OBJECT ENCODING reports it.
    pub fn encoding(&self) -> Encoding {
        Encoding::Stream
    }

    /// Bytes allocated. O(nodes + groups + consumers).
    pub fn size_bytes(&self) -> usize {
        const PENDING_BYTES: usize = 120;
        const CONSUMER_BYTES: usize = 160;
        let names = |group: &Group| group.consumers.keys().map(|name| name.len() + CONSUMER_BYTES).sum::<usize>();
        let pending: usize =
            self.0.groups.values().map(|group| group.pending.len() * PENDING_BYTES + names(group)).sum();
        let messages = self.idempotency().map_or(0, Idempotency::size_bytes);
        self.0.nodes.size_bytes() + pending + messages + size_of::<Log>()
    }

    /// About how many allocations freeing it gives back.
    pub fn free_effort(&self) -> usize {
        let pending = |group: &Group| 2 + 2 * group.pending.len() + 2 * group.consumers.len();
        let messages = self.idempotency().map_or(0, Idempotency::free_effort);
        1 + self.0.nodes.free_effort() + self.0.groups.values().map(pending).sum::<usize>() + messages
    }

    /// A copy of a large stream as it is now, which shares its entries and pending entries; `None` if the stream is
    /// small: then it has few nodes and no groups. O(entries / 1,000 + members of groups).
    pub(crate) fn freeze(&mut self) -> Option<Self> {
        let log = &mut *self.0;
        if log.nodes.len() <= BLOCK_LEN_MAX && log.groups.is_empty() && log.idempotency.is_none() {
            return None;
        }
        let idempotency = log.idempotency.as_mut().map(|table| Box::new(table.freeze()));
        let groups = log.groups.iter_mut().map(|(name, group)| (name.clone(), group.freeze())).collect();
        Some(Stream(Box::new(Log { nodes: log.nodes.freeze(), groups, idempotency, ..*log })))
    }

    pub(crate) fn thaw(&mut self) {
        self.0.nodes.thaw();
        self.0.groups.values_mut().for_each(Group::thaw);
        self.0.idempotency.iter_mut().for_each(|table| table.thaw());
    }

    /// Number of nodes.
    pub fn nodes_len(&self) -> usize {
        self.0.nodes.len()
    }

    /// The greatest identifier so far.
    pub fn last_id(&self) -> StreamId {
        self.0.last_id
    }

    /// The greatest identifier of a deleted entry.
    pub fn max_deleted_id(&self) -> StreamId {
        self.0.max_deleted_id
    }

    /// Entries ever added.
    pub fn entries_added(&self) -> u64 {
        self.0.entries_added
    }

    /// Sets what XSETID sets.
    pub fn set_last_id(&mut self, last_id: StreamId, entries_added: Option<u64>, max_deleted_id: Option<StreamId>) {
        self.0.last_id = last_id;
        self.0.entries_added = entries_added.unwrap_or(self.0.entries_added);
        self.0.max_deleted_id = max_deleted_id.unwrap_or(self.0.max_deleted_id);
    }

    /// The identifier of the first entry; the least one if there is none.
    pub fn first_id(&self) -> StreamId {
        self.iter_from(StreamId::MIN).next().map_or(StreamId::MIN, |entry| entry.id)
    }

    /// Appends an entry, whose identifier is greater than the last. Amortised O(1).
    pub fn push(&mut self, id: StreamId, pairs: &[(&[u8], &[u8])], limits: &StreamLimits) {
        debug_assert!(id > self.0.last_id);
        let log = &mut *self.0;
        let added = pairs.iter().map(|(field, value)| field.len() + value.len()).sum();
        let node = match log.nodes.back_mut() {
            Some(node) if !node.is_full(added, limits) => node,
            _ => log.nodes.begin(id, pairs),
        };
        node.push(id, pairs);
        log.len += 1;
        log.entries_added += 1;
        log.last_id = id;
    }

    /// The entries from an identifier on.
    pub fn iter_from(&self, id: StreamId) -> impl Iterator<Item = StreamEntry<'_>> {
        let nodes = self.0.nodes.iter_from(self.0.nodes.of(id).unwrap_or(Place::FIRST));
        nodes.flat_map(move |node| node.iter_from(id)).map(|(_, entry)| entry)
    }

    /// The entries from an identifier down to the first.
    pub fn iter_back_from(&self, id: StreamId) -> impl Iterator<Item = StreamEntry<'_>> {
        let nodes = self.0.nodes.of(id).map(|place| self.0.nodes.iter_back_from(place));
        nodes.into_iter().flatten().flat_map(Node::back).skip_while(move |entry| entry.id > id)
    }

    /// An entry. O(log nodes).
    pub fn get(&self, id: StreamId) -> Option<StreamEntry<'_>> {
        self.iter_from(id).next().filter(|entry| entry.id == id)
    }

    /// Deletes an entry; returns whether it was there. O(log nodes).
    pub fn remove(&mut self, id: StreamId) -> bool {
        let found = self.take_out(id);
        if found {
            self.0.max_deleted_id = self.0.max_deleted_id.max(id);
        }
        found
    }

    /// As [`Stream::remove`], for entries that are cut off.
    fn take_out(&mut self, id: StreamId) -> bool {
        let nodes = &mut self.0.nodes;
        let Some(place) = nodes.of(id) else { return false };
        let node = nodes.get(place);
        let Some((at, _)) = node.iter_from(id).next().filter(|(_, entry)| entry.id == id) else { return false };
        if node.live == 1 {
            nodes.remove(place);
        } else {
            nodes.get_mut(place).delete(at);
        }
        self.0.len -= 1;
        true
    }

    /// Cuts the stream off at its old end and returns how many entries went. With `approximate` only whole nodes go, and at
    /// most `limit` entries if that is not 0. O(entries removed).
    pub fn trim(&mut self, trim: Trim, approximate: bool, limit: u64) -> u64 {
        let mut removed = 0;
        let log = &mut *self.0;
        while let Some(node) = log.nodes.front() {
            let live = u64::from(node.live);
            if approximate && limit > 0 && removed + live > limit {
                break;
            }
            let goes = match trim {
                Trim::MaxLen(len_max) => {
                    if log.len <= len_max {
                        break;
                    }
                    log.len - live >= len_max
                }
                // The next node's first identifier mostly suffices, without reading this node's entries.
                Trim::MinId(id) => match log.nodes.second() {
                    Some(next) if next.first <= id => true,
                    _ => node.iter().last().is_none_or(|(_, entry)| entry.id < id),
                },
            };
            if goes {
                log.nodes.pop_front();
                log.len -= live;
                removed += live;
                continue;
            }
            if !approximate {
                removed += Self::trim_node(log, trim);
            }
            break;
        }
        removed
    }

    /// Deletes entries at the front of the first node, but not the whole node.
    fn trim_node(log: &mut Log, trim: Trim) -> u64 {
        let Some(node) = log.nodes.front_mut() else { return 0 };
        let excess = match trim {
            Trim::MaxLen(len_max) => (log.len - len_max) as usize,
            Trim::MinId(id) => node.iter().take_while(|(_, entry)| entry.id < id).count(),
        };
        let places: Vec<usize> = node.iter().take(excess).map(|(at, _)| at).collect();
        places.iter().for_each(|&at| node.delete(at));
        log.len -= places.len() as u64;
        places.len() as u64
    }

    /// The consumer groups by name.
    pub fn groups(&self) -> &BTreeMap<Vec<u8>, Group> {
        &self.0.groups
    }

    /// The consumer groups by name, to be changed.
    pub fn groups_mut(&mut self) -> &mut BTreeMap<Vec<u8>, Group> {
        &mut self.0.groups
    }

    /// Which messages were added lately; `None` if no producer has ever named one.
    pub fn idempotency(&self) -> Option<&Idempotency> {
        self.0.idempotency.as_deref()
    }

    /// Which messages were added lately, to be changed; made if it is not there.
    pub fn idempotency_mut(&mut self) -> &mut Idempotency {
        self.0.idempotency.get_or_insert_default()
    }

    /// Whether entries from an identifier on may have been deleted.
    pub fn may_have_gaps_from(&self, id: StreamId) -> bool {
        let deleted = self.0.max_deleted_id;
        !self.is_empty() && deleted != StreamId::MIN && id <= deleted && deleted <= self.0.last_id
    }

    /// How many entries were ever added up to an identifier, if that is known (as Redis estimates it).
    pub fn entries_before(&self, id: StreamId) -> Option<u64> {
        if self.0.entries_added == 0 {
            return Some(0);
        }
        if self.is_empty() && id <= self.0.last_id || id == self.0.last_id {
            return Some(self.0.entries_added);
        }
        if id > self.0.last_id {
            return None;
        }
        let (first, deleted) = (self.first_id(), self.0.max_deleted_id);
        if deleted == StreamId::MIN || deleted < first {
            let gone = self.0.entries_added.saturating_sub(self.0.len);
            return match id.cmp(&first) {
                std::cmp::Ordering::Less => Some(gone),
                std::cmp::Ordering::Equal => Some(gone + 1),
                std::cmp::Ordering::Greater => None,
            };
        }
        None
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        let same = |a: StreamEntry<'_>, b: StreamEntry<'_>| a.id == b.id && a.len == b.len && a.iter().eq(b.iter());
        let (a, b) = (self.iter_from(StreamId::MIN), other.iter_from(StreamId::MIN));
        self.len() == other.len()
            && self.last_id() == other.last_id()
            && self.groups() == other.groups()
            && self.idempotency() == other.idempotency()
            && a.zip(b).all(|(a, b)| same(a, b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    type Model = BTreeMap<StreamId, Vec<(Vec<u8>, Vec<u8>)>>;

    fn pairs_of(entry: StreamEntry<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
        entry.iter().map(|(field, value)| (field.to_vec(), value.to_vec())).collect()
    }

    fn check(stream: &Stream, model: &Model, from: StreamId) {
        let ours: Vec<_> = stream.iter_from(from).map(|entry| (entry.id, pairs_of(entry))).collect();
        let theirs: Vec<_> = model.range(from..).map(|(id, pairs)| (*id, pairs.clone())).collect();
        assert_eq!(ours, theirs);
        let back: Vec<_> = stream.iter_back_from(from).map(|entry| entry.id).collect();
        assert_eq!(back, model.range(..=from).rev().map(|(id, _)| *id).collect::<Vec<_>>());
        assert_eq!(*stream, stream.clone());
    }

    /// Appends, deletes and trims at random, against a map.
    #[test]
    fn agrees_with_a_map() {
        let operations = if cfg!(miri) { 400 } else { 100_000 };
        let limits = StreamLimits { node_bytes_max: 400, node_entries_max: 9 };
        let mut random = Random::new(12);
        let mut stream = Stream::default();
        let mut model = Model::new();
        let mut last = StreamId { ms: 5, seq: 3 };
        stream.set_last_id(last, None, None);
        for step in 0..operations {
            match random.below(10) {
                0..6 => {
                    let seq = random.below(3) as u64;
                    last = if random.below(3) == 0 {
                        StreamId { ms: last.ms + 1 + seq * 1000, seq }
                    } else {
                        last.next().unwrap()
                    };
                    let value = vec![b'v'; random.below(20)];
                    let names = ["ab", "ab", "c", "bac"][random.below(4)].as_bytes();
                    let pairs: Vec<(&[u8], &[u8])> = names.chunks(1).map(|name| (name, &value[..])).collect();
                    stream.push(last, &pairs, &limits);
                    model.insert(last, pairs.iter().map(|(field, value)| (field.to_vec(), value.to_vec())).collect());
                }
                6..9 => {
                    let id = model.keys().nth(random.below(model.len().max(1))).copied().unwrap_or(last);
                    let id = if random.below(5) == 0 { StreamId { seq: id.seq + 50, ..id } } else { id };
                    assert_eq!(stream.remove(id), model.remove(&id).is_some());
                }
                _ => {
                    let keep = random.below(60);
                    let gone = if random.below(2) == 0 {
                        stream.trim(Trim::MaxLen(keep as u64), false, 0)
                    } else {
                        let id = model.keys().rev().nth(keep).copied().unwrap_or_default();
                        stream.trim(Trim::MinId(id), false, 0)
                    };
                    (0..gone).for_each(|_| _ = model.pop_first());
                    assert!(model.len() <= keep + 1, "{} {keep}", model.len());
                }
            }
            assert_eq!(stream.len(), model.len());
            assert_eq!(stream.first_id(), model.keys().next().copied().unwrap_or_default());
            if step % 101 == 0 {
                let from = model.keys().nth(random.below(model.len().max(1))).copied().unwrap_or(last);
                check(&stream, &model, from);
            }
        }
    }

    #[test]
    fn trimming_about_takes_whole_nodes() {
        let limits = StreamLimits { node_bytes_max: 0, node_entries_max: 10 };
        let mut stream = Stream::default();
        (1..=100).for_each(|ms| stream.push(StreamId { ms, seq: 0 }, &[(b"f", b"v")], &limits));
        assert_eq!(stream.trim(Trim::MaxLen(55), true, 0), 40);
        assert_eq!(stream.trim(Trim::MaxLen(5), true, 25), 20);
        assert_eq!(stream.trim(Trim::MinId(StreamId { ms: 85, seq: 0 }), true, 0), 20);
        assert_eq!((stream.len(), stream.first_id().ms), (20, 81));
    }

    #[test]
    fn an_entry_takes_hardly_more_than_its_values() {
        if cfg!(miri) {
            return;
        }
        let mut stream = Stream::default();
        for n in 0..100_000 {
            let [temperature, humidity] = [format!("{}.{}", 20 + n % 10, n % 10), format!("{}", 40 + n % 50)];
            let pairs = [(&b"temperature"[..], temperature.as_bytes()), (b"humidity", humidity.as_bytes())];
            stream.push(StreamId { ms: 1_700_000_000_000 + n, seq: 0 }, &pairs, &StreamLimits::default());
        }
        let each = stream.size_bytes() as f64 / stream.len() as f64;
        assert!(each < 13.0, "{each} bytes for an entry of 6 bytes of values");
        // Memory that was requested before is not kept.
        let nodes = stream.0.nodes.iter().rev().skip(1);
        assert!(nodes.clone().count() > 900 && nodes.into_iter().all(Node::is_shrunk));
    }

    #[test]
    fn identifiers_end_at_their_bounds() {
        assert_eq!(StreamId::MAX.next(), None);
        assert_eq!(StreamId::MIN.previous(), None);
        let end = StreamId { ms: 1, seq: u64::MAX };
        assert_eq!(end.next(), Some(StreamId { ms: 2, seq: 0 }));
        assert_eq!(StreamId { ms: 2, seq: 0 }.previous(), Some(end));
    }
}

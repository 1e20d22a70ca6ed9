//! Ordered maps and sets of identifiers, in parts that frozen copies share.

use std::collections::{BTreeMap, VecDeque, btree_map};
use std::ops::{Bound, Index, RangeBounds};

use super::StreamId;
use crate::part::Part;

/// Identifiers of a part, at most: what the first change of a shared part copies.
const PART_LEN_MAX: usize = 128;

/// Neighbours with so many identifiers together become one part.
const MERGED_LEN_MAX: usize = PART_LEN_MAX / 2;

/// A map from identifiers, in their order.
#[derive(Clone, Debug)]
pub struct IdMap<V> {
    /// None of them is empty.
    parts: VecDeque<Bounded<V>>,
    len: usize,
}

#[derive(Clone, Debug)]
struct Bounded<V> {
    /// A lower bound of the part's identifiers, except in the first part; all identifiers of the parts before are less.
    bound: StreamId,
    part: Part<BTreeMap<StreamId, V>>,
}

impl<V> Default for IdMap<V> {
    fn default() -> Self {
        IdMap { parts: VecDeque::new(), len: 0 }
    }
}

impl<V: Clone> IdMap<V> {
    /// Number of identifiers. O(1).
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none. O(1).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A copy of the map as it is now. Both share all parts; a change copies only the part that it changes.
    /// O(identifiers / 100), without reading any.
    pub(super) fn freeze(&mut self) -> Self {
        let share = |Bounded { bound, part }: &mut Bounded<V>| Bounded { bound: *bound, part: part.share() };
        IdMap { parts: self.parts.iter_mut().map(share).collect(), len: self.len }
    }

    /// Takes back the parts that no other copy shares any more. O(identifiers / 100).
    pub(super) fn thaw(&mut self) {
        self.parts.iter_mut().for_each(|bounded| bounded.part.thaw());
    }

    /// The part that an identifier is in or belongs to; 0 if there is none.
    fn part_of(&self, id: StreamId) -> usize {
        // Delivered entries come at the end.
        match self.parts.back() {
            Some(last) if last.bound <= id => self.parts.len() - 1,
            _ => self.parts.partition_point(|part| part.bound <= id).saturating_sub(1),
        }
    }

    /// An identifier with its value. O(log identifiers).
    pub fn get_key_value(&self, id: &StreamId) -> Option<(&StreamId, &V)> {
        self.parts.get(self.part_of(*id))?.part.get_key_value(id)
    }

    /// The value of an identifier. O(log identifiers).
    pub fn get(&self, id: &StreamId) -> Option<&V> {
        self.get_key_value(id).map(|(_, value)| value)
    }

    /// Whether an identifier is there. O(log identifiers).
    pub fn contains_key(&self, id: &StreamId) -> bool {
        self.get_key_value(id).is_some()
    }

    /// The least identifier.
    pub fn first_key_value(&self) -> Option<(&StreamId, &V)> {
        self.parts.front()?.part.first_key_value()
    }

    /// The greatest identifier.
    pub fn last_key_value(&self) -> Option<(&StreamId, &V)> {
        self.parts.back()?.part.last_key_value()
    }

    /// All identifiers, ascending, with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&StreamId, &V)> {
        self.range(..)
    }

    /// All identifiers, ascending.
    pub fn keys(&self) -> impl Iterator<Item = &StreamId> {
        self.iter().map(|(id, _)| id)
    }

    /// The identifiers within two bounds, ascending. O(log identifiers) to the first.
    pub fn range(&self, range: impl RangeBounds<StreamId>) -> Range<'_, V> {
        let (start, end) = (range.start_bound().cloned(), range.end_bound().cloned());
        let first = match start {
            Bound::Included(id) | Bound::Excluded(id) => self.part_of(id),
            Bound::Unbounded => 0,
        };
        Range { rest: self.parts.range(first.min(self.parts.len())..), part: None, start, end }
    }

    /// Inserts or overwrites. O(log identifiers).
    pub(super) fn insert(&mut self, id: StreamId, value: V) {
        let at = self.part_of(id);
        let Some(Bounded { part, .. }) = self.parts.get_mut(at) else {
            self.parts = [Bounded { bound: id, part: Part::from(BTreeMap::from([(id, value)])) }].into();
            self.len = 1;
            return;
        };
        let part = part.own();
        self.len += usize::from(part.insert(id, value).is_none());
        if part.len() > PART_LEN_MAX {
            self.split(at, id);
        }
    }

    /// Splits a full part: in the middle, or, if the last inserted identifier is its greatest, before that one.
    #[cold]
    fn split(&mut self, at: usize, last: StreamId) {
        let part = self.parts[at].part.own();
        let middle = part.keys().nth(PART_LEN_MAX / 2).copied();
        let bound =
            if part.last_key_value().is_some_and(|(id, _)| *id == last) { last } else { middle.unwrap_or(last) };
        let upper = part.split_off(&bound);
        self.parts.insert(at + 1, Bounded { bound, part: upper.into() });
    }

    /// Takes an identifier out. O(log identifiers).
    pub(super) fn remove(&mut self, id: &StreamId) -> Option<V> {
        let at = self.part_of(*id);
        let Bounded { part, .. } = self.parts.get_mut(at)?;
        if matches!(part, Part::Shared(_)) && !part.contains_key(id) {
            return None;
        }
        let part = part.own();
        let removed = part.remove(id)?;
        self.len -= 1;
        let left = part.len();
        if left == 0 {
            self.parts.remove(at);
        } else if left.is_power_of_two() && left < MERGED_LEN_MAX {
            self.merge(at);
        }
        Some(removed)
    }

    /// Merges a part with the next or the previous one, if both are nearly empty.
    fn merge(&mut self, at: usize) {
        for at in [Some(at), at.checked_sub(1)].into_iter().flatten() {
            let next = self.parts.get(at + 1).map_or(usize::MAX, |next| next.part.len());
            if next.saturating_add(self.parts[at].part.len()) <= MERGED_LEN_MAX
                && let Some(next) = self.parts.remove(at + 1)
            {
                return self.parts[at].part.own().append(&mut next.part.into_inner());
            }
        }
    }
}

/// Identifiers within two bounds.
pub struct Range<'a, V> {
    rest: std::collections::vec_deque::Iter<'a, Bounded<V>>,
    part: Option<btree_map::Range<'a, StreamId, V>>,
    start: Bound<StreamId>,
    end: Bound<StreamId>,
}

impl<'a, V> Iterator for Range<'a, V> {
    type Item = (&'a StreamId, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(next) = self.part.as_mut().and_then(Iterator::next) {
                return Some(next);
            }
            let next = self.rest.next()?;
            self.part = Some(next.part.range((self.start, self.end)));
        }
    }
}

impl<'a, V: Clone> IntoIterator for &'a IdMap<V> {
    type Item = (&'a StreamId, &'a V);
    type IntoIter = Range<'a, V>;

    fn into_iter(self) -> Range<'a, V> {
        self.range(..)
    }
}

impl<V: Clone> Index<&StreamId> for IdMap<V> {
    type Output = V;

    fn index(&self, id: &StreamId) -> &V {
        self.get(id).expect("an identifier that is there")
    }
}

impl<V: Clone + PartialEq> PartialEq for IdMap<V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<V: Clone + Eq> Eq for IdMap<V> {}

/// A set of identifiers, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdSet(IdMap<()>);

impl IdSet {
    /// Number of identifiers. O(1).
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none. O(1).
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All identifiers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = &StreamId> {
        self.0.keys()
    }

    /// The identifiers within two bounds, ascending. O(log identifiers) to the first.
    pub fn range(&self, range: impl RangeBounds<StreamId>) -> impl Iterator<Item = &StreamId> {
        self.0.range(range).map(|(id, ())| id)
    }

    pub(super) fn freeze(&mut self) -> Self {
        IdSet(self.0.freeze())
    }

    pub(super) fn thaw(&mut self) {
        self.0.thaw();
    }

    pub(super) fn insert(&mut self, id: StreamId) {
        self.0.insert(id, ());
    }

    pub(super) fn remove(&mut self, id: &StreamId) {
        self.0.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    fn id(n: usize) -> StreamId {
        StreamId { ms: n as u64 / 3, seq: n as u64 % 3 }
    }

    /// Inserts and removes at random and at the ends, against a map.
    #[test]
    fn agrees_with_a_map() {
        let operations = if cfg!(miri) { 1_000 } else { 100_000 };
        let mut random = Random::new(6);
        let mut map = IdMap::default();
        let mut model: BTreeMap<StreamId, usize> = BTreeMap::new();
        for step in 0..operations {
            let growing = step % (operations / 4) < operations / 7;
            let at = random.below(6_000);
            let near_end = if random.below(2) == 0 { model.keys().next() } else { model.keys().next_back() };
            let chosen = if random.below(2) == 0 { id(at) } else { near_end.copied().unwrap_or(id(at)) };
            if random.below(10) < if growing { 7 } else { 2 } {
                let id = if random.below(3) == 0 { id(6_000 + step) } else { id(at) };
                map.insert(id, step);
                model.insert(id, step);
            } else {
                assert_eq!(map.remove(&chosen), model.remove(&chosen));
            }
            assert_eq!((map.len(), map.get(&chosen)), (model.len(), model.get(&chosen)));
            if step % (operations / 50) == 0 {
                assert!(map.iter().eq(&model));
                assert_eq!(map.first_key_value(), model.first_key_value());
                assert_eq!(map.last_key_value(), model.last_key_value());
                let (from, to) = (id(at), id(at + random.below(3_000)));
                assert!(map.range(from..=to).eq(model.range(from..=to)));
                assert!(
                    map.range((Bound::Excluded(from), Bound::Unbounded))
                        .eq(model.range((Bound::Excluded(from), Bound::Unbounded)))
                );
                assert!(map.parts.iter().all(|Bounded { part, .. }| (1..=PART_LEN_MAX).contains(&part.len())));
                assert!(map.parts.len() <= 2 + map.len() / 12, "{} parts for {}", map.parts.len(), map.len());
            }
        }
    }

    #[test]
    fn identifiers_that_come_in_order_fill_their_parts() {
        let mut map = IdMap::default();
        (0..10 * PART_LEN_MAX).for_each(|n| map.insert(id(n), ()));
        assert_eq!(map.parts.len(), 10);
    }
}

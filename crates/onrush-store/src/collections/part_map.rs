//! Ordered maps in parts that frozen copies share.

use std::borrow::Borrow;
use std::collections::{BTreeMap, VecDeque, btree_map};
use std::fmt;
use std::ops::{Bound, Index, RangeBounds};

use crate::collections::part::Part;

/// Keys of a part, at most: what the first change of a shared part copies.
const PART_LEN_MAX: usize = 128;

/// Neighbours with so many keys together become one part.
const MERGED_LEN_MAX: usize = PART_LEN_MAX / 2;

/// An ordered map. Its frozen copies share its parts; a change copies only the part that it changes, so values should
/// be cheap to clone.
#[derive(Clone)]
pub struct PartMap<K, V> {
    /// None of them is empty.
    parts: VecDeque<Bounded<K, V>>,
    len: usize,
}

#[derive(Clone)]
struct Bounded<K, V> {
    /// A lower bound of the part's keys, except in the first part; all keys of the parts before are less.
    bound: K,
    part: Part<BTreeMap<K, V>>,
}

impl<K, V> Default for PartMap<K, V> {
    fn default() -> Self {
        PartMap { parts: VecDeque::new(), len: 0 }
    }
}

impl<K: Ord + Clone, V: Clone> PartMap<K, V> {
    /// Number of keys. O(1).
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none. O(1).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A copy of the map as it is now. Both share all parts; a change copies only the part that it changes.
    /// O(keys / 100), without reading any but the parts' bounds.
    pub(crate) fn freeze(&mut self) -> Self {
        let share = |Bounded { bound, part }: &mut Bounded<K, V>| Bounded { bound: bound.clone(), part: part.share() };
        PartMap { parts: self.parts.iter_mut().map(share).collect(), len: self.len }
    }

    /// Takes back the parts that no other copy shares any more. O(keys / 100).
    pub(crate) fn thaw(&mut self) {
        self.parts.iter_mut().for_each(|bounded| bounded.part.thaw());
    }

    /// The part that a key is in or belongs to; 0 if there is none.
    fn part_of<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        // Many keys come in order.
        match self.parts.back() {
            Some(last) if last.bound.borrow() <= key => self.parts.len() - 1,
            _ => self.parts.partition_point(|part| part.bound.borrow() <= key).saturating_sub(1),
        }
    }

    /// A key as it is stored, with its value. O(log keys).
    pub fn get_key_value<Q: Ord + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        self.parts.get(self.part_of(key))?.part.get_key_value(key)
    }

    /// The value of a key. O(log keys).
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// The value of a key, to be changed. O(log keys).
    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let at = self.part_of(key);
        let Bounded { part, .. } = self.parts.get_mut(at)?;
        if is_shared_without(part, key) {
            return None;
        }
        part.own().get_mut(key)
    }

    /// Whether a key is there. O(log keys).
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get_key_value(key).is_some()
    }

    /// The least key.
    pub fn first_key_value(&self) -> Option<(&K, &V)> {
        self.parts.front()?.part.first_key_value()
    }

    /// The greatest key.
    pub fn last_key_value(&self) -> Option<(&K, &V)> {
        self.parts.back()?.part.last_key_value()
    }

    /// All keys, ascending, with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.parts.iter().flat_map(|bounded| bounded.part.iter())
    }

    /// All keys, ascending.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// All values, by ascending keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// The keys within two bounds, ascending. O(log keys) to the first.
    pub fn range(&self, range: impl RangeBounds<K>) -> Range<'_, K, V> {
        let (start, end) = (range.start_bound().cloned(), range.end_bound().cloned());
        let first = match &start {
            Bound::Included(key) | Bound::Excluded(key) => self.part_of(key),
            Bound::Unbounded => 0,
        };
        Range { rest: self.parts.range(first.min(self.parts.len())..), part: None, start, end }
    }

    /// Inserts or overwrites. O(log keys).
    pub(crate) fn insert(&mut self, key: K, value: V) {
        let at = self.part_of(&key);
        let Some(Bounded { part, .. }) = self.parts.get_mut(at) else {
            self.parts = [Bounded { bound: key.clone(), part: Part::from(BTreeMap::from([(key, value)])) }].into();
            self.len = 1;
            return;
        };
        let part = part.own();
        // A full part is split in the middle, or, if the new key is its greatest, before that one.
        let split_at = if part.len() < PART_LEN_MAX {
            None
        } else if part.last_key_value().is_some_and(|(last, _)| *last < key) {
            Some(PART_LEN_MAX)
        } else {
            Some(PART_LEN_MAX / 2)
        };
        self.len += usize::from(part.insert(key, value).is_none());
        if let Some(split_at) = split_at {
            self.split(at, split_at);
        }
    }

    /// Splits a part that has grown too long; a number of its keys stays.
    #[cold]
    fn split(&mut self, at: usize, stays: usize) {
        let part = self.parts[at].part.own();
        let Some(bound) = part.keys().nth(stays).filter(|_| part.len() > PART_LEN_MAX).cloned() else { return };
        let upper = part.split_off(&bound);
        self.parts.insert(at + 1, Bounded { bound, part: upper.into() });
    }

    /// Takes a key out. O(log keys).
    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let at = self.part_of(key);
        let Bounded { part, .. } = self.parts.get_mut(at)?;
        if is_shared_without(part, key) {
            return None;
        }
        let part = part.own();
        let removed = part.remove(key)?;
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

/// Whether a part need not be copied for a change of a key, as the key is not there.
fn is_shared_without<K: Ord + Borrow<Q>, V, Q: Ord + ?Sized>(part: &Part<BTreeMap<K, V>>, key: &Q) -> bool {
    matches!(part, Part::Shared(part) if !part.contains_key(key))
}

/// Keys within two bounds.
pub struct Range<'a, K, V> {
    rest: std::collections::vec_deque::Iter<'a, Bounded<K, V>>,
    part: Option<btree_map::Range<'a, K, V>>,
    start: Bound<K>,
    end: Bound<K>,
}

impl<'a, K: Ord + Clone, V> Iterator for Range<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(next) = self.part.as_mut().and_then(Iterator::next) {
                return Some(next);
            }
            let next = self.rest.next()?;
            self.part = Some(next.part.range((self.start.clone(), self.end.clone())));
        }
    }
}

impl<'a, K: Ord + Clone, V: Clone> IntoIterator for &'a PartMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Range<'a, K, V>;

    fn into_iter(self) -> Range<'a, K, V> {
        self.range(..)
    }
}

impl<K: Ord + Clone, V: Clone> Index<&K> for PartMap<K, V> {
    type Output = V;

    fn index(&self, key: &K) -> &V {
        self.get(key).expect("a key that is there")
    }
}

impl<K: Ord + Clone, V: Clone + PartialEq> PartialEq for PartMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<K: Ord + Clone, V: Clone + Eq> Eq for PartMap<K, V> {}

impl<K: Ord + Clone + fmt::Debug, V: Clone + fmt::Debug> fmt::Debug for PartMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    /// Inserts and removes at random and at the ends, against a map.
    #[test]
    fn agrees_with_a_map() {
        let operations = if cfg!(miri) { 1_000 } else { 100_000 };
        let mut random = Random::new(6);
        let mut map = PartMap::default();
        let mut model: BTreeMap<usize, usize> = BTreeMap::new();
        for step in 0..operations {
            let growing = step % (operations / 4) < operations / 7;
            let at = random.below(6_000);
            let near_end = if random.below(2) == 0 { model.keys().next() } else { model.keys().next_back() };
            let chosen = if random.below(2) == 0 { at } else { near_end.copied().unwrap_or(at) };
            if random.below(10) < if growing { 7 } else { 2 } {
                let key = if random.below(3) == 0 { 6_000 + step } else { at };
                map.insert(key, step);
                model.insert(key, step);
            } else {
                assert_eq!(map.remove(&chosen), model.remove(&chosen));
            }
            assert_eq!((map.len(), map.get(&chosen)), (model.len(), model.get(&chosen)));
            if step % (operations / 50) == 0 {
                assert!(map.iter().eq(&model));
                assert_eq!(map.first_key_value(), model.first_key_value());
                assert_eq!(map.last_key_value(), model.last_key_value());
                let (from, to) = (at, at + random.below(3_000));
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
    fn keys_that_come_in_order_fill_their_parts() {
        let mut map = PartMap::default();
        (0..10 * PART_LEN_MAX).for_each(|n| map.insert(n, ()));
        assert_eq!(map.parts.len(), 10);
    }
}

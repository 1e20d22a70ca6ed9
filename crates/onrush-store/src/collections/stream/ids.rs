//! Ordered maps and sets of identifiers, in parts that frozen copies share.

use std::ops::RangeBounds;

use super::StreamId;
use crate::collections::part_map::PartMap;

/// A map from identifiers, in their order.
pub type IdMap<V> = PartMap<StreamId, V>;

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

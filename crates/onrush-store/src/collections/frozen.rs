//! Large collections as they were at some moment, for a thread that reads them while the collections go on changing.

use crate::{Collection, CollectionRef, Entry, Hash, List, Set, SortedSet, Stream, Type};

/// A large collection as it was when it was frozen: to be read, sent to another thread, and dropped there.
///
/// It shares its parts with the collection that it was made from. Before the collection changes a shared part, for
/// example a segment of some hundred members, it copies that part. The last owner of a part frees it: dropping this
/// frees all that was changed or deleted since, so drop it where that may take long, not under the lock of a shard.
///
/// Iterating over a collection in its own order works as before. A frozen sorted set only has its order: members are
/// found by rank or by score, but not by name.
#[derive(Debug)]
pub struct Frozen(Collection);

impl Frozen {
    /// What was frozen.
    pub fn as_ref(&self) -> CollectionRef<'_> {
        self.0.as_ref()
    }
}

impl Entry {
    /// The value as it is now, if it is a large collection: see [`Collection::freeze`].
    pub fn freeze(&mut self) -> Option<Frozen> {
        Some(Frozen(match self.ty() {
            Type::String => return None,
            Type::List => self.collection_mut().and_then(List::freeze)?.into(),
            Type::Set => self.collection_mut().and_then(Set::freeze)?.into(),
            Type::SortedSet => self.collection_mut().and_then(SortedSet::freeze)?.into(),
            Type::Hash => self.collection_mut().and_then(Hash::freeze)?.into(),
            Type::Stream => self.collection_mut().and_then(Stream::freeze)?.into(),
        }))
    }
}

impl Entry {
    /// As [`Collection::thaw`]. Affects only large collections.
    pub fn thaw(&mut self) {
        match self.ty() {
            Type::String => {}
            Type::List => self.collection_mut().into_iter().for_each(List::thaw),
            Type::Set => self.collection_mut().into_iter().for_each(Set::thaw),
            Type::SortedSet => self.collection_mut().into_iter().for_each(SortedSet::thaw),
            Type::Hash => self.collection_mut().into_iter().for_each(Hash::thaw),
            Type::Stream => self.collection_mut().into_iter().for_each(Stream::thaw),
        }
    }
}

impl Collection {
    /// Takes back the parts that were shared with frozen copies that are gone, so that reading is as fast as before; a
    /// change does this for the part that it changes. Call this after dropping a frozen copy. Takes as long as
    /// [`Collection::freeze`].
    pub fn thaw(&mut self) {
        match self {
            Collection::List(list) => list.thaw(),
            Collection::Set(set) => set.thaw(),
            Collection::SortedSet(set) => set.thaw(),
            Collection::Hash(hash) => hash.thaw(),
            Collection::Stream(stream) => stream.thaw(),
        }
    }

    /// A frozen copy of the collection, if it is large; `None` for a small one, which is read in place. About
    /// O(elements / 500), without reading or copying elements: about a millisecond for 10,000,000.
    pub fn freeze(&mut self) -> Option<Frozen> {
        Some(Frozen(match self {
            Collection::List(list) => list.freeze()?.into(),
            Collection::Set(set) => set.freeze()?.into(),
            Collection::SortedSet(set) => set.freeze()?.into(),
            Collection::Hash(hash) => hash.freeze()?.into(),
            Collection::Stream(stream) => stream.freeze()?.into(),
        }))
    }
}

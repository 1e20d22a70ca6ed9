//! The types of data: what the engine has to know of each beyond its commands. A new type gets a file here, and a line in [`of`].

pub mod batch;
pub mod digest;
mod hash;
mod list;
pub(crate) mod producers;
pub mod rdb;
mod set;
mod sorted_set;
mod stream;

use onrush_store::CollectionRef;

use self::batch::Emit;
use self::digest::Mixer;

/// A type of data.
pub(crate) trait DataType {
    /// Emits the commands that make it, as the value of a key that is not there. O(size).
    fn rebuild(&self, key: &[u8], emit: Emit<'_>);

    /// Mixes in what its readers see. O(size).
    fn digest(&self, mixer: &mut Mixer);

    /// Mixes in what only commands about it tell: when parts expire, who has what of it.
    fn digest_state(&self, _mixer: &mut Mixer) {}
}

/// What the engine knows of a collection's type.
pub(crate) fn of(collection: CollectionRef<'_>) -> &dyn DataType {
    match collection {
        CollectionRef::List(list) => list,
        CollectionRef::Set(set) => set,
        CollectionRef::SortedSet(set) => set,
        CollectionRef::Hash(hash) => hash,
        CollectionRef::Stream(stream) => stream,
    }
}

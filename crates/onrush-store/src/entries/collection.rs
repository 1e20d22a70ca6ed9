//! The collections an entry can hold: each is one word wide, unless its run is embedded in the entry.

use std::mem::{ManuallyDrop, transmute_copy};
use std::ops::DerefMut;

use crate::entries::embedded::{CollectionMut, Embedded};
use crate::keyspace::bucket::EntryMut;
use crate::{Encoding, Hash, List, Set, SortedSet, Stream, Type};

/// A collection on its own, outside any entry.
#[derive(Clone, Debug, PartialEq)]
pub enum Collection {
    /// A list.
    List(List),
    /// A set.
    Set(Set),
    /// A sorted set.
    SortedSet(SortedSet),
    /// A hash.
    Hash(Hash),
    /// A stream.
    Stream(Stream),
}

/// A collection in its entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CollectionRef<'a> {
    /// A list.
    List(&'a List),
    /// A set.
    Set(&'a Set),
    /// A sorted set.
    SortedSet(&'a SortedSet),
    /// A hash.
    Hash(&'a Hash),
    /// A stream.
    Stream(&'a Stream),
}

mod sealed {
    use crate::CollectionType;
    use crate::keyspace::bucket::EntryMut;

    pub trait Sealed: Sized {
        /// Opens the collection of an entry for changing. The entry must hold this type.
        fn open(entry: EntryMut<'_>) -> Self::Mut<'_>
        where
            Self: CollectionType;
    }
}

/// One of the collection types. An entry's header names the type.
pub trait CollectionType: Sized + Default + sealed::Sealed + 'static {
    /// The type as TYPE reports it.
    const TYPE: Type;

    /// The collection in its entry, to be changed.
    type Mut<'t>: DerefMut<Target = Self>;

    /// The same as an enum.
    fn into_collection(self) -> Collection;

    /// Number of elements, members or fields; a collection of none is deleted with its key, but for a stream.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The only list of the collection types: all code that exists once per type is generated from it.
macro_rules! collections {
    ($($name:ident: $mutable:ty, $open:expr, $run:expr, $prefetch:expr;)*) => {
        $(
            const _: () = assert!(size_of::<$name>() == size_of::<usize>(), "a collection is one word");

            impl sealed::Sealed for $name {
                #[inline]
                fn open(entry: EntryMut<'_>) -> <Self as CollectionType>::Mut<'_> {
                    $open(entry)
                }
            }

            impl CollectionType for $name {
                const TYPE: Type = Type::$name;

                type Mut<'t> = $mutable;

                fn into_collection(self) -> Collection {
                    Collection::$name(self)
                }

                #[inline]
                fn len(&self) -> usize {
                    $name::len(self)
                }
            }

            impl From<$name> for Collection {
                fn from(collection: $name) -> Self {
                    Collection::$name(collection)
                }
            }
        )*

        impl Collection {
            /// The collection's type.
            pub fn ty(&self) -> Type {
                match self { $(Collection::$name(_) => Type::$name,)* }
            }

            /// Reads it. O(1).
            pub fn as_ref(&self) -> CollectionRef<'_> {
                match self { $(Collection::$name(collection) => CollectionRef::$name(collection),)* }
            }

            /// Takes the collection out of the word that represents it in an entry.
            ///
            /// # Safety
            /// `word` is the word of an entry with a collection of this type, which is forgotten there.
            pub(crate) unsafe fn from_word(ty: Type, word: *const u8) -> Self {
                // SAFETY: per the caller; a collection is one word.
                unsafe {
                    match ty {
                        $(Type::$name => Collection::$name(std::ptr::read(word.cast())),)*
                        Type::String => unreachable!("a string is no collection"),
                    }
                }
            }

            /// The word that stands for it in an entry.
            pub(crate) fn into_word(self) -> *mut u8 {
                match self {
                    $(Collection::$name(collection) => {
                        let collection = ManuallyDrop::new(collection);
                        // SAFETY: every collection is one word, a pointer (checked above); it is not dropped here.
                        unsafe { transmute_copy::<ManuallyDrop<$name>, *mut u8>(&collection) }
                    })*
                }
            }
        }

        impl<'a> CollectionRef<'a> {
            /// The collection of a type that is at `word`.
            ///
            /// # Safety
            /// `word` points at a collection of this type that lives for `'a`.
            #[inline]
            pub(crate) unsafe fn at(ty: Type, word: *const u8) -> Self {
                // SAFETY: per the caller.
                unsafe {
                    match ty {
                        $(Type::$name => CollectionRef::$name(&*word.cast()),)*
                        Type::String => unreachable!("a string is no collection"),
                    }
                }
            }

            /// The packed run that the collection is, if it is small. O(1).
            pub(crate) fn run(self) -> Option<&'a [u8]> {
                match self { $(CollectionRef::$name(collection) => $run(collection),)* }
            }

            /// Prefetches what looking up members or fields with these hashes reads.
            pub(crate) fn prefetch(self, hashes: &[u64]) {
                match self { $(CollectionRef::$name(collection) => $prefetch(collection, hashes),)* }
            }

            /// The encoding, as OBJECT ENCODING reports it. O(1).
            pub fn encoding(self) -> Encoding {
                match self { $(CollectionRef::$name(collection) => collection.encoding(),)* }
            }

            /// Number of elements, members or fields. O(1).
            #[allow(clippy::len_without_is_empty, reason = "an empty one is deleted with its key")]
            pub fn len(self) -> usize {
                match self { $(CollectionRef::$name(collection) => collection.len(),)* }
            }

            /// Bytes that it has allocated. At most O(chunks).
            pub fn size_bytes(self) -> usize {
                match self { $(CollectionRef::$name(collection) => collection.size_bytes(),)* }
            }

            /// About how many allocations freeing it gives back.
            pub fn free_effort(self) -> usize {
                match self { $(CollectionRef::$name(collection) => collection.free_effort(),)* }
            }

            /// A copy. O(size).
            pub fn to_owned(self) -> Collection {
                match self { $(CollectionRef::$name(collection) => Collection::$name(collection.clone()),)* }
            }
        }
    };
}

collections! {
    List: CollectionMut<'t, List>, CollectionMut::new, List::run, |_, _| ();
    Set: CollectionMut<'t, Set>, CollectionMut::new, Set::run, Set::prefetch;
    SortedSet: CollectionMut<'t, SortedSet>, CollectionMut::new, SortedSet::run, SortedSet::prefetch;
    Hash: CollectionMut<'t, Hash>, CollectionMut::new, Hash::run, Hash::prefetch;
    Stream: &'t mut Stream, open_stream, |_| None, |_, _| ();
}

fn open_stream(entry: EntryMut<'_>) -> &mut Stream {
    entry.into_entry_mut().collection_mut().expect("an entry with a stream, which is never embedded")
}

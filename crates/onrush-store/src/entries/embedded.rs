//! Small collections inside their entries: how an embedded run is changed.
//!
//! A run that is embedded cannot grow beyond its entry, and the entry cannot move while somebody holds a reference into
//! it. So [`CollectionMut`] copies the run out before the first change and embeds it again in the end. Reading happens
//! in place, and so do changes that keep the length, where a type supports that.

use std::cell::Cell;
use std::hint::cold_path;
use std::ops::{Deref, DerefMut};

use crate::Packed;
use crate::entries::collection::CollectionType;
use crate::entries::entry::RUN_LEN_MAX;
use crate::keyspace::bucket::EntryMut;

/// A collection that can be one packed run of bytes.
pub trait Embedded: CollectionType {
    /// The run, if it is one.
    fn run(&self) -> Option<&[u8]>;

    /// The collection that consists of such a run.
    fn from_run(run: Packed) -> Self;

    /// Takes the run, if it is one.
    fn into_run(self) -> Option<Packed>;

    /// The run, if it is one, for giving back spare capacity.
    fn run_mut(&mut self) -> Option<&mut Packed>;
}

/// Room for a copy that grows, in bytes.
const SPARE_CAPACITY: usize = 2 * RUN_LEN_MAX;

thread_local! {
    /// The thread's buffer for copies of runs, while no run is being changed.
    static SPARE: Cell<Packed> = const { Cell::new(Packed::new()) };
}

fn take_spare() -> Packed {
    let spare = SPARE.try_with(Cell::take).unwrap_or_default();
    if spare.capacity() >= RUN_LEN_MAX { spare } else { Packed::with_capacity(SPARE_CAPACITY) }
}

fn keep_spare(run: Packed) {
    if run.capacity() >= RUN_LEN_MAX {
        // A thread that ends keeps no buffer.
        _ = SPARE.try_with(|spare| spare.set(run));
    }
}

/// A collection in its entry, for changing it. On drop it goes back into the entry, which may move the entry. If it is
/// forgotten instead, an embedded collection stays as it was.
pub struct CollectionMut<'t, T: Embedded> {
    entry: EntryMut<'t>,
    /// The changed copy of an embedded collection, once there is a change.
    copied: Option<T>,
}

impl<'t, T: Embedded> CollectionMut<'t, T> {
    /// For an entry that holds a `T`.
    #[inline]
    pub(crate) fn new(entry: EntryMut<'t>) -> Self {
        debug_assert_eq!(entry.entry().ty(), T::TYPE);
        CollectionMut { entry, copied: None }
    }

    /// The embedded run, to be changed in place without changing its length; `None` if it is not embedded, or copied already.
    #[inline]
    pub(crate) fn run_in_place(&mut self) -> Option<&mut [u8]> {
        if self.copied.is_some() { None } else { self.entry.entry_mut().run_mut() }
    }

    #[inline(never)]
    fn copy_out(&mut self) {
        let mut copy = take_spare();
        let run = self.entry.entry().collection::<T>().and_then(T::run).unwrap_or_default();
        copy.splice(0..copy.len(), &[run]);
        self.copied = Some(T::from_run(copy));
    }

    #[inline(never)]
    fn embed_copied(&mut self, mut collection: T) {
        let run = match collection.run() {
            Some(run) if self.entry.entry_mut().set_run(run) => collection.into_run(),
            Some(run) if run.len() > RUN_LEN_MAX => {
                collection.run_mut().into_iter().for_each(Packed::shrink_to_fit);
                self.entry.edit(|entry| entry.replace_run(collection))
            }
            _ => self.entry.edit(|entry| entry.replace_run(collection)),
        };
        run.into_iter().for_each(keep_spare);
    }

    #[inline]
    fn tidy(&mut self) {
        let Some(run) = self.entry.entry_mut().collection_mut::<T>().and_then(T::run_mut) else { return };
        cold_path();
        if run.len() <= RUN_LEN_MAX_AGAIN {
            self.entry.edit(|entry| entry.embed::<T>());
        } else {
            run.give_back();
        }
    }
}

/// The longest run, in bytes, that is embedded again after it had an allocation of its own: less than [`RUN_LEN_MAX`],
/// so that a run whose length varies around that is not copied each time.
const RUN_LEN_MAX_AGAIN: usize = RUN_LEN_MAX / 4 * 3;

impl<T: Embedded> Deref for CollectionMut<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &self.copied {
            Some(collection) => collection,
            None => self.entry.entry().collection().expect("made for an entry with a collection of this type"),
        }
    }
}

impl<T: Embedded> DerefMut for CollectionMut<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        if self.copied.is_none() && self.entry.entry().has_run() {
            self.copy_out();
        }
        match &mut self.copied {
            Some(collection) => collection,
            None => self.entry.entry_mut().collection_mut().expect("a collection of this type that is not embedded"),
        }
    }
}

impl<T: Embedded> Drop for CollectionMut<'_, T> {
    #[inline]
    fn drop(&mut self) {
        match self.copied.take() {
            Some(collection) => self.embed_copied(collection),
            None if self.entry.entry().has_run() => {}
            None => self.tidy(),
        }
    }
}

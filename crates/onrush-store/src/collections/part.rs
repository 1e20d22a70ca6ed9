//! Parts of large collections, which a frozen copy shares with the collection it was made of.
//!
//! A collection that was never frozen owns its parts, and a change checks only that. Freezing moves each part behind a
//! count of its owners. Changing a shared part first copies it, or takes it back if there is no other owner any more.
//! The last owner of a part frees it, on its own thread.

use std::hint::cold_path;
use std::ops::Deref;
use std::sync::Arc;

/// A part of a collection: owned, or shared with frozen copies. A clone of an owned part is a copy of it.
#[derive(Clone, Debug)]
pub(crate) enum Part<T> {
    /// There is no other owner.
    Own(T),
    /// There may be other owners.
    Shared(Arc<T>),
}

impl<T: Clone + Default> Part<T> {
    /// The part, for changing it; copied if there is another owner.
    #[inline]
    pub(crate) fn own(&mut self) -> &mut T {
        match self {
            Part::Own(part) => part,
            Part::Shared(_) => self.take_back(),
        }
    }

    #[cold]
    #[inline(never)]
    fn take_back(&mut self) -> &mut T {
        *self = Part::Own(std::mem::take(self).into_inner());
        self.own()
    }

    /// Another reference to the part, which is shared from now on. O(1), without reading what the part points at.
    pub(crate) fn share(&mut self) -> Self {
        let part = match std::mem::take(self) {
            Part::Own(part) => Arc::new(part),
            Part::Shared(part) => part,
        };
        *self = Part::Shared(part.clone());
        Part::Shared(part)
    }

    /// Takes the part back if there is no other owner any more. O(1).
    pub(crate) fn thaw(&mut self) {
        if let Part::Shared(part) = self
            && let Some(part) = Arc::get_mut(part)
        {
            *self = Part::Own(std::mem::take(part));
        }
    }

    /// The part's content: moved out, or copied if there is another owner.
    pub(crate) fn into_inner(self) -> T {
        match self {
            Part::Own(part) => part,
            Part::Shared(part) => Arc::unwrap_or_clone(part),
        }
    }
}

impl<T: Default> Default for Part<T> {
    #[inline]
    fn default() -> Self {
        Part::Own(T::default())
    }
}

impl<T> From<T> for Part<T> {
    #[inline]
    fn from(part: T) -> Self {
        Part::Own(part)
    }
}

impl<T> Deref for Part<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match self {
            Part::Own(part) => part,
            Part::Shared(part) => {
                cold_path();
                part
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_part_is_copied_once_and_taken_back_when_nobody_else_has_it() {
        let mut part = Part::from(vec![1, 2]);
        let address = part.as_ptr();
        let frozen = part.share();
        let again = part.share();
        assert_eq!((frozen.as_ptr(), again.as_ptr(), part.as_ptr()), (address, address, address));
        part.own().push(3);
        let copied = part.as_ptr();
        part.own()[0] = 7;
        assert_eq!((&*part, &*frozen, part.as_ptr()), (&vec![7, 2, 3], &vec![1, 2], copied));
        part.thaw();
        drop(frozen);
        let mut last = again;
        let other = last.share();
        last.thaw();
        assert!(matches!(last, Part::Shared(_)));
        drop(other);
        last.thaw();
        assert!(matches!(last, Part::Own(_)));
        last.own()[0] = 5;
        assert_eq!((last.as_ptr(), last.into_inner()), (address, vec![5, 2]));
    }
}

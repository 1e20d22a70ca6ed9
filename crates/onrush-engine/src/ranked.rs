//! Values that are put in order by something beside them.

use std::cmp::Ordering;

/// A value that goes by its rank alone where such values are put in order.
pub(crate) struct Ranked<R, T> {
    pub(crate) rank: R,
    pub(crate) what: T,
}

impl<R: Ord, T> PartialEq for Ranked<R, T> {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl<R: Ord, T> Eq for Ranked<R, T> {}

impl<R: Ord, T> PartialOrd for Ranked<R, T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<R: Ord, T> Ord for Ranked<R, T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.cmp(&other.rank)
    }
}

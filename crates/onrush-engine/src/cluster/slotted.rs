//! The slot that a call is about.

use onrush_cluster::slots::slot;

use crate::batch::argv::Arguments;
use crate::command::Command;
use crate::command::find_keys::find_places;

/// The slot of the first key or sharded channel of a call, and how the others stand to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slotted {
    pub slot: u16,
    /// Whether there are others.
    pub has_several: bool,
    /// Whether one of them is of another slot.
    pub is_crossing: bool,
}

impl Slotted {
    /// Those of two calls together.
    pub(crate) fn and(self, other: Self) -> Self {
        let is_crossing = self.is_crossing || other.is_crossing || self.slot != other.slot;
        Self { slot: self.slot, has_several: true, is_crossing }
    }
}

/// Where the keys and sharded channels of a call belong; `None` if it has none.
pub(crate) fn slot_of<A: Arguments + ?Sized>(command: &Command, argv: &A) -> Option<Slotted> {
    // A call with wrong keys is executed here, and told what is wrong.
    let places = find_places(command, argv).ok()?;
    let mut keys = places.into_iter().map(|key| argv.get(key.index));
    let first = keys.next()?;
    let mut slotted = Slotted { slot: slot(first), has_several: false, is_crossing: false };
    for key in keys.filter(|key| *key != first) {
        slotted.has_several = true;
        slotted.is_crossing |= slot(key) != slotted.slot;
    }
    Some(slotted)
}

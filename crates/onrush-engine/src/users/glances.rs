//! Commands that are allowed at a glance: a byte for each, made when rights are.

use crate::command::name_index::CommandId;
use crate::users::selector::Access;

/// What the first selector says of a command. What it does not allow at a glance is looked at in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Glance {
    /// Not allowed, or it depends on the arguments.
    Unclear,
    /// Allowed with any arguments.
    Allowed,
    /// Allowed on keys where all of this is.
    OnKeys(Access),
}

/// A glance for each command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Glances(pub(super) Box<[Glance]>);

impl Glances {
    /// The glance for a command.
    #[inline]
    pub(super) fn of(&self, id: CommandId) -> Glance {
        self.0.get(usize::from(id)).copied().unwrap_or(Glance::Unclear)
    }
}

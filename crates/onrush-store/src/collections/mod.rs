//! The large forms of collections.

pub(crate) mod dict;
pub(crate) mod filling;
pub(crate) mod frozen;
pub(crate) mod hash;
pub(crate) mod list;
pub(crate) mod part;
pub(crate) mod part_map;
pub(crate) mod set;
pub(crate) mod sorted_set;
pub(crate) mod stream;

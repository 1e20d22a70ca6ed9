//! A key with its value, and the small forms of values.

pub mod clock;
pub(crate) mod collection;
pub(crate) mod compact;
pub(crate) mod embedded;
pub(crate) mod entry;
pub(crate) mod entry_box;
pub(crate) mod kind;
pub(crate) mod limits;
pub(crate) mod listpack;
pub(crate) mod packed;
pub(crate) mod value;

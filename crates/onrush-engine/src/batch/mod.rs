//! The batch pipeline, from the bytes of connections to their replies: decoding, planning, executing.

pub(crate) mod admission;
pub mod argv;
pub(crate) mod chunk;
pub(crate) mod counted;
pub(crate) mod decode;
pub(crate) mod execute;
pub(crate) mod kept;
pub mod part;
pub(crate) mod paused;
pub(crate) mod permission;
pub(crate) mod place;
pub(crate) mod plan;
pub(crate) mod planned_keys;
pub(crate) mod restrictions;
pub mod runner;
pub mod slice;
pub(crate) mod slot_notes;
pub mod write_refusal;

//! The types of values and the opcodes between keys, by their numbers in files.

pub(crate) const STRING: u8 = 0;
pub(crate) const LIST: u8 = 1;
pub(crate) const SET: u8 = 2;
/// Scores as text.
pub(crate) const SORTED_SET: u8 = 3;
pub(crate) const HASH: u8 = 4;
/// Scores as doubles.
pub(crate) const SORTED_SET_2: u8 = 5;
/// Values of modules before Redis 4: only the module itself can find their end.
pub(crate) const MODULE: u8 = 6;
pub(crate) const MODULE_2: u8 = 7;
pub(crate) const HASH_ZIPMAP: u8 = 9;
pub(crate) const LIST_ZIPLIST: u8 = 10;
pub(crate) const SET_INTSET: u8 = 11;
pub(crate) const SORTED_SET_ZIPLIST: u8 = 12;
pub(crate) const HASH_ZIPLIST: u8 = 13;
/// Nodes of ziplists.
pub(crate) const LIST_QUICKLIST: u8 = 14;
pub(crate) const STREAM: u8 = 15;
pub(crate) const HASH_LISTPACK: u8 = 16;
pub(crate) const SORTED_SET_LISTPACK: u8 = 17;
/// Nodes of listpacks and of single large elements.
pub(crate) const LIST_QUICKLIST_2: u8 = 18;
/// With the first entry's identifier, the greatest deleted one, and counts.
pub(crate) const STREAM_2: u8 = 19;
pub(crate) const SET_LISTPACK: u8 = 20;
/// With the time when consumers were active.
pub(crate) const STREAM_3: u8 = 21;
pub(crate) const HASH_METADATA_PRE_GA: u8 = 22;
pub(crate) const HASH_LISTPACK_EX_PRE_GA: u8 = 23;
/// A plain hash whose fields expire.
pub(crate) const HASH_METADATA: u8 = 24;
/// A packed hash whose fields expire.
pub(crate) const HASH_LISTPACK_EX: u8 = 25;

/// Whether a type of values has this number.
pub(crate) fn is_value(kind: u8) -> bool {
    kind <= HASH_LISTPACK_EX && kind != 8
}

pub(crate) const SLOT_INFO: u8 = 244;
/// A library of functions.
pub const FUNCTION: u8 = 245;
/// The form that release candidates of Redis 7.0 had.
pub const FUNCTION_PRE_GA: u8 = 246;
pub(crate) const MODULE_AUX: u8 = 247;
pub(crate) const IDLE: u8 = 248;
pub(crate) const FREQ: u8 = 249;
pub(crate) const AUX: u8 = 250;
pub(crate) const RESIZE_DB: u8 = 251;
pub(crate) const EXPIRE_TIME_MS: u8 = 252;
pub(crate) const EXPIRE_TIME: u8 = 253;
pub(crate) const SELECT_DB: u8 = 254;
pub(crate) const END: u8 = 255;

pub(crate) const UNKNOWN: &str = "a value of an unknown type";

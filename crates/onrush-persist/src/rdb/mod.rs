//! RDB: the format of Redis's snapshot files and of DUMP's payloads, read and written.
//!
//! Versions 1 to 12 are read: those of Redis 2 to 7.2, and of 7.4 to 8.2 as far as this server has the types, hashes
//! with expiring fields included. Redis 7.0 loads everything that is written (version 10), except hashes with expiring
//! fields (version 12, Redis 7.4).
//!
//! - [`FileReader`] cuts a file into [`Batch`]es without decoding values; any thread decodes a batch's [`Items`]. A
//!   [`Visitor`] gets the pieces of a value, borrowed from the file's bytes: only compressed strings are copied.
//! - [`Encoder`] encodes items into memory; [`FileWriter`] writes them with header, end and checksum; [`SnapshotFile`]
//!   writes them into a file that replaces an older one.
//! - [`seal_payload`] and [`open_payload`] add and check the footer of DUMP's payloads, [`decode_payload`] decodes them.
//! - [`crc64`](mod@crc64) and [`lzf`] are the checksum and the compression.
//!
//! Decoding trusts nothing: for any bytes it ends in time and memory proportional to their number, with a value or an
//! [`RdbError`] that says what is wrong and where.
//!
//! Sources: the format has no specification. This follows the descriptions that are public (Redis's documentation of DUMP and of
//! its files, the "Redis RDB file format" pages of rdbtools, the listpack specification, liblzf's description) and what
//! redis-server writes and accepts.

mod collected;
pub mod crc64;
mod cursor;
mod encode;
mod encode_stream;
mod error;
mod file;
mod item;
mod kind;
mod listpack;
pub mod lzf;
mod module;
mod skip;
mod snapshot_file;
mod stream;
mod text;
mod value;
mod visitor;
mod writer;
mod ziplist;

#[cfg(test)]
mod tests;

pub use collected::{Collected, CollectedConsumer, CollectedGroup, CollectedStream, Collector};
pub use encode::{Encoder, KeyRecord, VERSION_DEFAULT, VERSION_FIELD_EXPIRY, ValueEncoder};
pub use encode_stream::StreamEncoder;
pub use error::{ModuleId, RdbError};
pub use file::{Batch, FileReader};
pub use item::{FileBytes, Item, Items, Key, RawValue};
pub use kind::{FUNCTION, FUNCTION_PRE_GA};
pub use snapshot_file::{FileOptions, SnapshotFile, remove_leftovers};
pub use stream::{StreamConsumer, StreamEntry, StreamGroup, StreamHistory, StreamId, StreamPending, StreamState};
pub use text::Text;
pub use value::Scratch;
pub use visitor::{CollectionKind, Refused, Told, Visitor};
pub use writer::{FileWriter, open_payload, seal_payload};

/// The newest version of the format that is read.
pub const VERSION_MAX: u16 = 12;

/// The items of a payload of FUNCTION DUMP; `body` is what [`open_payload`] returned.
pub fn payload_items(body: &[u8]) -> Items<'_> {
    Items::new(cursor::Cursor::new(body, 0), 0)
}

/// Decodes a payload of DUMP; `body` is what [`open_payload`] returned. O(bytes).
///
/// # Errors
/// The value is not valid.
pub fn decode_payload(body: &[u8], visitor: &mut impl Visitor, scratch: &mut Scratch) -> Result<(), RdbError> {
    RawValue::of_payload(body)?.decode(visitor, scratch)
}

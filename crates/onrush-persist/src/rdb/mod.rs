//! RDB: the format of Redis's snapshot files and of DUMP's payloads, read and written.
//!
//! Versions 1 to 12 are read: those of Redis 2 to 7.2, and of 7.4 to 8.2 as far as the types are ours, hashes whose fields expire
//! included. What is written, Redis 7.0 loads (version 10), but for hashes with expiring fields (version 12, Redis 7.4).
//!
//! - [`FileReader`] cuts a file into [`Batch`]es without decoding values; any thread decodes a batch's [`Items`]. Pieces of a
//!   value go to a [`Visitor`], from where they stand in the file: nothing is copied but what was compressed.
//! - [`Encoder`] encodes items into memory, [`FileWriter`] writes them with header, end and checksum,
//!   [`SnapshotFile`] into a file that takes the place of an older one.
//! - [`seal_payload`] and [`open_payload`] add and check the footer of DUMP's payloads, [`decode_payload`] decodes them.
//! - [`crc64`](mod@crc64) and [`lzf`] are the checksum and the compression.
//!
//! Nothing is believed: whatever the bytes are, decoding ends in time and memory proportional to their number, with a value or
//! an [`RdbError`] that says where and what.
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
pub use snapshot_file::{FileOptions, SnapshotFile, remove_leftovers};
pub use stream::{StreamConsumer, StreamEntry, StreamGroup, StreamHistory, StreamId, StreamPending, StreamState};
pub use text::Text;
pub use value::Scratch;
pub use visitor::{CollectionKind, Refused, Told, Visitor};
pub use writer::{FileWriter, open_payload, seal_payload};

/// The newest version of the format that is read.
pub const VERSION_MAX: u16 = 12;

/// The items of what [`open_payload`] returned of a payload of FUNCTION DUMP.
pub fn payload_items(body: &[u8]) -> Items<'_> {
    Items::new(cursor::Cursor::new(body, 0), 0)
}

/// Decodes what [`open_payload`] returned of a payload of DUMP. O(bytes).
///
/// # Errors
/// What is wrong with it.
pub fn decode_payload(body: &[u8], visitor: &mut impl Visitor, scratch: &mut Scratch) -> Result<(), RdbError> {
    RawValue::of_payload(body)?.decode(visitor, scratch)
}

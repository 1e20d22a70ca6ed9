//! The keyspace of Onrush: databases, shards, entries and values.
//!
//! A [`Keyspace`] has numbered databases ([`Db`]), a database has thousands of [`Shard`]s, and a shard is a
//! [`Table`] of [`Entry`]s behind a mutex. A key's [`KeyHash`] says which shard and which bucket it is in. A
//! command's way through it:
//!
//! ```
//! use onrush_store::{Keyspace, KeyspaceOptions, NewValue, ValueRef};
//!
//! let keyspace = Keyspace::new(KeyspaceOptions::default());
//! let hash = keyspace.hash(b"greeting");
//! let shard = keyspace.db_or_create(0).shard_of(hash);
//!
//! // Ahead of time, for a whole chunk of commands: the bucket, then the entry.
//! shard.prefetch_bucket(hash);
//! shard.lock().prefetch_entry(hash);
//!
//! let mut table = shard.lock();
//! let displaced = table.set(b"greeting", hash, NewValue::Bytes(b"hello"), None, 0);
//! assert!(displaced.is_none());
//! let entry = table.get(b"greeting", hash).unwrap();
//! assert_eq!(entry.value(), ValueRef::Bytes(b"hello"));
//! ```
//!
//! What holds throughout:
//! - The store does no I/O and knows no protocol. It reads no clock and draws no random numbers but the seeds of
//!   its hashes: both come in as arguments, times as milliseconds since the Unix epoch.
//! - It never decides by itself that an entry has expired: [`Entry::is_expired`] and [`Table::expire_due`] get
//!   the time.
//! - Everything behind a shard's lock is single-threaded code. A thread that holds several locks takes them in
//!   ascending order of database and shard; debug builds check that.
//! - What may be expensive to free is handed out ([`Removed`], [`Value`], [`Cleared`]), to be dropped off the lock.
//! - `unsafe` stands in `entry`, `entry_box`, `bucket`, `packed`, `compact`, `collection`, `lock`, `bitmap`,
//!   `shard` and `word` alone.

mod collections;
mod entries;
mod keyspace;
mod random;
mod shrink;
mod strings;
mod sync;

pub use collections::filling::Filling;
pub use collections::frozen::Frozen;
pub use collections::hash::{Field, Hash};
pub use collections::list::{Element, End, List};
pub use collections::set::{Member, Set};
pub use collections::sorted_set::SortedSet;
pub use collections::stream::{
    Consumer, Group, IdMap, IdSet, Idempotency, Pending, Recorded, References, Stream, StreamEntry, StreamId, Tracked,
    Trim,
};
pub use entries::clock;
pub use entries::collection::{Collection, CollectionRef, CollectionType};
pub use entries::embedded::CollectionMut;
pub use entries::entry::Entry;
pub use entries::kind::{Encoding, Type};
pub use entries::limits::{ListLimits, PairLimits, SetLimits, StreamLimits};
pub use entries::packed::{PACKED_LEN_MAX, Packed};
pub use entries::value::{EMBED_VALUE_LEN_MAX, NewValue, Value, ValueRef};
pub use keyspace::cut::CutFacts;
pub use keyspace::db::Db;
pub use keyspace::evict::Among;
pub use keyspace::key_hash::{Hasher, KeyHash, SHARDS_MAX, member_hash};
pub use keyspace::removed::{Cleared, Removed};
pub use keyspace::schedule;
pub use keyspace::shard::{Shard, ShardGuard};
pub use keyspace::slot::Slot;
pub use keyspace::table::{ExpireProgress, ExpiredFields, Table};
pub use keyspace::{Keyspace, KeyspaceOptions, SHARDS_DEFAULT};
pub use random::Random;
pub use strings::bytes::equal;
pub use strings::{bitmap, geo, hyperloglog};

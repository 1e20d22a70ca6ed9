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
//! - The store does no I/O and knows no protocol. It reads no clock and draws no random numbers: both come in as
//!   arguments, times as milliseconds since the Unix epoch.
//! - It never decides by itself that an entry has expired: [`Entry::is_expired`] and [`Table::expire_due`] get
//!   the time.
//! - Everything behind a shard's lock is single-threaded code. A thread that holds several locks takes them in
//!   ascending order of database and shard; debug builds check that.
//! - What may be expensive to free is handed out ([`Removed`], [`Value`], [`Cleared`]), to be dropped off the lock.
//! - `unsafe` stands in `entry`, `entry_box`, `bucket`, `packed`, `compact`, `collection`, `lock` and `bitmap`
//!   alone.

pub mod bitmap;
mod bucket;
mod bytes;
pub mod clock;
mod collection;
mod compact;
mod cut;
mod db;
mod dict;
mod embedded;
mod entry;
mod entry_box;
mod evict;
mod filling;
mod frozen;
pub mod geo;
mod hash;
pub mod hyperloglog;
mod int;
mod key_hash;
mod keyspace;
mod kind;
mod limits;
mod list;
mod listpack;
mod lock;
mod lock_order;
mod packed;
mod part;
mod part_map;
mod random;
mod removed;
pub mod schedule;
mod set;
mod shard;
mod shrink;
mod slot;
mod sorted_set;
mod stream;
mod table;
mod value;

pub use bytes::equal;
pub use collection::{Collection, CollectionRef, CollectionType};
pub use cut::CutFacts;
pub use db::Db;
pub use embedded::CollectionMut;
pub use entry::Entry;
pub use evict::Among;
pub use filling::Filling;
pub use frozen::Frozen;
pub use hash::{Field, Hash};
pub use key_hash::{Hasher, KeyHash, SHARDS_MAX, member_hash};
pub use keyspace::{Keyspace, KeyspaceOptions, SHARDS_DEFAULT};
pub use kind::{Encoding, Type};
pub use limits::{ListLimits, PairLimits, SetLimits, StreamLimits};
pub use list::{Element, End, List};
pub use packed::{PACKED_LEN_MAX, Packed};
pub use random::Random;
pub use removed::{Cleared, Removed};
pub use set::{Member, Set};
pub use shard::{Shard, ShardGuard};
pub use slot::Slot;
pub use sorted_set::SortedSet;
pub use stream::{
    Consumer, Group, IdMap, IdSet, Idempotency, Pending, Recorded, References, Stream, StreamEntry, StreamId, Tracked,
    Trim,
};
pub use table::{ExpireProgress, ExpiredFields, Table};
pub use value::{EMBED_VALUE_LEN_MAX, NewValue, Value, ValueRef};

//! Entries as commands: what has to be executed so that a key that is not there becomes what it is.

use onrush_store::{Entry, ValueRef};

use crate::types;
use crate::types::batch::Emit;

/// Emits the commands that make an entry: its value, then its expiry. O(size of the value).
///
/// Not told are what no command can set: access clocks, and when consumers of a stream were last heard of.
pub fn rebuild(entry: &Entry, emit: Emit<'_>) {
    let key = entry.key();
    match entry.value() {
        ValueRef::Collection(collection) => types::of(collection).rebuild(key, &mut *emit),
        value => emit(&[b"SET", key, value.to_bytes(&mut itoa::Buffer::new())]),
    }
    if let Some(at) = entry.expire_at() {
        emit(&[b"PEXPIREAT", key, itoa::Buffer::new().format(at).as_bytes()]);
    }
}

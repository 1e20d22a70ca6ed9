//! Entries as commands that create them.

use onrush_store::{Entry, ValueRef};

use crate::types;
use crate::types::batch::Emit;

/// Emits the commands that create an entry: its value, then its expiry. O(size of the value).
///
/// Leaves out what no command can set: access clocks, and when consumers of a stream were last active.
pub(crate) fn rebuild(entry: &Entry, emit: Emit<'_>) {
    rebuild_value(entry.key(), entry.value(), entry.expire_at(), emit);
}

/// As [`rebuild`], from the parts of an entry.
pub(crate) fn rebuild_value(key: &[u8], value: ValueRef<'_>, expires_at_ms: Option<i64>, emit: Emit<'_>) {
    match value {
        ValueRef::Collection(collection) => types::of(collection).rebuild(key, &mut *emit),
        value => emit(&[b"SET", key, value.to_bytes(&mut itoa::Buffer::new())]),
    }
    if let Some(at) = expires_at_ms {
        emit(&[b"PEXPIREAT", key, itoa::Buffer::new().format(at).as_bytes()]);
    }
}

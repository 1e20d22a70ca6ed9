//! DEBUG STATE-DIGEST: a digest of everything that commands can set. Equal data has equal digests, whatever the order,
//! the encodings and the hash seed.

use onrush_store::{Entry, ValueRef};

use crate::types;
use crate::types::digest::{Digest, Mixer};

/// The digest of a key in database `db` and its value, including when keys and fields expire, and which consumer has
/// which entry of a stream. O(size).
pub(crate) fn of_entry(db: usize, entry: &Entry) -> Digest {
    let mut parts = Mixer::default();
    parts.part(&(db as u64).to_le_bytes());
    parts.part(entry.key());
    value(&mut parts, entry);
    parts.number(entry.expire_at());
    if let ValueRef::Collection(collection) = entry.value() {
        types::of(collection).digest_state(&mut parts);
    }
    parts.finish()
}

/// An entry's value as clients see it: an integer is the string that spells it.
fn value(parts: &mut Mixer, entry: &Entry) {
    parts.part(entry.ty().name().as_bytes());
    match entry.value() {
        ValueRef::Collection(collection) => types::of(collection).digest(parts),
        value => parts.part(value.to_bytes(&mut itoa::Buffer::new())),
    }
    parts.word(u64::from(entry.expire_at().is_some()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use onrush_store::{Keyspace, KeyspaceOptions, NewValue};

    /// The digest of entries, from a keyspace with this seed.
    fn digest(seed: u64, entries: &[(&[u8], NewValue<'static>, Option<i64>)]) -> Digest {
        let keyspace = Keyspace::new(KeyspaceOptions { seed: Some(seed), shards: 4, ..KeyspaceOptions::default() });
        let mut whole = Digest::default();
        for (key, value, expire) in entries {
            let hash = keyspace.hash(key);
            let value = match value {
                NewValue::Int(n) => NewValue::Int(*n),
                NewValue::Bytes(bytes) => NewValue::Bytes(bytes),
                other => panic!("{other:?}"),
            };
            let mut table = keyspace.db_or_create(0).shard_of(hash).lock();
            table.set(key, hash, value, *expire, 7);
            let entry = table.get(key, hash).unwrap();
            whole.add(&of_entry(0, entry));
        }
        whole
    }

    #[test]
    fn equal_data_has_equal_digests_in_any_order_and_encoding() {
        let one = digest(1, &[(b"a", NewValue::Int(12), None), (b"b", NewValue::Bytes(b"x"), Some(5))]);
        let two = digest(2, &[(b"b", NewValue::Bytes(b"x"), Some(5)), (b"a", NewValue::Bytes(b"12"), None)]);
        assert_eq!(one, two);
    }

    #[test]
    fn keys_values_and_expiries_are_told_apart() {
        let of = |key: &'static [u8], value: &'static [u8], expire| digest(1, &[(key, NewValue::Bytes(value), expire)]);
        let all = [
            of(b"a", b"bc", None),
            of(b"ab", b"c", None),
            of(b"abc", b"", None),
            of(b"a", b"bc", Some(1)),
            of(b"a", b"bc", Some(2)),
            of(b"a", b"bc\0", None),
            Digest::default(),
        ];
        for (index, digest) in all.iter().enumerate() {
            assert!(!all[..index].contains(digest), "{index}");
        }
    }
}

//! A digest of data: equal data has equal digests, whatever the order, the server, the encodings and the hash seed.

use onrush_store::{Entry, ValueRef};

use crate::types;
use crate::types::digest::{Digest, Mixer};

/// How much of an entry a digest tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The value as its readers see it, and whether the key expires.
    Data,
    /// Also when keys and fields expire, and who has what of a stream: all that commands can set.
    State,
}

/// The digest of a key in database `db` and what it holds.
pub fn of_entry(db: usize, entry: &Entry, depth: Depth) -> Digest {
    let mut parts = Mixer::default();
    parts.part(&(db as u64).to_le_bytes());
    parts.part(entry.key());
    value(&mut parts, entry);
    if depth == Depth::State {
        parts.number(entry.expire_at());
        if let ValueRef::Collection(collection) = entry.value() {
            types::of(collection).digest_state(&mut parts);
        }
    }
    parts.finish()
}

/// The digest of a key's value, and whether the key expires.
pub fn of_value(entry: &Entry) -> Digest {
    let mut parts = Mixer::default();
    value(&mut parts, entry);
    parts.finish()
}

/// An entry's value as its users see it: an integer is the string that spells it.
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

    /// Digests of entries and of their values, from a keyspace with this seed.
    fn digests(seed: u64, entries: &[(&[u8], NewValue<'static>, Option<i64>)]) -> (Digest, Vec<Digest>) {
        let keyspace = Keyspace::new(KeyspaceOptions { seed: Some(seed), shards: 4, ..KeyspaceOptions::default() });
        let (mut whole, mut values) = (Digest::default(), Vec::new());
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
            whole.add(&of_entry(0, entry, Depth::Data));
            values.push(of_value(entry));
        }
        (whole, values)
    }

    #[test]
    fn equal_data_has_equal_digests_in_any_order_and_encoding() {
        let (one, values) = digests(1, &[(b"a", NewValue::Int(12), None), (b"b", NewValue::Bytes(b"x"), Some(5))]);
        let (two, _) = digests(2, &[(b"b", NewValue::Bytes(b"x"), Some(9)), (b"a", NewValue::Bytes(b"12"), None)]);
        assert_eq!(one, two);
        assert_ne!(values[0], values[1]);
    }

    #[test]
    fn keys_values_and_expiries_are_told_apart() {
        let of =
            |key: &'static [u8], value: &'static [u8], expire| digests(1, &[(key, NewValue::Bytes(value), expire)]).0;
        let all = [
            of(b"a", b"bc", None),
            of(b"ab", b"c", None),
            of(b"abc", b"", None),
            of(b"a", b"bc", Some(1)),
            of(b"a", b"bc\0", None),
            Digest::default(),
        ];
        for (index, digest) in all.iter().enumerate() {
            assert!(!all[..index].contains(digest), "{index}");
        }
    }
}

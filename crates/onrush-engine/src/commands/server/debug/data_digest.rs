//! DEBUG DIGEST and DEBUG DIGEST-VALUE: the same digests as those of redis-server 7.2 or newer for the same data.
//!
//! A digest is 20 bytes, of nothing all zero. To *add* bytes is to xor their SHA-1 in: order does not matter. To *mix*
//! bytes in is to add them and to replace the digest by its own SHA-1: order matters. A score is spelled with few
//! digits, as 7.2 does. 7.0 spells most fractions with 17 digits, so sorted sets with such scores have another
//! digest there.

use std::fmt;

use onrush_resp::push_shortest;
use onrush_store::{CollectionRef, Entry, Hash, SortedSet, Stream, StreamId, Type, ValueRef};
use sha1_smol::Sha1;

const LEN: usize = 20;

/// Mixed in for a key or a field that expires.
const KEY_EXPIRES: &[u8] = b"!!expire!!";
const FIELD_EXPIRES: &[u8] = b"!!hexpire!!";

/// A digest, shown as 40 hexadecimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digest([u8; LEN]);

impl Digest {
    /// Adds a part, in any order. O(length).
    pub(crate) fn add(&mut self, part: &[u8]) {
        let of_part = Sha1::from(part).digest().bytes();
        self.0.iter_mut().zip(of_part).for_each(|(byte, other)| *byte ^= other);
    }

    /// Mixes the next part in. O(length).
    pub(crate) fn mix(&mut self, part: &[u8]) {
        self.add(part);
        self.0 = Sha1::from(self.0).digest().bytes();
    }

    /// Begins a database that has keys; its keys are added afterwards. Databases come in ascending order.
    pub(crate) fn begin_database(&mut self, db: u32) {
        self.mix(&db.to_be_bytes());
    }

    /// Adds a key of the database with what it holds. O(size).
    pub(crate) fn add_entry(&mut self, entry: &Entry) {
        let mut digest = Self::default();
        digest.mix(entry.key());
        digest.mix_value(entry);
        self.add(&digest.0);
    }

    /// The digest of what a key holds, whatever the key. O(size).
    pub(crate) fn of_value(entry: &Entry) -> Self {
        let mut digest = Self::default();
        digest.mix_value(entry);
        digest
    }

    fn mix_value(&mut self, entry: &Entry) {
        self.mix(&type_number(entry.ty()).to_be_bytes());
        match entry.value() {
            ValueRef::Collection(collection) => self.mix_collection(collection),
            value => self.mix(value.to_bytes(&mut itoa::Buffer::new())),
        }
        if entry.expire_at().is_some() {
            self.add(KEY_EXPIRES);
        }
    }

    fn mix_collection(&mut self, collection: CollectionRef<'_>) {
        match collection {
            CollectionRef::List(list) => list.iter().for_each(|element| self.mix(element.as_bytes())),
            CollectionRef::Set(set) => {
                set.iter().for_each(|member| self.add(member.to_bytes(&mut itoa::Buffer::new())))
            }
            CollectionRef::SortedSet(set) => self.add_members(set),
            CollectionRef::Hash(hash) => self.add_fields(hash),
            CollectionRef::Stream(stream) => self.mix_entries(stream),
        }
    }

    fn add_pair(&mut self, first: &[u8], second: &[u8], mark: Option<&[u8]>) {
        let mut pair = Self::default();
        pair.mix(first);
        pair.mix(second);
        mark.into_iter().for_each(|mark| pair.add(mark));
        self.add(&pair.0);
    }

    fn add_members(&mut self, set: &SortedSet) {
        let mut text = Vec::new();
        for (member, score) in set.iter() {
            text.clear();
            push_shortest(&mut text, score);
            self.add_pair(member, &text, None);
        }
    }

    fn add_fields(&mut self, hash: &Hash) {
        for field in hash.iter() {
            self.add_pair(field.name, field.value, field.expiry.map(|_| FIELD_EXPIRES));
        }
    }

    /// Only the entries: groups do not count.
    fn mix_entries(&mut self, stream: &Stream) {
        for entry in stream.iter_from(StreamId::MIN) {
            self.mix(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
            for (name, value) in entry.iter() {
                self.mix(name);
                self.mix(value);
            }
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The numbers of Redis's types; 5 are those of modules.
fn type_number(ty: Type) -> u32 {
    match ty {
        Type::String => 0,
        Type::List => 1,
        Type::Set => 2,
        Type::SortedSet => 3,
        Type::Hash => 4,
        Type::Stream => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onrush_store::{Keyspace, KeyspaceOptions, NewValue, SetLimits};

    /// Digests of a value and of a keyspace that has it in database 2, with this seed.
    fn digests(seed: u64, key: &[u8], value: NewValue<'_>, expire: Option<i64>) -> [String; 2] {
        let keyspace = Keyspace::new(KeyspaceOptions { seed: Some(seed), shards: 4, ..KeyspaceOptions::default() });
        let hash = keyspace.hash(key);
        let mut table = keyspace.db_or_create(0).shard_of(hash).lock();
        table.set(key, hash, value, expire, 7);
        let entry = table.get(key, hash).unwrap();
        let mut all = Digest::default();
        all.begin_database(2);
        all.add_entry(entry);
        [Digest::of_value(entry), all].map(|digest| digest.to_string())
    }

    /// As redis-server 7.0.15 returns it.
    #[test]
    fn values_have_the_digests_that_redis_tells() {
        let of = |value, expire| digests(1, b"key", value, expire)[0].clone();
        assert_eq!(Digest::default().to_string(), "0".repeat(40));
        assert_eq!(of(NewValue::Bytes(b"hello"), None), "36b23a1456b2dce2c3ed252c456761301dba8060");
        assert_eq!(of(NewValue::Int(12), None), "655ac46b180ad2f61a3cee25f0b1780fa2ec879a");
        assert_eq!(of(NewValue::Bytes(b"12"), Some(5)), "83df3a94c43338a2db2a05ddb5dbb794b842c619");
        let mut set = onrush_store::Set::default();
        for member in [&b"a"[..], b"1"] {
            set.insert(member, &SetLimits::default());
        }
        assert_eq!(of(set.into(), None), "012434e5fd10923eb5614823e20e4674a940a6f5");
    }

    #[test]
    fn keys_values_and_expiries_are_told_apart_and_seeds_and_encodings_are_not() {
        let of = |key: &[u8], value: &[u8], expire| digests(1, key, NewValue::Bytes(value), expire)[1].clone();
        let all = [of(b"a", b"bc", None), of(b"ab", b"c", None), of(b"a", b"bc", Some(1)), of(b"a", b"bc\0", None)];
        for (index, digest) in all.iter().enumerate() {
            assert!(!all[..index].contains(digest), "{index}");
        }
        assert_eq!(of(b"a", b"bc", Some(1)), of(b"a", b"bc", Some(9)));
        assert_eq!(digests(1, b"a", NewValue::Bytes(b"12"), None), digests(2, b"a", NewValue::Int(12), None));
    }
}

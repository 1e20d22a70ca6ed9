//! A digest of data: equal data has equal digests, whatever the order, the server, the encodings and the hash seed.
//!
//! Not for secrets: nothing keeps two different data sets made for it from having one digest.

use std::fmt;

use onrush_store::{CollectionRef, Entry, Stream, StreamId, ValueRef};

/// Words of 32 bits in a digest, which is shown as 40 hexadecimal digits.
const WORDS: usize = 5;

/// A digest; of nothing it is zero, and digests of parts add up to the digest of the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest([u32; WORDS]);

/// How much of an entry a digest tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The value as its readers see it, and whether the key expires.
    Data,
    /// Also when keys and fields expire, and who has what of a stream: all that commands can set.
    State,
}

impl Digest {
    /// Of a key in database `db` and what it holds.
    pub fn of_entry(db: usize, entry: &Entry, depth: Depth) -> Self {
        let mut parts = Mixer::default();
        parts.part(&(db as u64).to_le_bytes());
        parts.part(entry.key());
        parts.value(entry);
        if depth == Depth::State {
            parts.state(entry);
        }
        parts.finish()
    }

    /// Of a key's value, and whether the key expires.
    pub fn of_value(entry: &Entry) -> Self {
        let mut parts = Mixer::default();
        parts.value(entry);
        parts.finish()
    }

    /// Adds a part, in any order.
    pub fn add(&mut self, part: &Self) {
        for (word, other) in self.0.iter_mut().zip(part.0) {
            *word = word.wrapping_add(other);
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|word| write!(f, "{word:08x}"))
    }
}

/// Mixes a sequence of byte strings, two of which are told apart by their bytes and their lengths.
struct Mixer([u64; WORDS]);

impl Default for Mixer {
    fn default() -> Self {
        Self([1, 2, 3, 4, 5].map(|lane: u64| scramble(lane)))
    }
}

impl Mixer {
    /// The next byte string.
    fn part(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    /// An entry's value as its users see it: an integer is the string that spells it.
    fn value(&mut self, entry: &Entry) {
        self.part(entry.ty().name().as_bytes());
        match entry.value() {
            ValueRef::Collection(collection) => self.collection(collection),
            value => self.part(value.to_bytes(&mut itoa::Buffer::new())),
        }
        self.word(u64::from(entry.expire_at().is_some()));
    }

    /// The digests of elements without an order add up; of those with one each is mixed in.
    fn collection(&mut self, collection: CollectionRef<'_>) {
        let mut sum = Digest::default();
        let mut add = |parts: &[&[u8]]| {
            let mut element = Mixer::default();
            parts.iter().for_each(|part| element.part(part));
            sum.add(&element.finish());
        };
        match collection {
            CollectionRef::Set(set) => {
                set.iter().for_each(|member| add(&[member.to_bytes(&mut itoa::Buffer::new())]));
            }
            CollectionRef::List(list) => list.iter().for_each(|element| self.part(element.as_bytes())),
            CollectionRef::SortedSet(set) => {
                set.iter().for_each(|(member, score)| add(&[member, &score.to_le_bytes()]));
            }
            CollectionRef::Hash(hash) => hash.iter().for_each(|field| add(&[field.name, field.value])),
            CollectionRef::Stream(stream) => {
                for entry in stream.iter_from(StreamId::MIN) {
                    self.id(entry.id);
                    for (name, value) in entry.iter() {
                        self.part(name);
                        self.part(value);
                    }
                }
            }
        }
        sum.0.iter().for_each(|&word| self.word(u64::from(word)));
    }

    /// What only commands about it tell of a value.
    fn state(&mut self, entry: &Entry) {
        self.number(entry.expire_at());
        match entry.value() {
            ValueRef::Collection(CollectionRef::Hash(hash)) => {
                let mut sum = Digest::default();
                for field in hash.iter().filter(|field| field.expiry.is_some()) {
                    let mut parts = Mixer::default();
                    parts.part(field.name);
                    parts.number(field.expiry);
                    sum.add(&parts.finish());
                }
                sum.0.iter().for_each(|&word| self.word(u64::from(word)));
            }
            ValueRef::Collection(CollectionRef::Stream(stream)) => self.groups(stream),
            _ => {}
        }
    }

    fn groups(&mut self, stream: &Stream) {
        self.id(stream.last_id());
        self.id(stream.max_deleted_id());
        self.word(stream.entries_added());
        for (name, group) in stream.groups() {
            self.part(name);
            self.id(group.last_id);
            self.number(group.entries_read.map(|read| i64::try_from(read).unwrap_or(i64::MAX)));
            group.consumers.keys().for_each(|name| self.part(name));
            for (id, pending) in &group.pending {
                self.id(*id);
                self.part(&pending.consumer);
                self.word(pending.delivered_ms as u64);
                self.word(pending.count);
            }
        }
    }

    fn id(&mut self, id: StreamId) {
        self.word(id.ms);
        self.word(id.seq);
    }

    fn number(&mut self, number: Option<i64>) {
        self.word(u64::from(number.is_some()));
        self.word(number.unwrap_or(0) as u64);
    }

    fn word(&mut self, word: u64) {
        for lane in &mut self.0 {
            *lane = scramble(*lane ^ word).wrapping_mul(*lane | 1);
        }
    }

    fn finish(self) -> Digest {
        Digest(self.0.map(|lane| (scramble(lane) >> 32) as u32))
    }
}

/// Lets every bit of a word change about half of the bits of the result (the finalizer of SplitMix64).
fn scramble(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
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
            whole.add(&Digest::of_entry(0, entry, Depth::Data));
            values.push(Digest::of_value(entry));
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

    #[test]
    fn a_digest_is_40_hexadecimal_digits() {
        assert_eq!(Digest::default().to_string(), "0".repeat(40));
        assert_eq!(Digest([1, 2, 3, 4, 0xffff_ffff]).to_string(), "00000001000000020000000300000004ffffffff");
    }
}

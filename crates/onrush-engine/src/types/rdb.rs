//! Values of the store from and to the RDB format.

use std::collections::BTreeMap;
use std::sync::Arc;

use onrush_persist::rdb::{
    self, CollectionKind, Refused, StreamConsumer, StreamEncoder, StreamEntry, StreamGroup, StreamHistory,
    StreamPending, StreamState, Text, Told, ValueEncoder, Visitor,
};
use onrush_resp::parse_i64;
use onrush_store::{
    CollectionRef, Consumer, Encoding, End, Filling, Group, Hash, List, ListLimits, Member, NewValue, PairLimits,
    Pending, Set, SetLimits, SortedSet, Stream, StreamId, StreamLimits, ValueRef,
};
use smallvec::SmallVec;

use crate::encodings::Encodings;

/// The longest text of an integer.
const INT_TEXT_LEN_MAX: usize = 20;

/// How many bytes of names a stream's entries may share for each byte of their own, beyond the first megabyte.
const NAMES_PER_BYTE_MAX: usize = 256;
const NAMES_LEN_FREE: usize = 1 << 20;
/// What an entry takes without its values.
const ENTRY_LEN_MIN: usize = 8;

/// In the format everybody who has pending entries has a name. Entries that were given back belong to a consumer with
/// the empty name, which was never active since, so every server allows claiming them.
const NOBODY_SEEN_MS: i64 = 0;

const LONG_NAMES: Refused = Refused("a stream whose entries share names that are too long for them");
const NOT_EXPECTED: Refused = Refused("a piece of another type of value");

/// Makes a value of the store from what a decoder reads. Encodings follow from the thresholds, whatever the payload had.
pub(crate) struct Restorer<'l> {
    limits: &'l Encodings,
    value: Restored,
    filling: Filling,
}

enum Restored {
    Nothing,
    Int(i64),
    String(Vec<u8>),
    List(List, ListLimits),
    Set(Set, SetLimits),
    SortedSet(SortedSet, PairLimits),
    Hash(Hash, PairLimits),
    Stream(Box<RestoredStream>),
}

impl<'l> Restorer<'l> {
    /// Nothing yet.
    pub(crate) fn new(limits: &'l Encodings) -> Self {
        Restorer { limits, value: Restored::Nothing, filling: Filling::default() }
    }

    /// The value, once it has been decoded.
    pub(crate) fn into_value(self) -> Option<NewValue<'static>> {
        Some(match self.value {
            Restored::Nothing => return None,
            Restored::Int(number) => NewValue::Int(number),
            Restored::String(bytes) => NewValue::Shared(Arc::new(bytes)),
            Restored::List(list, _) => list.into(),
            Restored::Set(set, _) => set.into(),
            Restored::SortedSet(set, _) => set.into(),
            Restored::Hash(hash, _) => hash.into(),
            Restored::Stream(stream) => stream.stream.into(),
        })
    }

    fn set(&mut self, value: Restored) -> Told {
        self.value = value;
        Ok(())
    }

    fn as_stream(&mut self) -> Result<&mut RestoredStream, Refused> {
        if let Restored::Stream(stream) = &mut self.value { Ok(stream) } else { Err(NOT_EXPECTED) }
    }
}

fn only_if(is_right: bool, refused: Refused) -> Told {
    if is_right { Ok(()) } else { Err(refused) }
}

impl Visitor for Restorer<'_> {
    fn string(&mut self, value: Text<'_>) -> Told {
        match value {
            Text::Int(number) => self.set(Restored::Int(number)),
            Text::Bytes(bytes) => self.string_owned(bytes.to_vec()),
        }
    }

    fn string_owned(&mut self, value: Vec<u8>) -> Told {
        let int = if value.len() <= INT_TEXT_LEN_MAX { parse_i64(&value) } else { None };
        self.set(int.map_or(Restored::String(value), Restored::Int))
    }

    fn collection(&mut self, kind: CollectionKind, len_hint: usize) -> Told {
        self.filling = Filling::new(len_hint);
        self.set(match kind {
            CollectionKind::List => Restored::List(List::default(), self.limits.list()),
            CollectionKind::Set => Restored::Set(Set::default(), self.limits.set()),
            CollectionKind::SortedSet => Restored::SortedSet(SortedSet::default(), self.limits.sorted_set()),
            CollectionKind::Hash => Restored::Hash(Hash::default(), self.limits.hash()),
        })
    }

    fn element(&mut self, element: Text<'_>) -> Told {
        let Restored::List(list, limits) = &mut self.value else { return Err(NOT_EXPECTED) };
        list.push(End::Back, element.as_bytes(&mut itoa::Buffer::new()), limits);
        Ok(())
    }

    fn member(&mut self, member: Text<'_>) -> Told {
        let Restored::Set(set, limits) = &mut self.value else { return Err(NOT_EXPECTED) };
        let member = match member {
            Text::Int(int) => Member::Int(int),
            Text::Bytes(bytes) => Member::Bytes(bytes),
        };
        let is_new = set.fill(member, &mut self.filling, limits);
        only_if(is_new, Refused::DUPLICATE_MEMBER)
    }

    fn scored(&mut self, member: Text<'_>, score: f64) -> Told {
        let Restored::SortedSet(set, limits) = &mut self.value else { return Err(NOT_EXPECTED) };
        let is_new = set.fill(member.as_bytes(&mut itoa::Buffer::new()), score, &mut self.filling, limits);
        only_if(is_new, Refused::DUPLICATE_MEMBER)
    }

    fn field(&mut self, name: Text<'_>, value: Text<'_>, expires_at_ms: Option<i64>) -> Told {
        let Restored::Hash(hash, limits) = &mut self.value else { return Err(NOT_EXPECTED) };
        let (mut of_name, mut of_value) = (itoa::Buffer::new(), itoa::Buffer::new());
        let (name, value) = (name.as_bytes(&mut of_name), value.as_bytes(&mut of_value));
        let is_new = hash.fill(name, value, expires_at_ms, &mut self.filling, limits);
        only_if(is_new, Refused::DUPLICATE_FIELD)
    }

    fn stream(&mut self) -> Told {
        let stream = RestoredStream { limits: Some(self.limits.stream()), ..RestoredStream::default() };
        self.set(Restored::Stream(Box::new(stream)))
    }

    fn stream_entry(&mut self, entry: StreamEntry<'_>) -> Told {
        self.as_stream()?.entry(entry)
    }

    fn stream_state(&mut self, state: &StreamState) -> Told {
        self.as_stream()?.state(state);
        Ok(())
    }

    fn group(&mut self, group: StreamGroup<'_>) -> Told {
        self.as_stream()?.group(group)
    }

    fn pending(&mut self, pending: StreamPending) -> Told {
        let before = self.as_stream()?.unowned.insert(id_of(pending.id), pending);
        only_if(before.is_none(), Refused::DUPLICATE_PENDING)
    }

    fn consumer(&mut self, consumer: StreamConsumer<'_>) -> Told {
        self.as_stream()?.consumer(consumer)
    }

    fn consumer_pending(&mut self, id: rdb::StreamId) -> Told {
        self.as_stream()?.consumer_pending(id_of(id))
    }

    fn group_end(&mut self) -> Told {
        only_if(self.as_stream()?.unowned.is_empty(), Refused::UNOWNED_PENDING)
    }
}

/// A stream in the making.
#[derive(Default)]
struct RestoredStream {
    stream: Stream,
    limits: Option<StreamLimits>,
    has_history: bool,
    /// The group that came last, and its consumer.
    group: Vec<u8>,
    consumer: Arc<[u8]>,
    /// Whether that consumer stands for entries without a consumer.
    is_nobody: bool,
    /// Pending entries of the group without a consumer so far.
    unowned: BTreeMap<StreamId, StreamPending>,
    /// The fields and values of an entry, one after the other.
    bytes: Vec<u8>,
    /// Bytes of names that entries share with others, and how many are allowed.
    names_len: usize,
    names_len_max: usize,
}

impl RestoredStream {
    fn entry(&mut self, entry: StreamEntry<'_>) -> Told {
        let id = id_of(entry.id);
        if id <= self.stream.last_id() {
            return Err(Refused("an entry of a stream with the identifier 0-0"));
        }
        self.count_names(&entry)?;
        self.bytes.clear();
        let mut ends: SmallVec<[usize; 16]> = SmallVec::new();
        for text in entry.names.iter().zip(entry.values).flat_map(|(name, value)| [name, value]) {
            self.bytes.extend_from_slice(text.as_bytes(&mut itoa::Buffer::new()));
            ends.push(self.bytes.len());
        }
        let mut start = 0;
        let mut next = |end: usize| &self.bytes[std::mem::replace(&mut start, end)..end];
        let pairs: SmallVec<[_; 8]> = ends.chunks_exact(2).map(|pair| (next(pair[0]), next(pair[1]))).collect();
        self.stream.push(id, &pairs, &self.limits.unwrap_or_default());
        Ok(())
    }

    /// A payload has the names of fields once for many entries, the store may have them once for each: a few bytes must not
    /// become gigabytes.
    fn count_names(&mut self, entry: &StreamEntry<'_>) -> Told {
        let len = |texts: &[Text<'_>]| {
            let of_text = |text: &Text<'_>| if let Text::Bytes(bytes) = text { bytes.len() } else { INT_TEXT_LEN_MAX };
            texts.iter().map(of_text).sum::<usize>()
        };
        if entry.shares_names {
            self.names_len += len(entry.names);
            self.names_len_max += NAMES_PER_BYTE_MAX * (len(entry.values) + ENTRY_LEN_MIN);
        }
        only_if(self.names_len <= NAMES_LEN_FREE + self.names_len_max, LONG_NAMES)
    }

    fn state(&mut self, state: &StreamState) {
        self.has_history = state.history.is_some();
        let history = state.history.unwrap_or_default();
        let added = history.entries_added.max(state.len);
        self.stream.set_last_id(id_of(state.last_id), Some(added), Some(id_of(history.max_deleted_id)));
    }

    fn group(&mut self, group: StreamGroup<'_>) -> Told {
        self.group = group.name.to_vec();
        self.unowned.clear();
        let last_id = id_of(group.last_id);
        let entries_read = if self.has_history { group.entries_read } else { self.stream.entries_before(last_id) };
        let restored = Group { last_id, entries_read, ..Group::default() };
        let before = self.stream.groups_mut().insert(self.group.clone(), restored);
        only_if(before.is_none(), Refused::DUPLICATE_GROUP)
    }

    fn consumer(&mut self, consumer: StreamConsumer<'_>) -> Told {
        self.consumer = consumer.name.to_vec().into();
        let group = self.stream.groups_mut().get_mut(&self.group).ok_or(NOT_EXPECTED)?;
        self.is_nobody = self.consumer.is_empty() && consumer.seen_ms == NOBODY_SEEN_MS;
        if self.is_nobody {
            return Ok(());
        }
        // Times before 1970 would make idle times overflow.
        let seen_ms = consumer.seen_ms.max(0);
        let active_ms = consumer.active_ms.map_or(seen_ms, |active_ms| active_ms.max(-1));
        let restored = Consumer { seen_ms, active_ms, ..Consumer::default() };
        let before = group.consumers.insert(Arc::clone(&self.consumer), restored);
        only_if(before.is_none(), Refused::DUPLICATE_CONSUMER)
    }

    fn consumer_pending(&mut self, id: StreamId) -> Told {
        let group = self.stream.groups_mut().get_mut(&self.group).ok_or(NOT_EXPECTED)?;
        let StreamPending { delivered_ms, count, .. } = self.unowned.remove(&id).ok_or(Refused::FOREIGN_PENDING)?;
        let pending = if self.is_nobody {
            Pending::released(count.min(Pending::COUNT_MAX))
        } else {
            let consumer = Some(Arc::clone(&self.consumer));
            Pending { consumer, delivered_ms: delivered_ms.max(0), count: count.min(Pending::COUNT_MAX) }
        };
        group.assign(id, pending);
        Ok(())
    }
}

fn id_of(id: rdb::StreamId) -> StreamId {
    StreamId { ms: id.ms, seq: id.seq }
}

fn id_to(id: StreamId) -> rdb::StreamId {
    rdb::StreamId { ms: id.ms, seq: id.seq }
}

/// Encodes a value; small collections as packed ones. O(bytes).
pub fn encode(value: ValueRef<'_>, encoder: ValueEncoder<'_>) {
    let collection = match value {
        ValueRef::Int(number) => return encoder.string(Text::Int(number)),
        ValueRef::Collection(collection) => collection,
        bytes => return encoder.string(Text::Bytes(bytes.as_bytes().unwrap_or_default())),
    };
    match collection {
        CollectionRef::List(list) => encoder.list(list.iter().map(|element| Text::Bytes(element.as_bytes()))),
        CollectionRef::Set(set) => encode_set(set, encoder),
        CollectionRef::SortedSet(set) => {
            let members = set.iter().map(|(member, score)| (Text::Bytes(member), score));
            match set.encoding() {
                Encoding::Listpack => encoder.sorted_set_listpack(members),
                _ => encoder.sorted_set(set.len() as u64, members),
            }
        }
        CollectionRef::Hash(hash) => encode_hash(hash, encoder),
        CollectionRef::Stream(stream) => encode_stream(stream, encoder),
    }
}

fn encode_set(set: &Set, encoder: ValueEncoder<'_>) {
    if let Some((width, ints)) = set.as_intset() {
        return encoder.intset(width, ints);
    }
    let text = |member| match member {
        Member::Int(int) => Text::Int(int),
        Member::Bytes(bytes) => Text::Bytes(bytes),
    };
    encoder.set(set.len() as u64, set.iter().map(text));
}

fn encode_hash(hash: &Hash, encoder: ValueEncoder<'_>) {
    let len = hash.len() as u64;
    let pairs = hash.iter().map(|field| (Text::Bytes(field.name), Text::Bytes(field.value)));
    match hash.next_expiry() {
        Some(first_ms) => {
            let fields = hash.iter().map(|field| (Text::Bytes(field.name), Text::Bytes(field.value), field.expiry));
            encoder.expiring_hash(len, first_ms, fields);
        }
        None if hash.encoding() == Encoding::Listpack => encoder.hash_listpack(pairs),
        None => encoder.hash(len, pairs),
    }
}

fn encode_stream(stream: &Stream, encoder: ValueEncoder<'_>) {
    let mut encoder = encoder.stream();
    let mut pairs = Vec::new();
    for entry in stream.iter_from(StreamId::MIN) {
        pairs.clear();
        pairs.extend(entry.iter().map(|(name, value)| (Text::Bytes(name), Text::Bytes(value))));
        encoder.entry(id_to(entry.id), pairs.iter().copied());
    }
    let history = StreamHistory {
        first_id: id_to(stream.first_id()),
        max_deleted_id: id_to(stream.max_deleted_id()),
        entries_added: stream.entries_added(),
    };
    let state = StreamState { len: stream.len() as u64, last_id: id_to(stream.last_id()), history: Some(history) };
    encoder.end_of_entries(&state, stream.groups().len() as u64);
    for (name, group) in stream.groups() {
        encode_group(name, group, &mut encoder);
    }
}

fn encode_group(name: &[u8], group: &Group, encoder: &mut StreamEncoder<'_>) {
    let head = StreamGroup { name: Text::Bytes(name), last_id: id_to(group.last_id), entries_read: group.entries_read };
    encoder.group(&head, group.pending.len() as u64);
    let mut released = Vec::new();
    for (id, Pending { consumer, delivered_ms, count }) in &group.pending {
        encoder.pending(&StreamPending { id: id_to(*id), delivered_ms: *delivered_ms, count: *count });
        if consumer.is_none() {
            released.push(*id);
        }
    }
    // The consumer with the empty name, if there is one, gets them, too.
    let needs_nobody = !released.is_empty() && !group.consumers.contains_key(&b""[..]);
    encoder.consumers(group.consumers.len() as u64 + u64::from(needs_nobody));
    if needs_nobody {
        let head = StreamConsumer { name: Text::Bytes(b""), seen_ms: NOBODY_SEEN_MS, active_ms: None };
        encoder.consumer(&head, released.len() as u64);
        released.drain(..).for_each(|id| encoder.consumer_pending(id_to(id)));
    }
    for (name, consumer) in &group.consumers {
        let Consumer { seen_ms, active_ms, .. } = *consumer;
        let head = StreamConsumer { name: Text::Bytes(name), seen_ms, active_ms: Some(active_ms) };
        let released = if name.is_empty() { &released[..] } else { &[] };
        encoder.consumer(&head, (consumer.pending.len() + released.len()) as u64);
        consumer.pending.iter().chain(released).for_each(|id| encoder.consumer_pending(id_to(*id)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onrush_persist::rdb::{Encoder, RdbError, Scratch, decode_payload};
    use onrush_store::Collection;

    fn restored(body: &[u8]) -> Result<NewValue<'static>, RdbError> {
        let limits = Encodings::default();
        limits.store(&Default::default());
        let mut restorer = Restorer::new(&limits);
        decode_payload(body, &mut restorer, &mut Scratch::default())?;
        Ok(restorer.into_value().expect("a value"))
    }

    /// The payload of a stream with `len` entries that have one long name.
    fn stream_with_name(name_len: usize, len: u64) -> Vec<u8> {
        let mut encoder = Encoder::new(true);
        let mut stream = encoder.payload().stream();
        let name = vec![b'n'; name_len];
        let last_id = rdb::StreamId { ms: len, seq: 1 };
        for ms in 1..=len {
            let fields = std::iter::once((Text::Bytes(&name), Text::Int(1)));
            stream.entry(rdb::StreamId { ms, seq: 1 }, fields);
        }
        stream.end_of_entries(&StreamState { len, last_id, history: None }, 0);
        encoder.take()
    }

    #[test]
    fn a_name_that_entries_share_does_not_become_gigabytes() {
        assert!(restored(&stream_with_name(1_000, 50_000)).is_ok());
        let error = restored(&stream_with_name(100_000, 50_000)).map(drop).unwrap_err();
        assert!(error.to_string().starts_with(LONG_NAMES.0), "{error}");
    }

    #[test]
    fn entries_that_were_given_back_stay_pending() {
        for name in [&b"consumer"[..], b""] {
            let mut stream = Stream::default();
            let ids = [1, 2].map(|ms| StreamId { ms, seq: 0 });
            let mut group = Group { last_id: ids[1], entries_read: Some(2), ..Group::default() };
            group.consumer(name, 1000);
            ids.iter().for_each(|id| stream.push(*id, &[(b"f", b"v")], &StreamLimits::default()));
            group.assign(ids[0], Pending::released(3));
            let is_named = !name.is_empty();
            let owned = Pending { consumer: Some(name[..].into()), delivered_ms: 0, count: 3 };
            group.assign(ids[1], owned.clone());
            stream.groups_mut().insert(b"group".to_vec(), group);
            let mut encoder = Encoder::new(true);
            encode(ValueRef::Collection(CollectionRef::Stream(&stream)), encoder.payload());
            let NewValue::Collection(onrush_store::Collection::Stream(restored)) = restored(encoder.bytes()).unwrap()
            else {
                panic!("no stream");
            };
            let group = &restored.groups()[&b"group"[..]];
            assert_eq!(group.pending[&ids[0]], if is_named { Pending::released(3) } else { owned.clone() });
            assert_eq!((&group.pending[&ids[1]], group.consumers.len()), (&owned, 1));
        }
    }

    /// A collection, and what changes it.
    type Changed = (Collection, fn(&mut Collection));

    /// A large collection of each type.
    fn large_collections() -> Vec<Changed> {
        let (mut list, mut set, mut hash) = (List::default(), Set::default(), Hash::default());
        let (mut sorted_set, mut stream, mut group) = (SortedSet::default(), Stream::default(), Group::default());
        group.consumer(b"consumer", 5);
        for n in 0..3_000_u64 {
            let name = format!("name:{n}").into_bytes();
            list.push(End::Back, &name, &ListLimits::default());
            set.insert(&name, &SetLimits::default());
            hash.set_with_expiry(&name, &name, (n % 3 == 0).then_some(1_000 + n as i64), &PairLimits::HASH);
            sorted_set.insert(&name, (n % 100) as f64, &PairLimits::SORTED_SET);
            let id = StreamId { ms: n + 1, seq: 0 };
            stream.push(id, &[(b"field", &name)], &StreamLimits::default());
            group.assign(id, Pending { consumer: Some(b"consumer"[..].into()), delivered_ms: 7, count: 1 });
        }
        stream.groups_mut().insert(b"group".to_vec(), group);
        vec![
            (list.into(), |list| {
                let Collection::List(list) = list else { panic!("a list") };
                (0..2_000).for_each(|_| list.drop_one(End::Front, &ListLimits::default()));
            }),
            (set.into(), |set| {
                let Collection::Set(set) = set else { panic!("a set") };
                (0..2_000).for_each(|n| assert!(set.remove(format!("name:{n}").as_bytes())));
            }),
            (hash.into(), |hash| {
                let Collection::Hash(hash) = hash else { panic!("a hash") };
                hash.expire_due(3_500, usize::MAX, &mut |_| {});
            }),
            (sorted_set.into(), |set| {
                let Collection::SortedSet(set) = set else { panic!("a sorted set") };
                assert_eq!(set.remove_range(100, 2_000), 2_000);
            }),
            (stream.into(), |stream| {
                let Collection::Stream(stream) = stream else { panic!("a stream") };
                let group = stream.groups_mut().get_mut(&b"group"[..]).expect("the group is there");
                assert!((1..2_000).all(|ms| group.acknowledge(StreamId { ms, seq: 0 })));
                assert!((1..2_000).all(|ms| stream.remove(StreamId { ms, seq: 0 })));
            }),
        ]
    }

    #[test]
    fn what_is_frozen_is_encoded_as_it_was() {
        for (mut collection, change) in large_collections() {
            let encoded = |collection: CollectionRef<'_>| {
                let mut encoder = Encoder::new(true);
                encode(ValueRef::Collection(collection), encoder.payload());
                encoder.take()
            };
            let before = encoded(collection.as_ref());
            let frozen = collection.freeze().expect("a large collection");
            change(&mut collection);
            assert_ne!(encoded(collection.as_ref()), before);
            let mut encoder = Encoder::new(true);
            encode(ValueRef::Collection(frozen.as_ref()), encoder.payload());
            assert!(encoder.take() == before, "{:?}", collection.ty());
        }
    }

    #[test]
    fn an_entry_without_an_identifier_is_refused() {
        let mut encoder = Encoder::new(false);
        let mut stream = encoder.payload().stream();
        stream.entry(rdb::StreamId::default(), std::iter::once((Text::Int(1), Text::Int(2))));
        stream.end_of_entries(&StreamState { len: 1, ..StreamState::default() }, 0);
        assert!(restored(encoder.bytes()).is_err());
    }
}

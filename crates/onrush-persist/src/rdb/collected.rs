//! A value with all its pieces in memory: for tools and tests.

use std::collections::{BTreeMap, BTreeSet};

use super::encode::ValueEncoder;
use super::stream::{StreamConsumer, StreamEntry, StreamGroup, StreamId, StreamPending, StreamState};
use super::text::Text;
use super::visitor::{CollectionKind, Refused, Told, Visitor};

type Bytes = Vec<u8>;

/// A value by its content, whatever its encoding.
#[derive(Clone, Debug, PartialEq)]
pub enum Collected {
    /// A string.
    String(Bytes),
    /// A list.
    List(Vec<Bytes>),
    /// A set.
    Set(BTreeSet<Bytes>),
    /// The members of a sorted set with their scores.
    SortedSet(BTreeMap<Bytes, f64>),
    /// The fields of a hash with their values and the Unix times in milliseconds when they expire.
    Hash(BTreeMap<Bytes, (Bytes, Option<i64>)>),
    /// A stream.
    Stream(CollectedStream),
}

/// A stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CollectedStream {
    /// Entries with their fields.
    pub entries: Vec<(StreamId, Vec<(Bytes, Bytes)>)>,
    /// Its state beside the entries.
    pub state: StreamState,
    /// Consumer groups by name.
    pub groups: BTreeMap<Bytes, CollectedGroup>,
}

/// A consumer group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CollectedGroup {
    /// The last entry that was delivered.
    pub last_id: StreamId,
    /// Entries delivered since the first of the stream, if that is known.
    pub entries_read: Option<u64>,
    /// Pending entries.
    pub pending: BTreeMap<StreamId, StreamPending>,
    /// Consumers by name.
    pub consumers: BTreeMap<Bytes, CollectedConsumer>,
}

/// A consumer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CollectedConsumer {
    /// When it last sent a command, in Unix milliseconds.
    pub seen_ms: i64,
    /// When it last got entries, if that is known.
    pub active_ms: Option<i64>,
    /// The entries it has pending.
    pub pending: BTreeSet<StreamId>,
}

const NOT_EXPECTED: Refused = Refused("a piece of another type of value");

impl Collected {
    /// Encodes it, in the packed form if `small`, otherwise in the plain form.
    pub fn encode(&self, encoder: ValueEncoder<'_>, small: bool) {
        match self {
            Collected::String(value) => encoder.string(Text::Bytes(value)),
            Collected::List(elements) => encoder.list(elements.iter().map(|element| Text::Bytes(element))),
            Collected::Set(members) => {
                let texts = members.iter().map(|member| Text::Bytes(member));
                let ints: Option<Vec<i64>> = texts.clone().map(Text::as_int).collect();
                match ints {
                    Some(mut ints) if small => {
                        ints.sort_unstable();
                        let bytes: Vec<u8> = ints.iter().flat_map(|int| int.to_le_bytes()).collect();
                        encoder.intset(8, &bytes);
                    }
                    _ => encoder.set(members.len() as u64, texts),
                }
            }
            Collected::SortedSet(members) => {
                let mut ranked: Vec<_> = members.iter().map(|(member, score)| (Text::Bytes(member), *score)).collect();
                ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
                if small {
                    encoder.sorted_set_listpack(ranked.into_iter());
                } else {
                    encoder.sorted_set(members.len() as u64, ranked.into_iter().rev());
                }
            }
            Collected::Hash(fields) => encode_hash(fields, encoder, small),
            Collected::Stream(stream) => stream.encode(encoder),
        }
    }
}

fn encode_hash(fields: &BTreeMap<Bytes, (Bytes, Option<i64>)>, encoder: ValueEncoder<'_>, small: bool) {
    let len = fields.len() as u64;
    let pairs = fields.iter().map(|(name, (value, _))| (Text::Bytes(name), Text::Bytes(value)));
    match fields.values().filter_map(|(_, expires_at_ms)| *expires_at_ms).min() {
        Some(first_ms) => {
            let expiries = fields.values().map(|(_, expires_at_ms)| *expires_at_ms);
            encoder.expiring_hash(
                len,
                first_ms,
                pairs.zip(expiries).map(|((name, value), expiry)| (name, value, expiry)),
            );
        }
        None if small => encoder.hash_listpack(pairs),
        None => encoder.hash(len, pairs),
    }
}

impl CollectedStream {
    fn encode(&self, encoder: ValueEncoder<'_>) {
        let mut stream = encoder.stream();
        for (id, fields) in &self.entries {
            stream.entry(*id, fields.iter().map(|(name, value)| (Text::Bytes(name), Text::Bytes(value))));
        }
        stream.end_of_entries(&self.state, self.groups.len() as u64);
        for (name, group) in &self.groups {
            let CollectedGroup { last_id, entries_read, .. } = *group;
            stream.group(&StreamGroup { name: Text::Bytes(name), last_id, entries_read }, group.pending.len() as u64);
            group.pending.values().for_each(|pending| stream.pending(pending));
            stream.consumers(group.consumers.len() as u64);
            for (name, consumer) in &group.consumers {
                let CollectedConsumer { seen_ms, active_ms, .. } = *consumer;
                let head = StreamConsumer { name: Text::Bytes(name), seen_ms, active_ms };
                stream.consumer(&head, consumer.pending.len() as u64);
                consumer.pending.iter().for_each(|id| stream.consumer_pending(*id));
            }
        }
    }
}

/// A visitor that collects a value. It refuses everything that a visitor must refuse.
#[derive(Debug, Default)]
pub struct Collector {
    value: Option<Collected>,
    /// The group that came last.
    group: Bytes,
    consumer: Bytes,
    /// The pending entries of the group's consumers.
    owned: BTreeSet<StreamId>,
}

impl Collector {
    /// The value, if one has come.
    pub fn into_value(self) -> Option<Collected> {
        self.value
    }

    fn set(&mut self, value: Collected) -> Told {
        self.value = Some(value);
        Ok(())
    }

    fn as_stream(&mut self) -> Result<&mut CollectedStream, Refused> {
        if let Some(Collected::Stream(stream)) = &mut self.value { Ok(stream) } else { Err(NOT_EXPECTED) }
    }

    /// The group that came last and the pending entries of its consumers.
    fn as_group(&mut self) -> Result<(&mut CollectedGroup, &mut BTreeSet<StreamId>), Refused> {
        let Some(Collected::Stream(stream)) = &mut self.value else { return Err(NOT_EXPECTED) };
        let group = stream.groups.get_mut(&self.group).ok_or(NOT_EXPECTED)?;
        Ok((group, &mut self.owned))
    }
}

fn unless(is_wrong: bool, refused: Refused) -> Told {
    if is_wrong { Err(refused) } else { Ok(()) }
}

impl Visitor for Collector {
    fn string(&mut self, value: Text<'_>) -> Told {
        self.set(Collected::String(value.to_vec()))
    }

    fn string_owned(&mut self, value: Vec<u8>) -> Told {
        self.set(Collected::String(value))
    }

    fn collection(&mut self, kind: CollectionKind, _len_hint: usize) -> Told {
        self.set(match kind {
            CollectionKind::List => Collected::List(Vec::new()),
            CollectionKind::Set => Collected::Set(BTreeSet::new()),
            CollectionKind::SortedSet => Collected::SortedSet(BTreeMap::new()),
            CollectionKind::Hash => Collected::Hash(BTreeMap::new()),
        })
    }

    fn element(&mut self, element: Text<'_>) -> Told {
        let Some(Collected::List(elements)) = &mut self.value else { return Err(NOT_EXPECTED) };
        elements.push(element.to_vec());
        Ok(())
    }

    fn member(&mut self, member: Text<'_>) -> Told {
        let Some(Collected::Set(members)) = &mut self.value else { return Err(NOT_EXPECTED) };
        unless(!members.insert(member.to_vec()), Refused::DUPLICATE_MEMBER)
    }

    fn scored(&mut self, member: Text<'_>, score: f64) -> Told {
        let Some(Collected::SortedSet(members)) = &mut self.value else { return Err(NOT_EXPECTED) };
        unless(members.insert(member.to_vec(), score).is_some(), Refused::DUPLICATE_MEMBER)
    }

    fn field(&mut self, name: Text<'_>, value: Text<'_>, expires_at_ms: Option<i64>) -> Told {
        let Some(Collected::Hash(fields)) = &mut self.value else { return Err(NOT_EXPECTED) };
        let before = fields.insert(name.to_vec(), (value.to_vec(), expires_at_ms));
        unless(before.is_some(), Refused::DUPLICATE_FIELD)
    }

    fn stream(&mut self) -> Told {
        self.set(Collected::Stream(CollectedStream::default()))
    }

    fn stream_entry(&mut self, entry: StreamEntry<'_>) -> Told {
        let fields = entry.names.iter().zip(entry.values).map(|(name, value)| (name.to_vec(), value.to_vec()));
        self.as_stream()?.entries.push((entry.id, fields.collect()));
        Ok(())
    }

    fn stream_state(&mut self, state: &StreamState) -> Told {
        self.as_stream()?.state = *state;
        Ok(())
    }

    fn group(&mut self, group: StreamGroup<'_>) -> Told {
        self.group = group.name.to_vec();
        self.owned.clear();
        let StreamGroup { last_id, entries_read, .. } = group;
        let collected = CollectedGroup { last_id, entries_read, ..CollectedGroup::default() };
        let before = self.as_stream()?.groups.insert(group.name.to_vec(), collected);
        unless(before.is_some(), Refused::DUPLICATE_GROUP)
    }

    fn pending(&mut self, pending: StreamPending) -> Told {
        let before = self.as_group()?.0.pending.insert(pending.id, pending);
        unless(before.is_some(), Refused::DUPLICATE_PENDING)
    }

    fn consumer(&mut self, consumer: StreamConsumer<'_>) -> Told {
        self.consumer = consumer.name.to_vec();
        let StreamConsumer { seen_ms, active_ms, .. } = consumer;
        let collected = CollectedConsumer { seen_ms, active_ms, pending: BTreeSet::new() };
        let before = self.as_group()?.0.consumers.insert(consumer.name.to_vec(), collected);
        unless(before.is_some(), Refused::DUPLICATE_CONSUMER)
    }

    fn consumer_pending(&mut self, id: StreamId) -> Told {
        let name = std::mem::take(&mut self.consumer);
        let (group, owned) = self.as_group()?;
        if !group.pending.contains_key(&id) || !owned.insert(id) {
            return Err(Refused::FOREIGN_PENDING);
        }
        group.consumers.get_mut(&name).ok_or(NOT_EXPECTED)?.pending.insert(id);
        self.consumer = name;
        Ok(())
    }

    fn group_end(&mut self) -> Told {
        let (group, owned) = self.as_group()?;
        unless(owned.len() < group.pending.len(), Refused::UNOWNED_PENDING)
    }
}

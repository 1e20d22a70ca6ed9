//! Frozen collections keep what was there, whatever becomes of the collections they were made of.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc;

use onrush_store::{
    Collection, CollectionRef, End, Frozen, Group, Hash, Idempotency, Keyspace, KeyspaceOptions, List, ListLimits,
    NewValue, PairLimits, Pending, Random, Set, SetLimits, SortedSet, Stream, StreamId, StreamLimits, Trim,
};

const PAIRS: PairLimits = PairLimits { listpack_entries_max: 4, listpack_value_len_max: 64 };

/// What is told of an element: its name, its value or score, when it expires.
type Row = (Vec<u8>, Vec<u8>, Option<i64>);

/// All that a collection holds, in its own order if it has one, else by name.
fn rows(collection: CollectionRef<'_>) -> Vec<Row> {
    let mut rows: Vec<Row> = match collection {
        CollectionRef::List(list) => {
            list.iter().map(|element| (element.as_bytes().to_vec(), Vec::new(), None)).collect()
        }
        CollectionRef::Set(set) => {
            set.iter().map(|member| (member.to_bytes(&mut itoa::Buffer::new()).to_vec(), Vec::new(), None)).collect()
        }
        CollectionRef::SortedSet(set) => set.iter().map(|(member, score)| scored(member, score)).collect(),
        CollectionRef::Hash(hash) => {
            hash.iter().map(|field| (field.name.to_vec(), field.value.to_vec(), field.expiry)).collect()
        }
        CollectionRef::Stream(stream) => return stream_rows(stream),
    };
    if matches!(collection, CollectionRef::Set(_) | CollectionRef::Hash(_)) {
        rows.sort_unstable();
    }
    assert_eq!(rows.len(), collection.len());
    rows
}

fn stream_rows(stream: &Stream) -> Vec<Row> {
    let mut rows: Vec<Row> = stream
        .iter_from(StreamId::MIN)
        .map(|entry| (entry.id.to_string().into(), entry.iter().flat_map(|(_, value)| value).copied().collect(), None))
        .collect();
    assert_eq!(rows.len(), stream.len());
    for (name, group) in stream.groups() {
        rows.extend(pending_rows(name, group.pending.iter()));
        for (consumer, state) in &group.consumers {
            let ids: Vec<&StreamId> = state.pending.iter().collect();
            assert_eq!(ids.len(), state.pending.len());
            rows.push((consumer.to_vec(), format!("{ids:?}").into(), Some(state.seen_ms)));
        }
    }
    rows.extend(stream.idempotency().into_iter().flat_map(recorded_rows));
    rows
}

fn pending_rows<'a>(group: &[u8], all: impl Iterator<Item = (&'a StreamId, &'a Pending)>) -> Vec<Row> {
    let row = |(id, pending): (&StreamId, &Pending)| {
        (group.to_vec(), format!("{id} {pending:?}").into(), Some(pending.delivered_ms))
    };
    all.map(row).collect()
}

fn recorded_rows(table: &Idempotency) -> Vec<Row> {
    table.iter().map(|recorded| (recorded.message.to_vec(), format!("{recorded:?}").into(), None)).collect()
}

fn scored(member: &[u8], score: f64) -> Row {
    (member.to_vec(), score.to_string().into_bytes(), None)
}

/// A collection under test with its model.
trait Tested: Default {
    /// Changes it at random; `growing` says whether more comes than goes.
    fn change(&mut self, random: &mut Random, growing: bool);

    /// What it should hold.
    fn expected(&self) -> Vec<Row>;

    fn collection(&mut self) -> &mut Collection;
}

fn name(random: &mut Random, below: usize) -> Vec<u8> {
    format!("member:{}", random.below(below)).into_bytes()
}

fn value(random: &mut Random) -> Vec<u8> {
    vec![b'a' + random.below(26) as u8; [0, 1, 5, 5, 30, 300, 1_500][random.below(7)]]
}

macro_rules! of_type {
    ($collection:expr, $type:ident) => {
        match $collection {
            Collection::$type(collection) => collection,
            other => panic!("not {other:?}"),
        }
    };
}

struct Lists(Collection, VecDeque<Vec<u8>>);

impl Default for Lists {
    fn default() -> Self {
        Lists(List::default().into(), VecDeque::new())
    }
}

impl Tested for Lists {
    fn change(&mut self, random: &mut Random, growing: bool) {
        let limits = ListLimits::default();
        let (list, model) = (of_type!(&mut self.0, List), &mut self.1);
        let (element, at) = (value(random), random.below(model.len() + 1));
        match random.below(if growing { 14 } else { 30 }) {
            0..5 => {
                list.push(End::Front, &element, &limits);
                model.push_front(element);
            }
            5..10 => {
                list.push(End::Back, &element, &limits);
                model.push_back(element);
            }
            10 => {
                list.insert(at, &element, &limits);
                model.insert(at, element);
            }
            11 if at < model.len() => {
                list.set(at, &element, &limits);
                model[at] = element;
            }
            12 if random.below(20) == 0 => {
                let mut left = random.below(20);
                let from = [End::Front, End::Back][random.below(2)];
                assert!(list.remove_values(&element, from, left, &limits) <= left);
                let mut kept: Vec<Vec<u8>> = model.drain(..).collect();
                let keep = |other: &Vec<u8>| {
                    let goes = left > 0 && *other == element;
                    left -= usize::from(goes);
                    !goes
                };
                if from == End::Back {
                    kept = kept.into_iter().rev().filter(keep).collect();
                    kept.reverse();
                } else {
                    kept.retain(keep);
                }
                *model = kept.into();
            }
            13 if random.below(20) == 0 => {
                let count = model.len().saturating_sub(random.below(100));
                let start = random.below(50).min(model.len());
                list.trim(start, count, &limits);
                *model = std::mem::take(model).into_iter().skip(start).take(count).collect();
            }
            n => {
                let (end, gone) =
                    if n % 2 == 0 { (End::Front, model.pop_front()) } else { (End::Back, model.pop_back()) };
                assert_eq!(list.peek(end).map(|element| element.as_bytes().to_vec()), gone);
                list.drop_one(end, &limits);
            }
        }
    }

    fn expected(&self) -> Vec<Row> {
        self.1.iter().map(|element| (element.clone(), Vec::new(), None)).collect()
    }

    fn collection(&mut self) -> &mut Collection {
        &mut self.0
    }
}

struct Sets(Collection, BTreeMap<Vec<u8>, ()>);

impl Default for Sets {
    fn default() -> Self {
        Sets(Set::default().into(), BTreeMap::new())
    }
}

impl Tested for Sets {
    fn change(&mut self, random: &mut Random, growing: bool) {
        let limits = SetLimits { intset_entries_max: 8, listpack_entries_max: 8, listpack_value_len_max: 64 };
        let (set, model) = (of_type!(&mut self.0, Set), &mut self.1);
        let name = name(random, 8_000);
        if random.below(10) < if growing { 8 } else { 1 } {
            assert_eq!(set.insert(&name, &limits), model.insert(name, ()).is_none());
        } else {
            assert_eq!(set.remove(&name), model.remove(&name).is_some());
        }
    }

    fn expected(&self) -> Vec<Row> {
        self.1.keys().map(|name| (name.clone(), Vec::new(), None)).collect()
    }

    fn collection(&mut self) -> &mut Collection {
        &mut self.0
    }
}

struct Hashes(Collection, BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>);

impl Default for Hashes {
    fn default() -> Self {
        Hashes(Hash::default().into(), BTreeMap::new())
    }
}

impl Tested for Hashes {
    fn change(&mut self, random: &mut Random, growing: bool) {
        let (hash, model) = (of_type!(&mut self.0, Hash), &mut self.1);
        let (name, value) = (name(random, 8_000), value(random));
        let expiry = (random.below(4) == 0).then(|| 1_000 + random.below(100_000) as i64);
        match random.below(if growing { 10 } else { 25 }) {
            0..7 => {
                let is_new = hash.set_with_expiry(&name, &value, expiry, &PAIRS);
                assert_eq!(is_new, model.insert(name, (value, expiry)).is_none());
            }
            7 => {
                assert_eq!(hash.set_expiry(&name, expiry), model.contains_key(&name));
                model.entry(name).and_modify(|field| field.1 = expiry);
            }
            8 => {
                hash.expire_due(1_500, 3, &mut |name| assert!(model.remove(name).is_some()));
            }
            _ => assert_eq!(hash.remove(&name), model.remove(&name).is_some()),
        }
    }

    fn expected(&self) -> Vec<Row> {
        self.1.iter().map(|(name, (value, expiry))| (name.clone(), value.clone(), *expiry)).collect()
    }

    fn collection(&mut self) -> &mut Collection {
        &mut self.0
    }
}

struct SortedSets(Collection, BTreeMap<Vec<u8>, f64>);

impl Default for SortedSets {
    fn default() -> Self {
        SortedSets(SortedSet::default().into(), BTreeMap::new())
    }
}

impl Tested for SortedSets {
    fn change(&mut self, random: &mut Random, growing: bool) {
        let (set, model) = (of_type!(&mut self.0, SortedSet), &mut self.1);
        let name = name(random, 20_000);
        match random.below(if growing { 100 } else { 400 }) {
            0..80 => {
                let scores = [3, 10_000][random.below(2)];
                let score = random.below(scores) as f64;
                assert_eq!(set.insert(&name, score, &PAIRS), model.insert(name, score).is_none());
            }
            80 => {
                let (start, count) = (random.below(model.len() + 1), random.below(40));
                let gone: Vec<_> = set.iter_from(start).take(count).map(|(member, _)| member.to_vec()).collect();
                assert_eq!(set.remove_range(start, count), gone.len());
                gone.iter().for_each(|member| assert!(model.remove(member).is_some()));
            }
            81..90 => set.pop(random.below(2) == 0, &mut |member, score| {
                assert_eq!(model.remove(member), Some(score));
            }),
            _ => assert_eq!(set.remove(&name), model.remove(&name).is_some()),
        }
    }

    fn expected(&self) -> Vec<Row> {
        let mut members: Vec<_> = self.1.iter().collect();
        members.sort_by(|a, b| a.1.total_cmp(b.1).then_with(|| a.0.cmp(b.0)));
        members.into_iter().map(|(member, score)| scored(member, *score)).collect()
    }

    fn collection(&mut self) -> &mut Collection {
        &mut self.0
    }
}

#[derive(Default)]
struct StreamModel {
    entries: BTreeMap<StreamId, Vec<u8>>,
    last: u64,
    pending: BTreeMap<StreamId, Pending>,
    seen_ms: BTreeMap<Vec<u8>, i64>,
    recorded: Idempotency,
}

struct Streams(Collection, StreamModel);

impl Default for Streams {
    fn default() -> Self {
        let mut stream = Stream::default();
        stream.groups_mut().insert(b"group".to_vec(), Group::default());
        Streams(stream.into(), StreamModel::default())
    }
}

impl Streams {
    fn append(stream: &mut Stream, model: &mut StreamModel, value: Vec<u8>) -> StreamId {
        model.last += 1;
        let id = StreamId { ms: model.last, seq: 0 };
        let limits = StreamLimits { node_bytes_max: 0, node_entries_max: 7 };
        stream.push(id, &[(b"field", &value)], &limits);
        model.entries.insert(id, value);
        id
    }
}

impl Tested for Streams {
    fn change(&mut self, random: &mut Random, growing: bool) {
        let (stream, model) = (of_type!(&mut self.0, Stream), &mut self.1);
        let id = StreamId { ms: random.below(model.last as usize + 2) as u64, seq: 0 };
        match random.below(if growing { 20 } else { 40 }) {
            0..8 => _ = Self::append(stream, model, value(random)),
            8 => {
                let (message, id) = (name(random, 50), Self::append(stream, model, Vec::new()));
                stream.idempotency_mut().record(b"producer", &message, id, id.ms as i64);
                model.recorded.record(b"producer", &message, id, id.ms as i64);
            }
            9..16 => {
                let (consumer, now_ms) = (name(random, 3), random.below(1_000) as i64);
                let group = stream.groups_mut().get_mut(&b"group"[..]).expect("the group is there");
                if group.consumer(&consumer, now_ms) {
                    model.seen_ms.insert(consumer.clone(), now_ms);
                }
                let count = random.below(5) as u64;
                let pending = Pending { consumer: Some(consumer.into()), delivered_ms: now_ms, count };
                group.assign(id, pending.clone());
                model.pending.insert(id, pending);
            }
            n @ 16..19 => {
                let removed = if n == 18 { random.below(200) as u64 } else { 1 };
                for id in (id.ms..id.ms + removed).map(|ms| StreamId { ms, seq: 0 }) {
                    assert_eq!(stream.remove(id), model.entries.remove(&id).is_some());
                }
            }
            19 => {
                let left = stream.len().saturating_sub(random.below(30));
                let gone = stream.trim(Trim::MaxLen(left as u64), false, 0);
                (0..gone).for_each(|_| _ = model.entries.pop_first());
                assert_eq!(model.entries.len(), left);
            }
            n => {
                let first = model.pending.keys().next().copied().filter(|_| n % 2 == 0).unwrap_or(id);
                let group = stream.groups_mut().get_mut(&b"group"[..]).expect("the group is there");
                assert_eq!(group.acknowledge(first), model.pending.remove(&first).is_some());
            }
        }
    }

    fn expected(&self) -> Vec<Row> {
        let model = &self.1;
        let mut rows: Vec<Row> =
            model.entries.iter().map(|(id, value)| (id.to_string().into(), value.clone(), None)).collect();
        rows.extend(pending_rows(b"group", model.pending.iter()));
        for (consumer, seen_ms) in &model.seen_ms {
            let own = model.pending.iter().filter(|(_, pending)| pending.consumer.as_deref() == Some(consumer));
            let ids: Vec<&StreamId> = own.map(|(id, _)| id).collect();
            rows.push((consumer.to_vec(), format!("{ids:?}").into(), Some(*seen_ms)));
        }
        rows.extend(recorded_rows(&model.recorded));
        rows
    }

    fn collection(&mut self) -> &mut Collection {
        &mut self.0
    }
}

/// What was frozen, and what it has to hold.
type Kept = (Frozen, Vec<Row>);

fn check((frozen, expected): &Kept) {
    assert_eq!(rows(frozen.as_ref()), *expected);
    if let CollectionRef::Hash(hash) = frozen.as_ref() {
        assert_eq!(hash.next_expiry(), expected.iter().filter_map(|(_, _, expiry)| *expiry).min());
    }
}

/// Changes a collection that swells and ebbs, freezes it now and then, and hands out what was frozen.
fn change_and_freeze<T: Tested>(seed: u64, mut hand_out: impl FnMut(&mut Random, Kept)) {
    let operations = if cfg!(miri) { 600 } else { 30_000 };
    let mut random = Random::new(seed);
    let mut tested = T::default();
    for step in 0..operations {
        tested.change(&mut random, step % (operations / 3) < operations / 5);
        if random.below(operations / 40) == 0
            && let Some(frozen) = tested.collection().freeze()
        {
            let expected = tested.expected();
            hand_out(&mut random, (frozen, expected));
        }
        if random.below(operations / 20) == 0 {
            tested.collection().thaw();
        }
        if step % (operations / 10) == 0 {
            assert_eq!(rows(tested.collection().as_ref()), tested.expected());
            let collection = tested.collection();
            assert_eq!(*collection, collection.clone());
        }
    }
    assert_eq!(rows(tested.collection().as_ref()), tested.expected());
}

/// Up to six frozen ones are alive at a time, and are dropped in any order.
fn frozen_ones_stay_as_they_were<T: Tested>() {
    for seed in 0..if cfg!(miri) { 1 } else { 3 } {
        let mut alive: Vec<Kept> = Vec::new();
        let mut count = 0;
        change_and_freeze::<T>(seed, |random, kept| {
            check(&kept);
            count += 1;
            alive.push(kept);
            while alive.len() > 6 || !alive.is_empty() && random.below(3) == 0 {
                check(&alive.swap_remove(random.below(alive.len())));
            }
        });
        assert!(cfg!(miri) || count > 10, "only {count} were frozen");
        alive.iter().for_each(check);
    }
}

/// The same with other threads that read and drop what was frozen while the collection goes on changing.
fn frozen_ones_are_read_on_other_threads<T: Tested>() {
    std::thread::scope(|scope| {
        let readers: Vec<mpsc::Sender<Kept>> = (0..3)
            .map(|_| {
                let (sender, receiver) = mpsc::channel::<Kept>();
                scope.spawn(move || receiver.iter().for_each(|kept| check(&kept)));
                sender
            })
            .collect();
        change_and_freeze::<T>(9, |random, kept| readers[random.below(3)].send(kept).expect("the reader is there"));
    });
}

#[test]
fn frozen_lists_stay_as_they_were() {
    frozen_ones_stay_as_they_were::<Lists>();
    frozen_ones_are_read_on_other_threads::<Lists>();
}

#[test]
fn frozen_sets_stay_as_they_were() {
    frozen_ones_stay_as_they_were::<Sets>();
    frozen_ones_are_read_on_other_threads::<Sets>();
}

#[test]
fn frozen_hashes_stay_as_they_were() {
    frozen_ones_stay_as_they_were::<Hashes>();
    frozen_ones_are_read_on_other_threads::<Hashes>();
}

#[test]
fn frozen_sorted_sets_stay_as_they_were() {
    frozen_ones_stay_as_they_were::<SortedSets>();
    frozen_ones_are_read_on_other_threads::<SortedSets>();
}

#[test]
fn frozen_streams_stay_as_they_were() {
    frozen_ones_stay_as_they_were::<Streams>();
    frozen_ones_are_read_on_other_threads::<Streams>();
}

#[test]
fn an_entry_is_frozen_where_it_stands() {
    let keyspace = Keyspace::new(KeyspaceOptions::default());
    let limits = SetLimits { intset_entries_max: 4, listpack_entries_max: 4, listpack_value_len_max: 64 };
    let set = |range: std::ops::Range<u32>| {
        let mut set = Set::default();
        range.for_each(|n| assert!(set.insert(format!("member:{n}").as_bytes(), &limits)));
        set
    };
    for (key, value, len) in [
        ("large", NewValue::from(set(0..3_000)), Some(3_000)),
        ("small", NewValue::from(set(0..3)), None),
        ("string", NewValue::Bytes(b"value"), None),
    ] {
        let (key, hash) = (key.as_bytes(), keyspace.hash(key.as_bytes()));
        let mut table = keyspace.db_or_create(0).shard_of(hash).lock();
        table.set(key, hash, value, None, 0);
        let mut slot = table.find(key, hash).expect("set above");
        let frozen = slot.freeze();
        assert_eq!(frozen.as_ref().map(|frozen| frozen.as_ref().len()), len);
        if let (Some(frozen), Some(mut set)) = (frozen, slot.collection_mut::<Set>()) {
            (0..2_000).for_each(|n| assert!(set.remove(format!("member:{n}").as_bytes())));
            assert_eq!((set.len(), rows(frozen.as_ref()).len()), (1_000, 3_000));
        }
    }
}

#[test]
fn a_small_collection_is_not_frozen() {
    let mut set = Set::default();
    set.insert(b"member", &SetLimits::default());
    let mut hash = Hash::default();
    hash.set(b"field", b"value", &PairLimits::HASH);
    let mut sorted_set = SortedSet::default();
    sorted_set.insert(b"member", 1.0, &PairLimits::SORTED_SET);
    let mut list = List::default();
    list.push(End::Back, b"element", &ListLimits::default());
    let mut stream = Stream::default();
    stream.push(StreamId { ms: 1, seq: 0 }, &[(b"field", b"value")], &StreamLimits::default());
    for mut collection in [Collection::from(set), hash.into(), sorted_set.into(), list.into(), stream.into()] {
        assert!(collection.freeze().is_none());
        assert_eq!(collection.as_ref().len(), 1);
    }
}

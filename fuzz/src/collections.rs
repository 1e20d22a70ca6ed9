//! Collections against plain ones. Bytes are operations; the limits are so small that encodings change all the time.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use onrush_store::hyperloglog::{self, Registers};
use onrush_store::{
    End, Hash, List, ListLimits, PairLimits, Set, SetLimits, SortedSet, Stream, StreamId, StreamLimits, Trim,
};

const PAIRS: PairLimits = PairLimits { listpack_entries_max: 6, listpack_value_len_max: 9 };

/// What a member, field or element may be: integers of all widths, texts short and long, nothing at all.
fn text(kind: u8, number: u8) -> Vec<u8> {
    let number = i64::from(number as i8);
    match kind % 8 {
        0 => number.to_string().into_bytes(),
        1 => number.wrapping_mul(1_000_003).to_string().into_bytes(),
        2 => number.wrapping_mul(i64::MAX / 127).to_string().into_bytes(),
        3 => vec![number as u8; usize::from(kind >> 3)],
        4 => vec![b'x'; usize::from(kind >> 3) * 40 + (number as usize & 63)],
        5 => format!("0{number}").into_bytes(),
        6 => vec![kind; 1 + (number as usize & 7) * 12],
        _ => format!("member:{number}").into_bytes(),
    }
}

fn operations(data: &[u8]) -> impl Iterator<Item = [u8; 4]> {
    data.as_chunks::<4>().0.iter().copied()
}

/// A list must hold what a deque holds.
pub fn list(data: &[u8]) {
    let limits = [-1, 3, 1, 20, -5].map(|listpack_size| ListLimits { listpack_size });
    let limits = limits[usize::from(data.first().copied().unwrap_or(0)) % limits.len()];
    let (mut list, mut model) = (List::default(), VecDeque::new());
    for [operation, kind, number, place] in operations(data) {
        let element = text(kind, number);
        let at = usize::from(place) % (model.len() + 1);
        match operation % 10 {
            0 | 1 => {
                list.push(End::Front, &element, &limits);
                model.push_front(element);
            }
            2 | 3 => {
                list.push(End::Back, &element, &limits);
                model.push_back(element);
            }
            4 => {
                list.insert(at, &element, &limits);
                model.insert(at, element);
            }
            5 if at < model.len() => {
                list.set(at, &element, &limits);
                model[at] = element;
            }
            6 if !model.is_empty() => {
                list.drop_one(if place & 1 == 0 { End::Front } else { End::Back }, &limits);
                _ = if place & 1 == 0 { model.pop_front() } else { model.pop_back() };
            }
            7 if !model.is_empty() => {
                let removed = list.remove_values(&element, End::Front, 2, &limits);
                let before = model.len();
                let mut left = 2;
                model.retain(|other| {
                    let goes = left > 0 && *other == element;
                    left -= usize::from(goes);
                    !goes
                });
                assert_eq!(removed, before - model.len());
            }
            8 if place < 32 && !model.is_empty() => {
                let count = (model.len() - at.min(model.len())).min(usize::from(number));
                list.trim(at, count, &limits);
                model = model.into_iter().skip(at).take(count).collect();
            }
            _ => assert_eq!(list.get(at).map(|element| bytes_of(element)), model.get(at).cloned()),
        }
        assert_eq!((list.len(), list.is_empty()), (model.len(), model.is_empty()));
    }
    assert!(list.iter().map(bytes_of).eq(model.iter().cloned()));
    if let Some(last) = model.len().checked_sub(1) {
        assert!(list.iter_back_from(last).map(bytes_of).eq(model.iter().rev().cloned()));
    }
}

fn bytes_of(element: onrush_store::Element<'_>) -> Vec<u8> {
    element.as_bytes().to_vec()
}

/// A set must hold what a tree of strings holds.
pub fn set(data: &[u8]) {
    let limits = SetLimits { intset_entries_max: 8, listpack_entries_max: 6, listpack_value_len_max: 9 };
    let (mut set, mut model) = (Set::default(), BTreeSet::new());
    for [operation, kind, number, _] in operations(data) {
        let member = text(kind, number);
        match operation % 4 {
            0 | 1 => assert_eq!(set.insert(&member, &limits), model.insert(member)),
            2 => assert_eq!(set.remove(&member), model.remove(&member)),
            _ => assert_eq!(set.contains(&member), model.contains(&member)),
        }
        assert_eq!(set.len(), model.len());
    }
    let held = |member: onrush_store::Member<'_>| member.to_bytes(&mut itoa::Buffer::new()).to_vec();
    assert_eq!(set.iter().map(held).collect::<BTreeSet<_>>(), model);
    let (mut scanned, mut cursor) = (BTreeSet::new(), 0);
    loop {
        cursor = set.scan(cursor, 3, &mut |member| _ = scanned.insert(held(member)));
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(scanned, model);
}

/// A hash must hold what a map holds, with the expiries of fields.
pub fn hash(data: &[u8]) {
    let (mut hash, mut model) = (Hash::default(), HashMap::new());
    for [operation, kind, number, value] in operations(data) {
        let name = text(kind, number);
        match operation % 6 {
            0 | 1 => {
                let value = text(value, kind);
                assert_eq!(hash.set(&name, &value, &PAIRS), model.insert(name, (value, None)).is_none());
            }
            2 => assert_eq!(hash.remove(&name), model.remove(&name).is_some()),
            3 => {
                let expiry = (value & 1 == 0).then_some(i64::from(value));
                assert_eq!(hash.set_expiry(&name, expiry), model.contains_key(&name));
                model.entry(name).and_modify(|(_, at)| *at = expiry);
            }
            4 => {
                let now = i64::from(value) / 2;
                let mut removed = 0;
                hash.expire_due(now, usize::MAX, &mut |name| {
                    let (_, at) = model.remove(name).expect("a field the map has");
                    assert!(at.is_some_and(|at| at <= now));
                    removed += 1;
                });
                assert!(model.values().all(|(_, at)| at.is_none_or(|at| at > now)), "{removed} removed");
            }
            _ => {
                let field = hash.field(&name).map(|(value, at)| (value.to_vec(), at));
                assert_eq!(field, model.get(&name).cloned());
            }
        }
        assert_eq!(hash.len(), model.len());
    }
    let held = hash.iter().map(|field| (field.name.to_vec(), (field.value.to_vec(), field.expiry)));
    assert_eq!(held.collect::<HashMap<_, _>>(), model);
    assert_eq!(hash.next_expiry(), model.values().filter_map(|(_, at)| *at).min());
}

/// A sorted set must hold what a map holds, in the order of scores and members.
pub fn sorted_set(data: &[u8]) {
    let (mut set, mut model) = (SortedSet::default(), BTreeMap::new());
    for [operation, kind, number, value] in operations(data) {
        let member = text(kind, number);
        let score = match value {
            0 => f64::INFINITY,
            1 => f64::NEG_INFINITY,
            _ => f64::from(value as i8) / 4.0,
        };
        match operation % 5 {
            0..3 => assert_eq!(set.insert(&member, score, &PAIRS), model.insert(member, score).is_none()),
            3 => assert_eq!(set.remove(&member), model.remove(&member).is_some()),
            _ => assert_eq!(set.score(&member), model.get(&member).copied()),
        }
        assert_eq!(set.len(), model.len());
    }
    let mut sorted: Vec<(Vec<u8>, f64)> = model.into_iter().collect();
    sorted.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
    assert!(set.iter().eq(sorted.iter().map(|(member, score)| (&member[..], *score))));
    for (rank, (member, score)) in sorted.iter().enumerate() {
        assert_eq!(set.rank(member), Some(rank));
        assert_eq!(set.iter_from(rank).next(), Some((&member[..], *score)));
    }
    if let Some(&[start, count]) = data.first_chunk() {
        let start = usize::from(start) % (sorted.len() + 1);
        let count = usize::from(count).min(sorted.len() - start);
        if count < sorted.len() {
            assert_eq!(set.remove_range(start, count), count);
            sorted.drain(start..start + count);
            assert!(set.iter().eq(sorted.iter().map(|(member, score)| (&member[..], *score))));
        }
    }
}

/// A stream must hold what a map from identifiers holds.
pub fn stream(data: &[u8]) {
    let limits = StreamLimits { node_bytes_max: 200, node_entries_max: 5 };
    let (mut stream, mut model) = (Stream::default(), BTreeMap::new());
    let mut last = 0_u64;
    for [operation, kind, number, value] in operations(data) {
        match operation % 6 {
            0..3 => {
                last += u64::from(value) + 1;
                let pairs = [(text(kind, 1), text(value, number)), (text(kind, 2), text(kind, number))];
                let pairs = &pairs[..1 + usize::from(operation & 8 != 0)];
                let borrowed: Vec<_> = pairs.iter().map(|(field, value)| (&field[..], &value[..])).collect();
                stream.push(StreamId { ms: last / 3, seq: last }, &borrowed, &limits);
                model.insert(StreamId { ms: last / 3, seq: last }, pairs.to_vec());
            }
            3 => {
                let at = model.len().checked_sub(1).map(|last| usize::from(value).min(last));
                let id = at.and_then(|at| model.keys().nth(at).copied()).unwrap_or(StreamId { ms: 1, seq: 0 });
                assert_eq!(stream.remove(id), model.remove(&id).is_some());
            }
            4 if value < 40 => {
                let keep = u64::from(value);
                let removed = stream.trim(Trim::MaxLen(keep), false, u64::MAX);
                let excess = model.len().saturating_sub(usize::from(value));
                assert_eq!(removed, excess as u64);
                (0..excess).for_each(|_| _ = model.pop_first());
            }
            _ => {}
        }
        assert_eq!(stream.len(), model.len());
    }
    let from = StreamId { ms: u64::from(data.first().copied().unwrap_or(0)), seq: 0 };
    let held = stream.iter_from(from).map(|entry| (entry.id, entry.iter().map(owned).collect::<Vec<_>>()));
    assert!(held.eq(model.range(from..).map(|(id, pairs)| (*id, pairs.clone()))));
}

fn owned((field, value): (&[u8], &[u8])) -> (Vec<u8>, Vec<u8>) {
    (field.to_vec(), value.to_vec())
}

/// Any bytes as runs of a HyperLogLog, and elements shown to a good one.
pub fn hyperloglog(data: &[u8]) {
    let mut bad = hyperloglog::empty();
    bad.truncate(16);
    bad.extend_from_slice(data);
    let is_whole = Registers::of(&bad).is_ok();
    _ = hyperloglog::add(&mut bad, data, 300);
    let mut copy = bad.clone();
    assert!(hyperloglog::make_dense(&mut copy).is_ok() || !is_whole);

    let (mut sparse, mut dense) = (hyperloglog::empty(), hyperloglog::empty());
    hyperloglog::make_dense(&mut dense).expect("an empty one is whole");
    for element in operations(data) {
        let changed = hyperloglog::add_dense(&mut dense, &element);
        assert_eq!(hyperloglog::add(&mut sparse, &element, 60), Ok(changed));
    }
    let [sparse, dense] = [sparse, dense].map(|bytes| Registers::of(&bytes).expect("a good one is whole"));
    assert_eq!(sparse.values(), dense.values());
}

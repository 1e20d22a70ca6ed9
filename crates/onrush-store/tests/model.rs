//! A table does what a `HashMap` of plain values does, for any sequence of operations.

use std::collections::HashMap;
use std::sync::Arc;

use onrush_store::{Encoding, Hasher, NewValue, Table, ValueRef};
use proptest::prelude::*;

const NOW_MS: i64 = 1_800_000_000_000;

#[derive(Clone, Debug, PartialEq)]
enum Content {
    Int(i64),
    Bytes { bytes: Vec<u8>, raw: bool },
}

#[derive(Clone, Debug, PartialEq)]
struct Modelled {
    content: Content,
    expire: Option<i64>,
    clock: u32,
}

#[derive(Clone, Debug)]
enum Operation {
    Set(Content, Option<i64>, u32),
    SetValue(Content),
    SetInt(i64),
    SetExpire(Option<i64>),
    SetClock(u32),
    Append(Vec<u8>),
    Resize(usize),
    Fill(u8),
    Share,
    Remove,
    RemoveAndPutBack,
    ExpireDue(i64),
    Clear,
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let len = prop_oneof![8 => 0..20_usize, 2 => 36..60_usize, 1 => 480..540_usize];
    (any::<u8>(), len).prop_map(|(byte, len)| vec![byte; len])
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        any::<i64>().prop_map(Content::Int),
        (bytes(), any::<bool>()).prop_map(|(bytes, raw)| Content::Bytes { bytes, raw }),
    ]
}

fn expire() -> impl Strategy<Value = Option<i64>> {
    // Soon after an arbitrary now, or so early or late that it takes another form.
    prop_oneof![
        2 => Just(None),
        2 => (0..1000_i64).prop_map(|n| Some(NOW_MS + n)),
        1 => (0..1000_i64).prop_map(|n| Some(i64::MAX - n)),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let clock = 0..1_u32 << 24;
    prop_oneof![
        12 => (content(), expire(), clock.clone()).prop_map(|(v, e, c)| Operation::Set(v, e, c)),
        4 => content().prop_map(Operation::SetValue),
        4 => any::<i64>().prop_map(Operation::SetInt),
        4 => expire().prop_map(Operation::SetExpire),
        2 => clock.prop_map(Operation::SetClock),
        4 => bytes().prop_map(Operation::Append),
        2 => (0..530_usize).prop_map(Operation::Resize),
        2 => any::<u8>().prop_map(Operation::Fill),
        1 => Just(Operation::Share),
        8 => Just(Operation::Remove),
        1 => Just(Operation::RemoveAndPutBack),
        1 => (0..1000_i64).prop_map(|n| Operation::ExpireDue(NOW_MS + n)),
        // Rare enough for the table to grow in between.
        1 => (0..50_u8).prop_map(|n| if n == 0 { Operation::Clear } else { Operation::Remove }),
    ]
}

/// Short and long keys, some of them often.
fn key(n: u16) -> Vec<u8> {
    if n.is_multiple_of(16) { vec![b'k'; 200 + n as usize / 4] } else { format!("key:{n}").into_bytes() }
}

struct Pair {
    table: Table,
    hasher: Hasher,
    model: HashMap<Vec<u8>, Modelled>,
    /// Values that a reply still holds, with what they were.
    held: Vec<(Arc<Vec<u8>>, Vec<u8>)>,
}

impl Pair {
    fn new() -> Self {
        let hasher = Hasher::seeded(3);
        Pair { table: Table::new(hasher), hasher, model: HashMap::new(), held: Vec::new() }
    }

    fn apply(&mut self, key: Vec<u8>, operation: Operation) {
        let hash = self.hasher.hash(&key);
        let slot = self.table.find(&key, hash);
        assert_eq!(slot.is_some(), self.model.contains_key(&key));
        match operation {
            Operation::Set(content, expire, clock) => {
                let value = new_value(&content);
                self.table.set(&key, hash, value, expire, clock);
                let modelled = Modelled { content, expire, clock };
                self.model.insert(key, modelled);
            }
            Operation::Remove => {
                let removed = self.table.remove(&key, hash);
                assert_eq!(removed.is_some(), self.model.remove(&key).is_some());
            }
            Operation::RemoveAndPutBack => {
                if let Some(removed) = self.table.remove(&key, hash) {
                    self.table.insert_entry(removed, hash);
                }
            }
            Operation::ExpireDue(now_ms) => {
                let model = &mut self.model;
                self.table.expire_due(now_ms, 0, usize::MAX, &mut |entry| {
                    let modelled = model.remove(entry.key()).expect("once");
                    assert!(modelled.expire.expect("volatile") <= now_ms);
                });
                let due = |m: &Modelled| m.expire.is_some_and(|at| at <= now_ms);
                assert!(!self.model.values().any(due));
            }
            Operation::Clear => {
                assert_eq!(self.table.clear().len(), self.model.len());
                self.model.clear();
            }
            edit => {
                if slot.is_some() {
                    self.edit(&key, edit);
                }
            }
        }
    }

    fn edit(&mut self, key: &[u8], operation: Operation) {
        let hash = self.hasher.hash(key);
        let mut slot = self.table.find(key, hash).expect("there");
        let modelled = self.model.get_mut(key).expect("there");
        let raw = |content: &Content| match content {
            Content::Int(n) => n.to_string().into_bytes(),
            Content::Bytes { bytes, .. } => bytes.clone(),
        };
        let mut bytes = raw(&modelled.content);
        match operation {
            Operation::SetValue(content) => {
                slot.set_value(new_value(&content));
                modelled.content = content;
                return;
            }
            Operation::SetInt(n) => {
                slot.set_int(n);
                modelled.content = Content::Int(n);
                return;
            }
            Operation::SetExpire(expire) => {
                slot.set_expire(expire);
                modelled.expire = expire;
                return;
            }
            Operation::SetClock(clock) => {
                slot.set_clock(clock);
                modelled.clock = clock;
                return;
            }
            Operation::Share => {
                if let ValueRef::Shared(shared) = slot.value() {
                    self.held.push((Arc::clone(shared), bytes));
                }
                return;
            }
            Operation::Append(tail) => {
                bytes.extend_from_slice(&tail);
                assert_eq!(slot.append(&tail), bytes.len());
            }
            Operation::Resize(len) => {
                bytes.resize(len, 0);
                slot.resize(len);
            }
            Operation::Fill(byte) => {
                bytes.fill(byte);
                slot.edit_bytes(|bytes| bytes.fill(byte));
            }
            _ => unreachable!("not an edit"),
        }
        modelled.content = Content::Bytes { bytes, raw: true };
    }

    fn check(&self) {
        assert_eq!(self.table.len(), self.model.len());
        let expires = || self.model.values().filter_map(|m| m.expire);
        assert_eq!(self.table.volatile_len(), expires().count());
        assert!(self.table.next_expire_ms() <= expires().min().unwrap_or(i64::MAX));
        let mut visited = 0;
        self.table.for_each(&mut |entry| {
            visited += 1;
            let modelled = &self.model[entry.key()];
            let (content, encoding) = match entry.value() {
                ValueRef::Int(n) => (Content::Int(n), Encoding::Int),
                value => {
                    let bytes = value.as_bytes().expect("a string").to_vec();
                    let raw = entry.encoding() == Encoding::Raw;
                    (Content::Bytes { bytes, raw }, entry.encoding())
                }
            };
            assert_eq!(entry.encoding(), encoding);
            assert_eq!(content, reported(&modelled.content));
            assert_eq!(entry.expire_at(), modelled.expire);
            assert_eq!(entry.clock(), modelled.clock);
            let found = self.table.get(entry.key(), self.hasher.hash(entry.key()));
            assert!(found.is_some_and(|found| std::ptr::eq(found, entry)));
        });
        assert_eq!(visited, self.model.len());
        for (shared, bytes) in &self.held {
            assert_eq!(**shared, *bytes);
        }
    }
}

fn new_value(content: &Content) -> NewValue<'_> {
    match content {
        Content::Int(n) => NewValue::Int(*n),
        Content::Bytes { bytes, raw: true } => NewValue::Raw(bytes),
        Content::Bytes { bytes, raw: false } if bytes.len().is_multiple_of(2) => {
            NewValue::Shared(Arc::new(bytes.clone()))
        }
        Content::Bytes { bytes, raw: false } => NewValue::Bytes(bytes),
    }
}

/// As it is reported: long strings are raw.
fn reported(content: &Content) -> Content {
    match content {
        Content::Int(n) => Content::Int(*n),
        Content::Bytes { bytes, raw } => Content::Bytes { bytes: bytes.clone(), raw: *raw || bytes.len() > 44 },
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else if std::env::var_os("ONRUSH_TEST_NIGHTLY").is_some() { 300 } else { 60 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_table_does_what_a_hash_map_does(
        keys in 1..400_u16,
        operations in prop::collection::vec(
            (any::<u16>(), operation()),
            if cfg!(miri) { 0..150 } else { 0..1500_usize },
        ),
    ) {
        let mut pair = Pair::new();
        for (i, (n, operation)) in operations.into_iter().enumerate() {
            pair.apply(key(n % keys), operation);
            if i % 64 == 0 {
                pair.check();
            }
        }
        pair.check();
    }
}

//! Collections in their entries do what the same collections do on their own, for any sequence of operations: embedded or not, and
//! while they go to and fro.

use std::collections::{HashMap, HashSet};
use std::mem;

use onrush_store::{
    Collection, CollectionRef, CollectionType, End, Hash, Hasher, List, ListLimits, NewValue, PairLimits, Set,
    SetLimits, SortedSet, Table, ValueRef,
};
use proptest::prelude::*;

/// So few elements that the large forms come as well.
const PAIRS: PairLimits = PairLimits { listpack_entries_max: 10, listpack_value_len_max: 64 };
const SETS: SetLimits = SetLimits { intset_entries_max: 90, listpack_entries_max: 10, listpack_value_len_max: 64 };
const LISTS: ListLimits = ListLimits { listpack_size: 10 };

/// A change of one element, whatever the type.
#[derive(Clone, Debug)]
struct Change {
    /// Which element, and what it is made of.
    element: u8,
    len: usize,
    adds: bool,
}

#[derive(Clone, Debug)]
enum Operation {
    /// Changes through one access.
    Change(Vec<Change>),
    /// The same through an access that is then forgotten, or panics.
    Lose(Vec<Change>),
    Panic(Vec<Change>),
    SetExpire(Option<i64>),
    TimeFields,
    ExpireFields(i64),
    SetClock(u32),
    /// A string in its place, and the collection again.
    Overwrite,
    RemoveAndPutBack,
    Copy,
    Remove,
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let len = prop_oneof![6 => 0..8_usize, 3 => 20..64_usize, 1 => 60..90_usize];
    let change = (0..14_u8, len, prop::bool::weighted(0.7));
    prop::collection::vec(change.prop_map(|(element, len, adds)| Change { element, len, adds }), 1..8)
}

fn operation() -> impl Strategy<Value = Operation> {
    let expire = prop_oneof![Just(None), Just(Some(1_800_000_000_000)), Just(Some(i64::MAX))];
    prop_oneof![
        20 => changes().prop_map(Operation::Change),
        1 => changes().prop_map(Operation::Lose),
        1 => changes().prop_map(Operation::Panic),
        4 => expire.prop_map(Operation::SetExpire),
        2 => Just(Operation::TimeFields),
        1 => (0..40_i64).prop_map(Operation::ExpireFields),
        2 => (0..1_u32 << 24).prop_map(Operation::SetClock),
        1 => Just(Operation::Overwrite),
        2 => Just(Operation::RemoveAndPutBack),
        1 => Just(Operation::Copy),
        1 => Just(Operation::Remove),
    ]
}

/// Short and long keys.
fn key(n: u8) -> Vec<u8> {
    let len = [5, 16, 17, 200, 255, 256][n as usize / 4 % 6];
    let mut key = vec![b'k'; len];
    key[0] = n;
    key
}

fn bytes(change: &Change) -> Vec<u8> {
    vec![b'a' + change.element; change.len]
}

/// A collection that can be changed, in an entry or not.
trait Changed: CollectionType {
    fn change(this: &mut Self, change: &Change);

    fn as_ref(&self) -> CollectionRef<'_>;

    /// The same through what an entry hands out, which may have ways of its own.
    fn change_in_entry(this: &mut Self::Mut<'_>, change: &Change) {
        Self::change(this, change);
    }
}

impl Changed for Hash {
    fn as_ref(&self) -> CollectionRef<'_> {
        CollectionRef::Hash(self)
    }

    fn change(this: &mut Self, change: &Change) {
        let (name, expiry) = ([b'f', change.element], (change.len % 5 == 4).then_some(change.len as i64));
        match (change.adds, change.len % 7) {
            (true, 0) => _ = this.set_expiry(&name, expiry),
            (true, _) => _ = this.set_with_expiry(&name, &bytes(change), expiry, &PAIRS),
            (false, _) => _ = this.remove(&name),
        }
    }

    fn change_in_entry(this: &mut Self::Mut<'_>, change: &Change) {
        let name = [b'f', change.element];
        if change.adds && !change.len.is_multiple_of(7) && change.len % 5 < 4 {
            let is_new = this.get(&name).is_none();
            assert_eq!(this.set(&name, &bytes(change), &PAIRS), is_new);
        } else {
            Self::change(this, change);
        }
    }
}

impl Changed for Set {
    fn as_ref(&self) -> CollectionRef<'_> {
        CollectionRef::Set(self)
    }

    fn change(this: &mut Self, change: &Change) {
        // Integers as long as all are.
        let member = if change.len < 20 { change.element.to_string().into_bytes() } else { bytes(change) };
        _ = if change.adds { this.insert(&member, &SETS) } else { this.remove(&member) };
    }
}

impl Changed for SortedSet {
    fn as_ref(&self) -> CollectionRef<'_> {
        CollectionRef::SortedSet(self)
    }

    fn change(this: &mut Self, change: &Change) {
        let member = [change.element; 20];
        let member = &member[..change.len.min(20)];
        _ = if change.adds { this.insert(member, change.len as f64, &PAIRS) } else { this.remove(member) };
    }
}

impl Changed for List {
    fn as_ref(&self) -> CollectionRef<'_> {
        CollectionRef::List(self)
    }

    fn change(this: &mut Self, change: &Change) {
        let end = if change.element.is_multiple_of(2) { End::Front } else { End::Back };
        match (change.adds, change.element % 3, this.len()) {
            (true, 0, len @ 1..) => this.set(change.element as usize % len, &bytes(change), &LISTS),
            (true, ..) => this.push(end, &bytes(change), &LISTS),
            (false, 0, len) => this.trim(1, len.saturating_sub(2), &LISTS),
            (false, ..) => this.drop_one(end, &LISTS),
        }
    }
}

struct Modelled<T> {
    collection: T,
    expire: Option<i64>,
    clock: u32,
}

/// A table in which all keys hold a `T`.
struct Pair<T> {
    table: Table,
    hasher: Hasher,
    model: HashMap<Vec<u8>, Modelled<T>>,
}

impl<T: Changed + Clone + PartialEq> Pair<T> {
    fn new() -> Self {
        let hasher = Hasher::seeded(9);
        Pair { table: Table::new(hasher), hasher, model: HashMap::new() }
    }

    fn apply(&mut self, key: Vec<u8>, operation: Operation) {
        let hash = self.hasher.hash(&key);
        if !self.model.contains_key(&key) {
            self.table.insert(&key, hash, T::default().into(), None, 3);
            self.model.insert(key.clone(), Modelled { collection: T::default(), expire: None, clock: 3 });
        }
        let modelled = self.model.get_mut(&key).expect("just made");
        let mut slot = self.table.find(&key, hash).expect("there");
        match operation {
            Operation::Change(changes) => {
                let mut opened = slot.into_collection_mut::<T>().expect("of this type");
                for change in &changes {
                    T::change(&mut modelled.collection, change);
                    T::change_in_entry(&mut opened, change);
                    assert!(*opened == modelled.collection);
                }
                drop(opened);
                let entry = self.table.get(&key, hash).expect("there");
                let is_small = modelled.collection.as_ref().size_bytes() <= 128 && key.len() <= 255;
                assert!(!is_small || entry.size_bytes() == size_of_val(entry), "what is small is embedded");
            }
            Operation::Lose(changes) => {
                let is_embedded = slot.size_bytes() == size_of_val(&*slot) && key.len() < 256;
                let mut opened = slot.into_collection_mut::<T>().expect("of this type");
                // What is embedded stays as it was; anything else is changed in place.
                changes.iter().for_each(|change| T::change(&mut opened, change));
                if !is_embedded {
                    changes.iter().for_each(|change| T::change(&mut modelled.collection, change));
                }
                mem::forget(opened);
            }
            Operation::Panic(changes) => {
                let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    let mut opened = slot.into_collection_mut::<T>().expect("of this type");
                    changes.iter().for_each(|change| T::change(&mut opened, change));
                    std::panic::resume_unwind(Box::new(()));
                }));
                assert!(panicked.is_err());
                changes.iter().for_each(|change| T::change(&mut modelled.collection, change));
            }
            Operation::SetExpire(expire) => {
                slot.set_expire(expire);
                modelled.expire = expire;
            }
            Operation::TimeFields => slot.time_fields(),
            Operation::ExpireFields(now_ms) => self.expire_fields(now_ms),
            Operation::SetClock(clock) => {
                slot.set_clock(clock);
                modelled.clock = clock;
            }
            Operation::Overwrite => {
                slot.set_value(NewValue::Bytes(b"string"));
                assert_eq!(slot.value(), ValueRef::Bytes(b"string"));
                assert!(slot.collection_mut::<T>().is_none());
                slot.set_value(modelled.collection.clone().into());
            }
            Operation::RemoveAndPutBack => {
                let removed = slot.remove();
                self.table.insert_entry(removed, hash);
            }
            Operation::Copy => {
                let value = slot.to_value();
                let removed = slot.remove().into_value();
                assert_eq!(value, removed);
                self.table.insert(&key, hash, NewValue::Owned(removed), modelled.expire, modelled.clock);
            }
            Operation::Remove => {
                drop(slot.remove());
                self.model.remove(&key);
            }
        }
    }

    /// Nothing happens to what is no hash, and to hashes that nobody has called timed.
    fn expire_fields(&mut self, now_ms: i64) {
        let mut gone = Vec::new();
        let mut expired = HashMap::new();
        self.table.expire_due(now_ms, 0, usize::MAX, &mut |_| panic!("no entry is due"));
        self.table.expire_fields(
            now_ms,
            usize::MAX,
            &mut |key, names| _ = expired.insert(key.to_vec(), names.to_vec()),
            &mut |removed| gone.push(removed.key().to_vec()),
        );
        for (key, names) in expired {
            let modelled: &mut dyn std::any::Any = &mut self.model.get_mut(&key).expect("there").collection;
            let hash = modelled.downcast_mut::<Hash>().expect("only a hash has fields");
            let mut due = Vec::new();
            hash.expire_due(now_ms, usize::MAX, &mut |name| due.push(name.to_vec()));
            assert_eq!(due.iter().collect::<HashSet<_>>(), names.iter().collect());
        }
        gone.iter().for_each(|key| assert!(self.model.remove(key).expect("there").collection.is_empty()));
    }

    fn check(&self) {
        assert_eq!(self.table.len(), self.model.len());
        self.table.for_each(&mut |entry| {
            let Modelled { collection, expire, clock } = &self.model[entry.key()];
            assert!(entry.collection::<T>() == Some(collection));
            let alone = collection.as_ref();
            assert_eq!(entry.value(), ValueRef::Collection(alone));
            assert_eq!((entry.encoding(), entry.ty()), (alone.encoding(), T::TYPE));
            assert_eq!((entry.expire_at(), entry.clock()), (*expire, *clock));
        });
    }

    fn run(keys: u8, operations: Vec<(u8, Operation)>) {
        let mut pair = Self::new();
        for (n, operation) in operations {
            pair.apply(key(n % keys), operation);
            pair.check();
        }
    }
}

#[test]
fn few_short_fields_are_in_one_block_with_their_key() {
    let hasher = Hasher::seeded(1);
    let mut table = Table::new(hasher);
    let (key, limits) = (b"key:000000000001", PairLimits::HASH);
    let hash = hasher.hash(key);
    let mut slot = table.insert(key, hash, Hash::default().into(), None, 0);
    assert_eq!(slot.size_bytes(), 32);
    let mut fields = slot.collection_mut::<Hash>().expect("a hash");
    (0..5).for_each(|n| _ = fields.set(format!("field{n}").as_bytes(), format!("value{n}").as_bytes(), &limits));
    drop(fields);
    assert_eq!((slot.size_bytes(), slot.size_bytes() - size_of_val(&*slot)), (96, 0));
    assert_eq!(slot.collection::<Hash>().map(Hash::len), Some(5));
    // Another field moves it, and its removal leaves it where it is; that of nearly all moves it back.
    let sizes = [b"field5", b"field4", b"field3", b"field2", b"field1", b"field0"].map(|name| {
        let mut fields = slot.collection_mut::<Hash>().expect("a hash");
        if name == b"field5" {
            fields.set(name, b"value5", &limits)
        } else {
            fields.remove(name)
        };
        drop(fields);
        slot.size_bytes()
    });
    assert_eq!(sizes, [112, 112, 112, 112, 112, 48]);
}

/// Small values of all types behind a name that is a string's afterwards.
#[test]
fn a_collection_leaves_its_entry_as_a_value() {
    let mut list = List::default();
    list.push(End::Back, b"element", &LISTS);
    let hasher = Hasher::seeded(1);
    let mut table = Table::new(hasher);
    table.set(b"k", hasher.hash(b"k"), NewValue::Collection(Collection::List(list.clone())), Some(5), 0);
    // It stands in its entry, so that none of it is left to free.
    assert_eq!(table.set(b"k", hasher.hash(b"k"), NewValue::Int(1), None, 0), None);
    table.set(b"k", hasher.hash(b"k"), list.clone().into(), None, 0);
    let removed = table.remove(b"k", hasher.hash(b"k")).expect("there");
    assert_eq!(removed.into_value(), onrush_store::Value::Collection(list.into()));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 150 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn embedded_collections_are_like_those_on_their_own(
        ty in 0..4_u8,
        keys in 1..24_u8,
        operations in prop::collection::vec((any::<u8>(), operation()), if cfg!(miri) { 0..60 } else { 0..250_usize }),
    ) {
        match ty {
            0 => Pair::<Hash>::run(keys, operations),
            1 => Pair::<Set>::run(keys, operations),
            2 => Pair::<SortedSet>::run(keys, operations),
            _ => Pair::<List>::run(keys, operations),
        }
    }
}

//! Large collections: what their changes cost, and how long one is held up to be frozen.
//!
//! `changes CASE LEN COUNT` makes `COUNT` changes of one kind to a collection of `LEN` elements, all in the function
//! [`Case::change`], which `valgrind --tool=callgrind --toggle-collect='*Case::change*'` counts alone.

use std::hint::black_box;
use std::time::Instant;

use onrush_store::{
    Collection, End, Group, Hash, List, ListLimits, PairLimits, Pending, Random, Set, SetLimits, SortedSet, Stream,
    StreamId, StreamLimits,
};

/// Changes of one kind, and lookups.
const CASES: [&str; 13] = [
    "lpush",
    "rpush",
    "lpop",
    "lset",
    "sadd",
    "sismember",
    "hset",
    "hset-new",
    "hget",
    "zadd",
    "zincrby",
    "xadd",
    "xack",
];

const ROUNDS: usize = 7;

/// The member, field or element of number `n`.
fn member(n: usize) -> [u8; 14] {
    let mut member = *b"member:0000000";
    let mut rest = n;
    for digit in member[7..].iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    member
}

/// A collection of each type, of which a case uses one.
#[derive(Default)]
pub struct Case {
    list: List,
    set: Set,
    hash: Hash,
    sorted_set: SortedSet,
    stream: Stream,
}

impl Case {
    /// With `len` elements in the collection that a case, or a type, is about.
    pub fn filled(case: &str, len: usize) -> Self {
        let mut filled = Self::default();
        let mut random = Random::new(1);
        for n in 0..len {
            let member = member(n);
            match case.as_bytes()[0] {
                b'l' | b'r' => filled.list.push(End::Back, &member, &ListLimits::default()),
                b's' => _ = filled.set.insert(&member, &SetLimits::default()),
                b'h' => _ = filled.hash.set(&member, b"value", &PairLimits::HASH),
                b'z' => _ = filled.sorted_set.insert(&member, random.below(len) as f64, &PairLimits::SORTED_SET),
                _ if case == "xack" => filled.deliver(n),
                _ => filled.append(n, &member),
            }
        }
        filled
    }

    fn append(&mut self, n: usize, value: &[u8]) {
        let id = StreamId { ms: 1_700_000_000_000 + n as u64, seq: 0 };
        self.stream.push(id, &[(b"field", value)], &StreamLimits::default());
    }

    fn deliver(&mut self, n: usize) {
        let groups = self.stream.groups_mut();
        let group = groups.entry(b"group".to_vec()).or_insert_with(|| {
            let mut group = Group::default();
            group.consumer(b"consumer", 0);
            group
        });
        let pending = Pending { consumer: Some(b"consumer"[..].into()), delivered_ms: 0, count: 1 };
        group.assign(StreamId { ms: n as u64, seq: 0 }, pending);
    }

    /// One change.
    #[inline(never)]
    fn change(&mut self, case: &str, n: usize, drawn: usize) {
        let (new, old) = (member(n), member(drawn));
        match case {
            "lpush" => self.list.push(End::Front, &new, &ListLimits::default()),
            "rpush" => self.list.push(End::Back, &new, &ListLimits::default()),
            "lpop" => self.list.drop_one(End::Front, &ListLimits::default()),
            "lset" => self.list.set(1_000, &new, &ListLimits::default()),
            "sadd" => _ = black_box(self.set.insert(&new, &SetLimits::default())),
            "sismember" => _ = black_box(self.set.contains(&old)),
            "hset" => _ = black_box(self.hash.set(&old, b"other", &PairLimits::HASH)),
            "hset-new" => _ = black_box(self.hash.set(&new, b"value", &PairLimits::HASH)),
            "hget" => _ = black_box(self.hash.get(&old)),
            "zadd" => _ = black_box(self.sorted_set.insert(&new, drawn as f64, &PairLimits::SORTED_SET)),
            "zincrby" => {
                let score = self.sorted_set.score(&old).unwrap_or_default();
                black_box(self.sorted_set.insert(&old, score + 1.0, &PairLimits::SORTED_SET));
            }
            "xack" => {
                let group = self.stream.groups_mut().get_mut(&b"group"[..]).expect("filled with one");
                let pending = Pending { consumer: Some(b"consumer"[..].into()), delivered_ms: 0, count: 1 };
                group.assign(StreamId { ms: n as u64, seq: 0 }, pending);
                black_box(group.acknowledge(StreamId { ms: drawn as u64, seq: 0 }));
            }
            _ => self.append(n, &new),
        }
    }

    /// Nanoseconds for each of `count` changes.
    fn changes_ns(&mut self, case: &str, from: usize, len: usize, count: usize) -> f64 {
        let mut random = Random::new(from as u64);
        let start = Instant::now();
        for n in from..from + count {
            self.change(case, n, random.below(len));
        }
        start.elapsed().as_nanos() as f64 / count as f64
    }
}

/// Makes changes and prints what each takes, at best of some rounds.
pub fn changes(case: &str, len: usize, count: usize) {
    if case == "all" {
        return CASES.iter().for_each(|case| changes(case, len, count));
    }
    let mut filled = Case::filled(case, len);
    let each = count / ROUNDS;
    let rounds = (0..ROUNDS).map(|round| filled.changes_ns(case, len + round * each, len, each));
    println!("{case:10} {:7.1} ns at best of {ROUNDS} rounds of {each}", rounds.fold(f64::INFINITY, f64::min));
}

/// Freezes a collection of each type and prints what that and changes after it take, at best of some rounds.
pub fn freeze(len: usize) {
    println!("{len} elements; microseconds to freeze them, for one of the slowest changes after that, and to drop it");
    for case in ["rpush", "sadd", "hset", "zincrby", "xadd", "xack"] {
        let mut case_of = Case::filled(case, len);
        let collection = case_of.take(case);
        let mut round = || {
            case_of.put(collection.clone());
            case_of.freeze_us(case, len)
        };
        let rounds: Vec<[f64; 3]> = (0..ROUNDS).map(|_| round()).collect();
        let [freeze, change, drop] =
            std::array::from_fn(|at| rounds.iter().map(|round| round[at]).fold(f64::INFINITY, f64::min));
        println!("  {case:8} {freeze:8.0} {change:8.1} {drop:8.0}");
    }
}

impl Case {
    /// What freezing takes, the slowest but 1 % of the changes after it, and what dropping the frozen copy takes.
    fn freeze_us(&mut self, case: &str, len: usize) -> [f64; 3] {
        const CHANGES: usize = 1_000;
        let us = |start: Instant| start.elapsed().as_nanos() as f64 / 1e3;
        let mut collection = self.take(case);
        let start = Instant::now();
        let frozen = collection.freeze();
        let freeze_us = us(start);
        self.put(collection);
        let mut random = Random::new(1);
        let mut changes_us: Vec<f64> = Vec::with_capacity(CHANGES);
        for n in len..len + CHANGES {
            let drawn = random.below(len);
            let start = Instant::now();
            self.change(case, n, drawn);
            changes_us.push(us(start));
        }
        changes_us.sort_unstable_by(f64::total_cmp);
        let start = Instant::now();
        drop(frozen);
        [freeze_us, changes_us[CHANGES - 1 - CHANGES / 100], us(start)]
    }

    fn take(&mut self, case: &str) -> Collection {
        match case.as_bytes()[0] {
            b'l' | b'r' => std::mem::take(&mut self.list).into(),
            b's' => std::mem::take(&mut self.set).into(),
            b'h' => std::mem::take(&mut self.hash).into(),
            b'z' => std::mem::take(&mut self.sorted_set).into(),
            _ => std::mem::take(&mut self.stream).into(),
        }
    }

    fn put(&mut self, collection: Collection) {
        match collection {
            Collection::List(list) => self.list = list,
            Collection::Set(set) => self.set = set,
            Collection::SortedSet(set) => self.sorted_set = set,
            Collection::Hash(hash) => self.hash = hash,
            Collection::Stream(stream) => self.stream = stream,
        }
    }
}

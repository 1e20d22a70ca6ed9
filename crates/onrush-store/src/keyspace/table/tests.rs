use std::collections::{HashMap, HashSet};

use super::*;
use crate::ValueRef;

fn table() -> Table {
    Table::new(Hasher::seeded(7))
}

fn key(n: usize) -> Vec<u8> {
    format!("key:{n:06}").into_bytes()
}

fn put(table: &mut Table, n: usize, expire: Option<i64>) {
    let key = key(n);
    let hash = table.books.hasher.hash(&key);
    table.set(&key, hash, NewValue::Int(n as i64), expire, 0);
}

fn take(table: &mut Table, n: usize) -> Option<Removed> {
    let key = key(n);
    let hash = table.books.hasher.hash(&key);
    table.remove(&key, hash)
}

fn has(table: &Table, n: usize) -> bool {
    let key = key(n);
    table.get(&key, table.books.hasher.hash(&key)).is_some()
}

const MANY: usize = if cfg!(miri) { 60 } else { 5000 };

#[test]
fn a_larger_class_has_more_buckets_and_none_is_passed_over() {
    assert_eq!(larger_class(0), 1);
    let classes = std::iter::successors(Some(1), |class| Some(larger_class(*class)));
    let counts: Vec<_> = classes.map(bucket_count).take(9).collect();
    assert_eq!(counts, [1, 2, 3, 4, 5, 6, 7, 8, 10]);
}

#[test]
fn a_table_grows_and_shrinks_with_its_entries() {
    let mut table = table();
    assert_eq!(table.buckets.class(), 0);
    for n in 0..MANY {
        put(&mut table, n, None);
        assert!(2 * table.len() <= 13 * table.buckets.count());
    }
    assert!(table.buckets.count() * 9 / 2 <= MANY);
    for n in 0..MANY {
        assert!(has(&table, n));
        assert!(take(&mut table, n).is_some());
        assert!(table.len() >= 2 * table.buckets.count() || table.buckets.count() < 2);
    }
    assert_eq!(table.buckets.class(), 0);
}

#[test]
fn only_a_value_kept_outside_is_handed_back_when_it_is_overwritten() {
    let mut table = table();
    let hash = table.books.hasher.hash(b"k");
    let long = vec![b'l'; 600];
    assert_eq!(table.set(b"k", hash, NewValue::Bytes(&long), None, 0), None);
    let displaced = table.set(b"k", hash, NewValue::Bytes(b"short"), Some(5), 1);
    assert_eq!(displaced.unwrap().as_ref().as_bytes(), Some(&long[..]));
    assert_eq!(table.set(b"k", hash, NewValue::Int(1), None, 2), None);
    assert_eq!((table.len(), table.volatile_len()), (1, 0));
    let entry = table.get(b"k", hash).unwrap();
    assert_eq!((entry.value(), entry.clock()), (ValueRef::Int(1), 2));
}

#[test]
fn an_entry_moves_between_tables_whole() {
    let (mut from, mut to) = (table(), table());
    put(&mut from, 1, Some(77));
    let removed = take(&mut from, 1).unwrap();
    let hash = to.books.hasher.hash(removed.key());
    let slot = to.insert_entry(removed, hash);
    assert_eq!((slot.value(), slot.expire_at()), (ValueRef::Int(1), Some(77)));
    assert_eq!((from.volatile_len(), to.volatile_len()), (0, 1));
    assert_eq!(to.next_expire_ms(), 77);
}

#[test]
fn expiry_removes_what_is_due_and_knows_when_to_come_back() {
    let mut table = table();
    for n in 0..MANY {
        put(&mut table, n, (n % 3 == 0).then_some(100 + n as i64));
    }
    assert_eq!(table.next_expire_ms(), 100);
    let none = table.expire_due(99, 0, usize::MAX, &mut |_| panic!("nothing is due"));
    assert_eq!(none, ExpireProgress::default());

    let half = 100 + MANY as i64 / 2;
    let mut removed = HashSet::new();
    let progress = table.expire_due(half, 0, usize::MAX, &mut |entry| {
        assert!(entry.is_expired(half));
        assert!(removed.insert(entry.key().to_vec()));
    });
    let due = (0..=MANY / 2).filter(|n| n % 3 == 0).count();
    let all = (0..MANY).filter(|n| n % 3 == 0).count();
    assert_eq!((progress.removed, progress.examined), (due, all));
    assert_eq!(removed.len(), due);
    assert_eq!(table.volatile_len(), all - due);
    assert!(table.next_expire_ms() > half);
    assert!(has(&table, 1) && !has(&table, 0));

    table.expire_due(i64::MAX - 1, 0, usize::MAX, &mut drop);
    assert_eq!((table.volatile_len(), table.next_expire_ms()), (0, NEVER_MS));
    assert_eq!(table.len(), MANY - all);
}

#[test]
fn expiry_within_a_budget_goes_on_where_it_stopped() {
    let mut table = table();
    for n in 0..MANY {
        put(&mut table, n, Some(1));
    }
    let first = table.expire_due(1, 0, 10, &mut drop);
    assert!((10..50).contains(&first.examined));
    let (mut from, mut removed) = (first.next, first.removed);
    while let Some(position) = from {
        let progress = table.expire_due(1, position, 10, &mut drop);
        removed += progress.removed;
        assert!(progress.next.is_none_or(|next| next > position));
        from = progress.next;
    }
    assert_eq!(removed, MANY);
    assert!(table.is_empty());
}

fn timed_hash(times: &[Option<i64>]) -> Hash {
    let limits = crate::PairLimits { listpack_entries_max: 8, listpack_value_len_max: 64 };
    let mut hash = Hash::default();
    for (n, at) in times.iter().enumerate() {
        hash.set_with_expiry(format!("f{n}").as_bytes(), b"v", *at, &limits);
    }
    hash
}

fn put_hash(table: &mut Table, n: usize, times: &[Option<i64>]) {
    let key = key(n);
    let hash = table.books.hasher.hash(&key);
    table.set(&key, hash, timed_hash(times).into(), None, 0);
}

/// Runs both passes; returns the names of expired fields and how many hashes went with them.
fn expire_all(table: &mut Table, now_ms: i64) -> (Vec<String>, usize) {
    let (mut names, mut gone) = (Vec::new(), 0);
    table.expire_due(now_ms, 0, usize::MAX, &mut |_| panic!("no entry is due"));
    let more = table.expire_fields(
        now_ms,
        usize::MAX,
        &mut |key, fields| {
            names.extend(fields.iter().map(|field| format!("{}.{}", key.escape_ascii(), field.escape_ascii())));
        },
        &mut |_| gone += 1,
    );
    assert!(!more);
    names.sort();
    (names, gone)
}

#[test]
fn fields_expire_wherever_their_hash_went() {
    let (mut from, mut to) = (table(), table());
    put_hash(&mut from, 1, &[Some(10), Some(20), None]);
    put_hash(&mut from, 2, &[Some(15)]);
    put(&mut from, 3, None);
    assert_eq!((from.volatile_len(), from.next_expire_ms()), (0, 10));
    assert!(from.random_volatile_entry(1).is_none());
    let (names, gone) = expire_all(&mut from, 10);
    assert_eq!((names, gone, from.next_expire_ms()), (vec!["key:000001.f0".to_owned()], 0, 15));
    for n in [1, 2] {
        let removed = take(&mut from, n).unwrap();
        let hash = to.books.hasher.hash(removed.key());
        to.insert_entry(removed, hash);
    }
    assert_eq!(to.next_expire_ms(), 15);
    let (names, gone) = expire_all(&mut to, 20);
    assert_eq!((names, gone), (vec!["key:000001.f1".to_owned(), "key:000002.f0".to_owned()], 1));
    assert_eq!((to.len(), to.next_expire_ms()), (1, NEVER_MS));
}

#[test]
fn a_pass_in_vain_forgets_hashes_that_are_gone() {
    let mut table = table();
    for n in 0..MANY {
        put_hash(&mut table, n, &[Some(10)]);
    }
    for n in 0..MANY {
        match n % 3 {
            0 => drop(take(&mut table, n)),
            1 => put(&mut table, n, None),
            _ => put_hash(&mut table, n, &[None]),
        }
    }
    assert_eq!(table.next_expire_ms(), 10);
    assert_eq!(expire_all(&mut table, 10), (vec![], 0));
    assert_eq!((table.books.volatile, table.next_expire_ms()), (0, NEVER_MS));
}

#[test]
fn a_field_that_is_timed_later_is_noted_by_its_slot() {
    let mut table = table();
    put_hash(&mut table, 1, &[None, None]);
    assert_eq!(table.next_expire_ms(), NEVER_MS);
    let (key, hash) = (key(1), table.books.hasher.hash(&key(1)));
    let mut slot = table.find(&key, hash).unwrap();
    slot.collection_mut::<Hash>().unwrap().set_expiry(b"f1", Some(7));
    slot.time_fields();
    slot.set_expire(Some(50));
    assert_eq!((table.volatile_len(), table.next_expire_ms()), (1, 7));
    table.find(&key, hash).unwrap().set_expire(None);
    assert_eq!((table.volatile_len(), table.next_expire_ms()), (0, 7));
    assert_eq!(expire_all(&mut table, 9).0, ["key:000001.f1"]);
}

#[test]
fn hashes_whose_fields_expire_no_more_are_found() {
    let mut table = table();
    for n in 0..100 {
        put_hash(&mut table, n, &[Some(1_000), None]);
    }
    let mut last = None;
    for n in 0..100 {
        last = table.look_for_timed_fields(last);
        assert!(last.is_some() && table.has_timed_fields());
        let (key, hash) = (key(n), table.books.hasher.hash(&key(n)));
        match n % 2 {
            0 => drop(take(&mut table, n)),
            _ => _ = table.find(&key, hash).unwrap().collection_mut::<Hash>().unwrap().set_expiry(b"f0", None),
        }
    }
    assert_eq!(table.look_for_timed_fields(last), None);
    assert!(!table.has_timed_fields());
}

#[test]
fn many_fields_expire_a_few_at_a_time() {
    let mut table = table();
    put_hash(&mut table, 1, &[Some(1); 30]);
    put_hash(&mut table, 2, &[Some(1); 30]);
    let (mut expired, mut calls, mut gone) = (0, 0, 0);
    table.expire_due(1, 0, usize::MAX, &mut drop);
    while table.expire_fields(1, 7, &mut |_, names| expired += names.len(), &mut |_| gone += 1) {
        calls += 1;
        assert!(expired <= 7 * calls && table.next_expire_ms() <= 1);
    }
    assert_eq!((expired, gone, table.len()), (60, 2, 0));
}

#[test]
fn random_entries_are_chosen_evenly() {
    const ENTRIES: usize = if cfg!(miri) { 10 } else { 50 };
    const DRAWS: usize = if cfg!(miri) { 50 } else { 50_000 };
    let mut table = table();
    assert!(table.random_entry(1).is_none());
    for n in 0..ENTRIES {
        put(&mut table, n, (n % 5 == 0).then_some(9));
    }
    let mut drawn: HashMap<_, usize> = HashMap::new();
    for n in 0..DRAWS {
        let entry = table.random_entry(n as u64).unwrap();
        *drawn.entry(entry.key().to_vec()).or_default() += 1;
        let volatile = table.random_volatile_entry(n as u64).unwrap();
        assert!(volatile.expire_at().is_some());
    }
    if !cfg!(miri) {
        let even = DRAWS / ENTRIES;
        assert_eq!(drawn.len(), ENTRIES);
        assert!(drawn.values().all(|n| (even / 2..even * 3 / 2).contains(n)), "{drawn:?}");
    }
}

#[test]
fn a_random_entry_is_found_in_a_sparse_table() {
    let mut table = table();
    for n in 0..MANY {
        put(&mut table, n, None);
    }
    put(&mut table, 3, Some(1));
    for random in 0..20 {
        assert_eq!(table.random_volatile_entry(random).unwrap().key(), key(3));
    }
}

/// Keys come, go and expire between the steps of a scan, so that the table resizes many times.
#[test]
fn a_scan_returns_every_key_that_stays_through_resizes() {
    let rounds = if cfg!(miri) { 2 } else { 200 };
    for round in 0..rounds {
        let mut random = Random::new(round);
        let mut table = table();
        let stays = if cfg!(miri) { 10 } else { random.below(300) };
        for n in 0..stays {
            put(&mut table, n, (n % 2 == 0).then_some(1_000_000));
        }
        let mut seen = HashSet::new();
        let mut position = Some(0);
        let mut extra = stays..stays;
        while let Some(at) = position {
            for _ in 0..random.below(if cfg!(miri) { 20 } else { 200 }) {
                match random.below(3) {
                    0 if !extra.is_empty() => drop(take(&mut table, extra.next().unwrap())),
                    1 => {
                        put(&mut table, extra.end, Some(random.below(100) as i64));
                        extra.end += 1;
                    }
                    _ => {
                        put(&mut table, extra.end, None);
                        extra.end += 1;
                    }
                }
            }
            if random.below(8) == 0 {
                extra.by_ref().for_each(|n| drop(take(&mut table, n)));
            }
            table.expire_due(random.below(100) as i64, 0, 1000, &mut drop);
            let next = table.scan(at, &mut |entry| {
                seen.insert(entry.key().to_vec());
            });
            assert!(next.is_none_or(|next| next > at));
            position = next;
        }
        assert!((0..stays).all(|n| seen.contains(&key(n))), "round {round}");
    }
}

#[test]
fn a_scan_of_a_resting_table_returns_every_key_once() {
    let mut table = table();
    for n in 0..MANY {
        put(&mut table, n, None);
    }
    let (mut position, mut seen) = (Some(0), 0);
    while let Some(at) = position {
        position = table.scan(at, &mut |_| seen += 1);
    }
    assert_eq!(seen, MANY);
    let mut walked = 0;
    table.for_each(&mut |_| walked += 1);
    assert_eq!(walked, MANY);
    assert_eq!(table.clear().len(), MANY);
    assert!(table.is_empty());
}

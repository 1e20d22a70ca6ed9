use std::collections::{HashMap, HashSet};

use super::spread::COLLIDING;
use super::*;
use crate::member_hash;

fn key(n: usize) -> Vec<u8> {
    format!("member:{n:07}").into_bytes()
}

fn scanned(dict: &Dict, count: usize) -> (HashSet<Vec<u8>>, usize) {
    let (mut found, mut cursor, mut visits) = (HashSet::new(), 0, 0);
    loop {
        cursor = dict.scan(cursor, count, &mut |key, _| {
            visits += 1;
            found.insert(key.to_vec());
        });
        if cursor == 0 {
            return (found, visits);
        }
    }
}

/// Inserts, overwrites and removes at random while the table grows and shrinks, against a map.
#[test]
fn agrees_with_a_map() {
    let operations = if cfg!(miri) { 700 } else { 300_000 };
    let mut random = Random::new(3);
    let mut dict = Dict::new();
    let mut model: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    for step in 0..operations {
        // The number of keys in play swells and ebbs.
        let phase = step % (operations / 3);
        let growing = phase < operations / 6;
        let key = key(random.below(20_000));
        if random.below(100) < if growing { 80 } else { 20 } {
            let len = [0, 3, 3, 8, 40, 200, 700][random.below(7)];
            let value = vec![step as u8; len];
            assert_eq!(dict.insert(&key, &[&value, b"!"]), !model.contains_key(&key));
            model.insert(key, [&value[..], b"!"].concat());
        } else {
            assert_eq!(dict.remove(&key), model.remove(&key).is_some());
        }
        assert_eq!(dict.len(), model.len());
        if step % (operations / 7) == 0 {
            assert!(model.iter().all(|(key, value)| dict.get(key) == Some(value)));
            assert_eq!(dict.iter().count(), model.len());
            let (found, visits) = scanned(&dict, 10);
            assert_eq!((found.len(), visits), (model.len(), model.len()));
            assert_eq!(dict.clone(), dict);
        }
    }
    for key in model.keys() {
        assert!(dict.remove(key));
    }
    assert_eq!((dict.len(), dict.iter().count()), (0, 0));
    assert!(cfg!(miri) || dict.segments.len() < 8, "{} segments are left", dict.segments.len());
}

#[test]
fn a_scan_returns_what_stays_whatever_comes_and_goes() {
    if cfg!(miri) {
        return;
    }
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let mut dict = Dict::new();
        let staying = 1 + random.below(5_000);
        (0..staying).for_each(|n| assert!(dict.insert(&key(n), &[])));
        let growing = seed % 2 == 0;
        if !growing {
            (10_000..40_000).for_each(|n| assert!(dict.insert(&key(n), &[])));
        }
        let (mut found, mut cursor, mut next) = (HashSet::new(), 0, 10_000);
        loop {
            cursor = dict.scan(cursor, 1 + random.below(100), &mut |key, _| _ = found.insert(key.to_vec()));
            if cursor == 0 {
                break;
            }
            for _ in 0..random.below(800) {
                if growing && next < 40_000 {
                    dict.insert(&key(next), &[]);
                } else {
                    dict.remove(&key(next));
                }
                next += 1;
            }
        }
        assert!((0..staying).all(|n| found.contains(&key(n))), "seed {seed}");
    }
}

#[test]
fn every_member_is_as_likely() {
    let mut dict = Dict::new();
    let members = 3_000;
    (0..members).for_each(|n| assert!(dict.insert(&key(n), &[])));
    let mut counts: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut random = Random::new(1);
    let draws = if cfg!(miri) { 10 } else { 300_000 };
    for _ in 0..draws {
        let (member, _) = dict.random(&mut random).unwrap();
        *counts.entry(member.to_vec()).or_default() += 1;
    }
    if !cfg!(miri) {
        // A hundred draws each; six standard deviations are 60.
        assert_eq!(counts.len(), members);
        assert!(counts.values().all(|&count| (40..160).contains(&count)));
    }
}

#[test]
fn a_member_of_a_million_takes_few_bytes() {
    if cfg!(miri) {
        return;
    }
    let mut dict = Dict::new();
    (0..200_000).for_each(|n| assert!(dict.insert(&key(n), &[])));
    let each = dict.size_bytes() / dict.len();
    assert!(each <= 28, "{each} bytes for a member of 14");
}

#[test]
fn a_table_that_nobody_shares_any_more_takes_its_segments_back() {
    let mut dict = Dict::new();
    (0..ORDERED).for_each(|n| assert!(dict.insert(&key(n), &[])));
    let owned = |dict: &Dict| dict.segments.iter().filter(|line| matches!(line.0, Part::Own(_))).count();
    let (all, frozen) = (dict.segments.len(), dict.freeze());
    dict.thaw();
    assert_eq!((owned(&dict), owned(&frozen)), (0, 0));
    dict.insert(b"other", &[]);
    assert_eq!(owned(&dict), 1);
    drop(frozen);
    dict.thaw();
    assert_eq!((owned(&dict), dict.len()), (all, ORDERED + 1));
    check(&dict);
}

/// Whether every key is where a search for it begins, and the directory is as small as promised.
fn check(dict: &Dict) {
    let mut covered = 0;
    for (id, segment) in dict.segments.iter().enumerate() {
        let range = dict.range_of(segment);
        covered += range.len();
        assert!(dict.directory[range].iter().all(|&entry| entry as usize == id));
        assert!(segment.iter().all(|(key, _)| dict.id_of(dict.spread.of_key(key)) == id));
    }
    assert_eq!((covered, dict.directory.len()), (dict.directory.len(), 1 << dict.depth));
    let free = dict.spread.number() == 2 || dict.directory.len() <= DIRECTORY_LEN_FREE;
    // The factor is for keys that were removed since.
    assert!(free || dict.directory.len() <= 4 * dict.len(), "{} for {}", dict.directory.len(), dict.len());
    assert_eq!(dict.segments.iter().map(|segment| segment.len()).sum::<usize>(), dict.len());
}

/// The first `count` of `of` keys in the order of their hashes.
fn in_hash_order(count: usize, of: usize) -> Vec<[u8; 8]> {
    let mut hashed: Vec<(u64, [u8; 8])> = (0..of).map(|n| n.to_le_bytes()).map(|n| (member_hash(&n), n)).collect();
    hashed.select_nth_unstable(count - 1);
    hashed.truncate(count);
    hashed.sort_unstable();
    hashed.into_iter().map(|(_, key)| key).collect()
}

const ORDERED: usize = if cfg!(miri) { 1_000 } else { 20_000 };

#[test]
fn keys_go_in_in_any_order_of_their_hashes() {
    let ascending = in_hash_order(ORDERED, ORDERED);
    let descending: Vec<_> = ascending.iter().rev().copied().collect();
    let from_both_ends: Vec<_> = ascending.iter().zip(&descending).flat_map(|(low, high)| [*low, *high]).collect();
    for keys in [&ascending, &descending, &from_both_ends] {
        for value_len in [0, 100, 240, 300] {
            let value = vec![b'v'; value_len];
            let mut dict = Dict::new();
            keys.iter().for_each(|key| _ = dict.insert(key, &[&value]));
            check(&dict);
            assert_eq!(dict.len(), ORDERED);
            assert!(keys.iter().all(|key| dict.get(key) == Some(&value)));
            assert!(dict.segments.len() < 40 + ORDERED / 100, "{} segments", dict.segments.len());
            keys.iter().for_each(|key| _ = dict.remove(key));
            check(&dict);
            assert_eq!((dict.len(), dict.segments.len()), (0, 1));
        }
    }
}

/// Runs of keys in the order of their hashes, up and down, with values of all lengths, removals and overwrites in
/// between, against a map.
#[test]
fn runs_in_hash_order_agree_with_a_map() {
    let ordered = in_hash_order(ORDERED, ORDERED);
    for seed in 0..if cfg!(miri) { 1 } else { 4 } {
        let mut random = Random::new(seed);
        let mut dict = Dict::new();
        let mut model: HashMap<[u8; 8], Vec<u8>> = HashMap::new();
        for _ in 0..if cfg!(miri) { 3 } else { 60 } {
            let start = random.below(ordered.len());
            let end = ordered.len().min(start + 1 + random.below(3_000));
            let mut run = ordered[start..end].to_vec();
            if random.below(2) == 0 {
                run.reverse();
            }
            let (len_max, keeps) = ([1, 30, 245, 600][random.below(4)], random.below(4) > 0);
            for key in run {
                if keeps || random.below(3) == 0 {
                    let value = vec![seed as u8; random.below(len_max)];
                    assert_eq!(dict.insert(&key, &[&value]), model.insert(key, value).is_none());
                } else {
                    assert_eq!(dict.remove(&key), model.remove(&key).is_some());
                }
            }
            check(&dict);
        }
        assert_eq!(dict.len(), model.len());
        assert!(model.iter().all(|(key, value)| dict.get(key) == Some(value)));
        let (found, visits) = scanned(&dict, 10);
        assert_eq!((found.len(), visits), (model.len(), model.len()));
    }
}

#[test]
fn a_small_part_of_all_hashes_needs_no_large_directory() {
    let (count, of) = if cfg!(miri) { (200, 400) } else { (3_000, 10_000_000) };
    let keys = in_hash_order(count, of);
    let mut dict = Dict::new();
    keys.iter().for_each(|key| assert!(dict.insert(key, &[b"value"])));
    check(&dict);
    assert!(cfg!(miri) || dict.spread.number() == 1 && dict.directory.len() <= 16);
    assert!(keys.iter().all(|key| dict.get(key) == Some(b"value")));
    assert!(keys.iter().all(|key| dict.get_hashed(member_hash(key), key) == Some(b"value")));
    keys.iter().for_each(|key| assert!(dict.remove(key)));
    assert_eq!((dict.len(), dict.segments.len()), (0, 1));
}

fn colliding(n: usize) -> Vec<u8> {
    [COLLIDING, &n.to_le_bytes()].concat()
}

#[test]
fn keys_with_one_and_the_same_hash_are_told_apart() {
    let count = if cfg!(miri) { 950 } else { 5_000 };
    let mut dict = Dict::new();
    (0..count).for_each(|n| assert!(dict.insert(&colliding(n), &[&[n as u8]])));
    check(&dict);
    assert_eq!(dict.spread.number(), 2);
    assert!((0..count).all(|n| dict.get(&colliding(n)) == Some(&[n as u8])));
    let (found, visits) = scanned(&dict, 10);
    assert_eq!((found.len(), visits), (count, count));
    (0..count).for_each(|n| assert!(dict.remove(&colliding(n))));
    assert_eq!((dict.len(), dict.segments.len()), (0, 1));
}

#[test]
fn a_scan_returns_what_stays_when_records_are_spread_anew() {
    let staying = if cfg!(miri) { 100 } else { 5_000 };
    let mut dict = Dict::new();
    (0..staying).for_each(|n| assert!(dict.insert(&key(n), &[])));
    let (mut found, mut cursor, mut next, mut calls) = (HashSet::new(), 0, 0, 0);
    loop {
        cursor = dict.scan(cursor, 10, &mut |key, _| _ = found.insert(key.to_vec()));
        assert!(cursor < 1 << 52);
        calls += 1;
        if cursor == 0 {
            break;
        }
        // The table is spread anew twice, when the scan is not far yet.
        for _ in 0..if calls < 60 { 20 } else { 0 } {
            dict.insert(&colliding(next), &[]);
            next += 1;
        }
    }
    assert!(cfg!(miri) || dict.spread.number() == 2);
    assert!((0..staying).all(|n| found.contains(&key(n))));
}

#[test]
fn a_table_for_many_keys_takes_them_in_any_order() {
    for len in [0, 1, 599, 600, 1_200, ORDERED] {
        for keys in [in_hash_order(ORDERED, ORDERED), (0..ORDERED).map(|n| n.to_le_bytes()).collect()] {
            let mut dict = Dict::for_len(len);
            keys.iter().for_each(|key| assert!(dict.insert(key, &[])));
            check(&dict);
            assert!(keys.iter().all(|key| dict.get(key) == Some(b"")));
            assert_eq!(dict.spread.number(), 0);
        }
    }
    let expected = Dict::for_len(ORDERED).segments.len();
    assert!((ORDERED / EXPECTED_LEN_MAX..=2 * ORDERED / EXPECTED_LEN_MAX + 1).contains(&expected));
}

#[test]
fn a_table_that_shrinks_gives_its_memory_back() {
    let count = if cfg!(miri) { 3_000 } else { 200_000 };
    let insertion_order: Vec<Vec<u8>> = (0..count).map(key).collect();
    let mut scan_order = insertion_order.clone();
    scan_order.sort_by_key(|key| member_hash(key));
    for order in [insertion_order, scan_order] {
        let mut dict = Dict::new();
        order.iter().for_each(|key| assert!(dict.insert(key, &[b"value"])));
        let full = dict.size_bytes();
        order[10..].iter().for_each(|key| assert!(dict.remove(key)));
        check(&dict);
        assert!(dict.size_bytes() < full / 8 && dict.size_bytes() < 4_000, "{} of {full} bytes", dict.size_bytes());
    }
}
